"""Writes messages as OpenAI Responses items: as they were read, mended where touched, or anew."""

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
from refold.formats.openai_responses.read import GIVEN, NAME, NAMED, OUTPUT, recognise, role_of
from refold.formats.shared import writing
from refold.formats.shared.reading import (
    type_of,
)

_AS_TEXT: Final = frozenset({"arguments", "input"})
_NO_PICTURE: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5E"
    "rkJggg=="
)
"""One pixel: a screenshot that was taken out must still be a picture."""
_WITH_STATUS: Final = frozenset({"apply_patch_call_output"})


def render(messages: Sequence[Message]) -> list[Any]:
    """Write a history; untouched items are the very objects that were read."""
    items: list[Any] = []
    types: Mapping[str, str] | None = None
    for message in messages:
        wire = message.wire
        if wire is not None and wire.format == NAME and _untouched(message, wire):
            items.append(wire.value)
            continue
        if types is None:
            types = _types_of_calls(messages)
        if wire is not None and wire.format == NAME:
            items += _rebuilt(message, wire, types)
        else:
            items += _built(message, types, native=wire is None)
    return items


def _untouched(message: Message, wire: Wire) -> bool:
    role = role_of(wire.value)
    return writing.same_parts(message, wire) and (role is None or role == message.role)


def _types_of_calls(messages: Sequence[Message]) -> dict[str, str]:
    """Find the type of every call id that was read, so that a partner of ours has the one that fits."""
    return {
        part.id if isinstance(part, ToolCall) else part.call_id: part.extra["type"].removesuffix(OUTPUT)
        for message in messages
        if message.wire is not None and message.wire.format == NAME
        for part in message.parts
        if isinstance(part, (ToolCall, ToolResult)) and isinstance(part.extra.get("type"), str)
    }


def _rebuilt(message: Message, wire: Wire, types: Mapping[str, str]) -> list[Any]:
    """Write an item that was read and then touched: what was not touched in it stays as it was."""
    role = role_of(wire.value)
    if role is None:
        return _rebuilt_item(message, wire, types)
    if any(isinstance(part, (ToolCall, ToolResult, Thinking)) for part in message.parts):
        return _built(message, types, native=True)
    item = dict(wire.value)
    if role != message.role:
        item["role"] = _role(message)
    known = writing.raws_by_identity(wire)
    write = partial(_written, native=True, role=message.role)
    item["content"] = writing.content_of(writing.placed(message.parts, known), write) or ""
    return [item]


def _rebuilt_item(message: Message, wire: Wire, types: Mapping[str, str]) -> list[Any]:
    """Write a call or an output with what is new in it; everything else keeps its place."""
    part = message.parts[0] if len(message.parts) == 1 else None
    was, what = wire.parts[0], type_of(wire.value)
    if part is was:
        return [wire.value]
    if isinstance(part, ToolCall) and isinstance(was, ToolCall):
        return [{**wire.value, **_call_fields(what, part)}]
    if isinstance(part, ToolResult) and isinstance(was, ToolResult):
        raws = wire.value.get("output")
        known = dict(zip(map(id, was.content), raws, strict=True)) if isinstance(raws, list) else {}
        ids = {"call_id": part.call_id} if part.call_id != was.call_id else {}
        return [{**wire.value, **ids, "output": _output_of(what, part, known)}]
    return _built(message, types, native=True)


def _call_fields(what: str, call: ToolCall) -> dict[str, Any]:
    key = GIVEN.get(what, "arguments")
    given = call.arguments
    as_text = writing.as_json_text(given) or ("{}" if key == "arguments" else "")
    names = {"name": call.name} if what in NAMED else {}
    return {"call_id": call.id, **names, key: as_text if key in _AS_TEXT else writing.as_object(given)}


def _output_of(what: str, result: ToolResult, known: Mapping[int, Any]) -> Any:
    """Write what a tool answered in the way its kind of output wants it."""
    parts = writing.placed(result.content, known)
    if what == "shell_call_output":
        return [_shell_output(part, result) if raw is None else raw for part, raw in parts]
    if what == "computer_call_output":
        images = (
            _written(part, native=True, role="user") for part in result.content if isinstance(part, Image)
        )
        shot = next(images, {"image_url": _NO_PICTURE})
        return {**shot, "type": "computer_screenshot"}
    return writing.content_of(parts, partial(_written, native=True, role="user")) or ""


