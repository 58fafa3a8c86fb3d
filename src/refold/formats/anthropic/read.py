"""Reads Anthropic items into messages; what it does not understand it carries unchanged."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from refold.core.messages.message import (
    Document,
    File,
    Image,
    Message,
    Opaque,
    Part,
    Role,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.core.messages.unread import FAILED_COMPACTION, SIGNED_COMPACTION
from refold.formats.shared import reading
from refold.formats.shared.wire_kinds import own_kinds

NAME: Final = "anthropic"
ROLES: Final[Mapping[str, Role]] = {"user": "user", "assistant": "assistant", "system": "system"}
_SHARED_BLOCKS: Final = frozenset({"text", "thinking", "image", "document"})
"""Blocks whose type other formats have too."""
TOOL_CHANGES: Final = frozenset({"tool_addition", "tool_removal"})
"""Blocks by which the operator changes the tools in the middle of a conversation."""
OUTPUT_CONFIG: Final = "output_config"
"""Kind of the only part of a system message that says nothing and changes the settings of a turn."""
_MEDIA_FIELDS: Final = frozenset({"type", "source"})
_DOCUMENT_FIELDS: Final = frozenset({"type", "source", "title"})
_THINKING_FIELDS: Final = frozenset({"type", "thinking", "signature"})
_REDACTED_FIELDS: Final = frozenset({"type", "data"})
_CALL_FIELDS: Final = frozenset({"type", "id", "name", "input"})
_RESULT_FIELDS: Final = frozenset({"type", "tool_use_id", "content", "is_error"})
_WORDS: Final = {
    "document": "source.content.*.text",
    **dict.fromkeys(("search_result", "mcp_tool_result"), "content.*.text"),
    **dict.fromkeys(("code_execution_tool_result", "bash_code_execution_tool_result"), "content.stdout"),
    "web_fetch_tool_result": "content.content.source.data",
}
"""Where carried blocks have words that may be shortened."""
CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+\Z")
"""The call ids that Anthropic accepts; ids of other providers may not match and are refused."""


def recognise(item: Any) -> str:
    """Return the path of what only Anthropic has: blocks for tools, thinking, and media with a `source`."""
    if not isinstance(item, dict) or "parts" in item:
        return ""
    own_blocks = own_kinds(NAME)

    def is_own(block: dict[str, Any]) -> bool:
        kind = reading.block_type(block)
        if kind == "text":
            # the API answers so; Responses has other words for text
            return item.get("type") == "message"
        if kind == "thinking":
            return isinstance(block.get("thinking"), str)
        if kind in ("image", "document"):
            return isinstance(block.get("source"), dict)
        return (kind in own_blocks and kind not in _SHARED_BLOCKS) or kind.endswith("_tool_result")

    if item.get("role") == "system" and "clear_at" in item:
        return ".clear_at"
    return reading.find_block(item, is_own)


def parse(items: Sequence[Any]) -> tuple[Message, ...]:
    """Read a history."""
    return reading.read_items("Anthropic", items, _read_message)


def _read_message(item: dict[str, Any]) -> Message:
    role_name = reading.text_at(item, "role")
    role = ROLES.get(role_name)
    if role is None:
        return reading.carry_unknown_role(NAME, item, role_name)
    parts, raws = reading.read_content(item, _read_block)
    if role == "system" and not parts and item.get(OUTPUT_CONFIG):
        # a system message may change the settings and say nothing
        parts, raws = (Opaque(OUTPUT_CONFIG, item),), (item,)
    wire = reading.make_wire(NAME, item, parts, raws)
    return reading.make_message(role, parts, id=reading.item_id(item), wire=wire)


def _read_block(block: dict[str, Any]) -> Part:
    kind = reading.block_type(block)
    if kind == "tool_use":
        call_id, name = reading.text_at(block, "id"), reading.text_at(block, "name")
        extra = reading.other_fields(block, _CALL_FIELDS)
        return ToolCall(call_id, name, reading.call_arguments(block, "input"), extra)
    if kind == "tool_result":
        return ToolResult(
            reading.text_at(block, "tool_use_id"),
            reading.read_content(block, _read_inner_block)[0],
            is_error=block.get("is_error") is True,
            extra=reading.other_fields(block, _RESULT_FIELDS),
        )
    return _read_inner_block(block)


def _read_inner_block(block: dict[str, Any]) -> Part:
    """Read a block that may also stand inside a tool result."""
    kind = reading.block_type(block)
    if kind == "text":
        return reading.read_text(block)
    if kind == "thinking":
        text, signature = reading.text_at(block, "thinking"), reading.optional_text(block, "signature")
        return Thinking(text, signature=signature, extra=reading.other_fields(block, _THINKING_FIELDS))
    if kind == "redacted_thinking":
        return Thinking(
            "", redacted=reading.text_at(block, "data"), extra=reading.other_fields(block, _REDACTED_FIELDS)
        )
    if kind == "compaction":
        return Opaque(_compaction_kind(block), block)
    if kind not in ("image", "document"):
        return reading.carry_block(block, _WORDS)
    source = reading.object_at(block, "source")
    text_in_source = partial(reading.optional_text, source, path=".source")
    if kind == "image":
        values = {key: text_in_source(key) for key in ("url", "data", "media_type", "file_id")}
        return Image(**values, extra=reading.other_fields(block, _MEDIA_FIELDS))
    title, extra = reading.optional_text(block, "title"), reading.other_fields(block, _DOCUMENT_FIELDS)
    if (file_id := text_in_source("file_id")) is not None:
        return File(name=title, file_id=file_id, extra=extra)
    if reading.block_type(source) == "content":
        return reading.carry_block(block, _WORDS)
    data, media_type = text_in_source("data"), text_in_source("media_type")
    if reading.block_type(source) == "text":
        return Document(text=data, media_type=media_type, title=title, extra=extra)
    url = text_in_source("url")
    return Document(data=data, url=url, media_type=media_type, title=title, extra=extra)


def _compaction_kind(block: dict[str, Any]) -> str:
    """Return the kind of a compaction block: made by threshold, made on demand and signed, or failed."""
    if not block.get("content"):
        return FAILED_COMPACTION
    return "compaction" if block.get("signature") is None else SIGNED_COMPACTION
