"""Write answers of the Gemini API, with thought signatures on calls and texts."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from refold.testing.replies import is_changed, sign
from refold.testing.wires.contract import WireWriter, Written

_KINDS: Final = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}


def write(answer: Written) -> dict[str, Any]:
    """Return a whole answer."""
    return _write_chunk(answer, _write_parts(answer), is_last=True)


def stream(answer: Written) -> Iterator[dict[str, Any]]:
    """Yield the chunks of an answer: a text in two halves, the signature with the second; calls at once."""
    parts = _write_parts(answer)
    first = parts[0] if parts and "text" in parts[0] else None
    if first is not None:
        begun, *rest = answer.split(first["text"])
        yield _write_chunk(answer, [{"text": begun}], is_last=False)
        parts = [{**first, "text": "".join(rest)}, *parts[1:]]
    yield _write_chunk(answer, parts, is_last=True)


def refuse(used: int, limit: int) -> dict[str, Any]:
    """Return the body that Gemini refuses a request with."""
    text = f"The input token count ({used}) exceeds the maximum number of tokens allowed ({limit})."
    return fail(400, text)


def fail(status: int, text: str) -> dict[str, Any]:
    """Return the body of an error."""
    return {"error": {"code": status, "message": text, "status": _KINDS.get(status, "INTERNAL")}}


def find_changes(item: Any) -> list[str]:
    """Report a call whose signature was made for another one."""
    parts = [part for part in item.get("parts") or () if isinstance(part, Mapping)]
    return [
        "a function call was changed after it was signed: keep it whole or drop it"
        for part in parts
        if (call := part.get("functionCall") or part.get("function_call"))
        and is_changed(part.get("thoughtSignature") or part.get("thought_signature"), _list_signed(call))
    ]


def _list_signed(call: Mapping[str, Any]) -> list[Any]:
    return [call.get("name"), call.get("args") or {}]


def _write_parts(answer: Written) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if answer.reply.text:
        parts.append({"text": answer.reply.text})
    for call in answer.reply.calls:
        # without an id, as Gemini 2 writes them: calls and responses belong together by their order
        value = {"name": call.name, "args": dict(call.arguments)}
        part: dict[str, Any] = {"functionCall": value}
        # of parallel calls only the first one is signed
        if answer.reasoning and call is answer.reply.calls[0]:
            part["thoughtSignature"] = sign(answer.mark, _list_signed(value))
        parts.append(part)
    return parts


def _write_chunk(answer: Written, parts: list[dict[str, Any]], *, is_last: bool) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    candidate |= {"finishReason": "STOP"} if is_last else {}
    return {
        "candidates": [candidate],
        "usageMetadata": _write_usage(answer, is_last=is_last),
        "modelVersion": answer.model,
        "responseId": f"resp-{answer.mark}",
    }


def _write_usage(answer: Written, *, is_last: bool) -> dict[str, Any]:
    usage = answer.usage
    spoken = usage.output - usage.reasoning if is_last else 0
    counts = {"promptTokenCount": usage.input, "candidatesTokenCount": spoken}
    counts["totalTokenCount"] = usage.input + (usage.output if is_last else 0)
    counts |= {"cachedContentTokenCount": usage.cached} if usage.cached else {}
    return counts | ({"thoughtsTokenCount": usage.reasoning} if is_last and usage.reasoning else {})


WRITER = WireWriter(write=write, stream=stream, refuse=refuse, fail=fail, find_changes=find_changes)
