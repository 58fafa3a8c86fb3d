"""What happens in a turn, as values, in the order in which it happens."""

from dataclasses import dataclass
from typing import TypeAlias

from refold.chat.showing import Note
from refold.clients.talking import Called, Reply


@dataclass(frozen=True, slots=True)
class Asking:
    """The model is asked; from here on one waits for it."""


@dataclass(frozen=True, slots=True)
class Words:
    """Some words of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """Some words of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True, slots=True)
class Using:
    """The model wants to use a tool."""

    call: Called


@dataclass(frozen=True, slots=True)
class Used:
    """What a tool gave."""

    call: Called
    text: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Again:
    """What was said so far does not count: the same is asked again, of a shorter history."""

    reason: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The model has said what it wanted to say, or calls tools."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class Stopped:
    """The person interrupted; what the model had said is kept."""

    kept: str


Happening: TypeAlias = Asking | Words | Thought | Using | Used | Again | Answered | Stopped | Note
