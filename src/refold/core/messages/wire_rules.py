"""The rules of a wire format that cutting, repair and checks have to know."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from refold.core.messages.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The rules of one wire format."""

    name: str
    results_in_user: bool = False
    """Tool results are parts of a user message directly behind the call (Anthropic, Gemini)."""
    results_anywhere: bool = False
    """Tool results may stand anywhere behind their call, and each call is an item of its own (Responses)."""
    unique_ids: bool = False
    """No two calls of a history share an id; else no two calls of one message."""
    system_inside: bool = True
    """System messages may stand inside the history; else they are written as user messages."""
    system_behind_user: bool = False
    """System messages of this format may stand between a user's turn and the reply (Anthropic, Converse)."""
    starts_with_user: bool = False
    """The first message that is not a system message must come from the user."""
    calls_behind_user: bool = False
    """Tool calls stand directly behind the user or a tool result, never behind another reply (Gemini)."""
    allows_empty: bool = True
    """Messages without text and empty text parts are accepted."""
    spaces: str | None = None
    """The characters of a text that counts as empty; all white space by default, none for Gemini."""
    needs_content: bool = False
    """A message without any part is refused, one with an empty text is not (OpenAI chat)."""
    alternates: bool = False
    """Roles must alternate; neighbours of one role count as one message."""
    takes_turns: bool = False
    """Roles must alternate, and neighbours of one role are refused (Converse)."""
    own_calls: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The types of results whose calls can be made up, each with the type of the call (Responses)."""


def is_own(message: Message, shape: Shape) -> bool:
    """True if a message was read from the format of a shape."""
    return message.wire is not None and message.wire.format == shape.name


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason for a provider to refuse a history."""

    index: int | None
    """Position of the message, or None for the history as a whole."""
    rule: str
    """Short stable name of the rule, e.g. `result-without-call`."""
    message: str
    """One sentence that says what is wrong and where."""


CANONICAL = Shape(name="refold")
"""Lists of `Message` values: tool results in `tool` messages, system messages anywhere."""
