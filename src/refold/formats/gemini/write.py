"""Writes messages as Gemini contents: as read, repaired where they were touched, or from scratch."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

from refold.core.messages.message import (
    SIGNATURE_KEYS,
    Document,
    File,
    Image,
    Message,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Wire,
)
from refold.formats.gemini.read import CALL_KEYS, KEY, KNOWN_KEYS, NAME, RESPONSE_KEYS, role_of_content
from refold.formats.shared import writing
from refold.formats.shared.positions import is_position

_ROLE_NAMES: Final[Mapping[str, str]] = {
    "assistant": "model",
    "user": "user",
    "tool": "user",
    "system": "user",
}
_SNAKE_KEYS: Final = frozenset(key for key in KNOWN_KEYS if "_" in key)


def render(messages: Sequence[Message]) -> list[Any]:
    """Write a history; untouched contents are the very objects that were read."""
    joiner = writing.ItemJoiner(
        "parts", lambda part: isinstance(part, dict) and any(key in part for key in RESPONSE_KEYS)
    )
    names: Mapping[str, str] | None = None
    for message in messages:
        wire = writing.own_wire(message, NAME)
        role = None if wire is None else role_of_content(wire.value)
        if wire is not None and writing.is_untouched(message, wire, role):
            joiner.add(wire.value, message)
            continue
        if names is None:
            names = writing.tool_names(messages)
        if wire is not None and role is not None:
            joiner.add(_rewrite(message, wire, names), message)
            continue
        if message.wire is not None and writing.is_only_thinking(message):
            continue
        # results come first
        parts = sorted(message.parts, key=lambda part: not isinstance(part, ToolResult))
        writer = _PartWriter(names, native=message.wire is None)
        item = {"role": _ROLE_NAMES[message.role], "parts": writer.parts([(part, None) for part in parts])}
        last = joiner.items[-1] if joiner.items else {}
        if writing.is_only_results(message):
            joiner.add_results(item)
        elif message.calls and last.get("role") == "model" and isinstance(last.get("parts"), list):
            # calls must stand directly behind the user or a response, so they join the reply before them
            joiner.add_calls(item)
        else:
            joiner.add(item, message)
    return joiner.items


def _rewrite(message: Message, wire: Wire, names: Mapping[str, str]) -> dict[str, Any]:
    """Write a content that was read and then touched; what was not touched in it stays as it was."""
    item = dict(wire.value)
    if role_of_content(item) != message.role:
        item["role"] = _ROLE_NAMES[message.role]
    values = (value for raw in wire.raws for value in raw.values() if isinstance(value, dict))
    writer = _PartWriter(
        names,
        explicit_ids={name for value in values if isinstance(name := value.get("id"), str)},
        snake=any(key in _SNAKE_KEYS for raw in wire.raws for key in raw),
        inner=_find_response_fields(wire),
    )
    item["parts"] = writer.parts(writing.pair_with_raw(message.parts, writing.raw_by_part_id(wire)))
    return item


def _find_response_fields(wire: Wire) -> dict[int, tuple[str | None, Any]]:
    """Map `id(part)` of each part inside a result to its field and JSON value; media have no field."""
    fields: dict[int, tuple[str | None, Any]] = {}
    for part, raw in zip(wire.parts, wire.raws, strict=True):
        if isinstance(part, ToolResult):
            value = next(raw[key] for key in RESPONSE_KEYS if raw.get(key))
            places = [
                *(value.get("response") or {}).items(),
                *((None, media) for media in value.get("parts") or ()),
            ]
            fields.update(zip(map(id, part.content), places, strict=True))
    return fields


@dataclass(frozen=True, slots=True)
class _PartWriter:
    """Writes parts that are new or changed."""

    names: Mapping[str, str]
    """Tool names by call id: a response must have one."""
    _: KW_ONLY
    native: bool = True
    """True if unknown fields, thoughts and opaque parts belong to this format."""
    explicit_ids: AbstractSet[str] = frozenset()
    """Ids that are written although they look as if they were made from a position."""
    snake: bool = False
    """True if field names are spelled with underscores."""
    inner: Mapping[int, tuple[str | None, Any]] = field(default_factory=dict)
    """Field and JSON value of the parts inside results that were read, by identity."""

    def parts(self, pairs: Sequence[writing.PartWithRaw]) -> list[Any]:
        """Write all parts; there is always at least one."""
        parts = [self.part(part) if raw is None else raw for part, raw in pairs]
        return [part for part in parts if part is not None] or [{"text": writing.NO_CONTENT}]

    def part(self, part: Part) -> writing.Block | None:
        """Write one part; None for a part that is better left out."""
        if isinstance(part, Opaque):
            block = writing.opaque_block(part, native=self.native, typed=False)
            return block or {"text": writing.placeholder(part)}
        extra = dict(writing.native_extra(part, native=self.native))
        if isinstance(part, Text):
            return {"text": part.text, **extra} if part.text or extra else None
        if isinstance(part, Thinking):
            if not self.native:
                return None
            signature = {self.spell(*SIGNATURE_KEYS): part.signature} if part.signature else {}
            return {"text": part.text, "thought": True, **signature, **extra}
        if isinstance(part, ToolCall):
            inner = extra.pop("functionCall", {})
            arguments = writing.arguments_as_object(part.arguments)
            call = {**self.id_field(part.id, part.name), "name": part.name, "args": arguments, **inner}
            return {self.spell(*CALL_KEYS): call, **extra}
        if isinstance(part, ToolResult):
            inner = extra.pop("functionResponse", {})
            return {self.spell(*RESPONSE_KEYS): {**self.response(part), **inner}, **extra}
        media = self.media(part)
        return {"text": writing.placeholder(part)} if media is None else {**media, **extra}

    def response(self, result: ToolResult) -> dict[str, Any]:
        """Write a response: each text under the field it came from, else as output or error."""
        name = result.name or self.names.get(result.call_id) or "tool"
        fields: dict[str, Any] = {}
        texts: dict[str, list[str]] = {}
        media: list[Any] = []
        for part in result.content:
            default = "error" if result.is_error else "output"
            key, value = self.inner.get(id(part)) or self.response_field(part, default)
            if key is None:
                media.append(value)
                continue
            fields[key] = value
            if isinstance(value, str):
                texts.setdefault(key, []).append(value)
        fields.update((key, "\n".join(lines)) for key, lines in texts.items())
        tail = {"parts": media} if media else {}
        return {**self.id_field(result.call_id, name), "name": name, "response": fields, **tail}

    def response_field(self, part: Part, default: str) -> tuple[str | None, Any]:
        """Return the field of a response and the value for a new part of a result; no field for media."""
        if isinstance(part, Opaque) and self.native:
            return part.kind, part.value
        if isinstance(part, (Image, Document, File)) and not getattr(part, "text", None):
            media = self.media(part)
            return (default, writing.placeholder(part)) if media is None else (None, media)
        if isinstance(part, Text):
            return writing.native_extra(part, native=self.native).get(KEY, default), part.text
        return default, writing.to_plain_text((part,))

    def id_field(self, call_id: str, name: str) -> dict[str, str]:
        """Return the id as a field; no field if the id was made from a position."""
        return {"id": call_id} if call_id in self.explicit_ids or not is_position(call_id, name) else {}

    def media(self, part: Image | Document | File) -> writing.Block | None:
        """Write an image or file; None if Gemini cannot read it."""
        if isinstance(part, Document) and part.text is not None:
            return {"text": part.text}
        media_type = {self.spell("mimeType", "mime_type"): part.media_type} if part.media_type else {}
        if part.data is not None:
            return {self.spell("inlineData", "inline_data"): {**media_type, "data": part.data}}
        # Gemini reads only URIs of its own file store, so an address from another format is useless
        if part.url and self.native:
            uri = {self.spell("fileUri", "file_uri"): part.url}
            return {self.spell("fileData", "file_data"): {**media_type, **uri}}
        return None

    def spell(self, camel: str, snake: str) -> str:
        """Spell a field's name as the content around it does."""
        return snake if self.snake else camel
