"""Keep rules: their contract, and helpers for writing one.

A `Keep` value names what stays; `Keep.segment` gives the segment [start, end) that leaves, or None. Leading
system messages are never part of a segment. The rules of other systems live in `policies`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from refold.core.compaction.cuts import HistoryIndex
from refold.core.messages.message import Message


@dataclass(frozen=True, slots=True)
class Segment:
    """The messages [start, end) that leave."""

    start: int
    end: int
    turn: int | None = None
    """The start of the turn that the end splits, if it splits one."""


@dataclass(frozen=True, slots=True)
class MeasuredHistory:
    """The history as a `Keep` sees it: messages with their sizes, and the numbers of the window."""

    messages: Sequence[Message]
    sizes: Sequence[int]
    """Tokens of each message."""
    window: int
    room: int
    target: int | None = None
    """Tokens the history may have afterwards, where the caller named a number."""
    force: bool = False
    checkpoint: int | None = None
    refused: bool = False
    """True if the provider has refused the history for its size."""
    index: HistoryIndex = field(default=None, compare=False, repr=False)  # type: ignore[assignment]
    """The links and cuts of the messages; made here unless a task hands over its own."""

    def __post_init__(self) -> None:
        if self.index is None or self.index.messages is not self.messages:
            object.__setattr__(self, "index", HistoryIndex(self.messages))

    @property
    def head(self) -> int:
        """Number of system messages (not summaries) that lead the history."""
        return count_system_messages(self.messages)


def count_system_messages(messages: Sequence[Message]) -> int:
    """Count the system messages (not summaries) that lead a history."""
    for index, message in enumerate(messages):
        if message.role != "system" or message.is_summary:
            return index
    return len(messages)


class Keep(Protocol):
    """A rule that says what stays."""

    def segment(self, measured: MeasuredHistory) -> Segment | None:
        """Return the segment that leaves, or None."""
        ...


def find_tail_start(sizes: Sequence[int], limit: int) -> int:
    """Return the start of the longest tail of at most `limit` tokens; the last message stays in any case."""
    total = 0
    for index in range(len(sizes) - 1, -1, -1):
        total += sizes[index]
        if total > limit and index < len(sizes) - 1:
            return index + 1
    return 0


def find_turn_before(messages: Sequence[Message], position: int) -> int | None:
    """Return the index of the last user turn before a position, summaries not counted; None for none."""
    for index in range(position - 1, -1, -1):
        message = messages[index]
        if message.role == "user" and message.is_user_turn and not message.is_summary:
            return index
    return None


def find_turn_starts(messages: Sequence[Message]) -> list[int]:
    """Return the indices at which a user's turn starts, summaries not counted."""
    return [i for i, message in enumerate(messages) if message.is_user_turn and not message.is_summary]
