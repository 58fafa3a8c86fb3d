"""The keep rules of the five systems, one value each; the numbers are those of their documents.

Each answers `segment(measured)`: the segment that leaves. None of them splits what must stay together: where
a system's own rule would, the cut moves to the legal place that keeps more.
"""

import math
from dataclasses import dataclass
from typing import Final

from refold.core.compaction.keep_rules import MeasuredHistory, Segment, find_tail_start, find_turn_starts
from refold.core.messages.message import Message
from refold.core.messages.message_text import visible_text_and_large_calls

OPAL_FRAMING_BYTES: Final = 20
"""Bytes that Opal adds to each message for its cut; too low keeps a little more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentTurns:
    """Ripple: at most `messages` messages and a share of the window, snapped to a user's turn.

    The first turn at or behind the target wins, else the last one before it, which keeps more than both
    limits allow rather than splitting a turn.
    """

    messages: int = 6
    window_fraction: float = 0.25

    def segment(self, measured: MeasuredHistory) -> Segment | None:
        """Return the segment before the snapped cut."""
        head = measured.head
        sizes = measured.sizes[head:]
        if len(sizes) <= max(1, self.messages):
            return None
        limit = max(1, math.floor(measured.window * self.window_fraction))
        target = head + max(len(sizes) - self.messages, find_tail_start(sizes, limit))
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
    """Least number of messages; a shorter history is left alone."""
    least_older: int = 1

    def segment(self, measured: MeasuredHistory) -> Segment | None:
        """Return the older messages."""
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

    def segment(self, measured: MeasuredHistory) -> Segment | None:
        """Return all but the recent share."""
        head = measured.head
        count = len(measured.messages) - head
        if count <= self.least:
            return None
        if measured.target is None:
            recent = max(self.least, math.ceil(count * self.share))
            cut = len(measured.messages) - recent
        else:
            start = find_tail_start(measured.sizes[head:], math.floor(measured.target * self.share))
            cut = head + max(1, start)
        cut = measured.index.cuts.before(cut)
        return Segment(head, cut) if cut > head else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentBytes:
    """Opal: about `tokens` tokens, four bytes each, cut at the next user's turn, else inside the turn.

    A turn that is cut with at least `split_least` messages before the cut gets a summary of its own.
    """

    tokens: int | None = None
    """None: a quarter of the window when compaction starts by itself, 20,000 when somebody asks for it."""
    by_hand: int = 20_000
    window_fraction: float = 0.25
    refused_fraction: float = 0.2
    """Its document, "Overflow recovery": after a refusal a fifth of the window, forced."""
    split_least: int = 5

    def segment(self, measured: MeasuredHistory) -> Segment | None:
        """Return the segment before the cut, and the turn it splits."""
        messages, head, legal = measured.messages, measured.head, measured.index.cuts
        cut = self._find_cut(measured)
        forced = measured.force or measured.refused
        if cut is None and forced and len(messages) - head > 2:
            cut = legal.before(len(messages) - 2)
        if cut is None or cut <= head:
            return None
        turns = [index for index in find_turn_starts(messages) if head <= index < cut]
        splits = not messages[cut].is_user_turn and bool(turns) and cut - turns[-1] >= self.split_least
        return Segment(head, cut, turns[-1] if splits else None)

    def _find_cut(self, measured: MeasuredHistory) -> int | None:
        """Walk back until the limit is reached, then forward to a user's turn."""
        tokens = self.tokens
        if measured.refused:
            tokens = math.floor(measured.window * self.refused_fraction)
        elif tokens is None:
            by_itself = math.floor(measured.window * self.window_fraction)
            tokens = self.by_hand if measured.force else by_itself
        messages, head, legal = measured.messages, measured.head, measured.index.cuts
        total = 0
        for index in range(len(messages) - 1, head - 1, -1):
            total += byte_size(messages[index])
            if total >= tokens * 4:
                turns = (
                    turn
                    for turn in range(index, len(messages))
                    if messages[turn].is_user_turn and legal.allows(turn)
                )
                cut = next(turns, legal.before(index))
                return cut if cut > head else None
        return None


def byte_size(message: Message) -> int:
    """Count the bytes of a message as Opal does for its cut."""
    return len(visible_text_and_large_calls(message).encode("utf-8", "surrogatepass")) + OPAL_FRAMING_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """Umwelten: from the checkpoint, or from the start, to the end of the last complete reply.

    A reply is complete when its tool calls are answered; the answers belong to it.
    """

    from_checkpoint: bool = True
    keep_turns: int = 0
    merge: bool = True
    """Take in a summary that stands directly before the segment."""

    def segment(self, measured: MeasuredHistory) -> Segment | None:
        """Return the thread."""
        messages, legal = measured.messages, measured.index.cuts
        start = legal.after(self._find_start(measured))
        waiting = legal.before(min(measured.index.open_calls(), default=len(messages)))
        limit = min(self._find_limit(measured), waiting)
        replies = [
            index
            for index in range(start, limit)
            if messages[index].role == "assistant" and not messages[index].is_summary
        ]
        end = legal.after(replies[-1] + 1) if replies else start
        if end <= start or end > limit:
            return None
        while self.merge and start > measured.head and messages[start - 1].is_summary:
            start -= 1
        return Segment(start, end)

    def _find_start(self, measured: MeasuredHistory) -> int:
        """Find the checkpoint; where none was set and summaries are not merged, it stands behind them."""
        start = measured.head
        if not self.from_checkpoint:
            return start
        if measured.checkpoint is not None:
            return max(start, measured.checkpoint)
        while not self.merge and start < len(measured.messages) and measured.messages[start].is_summary:
            start += 1
        return start

    def _find_limit(self, measured: MeasuredHistory) -> int:
        """Find where the turns begin that stay; 0 where there are fewer."""
        if self.keep_turns <= 0:
            return len(measured.messages)
        turns = find_turn_starts(measured.messages)
        return measured.index.cuts.before(turns[-self.keep_turns]) if len(turns) >= self.keep_turns else 0
