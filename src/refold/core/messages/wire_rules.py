"""What a wire format accepts, as far as cutting, mending and checking have to know it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The grammar of a wire format in a few answers."""

    name: str
    results_in_user: bool = False
    """Tool results are parts of a user message right behind the call (Anthropic, Gemini)."""
    results_anywhere: bool = False
    """Tool results may stand anywhere behind their call, and each call is an item of its own (Responses)."""
    unique_ids: bool = False
    """No two calls of a history share an id; else no two of one message."""
    system_inside: bool = True
    """System messages may stand inside the history; else they are written as user messages."""
    starts_with_user: bool = False
    """The first message that is not a system message must come from the user."""
    calls_behind_user: bool = False
    """Tool calls stand directly behind the user or a tool result, never behind another reply (Gemini)."""
    allows_empty: bool = True
    """Messages without text and empty text parts are accepted."""
    needs_content: bool = False
    """A message without any part is refused, one with an empty text is not (OpenAI chat)."""
    alternates: bool = False
    """Roles must alternate; neighbours of one role count as one message."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why a provider would refuse a history."""

    index: int | None
    """Position of the message, or None where the history as a whole is meant."""
    rule: str
    """Short stable name of the rule, e.g. `result-without-call`."""
    message: str
    """What is wrong and where, in one sentence."""


CANONICAL = Shape(name="refold")
"""Lists of `Message` values: tool results in `tool` messages, system messages anywhere."""
