"""Says why Gemini would refuse a history."""

from collections.abc import Sequence
from itertools import pairwise

from refold.core.messages.message import (
    Message,
    Text,
)
from refold.core.messages.wire_rules import Problem
from refold.formats.shared import checks


def check(messages: Sequence[Message]) -> list[Problem]:
    """Say why Gemini would refuse a history."""
    return checks.in_order(
        checks.roles(messages, system_inside=False),
        checks.first_is_user(messages),
        checks.pairs(messages, _is_too_late),
        checks.arguments(messages, as_text=False),
        _contents(messages),
        _turns(messages),
    )


def _is_too_late(message: Message, before: Message) -> bool:
    """Responses stand in the very next content."""
    return not (before.calls and message.results)


def _contents(messages: Sequence[Message]) -> list[Problem]:
    found = []
    for index, message in enumerate(messages):
        if not message.parts:
            found.append(Problem(index, "empty-content", "a content needs parts"))
        elif any(type(part) is Text and not part.extra and not part.text for part in message.parts):
            found.append(Problem(index, "empty-text", "a text needs something to read"))
    return found


def _turns(messages: Sequence[Message]) -> list[Problem]:
    """As many responses as calls, and calls only behind the user."""
    found = []
    for index, (before, message) in enumerate(pairwise(messages), start=1):
        calls, answers = len(before.calls), len(message.results)
        waiting = index == len(messages) - 1 and answers < calls  # an open call, told as such
        if calls and answers and calls != answers and not waiting:
            text = f"{answers} function responses stand behind {calls} function calls"
            found.append(Problem(index, "call-response-count", text))
        if message.calls and before.role == "assistant":
            text = "function calls stand directly behind the user or a function response"
            found.append(Problem(index, "call-not-behind-user", text))
    return found
