"""What the wires of providers have in common: a request, the parts of a response, the answer; no network."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from refold.clients.sse import Event
from refold.core.compaction.flow import Answer, Ask, thought_apart
from refold.core.tokens.responses import read_response

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


class Gatherer(Protocol):
    """How the parts of a stream become one body; what asking and talking have in common."""

    @property
    def spare(self) -> tuple[str, ...]:
        """Parameters that a model may refuse and that one can do without."""
        ...

    @property
    def gather(self) -> Callable[[Body, Event, Body], bool]:
        """Add an event and its data to the body; True where it was the last one."""
        ...

    @property
    def complete(self) -> Callable[[Body], bool]:
        """Whether a body says how the answer ended."""
        ...


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
    name: str = ""
    """The shape of its messages, as formats call it."""
    behind: Callable[[Body, Ask], Body] | None = None
    """The same request behind the conversation that a question brings along."""


def request(wire: Wire, target: Target, question: Ask, without: Collection[str] = ()) -> Request:
    """The request that asks a question."""
    payload = wire.payload(question, target.model, without)
    if wire.behind is not None and prefixed(wire, target, question):
        payload = wire.behind(payload, question)
    return posted(target, wire.path, wire.headers, payload)


def prefixed(wire: Wire, target: Target, question: Ask) -> bool:
    """Whether a question goes behind the conversation: only to the model that this is held with."""
    prefix = question.prefix
    return (
        prefix is not None
        and wire.behind is not None
        and prefix.format == wire.name
        and prefix.is_with(target.provider or "", target.model)
    )


def posted(
    target: Target, path: Callable[[str], str], keyed: Callable[[str], Mapping[str, str]], payload: Body
) -> Request:
    """The request that brings a payload to a target."""
    headers = {"content-type": "application/json", "accept": "text/event-stream", "user-agent": "refold"}
    headers["accept-encoding"] = "identity"  # nobody has to guard against answers that unpack to gigabytes
    return Request(
        url=target.base.rstrip("/") + path(target.model),
        headers={**headers, **(keyed(target.key) if target.key else {})},
        # a half of a pair that JSON cannot carry becomes a question mark
        body=json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace"),
    )


def answer(body: Body, said: Said) -> Answer:
    """The answer that a whole body holds."""
    response = read_response(body)
    usage = response.usage
    text, thought = thought_apart(paired(said.text))
    return Answer(
        text=text,
        finish=_finish(response.finish, response.raw_finish),
        calls=said.calls,
        reasoning=paired(said.reasoning) or thought,
        model=response.model,
        input_tokens=usage.input if usage else None,
        output_tokens=usage.output if usage else None,
        cache_read=usage.cache_read if usage else 0,
        cache_write=usage.cache_write if usage else 0,
    )


def _finish(finish: str, raw: str) -> str:
    if finish == "overflow":  # the window was full: the answer is cut off like any other
        return "length"
    return finish if finish != "unknown" else raw or "stop"


def paired(text: str) -> str:
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
