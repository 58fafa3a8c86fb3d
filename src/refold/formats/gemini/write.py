"""Writes messages as Gemini items: as they were read, mended where touched, or anew."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

from refold.core.messages.message import (
    Document,
    File,
    Image,
    Message,
    Opaque,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Wire,
)
from refold.formats.gemini.read import KEY, NAME, ROLES, SIGNATURES, SPELLINGS
from refold.formats.shared import writing
from refold.formats.shared.positions import is_position

_WORDS: Final[Mapping[str, str]] = {"assistant": "model", "user": "user", "tool": "user", "system": "user"}
_SNAKE: Final = frozenset(key for key in SPELLINGS if "_" in key)


def render(messages: Sequence[Message]) -> list[Any]:
    """Write a history; untouched contents are the very objects that were read."""
    joined = writing.Joined("parts", _is_response)
    names: Mapping[str, str] | None = None
    for message in messages:
        wire = message.wire
        if wire is not None and wire.format == NAME and _untouched(message, wire):
            joined.add(wire.value, message)
            continue
        if names is None:
            names = writing.names_of_calls(messages)
        if wire is not None and wire.format == NAME and _role_of(wire.value) is not None:
            joined.add(_rebuilt(message, wire, names), message)
            continue
        if wire is not None and writing.only_thinking(message):
            continue
        item = _built(message, names, native=wire is None)
        if message.parts and all(isinstance(part, ToolResult) for part in message.parts):
            joined.add_results(item)
        elif message.calls and joined.items and _is_model(joined.items[-1]):
            joined.add_calls(item)
        else:
            joined.add(item, message)
    return joined.items


def _is_model(item: Any) -> bool:
    """Whether calls may be joined to an item: they stand directly behind the user or a response."""
    return item.get("role") == "model" and isinstance(item.get("parts"), list)


def _is_response(part: Any) -> bool:
    return isinstance(part, dict) and ("functionResponse" in part or "function_response" in part)


def _role_of(item: Mapping[str, Any]) -> Role | None:
    word = item.get("role")
    return ROLES.get("user" if word is None else word)


def _untouched(message: Message, wire: Wire) -> bool:
    role = _role_of(wire.value)
    return writing.same_parts(message, wire) and (role is None or role == message.role)


def _rebuilt(message: Message, wire: Wire, names: Mapping[str, str]) -> dict[str, Any]:
    """Write a content that was read and then touched: what was not touched in it stays as it was."""
    item = dict(wire.value)
    if _role_of(item) != message.role:
        item["role"] = _WORDS[message.role]
    how = _Writing(names, ids=_written_ids(wire), snake=_is_snake(wire), inner=_inner_places(wire))
    item["parts"] = how.parts(writing.placed(message.parts, writing.raws_by_identity(wire)))
    return item


def _written_ids(wire: Wire) -> set[str]:
    """Ids that stand on the wire, so that they are told from those made from a position."""
    values = (value for raw in wire.raws for value in raw.values() if isinstance(value, dict))
    return {found for value in values if isinstance(found := value.get("id"), str)}


def _is_snake(wire: Wire) -> bool:
    return any(key in _SNAKE for raw in wire.raws for key in raw)


def _inner_places(wire: Wire) -> dict[int, tuple[str | None, Any]]:
    """Find the field and the JSON value of each part of the results that were read; no field for media."""
    found: dict[int, tuple[str | None, Any]] = {}
    for part, raw in zip(wire.parts, wire.raws, strict=True):
        if isinstance(part, ToolResult):
            value = next(raw[key] for key in raw if raw[key] and SPELLINGS.get(key) == "response")
            places = [
                *(value.get("response") or {}).items(),
                *((None, it) for it in value.get("parts") or ()),
            ]
            found.update(zip(map(id, part.content), places, strict=True))
    return found


def _built(message: Message, names: Mapping[str, str], *, native: bool) -> dict[str, Any]:
    """Write a message that was not read from this format; results come first."""
    parts = sorted(message.parts, key=lambda part: not isinstance(part, ToolResult))
    how = _Writing(names, native=native)
    return {"role": _WORDS[message.role], "parts": how.parts([(part, None) for part in parts])}


@dataclass(frozen=True, slots=True)
class _Writing:
    """How parts are written anew."""

    names: Mapping[str, str]
    """Tool names by call id: a response must bear one."""
    _: KW_ONLY
    native: bool = True
    """Whether unknown fields, thoughts and opaque parts belong to this format."""
    ids: AbstractSet[str] = frozenset()
    """Ids to be written although they look like made from a position."""
    snake: bool = False
    """Whether field names are spelled with underscores."""
    inner: Mapping[int, tuple[str | None, Any]] = field(default_factory=dict)

    def parts(self, parts: Sequence[writing.Placed]) -> list[Any]:
        """Write all parts; there is always one."""
        written = [self.part(part) if raw is None else raw for part, raw in parts]
        return [part for part in written if part is not None] or [{"text": writing.NOTHING}]

    def part(self, part: Part) -> writing.Block | None:
        """Write one part; None for what is better absent."""
        if isinstance(part, Opaque):
            return writing.opaque_block(part, native=self.native) or {"text": writing.marker(part)}
        extra = dict(writing.extra_of(part, native=self.native))
        if isinstance(part, Text):
            return {"text": part.text, **extra} if part.text or extra else None
        if isinstance(part, Thinking):
            return self.thought(part, extra) if self.native else None
        if isinstance(part, ToolCall):
            inner = extra.pop("functionCall", {})
            given = writing.as_object(part.arguments)
            call = {**self.call_id(part.id, part.name), "name": part.name, "args": given, **inner}
            return {self.spell("functionCall", "function_call"): call, **extra}
        if isinstance(part, ToolResult):
            inner = extra.pop("functionResponse", {})
            return {
                self.spell("functionResponse", "function_response"): {**self.response(part), **inner},
                **extra,
            }
        media = self.media(part)
        return {"text": writing.marker(part)} if media is None else {**media, **extra}

    def thought(self, part: Thinking, extra: Mapping[str, Any]) -> writing.Block:
        """Write a thought with its signature."""
        signature = {self.spell(*SIGNATURES): part.signature} if part.signature else {}
        return {"text": part.text, "thought": True, **signature, **extra}

    def response(self, part: ToolResult) -> dict[str, Any]:
        """Write a response: each text under the field it came from, else as output or error."""
        name = part.name or self.names.get(part.call_id) or "tool"
        fields: dict[str, Any] = {}
        texts: dict[str, list[str]] = {}
        media: list[Any] = []
        for piece in part.content:
            key, raw = self.inner.get(id(piece)) or self.place(piece, "error" if part.is_error else "output")
            if key is None:
                media.append(raw)
                continue
            fields[key] = raw
            if isinstance(raw, str):
                texts.setdefault(key, []).append(raw)
        fields.update((key, "\n".join(lines)) for key, lines in texts.items())
        tail = {"parts": media} if media else {}
        return {**self.call_id(part.call_id, name), "name": name, "response": fields, **tail}

    def place(self, piece: Part, default: str) -> tuple[str | None, Any]:
        """Find the field of a response for a new piece of a result, or none for media."""
        if isinstance(piece, Opaque) and self.native:
            return piece.kind, piece.value
        if isinstance(piece, (Image, Document, File)) and not getattr(piece, "text", None):
            media = self.media(piece)
            return (default, writing.marker(piece)) if media is None else (None, media)
        if isinstance(piece, Text):
            return writing.extra_of(piece, native=self.native).get(KEY, default), piece.text
        return default, writing.plain_text((piece,))

    def call_id(self, call_id: str, name: str) -> dict[str, str]:
        """Give the id as a field, or no field where it was made from a position."""
        return {"id": call_id} if call_id in self.ids or not is_position(call_id, name) else {}

    def media(self, part: Image | Document | File) -> writing.Block | None:
        """Write a picture or file; an address of another provider's history is not one that Gemini reads."""
        if isinstance(part, Document) and part.text is not None:
            return {"text": part.text}
        kinds = {self.spell("mimeType", "mime_type"): part.media_type} if part.media_type else {}
        if part.data is not None:
            return {self.spell("inlineData", "inline_data"): {**kinds, "data": part.data}}
        if part.url and self.native:
            where = {self.spell("fileUri", "file_uri"): part.url}
            return {self.spell("fileData", "file_data"): {**kinds, **where}}
        return None

    def spell(self, camel: str, snake: str) -> str:
        """Spell a field's name as the content around it does."""
        return snake if self.snake else camel
