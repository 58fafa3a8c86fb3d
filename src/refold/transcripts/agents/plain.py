"""Lists that no agent wrote: requests of the four wire shapes, and what data sets and frameworks save.

ShareGPT (`from`, `value`), LangChain's `messages_to_dict` and its serialised objects, the messages of
OpenTelemetry's `gen_ai` spans, and lists under names such as `traj`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from refold.core.tokens.usage import reported
from refold.errors import FormatError
from refold.formats.shared import documents
from refold.transcripts.agents.shaping import (
    Draft,
    as_text,
    list_of,
    object_of,
    openai_assistant,
    openai_result,
    said_text,
    text_at,
    title_of,
)
from refold.transcripts.agents.values import Recording, Wire

NAME: Final = "plain"
_SHAREGPT: Final = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "system": "system",
    "tool": "user",
    "observation": "user",
}
_LANGCHAIN: Final = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
    "chat": "user",
    "HumanMessage": "user",
    "AIMessage": "assistant",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "tool",
    "AIMessageChunk": "assistant",
}
_OTEL: Final = frozenset({"text", "tool_call", "tool_call_response", "reasoning"})
_LISTS: Final = ("conversations", "conversation", "traj", "trajectory", "history", "chat")
_OTEL_KEYS: Final = ("gen_ai.input.messages", "gen_ai.output.messages")


def unwrapped(value: Any) -> Any:
    """The list of messages in an object that has one under another name than requests use."""
    if not isinstance(value, dict) or any(
        isinstance(value.get(key), list) for key in ("messages", "contents")
    ):
        return value
    inner = object_of(value.get("attributes")) or value
    spans = [found for key in _OTEL_KEYS if isinstance(found := _loaded(inner.get(key)), list)]
    if spans:
        return [item for found in spans for item in found]
    return next((value[key] for key in _LISTS if _is_talk(value.get(key))), value)


def _is_talk(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _loaded(value: Any) -> Any:
    """A value that telemetry may have written as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return documents.loads(value)
    except FormatError:
        return None


def kind_of(items: Any) -> str:
    """Which of the shapes that no provider has a list is in; empty where it is none of them."""
    if not _is_talk(items):
        return ""
    for name, fits in (("sharegpt", _is_sharegpt), ("langchain", _is_langchain), ("otel", _is_otel)):
        if all(map(fits, items)):
            return name
    return ""


def _is_sharegpt(item: Wire) -> bool:
    return isinstance(item.get("from"), str) and isinstance(item.get("value"), str)


def _is_langchain(item: Wire) -> bool:
    return _langchain_role(item) in _LANGCHAIN


def _is_otel(item: Wire) -> bool:
    parts = item.get("parts")
    if not isinstance(item.get("role"), str) or not isinstance(parts, list) or not parts:
        return False
    return all(text_at(part, "type") in _OTEL for part in parts)


def read(value: Any, *, format: str | None = None) -> Recording:  # noqa: A002  # the word users know
    """Read a list of messages, a request, or one of the other shapes; raises what `documents` raises."""
    items = unwrapped(value)
    kind = kind_of(items)
    if kind and format is None:
        draft = Draft(NAME, "openai")
        for number, item in enumerate(items, start=1):
            _READERS[kind](draft, item, number)
        return draft.done()
    document = documents.of(items, format=format)
    draft = Draft(NAME, document.format)
    for number, item in enumerate(document.messages, start=1):
        draft.say(item, number)
        fields = object_of(item)
        draft.note(reported(fields.get("usage")) or reported(object_of(fields.get("extra")).get("response")))
    models = (
        text_at(object_of(object_of(one).get("extra")).get("response"), "model") for one in document.messages
    )
    model = document.model or next((name for name in models if name), None)
    return draft.done(
        model=model, system=document.system, tools=document.tools, title=_title(document.messages)
    )


def _title(messages: Sequence[Any]) -> str | None:
    first = object_of(next((one for one in messages if object_of(one).get("role") == "user"), None))
    return title_of(said_text(first.get("content") or first.get("parts")))


def _sharegpt(draft: Draft, item: Wire, number: int) -> None:
    role = _SHAREGPT.get(item["from"].lower(), "user")
    draft.say({"role": role, "content": item["value"]}, number)
    if role == "user" and not draft.title:
        draft.title = title_of(item["value"]) or ""


def _langchain_role(item: Wire) -> str:
    name = item.get("id")
    if item.get("lc") == 1 and isinstance(name, list) and name and isinstance(name[-1], str):
        return name[-1]
    return text_at(item, "type") if isinstance(item.get("data"), dict) else ""


def _langchain(draft: Draft, item: Wire, number: int) -> None:
    data = object_of(item.get("data")) or object_of(item.get("kwargs"))
    role = _LANGCHAIN[_langchain_role(item)]
    content = data.get("content")
    if role == "assistant":
        more = object_of(data.get("additional_kwargs"))
        calls = [
            (text_at(call, "id"), text_at(call, "name"), object_of(call).get("args"))
            for call in list_of(data.get("tool_calls"))
        ]
        message = openai_assistant(
            said_text(content), thinking=text_at(more, "reasoning_content"), calls=calls
        )
        draft.say(message, number)
        draft.note(reported(data.get("usage_metadata")))
        draft.model = text_at(data.get("response_metadata"), "model_name", "model") or draft.model
    elif role == "tool":
        draft.say(openai_result(text_at(data, "tool_call_id"), said_text(content)), number)
    else:
        whole = isinstance(content, list) and any(text_at(block, "type") == "image_url" for block in content)
        draft.say({"role": role, "content": content if whole else said_text(content)}, number)
        if role == "user" and not draft.title:
            draft.title = title_of(said_text(content)) or ""


def _otel(draft: Draft, item: Wire, number: int) -> None:
    parts = [object_of(part) for part in item["parts"]]
    words = "\n".join(text for part in parts if part["type"] == "text" and (text := text_at(part, "content")))
    for part in parts:
        if part["type"] == "tool_call_response":
            answer = part.get("response", part.get("result"))
            draft.say(openai_result(text_at(part, "id"), as_text(answer)), number)
    if item["role"] in ("assistant", "model"):
        draft.say(_otel_assistant(words, parts), number)
    elif words:
        role = "system" if item["role"] == "system" else "user"
        draft.say({"role": role, "content": words}, number)
        if role == "user" and not draft.title:
            draft.title = title_of(words) or ""


def _otel_assistant(words: str, parts: Sequence[Mapping[str, Any]]) -> Wire:
    calls = [
        (text_at(part, "id"), text_at(part, "name"), part.get("arguments"))
        for part in parts
        if part["type"] == "tool_call"
    ]
    thinking = "\n".join(text_at(part, "content") for part in parts if part["type"] == "reasoning")
    return openai_assistant(words, thinking=thinking, calls=calls)


_READERS: Final = {"sharegpt": _sharegpt, "langchain": _langchain, "otel": _otel}
