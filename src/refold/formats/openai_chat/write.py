"""Writes messages as OpenAI chat items: as read, repaired where they were touched, or from scratch."""

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
from refold.formats.openai_chat.read import DETAILS, NAME, REASONING_KEYS, ROLES, find_raws, has_reasoning
from refold.formats.shared import writing
from refold.formats.shared.positions import is_position

_CONTENT_PARTS: Final = (Text, Image, Document, File, Opaque)
_FIELDS: Final = ("content", "tool_calls", "results", "reasoning", "refusal", "function_call")


def render(messages: Sequence[Message]) -> list[Any]:
    """Write a history; untouched messages are the very objects that were read."""
    items: list[Any] = []
    bare_ids: dict[str, str] | None = None
    is_behind_own_reply = False
    for message in messages:
        wire = writing.own_wire(message, NAME)
        role = None if wire is None else ROLES.get(wire.value["role"])
        if (
            wire is not None
            and writing.is_untouched(message, wire, role)
            and (role is None or wire.value.get("name") == message.name)
        ):
            items.append(wire.value)
            is_behind_own_reply = False
            continue
        if bare_ids is None:
            bare_ids = _find_bare_ids(messages)
        if wire is not None and role is not None:
            items += _rewrite(message, wire, bare_ids)
            is_behind_own_reply = False
            continue
        if writing.is_only_thinking(message):
            continue
        new = _write_new(message, bare_ids, native=message.wire is None)
        # results stand behind all calls of a group, so calls go into the reply of ours before them
        if is_behind_own_reply and new[0]["content"] is None and "tool_calls" in new[0]:
            items[-1].setdefault("tool_calls", []).extend(new[0]["tool_calls"])
        else:
            items += new
        is_behind_own_reply = message.role == "assistant"
    return items


def _find_bare_ids(messages: Sequence[Message]) -> dict[str, str]:
    """Return the ids of calls that came without one: their results get none. With a name in the old form."""
    return {
        part.id: (part.name or "tool") if raw is None else ""
        for message in messages
        if (wire := writing.own_wire(message, NAME)) and ToolCall in map(type, wire.parts)
        for part, (_, raw) in zip(wire.parts, find_raws(wire.value), strict=False)
        if isinstance(part, ToolCall) and (raw is None or raw.get("id") is None)
    }


def _rewrite(message: Message, wire: Wire, bare_ids: Mapping[str, str]) -> list[Any]:
    """Write a message that was read and then touched; what was not touched in it stays as it was."""
    if wire.value["role"] in ("tool", "function"):
        return _rewrite_result(message, wire, bare_ids)
    raws = find_raws(wire.value)
    known = {id(part): found for part, found in zip(wire.parts, raws, strict=False)}
    fields: dict[str, list[Any]] = {field: [] for field in _FIELDS}
    explicit = {raw["id"] for _, raw in raws if isinstance(raw, dict) and isinstance(raw.get("id"), str)}
    for part in message.parts:
        field, raw = known.get(id(part), ("", None))
        if field == "content" or (not field and isinstance(part, _CONTENT_PARTS)):
            fields["content"].append((part, raw))
        elif field:
            fields[field].append(raw)
        elif isinstance(part, ToolResult):
            fields["results"].append(_write_result(part, bare_ids))
        elif isinstance(part, ToolCall) and bare_ids.get(part.id):
            fields["function_call"].append(_write_function(part))
        elif isinstance(part, ToolCall):
            has_id = part.id in explicit or not is_position(part.id, part.name)
            fields["tool_calls"].append(_write_call(part, native=True, has_id=has_id))
    return [*fields["results"], _fill_item(message, wire, fields)]


