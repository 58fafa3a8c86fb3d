"""Writes messages as OpenAI Responses items: as read, repaired where they were touched, or from scratch."""

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
    Thinking,
    ToolCall,
    ToolResult,
    Wire,
)
from refold.formats.openai_responses.read import (
    ARGUMENT_KEYS,
    NAME,
    NAMED_CALLS,
    OUTPUT,
    RESULT_KEYS,
    recognise,
    role_of_item,
)
from refold.formats.shared import writing
from refold.formats.shared.reading import block_type
from refold.formats.shared.wire_kinds import own_kinds

_TEXT_ARGUMENTS: Final = frozenset({"arguments", "input", "code"})
_OUTPUT_OF: Final[Mapping[str, str]] = {"tool_search_call": "tool_search_output"}
"""The type of a call's output where it is not the type of the call with an ending."""
_EMPTY_IMAGE: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5E"
    "rkJggg=="
)
"""One pixel: a screenshot that was removed must still be an image."""


def render(messages: Sequence[Message]) -> list[Any]:
    """Write a history; untouched items are the very objects that were read."""
    items: list[Any] = []
    known: Mapping[str, Mapping[str, Any]] | None = None
    for message in messages:
        wire = writing.own_wire(message, NAME)
        if wire is not None and writing.is_untouched(message, wire, role_of_item(wire.value)):
            items.append(wire.value)
            continue
        if known is None:
            known = _find_calls(messages)
        if wire is not None:
            items += _rewrite(message, wire, known)
        else:
            items += _write_new(message, known, native=message.wire is None)
    return items


def _find_calls(messages: Sequence[Message]) -> dict[str, Mapping[str, Any]]:
    """Map the id of each call of a kind of its own to the fields that a new output for it must match."""
    owned = (message for message in messages if writing.own_wire(message, NAME) is not None)
    return {call.id: call.extra for message in owned for call in message.calls if "type" in call.extra}


