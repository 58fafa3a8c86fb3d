"""Reads lists that no agent wrote: requests of the providers, and what data sets and frameworks save.

Known are ShareGPT (`from`, `value`), LangChain's `messages_to_dict` and its serialised objects, the messages
of OpenTelemetry's `gen_ai` spans, and lists under names such as `traj`. Opens no file.
"""

from typing import Any, Final

from refold.core.tokens.usage import read_usage
from refold.errors import FormatError
from refold.formats.shared import documents
from refold.transcripts.agents.draft import Draft, openai_assistant, openai_result
from refold.transcripts.agents.fields import (
    as_list,
    as_object,
    content_text,
    make_title,
    text_at,
    to_json_text,
)
from refold.transcripts.agents.recording import Recording, Wire

NAME: Final = "plain"
_SHAREGPT_ROLES: Final = {
    **dict.fromkeys(("human", "user", "tool", "observation"), "user"),
    **dict.fromkeys(("gpt", "chatgpt", "assistant", "bing", "bard"), "assistant"),
    "system": "system",
}
_LANGCHAIN_ROLES: Final = {
    **dict.fromkeys(("human", "chat", "HumanMessage"), "user"),
    **dict.fromkeys(("ai", "AIMessage", "AIMessageChunk"), "assistant"),
    **dict.fromkeys(("tool", "function", "ToolMessage", "FunctionMessage"), "tool"),
    **dict.fromkeys(("system", "SystemMessage"), "system"),
}
_OTEL_PARTS: Final = frozenset({"text", "tool_call", "tool_call_response", "reasoning"})
_OTEL_KEYS: Final = ("gen_ai.input.messages", "gen_ai.output.messages")
_LIST_KEYS: Final = ("conversations", "conversation", "traj", "trajectory", "history", "chat")
_CONVERSATION_KEYS: Final = ("messages", "contents", *_LIST_KEYS[:4])
"""Fields that hold the messages of one conversation, in a file with several conversations."""


def pick_conversation(value: Any, number: str) -> Any:
    """Return one conversation of a list of several, by its number from 1; any other value as it is."""
    if not _is_list_of_objects(value) or not all(
        "role" not in item and any(isinstance(item.get(key), list) for key in _CONVERSATION_KEYS)
        for item in value
    ):
        return value
    if len(value) == 1:
        return value[0]
    if not number.isdecimal() or not 1 <= int(number) <= len(value):
        last = len(value)
        raise FormatError(f"holds {last:,} conversations: name one of them, from FILE#1 to FILE#{last}")
    return value[int(number) - 1]


def unwrap_list(value: Any) -> Any:
    """Return the list of messages in an object that keeps it under another name than requests do."""
    if not isinstance(value, dict) or any(
        isinstance(value.get(key), list) for key in ("messages", "contents")
    ):
        return value
    attributes = as_object(value.get("attributes")) or value
    spans = []
    for key in _OTEL_KEYS:
        span = attributes.get(key)
        if isinstance(span, str):  # telemetry often has the messages as JSON text
            try:
                span = documents.loads(span)
            except FormatError:
                continue
        if isinstance(span, list):
            spans.append(span)
    if spans:
        return [item for span in spans for item in span]
    return next((value[key] for key in _LIST_KEYS if _is_list_of_objects(value.get(key))), value)


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def detect_shape(items: Any) -> str:
    """Return `sharegpt`, `langchain` or `otel` for a list in such a shape; empty for any other."""
    if not _is_list_of_objects(items):
        return ""
    if all(isinstance(item.get("from"), str) and isinstance(item.get("value"), str) for item in items):
        return "sharegpt"
    if all(_langchain_type(item) in _LANGCHAIN_ROLES for item in items):
        return "langchain"
    is_otel = all(
        isinstance(item.get("role"), str)
        and as_list(item.get("parts"))
        and all(text_at(part, "type") in _OTEL_PARTS for part in item["parts"])
        for item in items
    )
    return "otel" if is_otel else ""


