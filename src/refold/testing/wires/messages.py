"""Write messages of Anthropic, with signed thinking."""

import json
from collections.abc import Iterator
from typing import Any, Final

from refold.testing.replies import is_changed, sign
from refold.testing.wires.contract import WireWriter, Written

_KINDS: Final = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
_EMPTY: Final[dict[str, dict[str, Any]]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}
"""How each kind of block begins in a stream."""


def write(answer: Written) -> dict[str, Any]:
    """Return a whole answer."""
    return {
        "id": f"msg_{answer.mark}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": _write_blocks(answer),
        "stop_reason": _stop_reason(answer),
        "stop_sequence": None,
        "usage": {**_write_input(answer), "output_tokens": answer.usage.output},
    }


def stream(answer: Written) -> Iterator[dict[str, Any]]:
    """Yield the events of an answer; the first reports the input, the last but one all of the usage again."""
    start = {**write(answer), "content": [], "stop_reason": None}
    start["usage"] = {**_write_input(answer), "output_tokens": 1}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(_write_blocks(answer)):
        begun = {**block, **_EMPTY[block["type"]]}
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        for delta in _split_block(answer, block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": _stop_reason(answer), "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": write(answer)["usage"]}
    yield {"type": "message_stop"}


def refuse(used: int, limit: int) -> dict[str, Any]:
    """Return the body that Anthropic refuses a request with."""
    return fail(400, f"prompt is too long: {used} tokens > {limit} maximum")


def fail(status: int, text: str) -> dict[str, Any]:
    """Return the body of another error."""
    kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": text}}


def find_changes(item: Any) -> list[str]:
    """Report thinking that is not the one that was signed."""
    content = item.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return [
        "thinking was changed after it was signed: keep it whole or drop it"
        for block in blocks
        if block.get("type") == "thinking" and is_changed(block.get("signature"), block.get("thinking"))
    ]


def _stop_reason(answer: Written) -> str:
    return "tool_use" if answer.reply.calls else "end_turn"


def _write_blocks(answer: Written) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if answer.reasoning and (answer.reply.text or answer.reply.calls):
        thought = f"Step {answer.mark.step} of {answer.mark.key} comes next."
        blocks.append({"type": "thinking", "thinking": thought, "signature": sign(answer.mark, thought)})
    if answer.reply.text:
        blocks.append({"type": "text", "text": answer.reply.text})
    for index, call in enumerate(answer.reply.calls):
        name = f"toolu_{answer.mark}_{index}"
        blocks.append({"type": "tool_use", "id": name, "name": call.name, "input": dict(call.arguments)})
    return blocks


def _split_block(answer: Written, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if block["type"] == "text":
        yield from ({"type": "text_delta", "text": piece} for piece in answer.split(block["text"]))
    elif block["type"] == "thinking":
        pieces = answer.split(block["thinking"])
        yield from ({"type": "thinking_delta", "thinking": piece} for piece in pieces)
        yield {"type": "signature_delta", "signature": block["signature"]}
    else:
        pieces = answer.split(json.dumps(block["input"]))
        yield from ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)


def _write_input(answer: Written) -> dict[str, Any]:
    """Return the input as Anthropic counts it: the cached prefix beside the rest, not inside it."""
    usage = answer.usage
    fresh = usage.input - usage.cached
    cached = {"cache_read_input_tokens": usage.cached, "cache_creation_input_tokens": 0}
    return {"input_tokens": fresh, **cached, "service_tier": "standard"}


WRITER = WireWriter(
    write=write,
    stream=stream,
    refuse=refuse,
    fail=fail,
    find_changes=find_changes,
    names_events=True,
)
