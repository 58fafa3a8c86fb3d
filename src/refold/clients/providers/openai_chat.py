"""OpenAI chat completions: OpenAI's own, and the servers at any address that speak the same wire."""

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final

from refold.clients.chat import Delta, Json
from refold.clients.http.client import HttpClient
from refold.clients.http.endpoints import Endpoint, open_at_address, open_provider
from refold.clients.http.sse import Event
from refold.clients.http.wire import (
    REASONING_TOKENS,
    Reading,
    Turn,
    Wire,
    arguments_to_send,
    drop_empty,
    fields_of,
    join_surrogates,
    list_of,
    parse_call,
    text_of,
    tool_parts,
    without_key,
)
from refold.core.compaction.cached_prefix import CachedPrefix, is_neutral_tool
from refold.core.compaction.flow import Ask, split_reasoning

REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "thinking")
"""The fields in which servers send reasoning: DeepSeek and vLLM, OpenRouter, Ollama."""
_NEW_LIMITS: Final = ("max_completion_tokens", "max_tokens")
_OLD_LIMITS: Final = ("max_tokens", "max_completion_tokens")
"""The name of the output limit, and the name to use if that one is refused. OpenAI's reasoning models refuse
the old name; many servers at other addresses know no other."""
_STATE: Final = "gathered"


def reasons_first(model: str) -> bool:
    """True if a model of OpenAI reasons before it answers; such a model takes no temperature.

    >>> [reasons_first(name) for name in ("gpt-5-mini", "o3", "gpt-4.1-mini", "gpt-5-chat-latest")]
    [True, True, False, False]
    """
    return re.match(r"(?:o\d|gpt-[5-9]|codex)", model) is not None and "-chat" not in model


def _with_system(system: Any, messages: Collection[Any]) -> list[Any]:
    return [*([{"role": "system", "content": system}] if system else []), *messages]


def _ask_body(
    question: Ask, model: str, refused: Collection[str], limits: tuple[str, str], *, reasons: bool
) -> Json:
    messages = _with_system(question.system, [{"role": "user", "content": question.text}])
    body: Json = {"model": model, "messages": messages, "stream": True}
    optional: Json = {"stream_options": {"include_usage": True}}
    optional |= {"reasoning_effort": "low"} if reasons else {"temperature": 0}
    if question.max_tokens is not None:
        body[limits[limits[0] in refused]] = question.max_tokens + (REASONING_TOKENS if reasons else 0)
    return body | {name: value for name, value in optional.items() if name not in refused}


def _append_question(body: Json, prefix: CachedPrefix, closing: str) -> Json:
    messages = _with_system(prefix.system, [*prefix.messages, {"role": "user", "content": closing}])
    tools = [_convert_tool(tool) if is_neutral_tool(tool) else tool for tool in prefix.tools]
    return {**body, **drop_empty({"tools": tools}), "messages": messages}


def _chat_body(turn: Turn, model: str, refused: Collection[str], limits: tuple[str, str]) -> Json:
    body: Json = {"model": model, "messages": _with_system(turn.system, turn.messages), "stream": True}
    if turn.tools and "tools" not in refused:
        body["tools"] = [_convert_tool(tool) for tool in turn.tools]
    if "stream_options" not in refused:
        body["stream_options"] = {"include_usage": True}
    if turn.max_tokens is not None:
        body[limits[limits[0] in refused]] = turn.max_tokens
    return body


def _convert_tool(tool: Any) -> Json:
    parts = tool_parts(tool)
    if parts is None:
        return dict(tool)
    name, description, parameters = parts
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


def _first_choice(data: Json) -> Json:
    """Return the choice number 0; we request no others, but some servers send them."""
    return next((choice for choice in list_of(data.get("choices")) if choice.get("index", 0) == 0), {})


def _message_of(choice: Json) -> Json:
    return fields_of(choice.get("delta") or choice.get("message"))


def _words(message: Json) -> Delta:
    """Text and reasoning of a message; its content is a text or, at Mistral, a list of parts."""
    content, reasoning = message.get("content"), ""
    text = text_of(content)
    for part in list_of(content):
        if part.get("type") == "thinking":
            reasoning += "".join(text_of(inner.get("text")) for inner in list_of(part.get("thinking")))
        else:
            text += text_of(part.get("text"))
    field = next((message[key] for key in REASONING_FIELDS if text_of(message.get(key))), "")
    return Delta(text or text_of(message.get("refusal")), field or reasoning)


def _gather(body: Json, _event: Event, data: Json) -> bool:
    """Collect pieces of text in lists: thousands of them come, and joining each would take quadratic time."""
    groq = fields_of(data.get("x_groq"))  # it may have the usage
    for key in ("id", "model", "usage"):
        if value := data.get(key) or groq.get(key):
            body[key] = value
    choice = _first_choice(data)
    if choice:
        lists: dict[str, list[Any]] = {"text": [], "reasoning": [], "refusal": [], "calls": []}
        state = body.setdefault(_STATE, {**lists, "function": None, "finish": None})
        state["finish"] = choice.get("finish_reason") or state["finish"]
        message = _message_of(choice)
        words = _words(message)
        state["refusal" if text_of(message.get("refusal")) else "text"].append(words.text)
        state["reasoning"].append(words.reasoning)
        state["function"] = state["function"] or message.get("function_call")
        for call in list_of(message.get("tool_calls")):
            _add_to_call(state["calls"], call)
    # The usage comes behind the last words. The end is [DONE], or the end of the stream.
    return False


