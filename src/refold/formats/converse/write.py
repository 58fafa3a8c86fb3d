"""Writes messages for Bedrock Converse: as read, repaired where they were touched, or from scratch."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

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
from refold.formats.converse.read import CALL_ID, NAME, ROLES, TEXT_FORMATS
from refold.formats.shared import checks, writing

_FORMATS: Final = {media_type: name for name, media_type in TEXT_FORMATS.items()}
MAX_ID: Final = 64
"""Characters of the longest call id that Bedrock accepts."""


def render(messages: Sequence[Message]) -> list[Any]:
    """Write a history; untouched messages are the very objects that were read.

    Speakers take turns, so a message of ours is joined with a neighbour of its role.
    """
    items: list[Any] = []
    before_is_read = is_ours = False
    for message in messages:
        wire = writing.own_wire(message, NAME)
        role = None if wire is None else ROLES.get(wire.value["role"])
        if wire is not None and (role is None or writing.is_untouched(message, wire, role)):
            item = wire.value
        elif wire is not None:
            item = _rewrite(message, wire)
        elif message.wire is not None and writing.is_only_thinking(message):
            continue
        else:
            writer = _BlockWriter(native=message.wire is None)
            parts = writing.put_results_first(message.parts)
            blocks = writer.blocks([(part, None) for part in parts])
            item = {"role": writing.two_sided_role(message), "content": blocks}
        last = items[-1] if items else {}
        if last.get("role") != item["role"] or (wire is not None and before_is_read):
            items.append(item)
            is_ours = wire is None
        else:
            if not is_ours:  # nothing that was read is changed
                items[-1] = last = {**last, "content": [*(last.get("content") or ())]}
                is_ours = True
            last["content"] += item.get("content") or ()
            last["content"].sort(key=lambda block: "toolResult" not in block)
        before_is_read = wire is not None
    return items


def _rewrite(message: Message, wire: Wire) -> dict[str, Any]:
    """Write a message that was read and then touched; what was not touched in it stays as it was."""
    item = writing.copy_item(message, wire, ROLES)
    inner: dict[int, Any] = {}
    for part, raw in zip(wire.parts, wire.raws, strict=True):
        if isinstance(part, ToolResult):
            inner |= writing.raw_by_inner_id(part, raw["toolResult"].get("content"))
    writer = _BlockWriter(inner=inner)
    item["content"] = writer.blocks(writing.pair_with_raw(message.parts, writing.raw_by_part_id(wire)))
    return item


@dataclass(frozen=True, slots=True, kw_only=True)
class _BlockWriter:
    """Writes blocks that are new or changed."""

    native: bool = True
    """True if unknown fields, reasoning and opaque blocks belong to this format."""
    inner: Mapping[int, Any] = field(default_factory=dict)
    """JSON values of the blocks inside results that were read, by identity."""

    def blocks(self, pairs: Sequence[writing.PartWithRaw]) -> list[Any]:
        """Write blocks; there is always at least one."""
        written = [self.block(part) if raw is None else raw for part, raw in pairs]
        return [block for block in written if block is not None] or [{"text": writing.NO_CONTENT}]

    def block(self, part: Part) -> writing.Block | None:
        """Write one block; None for a part that is better left out."""
        if isinstance(part, Opaque):
            is_own = self.native and recognise_block(part.value)
            return part.value if is_own else {"text": writing.placeholder(part)}
        if isinstance(part, Text):
            return None if checks.is_blank(part.text) else {"text": part.text}
        if isinstance(part, Thinking):
            return self.thought(part)
        extra = writing.native_extra(part, native=self.native)
        if isinstance(part, ToolCall):
            arguments = writing.arguments_as_object(part.arguments)
            call = {"toolUseId": self.call_id(part.id), "name": part.name, "input": arguments}
            return {"toolUse": {**call, **extra}}
        if isinstance(part, ToolResult):
            content = self.blocks(writing.pair_with_raw(part.content, self.inner))
            result = {"toolUseId": self.call_id(part.call_id), "content": content}
            return {"toolResult": {**result, **({"status": "error"} if part.is_error else {}), **extra}}
        return _write_media(part, native=self.native) or {"text": writing.placeholder(part)}

    def thought(self, part: Thinking) -> writing.Block | None:
        """Write reasoning of this format; None for any other, which would be refused."""
        if not self.native:
            return None
        if part.redacted is not None:
            return {"reasoningContent": {"redactedContent": part.redacted}}
        if part.signature is None:
            return None
        thought = {"text": part.text, "signature": part.signature, **part.extra}
        return {"reasoningContent": {"reasoningText": thought}}

    def call_id(self, call_id: str) -> str:
        """Make an id of another provider acceptable; the result is the same for a call and its result."""
        if CALL_ID.match(call_id):
            return call_id
        plain = re.sub(r"[^a-zA-Z0-9_-]", "_", call_id) or "_"
        # ids that are too long differ at their ends more often than at their beginnings
        return plain[-MAX_ID:]


def recognise_block(value: Any) -> bool:
    """True if a value is a block of this format: an object with one field and no type."""
    return isinstance(value, dict) and len(value) == 1 and "type" not in value


def _write_media(part: Image | Document | File, *, native: bool) -> writing.Block | None:
    """Write an image, document, sound or video; None if Bedrock cannot read it."""
    kind, _, name = (part.media_type or "").partition("/")
    if isinstance(part, Document) and part.text is not None:
        source: dict[str, Any] = {"text": part.text}
    elif part.data is not None:
        source = {"bytes": part.data}
    elif native and part.url is not None and part.url.startswith("s3://"):
        source = {"s3Location": {"uri": part.url}}
    else:
        return None
    if isinstance(part, Image):
        return {"image": {"format": name or "png", "source": source}}
    if isinstance(part, Document):
        title = re.sub(r"[^a-zA-Z0-9 ()\[\]-]", " ", part.title or "").strip() or "document"
        encoding = _FORMATS.get(part.media_type or "", name or "txt")
        return {"document": {"format": encoding, "name": title, "source": source}}
    return {kind: {"format": name, "source": source}} if kind in ("audio", "video") else None