def _rewrite(message: Message, wire: Wire, known: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """Write an item that was read and then touched; what was not touched in it stays as it was."""
    role = role_of_item(wire.value)
    if role is None:
        return _rewrite_item(message, wire, known)
    if any(isinstance(part, (ToolCall, ToolResult, Thinking)) for part in message.parts):
        return _write_new(message, known, native=True)
    item = dict(wire.value)
    if role != message.role:
        item["role"] = writing.user_or_own_role(message)
    pairs = writing.pair_with_raw(message.parts, writing.raw_by_part_id(wire))
    item["content"] = _write_content(pairs, message.role, native=True)
    return [item]


def _rewrite_item(message: Message, wire: Wire, known: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """Write a call or an output with what is new in it; everything else keeps its place."""
    part = message.parts[0] if len(message.parts) == 1 else None
    was, kind = wire.parts[0], block_type(wire.value)
    if part is was:
        return [wire.value]
    if isinstance(part, ToolCall) and isinstance(was, ToolCall):
        if kind == "program":  # its fingerprint belongs to this very code
            return [{**wire.value, "call_id": part.id}]
        return [{**wire.value, **_call_fields(kind, part)}]
    if isinstance(part, ToolResult) and isinstance(was, ToolResult):
        key = RESULT_KEYS.get(kind, "output")
        given = wire.value.get(key)
        raws = writing.raw_by_inner_id(was, given)
        ids = {"call_id": part.call_id} if part.call_id != was.call_id else {}
        return [{**wire.value, **ids, key: _write_output(kind, part, raws, given)}]
    return _write_new(message, known, native=True)


def _call_fields(kind: str, call: ToolCall) -> dict[str, Any]:
    key = ARGUMENT_KEYS.get(kind, "arguments")
    name = {"name": call.name} if kind in NAMED_CALLS else {}
    if key in _TEXT_ARGUMENTS and kind != "tool_search_call":
        text = writing.arguments_as_text(call.arguments) or ("{}" if key == "arguments" else "")
        return {"call_id": call.id, **name, key: text}
    return {"call_id": call.id, **name, key: writing.arguments_as_object(call.arguments)}


def _write_output(kind: str, result: ToolResult, raws: Mapping[int, Any], given: Any = None) -> Any:
    """Write a tool's answer in the form that its kind of output has; `given`: as it came, if it did."""
    pairs = writing.pair_with_raw(result.content, raws)
    pieces = [piece for piece in given if isinstance(piece, dict)] if isinstance(given, list) else []
    block = "output_text" if kind == "multi_agent_call_output" else ""
    if pieces and kind not in own_kinds(NAME):
        block = next(filter(None, map(block_type, pieces)), "")
    if block:
        return [raw or {"type": block, "text": writing.to_plain_text((part,))} for part, raw in pairs]
    if kind == "tool_search_output":  # definitions of tools; a text that stands for them is none
        return [raw for _, raw in pairs if raw is not None]
    if kind == "program_output":
        return writing.to_plain_text(result.content)
    if kind == "shell_call_output":
        ends = [piece["outcome"] for piece in pieces if "outcome" in piece]
        ends = ends[-1:] if len(pairs) == 1 else ends
        ends += [{"type": "exit", "exit_code": int(result.is_error)}] * (len(pairs) - len(ends))
        return [
            raw or {"stdout": writing.to_plain_text((part,)), "stderr": "", "outcome": end}
            for (part, raw), end in zip(pairs, ends, strict=False)
        ]
    if kind == "computer_call_output":
        images = (
            _write_block(part, native=True, role="user") for part in result.content if isinstance(part, Image)
        )
        return {**next(images, {"image_url": _EMPTY_IMAGE}), "type": "computer_screenshot"}
    return _write_content(pairs, "user", native=True)


def _write_new(message: Message, known: Mapping[str, Mapping[str, Any]], *, native: bool) -> list[Any]:
    """Write a message that was not read from this format: results and reasoning, content, calls."""
    items: list[Any] = []
    content_parts: list[writing.PartWithRaw] = []
    calls: list[Any] = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            items.append(_write_result(part, known, native=native))
        elif isinstance(part, ToolCall):
            extra = writing.native_extra(part, native=native)
            kind = extra.get("type", "function_call")
            calls.append({"type": kind, **_call_fields(kind, part), **extra})
        elif isinstance(part, Thinking):
            # reasoning can be sent back only by its id or encrypted; else it is left out
            if native and (part.redacted is not None or "id" in part.extra):
                secret = {} if part.redacted is None else {"encrypted_content": part.redacted}
                items.append({"type": "reasoning", "summary": [], **part.extra, **secret})
        elif isinstance(part, Opaque) and native and recognise(part.value) == ".type":
            items.append(part.value)
        else:
            content_parts.append((part, None))
    if content_parts or not (items or calls or writing.is_only_thinking(message)):
        role = writing.user_or_own_role(message)
        content = _write_content(content_parts, role, native=native)
        items.append({"type": "message", "role": role, "content": content})
    return [*items, *calls]


def _write_result(
    result: ToolResult, known: Mapping[str, Mapping[str, Any]], *, native: bool
) -> dict[str, Any]:
    extra = writing.native_extra(result, native=native)
    call = known.get(result.call_id, {})
    called = call.get("type", "function_call")
    kind = extra.get("type") or _OUTPUT_OF.get(called, f"{called}{OUTPUT}")
    is_of_agents = kind == "multi_agent_call_output" and "action" in call
    status = {"action": call["action"]} if is_of_agents else {}
    if kind == "apply_patch_call_output":
        status = {"status": "failed" if result.is_error else "completed"}
    elif kind == "program_output":
        status = {"id": f"{result.call_id}{OUTPUT}"}
        status["status"] = "incomplete" if result.is_error else "completed"
    output = _write_output(kind, result, {})
    head = {"type": kind, "call_id": result.call_id, **status}
    return {**head, RESULT_KEYS.get(kind, "output"): output, **extra}


def _write_content(pairs: Sequence[writing.PartWithRaw], role: Role, *, native: bool) -> str | list[Any]:
    return writing.write_content(pairs, partial(_write_block, native=native, role=role)) or ""


def _write_block(part: Part, *, native: bool, role: Role) -> writing.Block:
    """Write one block of content; only a user may send media."""
    kind = "output_text" if role == "assistant" else "input_text"
    text = {"type": kind, "text": writing.to_plain_text((part,))}
    if isinstance(part, Opaque):
        return writing.opaque_block(part, native=native) or text
    if isinstance(part, Text):
        extra = writing.native_extra(part, native=native)
        return writing.refusal_or_none(part, extra) or {**text, **extra}
    return (_write_media(part, native=native) if role == "user" else None) or text


def _write_media(part: Part, *, native: bool) -> writing.Block | None:
    if isinstance(part, Image):
        detail = {"detail": part.detail} if part.detail else {}
        if part.file_id and native:
            return {"type": "input_image", "file_id": part.file_id, **detail}
        url = writing.to_data_url(part.media_type or "image/png", part.data) if part.data else part.url
        return {"type": "input_image", "image_url": url, **detail} if url else None
    if isinstance(part, Document) and (data := writing.document_data(part)):
        return {"type": "input_file", "filename": part.title or "document", "file_data": data}
    if isinstance(part, Document) and part.url:
        return {"type": "input_file", "file_url": part.url}
    if isinstance(part, File) and part.file_id and native:
        return {"type": "input_file", "file_id": part.file_id}
    return None
