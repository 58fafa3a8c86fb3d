"""Says why OpenAI chat would refuse a history."""

from collections.abc import Sequence

from refold.core.messages import Message, ToolCall
from refold.core.shapes import Problem
from refold.formats import checks
from refold.formats.openai_chat.read import NAME, ROLES


def check(messages: Sequence[Message]) -> list[Problem]:
    """Say why OpenAI would refuse a history."""
    return checks.in_order(
        checks.roles(messages, system_inside=True),
        checks.pairs(messages, lambda message, _: message.role != "tool"),
        checks.arguments(messages, as_text=True, free=_is_custom),
        _contents(messages),
    )


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
