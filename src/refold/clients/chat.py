"""OpenAI chat completions as a wire: OpenAI's own, and the servers that speak it under any address."""

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final

from refold.clients import behind
from refold.clients.endpoints import Endpoint, at_address, provider
from refold.clients.http import HttpClient
from refold.clients.sse import Event
from refold.clients.wires import REASONING_ROOM, Body, Said, Wire, fields_of, list_of, text_of
from refold.core.compaction.flow import Ask

THOUGHTS: Final = ("reasoning_content", "reasoning", "thinking")
"""Where servers put what a model thought: DeepSeek and vLLM, OpenRouter, Ollama."""


def thinks(model: str) -> bool:
    """Whether a model of OpenAI reasons first, and takes no temperature.

    >>> thinks("gpt-5-mini"), thinks("o3"), thinks("gpt-4.1-mini"), thinks("gpt-5-chat-latest")
    (True, True, False, False)
    """
    return re.match(r"(?:o\d|gpt-[5-9]|codex)", model) is not None and "-chat" not in model


def _messages(question: Ask) -> list[Body]:
    system = [{"role": "system", "content": question.system}] if question.system else []
    return [*system, {"role": "user", "content": question.text}]


def _payload(question: Ask, model: str, without: Collection[str]) -> Body:
    payload: Body = {"model": model, "messages": _messages(question), "stream": True}
    optional: Body = {"stream_options": {"include_usage": True}}
    optional |= {"reasoning_effort": "low"} if thinks(model) else {"temperature": 0}
    if question.max_tokens is not None:
        room = REASONING_ROOM if thinks(model) else 0
        name = "max_tokens" if "max_completion_tokens" in without else "max_completion_tokens"
        payload[name] = question.max_tokens + room
    return payload | {name: value for name, value in optional.items() if name not in without}


def _compatible(question: Ask, model: str, without: Collection[str]) -> Body:
    """What servers of every kind take; those in front of OpenAI's newer models refuse a name or two."""
    payload: Body = {"model": model, "messages": _messages(question), "stream": True}
    optional: Body = {"stream_options": {"include_usage": True}, "temperature": 0}
    if question.max_tokens is not None:
        name = "max_completion_tokens" if "max_tokens" in without else "max_tokens"
        payload[name] = question.max_tokens
    return payload | {name: value for name, value in optional.items() if name not in without}


def _gather(body: Body, _event: Event, data: Body) -> bool:
    for key in ("model", "usage"):
        if data.get(key):
            body[key] = data[key]
    for choice in list_of(data.get("choices")):
        if choice.get("index", 0) == 0:
            ours = body.setdefault("choices", [{"message": {"role": "assistant"}}])[0]
            ours["finish_reason"] = choice.get("finish_reason") or ours.get("finish_reason")
            _delta(ours["message"], fields_of(choice.get("delta") or choice.get("message")))
    return False  # the usage comes behind the last words; [DONE] or the end of the stream is the end


def _delta(message: Body, delta: Body) -> None:
    for key in ("refusal", *THOUGHTS):
        if text_of(delta.get(key)):
            message[key] = message.get(key, "") + delta[key]
    for key, words in content_of(delta.get("content")).items():
        message[key] = message.get(key, "") + words
    calls: list[Body] = message.setdefault("tool_calls", [])
    for call in list_of(delta.get("tool_calls")):
        if not any(known["index"] == call.get("index", 0) for known in calls):
            calls.append({"index": call.get("index", 0)})
    if delta.get("function_call") and not calls:
        calls.append({"index": 0})


def content_of(content: Any) -> Body:
    """Text and thoughts in a content, which is a text or, at Mistral, a list of parts."""
    if isinstance(content, str):
        return {"content": content} if content else {}
    parts: Body = {}
    for part in list_of(content):
        thought = part.get("type") == "thinking"
        words = "".join(text_of(each.get("text")) for each in list_of(part.get("thinking")))
        key, text = ("reasoning", words) if thought else ("content", text_of(part.get("text")))
        parts[key] = parts.get(key, "") + text
    return parts


def _complete(body: Body) -> bool:
    return any(choice.get("finish_reason") for choice in list_of(body.get("choices")))


def _said(body: Body) -> Said | None:
    choices = list_of(body.get("choices"))
    if not choices:
        return None
    message = fields_of(choices[0].get("message"))
    content = content_of(message.get("content"))
    thoughts = next((message[key] for key in THOUGHTS if text_of(message.get(key))), "")
    calls = len(list_of(message.get("tool_calls"))) or bool(message.get("function_call"))
    return Said(
        text=content.get("content", "") or text_of(message.get("refusal")),
        reasoning=thoughts or content.get("reasoning", ""),
        calls=int(calls),
    )


CHAT: Final = Wire(
    path=lambda _model: "/chat/completions",
    headers=lambda key: {"authorization": f"Bearer {key}"},
    payload=_payload,
    spare=("temperature", "stream_options", "reasoning_effort", "max_completion_tokens"),
    gather=_gather,
    complete=_complete,
    said=_said,
    name="openai",
    behind=behind.chat,
)
COMPATIBLE: Final = replace(CHAT, payload=_compatible, spare=("temperature", "stream_options", "max_tokens"))

OPENAI: Final = Endpoint(
    scheme="openai",
    base="https://api.openai.com/v1",
    bases=("OPENAI_BASE_URL",),
    keys=("OPENAI_API_KEY",),
    example="openai:gpt-4.1-mini",
)


def open_client(model: str, **options: Any) -> HttpClient:
    """Open a client of OpenAI."""
    return provider(OPENAI, CHAT, model, options)


def open_http(rest: str, **options: Any) -> HttpClient:
    """Open a client of a server without TLS."""
    return at_address(f"http:{rest}", COMPATIBLE, options)


def open_https(rest: str, **options: Any) -> HttpClient:
    """Open a client of a server with TLS."""
    return at_address(f"https:{rest}", COMPATIBLE, options)
