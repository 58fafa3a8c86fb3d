"""Reports why OpenAI chat would refuse a history."""

from collections.abc import Iterator, Sequence
from typing import Final

from refold.core.messages.message import Message, Opaque
from refold.core.messages.wire_rules import Problem
from refold.formats.openai_chat.read import NAME, ROLES
from refold.formats.shared import checks
from refold.formats.shared.writing import own_wire

_FOREIGN_BLOCKS: Final = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "input_text", "output_text"}
)
"""Content blocks of other providers; OpenAI refuses a message that has one."""


def check(messages: Sequence[Message]) -> list[Problem]:
    """Report why OpenAI would refuse a history."""
    return checks.sort_problems(
        checks.roles(messages, system_inside=True),
        checks.pairs(messages, lambda message, _: message.role != "tool"),
        checks.arguments(messages, as_text=True, is_free=lambda call: call.extra.get("type") == "custom"),
        _check_contents(messages),
    )


def _check_contents(messages: Sequence[Message]) -> Iterator[Problem]:
    """Content is null only beside calls, never an empty list, and has no blocks of other providers."""
    for index, message in enumerate(messages):
        wire = own_wire(message, NAME)
        if wire is not None and wire.value["role"] in ROLES and wire.value.get("content") in (None, []):
            if message.role != "assistant":
                yield Problem(index, "empty-content", f"a {message.role} message needs content")
            elif not message.calls and not wire.value.get("refusal") and not wire.value.get("audio"):
                text = "an assistant message without tool calls needs content"
                yield Problem(index, "content-null-without-calls", text)
        for part in message.parts:
            if type(part) is Opaque and part.kind in _FOREIGN_BLOCKS:
                text = f"a part of type {part.kind!r} belongs to another provider's shape"
                yield Problem(index, "foreign-part", text)
