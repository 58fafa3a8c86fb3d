"""Gemini `streamGenerateContent`: questions, and conversations with tools."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from refold.clients.chat import Delta, Json, RequestedCall
from refold.clients.http.client import HttpClient
from refold.clients.http.endpoints import Endpoint, open_provider
from refold.clients.http.sse import Event
from refold.clients.http.wire import (
    CALL_ID_STEM,
    REASONING_TOKENS,
    Reading,
    Turn,
    Wire,
    drop_empty,
    fields_of,
    join_surrogates,
    list_of,
    parse_call,
    text_of,
    tool_parts,
    without_key,
)
from refold.core.compaction.cached_prefix import CachedPrefix
from refold.core.compaction.flow import Ask

_REASONS: Final = re.compile(r"gemini-(?:2\.5|[3-9])")
_REASONS_ON_REQUEST: Final = re.compile(r"gemini-2\.5-flash")
"""Models that answer without reasoning if the budget is 0; the larger ones refuse that."""
_UNKNOWN_SCHEMA_WORDS: Final = frozenset({"$schema", "additionalProperties", "$id", "default"})
"""Words of JSON schema that this wire refuses."""


def _ask_body(question: Ask, model: str, refused: Collection[str]) -> Json:
    skips_reasoning = bool(_REASONS_ON_REQUEST.search(model)) and "thinkingConfig" not in refused
    settings: Json = {} if "temperature" in refused else {"temperature": 0}
    if skips_reasoning:
        settings["thinkingConfig"] = {"thinkingBudget": 0}
    if question.max_tokens is not None:
        reasoning = REASONING_TOKENS if _REASONS.search(model) and not skips_reasoning else 0
        settings["maxOutputTokens"] = question.max_tokens + reasoning
    body: Json = {"contents": [_user(question.text)], "generationConfig": settings}
    if question.system:
        body["systemInstruction"] = {"parts": [{"text": question.system}]}
    return body


def _append_question(body: Json, prefix: CachedPrefix, closing: str) -> Json:
    system = {"parts": [{"text": prefix.system}]} if isinstance(prefix.system, str) else prefix.system
    shared = drop_empty({"systemInstruction": system if prefix.system else None, "tools": list(prefix.tools)})
    contents = [*prefix.messages, _user(closing)]
    return {**without_key(body, "systemInstruction"), **shared, "contents": contents}


def _chat_body(turn: Turn, model: str, refused: Collection[str]) -> Json:
    settings: Json = {}
    if turn.max_tokens is not None:
        settings["maxOutputTokens"] = turn.max_tokens
    if _REASONS.search(model) and "thinkingConfig" not in refused:
        settings["thinkingConfig"] = {"includeThoughts": True}
    body: Json = {"contents": _merge_results(turn.messages), "generationConfig": settings}
    if turn.system:
        body["systemInstruction"] = {"parts": [{"text": turn.system}]}
    if turn.tools:
        declared: list[Json] = []
        for tool in turn.tools:
            parts = tool_parts(tool)
            if parts is None:
                declared += list_of(tool.get("functionDeclarations"))
            else:
                schema = _known_schema(parts[2])
                declared.append({"name": parts[0], "description": parts[1], "parameters": schema})
        body["tools"] = [{"functionDeclarations": declared}]
    return body


def _known_schema(value: Any) -> Any:
    """Return a JSON schema without the words that this wire refuses."""
    if isinstance(value, Mapping):
        return {key: _known_schema(item) for key, item in value.items() if key not in _UNKNOWN_SCHEMA_WORDS}
    return [_known_schema(item) for item in value] if isinstance(value, list) else value


def _merge_results(messages: Sequence[Mapping[str, Any]]) -> list[Json]:
    """Merge neighbouring results: the wire wants as many in one content as there were calls before it."""

    def has_only_results(message: Mapping[str, Any]) -> bool:
        parts = list_of(message.get("parts"))
        return bool(parts) and all("functionResponse" in part for part in parts)

    merged: list[Json] = []
    for message in messages:
        if merged and has_only_results(merged[-1]) and has_only_results(message):
            merged[-1] = {**merged[-1], "parts": [*merged[-1]["parts"], *message["parts"]]}
        else:
            merged.append(dict(message))
    return merged


def _parts(data: Json) -> list[Json]:
    first = next(iter(list_of(data.get("candidates"))), {})
    return list_of(fields_of(first.get("content")).get("parts"))


def _delta(_event: Event, data: Json) -> Delta:
    parts = _parts(data)
    return Delta(
        "".join(text_of(part.get("text")) for part in parts if not part.get("thought")),
        "".join(text_of(part.get("text")) for part in parts if part.get("thought")),
    )


def _gather(state: Json, _event: Event, data: Json) -> bool:
    for key in ("usageMetadata", "modelVersion", "promptFeedback", "responseId"):
        if data.get(key):
            state[key] = data[key]
    for candidate in list_of(data.get("candidates"))[:1]:
        state["finish"] = candidate.get("finishReason") or state.get("finish")
        state.setdefault("parts", []).extend(_parts(data))
    return False  # no event says that it is the last


def _is_blocked(body: Json) -> bool:
    return bool(fields_of(body.get("promptFeedback")).get("blockReason"))


def _assemble(state: Json) -> Json:
    if "parts" not in state:
        return state
    rest = without_key(without_key(state, "parts"), "finish")
    content = {"role": "model", "parts": _join_texts(state["parts"])}
    return {"candidates": [{"content": content, "finishReason": state.get("finish")}], **rest}


def _join_texts(parts: Sequence[Json]) -> list[Json]:
    """Join neighbouring parts of text; a part with a signature stays alone, since the signature covers it."""
    groups: list[list[Json]] = []
    for part in parts:
        last = groups[-1][-1] if groups else {}
        is_plain = set(part) <= {"text", "thought"} and set(last) == set(part)
        if groups and is_plain and last.get("thought") == part.get("thought"):
            groups[-1].append(part)
        else:
            groups.append([part])
    return [
        group[0]
        if len(group) == 1
        else {**group[0], "text": join_surrogates("".join(text_of(part.get("text")) for part in group))}
        for group in groups
    ]


def _read(response: Json, id_stem: str) -> Reading | None:
    if not list_of(response.get("candidates")):
        return Reading(text="") if _is_blocked(response) else None
    parts = _parts(response)
    said = [part for part in parts if not part.get("thought")]
    has_content = any(text_of(part.get("text")).strip() or set(part) - {"text"} for part in said)
    words = _delta(Event(""), response)
    calls = []
    for at, part in enumerate(parts):
        if isinstance(call := part.get("functionCall"), dict):
            arguments = fields_of(call.get("args"))
            calls.append(parse_call(call.get("id"), call.get("name"), arguments, f"{id_stem}{at}"))
    return Reading(
        text=words.text,
        reasoning=words.reasoning,
        messages=({"role": "model", "parts": said},) if has_content else (),
        calls=tuple(calls),
        call_count=sum("functionCall" in part for part in parts),
    )


def _user(text: str) -> Json:
    return {"role": "user", "parts": [{"text": text}]}


def _result(call: RequestedCall, text: str, failed: bool) -> Json:  # noqa: FBT001  # the signature of `Wire.result`
    response: Json = {"name": call.name, "response": {"error" if failed else "result": text}}
    # The provider does not know an id that we made up.
    if not call.id.startswith(CALL_ID_STEM):
        response = {"id": call.id, **response}
    return {"role": "user", "parts": [{"functionResponse": response}]}


WIRE: Final = Wire(
    format="gemini",
    path=lambda model: (
        f"/v1beta/models/{quote(model.removeprefix('models/'), safe='')}:streamGenerateContent?alt=sse"
    ),
    # A key in the address would appear in every log.
    headers=lambda key: {"x-goog-api-key": key},
    ask_body=_ask_body,
    ask_optional=("temperature", "thinkingConfig"),
    append_question=_append_question,
    chat_body=_chat_body,
    chat_optional=("thinkingConfig",),
    gather=_gather,
    is_complete=lambda state: _is_blocked(state) or bool(state.get("finish")),
    assemble=_assemble,
    delta=_delta,
    read=_read,
    assistant=lambda text: {"role": "model", "parts": [{"text": text}]},
    user=_user,
    result=_result,
    merge_results=lambda results: tuple(_merge_results(results)),
)
ENDPOINT: Final = Endpoint(
    scheme="gemini",
    base="https://generativelanguage.googleapis.com",
    bases=("GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"),
    keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    example="gemini:gemini-2.5-flash",
    version="/v1beta",
)


def open_client(model: str, **options: Any) -> HttpClient:
    """Open a client of Gemini."""
    return open_provider(ENDPOINT, WIRE, model, options)