def _shell_output(part: Part, result: ToolResult) -> dict[str, Any]:
    outcome = {"type": "exit", "exit_code": int(result.is_error)}
    return {"stdout": writing.plain_text((part,)), "stderr": "", "outcome": outcome}


def _built(message: Message, types: Mapping[str, str], *, native: bool) -> list[Any]:
    """Write a message that was not read from this format: results and reasoning, what is said, calls."""
    items: list[Any] = []
    said: list[writing.Placed] = []
    calls: list[Any] = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            items.append(_built_result(part, types, native=native))
        elif isinstance(part, ToolCall):
            calls.append(_built_call(part, types, native=native))
        elif isinstance(part, Thinking):
            items += _built_reasoning(part) if native else []
        elif isinstance(part, Opaque) and native and recognise(part.value) == ".type":
            items.append(part.value)
        else:
            said.append((part, None))
    if said or not (items or calls or writing.only_thinking(message)):
        items.append(_built_message(_role(message), said, native=native))
    return [*items, *calls]


def _built_message(role: Role, said: Sequence[writing.Placed], *, native: bool) -> dict[str, Any]:
    content = writing.content_of(said, partial(_written, native=native, role=role)) or ""
    head = {"type": "message"} if isinstance(content, list) else {}
    return {**head, "role": role, "content": content}


def _built_call(call: ToolCall, types: Mapping[str, str], *, native: bool) -> dict[str, Any]:
    extra = writing.extra_of(call, native=native)
    what = extra.get("type") or types.get(call.id) or "function_call"
    return {"type": what, **_call_fields(what, call), **extra}


def _built_result(result: ToolResult, types: Mapping[str, str], *, native: bool) -> dict[str, Any]:
    extra = writing.extra_of(result, native=native)
    what = extra.get("type") or f"{types.get(result.call_id, 'function_call')}{OUTPUT}"
    status = {"status": "failed" if result.is_error else "completed"} if what in _WITH_STATUS else {}
    output = _output_of(what, result, {})
    return {"type": what, "call_id": result.call_id, **status, "output": output, **extra}


def _built_reasoning(part: Thinking) -> list[Any]:
    """Reasoning can be sent back only by its id or encrypted; else it is left out whole."""
    if part.redacted is None and "id" not in part.extra:
        return []
    secret = {} if part.redacted is None else {"encrypted_content": part.redacted}
    return [{"type": "reasoning", "summary": [], **part.extra, **secret}]


def _role(message: Message) -> Role:
    return "user" if message.role == "tool" else message.role


def _written(part: Part, *, native: bool, role: Role) -> writing.Block:
    """Write one block of content; only a user may send media."""
    if isinstance(part, Opaque):
        return writing.opaque_block(part, native=native) or _text_block(part, role)
    if isinstance(part, Text):
        extra = writing.extra_of(part, native=native)
        if extra.get("type") == "refusal":
            return {"type": "refusal", "refusal": part.text}
        return {**_text_block(part, role), **extra}
    media = _written_media(part, native=native) if role == "user" else None
    return media or _text_block(part, role)


def _written_media(part: Part, *, native: bool) -> writing.Block | None:
    if isinstance(part, Image):
        detail = {"detail": part.detail} if part.detail else {}
        if part.file_id and native:
            return {"type": "input_image", "file_id": part.file_id, **detail}
        url = f"data:{part.media_type or 'image/png'};base64,{part.data}" if part.data else part.url
        return {"type": "input_image", "image_url": url, **detail} if url else None
    if isinstance(part, Document) and part.data:
        data = f"data:{part.media_type};base64,{part.data}" if part.media_type else part.data
        return {"type": "input_file", "filename": part.title or "document", "file_data": data}
    if isinstance(part, Document) and part.url:
        return {"type": "input_file", "file_url": part.url}
    if isinstance(part, File) and part.file_id and native:
        return {"type": "input_file", "file_id": part.file_id}
    return None


def _text_block(part: Part, role: Role) -> writing.Block:
    what = "output_text" if role == "assistant" else "input_text"
    return {"type": what, "text": writing.plain_text((part,))}
