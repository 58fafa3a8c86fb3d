"""OpenAI Responses as a talker's wire; the provider keeps nothing, so what it said goes back whole."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from refold.clients.chat import thinks
from refold.clients.responses import ENDS, RESPONSES
from refold.clients.sse import Event
from refold.clients.talking import Called, Json, Piece
from refold.clients.talking_wires import Answered, TalkWire, Turn, called, tool_parts
from refold.clients.wires import Body, fields_of, list_of, text_of

_ITEMS: Final = "items"
_WORDS: Final = frozenset({"response.output_text.delta", "response.refusal.delta"})
_THOUGHTS: Final = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})


def _payload(turn: Turn, model: str, without: Collection[str]) -> Body:
    payload: Body = {"model": model, "input": list(turn.messages), "stream": True, "store": False}
    if turn.system:
        payload["instructions"] = turn.system
    if turn.tools:
        payload["tools"] = [_tool(tool) for tool in turn.tools]
    if turn.max_tokens is not None:
        payload["max_output_tokens"] = turn.max_tokens
    if thinks(model):
        # thoughts can be sent back only where they came with their sealed content
        optional: Body = {"include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}}
        payload |= {key: value for key, value in optional.items() if key not in without}
    return payload


def _tool(tool: Mapping[str, Any]) -> Json:
    parts = tool_parts(tool)
    if parts is None or tool.get("type") == "function":
        return dict(tool)
    return {"type": "function", "name": parts[0], "description": parts[1], "parameters": parts[2]}


def _kind(event: Event, data: Body) -> str:
    return text_of(data.get("type")) or event.name


def _piece(event: Event, data: Body) -> Piece:
    kind, words = _kind(event, data), text_of(data.get("delta"))
    return Piece(words if kind in _WORDS else "", words if kind in _THOUGHTS else "")


def _gather(body: Body, event: Event, data: Body) -> bool:
    """The last event holds the whole response; what came before is kept in case it comes without."""
    kind = _kind(event, data)
    items: list[Body] = body.setdefault(_ITEMS, [])
    if kind == "response.output_item.done":
        items.append(fields_of(data.get("item")))
    elif kind in _WORDS:
        body.setdefault("words", []).append(text_of(data.get("delta")))
    elif kind in ENDS:
        body |= fields_of(data.get("response"))
        return True
    return False


def _complete(body: Body) -> bool:
    return body.get("status") in ("completed", "incomplete")


def _whole(body: Body) -> Body:
    if _ITEMS not in body:
        return body
    rest = {key: value for key, value in body.items() if key not in (_ITEMS, "words")}
    if not list_of(rest.get("output")):
        rest["output"] = body[_ITEMS] or ([_said("".join(body["words"]))] if body.get("words") else [])
    return {"object": "response", **rest}


def _answered(whole: Body, stem: str) -> Answered | None:
    if not isinstance(whole.get("output"), list):
        return None
    items = list_of(whole["output"])
    calls = [(at, item) for at, item in enumerate(items) if item.get("type") == "function_call"]
    return Answered(
        messages=_sendable(items, stem),
        text="".join(
            text_of(part.get("text")) or text_of(part.get("refusal"))
            for item in items
            if item.get("type") == "message"
            for part in list_of(item.get("content"))
        ),
        reasoning="\n".join(
            text_of(part.get("text"))
            for item in items
            if item.get("type") == "reasoning"
            for key in ("summary", "content")
            for part in list_of(item.get(key))
        ),
        calls=tuple(_call(item, f"{stem}{at}") for at, item in calls),
    )


def _sendable(items: Sequence[Body], stem: str) -> tuple[Json, ...]:
    """The items as they may come back to a provider that kept none: names of its own would be looked up."""
    sent: list[Json] = []
    for at, item in enumerate(items):
        kind = item.get("type")
        if kind == "reasoning" and not item.get("encrypted_content"):
            continue
        if kind == "message" and not list_of(item.get("content")):
            continue
        if kind in ("message", "function_call"):
            item = {key: value for key, value in item.items() if key not in ("id", "status")}  # noqa: PLW2901
        if kind == "function_call":
            call = _call(item, f"{stem}{at}")
            arguments = "{}" if call.broken or not call.raw.strip() else call.raw
            item |= {"call_id": call.id, "arguments": arguments}
        sent.append(dict(item))
    return tuple(sent) if any(item.get("type") != "reasoning" for item in sent) else ()


def _call(item: Body, fallback: str) -> Called:
    return called(item.get("call_id"), item.get("name"), item.get("arguments"), fallback)


def _said(text: str) -> Json:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def _result(call: Called, text: str, failed: bool) -> Json:  # noqa: FBT001  # the shape of every wire's own
    output = f"Error: {text}" if failed else text
    return {"type": "function_call_output", "call_id": call.id, "output": output}


RESPONSES_TALK: Final = TalkWire(
    format="responses",
    path=RESPONSES.path,
    headers=RESPONSES.headers,
    payload=_payload,
    spare=("include", "reasoning"),
    gather=_gather,
    complete=_complete,
    piece=_piece,
    whole=_whole,
    answered=_answered,
    said=_said,
    user=lambda text: {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": text}],
    },
    result=_result,
)