def _fill_item(message: Message, wire: Wire, fields: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Put the parts into a copy of the item; unknown fields keep their place."""
    item = dict(wire.value)
    if ROLES[item["role"]] != message.role:
        item["role"] = writing.user_or_own_role(message)
    _set_name(item, message.name)
    if fields["content"]:
        write = partial(_write_block, native=True, role=message.role)
        item["content"] = writing.write_content(fields["content"], write)
    elif item.get("content"):
        item["content"] = None if fields["tool_calls"] or fields["function_call"] else ""
    # in a message of another role these fields mean nothing and stay as they are
    if wire.value["role"] == "assistant":
        _fill_assistant_fields(item, fields)
    return item


def _fill_assistant_fields(item: dict[str, Any], fields: Mapping[str, list[Any]]) -> None:
    """Set or remove what an assistant message has beside its content."""
    if fields["tool_calls"]:
        item["tool_calls"] = fields["tool_calls"]
    elif item.get("tool_calls") is not None:  # OpenAI refuses an empty list
        del item["tool_calls"]
    if not fields["function_call"] and item.get("function_call") is not None:
        del item["function_call"]
    elif fields["function_call"] and fields["function_call"][0] is not None:
        item["function_call"] = fields["function_call"][0]
    if not fields["refusal"] and item.get("refusal"):
        item["refusal"] = None
    if not fields["reasoning"] and has_reasoning(item):
        for key in (*REASONING_KEYS, *DETAILS):
            item.pop(key, None)


def _set_name(item: dict[str, Any], name: str | None) -> None:
    if name is not None:
        item["name"] = name
    elif item.get("name") is not None:
        del item["name"]


def _rewrite_result(message: Message, wire: Wire, bare_ids: Mapping[str, str]) -> list[Any]:
    part = message.parts[0] if len(message.parts) == 1 else None
    was = wire.parts[0]
    if message.role != "tool" or not isinstance(part, ToolResult) or not isinstance(was, ToolResult):
        return _write_new(message, bare_ids, native=True)
    item = dict(wire.value)
    _set_name(item, message.name)
    if part.call_id != was.call_id:
        item["tool_call_id"] = part.call_id
    if part.content is not was.content:
        raws = writing.raw_by_inner_id(was, item.get("content"))
        pairs = writing.pair_with_raw(part.content, raws)
        item["content"] = writing.write_content(pairs, _write_text) or ""
    return [item]


def _write_new(message: Message, bare_ids: Mapping[str, str], *, native: bool) -> list[Any]:
    """Write a message that was not read from this format."""
    results = [_write_result(part, bare_ids) for part in message.results]
    rest = [part for part in message.parts if not isinstance(part, ToolResult)]
    if results and not rest:
        return results
    calls = [_write_call(part, native=native) for part in rest if isinstance(part, ToolCall)]
    parts = [(part, None) for part in rest if isinstance(part, _CONTENT_PARTS)]
    content = writing.write_content(parts, partial(_write_block, native=native, role=message.role))
    item: dict[str, Any] = {"role": writing.user_or_own_role(message)}
    if message.name:
        item["name"] = message.name
    item["content"] = content or (None if calls else "")
    if calls:
        item["tool_calls"] = calls
    return [*results, item]


def _write_block(part: Part, *, native: bool, role: Role) -> writing.Block:
    """Write one part of a message's content; only a user may send media."""
    if isinstance(part, Opaque):
        return writing.opaque_block(part, native=native) or _write_text(part)
    extra = writing.native_extra(part, native=native)
    if isinstance(part, Text):
        return writing.refusal_or_none(part, extra) or {"type": "text", "text": part.text, **extra}
    if role == "user" and (block := _write_media(part, native=native)):
        return {**block, **extra}
    return _write_text(part)


def _write_media(part: Part, *, native: bool) -> writing.Block | None:
    if isinstance(part, Image) and (part.url or part.data):
        url = part.url or writing.to_data_url(part.media_type or "image/png", part.data or "")
        detail = {"detail": part.detail} if part.detail else {}
        return {"type": "image_url", "image_url": {"url": url, **detail}}
    if isinstance(part, Document) and (data := writing.document_data(part)):
        return {"type": "file", "file": {"filename": part.title or "document", "file_data": data}}
    if isinstance(part, File) and part.data and (part.media_type or "").startswith("audio/"):
        encoding = (part.media_type or "").removeprefix("audio/")
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": encoding}}
    if isinstance(part, File) and part.file_id and native:
        return {"type": "file", "file": {"file_id": part.file_id}}
    return None


def _write_text(part: Part) -> writing.Block:
    return {"type": "text", "text": writing.to_plain_text((part,))}


def _write_call(call: ToolCall, *, native: bool, has_id: bool = True) -> dict[str, Any]:
    extra = dict(writing.native_extra(call, native=native))
    inner = extra.pop("function", {})
    head = {"id": call.id} if has_id else {}
    if extra.get("type") == "custom":
        text = writing.arguments_as_text(call.arguments)
        return {**head, "type": "custom", "custom": {"name": call.name, "input": text}}
    return {**head, "type": "function", "function": {**_write_function(call), **inner}, **extra}


def _write_function(call: ToolCall) -> dict[str, Any]:
    return {"name": call.name, "arguments": writing.arguments_as_text(call.arguments) or "{}"}


def _write_result(result: ToolResult, bare_ids: Mapping[str, str]) -> dict[str, Any]:
    text = writing.to_plain_text(result.content)
    if name := bare_ids.get(result.call_id):
        return {"role": "function", "name": result.name or name, "content": text}
    key, value = ("name", result.name) if result.call_id in bare_ids else ("tool_call_id", result.call_id)
    return {"role": "tool", **({} if value is None else {key: value}), "content": text}
