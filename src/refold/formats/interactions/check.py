"""Reports why Gemini's Interactions API would refuse a history."""

from collections.abc import Sequence

from refold.core.messages.message import Message, Thinking, ToolCall, ToolResult
from refold.core.messages.wire_rules import Problem
from refold.formats.shared import checks


def check(messages: Sequence[Message]) -> list[Problem]:
    """Report why the Interactions API would refuse a history."""
    running = (ToolCall, ToolResult, Thinking)
    return checks.sort_problems(
        checks.pairs(
            messages,
            # behind anything else the calls before it are not about to run
            lambda message, _: not any(isinstance(part, running) for part in message.parts),
            adjacent=False,
            unique=True,
        ),
        checks.arguments(messages, as_text=False),
    )
