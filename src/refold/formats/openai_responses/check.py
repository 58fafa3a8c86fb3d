"""Reports why OpenAI Responses would refuse a history."""

from collections.abc import Iterator, Sequence

from refold.core.messages.message import Message, Opaque, Thinking, ToolCall, ToolResult
from refold.core.messages.tool_pairs import link
from refold.core.messages.unread import FAILED_COMPACTION
from refold.core.messages.wire_rules import Problem
from refold.formats.openai_responses.read import NAME, role_of_item
from refold.formats.shared import checks
from refold.formats.shared.writing import own_wire


def check(messages: Sequence[Message]) -> list[Problem]:
    """Report why the Responses API would refuse a history."""
    running = (ToolCall, ToolResult, Thinking)
    pairs = checks.pairs(
        messages,
        # behind anything else the calls before it are not about to run
        lambda message, _: not any(isinstance(part, running) for part in message.parts),
        adjacent=False,
        unique=True,
    )
    strays = "no request before this approval has the id that it names"
    pairs += [Problem(index, "result-without-call", strays) for index in link(messages).strays]
    parts = (part for message in messages for part in message.parts)
    if any(isinstance(part, Opaque) and part.kind == "item_reference" for part in parts):
        # the call may be one that the server remembers
        pairs = [problem for problem in pairs if problem.rule != "result-without-call"]
    return checks.sort_problems(
        checks.roles(messages, system_inside=True),
        pairs,
        checks.arguments(messages, as_text=True, is_free=lambda call: "type" in call.extra),
        _check_items(messages),
        _check_steering(messages),
    )


def _check_items(messages: Sequence[Message]) -> Iterator[Problem]:
    """Messages have content, reasoning stands before the item it led to, and no item occurs twice."""
    seen: set[str] = set()
    for index, message in enumerate(messages):
        wire = own_wire(message, NAME)
        if wire is not None and role_of_item(wire.value) and wire.value.get("content") in (None, []):
            yield Problem(index, "empty-content", f"a {message.role} message needs content")
        if any(isinstance(part, Thinking) for part in message.parts):
            following = messages[index + 1].role if index + 1 < len(messages) else "nothing"
            if following != "assistant":
                text = f"a reasoning item is followed by {following}, not by the item it led to"
                yield Problem(index, "reasoning-without-item", text)
        if message.id is not None:
            if message.id in seen:
                text = f"the item id {checks.shorten(message.id)} occurs twice"
                yield Problem(index, "duplicate-item-id", text)
            seen.add(message.id)


def _check_steering(messages: Sequence[Message]) -> Iterator[Problem]:
    """A trigger for compaction is the last item, and an update of the configuration changes something."""
    for index, message in enumerate(messages):
        for part in message.parts:
            if not isinstance(part, Opaque):
                continue
            if part.kind == "compaction_trigger" and index != len(messages) - 1:
                yield Problem(index, "trigger-not-last", "a compaction trigger is the last item of the input")
            elif part.kind == "configuration_update" and not part.value.keys() & {"reasoning", "text"}:
                text = "an update of the configuration has `reasoning`, `text`, or both"
                yield Problem(index, "empty-configuration-update", text)
            elif part.kind == FAILED_COMPACTION:
                text = "a compaction item needs its encrypted content, as it came"
                yield Problem(index, "compaction-empty", text)
