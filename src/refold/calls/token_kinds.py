"""The tokens of a history by kind: system, user, tool results and so on. Counts only, judges nothing."""

from collections.abc import Mapping
from typing import Final

from refold.calls.conversation import Conversation
from refold.core.messages.message import Document, File, Image, Message, Text, Thinking, ToolCall, ToolResult

KINDS: Final = (
    *("system", "summary", "user", "assistant", "tool_calls"),
    *("tool_results", "thinking", "images", "documents", "other"),
)
"""Every kind, in the order in which they are shown."""
_BY_TYPE: Final[Mapping[type, str]] = {
    ToolCall: "tool_calls",
    ToolResult: "tool_results",
    Thinking: "thinking",
    Image: "images",
    Document: "documents",
    File: "documents",
}


def count_by_kind(conversation: Conversation) -> dict[str, int]:
    """Return the tokens of the history by kind; their sum is exactly the history."""
    units: dict[str, float] = dict.fromkeys(KINDS, 0.0)
    for message, size in zip(conversation.messages, conversation.sizes, strict=True):
        for kind, share in _shares(message, conversation).items():
            units[kind] += size * share
    return apportion(units, conversation.budget.breakdown.history)


def _shares(message: Message, conversation: Conversation) -> Mapping[str, float]:
    """Return the share of each kind in a message; its fixed cost is split in the same proportion."""
    if message.is_summary:
        return {"summary": 1.0}
    speaker = "tool_results" if message.role == "tool" else message.role
    kinds = [
        speaker if isinstance(part, Text) else _BY_TYPE.get(type(part), "other") for part in message.parts
    ]
    if len(set(kinds)) < 2:  # most messages: nothing has to be counted a second time
        return {kinds[0] if kinds else speaker: 1.0}
    counter = conversation.counter
    sizes = [
        max(1, counter.message(Message(message.role, (part,))) - counter.per_message)
        for part in message.parts
    ]
    shares = dict.fromkeys(kinds, 0.0)
    for kind, size in zip(kinds, sizes, strict=True):
        shares[kind] += size / sum(sizes)
    return shares


def apportion(units: Mapping[str, float], tokens: int) -> dict[str, int]:
    """Distribute tokens in the proportion of `units`; the largest remainders are rounded up."""
    total = sum(units.values())
    if not total:
        return dict.fromkeys(units, 0)
    exact = {kind: size * tokens / total for kind, size in units.items()}
    counts = {kind: int(size) for kind, size in exact.items()}
    by_remainder = sorted(exact, key=lambda kind: counts[kind] - exact[kind])
    for kind in by_remainder[: tokens - sum(counts.values())]:
        counts[kind] += 1
    return counts
