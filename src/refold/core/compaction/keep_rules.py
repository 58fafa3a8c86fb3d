"""Keep rules: their contract, helpers for writing one, and the rule of the policy `refold`.

A `Keep` value names what stays; `Keep.segment` gives the segment [start, end) that leaves, or None. Leading
system messages are never part of a segment. The rules of other systems live in `policies`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol

from refold.core.compaction.cuts import HistoryIndex, find_cuts_near
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
    guarded: int = 0
    """Tokens of the messages that stay in any case."""
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


def find_tail_start(sizes: Sequence[int], limit: int, *, at_least: int = 1) -> int:
    """Return the start of the longest tail of at most `limit` tokens; the last messages stay in any case."""
    total = 0
    for index in range(len(sizes) - 1, -1, -1):
        total += sizes[index]
        if total > limit and len(sizes) - index > at_least:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentRoom:
    """Keep the last turns up to a number of tokens and a share of the room, at a legal cut.

    The tail starts at a user's turn where one begins inside it and at least the share `near` of the tail's
    tokens stands behind that turn; else it starts inside the turn. The numbers were derived in
    docs/decisions/0015-when-to-fold.md.
    """

    tokens: int = 20_000
    room_fraction: float = 0.25
    lean_tokens: int | None = None
    """The tokens in a room larger than `lean_from`: it is folded before it is full, so a deep fold pays."""
    lean_from: int = 0
    near: float = 0.5
    split_least: int = 5
    """Messages of a split turn before the cut from which on the turn has a summary of its own."""

    def segment(self, measured: MeasuredHistory) -> Segment | None:
        """Return the segment before the tail, and the turn it splits."""
        head, sizes, length = measured.head, measured.sizes, len(measured.messages)
        lean = self.lean_tokens if measured.room > self.lean_from else None
        most = self.tokens if lean is None else min(lean, self.tokens)
        limit = min(most, math.floor(measured.room * self.room_fraction))
        if measured.target is not None:
            # A named target leaves the tail a sixth of what is not guarded: what a digest has no room for is
            # gone from the view, while the tail is only the newest part of it (docs/decisions/0012-facts.md).
            spare = max(0, measured.target - measured.guarded)
            limit = min(limit, measured.target // 2, max(spare // 6, 1))
        start = head + find_tail_start(sizes[head:], max(1, limit))
        legal = find_cuts_near(measured.index, start)
        back, ahead = legal.before(start), legal.after(start)
        # The larger tail wins, unless it would be more than twice the limit or leave nothing to fold.
        too_large = back <= head or sum(sizes[back:start]) > sum(sizes[start:])
        start = ahead if ahead < length and too_large else back
        if start <= head:
            return None
        sums = list(accumulate(sizes[start:], initial=0))
        for behind in find_turn_starts(measured.messages[start:]):
            if legal.allows(start + behind) and sums[-1] - sums[behind] >= sums[-1] * self.near:
                return Segment(head, start + behind)
        turn = find_turn_before(measured.messages, start)
        splits = turn is not None and start - turn >= self.split_least
        return Segment(head, start, turn if splits else None)
