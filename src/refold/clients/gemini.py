"""Gemini as a wire."""

import re
from collections.abc import Collection
from typing import Any, Final
from urllib.parse import quote

from refold.clients import behind
from refold.clients.endpoints import Endpoint, provider
from refold.clients.http import HttpClient
from refold.clients.sse import Event
from refold.clients.wires import REASONING_ROOM, Body, Said, Wire, fields_of, list_of, text_of
from refold.core.compaction.flow import Ask

_THINKS: Final = re.compile(r"gemini-(?:2\.5|[3-9])")
_SPARES_THOUGHT: Final = re.compile(r"gemini-2\.5-flash")
"""Models that answer without thinking if told so; the larger ones cannot."""


def _path(model: str) -> str:
    return f"/v1beta/models/{quote(model.removeprefix('models/'), safe='')}:streamGenerateContent?alt=sse"


def _payload(question: Ask, model: str, without: Collection[str]) -> Body:
    spared = bool(_SPARES_THOUGHT.search(model)) and "thinkingConfig" not in without
    settings: Body = {} if "temperature" in without else {"temperature": 0}
    if spared:
        settings["thinkingConfig"] = {"thinkingBudget": 0}
    if question.max_tokens is not None:
        room = REASONING_ROOM if _THINKS.search(model) and not spared else 0
        settings["maxOutputTokens"] = question.max_tokens + room
    payload: Body = {
        "contents": [{"role": "user", "parts": [{"text": question.text}]}],
        "generationConfig": settings,
    }
    if question.system:
        payload["systemInstruction"] = {"parts": [{"text": question.system}]}
    return payload


def _gather(body: Body, _event: Event, data: Body) -> bool:
    for key in ("usageMetadata", "modelVersion", "promptFeedback"):
        if data.get(key):
            body[key] = data[key]
    for candidate in list_of(data.get("candidates"))[:1]:
        ours = body.setdefault("candidates", [{"content": {"role": "model", "parts": []}}])[0]
        ours["finishReason"] = candidate.get("finishReason") or ours.get("finishReason")
        ours["content"]["parts"] += list_of(fields_of(candidate.get("content")).get("parts"))
    return False  # no event says that it is the last


def _complete(body: Body) -> bool:
    blocked = fields_of(body.get("promptFeedback")).get("blockReason")
    return bool(blocked) or any(each.get("finishReason") for each in list_of(body.get("candidates")))


def _said(body: Body) -> Said | None:
    candidates = list_of(body.get("candidates"))
    if not candidates:
        return Said(text="") if _complete(body) else None
    parts = list_of(fields_of(candidates[0].get("content")).get("parts"))
    return Said(
        text="".join(text_of(part.get("text")) for part in parts if not part.get("thought")),
        reasoning="".join(text_of(part.get("text")) for part in parts if part.get("thought")),
        calls=sum("functionCall" in part for part in parts),
    )


GENERATE: Final = Wire(
    path=_path,
    headers=lambda key: {"x-goog-api-key": key},  # in the address it would stand in every log
    payload=_payload,
    spare=("temperature", "thinkingConfig"),
    gather=_gather,
    complete=_complete,
    said=_said,
    name="gemini",
    behind=behind.gemini,
)

GEMINI: Final = Endpoint(
    scheme="gemini",
    base="https://generativelanguage.googleapis.com",
    bases=("GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"),
    keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    example="gemini:gemini-2.5-flash",
    version="/v1beta",
)


def open_client(model: str, **options: Any) -> HttpClient:
    """Open a client of Gemini."""
    return provider(GEMINI, GENERATE, model, options)
