"""What the wires of providers have in common: a request, the parts of a response, the answer; no network."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from refold.clients.sse import Event
from refold.core.flow import Answer, Ask, thought_apart
from refold.core.responses import read_response

Body: TypeAlias = dict[str, Any]

REASONING_ROOM: Final = 4_096
"""Tokens granted on top of an answer's own to models that think first; too few cut the answer off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Who is asked."""

    base: str
    model: str
    provider: str | None = None
    """The provider, where the address tells; else a refusal shows it."""
    key: str = field(default="", repr=False)
    key_variable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """How a response begins."""

    status: int
    content_type: str = ""
    wait: float | None = None
    """Seconds after which to ask again, where it tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What stands in a whole response."""

    text: str
    reasoning: str = ""
    calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """How one provider is asked. A stream is gathered into the body that it gives without one."""

    path: Callable[[str], str]
    """Where behind the base address a model is asked."""
    headers: Callable[[str], dict[str, str]]
    """What a key becomes."""
    payload: Callable[[Ask, str, Collection[str]], Body]
    """The request for a question and a model, without parameters that were refused."""
    spare: tuple[str, ...]
    """Parameters that a model may refuse and a summary can do without."""
    gather: Callable[[Body, Event, Body], bool]
    """Add an event and its data to the body; True where it was the last one."""
    complete: Callable[[Body], bool]
    """Whether a body says how the answer ended."""
    said: Callable[[Body], Said | None]
    """Read a whole body; None where it has another shape."""


def request(wire: Wire, target: Target, question: Ask, without: Collection[str] = ()) -> Request:
    """The request that asks a question."""
    headers = {"content-type": "application/json", "accept": "text/event-stream", "user-agent": "refold"}
    headers["accept-encoding"] = "identity"  # nobody has to guard against answers that unpack to gigabytes
    payload = wire.payload(question, target.model, without)
    return Request(
        url=target.base.rstrip("/") + wire.path(target.model),
        headers={**headers, **(wire.headers(target.key) if target.key else {})},
        # a half of a pair that JSON cannot carry becomes a question mark
        body=json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace"),
    )


def answer(body: Body, said: Said) -> Answer:
    """The answer that a whole body holds."""
    response = read_response(body)
    usage = response.usage
    text, thought = thought_apart(_paired(said.text))
    return Answer(
        text=text,
        finish=_finish(response.finish, response.raw_finish),
        calls=said.calls,
        reasoning=_paired(said.reasoning) or thought,
        model=response.model,
        input_tokens=usage.input if usage else None,
        output_tokens=usage.output if usage else None,
    )


def _finish(finish: str, raw: str) -> str:
    if finish == "overflow":  # the window was full: the answer is cut off like any other
        return "length"
    return finish if finish != "unknown" else raw or "stop"


def _paired(text: str) -> str:
    """The text with characters whose two halves came in two events made whole again."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def text_of(value: Any) -> str:
    """A value that should be text."""
    return value if isinstance(value, str) else ""


def fields_of(value: Any) -> Body:
    """A value that should be an object."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Body]:
    """A value that should be a list of objects."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
