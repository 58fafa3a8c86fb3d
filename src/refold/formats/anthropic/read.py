"""Reads Anthropic items into messages; looks only where it knows its way and carries the rest."""

import re
from collections.abc import Mapping, Sequence
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
from refold.formats.shared.reading import (
    Misfit,
    fields_besides,
    kind,
    maybe_list,
    maybe_text,
    object_at,
    read_each,
    read_items,
    role_at,
    text_at,
    type_of,
    unknown_role,
)

NAME: Final = "anthropic"
ROLES: Final[Mapping[str, Role]] = {"user": "user", "assistant": "assistant", "system": "system"}
_OWN_BLOCKS: Final = frozenset(
    {
        "tool_use",
        "tool_result",
        "redacted_thinking",
        "server_tool_use",
        "mcp_tool_use",
        "mcp_tool_result",
        "search_result",
        "container_upload",
        "compaction",
    }
)
_WITH_SOURCE: Final = frozenset({"image", "document"})
_TEXT_FIELDS: Final = frozenset({"type", "text"})
_MEDIA_FIELDS: Final = frozenset({"type", "source"})
_DOCUMENT_FIELDS: Final = frozenset({"type", "source", "title"})
_THINKING_FIELDS: Final = frozenset({"type", "thinking", "signature"})
_REDACTED_FIELDS: Final = frozenset({"type", "data"})
_CALL_FIELDS: Final = frozenset({"type", "id", "name", "input"})
_RESULT_FIELDS: Final = frozenset({"type", "tool_use_id", "content", "is_error"})
CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]+\Z")
"""What Anthropic takes as a call id; others come from other providers and are refused."""


def recognise(item: Any) -> str:
    """Find what only Anthropic has: its blocks for tools, thinking and media with a `source`."""
    if not isinstance(item, dict) or "parts" in item:
        return ""
    content = item.get("content")
    if not isinstance(content, list):
        return ""
    for index, block in enumerate(content):
        if isinstance(block, dict) and _is_own(block, item):
            return f".content[{index}]"
    return ""


def _is_own(block: dict[str, Any], item: dict[str, Any]) -> bool:
    what = type_of(block)
    if what == "text":
        return item.get("type") == "message"  # as the API answers; Responses has other words for text
    if what == "thinking":
        return isinstance(block.get("thinking"), str)
    if what in _WITH_SOURCE:
        return isinstance(block.get("source"), dict)
    return what in _OWN_BLOCKS or what.endswith("_tool_result")


def parse(items: Sequence[Any]) -> tuple[Message, ...]:
    """Read a history."""
    return read_items("Anthropic", items, _message)


def _message(item: dict[str, Any]) -> Message:
    word = role_at(item)
    role = ROLES.get(word)
    if role is None:
        return unknown_role(NAME, item, word)
    content = item.get("content")
    raws: tuple[Any, ...] = ()
    if isinstance(content, str):
        parts: tuple[Part, ...] = (Text(content),) if content else ()
    else:
        blocks = maybe_list(item, "content")
        raws = tuple(blocks)
        parts = read_each(blocks, ".content", _block)
    if len(item) == 2 and "content" in item:
        return Message(role, parts, wire=Wire(NAME, item, parts, raws))
    name = item.get("id")
    return Message(
        role, parts, id=name if isinstance(name, str) else None, wire=Wire(NAME, item, parts, raws)
    )


def _block(block: dict[str, Any]) -> Part:
    what = type_of(block)
    if what == "tool_use":
        extra = fields_besides(block, _CALL_FIELDS)
        return ToolCall(text_at(block, "id"), text_at(block, "name"), _input(block), extra)
    if what == "tool_result":
        return ToolResult(
            text_at(block, "tool_use_id"),
            _result_content(block),
            is_error=block.get("is_error") is True,
            extra=fields_besides(block, _RESULT_FIELDS),
        )
    return _inner_block(what, block)


def _inner_block(what: str, block: dict[str, Any]) -> Part:
    """Read a block that may also stand inside a tool result."""
    if what == "text":
        return Text(text_at(block, "text"), fields_besides(block, _TEXT_FIELDS))
    if what == "thinking":
        extra = fields_besides(block, _THINKING_FIELDS)
        return Thinking(text_at(block, "thinking"), signature=maybe_text(block, "signature"), extra=extra)
    if what == "redacted_thinking":
        return Thinking("", redacted=text_at(block, "data"), extra=fields_besides(block, _REDACTED_FIELDS))
    if what == "image":
        return _image(object_at(block, "source"), fields_besides(block, _MEDIA_FIELDS))
    if what == "document":
        source = object_at(block, "source")
        return _document(source, maybe_text(block, "title"), fields_besides(block, _DOCUMENT_FIELDS))
    return Opaque(what or "block", block)


def _nested(block: dict[str, Any]) -> Part:
    return _inner_block(type_of(block), block)


def _input(block: dict[str, Any]) -> str | dict[str, Any]:
    """Input is an object; text is what a stream left behind, and carried."""
    given = block.get("input")
    if given is None:
        return {}
    if not isinstance(given, (str, dict)):
        raise Misfit(".input", f"expected an object, found {kind(given)}")
    return given


def _result_content(block: dict[str, Any]) -> tuple[Part, ...]:
    content = block.get("content")
    if isinstance(content, str):
        return (Text(content),) if content else ()
    return read_each(maybe_list(block, "content"), ".content", _nested)


def _image(source: dict[str, Any], extra: Mapping[str, Any]) -> Image:
    return Image(
        **{key: _string(source, key) for key in ("url", "data", "media_type", "file_id")}, extra=extra
    )


def _document(source: dict[str, Any], title: str | None, extra: Mapping[str, Any]) -> Part:
    file_id = _string(source, "file_id")
    if file_id is not None:
        return File(name=title, file_id=file_id, extra=extra)
    data = _string(source, "data")
    if type_of(source) == "text":
        return Document(text=data, media_type=_string(source, "media_type"), title=title, extra=extra)
    return Document(
        data=data,
        url=_string(source, "url"),
        media_type=_string(source, "media_type"),
        title=title,
        extra=extra,
    )


def _string(source: dict[str, Any], key: str) -> str | None:
    return maybe_text(source, key, ".source")
