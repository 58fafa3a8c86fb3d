"""Reads OpenAI chat items into messages; what it does not understand it carries unchanged."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from refold.core.messages.message import (
    EMPTY,
    File,
    Message,
    Opaque,
    Part,
    Role,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.core.messages.quick_init import quick_new
from refold.formats.shared import reading
from refold.formats.shared.positions import Positions

NAME: Final = "openai"
ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_OWN_BLOCKS: Final = frozenset({"image_url", "file"})
_OWN_KEYS: Final = ("tool_calls", "tool_call_id", "function_call", "reasoning_content")
REASONING_KEYS: Final = ("reasoning_content", "reasoning")
DETAILS: Final = ("reasoning_details", "thinking_blocks")
"""Reasoning with its signatures, beside the text: OpenRouter, LiteLLM."""
_USUAL_FIELDS: Final = frozenset({"role", "content", "tool_calls"})
"""Most answers have no others."""
_IMAGE_FIELDS: Final = frozenset({"type", "image_url"})
_CALL_FIELDS: Final = frozenset({"id", "type", "function"})
_FUNCTION_FIELDS: Final = frozenset({"name", "arguments"})
_make_call, _make_result = quick_new(ToolCall), quick_new(ToolResult)


def recognise(item: Any) -> str:
    """Return the path of what only OpenAI chat has: `tool_calls`, tool roles, its own media blocks."""
    if not isinstance(item, dict) or "parts" in item or "type" in item:
        return ""
    for key in _OWN_KEYS:
        if item.get(key) is not None:
            return f".{key}"
    role = item.get("role")
    if isinstance(role, str) and role in ("tool", "function"):
        return ".role"
    return reading.find_block(item, lambda block: reading.block_type(block) in _OWN_BLOCKS)


def parse(items: Sequence[Any]) -> tuple[Message, ...]:
    """Read a history."""
    return reading.read_items("OpenAI chat", items, partial(_read_message, Positions()))


def parse_behind(
    before: Sequence[Any], items: Sequence[Any], positions: Positions | None = None
) -> tuple[Message, ...]:
    """Read what stands behind items that `parse` has read: of those only the calls and results matter.

    positions   what stands before all of them; `before` is noted there, and `items` are not
    """
    positions = positions or Positions()
    for item in before:
        role = ROLES.get(item["role"])
        if role == "tool":
            _read_result(item, positions)
        elif role == "assistant" and (item.get("tool_calls") or item.get("function_call")):
            _read_assistant(item, positions)
    return reading.read_items("OpenAI chat", items, partial(_read_message, positions.copy()))


def _read_message(positions: Positions, item: dict[str, Any]) -> Message:
    role_name = item.get("role")
    role = ROLES.get(role_name if type(role_name) is str else reading.text_at(item, "role"))
    if role is None:
        return reading.carry_unknown_role(NAME, item, item["role"])
    parts: tuple[Part, ...]
    if role == "tool":
        parts = (_read_result(item, positions),)
    else:
        parts = _read_assistant(item, positions) if role == "assistant" else _read_content(item)
    wire = reading.make_wire(NAME, item, parts)
    if "id" not in item and "name" not in item:  # as in most messages
        return reading.make_message(role, parts, wire=wire)
    name = reading.optional_text(item, "name")
    return reading.make_message(role, parts, id=reading.item_id(item), name=name, wire=wire)


def _read_content(item: dict[str, Any]) -> tuple[Part, ...]:
    content = item.get("content")
    if type(content) is str or isinstance(content, str):
        return (reading.make_text(content),)
    return reading.read_blocks(reading.optional_list(item, "content"), ".content", _read_block)


def _read_assistant(item: dict[str, Any], positions: Positions) -> tuple[Part, ...]:
    """Read the parts of an assistant message in the order of `find_raws`."""
    parts: list[Part] = []
    has_more = not _USUAL_FIELDS.issuperset(item)
    if has_more and has_reasoning(item):
        texts = [item[key] for key in REASONING_KEYS if isinstance(item.get(key), str)]
        details = {key: item[key] for key in DETAILS if item.get(key)}
        parts.append(Thinking(texts[0] if texts else "", extra=details or EMPTY))
    content = item.get("content")
    if type(content) is str or isinstance(content, str):
        if content:
            parts.append(reading.make_text(content))
    elif content is not None:
        parts += reading.read_blocks(reading.optional_list(item, "content"), ".content", _read_block)
    if has_more and reading.optional_text(item, "refusal"):
        parts.append(reading.make_text(item["refusal"], extra=reading.REFUSAL))
    if "tool_calls" in item and (calls := reading.optional_list(item, "tool_calls")):
        parts += reading.read_blocks(calls, ".tool_calls", partial(_read_call, positions))
    if has_more and item.get("function_call") is not None:
        function = reading.object_at(item, "function_call")
        name = reading.text_at(function, "name", ".function_call")
        arguments = _read_arguments(function, ".function_call")
        parts.append(_make_call(positions.call(None, name), name, arguments))
    return tuple(parts)


def find_raws(item: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the field and the JSON value of each part of a message that was read; None if it has no value.

    Found in the item when it is written: kept with every message, they would take more than its values.
    """
    content = item.get("content")
    blocks = content if isinstance(content, list) else [content] if content else []
    found = [("content", block) for block in blocks]
    if item["role"] != "assistant":
        return found
    return [
        *([("reasoning", None)] if has_reasoning(item) else []),
        *found,
        *([("refusal", None)] if item.get("refusal") else []),
        *[("tool_calls", call) for call in item.get("tool_calls") or ()],
        *([("function_call", None)] if item.get("function_call") is not None else []),
    ]


