"""Reports why Gemini would refuse a history."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from refold.core.messages.message import Message, Text
from refold.core.messages.wire_rules import Problem
from refold.formats.shared import checks


def check(messages: Sequence[Message]) -> list[Problem]:
    """Report why Gemini would refuse a history."""
    return checks.sort_problems(
        checks.roles(messages, system_inside=False),
        checks.first_is_user(messages),
        # responses stand in the very next content
        checks.pairs(messages, lambda message, before: not (before.calls and message.results)),
        checks.arguments(messages, as_text=False),
        _check_contents(messages),
        _check_turns(messages),
    )


def _check_contents(messages: Sequence[Message]) -> Iterator[Problem]:
    for index, message in enumerate(messages):
        if not message.parts:
            yield Problem(index, "empty-content", "a content needs parts")
        elif any(type(part) is Text and not part.extra and not part.text for part in message.parts):
            yield Problem(index, "empty-text", "a text needs something to read")


def _check_turns(messages: Sequence[Message]) -> Iterator[Problem]:
    """There are as many responses as calls, and calls stand only behind the user."""
    for index, (before, message) in enumerate(pairwise(messages), start=1):
        calls, answers = len(before.calls), len(message.results)
        # calls that are still open at the end are reported as such
        is_waiting = index == len(messages) - 1 and answers < calls
        if calls and answers and calls != answers and not is_waiting:
            text = f"{answers} function responses stand behind {calls} function calls"
            yield Problem(index, "call-response-count", text)
        if message.calls and before.role == "assistant":
            text = "function calls stand directly behind the user or a function response"
            yield Problem(index, "call-not-behind-user", text)
