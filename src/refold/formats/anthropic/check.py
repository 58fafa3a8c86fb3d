"""Says why Anthropic would refuse a history."""

from collections.abc import Sequence

from refold.core.messages.message import (
    Message,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.core.messages.wire_rules import Problem
from refold.formats.anthropic.read import CALL_ID
from refold.formats.shared import checks


def check(messages: Sequence[Message]) -> list[Problem]:
    """Say why Anthropic would refuse a history; neighbours of one role count as one message."""
    return checks.in_order(
        checks.roles(messages, system_inside=False),
        checks.first_is_user(messages),
        checks.pairs(messages, _starts_assistant_turn, unique=True),
        checks.arguments(messages, as_text=False),
        _contents(messages),
        _blocks(messages),
        _results_first(messages),
    )


def _starts_assistant_turn(message: Message, before: Message) -> bool:
    return message.role == "assistant" and before.role != "assistant"


def _contents(messages: Sequence[Message]) -> list[Problem]:
    """Only the last message, where the assistant is to go on, may be empty."""
    found = []
    for index, message in enumerate(messages):
        last = index == len(messages) - 1 and message.role == "assistant"
        if not message.parts and not last:
            found.append(Problem(index, "empty-content", "a message needs content"))
        elif checks.blank_texts(message):
            found.append(Problem(index, "empty-text", "a text needs something to read"))
    return found


def _blocks(messages: Sequence[Message]) -> list[Problem]:
    """Each block stands in the right role and is whole."""
    found = []
    for index, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, ToolCall):
                if not CALL_ID.match(part.id):
                    text = f"the call id {checks.short(part.id)} has characters that are not allowed"
                    found.append(Problem(index, "invalid-call-id", text))
                if message.role != "assistant":
                    found.append(Problem(index, "wrong-role", "only the assistant calls tools"))
            elif isinstance(part, ToolResult) and message.role == "assistant":
                found.append(Problem(index, "wrong-role", "tool results come from the user"))
            elif isinstance(part, Thinking) and part.signature is None and part.redacted is None:
                text = "thinking needs its signature: keep it verbatim or drop it whole"
                found.append(Problem(index, "thinking-without-signature", text))
    return found


def _results_first(messages: Sequence[Message]) -> list[Problem]:
    """Nothing stands before a tool result in the user's turn."""
    found = []
    other = False
    for index, message in enumerate(messages):
        if message.role == "assistant":
            other = False
            continue
        late = False
        for part in message.parts:
            late = late or (other and isinstance(part, ToolResult))
            other = other or not isinstance(part, ToolResult)
        if late:
            text = "tool results come first in the user's turn behind the call"
            found.append(Problem(index, "results-not-first", text))
    return found
