"""Writes messages as Anthropic items: as read, repaired where they were touched, or from scratch."""

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
    joiner = writing.ItemJoiner(
        "content", lambda block: isinstance(block, dict) and block.get("type") == "tool_result"
    )
    own_ids: set[str] | None = None
    for message in messages:
        wire = writing.own_wire(message, NAME)
        role = None if wire is None else ROLES.get(wire.value["role"])
        if wire is not None and writing.is_untouched(message, wire, role):
            joiner.add(wire.value, message)
            continue
        if wire is not None and role is not None:
            joiner.add(_rewrite(message, wire), message)
            continue
        if own_ids is None:
            own_ids = {
                part.id
                for other in messages
                if writing.own_wire(other, NAME) is not None
                for part in other.parts
                if isinstance(part, ToolCall)
            }
        parts = writing.put_results_first(message.parts)
        writer = _BlockWriter(native=message.wire is None, own_ids=own_ids)
        content = writer.content([(part, None) for part in parts])
        if content == writing.NO_CONTENT and writing.is_only_thinking(message):
            continue
        item = {"role": writing.two_sided_role(message), "content": content}
        if writing.is_only_results(message):
            joiner.add_results(item)
        else:
            joiner.add(item, message)
    return joiner.items


def _rewrite(message: Message, wire: Wire) -> dict[str, Any]:
    """Write a message that was read and then touched; what was not touched in it stays as it was."""
    item = writing.copy_item(message, wire, ROLES)
    if item["role"] != "system":
        item.pop("clear_at", None)
    inner: dict[int, Any] = {}
    for part, raw in zip(wire.parts, wire.raws, strict=False):
        if isinstance(part, ToolResult):
            inner |= writing.raw_by_inner_id(part, raw.get("content"))
    # a system message without content is one part, which is the message itself
    parts = [part for part in message.parts if not isinstance(part, Opaque) or part.value is not wire.value]
    pairs = writing.pair_with_raw(parts, writing.raw_by_part_id(wire))
    item["content"] = _BlockWriter(inner=inner).content(pairs)
    return item


@dataclass(frozen=True, slots=True, kw_only=True)
class _BlockWriter:
    """Writes blocks that are new or changed."""

    native: bool = True
    """True if unknown fields, thinking and opaque blocks belong to this format."""
    inner: Mapping[int, Any] = field(default_factory=dict)
    """JSON values of the blocks inside results that were read, by identity."""
    own_ids: AbstractSet[str] | None = None
    """Call ids that were read from this format and are written as they are; None means all."""

    def content(self, pairs: Sequence[writing.PartWithRaw]) -> str | list[Any]:
        """Write content, which must not be empty."""
        content = writing.write_content(pairs, self.block)
        is_empty = checks.is_blank(content) if isinstance(content, str) else not content
        return writing.NO_CONTENT if is_empty else content

    def block(self, part: Part) -> writing.Block | None:
        """Write one block; None for a part that is better left out."""
        if isinstance(part, Opaque):
            return writing.opaque_block(part, native=self.native) or _write_placeholder(part)
        extra = writing.native_extra(part, native=self.native)
        if isinstance(part, Text):
            return None if checks.is_blank(part.text) else {"type": "text", "text": part.text, **extra}
        if isinstance(part, Thinking):
            if part.redacted is not None and self.native:
                return {"type": "redacted_thinking", "data": part.redacted, **extra}
            # thinking without its signature would be refused
            if part.signature is None or not self.native:
                return None
            return {"type": "thinking", "thinking": part.text, "signature": part.signature, **extra}
        if isinstance(part, ToolCall):
            arguments = writing.arguments_as_object(part.arguments)
            head = {"type": "tool_use", "id": self.call_id(part.id), "name": part.name}
            return {**head, "input": arguments, **extra}
        if isinstance(part, ToolResult):
            block: dict[str, Any] = {"type": "tool_result", "tool_use_id": self.call_id(part.call_id)}
            if content := writing.write_content(writing.pair_with_raw(part.content, self.inner), self.block):
                block["content"] = content
            return {**block, **({"is_error": True} if part.is_error else {}), **extra}
        source = _write_source(part, native=self.native)
        if source is None:
            return _write_placeholder(part)
        title = {"title": part.title} if isinstance(part, Document) and part.title else {}
        return {
            "type": "image" if isinstance(part, Image) else "document",
            "source": source,
            **title,
            **extra,
        }

    def call_id(self, call_id: str) -> str:
        """Make an id of another provider acceptable; the result is the same for a call and its result."""
        if self.own_ids is None or call_id in self.own_ids or CALL_ID.match(call_id):
            return call_id
        return re.sub(r"[^a-zA-Z0-9_-]", "_", call_id) or "_"


def _write_placeholder(part: Part) -> writing.Block:
    return {"type": "text", "text": writing.placeholder(part)}


def _write_source(part: Image | Document | File, *, native: bool) -> dict[str, Any] | None:
    """Write the source of an image or document; None if Anthropic cannot read it."""
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
