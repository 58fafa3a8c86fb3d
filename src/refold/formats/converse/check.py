"""Reports why Bedrock Converse would refuse a history."""

from collections.abc import Iterator, Sequence

from refold.core.messages.message import Message, Opaque, Text, Thinking, ToolCall, ToolResult
from refold.core.messages.wire_rules import Problem
from refold.formats.converse.read import CALL_ID
from refold.formats.shared import checks

_TOOL_CHANGES = frozenset({"toolAddition", "toolRemoval"})


def check(messages: Sequence[Message]) -> list[Problem]:
    """Report why Bedrock would refuse a history."""
    return checks.sort_problems(
        checks.roles(messages, system_inside=True),
        checks.system_between(messages),
        checks.first_is_user(messages),
        # results stand in the very next message
        checks.pairs(messages, lambda message, before: not (before.calls and message.results), unique=True),
        checks.arguments(messages, as_text=False),
        _check_turns(messages),
        _check_contents(messages),
    )


def _check_turns(messages: Sequence[Message]) -> Iterator[Problem]:
    """User and assistant take turns; a system message between them does not count."""
    before = ""
    for index, message in enumerate(messages):
        if message.role == "system" and message.wire is not None:
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if role == before:
            yield Problem(index, "roles-not-alternating", f"two messages of the {role} stand side by side")
        before = role


def _check_contents(messages: Sequence[Message]) -> Iterator[Problem]:
    """Messages and texts are not empty; each block stands in the right role and is complete."""
    for index, message in enumerate(messages):
        if not message.parts:
            yield Problem(index, "empty-content", "a message needs content")
        elif checks.has_blank_text(message):
            yield Problem(index, "empty-text", "a text needs something to read")
        for part in message.parts:
            if isinstance(part, ToolCall) and not CALL_ID.match(part.id):
                text = f"the call id {checks.shorten(part.id)} is not 1 to 64 letters, digits, _ and -"
                yield Problem(index, "invalid-call-id", text)
            if problem := _find_wrong_role(message.role, part):
                yield Problem(index, "wrong-role", problem)


def _find_wrong_role(role: str, part: object) -> str:
    """Return what is wrong with a part in a message of a role; empty if nothing is."""
    kind = part.kind if isinstance(part, Opaque) else ""
    if role == "system":
        is_allowed = isinstance(part, Text) or kind in {*_TOOL_CHANGES, "cachePoint", "guardContent"}
        return "" if is_allowed else "a system message holds text and changes of tools only"
    if kind in _TOOL_CHANGES:
        return f"a {kind} block stands in a system message"
    if isinstance(part, ToolCall | Thinking) and role != "assistant":
        return "only the assistant calls tools and thinks"
    return "tool results come from the user" if isinstance(part, ToolResult) and role == "assistant" else ""
