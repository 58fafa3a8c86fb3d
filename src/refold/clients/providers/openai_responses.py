"""OpenAI Responses. The provider is told to store nothing, so the whole history goes into every request."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from refold.clients.chat import Delta, Json, RequestedCall
from refold.clients.http.client import HttpClient
from refold.clients.http.endpoints import open_provider
from refold.clients.http.sse import Event
from refold.clients.http.wire import (
    REASONING_TOKENS,
    Reading,
    Turn,
    Wire,
    arguments_to_send,
    drop_empty,
    fields_of,
    list_of,
    parse_call,
    text_of,
    tool_parts,
    without_key,
)
from refold.clients.providers.openai_chat import ENDPOINT, reasons_first
from refold.core.compaction.cached_prefix import CachedPrefix, is_neutral_tool
from refold.core.compaction.flow import Ask
from refold.core.tokens.responses import CALL_ITEMS

_END_EVENTS: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.done"}
)
_TEXT_EVENTS: Final = frozenset({"response.output_text.delta", "response.refusal.delta"})
_REASONING_EVENTS: Final = frozenset(
    {"response.reasoning_summary_text.delta", "response.reasoning_text.delta"}
)


def _ask_body(question: Ask, model: str, refused: Collection[str]) -> Json:
    body: Json = {"model": model, "input": question.text, "stream": True, "store": False}
    if question.system:
        body["instructions"] = question.system
    if question.max_tokens is not None:
        body["max_output_tokens"] = question.max_tokens + (REASONING_TOKENS if reasons_first(model) else 0)
    optional: Json = {"reasoning": {"effort": "low"}} if reasons_first(model) else {"temperature": 0}
    return body | {name: value for name, value in optional.items() if name not in refused}


def _append_question(body: Json, prefix: CachedPrefix, closing: str) -> Json:
    tools = [_convert_tool(tool) if is_neutral_tool(tool) else tool for tool in prefix.tools]
    shared = drop_empty({"instructions": prefix.system, "tools": tools})
    items = [*prefix.messages, {"role": "user", "content": closing}]
    return {**without_key(body, "instructions"), **shared, "input": items}


def _chat_body(turn: Turn, model: str, refused: Collection[str]) -> Json:
    body: Json = {"model": model, "input": list(turn.messages), "stream": True, "store": False}
    if turn.system:
        body["instructions"] = turn.system
    if turn.tools:
        body["tools"] = [_convert_tool(tool) for tool in turn.tools]
    if turn.max_tokens is not None:
        body["max_output_tokens"] = turn.max_tokens
    if reasons_first(model):
        # Without its encrypted content the provider refuses reasoning that is sent back.
        optional: Json = {"include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}}
        body |= {key: value for key, value in optional.items() if key not in refused}
    return body


def _convert_tool(tool: Mapping[str, Any]) -> Json:
    parts = tool_parts(tool)
    if parts is None or tool.get("type") == "function":
        return dict(tool)
    return {"type": "function", "name": parts[0], "description": parts[1], "parameters": parts[2]}


def _kind(event: Event, data: Json) -> str:
    return text_of(data.get("type")) or event.name


def _delta(event: Event, data: Json) -> Delta:
    kind, words = _kind(event, data), text_of(data.get("delta"))
    return Delta(words if kind in _TEXT_EVENTS else "", words if kind in _REASONING_EVENTS else "")


def _gather(state: Json, event: Event, data: Json) -> bool:
    """Add an event; the last one has all of the response, but items and text are kept in case it does not."""
    kind = _kind(event, data)
    items: list[Json] = state.setdefault("items", [])
    if kind == "response.output_item.done":
        items.append(fields_of(data.get("item")))
    elif kind in _TEXT_EVENTS:
        state.setdefault("words", []).append(text_of(data.get("delta")))
    elif kind in _END_EVENTS:
        state |= fields_of(data.get("response"))
        return True
    return False


def _assemble(state: Json) -> Json:
    response = without_key(without_key(state, "items"), "words")
    if not list_of(response.get("output")):
        output: list[Json] = [*state["items"]]
        # Some servers end the items before the text, and not the item of the text itself.
        if state.get("words") and not any(item.get("type") == "message" for item in output):
            output.append(_assistant("".join(state["words"])))
        if output:
            response["output"] = output
    return {"object": "response", **response}


def _read(response: Json, id_stem: str) -> Reading | None:
    if not isinstance(response.get("output"), list):
        return None
    items = list_of(response["output"])
    calls = {
        at: parse_call(item.get("call_id"), item.get("name"), item.get("arguments"), f"{id_stem}{at}")
        for at, item in enumerate(items)
        if item.get("type") == "function_call"
    }
    return Reading(
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
        messages=_items_to_send(items, calls),
        calls=tuple(calls.values()),
        call_count=sum(text_of(item.get("type")) in CALL_ITEMS for item in items),
    )


def _items_to_send(items: Sequence[Json], calls: Mapping[int, RequestedCall]) -> tuple[Json, ...]:
    """Return the items to send back, without their ids: the provider stored none and would look them up."""
    sendable: list[Json] = []
    for at, item in enumerate(items):
        kind = item.get("type")
        if kind == "reasoning" and not item.get("encrypted_content"):
            continue
        if kind == "message" and not list_of(item.get("content")):
            continue
        copy = dict(item)
        if kind in ("message", "function_call"):
            copy = without_key(without_key(copy, "id"), "status")
        if at in calls:
            copy |= {"call_id": calls[at].id, "arguments": arguments_to_send(calls[at])}
        sendable.append(copy)
    # Reasoning alone is refused: it must stand before the item that it led to.
    return tuple(sendable) if any(item.get("type") != "reasoning" for item in sendable) else ()


def _assistant(text: str) -> Json:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


WIRE: Final = Wire(
    format="responses",
    path=lambda _model: "/responses",
    headers=lambda key: {"authorization": f"Bearer {key}"},
    ask_body=_ask_body,
    ask_optional=("temperature", "reasoning"),
    append_question=_append_question,
    chat_body=_chat_body,
    chat_optional=("include", "reasoning"),
    gather=_gather,
    is_complete=lambda state: state.get("status") in ("completed", "incomplete"),
    assemble=_assemble,
    delta=_delta,
    read=_read,
    assistant=_assistant,
    user=lambda text: {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]},
    result=lambda call, text, failed: {
        "type": "function_call_output",
        "call_id": call.id,
        "output": f"Error: {text}" if failed else text,
    },
)


def open_client(model: str, **options: Any) -> HttpClient:
    """Open a client of OpenAI Responses."""
    endpoint = replace(ENDPOINT, scheme="responses", example="responses:gpt-5-mini")
    return open_provider(endpoint, WIRE, model, options)