def read(value: Any, *, format: str | None = None) -> Recording:  # noqa: A002  # the word users know
    """Read a list of messages, a request, or one of the other shapes; raises `FormatError`."""
    items = unwrap_list(value)
    shape = detect_shape(items)
    if shape and format is None:
        draft = Draft(NAME, "openai")
        add = {"sharegpt": _add_sharegpt, "langchain": _add_langchain, "otel": _add_otel}[shape]
        for number, item in enumerate(items, start=1):
            add(draft, item, number)
        return draft.finish()
    document = documents.to_document(items, format=format)
    draft = Draft(NAME, document.format)
    for number, item in enumerate(document.messages, start=1):
        draft.add(item, number)
        response = as_object(as_object(item).get("extra")).get("response")
        draft.add_usage(read_usage(as_object(item).get("usage")) or read_usage(response))
        draft.model = draft.model or text_at(response, "model")
    users = [item for item in map(as_object, document.messages) if item.get("role") == "user"]
    first = users[0] if users else {}
    return draft.finish(
        model=document.model or draft.model or None,
        system=document.system,
        tools=document.tools,
        title=make_title(content_text(first.get("content") or first.get("parts"))) or None,
    )


def _add_text(draft: Draft, role: str, content: Any, number: int) -> None:
    draft.add({"role": role, "content": content}, number)
    if role == "user":
        draft.suggest_title(content_text(content))


def _add_sharegpt(draft: Draft, item: Wire, number: int) -> None:
    _add_text(draft, _SHAREGPT_ROLES.get(item["from"].lower(), "user"), item["value"], number)


def _langchain_type(item: Wire) -> str:
    name = item.get("id")
    if item.get("lc") == 1 and isinstance(name, list) and name and isinstance(name[-1], str):
        return name[-1]
    return text_at(item, "type") if isinstance(item.get("data"), dict) else ""


def _add_langchain(draft: Draft, item: Wire, number: int) -> None:
    data = as_object(item.get("data")) or as_object(item.get("kwargs"))
    role = _LANGCHAIN_ROLES[_langchain_type(item)]
    content = data.get("content")
    text = content_text(content)
    if role == "assistant":
        calls = [
            (text_at(call, "id"), text_at(call, "name"), as_object(call).get("args"))
            for call in as_list(data.get("tool_calls"))
        ]
        thinking = text_at(data.get("additional_kwargs"), "reasoning_content")
        draft.add(openai_assistant(text, thinking=thinking, calls=calls), number)
        draft.add_usage(read_usage(data.get("usage_metadata")))
        draft.model = text_at(data.get("response_metadata"), "model_name", "model") or draft.model
    elif role == "tool":
        draft.add(openai_result(text_at(data, "tool_call_id"), text), number)
    else:
        # other blocks than text and images have no meaning in OpenAI chat and would be refused
        has_image = any(text_at(block, "type") == "image_url" for block in as_list(content))
        _add_text(draft, role, content if has_image else text, number)


def _add_otel(draft: Draft, item: Wire, number: int) -> None:
    parts = item["parts"]
    for part in parts:
        if part["type"] == "tool_call_response":
            answer = part.get("response", part.get("result"))
            draft.add(openai_result(text_at(part, "id"), to_json_text(answer)), number)
    texts = [text_at(part, "content") for part in parts if part["type"] == "text"]
    text = "\n".join(filter(None, texts))
    if item["role"] in ("assistant", "model"):
        calls = [
            (text_at(part, "id"), text_at(part, "name"), part.get("arguments"))
            for part in parts
            if part["type"] == "tool_call"
        ]
        thinking = "\n".join(text_at(part, "content") for part in parts if part["type"] == "reasoning")
        draft.add(openai_assistant(text, thinking=thinking, calls=calls), number)
    elif text:
        _add_text(draft, "system" if item["role"] == "system" else "user", text, number)