def has_reasoning(item: Mapping[str, Any]) -> bool:
    """True if a message contains its reasoning."""
    if not any(map(item.get, (*REASONING_KEYS, *DETAILS))):
        return False
    return any(isinstance(item.get(key), str) for key in REASONING_KEYS) or any(
        isinstance(item.get(key), list) for key in DETAILS
    )


def _read_block(block: dict[str, Any]) -> Part:
    kind = reading.block_type(block)
    if kind == "text":
        return reading.read_text(block)
    if kind == "refusal":
        return reading.make_text(reading.text_at(block, "refusal"), reading.REFUSAL)
    if kind == "image_url":
        source = block.get("image_url")
        if isinstance(source, dict):
            url = reading.text_at(source, "url", ".image_url")
            detail = reading.optional_text(source, "detail", ".image_url")
        else:  # some servers take the URL itself
            url, detail = reading.text_at(block, "image_url"), None
        return reading.to_image(url, detail=detail, extra=reading.other_fields(block, _IMAGE_FIELDS))
    if kind == "input_audio":
        sound = reading.object_at(block, "input_audio")
        encoding = reading.optional_text(sound, "format", ".input_audio")
        data = reading.optional_text(sound, "data", ".input_audio")
        return File(data=data, media_type=f"audio/{encoding}" if encoding else None)
    if kind == "file":
        file = reading.object_at(block, "file")
        name, data, file_id = (
            reading.optional_text(file, key, ".file") for key in ("filename", "file_data", "file_id")
        )
        return reading.to_file(name, data, None, file_id)
    return reading.carry_block(block)


def _read_call(positions: Positions, call: dict[str, Any]) -> Part:
    kind = reading.block_type(call)
    arguments: str | dict[str, Any]
    extra: Mapping[str, Any]
    if kind == "custom":
        custom = reading.object_at(call, "custom")
        name = reading.text_at(custom, "name", ".custom")
        arguments, extra = reading.text_at(custom, "input", ".custom"), {"type": "custom"}
    elif kind in ("function", ""):
        function = reading.object_at(call, "function")
        name = reading.text_at(function, "name", ".function")
        arguments = _read_arguments(function, ".function")
        extra = reading.other_fields(call, _CALL_FIELDS)
        inner = reading.other_fields(function, _FUNCTION_FIELDS)
        extra = extra if inner is EMPTY else {**extra, "function": inner}
    else:
        return Opaque(kind, call)
    return _make_call(positions.call(reading.optional_text(call, "id"), name), name, arguments, extra)


def _read_arguments(function: dict[str, Any], path: str) -> str | dict[str, Any]:
    """Return the arguments, which are JSON text; some local servers send the object itself."""
    arguments = function.get("arguments")
    if arguments is None:
        return ""
    if not isinstance(arguments, (str, dict)):
        raise reading.Misfit(f"{path}.arguments", f"expected JSON text, found {reading.json_type(arguments)}")
    return arguments


def _read_result(item: dict[str, Any], positions: Positions) -> ToolResult:
    name = reading.optional_text(item, "name") or reading.optional_text(item, "tool_name")
    parts = _read_content(item)
    call_id = None if item["role"] == "function" else reading.optional_text(item, "tool_call_id")
    return _make_result(positions.result(call_id, name), parts, name=name)
