"""OpenAI chat completions as a talker's wire: OpenAI's own, any compatible server, and the local one."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final

from refold.clients.chat import CHAT, THOUGHTS, content_of
from refold.clients.sse import Event
from refold.clients.talking import Called, Json, Piece
from refold.clients.talking_wires import Answered, TalkWire, Turn, called, tool_parts
from refold.clients.wires import Body, fields_of, list_of, paired, text_of
from refold.core.compaction.flow import thought_apart

_STATE: Final = "gathered"
"""Where what has come is kept until it is whole: pieces of text in lists, because thousands of them come."""


def _messages(turn: Turn) -> list[Any]:
    return [*([{"role": "system", "content": turn.system}] if turn.system else []), *turn.messages]


def _tool(tool: Any) -> Json:
    parts = tool_parts(tool)
    if parts is None:
        return dict(tool)
    name, description, parameters = parts
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


def _payload(turn: Turn, model: str, without: Collection[str], limit: str, other: str) -> Body:
    payload: Body = {"model": model, "messages": _messages(turn), "stream": True}
    if turn.tools and "tools" not in without:
        payload["tools"] = [_tool(tool) for tool in turn.tools]
    if "stream_options" not in without:
        payload["stream_options"] = {"include_usage": True}
    if turn.max_tokens is not None:
        payload[other if limit in without else limit] = turn.max_tokens
    return payload


def _openai(turn: Turn, model: str, without: Collection[str]) -> Body:
    return _payload(turn, model, without, "max_completion_tokens", "max_tokens")


def _compatible(turn: Turn, model: str, without: Collection[str]) -> Body:
    return _payload(turn, model, without, "max_tokens", "max_completion_tokens")


def _choice(data: Body) -> Body:
    """The choice that is shown; others are nobody's wish."""
    return next((each for each in list_of(data.get("choices")) if each.get("index", 0) == 0), {})


def _delta(choice: Body) -> Body:
    return fields_of(choice.get("delta") or choice.get("message"))


def _words(delta: Body) -> Piece:
    content = content_of(delta.get("content"))
    thought = next((delta[key] for key in THOUGHTS if text_of(delta.get(key))), "")
    text = content.get("content", "") or text_of(delta.get("refusal"))
    return Piece(text, thought or content.get("reasoning", ""))


def _piece(_event: Event, data: Body) -> Piece:
    return _words(_delta(_choice(data)))


def _gather(body: Body, _event: Event, data: Body) -> bool:
    for key in ("id", "model", "usage"):
        if data.get(key):
            body[key] = data[key]
    choice = _choice(data)
    if choice:
        state = body.setdefault(
            _STATE, {"text": [], "thought": [], "refusal": [], "calls": [], "finish": None}
        )
        state["finish"] = choice.get("finish_reason") or state["finish"]
        delta = _delta(choice)
        piece = _words(delta)
        state["refusal" if text_of(delta.get("refusal")) else "text"].append(piece.text)
        state["thought"].append(piece.reasoning)
        for call in list_of(delta.get("tool_calls")):
            _grow(state["calls"], call)
    return False  # the usage comes behind the last words; [DONE] or the end of the stream is the end


def _grow(calls: list[Body], delta: Body) -> None:
    """Add to the call that a delta belongs to: that of its index, unless it names another one."""
    index = delta.get("index")
    function, id_ = fields_of(delta.get("function")), text_of(delta.get("id"))
    ours = next((call for call in reversed(calls) if index in (None, call["index"])), None)
    # some servers number every call 0, and some do not number them at all
    if ours is None or (id_ and ours["id"] and id_ != ours["id"]):
        ours = {"index": index, "id": "", "name": "", "arguments": []}
        calls.append(ours)
    ours["id"] = ours["id"] or id_
    ours["name"] = ours["name"] or text_of(function.get("name"))
    ours["arguments"].append(text_of(function.get("arguments")))


def _complete(body: Body) -> bool:
    return bool(fields_of(body.get(_STATE)).get("finish"))


def _whole(body: Body) -> Body:
    state = body.get(_STATE)
    if state is None:
        return body
    message: Body = {"role": "assistant", "content": paired("".join(state["text"])) or None}
    for key, name in (("thought", "reasoning_content"), ("refusal", "refusal")):
        if words := paired("".join(state[key])):
            message[name] = words
    if state["calls"]:
        message["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": "".join(call["arguments"])},
            }
            for call in state["calls"]
        ]
    rest = {key: value for key, value in body.items() if key != _STATE}
    return {**rest, "choices": [{"index": 0, "message": message, "finish_reason": state["finish"]}]}


def _answered(whole: Body, stem: str) -> Answered | None:
    choices = list_of(whole.get("choices"))
    if not choices:
        return None
    said = fields_of(choices[0].get("message"))
    words = _parted(_words(said))
    calls = tuple(
        _call(each, f"{stem}{number}") for number, each in enumerate(list_of(said.get("tool_calls")))
    )
    message: Json = {"role": "assistant", "content": words.text}
    if calls:
        message["content"] = words.text or None
        message["tool_calls"] = [_sent(call) for call in calls]
        if text_of(said.get("reasoning_content")):  # models that think between calls want it back
            message["reasoning_content"] = said["reasoning_content"]
    messages = (message,) if words.text.strip() or calls else ()
    return Answered(messages=messages, text=words.text, reasoning=words.reasoning, calls=calls)


def _parted(words: Piece) -> Piece:
    """The words without thoughts between tags."""
    text, thought = thought_apart(words.text)
    return Piece(text, words.reasoning or thought)


def _call(call: Body, fallback: str) -> Called:
    function = fields_of(call.get("function"))
    return called(call.get("id"), function.get("name"), function.get("arguments"), fallback)


def _sent(call: Called) -> Json:
    # servers read the arguments of earlier calls and refuse what is no JSON
    arguments = "{}" if call.broken or not call.raw.strip() else call.raw
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _result(call: Called, text: str, failed: bool) -> Json:  # noqa: FBT001  # the shape of every wire's own
    return {"role": "tool", "tool_call_id": call.id, "content": f"Error: {text}" if failed else text}


OPENAI: Final = TalkWire(
    format="openai",
    path=CHAT.path,
    headers=CHAT.headers,
    payload=_openai,
    spare=("stream_options", "max_completion_tokens"),
    gather=_gather,
    complete=_complete,
    piece=_piece,
    whole=_whole,
    answered=_answered,
    said=lambda text: {"role": "assistant", "content": text},
    user=lambda text: {"role": "user", "content": text},
    result=_result,
)
COMPATIBLE: Final = replace(OPENAI, payload=_compatible, spare=("stream_options", "max_tokens", "tools"))
