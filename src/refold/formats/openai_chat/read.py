"""Reads OpenAI chat items into messages; looks only where it knows its way and carries the rest."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from refold.core.messages.message import (
    EMPTY,
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
from refold.formats.shared.positions import Positions
from refold.formats.shared.reading import (
    Misfit,
    data_url,
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
REASONING: Final = ("reasoning_content", "reasoning")
DETAILS: Final = "reasoning_details"
_REFUSAL: Final[Mapping[str, Any]] = {"type": "refusal"}
_TEXT_FIELDS: Final = frozenset({"type", "text"})
_IMAGE_FIELDS: Final = frozenset({"type", "image_url"})
_CALL_FIELDS: Final = frozenset({"id", "type", "function"})
_FUNCTION_FIELDS: Final = frozenset({"name", "arguments"})


def recognise(item: Any) -> str:
    """Find what only OpenAI chat has: tool calls beside the content, tool roles, its own media blocks."""
    if not isinstance(item, dict) or "parts" in item or "type" in item:
        return ""
    for key in _OWN_KEYS:
        if item.get(key) is not None:
            return f".{key}"
    role = item.get("role")
    if isinstance(role, str) and role in ("tool", "function"):
        return ".role"
    content = item.get("content")
    if isinstance(content, list):
        for index, block in enumerate(content):
            if isinstance(block, dict) and type_of(block) in _OWN_BLOCKS:
                return f".content[{index}]"
    return ""


def parse(items: Sequence[Any]) -> tuple[Message, ...]:
    """Read a history."""
    return read_items("OpenAI chat", items, partial(_message, Positions()))


def _message(positions: Positions, item: dict[str, Any]) -> Message:
    word = role_at(item)
    role = ROLES.get(word)
    if role is None:
        return unknown_role(NAME, item, word)
    content = item.get("content")
    parts: tuple[Part, ...]
    raws: tuple[Any, ...] = ()
    if role == "tool":
        parts, raws = (_result(item, positions),), (item,)
    elif role == "assistant":
        parts, raws = _assistant(item, positions)
    elif isinstance(content, str):
        parts = (Text(content),)
    else:
        blocks = maybe_list(item, "content")
        parts, raws = read_each(blocks, ".content", _block), tuple(blocks)
    if len(item) == 2 and "content" in item:
        return Message(role, parts, wire=Wire(NAME, item, parts, raws))
    name = maybe_text(item, "name")
    return Message(role, parts, id=_id(item), name=name, wire=Wire(NAME, item, parts, raws))


def _id(item: Mapping[str, Any]) -> str | None:
    found = item.get("id")
    return found if isinstance(found, str) else None


def _assistant(item: dict[str, Any], positions: Positions) -> tuple[tuple[Part, ...], tuple[Any, ...]]:
    """Read the parts of an assistant message in the order of `places`, each beside its JSON value."""
    parts: list[Part] = []
    raws: list[Any] = []
    if has_reasoning(item):
        parts.append(_thinking(item))
        raws.append(None)
    content = item.get("content")
    if isinstance(content, str):
        if content:
            parts.append(Text(content))
            raws.append(content)
    else:
        blocks = maybe_list(item, "content")
        parts += read_each(blocks, ".content", _block)
        raws += blocks
    if maybe_text(item, "refusal"):
        parts.append(Text(item["refusal"], extra=_REFUSAL))
        raws.append(None)
    calls = maybe_list(item, "tool_calls")
    parts += read_each(calls, ".tool_calls", partial(_call, positions))
    raws += calls
    if item.get("function_call") is not None:
        parts.append(_old_call(object_at(item, "function_call"), positions))
        raws.append(None)
    return tuple(parts), tuple(raws)


def places(item: Mapping[str, Any]) -> list[str]:
    """Name the field of each part of a message that was read."""
    content = item.get("content")
    blocks = len(content) if isinstance(content, list) else int(bool(content))
    if item["role"] != "assistant":
        return ["content"] * blocks
    return [
        *(["reasoning"] if has_reasoning(item) else []),
        *["content"] * blocks,
        *(["refusal"] if item.get("refusal") else []),
        *["tool_calls"] * len(item.get("tool_calls") or ()),
        *(["function_call"] if item.get("function_call") is not None else []),
    ]


def has_reasoning(item: Mapping[str, Any]) -> bool:
    """Whether a message brings its reasoning along."""
    if not any(map(item.get, (*REASONING, DETAILS))):
        return False
    details = item.get(DETAILS)
    return any(isinstance(item.get(key), str) for key in REASONING) or isinstance(details, list)


def _thinking(item: Mapping[str, Any]) -> Thinking:
    texts = [item[key] for key in REASONING if isinstance(item.get(key), str)]
    details = item.get(DETAILS)
    return Thinking(texts[0] if texts else "", extra={DETAILS: details} if details else EMPTY)


def _block(block: dict[str, Any]) -> Part:
    what = type_of(block)
    if what == "text":
        return Text(text_at(block, "text"), fields_besides(block, _TEXT_FIELDS))
    if what == "refusal":
        return Text(text_at(block, "refusal"), _REFUSAL)
    if what == "image_url":
        return _image(block)
    if what == "input_audio":
        sound = object_at(block, "input_audio")
        form = maybe_text(sound, "format", ".input_audio")
        data = maybe_text(sound, "data", ".input_audio")
        return File(data=data, media_type=f"audio/{form}" if form else None)
    if what == "file":
        return _file(object_at(block, "file"))
    return Opaque(what or "block", block)


def _image(block: dict[str, Any]) -> Image:
    where = block.get("image_url")
    if isinstance(where, dict):
        url, detail = text_at(where, "url", ".image_url"), maybe_text(where, "detail", ".image_url")
    else:
        url, detail = text_at(block, "image_url"), None
    extra = fields_besides(block, _IMAGE_FIELDS)
    inline = data_url(url)
    if inline is None:
        return Image(url=url, detail=detail, extra=extra)
    return Image(media_type=inline[0], data=inline[1], detail=detail, extra=extra)


def _file(file: dict[str, Any]) -> Part:
    name, data, file_id = (maybe_text(file, key, ".file") for key in ("filename", "file_data", "file_id"))
    if data is None:
        return File(name=name, file_id=file_id)
    inline = data_url(data)
    if inline is None:
        return Document(title=name, data=data)
    return Document(title=name, media_type=inline[0], data=inline[1])


def _call(positions: Positions, call: dict[str, Any]) -> Part:
    what = type_of(call)
    if what == "custom":
        custom = object_at(call, "custom")
        name = text_at(custom, "name", ".custom")
        given: str | dict[str, Any] = text_at(custom, "input", ".custom")
        extra: Mapping[str, Any] = {"type": "custom"}
    elif what in ("function", ""):
        function = object_at(call, "function")
        name = text_at(function, "name", ".function")
        given = _arguments(function, ".function")
        extra = _call_extra(call, function)
    else:
        return Opaque(what, call)
    return ToolCall(positions.call(maybe_text(call, "id"), name), name, given, extra)


def _call_extra(call: dict[str, Any], function: dict[str, Any]) -> Mapping[str, Any]:
    extra = fields_besides(call, _CALL_FIELDS)
    inner = fields_besides(function, _FUNCTION_FIELDS)
    return {**extra, "function": inner} if inner else extra


def _arguments(function: dict[str, Any], at: str) -> str | dict[str, Any]:
    """Arguments are JSON text; some local servers send the object itself."""
    given = function.get("arguments")
    if given is None:
        return ""
    if not isinstance(given, (str, dict)):
        raise Misfit(f"{at}.arguments", f"expected JSON text, found {kind(given)}")
    return given


def _old_call(function: dict[str, Any], positions: Positions) -> ToolCall:
    name = text_at(function, "name", ".function_call")
    return ToolCall(positions.call(None, name), name, _arguments(function, ".function_call"))


def _result(item: dict[str, Any], positions: Positions) -> ToolResult:
    name = maybe_text(item, "name") or maybe_text(item, "tool_name")
    content = item.get("content")
    if isinstance(content, str):
        parts: tuple[Part, ...] = (Text(content),)
    else:
        parts = read_each(maybe_list(item, "content"), ".content", _block)
    old = item["role"] == "function"
    return ToolResult(
        positions.result(None if old else maybe_text(item, "tool_call_id"), name), parts, name=name
    )
