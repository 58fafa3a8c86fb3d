"""Writes messages as OpenAI chat items: as they were read, mended where touched, or anew."""

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
    Text,
    ToolCall,
    ToolResult,
    Wire,
)
from refold.formats.openai_chat.read import DETAILS, NAME, REASONING, ROLES, has_reasoning, places
from refold.formats.shared import writing
from refold.formats.shared.positions import is_position

_CONTENT: Final = (Text, Image, Document, File, Opaque)
_FIELDS: Final = ("reasoning", "refusal", "function_call")
_RESULT_ROLES: Final = frozenset({"tool", "function"})


def render(messages: Sequence[Message]) -> list[Any]:
    """Write a history; untouched messages are the very objects that were read."""
    items: list[Any] = []
    old: set[str] | None = None
    ours = False
    for message in messages:
        wire = message.wire
        if wire is not None and wire.format == NAME and _untouched(message, wire):
            items.append(wire.value)
            ours = False
            continue
        if old is None:
            old = _old_ids(messages)
        if wire is not None and wire.format == NAME and wire.value["role"] in ROLES:
            items += _rebuilt(message, wire, old)
            ours = False
            continue
        if writing.only_thinking(message):
            continue
        built = _built(message, old, native=wire is None)
        if not (ours and _joins(items[-1], built[0])):
            items += built
        ours = message.role == "assistant"
    return items


def _joins(before: dict[str, Any], item: dict[str, Any]) -> bool:
    """Put calls into the assistant message of ours before them: results stand behind all calls of a group."""
    if item["content"] is not None or "tool_calls" not in item:
        return False
    before.setdefault("tool_calls", []).extend(item["tool_calls"])
    return True


def _untouched(message: Message, wire: Wire) -> bool:
    if not writing.same_parts(message, wire):
        return False
    role = ROLES.get(wire.value["role"])
    return role is None or (role == message.role and wire.value.get("name") == message.name)


def _old_ids(messages: Sequence[Message]) -> set[str]:
    """Ids of the calls that were made in the old form, so that their results are written in it."""
    read = (message for message in messages if message.wire is not None and message.wire.format == NAME)
    return {
        part.id
        for message in read
        if message.wire is not None and message.wire.value.get("function_call") is not None
        for part in message.parts[-1:]
        if isinstance(part, ToolCall)
    }


def _rebuilt(message: Message, wire: Wire, old: set[str]) -> list[Any]:
    """Write a message that was read and then touched: what was not touched in it stays as it was."""
    if wire.value["role"] in _RESULT_ROLES:
        return _rebuilt_result(message, wire, old)
    known = {
        id(part): (place, raw)
        for part, place, raw in zip(wire.parts, places(wire.value), wire.raws, strict=False)
    }
    fields: dict[str, list[Any]] = {field: [] for field in ("content", "tool_calls", "results", *_FIELDS)}
    explicit = {raw["id"] for raw in wire.raws if isinstance(raw, dict) and isinstance(raw.get("id"), str)}
    for part in message.parts:
        place, raw = known.get(id(part), ("", None))
        if place == "content" or (not place and isinstance(part, _CONTENT)):
            fields["content"].append((part, raw))
        elif place:
            fields[place].append(raw)
        elif isinstance(part, ToolResult):
            fields["results"].append(part)
        elif isinstance(part, ToolCall) and part.id in old:
            fields["function_call"].append(_function(part))
        elif isinstance(part, ToolCall):
            named = part.id in explicit or not is_position(part.id, part.name)
            fields["tool_calls"].append(_written_call(part, native=True, named=named))
    return [*(_written_result(part, old) for part in fields["results"]), _filled(message, wire, fields)]


