"""Writes messages as Anthropic items: as they were read, mended where touched, or anew."""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from refold.core.messages.message import (
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
from refold.formats.anthropic.read import CALL_ID, NAME, ROLES
from refold.formats.shared import checks, writing


def render(messages: Sequence[Message]) -> list[Any]:
    """Write a history; untouched messages are the very objects that were read."""
    joined = writing.Joined("content", _is_result)
    own: set[str] | None = None
    for message in messages:
        wire = message.wire
        if wire is not None and wire.format == NAME and _untouched(message, wire):
            joined.add(wire.value, message)
            continue
        if wire is not None and wire.format == NAME and wire.value["role"] in ROLES:
            joined.add(_rebuilt(message, wire), message)
            continue
        if own is None:
            own = _own_ids(messages)
        item = _built(message, own, native=wire is None)
        if item["content"] == writing.NOTHING and writing.only_thinking(message):
            continue
        if message.parts and all(isinstance(part, ToolResult) for part in message.parts):
            joined.add_results(item)
        else:
            joined.add(item, message)
    return joined.items


def _is_result(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def _untouched(message: Message, wire: Wire) -> bool:
    role = ROLES.get(wire.value["role"])
    return writing.same_parts(message, wire) and (role is None or role == message.role)


def _own_ids(messages: Sequence[Message]) -> set[str]:
    """Ids of the calls that were read from this format; they are written as they are, right or wrong."""
    read = (message for message in messages if message.wire is not None and message.wire.format == NAME)
    return {part.id for message in read for part in message.parts if isinstance(part, ToolCall)}


def _rebuilt(message: Message, wire: Wire) -> dict[str, Any]:
    """Write a message that was read and then touched: what was not touched in it stays as it was."""
    item = dict(wire.value)
    if ROLES[item["role"]] != message.role:
        item["role"] = _role(message)
    known = writing.raws_by_identity(wire)
    item["content"] = _content(writing.placed(message.parts, known), _Writing(inner=_inner_raws(wire)))
    return item


def _inner_raws(wire: Wire) -> dict[int, Any]:
    """Find the JSON value of each block inside the tool results that were read."""
    found: dict[int, Any] = {}
    for part, raw in zip(wire.parts, wire.raws, strict=False):
        if isinstance(part, ToolResult) and isinstance(raw.get("content"), list):
            found.update(zip(map(id, part.content), raw["content"], strict=True))
    return found


def _built(message: Message, own: set[str], *, native: bool) -> dict[str, Any]:
    """Write a message that was not read from this format; results come first."""
    parts = sorted(message.parts, key=lambda part: not isinstance(part, ToolResult))
    content = _content([(part, None) for part in parts], _Writing(native=native, own=own))
    return {"role": _role(message), "content": content}


def _role(message: Message) -> str:
    return "assistant" if message.role == "assistant" else "user"


def _content(parts: Sequence[writing.Placed], how: "_Writing") -> str | list[Any]:
    content = writing.content_of(parts, how.block)
    empty = checks.blank(content) if isinstance(content, str) else not content
    return writing.NOTHING if empty else content


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writing:
    """How blocks are written anew."""

    native: bool = True
    """Whether unknown fields, thinking and opaque blocks belong to this format."""
    inner: Mapping[int, Any] = field(default_factory=dict)
    """JSON values of the blocks inside results that were read, by identity."""
    own: AbstractSet[str] | None = None
    """Call ids to be written as they are; None for all."""

    def block(self, part: Part) -> writing.Block | None:
        """Write one block; None for what is better absent."""
        if isinstance(part, Opaque):
            return writing.opaque_block(part, native=self.native) or _note(part)
        extra = writing.extra_of(part, native=self.native)
        if isinstance(part, Text):
            return None if checks.blank(part.text) else {"type": "text", "text": part.text, **extra}
        if isinstance(part, Thinking):
            return _written_thinking(part, extra) if self.native else None
        if isinstance(part, ToolCall):
            given = writing.as_object(part.arguments)
            return {
                "type": "tool_use",
                "id": self.call_id(part.id),
                "name": part.name,
                "input": given,
                **extra,
            }
        if isinstance(part, ToolResult):
            return {**self.result(part), **extra}
        source = _source(part, native=self.native)
        return _note(part) if source is None else {**_media(part, source), **extra}

    def result(self, part: ToolResult) -> writing.Block:
        """Write a tool result; its content may be absent."""
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": self.call_id(part.call_id)}
        if content := writing.content_of(writing.placed(part.content, self.inner), self.block):
            block["content"] = content
        return {**block, "is_error": True} if part.is_error else block

    def call_id(self, call_id: str) -> str:
        """Make an id of another provider one that Anthropic takes; the same for a call and its result."""
        if self.own is None or call_id in self.own or CALL_ID.match(call_id):
            return call_id
        return re.sub(r"[^a-zA-Z0-9_-]", "_", call_id) or "_"


def _note(part: Part) -> writing.Block:
    return {"type": "text", "text": writing.marker(part)}


def _written_thinking(part: Thinking, extra: Mapping[str, Any]) -> writing.Block | None:
    """Thinking without its signature would be refused, so it is left out whole."""
    if part.redacted is not None:
        return {"type": "redacted_thinking", "data": part.redacted, **extra}
    if part.signature is None:
        return None
    return {"type": "thinking", "thinking": part.text, "signature": part.signature, **extra}


def _media(part: Part, source: dict[str, Any]) -> writing.Block:
    block: dict[str, Any] = {"type": "image" if isinstance(part, Image) else "document", "source": source}
    if isinstance(part, Document) and part.title:
        block["title"] = part.title
    return block


def _source(part: Image | Document | File, *, native: bool) -> dict[str, Any] | None:
    """Say where a picture or document comes from; None for what Anthropic cannot read."""
    if isinstance(part, Document):
        if part.text is not None:
            return {"type": "text", "media_type": part.media_type or "text/plain", "data": part.text}
    elif part.file_id is not None:
        return {"type": "file", "file_id": part.file_id} if native else None
    elif isinstance(part, File):
        return None
    if part.data is not None:
        default = "image/png" if isinstance(part, Image) else "application/pdf"
        return {"type": "base64", "media_type": part.media_type or default, "data": part.data}
    return {"type": "url", "url": part.url} if part.url else None
