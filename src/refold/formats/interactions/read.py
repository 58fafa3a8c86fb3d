"""Reads steps of Gemini's Interactions API; what it does not understand it carries unchanged."""

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
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.formats.shared import reading
from refold.formats.shared.wire_kinds import is_interaction_step

NAME: Final = "interactions"
SPEAKERS: Final[Mapping[str, Role]] = {"user_input": "user", "model_output": "assistant"}
"""The steps that hold content, and who speaks in them."""
CALL: Final = "function_call"
RESULT: Final = "function_result"
_DATA: Final = frozenset({RESULT, "mcp_server_tool_result"})  # what Google's own tools gave is not changed
_CALL_FIELDS: Final = frozenset({"type", "id", "name", "arguments"})
_RESULT_FIELDS: Final = frozenset({"type", "call_id", "result", "is_error", "name"})
_THOUGHT_FIELDS: Final = frozenset({"type", "signature"})
_MEDIA_FIELDS: Final = frozenset({"type", "data", "uri", "mime_type"})


def recognise(item: Any) -> str:
    """Return the path of what only the Interactions API has: its types of steps."""
    return ".type" if isinstance(item, dict) and "role" not in item and is_interaction_step(item) else ""


def parse(items: Sequence[Any]) -> tuple[Message, ...]:
    """Read a history."""
    return reading.read_items("Interactions", items, _read_step)


def _read_step(item: dict[str, Any]) -> Message:
    kind = reading.text_at(item, "type")
    if kind in SPEAKERS:
        blocks = reading.optional_list(item, "content")
        parts = reading.read_blocks(blocks, ".content", _read_block)
        return reading.make_message(SPEAKERS[kind], parts, wire=reading.make_wire(NAME, item, parts, blocks))
    role: Role = "assistant"
    part: Part = Opaque(kind, item)
    if kind == "thought":
        part = _read_thought(item)
    elif kind.endswith("_call") and (kind == CALL or isinstance(item.get("id"), str)):
        part = _read_call(kind, item)
    elif kind.endswith("_result") and (kind == RESULT or isinstance(item.get("call_id"), str)):
        role, part = "tool", _read_result(kind, item)
    parts = (part,)
    wire = reading.make_wire(NAME, item, parts, (item,))
    return reading.make_message(role, parts, id=reading.item_id(item), wire=wire)


def _read_block(block: dict[str, Any]) -> Part:
    kind = reading.block_type(block)
    if kind == "text":
        return reading.read_text(block)
    if kind not in ("image", "document", "audio", "video"):
        return reading.carry_block(block)
    data, url, media_type = (reading.optional_text(block, key) for key in ("data", "uri", "mime_type"))
    extra = reading.other_fields(block, _MEDIA_FIELDS)
    if kind == "image":
        return Image(data=data, url=url, media_type=media_type, extra=extra)
    if kind == "document":
        return Document(data=data, url=url, media_type=media_type, extra=extra)
    return File(data=data, url=url, media_type=media_type or f"{kind}/*", extra=extra)


def _read_thought(item: dict[str, Any]) -> Thinking:
    text, signature = reading.join_texts(item, "summary"), reading.optional_text(item, "signature")
    return Thinking(text, signature=signature, extra=reading.other_fields(item, _THOUGHT_FIELDS))


def _read_call(kind: str, item: dict[str, Any]) -> ToolCall:
    name = reading.text_at(item, "name") if kind == CALL else kind.removesuffix("_call")
    arguments = reading.call_arguments(item, "arguments")
    extra = reading.other_fields(item, _CALL_FIELDS)
    if kind != CALL:
        extra = {"type": kind, **{key: item[key] for key in ("name",) if key in item}, **extra}
    return ToolCall(reading.text_at(item, "id"), name, arguments, extra)


def _read_result(kind: str, item: dict[str, Any]) -> ToolResult:
    result = item.get("result")
    if isinstance(result, str):
        content: tuple[Part, ...] = (reading.make_text(result),)
    elif isinstance(result, list) and kind == RESULT:
        content = reading.read_blocks(result, ".result", _read_block)
    else:
        path = "*.text" if isinstance(result, list) else ""  # a list has blocks, some of them media
        content = () if result is None else (Opaque("result", result, path if kind in _DATA else None),)
    extra = reading.other_fields(item, _RESULT_FIELDS)
    return ToolResult(
        reading.text_at(item, "call_id"),
        content,
        name=reading.optional_text(item, "name"),
        is_error=item.get("is_error") is True,
        extra=extra if kind == RESULT else {"type": kind, **extra},
    )
