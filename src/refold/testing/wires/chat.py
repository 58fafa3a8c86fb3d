"""Write chat completions of OpenAI."""

import json
from collections.abc import Iterator
from typing import Any

from refold.testing.wires.contract import CREATED, WireWriter, Written


def write(answer: Written) -> dict[str, Any]:
    """Return a whole answer."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.reply.text, "refusal": None}
    if answer.reply.calls:
        message |= {"content": answer.reply.text or None, "tool_calls": _write_calls(answer)}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
    return {**_head(answer, "chat.completion"), "choices": [choice], "usage": _write_usage(answer)}


def stream(answer: Written) -> Iterator[dict[str, Any]]:
    """Yield the chunks of an answer: text in two halves, arguments of calls in two halves."""
    head = _head(answer, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": "" if answer.reply.text else None})
    for piece in answer.split(answer.reply.text):
        yield chunk({"content": piece})
    for index, call in enumerate(_write_calls(answer)):
        first, *rest = answer.split(call["function"]["arguments"])
        function = {**call["function"], "arguments": first}
        yield chunk({"tool_calls": [{"index": index, **call, "function": function}]})
        for piece in rest:
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, _finish(answer))
    if answer.reports_usage:
        yield {**head, "choices": [], "usage": _write_usage(answer)}


def refuse(used: int, limit: int) -> dict[str, Any]:
    """Return the body that OpenAI refuses a request with."""
    text = (
        f"This model's maximum context length is {limit} tokens. However, your messages resulted in {used}"
        " tokens. Please reduce the length of the messages."
    )
    kind = {"type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}
    return {"error": {"message": text, **kind}}


def fail(status: int, text: str) -> dict[str, Any]:
    """Return the body of another error, with the words by which clients know that a key is wrong."""
    kind, code = "invalid_request_error" if status < 500 else "server_error", None
    if status == 401:
        text, code = f"Incorrect API key provided. {text}", "invalid_api_key"
    return {"error": {"message": text, "type": kind, "param": None, "code": code}}


def _head(answer: Written, kind: str) -> dict[str, Any]:
    name = f"chatcmpl-{answer.mark}"
    return {"id": name, "object": kind, "created": CREATED, "model": answer.model, "service_tier": "default"}


def _finish(answer: Written) -> str:
    return "tool_calls" if answer.reply.calls else "stop"


def _write_calls(answer: Written) -> list[dict[str, Any]]:
    return [
        {
            "id": answer.name_call(index),
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for index, call in enumerate(answer.reply.calls)
    ]


def _write_usage(answer: Written) -> dict[str, Any]:
    usage = answer.usage
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


WRITER = WireWriter(write=write, stream=stream, refuse=refuse, fail=fail, ends_with_done=True)
