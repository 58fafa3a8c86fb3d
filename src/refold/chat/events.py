"""The events of a turn, as values, in the order in which they happen."""

from dataclasses import dataclass
from typing import TypeAlias

from refold.chat.display import Note
from refold.clients.chat import Reply, RequestedCall


@dataclass(frozen=True, slots=True)
class RequestSent:
    """The request was sent; the model has not answered yet."""


@dataclass(frozen=True, slots=True)
class TextReceived:
    """A piece of the reply."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningReceived:
    """A piece of the reasoning before the reply."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool that the model requested starts."""

    call: RequestedCall


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """The result of a tool."""

    call: RequestedCall
    text: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Retried:
    """The reply so far is void: the request is sent again with a shorter history."""

    reason: str


@dataclass(frozen=True, slots=True)
class ReplyReceived:
    """The whole reply, which may request tools."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The user interrupted; the text so far is recorded."""

    kept: str


ChatEvent: TypeAlias = (
    RequestSent
    | TextReceived
    | ReasoningReceived
    | ToolStarted
    | ToolFinished
    | Retried
    | ReplyReceived
    | Interrupted
    | Note
)
