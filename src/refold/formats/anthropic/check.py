"""Reports why Anthropic would refuse a history."""

from collections.abc import Iterator, Sequence

from refold.core.messages.message import Message, Opaque, Text, Thinking, ToolCall, ToolResult
from refold.core.messages.tool_pairs import link
from refold.core.messages.unread import COMPACTIONS, FAILED_COMPACTION, SIGNED_COMPACTION, must_open_history
from refold.core.messages.wire_rules import Problem
from refold.formats.anthropic.read import CALL_ID, NAME, OUTPUT_CONFIG, TOOL_CHANGES
from refold.formats.shared import checks
from refold.formats.shared.wire_kinds import kinds_in_role
from refold.formats.shared.writing import own_wire


def check(messages: Sequence[Message]) -> list[Problem]:
    """Report why Anthropic would refuse a history; neighbours of one role count as one message."""
    return checks.sort_problems(
        checks.roles(messages, system_inside=True),
        checks.system_between(messages),
        checks.first_is_user(messages),
        checks.pairs(
            messages,
            lambda message, before: message.role == "assistant" and before.role != "assistant",
            unique=True,
        ),
        _find_lone_blocks(messages),
        checks.arguments(messages, as_text=False),
        _check_contents(messages),
        _check_results_first(messages),
        _check_compactions(messages),
        _check_system_blocks(messages),
    )


def _find_lone_blocks(messages: Sequence[Message]) -> Iterator[Problem]:
    """A result of Anthropic's own tools has its call before it; a call has one before the user speaks."""
    for index, place in sorted(link(messages).lone):
        block = messages[index].parts[place]
        kind = block.kind if isinstance(block, Opaque) else ""
        if kind.endswith("tool_use"):
            yield Problem(index, "call-without-result", f"this {kind} has no result, and the user has spoken")
        else:
            yield Problem(
                index, "result-without-call", f"no call before this {kind} has the id that it names"
            )


def _check_contents(messages: Sequence[Message]) -> Iterator[Problem]:
    """Only the last message may be empty; each block stands in the right role and is complete."""
    for index, message in enumerate(messages):
        # an empty last reply is one that the model is to continue
        is_open_reply = index == len(messages) - 1 and message.role == "assistant"
        if not message.parts and not is_open_reply:
            yield Problem(index, "empty-content", "a message needs content")
        elif checks.has_blank_text(message):
            yield Problem(index, "empty-text", "a text needs something to read")
        for part in message.parts:
            if isinstance(part, ToolCall):
                if not CALL_ID.match(part.id):
                    text = f"the call id {checks.shorten(part.id)} has characters that are not allowed"
                    yield Problem(index, "invalid-call-id", text)
                if message.role != "assistant":
                    yield Problem(index, "wrong-role", "only the assistant calls tools")
            elif isinstance(part, ToolResult) and message.role == "assistant":
                yield Problem(index, "wrong-role", "tool results come from the user")
            elif isinstance(part, Thinking) and part.signature is None and part.redacted is None:
                text = "thinking needs its signature: keep it verbatim or drop it whole"
                yield Problem(index, "thinking-without-signature", text)


def _check_results_first(messages: Sequence[Message]) -> Iterator[Problem]:
    """Nothing stands before a tool result in the user's turn."""
    has_other = False
    for index, message in enumerate(messages):
        if message.role == "assistant":
            has_other = False
            continue
        is_late = False
        for part in message.parts:
            is_late = is_late or (has_other and isinstance(part, ToolResult))
            has_other = has_other or not isinstance(part, ToolResult)
        if is_late:
            text = "tool results come first in the user's turn behind the call"
            yield Problem(index, "results-not-first", text)


def _check_compactions(messages: Sequence[Message]) -> Iterator[Problem]:
    """A block that was made on demand is the first of all and the only one; none is empty or the user's."""
    opaque = [
        (index, place, part)
        for index, message in enumerate(messages)
        for place, part in enumerate(message.parts)
        if type(part) is Opaque
    ]
    for index, _, part in opaque:
        if part.kind == FAILED_COMPACTION and part.value.get("content") is not None:
            yield Problem(index, "compaction-empty", "the content of a compaction block is null or a text")
    blocks = [found for found in opaque if found[2].kind in COMPACTIONS]
    is_signed = any(map(must_open_history, messages))
    for index, place, part in blocks:
        is_first = (index, place) == (0, 0) or part.kind != SIGNED_COMPACTION
        if is_signed and (index, place) != blocks[-1][:2]:
            text = "more than one compaction block has content: send only the latest"
            yield Problem(index, "compaction-ambiguous", text)
        elif messages[index].role != "assistant" or not is_first:
            text = "a signed compaction block is the first block of the first message, from the assistant"
            yield Problem(index, "compaction-misplaced", text)


def _check_system_blocks(messages: Sequence[Message]) -> Iterator[Problem]:
    """Changes of tools stand in system messages, which hold nothing else but text and may last one turn."""
    allowed = kinds_in_role(NAME, "system") | {OUTPUT_CONFIG}
    for index, message in enumerate(messages):
        wire = own_wire(message, NAME)
        until = None if wire is None else wire.value.get("clear_at")
        if until is not None and (message.role != "system" or until not in ("never", "next_user_message")):
            text = "`clear_at` stands in a system message and is `never` or `next_user_message`"
            yield Problem(index, "invalid-clear-at", text)
        for part in message.parts:
            kind = part.kind if isinstance(part, Opaque) else ""
            if message.role != "system" and kind in TOOL_CHANGES:
                yield Problem(index, "wrong-role", f"a {kind} block stands in a system message")
            elif message.role == "system" and not isinstance(part, Text) and kind not in allowed:
                yield Problem(index, "wrong-role", "a system message holds text and changes of tools only")
