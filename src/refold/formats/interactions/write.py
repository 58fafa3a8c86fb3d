"""Writes steps of Gemini's Interactions API: as read, repaired where they were touched, or from scratch."""

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
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Wire,
)
from refold.formats.interactions.read import CALL, NAME, RESULT, SPEAKERS, recognise
from refold.formats.shared import writing
from refold.formats.shared.reading import block_type

_LIST_RESULTS: Final = frozenset(
    {"code_execution_result", "google_maps_result", "google_search_result", "url_context_result"}
)
"""Results of Google's own tools that are lists; what is put in their place is an empty one."""
_WITHOUT_RESULT: Final = frozenset({"file_search_result", "processing_result", "retrieval_result"})
"""Results of Google's own tools that say no more than that they are there."""


def render(messages: Sequence[Message]) -> list[Any]:
    """Write a history; untouched steps are the very objects that were read."""
    items: list[Any] = []
    types = _find_call_types(messages)
    for message in messages:
        wire = writing.own_wire(message, NAME)
        role = None if wire is None else SPEAKERS.get(block_type(wire.value))
        if wire is not None and writing.is_untouched(message, wire, role):
            items.append(wire.value)
        elif wire is not None:
            items += _rewrite(message, wire, types)
        else:
            items += _write_new(message, types, native=message.wire is None)
    return items


def _find_call_types(messages: Sequence[Message]) -> dict[str, str]:
    """Map each call id of Google's own tools to the name of the tool, which a new partner must match."""
    return {
        part.id if isinstance(part, ToolCall) else part.call_id: part.extra["type"].rpartition("_")[0]
        for message in messages
        if writing.own_wire(message, NAME) is not None
        for part in message.parts
        if isinstance(part, (ToolCall, ToolResult)) and "type" in part.extra
    }


def _rewrite(message: Message, wire: Wire, types: Mapping[str, str]) -> list[Any]:
    """Write a step that was read and then touched; what was not touched in it stays as it was."""
    kind = block_type(wire.value)
    plain = not any(isinstance(part, (ToolCall, ToolResult, Thinking)) for part in message.parts)
    if kind in SPEAKERS and plain:
        pairs = writing.pair_with_raw(message.parts, writing.raw_by_part_id(wire))
        item = dict(wire.value)
        if SPEAKERS[kind] != message.role:
            item["type"] = _speaker(message)
        blocks = [_write_block(part, native=True) if raw is None else raw for part, raw in pairs]
        if blocks or "content" in item:
            item["content"] = blocks
        return [item]
    part = message.parts[0] if len(message.parts) == 1 else None
    was = wire.parts[0] if wire.parts else None
    if part is was and part is not None:
        return [wire.value]
    if isinstance(part, ToolCall) and isinstance(was, ToolCall):
        return [{**wire.value, "id": part.id, "arguments": writing.arguments_as_object(part.arguments)}]
    if isinstance(part, ToolResult) and isinstance(was, ToolResult):
        raws = writing.raw_by_inner_id(was, wire.value.get("result") if kind == RESULT else None)
        return [{**wire.value, "call_id": part.call_id, **_write_result(kind, part, raws)}]
    return _write_new(message, types, native=True)


def _speaker(message: Message) -> str:
    return "model_output" if message.role == "assistant" else "user_input"


def _write_new(message: Message, types: Mapping[str, str], *, native: bool) -> list[Any]:
    """Write a message that was not read from this format: results and thoughts, content, calls."""
    steps: list[Any] = []
    content: list[Any] = []
    calls: list[Any] = []
    for part in message.parts:
        extra = dict(writing.native_extra(part, native=native)) if not isinstance(part, Opaque) else {}
        if isinstance(part, ToolResult):
            tool = types.get(part.call_id)
            kind = extra.pop("type", f"{tool}_result" if tool else RESULT)
            step = {"type": kind, "call_id": part.call_id, **_write_result(kind, part, {}), **extra}
            steps.append({**step, "is_error": True} if part.is_error and kind == RESULT else step)
        elif isinstance(part, ToolCall):
            kind = extra.pop("type", f"{types[part.id]}_call" if part.id in types else CALL)
            name = {"name": part.name} if kind == CALL else {}
            arguments = writing.arguments_as_object(part.arguments)
            calls.append({"type": kind, "id": part.id, **name, "arguments": arguments, **extra})
        elif isinstance(part, Thinking):
            # a thought can be sent back only with its signature; else it is left out
            if native and part.signature is not None:
                steps.append({"type": "thought", "signature": part.signature, **extra})
        elif isinstance(part, Opaque) and native and recognise(part.value):
            steps.append(part.value)
        else:
            content.append(_write_block(part, native=native))
    if content or not (steps or calls or writing.is_only_thinking(message)):
        content = content or [{"type": "text", "text": writing.NO_CONTENT}]
        steps.append({"type": _speaker(message), "content": content})
    return [*steps, *calls]


def _write_result(kind: str, result: ToolResult, raws: Mapping[int, Any]) -> dict[str, Any]:
    """Write a tool's answer in the form that its kind of result has."""
    if kind in _WITHOUT_RESULT:
        return {}
    if len(result.content) == 1 and isinstance(result.content[0], Opaque):
        value = result.content[0].value
        if kind != RESULT or isinstance(value, dict):
            return {"result": value}
    if kind in _LIST_RESULTS:
        return {"result": []}
    pairs = writing.pair_with_raw(result.content, raws)
    return {"result": writing.write_content(pairs, partial(_write_block, native=True)) or writing.NO_CONTENT}


def _write_block(part: Part, *, native: bool) -> writing.Block:
    """Write one block of content."""
    text = {"type": "text", "text": writing.to_plain_text((part,))}
    if isinstance(part, Opaque):
        return writing.opaque_block(part, native=native) or text
    if isinstance(part, Text):
        return {**text, **writing.native_extra(part, native=native)}
    if not isinstance(part, (Image, Document, File)) or not (part.data or (part.url and native)):
        return text
    kind = "image" if isinstance(part, Image) else "document"
    if isinstance(part, File):
        kind = (part.media_type or "").partition("/")[0]
    if kind not in ("image", "document", "audio", "video"):
        return text
    fields = {"data": part.data, "uri": part.url, "mime_type": part.media_type}
    known = {key: value for key, value in fields.items() if value and not value.endswith("/*")}
    return {"type": kind, **known, **writing.native_extra(part, native=native)}