def _filled(message: Message, wire: Wire, fields: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Put the parts back into a copy of the message; unknown fields keep their place."""
    item = dict(wire.value)
    if ROLES[item["role"]] != message.role:
        item["role"] = _role(message)
    _rename(item, message.name)
    if fields["content"]:
        write = partial(_written, native=True, role=message.role)
        item["content"] = writing.content_of(fields["content"], write)
    elif item.get("content"):
        item["content"] = None if fields["tool_calls"] or fields["function_call"] else ""
    if wire.value["role"] == "assistant":
        _fill_beside(item, fields)
    return item


def _fill_beside(item: dict[str, Any], fields: Mapping[str, list[Any]]) -> None:
    """Put back, or take out, what an assistant message has beside its content."""
    if fields["tool_calls"]:
        item["tool_calls"] = fields["tool_calls"]
    elif item.get("tool_calls"):
        del item["tool_calls"]
    if not fields["function_call"] and item.get("function_call") is not None:
        del item["function_call"]
    elif fields["function_call"] and fields["function_call"][0] is not None:
        item["function_call"] = fields["function_call"][0]
    if not fields["refusal"] and item.get("refusal"):
        item["refusal"] = None
    if not fields["reasoning"] and has_reasoning(item):
        for key in (*REASONING, DETAILS):
            item.pop(key, None)


def _rename(item: dict[str, Any], name: str | None) -> None:
    if name is not None:
        item["name"] = name
    elif item.get("name") is not None:
        del item["name"]


def _rebuilt_result(message: Message, wire: Wire, old: set[str]) -> list[Any]:
    part = message.parts[0] if len(message.parts) == 1 else None
    was = wire.parts[0]
    if message.role != "tool" or not isinstance(part, ToolResult) or not isinstance(was, ToolResult):
        return _built(message, old, native=True)
    item = dict(wire.value)
    _rename(item, message.name)
    if part.call_id != was.call_id:
        item["tool_call_id"] = part.call_id
    if part.content is not was.content:
        raws = item.get("content")
        known = dict(zip(map(id, was.content), raws, strict=True)) if isinstance(raws, list) else {}
        item["content"] = writing.content_of(writing.placed(part.content, known), _text_block) or ""
    return [item]


def _built(message: Message, old: set[str], *, native: bool) -> list[Any]:
    """Write a message that was not read from this format."""
    items = [_written_result(part, old) for part in message.results]
    rest = [part for part in message.parts if not isinstance(part, ToolResult)]
    if items and not rest:
        return items
    role = _role(message)
    calls = [_written_call(part, native=native) for part in rest if isinstance(part, ToolCall)]
    parts = [(part, None) for part in rest if isinstance(part, _CONTENT)]
    content = writing.content_of(parts, partial(_written, native=native, role=message.role))
    item: dict[str, Any] = {"role": role}
    if message.name:
        item["name"] = message.name
    item["content"] = content or (None if calls else "")
    if calls:
        item["tool_calls"] = calls
    return [*items, item]


def _role(message: Message) -> Role:
    return "user" if message.role == "tool" else message.role


def _written(part: Part, *, native: bool, role: Role) -> writing.Block:
    """Write one part of a message's content; only a user may send media."""
    if isinstance(part, Opaque):
        return writing.opaque_block(part, native=native) or _text_block(part)
    extra = writing.extra_of(part, native=native)
    if isinstance(part, Text):
        if extra.get("type") == "refusal":
            return {"type": "refusal", "refusal": part.text}
        return {"type": "text", "text": part.text, **extra}
    if role == "user" and (block := _written_media(part, native=native)):
        return {**block, **extra}
    return _text_block(part)


def _written_media(part: Part, *, native: bool) -> writing.Block | None:
    if isinstance(part, Image) and (part.url or part.data):
        url = part.url or f"data:{part.media_type or 'image/png'};base64,{part.data}"
        detail = {"detail": part.detail} if part.detail else {}
        return {"type": "image_url", "image_url": {"url": url, **detail}}
    if isinstance(part, Document) and part.data:
        data = f"data:{part.media_type};base64,{part.data}" if part.media_type else part.data
        return {"type": "file", "file": {"filename": part.title or "document", "file_data": data}}
    if isinstance(part, File) and part.data and (part.media_type or "").startswith("audio/"):
        form = (part.media_type or "").removeprefix("audio/")
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": form}}
    if isinstance(part, File) and part.file_id and native:
        return {"type": "file", "file": {"file_id": part.file_id}}
    return None


def _text_block(part: Part) -> writing.Block:
    return {"type": "text", "text": writing.plain_text((part,))}


def _written_call(call: ToolCall, *, native: bool, named: bool = True) -> dict[str, Any]:
    extra = dict(writing.extra_of(call, native=native))
    inner = extra.pop("function", {})
    head = {"id": call.id} if named else {}
    if extra.get("type") == "custom":
        given = writing.as_json_text(call.arguments)
        return {**head, "type": "custom", "custom": {"name": call.name, "input": given}}
    return {**head, "type": "function", "function": {**_function(call), **inner}, **extra}


def _function(call: ToolCall) -> dict[str, Any]:
    return {"name": call.name, "arguments": writing.as_json_text(call.arguments) or "{}"}


def _written_result(result: ToolResult, old: set[str]) -> dict[str, Any]:
    text = writing.plain_text(result.content)
    if result.call_id in old:
        return {"role": "function", "name": result.name or "tool", "content": text}
    return {"role": "tool", "tool_call_id": result.call_id, "content": text}
