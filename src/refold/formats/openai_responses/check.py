"""Says why OpenAI Responses would refuse a history."""

from collections.abc import Sequence

from refold.core.messages.message import (
    Message,
    Opaque,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.core.messages.wire_rules import Problem
from refold.formats.openai_responses.read import NAME, role_of
from refold.formats.shared import checks


def check(messages: Sequence[Message]) -> list[Problem]:
    """Say why the Responses API would refuse a history."""
    pairs = checks.pairs(messages, _is_said, adjacent=False, unique=True)
    if any(_is_reference(message) for message in messages):
        # the call may be one that the server remembers
        pairs = [problem for problem in pairs if problem.rule != "result-without-call"]
    return checks.in_order(
        checks.roles(messages, system_inside=True),
        pairs,
        checks.arguments(messages, as_text=True, free=_is_no_function),
        _contents(messages),
        _reasoning_followed(messages),
        _ids(messages),
    )


def _is_said(message: Message, _: Message) -> bool:
    """Whether this is neither call nor output nor reasoning: calls before it are not about to be run."""
    return not any(isinstance(part, (ToolCall, ToolResult, Thinking)) for part in message.parts)


def _is_reference(message: Message) -> bool:
    return any(isinstance(part, Opaque) and part.kind == "item_reference" for part in message.parts)


def _is_no_function(call: ToolCall) -> bool:
    return "type" in call.extra


def _contents(messages: Sequence[Message]) -> list[Problem]:
    found = []
    for index, message in enumerate(messages):
        value = message.wire.value if message.wire is not None and message.wire.format == NAME else None
        if value is not None and role_of(value) is not None and value.get("content") in (None, []):
            found.append(Problem(index, "empty-content", f"a {message.role} message needs content"))
    return found


def _reasoning_followed(messages: Sequence[Message]) -> list[Problem]:
    """A reasoning item stands before the item it led to."""
    found = []
    for index, message in enumerate(messages):
        if any(isinstance(part, Thinking) for part in message.parts):
            behind = messages[index + 1].role if index + 1 < len(messages) else "nothing"
            if behind != "assistant":
                text = f"a reasoning item is followed by {behind}, not by the item it led to"
                found.append(Problem(index, "reasoning-without-item", text))
    return found


def _ids(messages: Sequence[Message]) -> list[Problem]:
    """No item stands in the list twice."""
    seen: set[str] = set()
    found = []
    for index, message in enumerate(messages):
        if message.id is not None and message.id in seen:
            text = f"the item id {checks.short(message.id)} occurs twice"
            found.append(Problem(index, "duplicate-item-id", text))
        elif message.id is not None:
            seen.add(message.id)
    return found
