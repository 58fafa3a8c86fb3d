"""Gemini as a talker's wire."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from refold.clients.gemini import GENERATE
from refold.clients.sse import Event
from refold.clients.talking import Called, Json, Piece
from refold.clients.talking_wires import Answered, TalkWire, Turn, called, tool_parts
from refold.clients.wires import Body, fields_of, list_of, paired, text_of

_THINKS: Final = re.compile(r"gemini-(?:2\.5|[3-9])")
_UNKNOWN: Final = frozenset({"$schema", "additionalProperties", "$id", "default"})
"""Words of JSON schema that this wire refuses."""
_PARTS: Final = "parts"


def _payload(turn: Turn, model: str, without: Collection[str]) -> Body:
    settings: Body = {}
    if turn.max_tokens is not None:
        settings["maxOutputTokens"] = turn.max_tokens
    if _THINKS.search(model) and "thinkingConfig" not in without:
        settings["thinkingConfig"] = {"includeThoughts": True}
    payload: Body = {"contents": _merged(turn.messages), "generationConfig": settings}
    if turn.system:
        payload["systemInstruction"] = {"parts": [{"text": turn.system}]}
    if turn.tools:
        payload["tools"] = [_tools(turn.tools)]
    return payload


def _tools(tools: Sequence[Mapping[str, Any]]) -> Json:
    declared: list[Json] = []
    for tool in tools:
        parts = tool_parts(tool)
        if parts is None:
            declared += list_of(tool.get("functionDeclarations"))
        else:
            name, description, parameters = parts
            declared.append({"name": name, "description": description, "parameters": _schema(parameters)})
    return {"functionDeclarations": declared}


def _schema(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _schema(item) for key, item in value.items() if key not in _UNKNOWN}
    return [_schema(item) for item in value] if isinstance(value, list) else value


def _merged(messages: Sequence[Mapping[str, Any]]) -> list[Json]:
    """The contents, neighbouring results as one: as many as there were calls, right behind them."""
    merged: list[Json] = []
    for message in messages:
        if merged and _gives(merged[-1]) and _gives(message):
            merged[-1] = {**merged[-1], "parts": [*merged[-1]["parts"], *message["parts"]]}
        else:
            merged.append(dict(message))
    return merged


def _gives(message: Mapping[str, Any]) -> bool:
    parts = list_of(message.get("parts"))
    return bool(parts) and all("functionResponse" in part for part in parts)


def _new(data: Body) -> list[Body]:
    first = next(iter(list_of(data.get("candidates"))), {})
    return list_of(fields_of(first.get("content")).get("parts"))


def _piece(_event: Event, data: Body) -> Piece:
    parts = _new(data)
    return Piece(
        "".join(text_of(part.get("text")) for part in parts if not part.get("thought")),
        "".join(text_of(part.get("text")) for part in parts if part.get("thought")),
    )


def _gather(body: Body, _event: Event, data: Body) -> bool:
    for key in ("usageMetadata", "modelVersion", "promptFeedback", "responseId"):
        if data.get(key):
            body[key] = data[key]
    for candidate in list_of(data.get("candidates"))[:1]:
        body["ended"] = candidate.get("finishReason") or body.get("ended")
        body.setdefault(_PARTS, []).extend(_new(data))
    return False  # no event says that it is the last


def _complete(body: Body) -> bool:
    return bool(fields_of(body.get("promptFeedback")).get("blockReason") or body.get("ended"))


def _whole(body: Body) -> Body:
    if _PARTS not in body:
        return body
    rest = {key: value for key, value in body.items() if key not in (_PARTS, "ended")}
    content = {"role": "model", "parts": _joined(body[_PARTS])}
    return {"candidates": [{"content": content, "finishReason": body.get("ended")}], **rest}


def _joined(parts: Sequence[Body]) -> list[Body]:
    """The parts, words that follow each other as one; what carries a signature stays as it is."""
    joined: list[list[Body]] = []
    for part in parts:
        if joined and set(part) <= {"text", "thought"} and _plain(joined[-1][-1], part):
            joined[-1].append(part)
        else:
            joined.append([part])
    return [
        run[0]
        if len(run) == 1
        else {**run[0], "text": paired("".join(text_of(each.get("text")) for each in run))}
        for run in joined
    ]


def _plain(last: Body, part: Body) -> bool:
    return set(last) == set(part) and last.get("thought") == part.get("thought")


def _answered(whole: Body, stem: str) -> Answered | None:
    candidates = list_of(whole.get("candidates"))
    if not candidates:
        return Answered(messages=(), text="") if _complete(whole) else None
    parts = _new(whole)
    kept = [part for part in parts if not part.get("thought")]
    said = any(text_of(part.get("text")).strip() or set(part) - {"text"} for part in kept)
    calls = [(at, part) for at, part in enumerate(parts) if isinstance(part.get("functionCall"), dict)]
    words = _piece(Event(""), whole)
    return Answered(
        messages=({"role": "model", "parts": kept},) if said else (),
        text=words.text,
        reasoning=words.reasoning,
        calls=tuple(_call(part["functionCall"], f"{stem}{at}") for at, part in calls),
    )


def _call(call: Body, fallback: str) -> Called:
    return called(call.get("id"), call.get("name"), fields_of(call.get("args")), fallback)


def _result(call: Called, text: str, failed: bool) -> Json:  # noqa: FBT001  # the shape of every wire's own
    given: Json = {"name": call.name, "response": {"error" if failed else "result": text}}
    if not call.id.startswith(STEM):  # a name of our own means nothing to the provider
        given = {"id": call.id, **given}
    return {"role": "user", "parts": [{"functionResponse": given}]}


STEM: Final = "call-"
"""How the names begin that calls without one are given."""

GEMINI: Final = TalkWire(
    format="gemini",
    path=GENERATE.path,
    headers=GENERATE.headers,
    payload=_payload,
    spare=("thinkingConfig",),
    gather=_gather,
    complete=_complete,
    piece=_piece,
    whole=_whole,
    answered=_answered,
    said=lambda text: {"role": "model", "parts": [{"text": text}]},
    user=lambda text: {"role": "user", "parts": [{"text": text}]},
    result=_result,
    merged=lambda results: tuple(_merged(results)),
)
