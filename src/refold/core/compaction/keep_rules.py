"""The ways of keeping that the five systems and the house have, one value each.

Each answers `segment(measured)`: the stretch that leaves. None of them splits what must stay together:
where a system's own rule would, the cut moves to the legal place that keeps more.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from refold.core.compaction.cuts import (
    Cuts,
    Measured,
    Segment,
    cuts_near,
    tail_start,
    turn_before,
    turn_starts,
)
from refold.core.messages.message import Message
from refold.core.messages.message_text import body_and_large_calls

OPAL_FRAMING_BYTES: Final = 20
"""What Opal adds to a message's bytes; too low keeps a little more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentTurns:
    """Ripple: at most so many messages and so much of the window, snapped to a user's turn.

    The first turn at or behind the target wins, else the last one before it, which keeps more than both
    limits allow rather than splitting a turn.
    """

    messages: int = 6
    window_fraction: float = 0.25

    def segment(self, measured: Measured) -> Segment | None:
        """Give the stretch before the snapped cut."""
        head = measured.head
        sizes = measured.sizes[head:]
        if len(sizes) <= max(1, self.messages):
            return None
        limit = max(1, math.floor(measured.window * self.window_fraction))
        target = head + max(len(sizes) - self.messages, tail_start(sizes, limit))
        legal = measured.index.cuts
        turns = [
            index
            for index, message in enumerate(measured.messages)
            if index > head and message.is_user_turn and legal.allows(index)
        ]
        cut = next((turn for turn in turns if turn >= target), turns[-1] if turns else None)
        return None if cut is None else Segment(head, cut)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastMessages:
    """CodeBuddy: the last few messages; of the older ones all leave, or only the older half."""

    messages: int = 4
    oldest_half: bool = False
    least: int = 1
    """How many messages there must be at all."""
    least_older: int = 1

    def segment(self, measured: Measured) -> Segment | None:
        """Give the older messages."""
        head = measured.head
        count = len(measured.messages) - head
        legal = measured.index.cuts
        cut = (
            max(head, legal.before(len(measured.messages) - self.messages)) if count > self.messages else head
        )
        if count < self.least or cut - head < self.least_older:
            return None
        if self.oldest_half:
            cut = max(head, legal.before(head + (cut - head) // 2))
        return Segment(head, cut) if cut > head else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentShare:
    """NeuroLink: a share of the messages, four at least; of a named target a share of its tokens."""

    share: float = 0.3
    least: int = 4

    def segment(self, measured: Measured) -> Segment | None:
        """Give all but the recent share."""
        head = measured.head
        count = len(measured.messages) - head
        if count <= self.least:
            return None
        if measured.target is None:
            kept = max(self.least, math.ceil(count * self.share))
            cut = len(measured.messages) - kept
        else:
            start = tail_start(measured.sizes[head:], math.floor(measured.target * self.share))
            cut = head + max(1, start)
        cut = measured.index.cuts.before(cut)
        return Segment(head, cut) if cut > head else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentBytes:
    """Opal: about so many tokens, four bytes each, cut at the next user's turn, else inside the turn.

    A turn that is cut with at least `split_least` messages before the cut is told of in two summaries.
    """

    tokens: int | None = None
    """None: a quarter of the window when compaction starts by itself, 20,000 when somebody asks for it."""
    by_hand: int = 20_000
    window_fraction: float = 0.25
    split_least: int = 5

    def segment(self, measured: Measured) -> Segment | None:
        """Give the stretch before the cut, and the turn it splits."""
        head, legal = measured.head, measured.index.cuts
        cut = self._cut(measured, head, legal)
        if cut is None and measured.force and len(measured.messages) - head > 2:
            cut = legal.before(len(measured.messages) - 2)
        if cut is None or cut <= head:
            return None
        return Segment(head, cut, self._split(measured.messages, head, cut))

    def _limit(self, measured: Measured) -> int:
        if self.tokens is not None:
            return self.tokens * 4
        if measured.force:
            return self.by_hand * 4
        return math.floor(measured.window * self.window_fraction) * 4

    def _cut(self, measured: Measured, head: int, legal: Cuts) -> int | None:
        limit, total = self._limit(measured), 0
        for index in range(len(measured.messages) - 1, head - 1, -1):
            total += byte_size(measured.messages[index])
            if total >= limit:
                turns = (
                    turn
                    for turn in range(index, len(measured.messages))
                    if measured.messages[turn].is_user_turn and legal.allows(turn)
                )
                cut = next(turns, legal.before(index))
                return cut if cut > head else None
        return None

    def _split(self, messages: Sequence[Message], head: int, cut: int) -> int | None:
        if messages[cut].is_user_turn:
            return None
        turns = [index for index in turn_starts(messages) if head <= index < cut]
        return turns[-1] if turns and cut - turns[-1] >= self.split_least else None


def byte_size(message: Message) -> int:
    """The bytes of a message as Opal counts them for its cut."""
    return len(body_and_large_calls(message).encode("utf-8", "surrogatepass")) + OPAL_FRAMING_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """Umwelten: from the checkpoint, or from the start, to the end of the last complete reply.

    A reply is complete when its tool calls are answered; the answers belong to it.
    """

    from_checkpoint: bool = True
    keep_turns: int = 0
    merge: bool = True
    """Take in a summary that stands directly before the stretch."""

    def segment(self, measured: Measured) -> Segment | None:
        """Give the thread."""
        messages, head = measured.messages, measured.head
        legal = measured.index.cuts
        start = legal.after(self._start(measured))
        waiting = legal.before(min(measured.index.open_calls(), default=len(messages)))
        limit = min(self._limit(measured, legal), waiting)
        replies = [
            index
            for index in range(start, limit)
            if messages[index].role == "assistant" and not messages[index].is_summary
        ]
        end = legal.after(replies[-1] + 1) if replies else start
        if end <= start or end > limit:
            return None
        while self.merge and start > head and messages[start - 1].is_summary:
            start -= 1
        return Segment(start, end)

    def _start(self, measured: Measured) -> int:
        """The checkpoint; where nobody set one and summaries are not merged, it stands behind them."""
        start = measured.head
        if not self.from_checkpoint:
            return start
        if measured.checkpoint is not None:
            return max(start, measured.checkpoint)
        while not self.merge and start < len(measured.messages) and measured.messages[start].is_summary:
            start += 1
        return start

    def _limit(self, measured: Measured, legal: Cuts) -> int:
        turns = turn_starts(measured.messages)
        if self.keep_turns <= 0:
            return len(measured.messages)
        if len(turns) < self.keep_turns:
            return 0
        return legal.before(turns[-self.keep_turns])


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentRoom:
    """The house: the last turns up to a number of tokens and a share of the room, at a legal cut.

    Where a user's turn begins inside the tail and at least `near` of the tail's tokens stand behind it,
    the tail starts there; else inside the turn.
    """

    tokens: int = 20_000
    room_fraction: float = 0.25
    lean_tokens: int | None = None
    """The tokens in a room larger than `lean_from`: it is folded before it is full, and then it goes far."""
    lean_from: int = 0
    near: float = 0.5
    split_least: int = 5

    def segment(self, measured: Measured) -> Segment | None:
        """Give the stretch before the tail, and the turn it splits."""
        head = measured.head
        lean = self.lean_tokens if measured.room > self.lean_from else None
        most = self.tokens if lean is None else min(lean, self.tokens)
        limit = min(most, math.floor(measured.room * self.room_fraction))
        if measured.target is not None:
            spare = max(0, measured.target - measured.guarded)
            limit = min(limit, measured.target // 2, max(spare // 6, 1))
        start = head + tail_start(measured.sizes[head:], max(1, limit))
        legal = cuts_near(measured.index, start)
        start = self._legal(measured, legal, start, head)
        if start <= head:
            return None
        sums = list(accumulate(measured.sizes[start:], initial=0))
        for behind in turn_starts(measured.messages[start:]):
            if legal.allows(start + behind) and sums[-1] - sums[behind] >= sums[-1] * self.near:
                return Segment(head, start + behind)
        turn = turn_before(measured.messages, start)
        inside = turn is not None and start - turn >= self.split_least
        return Segment(head, start, turn if inside else None)

    def _legal(self, measured: Measured, legal: Cuts, start: int, head: int) -> int:
        """Prefer the smaller tail where the larger one would be over twice the limit."""
        back, ahead = legal.before(start), legal.after(start)
        if ahead >= len(measured.messages):
            return back
        extra = sum(measured.sizes[back:start])
        return ahead if back <= head or extra > sum(measured.sizes[start:]) else back