def _add_to_call(calls: list[Json], delta: Json) -> None:
    """Add to the call that a delta belongs to: the call of its index, unless the delta has another id."""
    index, id_ = delta.get("index"), text_of(delta.get("id"))
    ours = next((call for call in reversed(calls) if index in (None, call["index"])), None)
    # Some servers number every call 0, and some do not number them at all.
    if ours is None or (id_ and ours["id"] and id_ != ours["id"]):
        ours = {"index": index, "id": "", "name": "", "arguments": []}
        calls.append(ours)
    function = fields_of(delta.get("function"))
    ours["id"] = ours["id"] or id_
    ours["name"] = ours["name"] or text_of(function.get("name"))
    ours["arguments"].append(text_of(function.get("arguments")))


def _assemble(body: Json) -> Json:
    state = body.get(_STATE)
    if state is None:
        return body
    message: Json = {"role": "assistant", "content": join_surrogates("".join(state["text"])) or None}
    for key, name in (("reasoning", "reasoning_content"), ("refusal", "refusal")):
        if words := join_surrogates("".join(state[key])):
            message[name] = words
    if state["calls"]:
        message["tool_calls"] = [
            _format_call(call["id"], call["name"], "".join(call["arguments"])) for call in state["calls"]
        ]
    if state["function"]:
        message["function_call"] = state["function"]
    choice = {"index": 0, "message": message, "finish_reason": state["finish"]}
    return {**without_key(body, _STATE), "choices": [choice]}


def _format_call(id_: str, name: str, arguments: str) -> Json:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


def _read(response: Json, id_stem: str) -> Reading | None:
    choices = list_of(response.get("choices"))
    if not choices:
        return None
    said = fields_of(choices[0].get("message"))
    words = _words(said)
    text = split_reasoning(words.text)[0]
    calls = []
    for at, requested in enumerate(list_of(said.get("tool_calls"))):
        function = fields_of(requested.get("function"))
        calls.append(
            parse_call(requested.get("id"), function.get("name"), function.get("arguments"), f"{id_stem}{at}")
        )
    message: Json = {"role": "assistant", "content": text}
    if calls:
        message["content"] = text or None
        message["tool_calls"] = [_format_call(call.id, call.name, arguments_to_send(call)) for call in calls]
        # DeepSeek refuses a history in which the reasoning between calls is missing.
        if text_of(said.get("reasoning_content")):
            message["reasoning_content"] = said["reasoning_content"]
    return Reading(
        text=words.text,
        reasoning=words.reasoning,
        messages=(message,) if text.strip() or calls else (),
        calls=tuple(calls),
        # Old servers have one `function_call` per message. It counts, but a chat cannot answer it.
        call_count=len(calls) or int(bool(said.get("function_call"))),
    )


WIRE: Final = Wire(
    format="openai",
    path=lambda _model: "/chat/completions",
    headers=lambda key: {"authorization": f"Bearer {key}"},
    ask_body=lambda question, model, refused: _ask_body(
        question, model, refused, _NEW_LIMITS, reasons=reasons_first(model)
    ),
    ask_optional=("temperature", "stream_options", "reasoning_effort", "max_completion_tokens"),
    append_question=_append_question,
    chat_body=lambda turn, model, refused: _chat_body(turn, model, refused, _NEW_LIMITS),
    chat_optional=("stream_options", "max_completion_tokens"),
    gather=_gather,
    is_complete=lambda body: bool(fields_of(body.get(_STATE)).get("finish")),
    assemble=_assemble,
    delta=lambda _event, data: _words(_message_of(_first_choice(data))),
    read=_read,
    assistant=lambda text: {"role": "assistant", "content": text},
    user=lambda text: {"role": "user", "content": text},
    result=lambda call, text, failed: {
        "role": "tool",
        "tool_call_id": call.id,
        "content": f"Error: {text}" if failed else text,
    },
    has_reasoning_tags=True,
)
COMPATIBLE: Final = replace(
    WIRE,
    ask_body=lambda question, model, refused: _ask_body(question, model, refused, _OLD_LIMITS, reasons=False),
    ask_optional=("temperature", "stream_options", "max_tokens"),
    chat_body=lambda turn, model, refused: _chat_body(turn, model, refused, _OLD_LIMITS),
    chat_optional=("stream_options", "max_tokens", "tools"),
)
"""The wire of servers at an address. Unlike OpenAI's own they may know only the older parameters."""
ENDPOINT: Final = Endpoint(
    scheme="openai",
    base="https://api.openai.com/v1",
    bases=("OPENAI_BASE_URL",),
    keys=("OPENAI_API_KEY",),
    example="openai:gpt-4.1-mini",
)


def open_client(model: str, **options: Any) -> HttpClient:
    """Open a client of OpenAI."""
    return open_provider(ENDPOINT, WIRE, model, options)


def open_http(rest: str, **options: Any) -> HttpClient:
    """Open a client of a server without TLS."""
    return open_at_address(f"http:{rest}", COMPATIBLE, options)


def open_https(rest: str, **options: Any) -> HttpClient:
    """Open a client of a server with TLS."""
    return open_at_address(f"https:{rest}", COMPATIBLE, options)
