"""What a history is made of: tokens by who spoke and what kind of thing it is; judges nothing."""

from collections.abc import Mapping
from typing import Final

from refold.calls.measure import Conversation
from refold.core.messages.message import (
    Document,
    File,
    Image,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

KINDS: Final = (
    "system",
    "summary",
    "user",
    "assistant",
    "tool_calls",
    "tool_results",
    "thinking",
    "images",
    "documents",
    "other",
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


def by_kind(told: Conversation) -> dict[str, int]:
    """Tokens of the history by kind; together they are exactly the history."""
    units: dict[str, float] = dict.fromkeys(KINDS, 0.0)
    for message, size in zip(told.messages, told.sizes, strict=True):
        for kind, share in _shares(message, told).items():
            units[kind] += size * share
    return _apportioned(units, told.budget.breakdown.history)


def _shares(message: Message, told: Conversation) -> Mapping[str, float]:
    """Which share of a message is of which kind; what a message costs on top is shared alike."""
    kinds = [_kind(message, part) for part in message.parts]
    if len(set(kinds)) < 2:
        return {kinds[0] if kinds else _speaker(message): 1.0}
    alone = told.counter.per_message
    sizes = [max(1, told.counter.message(Message(message.role, (part,))) - alone) for part in message.parts]
    whole = sum(sizes)
    shares: dict[str, float] = {}
    for kind, size in zip(kinds, sizes, strict=True):
        shares[kind] = shares.get(kind, 0.0) + size / whole
    return shares


def _kind(message: Message, part: Part) -> str:
    if isinstance(part, Text) or message.is_summary:
        return _speaker(message)
    return _BY_TYPE.get(type(part), "other")


def _speaker(message: Message) -> str:
    if message.is_summary:
        return "summary"
    return "tool_results" if message.role == "tool" else message.role


def _apportioned(units: Mapping[str, float], tokens: int) -> dict[str, int]:
    """Whole tokens in the proportion of units; the largest remainders are rounded up."""
    whole = sum(units.values())
    if not whole:
        return dict.fromkeys(units, 0)
    exact = {kind: size * tokens / whole for kind, size in units.items()}
    made = {kind: int(size) for kind, size in exact.items()}
    by_rest = sorted(exact, key=lambda kind: made[kind] - exact[kind])
    for kind in by_rest[: tokens - sum(made.values())]:
        made[kind] += 1
    return made
