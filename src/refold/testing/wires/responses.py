"""Write responses of OpenAI's Responses API, with encrypted reasoning items."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from refold.testing.replies import is_changed, sign
from refold.testing.wires.chat import fail
from refold.testing.wires.contract import CREATED, WireWriter, Written


def write(answer: Written) -> dict[str, Any]:
    """Return a whole answer."""
    body = _write_response(answer, "completed")
    return {**body, "output": _write_items(answer), "usage": _write_usage(answer)}


def stream(answer: Written) -> Iterator[dict[str, Any]]:
    """Yield the events of an answer."""
    numbers = count()
    started = _write_response(answer, "in_progress")
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": started},
        {"type": "response.in_progress", "response": started},
    ]
    for index, item in enumerate(_write_items(answer)):
        events += _stream_item(answer, index, item)
    events.append({"type": "response.completed", "response": write(answer)})
    for event in events:
        yield {**event, "sequence_number": next(numbers)}


def _stream_item(answer: Written, index: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**item, "status": "in_progress"} if "status" in item else item
    place = {"item_id": item["id"], "output_index": index}
    added = {"type": "response.output_item.added", "output_index": index}
    if item["type"] == "message":
        yield {**added, "item": {**begun, "content": []}}
        yield from _stream_text(answer, {**place, "content_index": 0}, item["content"][0])
    elif item["type"] == "function_call":
        yield {**added, "item": {**begun, "arguments": ""}}
        for piece in answer.split(item["arguments"]):
            yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
        done = {"arguments": item["arguments"], "name": item["name"]}
        yield {"type": "response.function_call_arguments.done", **place, **done}
    else:
        yield {**added, "item": begun}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _stream_text(answer: Written, place: dict[str, Any], part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    for piece in answer.split(part["text"]):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}


def refuse(_used: int, _limit: int) -> dict[str, Any]:
    """Return the body that a request is refused with; this API names no numbers."""
    text = "Your input exceeds the context window of this model. Please adjust your input and try again."
    kind = {"type": "invalid_request_error", "param": "input", "code": "context_length_exceeded"}
    return {"error": {"message": text, **kind}}


def refuse_in_stream(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of a response that failed after it began."""
    error = {"code": body["error"]["code"], "message": body["error"]["message"]}
    shared = {"id": "resp_failed", "object": "response", "created_at": CREATED, "model": "", "output": []}
    around = {**shared, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    started = {**around, "status": "in_progress", "error": None}
    return [
        {"type": "response.created", "sequence_number": 0, "response": started},
        {
            "type": "response.failed",
            "sequence_number": 1,
            "response": {**around, "status": "failed", "error": error},
        },
    ]


def find_changes(item: Any) -> list[str]:
    """Report a reasoning item whose encrypted content is not the one that was made for it."""
    if item.get("type") != "reasoning" or not item.get("encrypted_content"):
        return []
    # some clients leave the ids out, as the API allows
    signed = {"summary": item.get("summary")}
    if is_changed(item["encrypted_content"], signed):
        return ["the reasoning item is not the one that was encrypted: keep it whole or drop it"]
    return []


def _write_response(answer: Written, status: str) -> dict[str, Any]:
    return {
        "id": f"resp_{answer.mark}",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "model": answer.model,
        "output": [],
        "usage": None,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
    }


def _write_items(answer: Written) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if answer.reasoning:
        secret = sign(answer.mark, {"summary": []})
        items.append(
            {"type": "reasoning", "id": f"rs_{answer.mark}", "summary": [], "encrypted_content": secret}
        )
    for index, call in enumerate(answer.reply.calls):
        named = {"id": f"fc_{answer.mark}_{index}", "call_id": answer.name_call(index), "name": call.name}
        arguments = json.dumps(call.arguments)
        items.append({"type": "function_call", **named, "arguments": arguments, "status": "completed"})
    if answer.reply.text or not answer.reply.calls:
        part = {"type": "output_text", "text": answer.reply.text, "annotations": [], "logprobs": []}
        head = {"type": "message", "id": f"msg_{answer.mark}", "role": "assistant"}
        items.append({**head, "status": "completed", "content": [part]})
    return items


def _write_usage(answer: Written) -> dict[str, Any]:
    usage = answer.usage
    return {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


WRITER = WireWriter(
    write=write,
    stream=stream,
    refuse=refuse,
    refuse_in_stream=refuse_in_stream,
    fail=fail,
    find_changes=find_changes,
    names_events=True,
)
