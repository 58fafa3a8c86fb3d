"""Says why OpenAI chat would refuse a history."""

from collections.abc import Sequence
from typing import Final

from refold.core.messages.message import Message, Opaque, ToolCall
from refold.core.messages.wire_rules import Problem
from refold.formats.openai_chat.read import NAME, ROLES
from refold.formats.shared import checks


def check(messages: Sequence[Message]) -> list[Problem]:
    """Say why OpenAI would refuse a history."""
    return checks.in_order(
        checks.roles(messages, system_inside=True),
        checks.pairs(messages, lambda message, _: message.role != "tool"),
        checks.arguments(messages, as_text=True, free=_is_custom),
        _contents(messages),
        _foreign(messages),
    )


_FOREIGN: Final = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "input_text", "output_text"}
)
"""Content parts of other providers' shapes; OpenAI refuses a message that has one."""


def _foreign(messages: Sequence[Message]) -> list[Problem]:
    return [
        Problem(index, "foreign-part", f"a part of type {part.kind!r} belongs to another provider's shape")
        for index, message in enumerate(messages)
        for part in message.parts
        if type(part) is Opaque and part.kind in _FOREIGN
    ]


def _is_custom(call: ToolCall) -> bool:
    return call.extra.get("type") == "custom"


def _contents(messages: Sequence[Message]) -> list[Problem]:
    """Content is null only beside calls, and never an empty list."""
    found = []
    for index, message in enumerate(messages):
        value = message.wire.value if message.wire is not None and message.wire.format == NAME else None
        if value is None or value.get("content") or value["role"] not in ROLES:
            continue
        content = value.get("content")
        if message.role == "assistant":
            if content != "" and not message.calls and not value.get("refusal") and not value.get("audio"):
                text = "an assistant message without tool calls needs content"
                found.append(Problem(index, "content-null-without-calls", text))
        elif content != "":
            found.append(Problem(index, "empty-content", f"a {message.role} message needs content"))
    return found
