"""What the wires of talkers have in common: a turn, how a wire is spoken, how calls are read; no network."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from refold.clients.sse import Event
from refold.clients.talking import Called, Json, Piece, Reply
from refold.clients.wires import Body, paired
from refold.core.tokens.responses import read_response


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What is sent."""

    messages: Sequence[Mapping[str, Any]]
    system: str | None = None
    tools: Sequence[Mapping[str, Any]] = ()
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What stands in a whole response."""

    messages: tuple[Json, ...]
    text: str
    reasoning: str = ""
    calls: tuple[Called, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkWire:
    """How one provider is talked to. A stream is gathered into the body that it gives without one."""

    format: str
    path: Callable[[str], str]
    headers: Callable[[str], Mapping[str, str]]
    payload: Callable[[Turn, str, Collection[str]], Body]
    """The request for a turn and a model, without parameters that were refused."""
    spare: tuple[str, ...]
    gather: Callable[[Body, Event, Body], bool]
    """Add an event and its data to what has come; True where it was the last one."""
    complete: Callable[[Body], bool]
    piece: Callable[[Event, Body], Piece]
    """The words in an event."""
    whole: Callable[[Body], Body]
    """The response as it comes without a stream, of what was gathered or came whole."""
    answered: Callable[[Body, str], Answered | None]
    """Read a whole response; None where it has another shape. The text makes names for calls without one."""
    said: Callable[[str], Json]
    """Words of the model, as a message."""
    user: Callable[[str], Json]
    result: Callable[[Called, str, bool], Json]
    merged: Callable[[Sequence[Json]], tuple[Json, ...]] = tuple
    """The results of one answer as the wire wants them: one message each, or one for all."""


def reply_of(wire: TalkWire, whole: Body, stem: str) -> Reply | None:
    """The reply that a whole response holds; None where it has another shape."""
    found = wire.answered(whole, stem)
    if found is None:
        return None
    response = read_response(whole)
    finish = response.finish if response.finish != "unknown" else response.raw_finish or "stop"
    usage = next((whole[key] for key in ("usage", "usageMetadata") if isinstance(whole.get(key), dict)), None)
    return Reply(
        messages=found.messages,
        text=paired(found.text),
        reasoning=paired(found.reasoning),
        calls=found.calls,
        finish=finish,
        usage=usage,
        response=whole,
    )


CUT: Final = "cut"
"""How an answer ended that did not end."""


def partial_of(wire: TalkWire, text: str, reasoning: str) -> Reply | None:
    """What had come of an answer that did not end: its words, which may go into the history, and no calls."""
    if not text and not reasoning:
        return None
    messages = (wire.said(text),) if text.strip() else ()
    return Reply(messages=messages, text=text, reasoning=reasoning, finish=CUT)


def called(id_: Any, name: Any, raw: Any, fallback: str) -> Called:
    """A call, of a name and arguments as text or as an object."""
    known = id_ if isinstance(id_, str) and id_ else fallback
    named = name if isinstance(name, str) else ""
    if isinstance(raw, dict):
        return Called(known, named, raw, json.dumps(raw, ensure_ascii=False))
    text = paired(raw) if isinstance(raw, str) else ""
    arguments = _object(text)
    return Called(known, named, arguments or {}, text, broken=arguments is None)


def _object(text: str) -> dict[str, Any] | None:
    """The object that a text holds; nothing at all stands for an empty one."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def tool_parts(tool: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]] | None:
    """Name, description and parameters of a neutral tool; None for one that is in a wire's own shape."""
    if not isinstance(tool.get("name"), str) or "input_schema" in tool:
        return None
    parameters = tool.get("parameters") or {"type": "object", "properties": {}}
    return tool["name"], str(tool.get("description") or ""), parameters
