"""What to keep: where a history may be cut, and which stretch of it leaves.

Each rule of a provider names stretches that must stay together; a cut is legal where no stretch is cut.
A `Keep` value names what stays; `Keep.segment` gives the stretch [start, end) that leaves, or None.
Leading system messages are never part of a stretch. Positions are cuts: cutting at i puts message i into
the tail.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Final, Protocol

from refold.core.messages.message import Message, Thinking, ToolResult
from refold.core.messages.tool_pairs import Links, last_unit, link, open_calls

Stretch = tuple[int, int]
"""First and last index of messages that stay together."""
Rule = Callable[[Sequence[Message]], Iterator[Stretch]]


def pairs_together(messages: Sequence[Message], links: Links | None = None) -> Iterator[Stretch]:
    """Yield each message with calls together with the results that answer it, by id."""
    for (result, _), (call, _) in (links or link(messages)).answers.items():
        if result != call:
            yield min(call, result), max(call, result)


def results_never_first(messages: Sequence[Message]) -> Iterator[Stretch]:
    """Keep a tool result with whatever stands before it: a tail never starts on one."""
    for index in range(1, len(messages)):
        for part in messages[index].parts:
            if type(part) is ToolResult:
                yield index - 1, index
                break


def reasoning_with_its_item(messages: Sequence[Message]) -> Iterator[Stretch]:
    """Keep a message that is nothing but thinking together with the one it led to."""
    for index in range(len(messages) - 1):
        if only_thinks(messages[index]):
            yield index, index + 1


def only_thinks(message: Message) -> bool:
    """Whether a message is nothing but thinking."""
    parts = message.parts
    return bool(parts) and type(parts[0]) is Thinking and all(type(part) is Thinking for part in parts)


def acknowledgement_with_summary(messages: Sequence[Message]) -> Iterator[Stretch]:
    """Keep the words that accept a summary with the summary."""
    for index in range(1, len(messages)):
        if messages[index].is_summary and messages[index].meta.get("kind") == "ack":
            yield index - 1, index


RULES: Final[tuple[Rule, ...]] = (
    pairs_together,
    results_never_first,
    reasoning_with_its_item,
    acknowledgement_with_summary,
)


@dataclass(frozen=True, slots=True)
class Cuts:
    """The legal cuts of a history, in order; 0 and the length are always legal."""

    legal: tuple[int, ...]

    def allows(self, position: int) -> bool:
        """Whether one may cut here."""
        at = bisect_left(self.legal, position)
        return at < len(self.legal) and self.legal[at] == position

    def after(self, position: int) -> int:
        """The first legal cut at or after a position."""
        return self.legal[min(bisect_left(self.legal, position), len(self.legal) - 1)]

    def before(self, position: int) -> int:
        """The last legal cut at or before a position."""
        at = bisect_left(self.legal, position)
        if at < len(self.legal) and self.legal[at] == position:
            return position
        return self.legal[max(at - 1, 0)]


def cuts(messages: Sequence[Message], rules: Sequence[Rule] = RULES) -> Cuts:
    """Return the cuts that all rules allow; linear in the number of messages."""
    closed = [0] * (len(messages) + 2)
    for rule in rules:
        for first, last in rule(messages):
            closed[first + 1] += 1
            closed[last + 1] -= 1
    depth = list(accumulate(closed))
    return Cuts(tuple(index for index in range(len(messages) + 1) if not depth[index]))


class HistoryIndex:
    """The tool links and legal cuts of one history, each computed at its first use.

    A task owns the index of its history. It lives as long as the task, so no history is kept alive after a
    compaction, and compactions that run at the same time share nothing.
    """

    __slots__ = ("_cuts", "_links", "messages")

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        self._links: Links | None = None
        self._cuts: Cuts | None = None

    @property
    def links(self) -> Links:
        """Which result answers which call."""
        if self._links is None:
            self._links = link(self.messages)
        return self._links

    @property
    def cuts(self) -> Cuts:
        """The cuts that the rules of all providers allow."""
        if self._cuts is None:
            linked = partial(pairs_together, links=self.links)
            self._cuts = cuts(self.messages, [linked if rule is pairs_together else rule for rule in RULES])
        return self._cuts

    def open_calls(self) -> set[int]:
        """Return the indices of the messages whose calls wait for a result."""
        # The links are computed only if the end of the history leaves a question that they answer.
        return open_calls(self.messages, self.links) if last_unit(self.messages) else set()


_REACH: Final = 64
"""How many messages before a position are looked at first."""


def cuts_near(index: HistoryIndex, position: int, reach: int = _REACH) -> Cuts:
    """The legal cuts around a position and behind it, from no more of the history than tells them.

    The end of a history stands for itself where all its results have their calls in it and all its calls
    their results: then nothing before it reaches into it.
    """
    while (first := position - reach) > 0:
        part = HistoryIndex(index.messages[first:])
        if _stands_alone(part.links):
            legal = tuple(first + cut for cut in part.cuts.legal if cut)
            if legal[0] <= position:
                return Cuts(legal)
        reach *= 4
    return index.cuts


def _stands_alone(links: Links) -> bool:
    if links.orphans or links.unanswered:
        return False
    return all(call <= result for result, call in links.answers.items())


@dataclass(frozen=True, slots=True)
class Segment:
    """The stretch [start, end) that leaves."""

    start: int
    end: int
    turn: int | None = None
    """Where the turn begins that the end splits, if it splits one."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a `Keep` may look at: messages with their sizes, and the numbers of the window."""

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
        """How many system messages (not summaries) lead the history."""
        for index, message in enumerate(self.messages):
            if message.role != "system" or message.is_summary:
                return index
        return len(self.messages)


class Keep(Protocol):
    """What stays."""

    def segment(self, measured: Measured) -> Segment | None:
        """Give the stretch that leaves, or None."""
        ...


def tail_start(sizes: Sequence[int], limit: int, *, at_least: int = 1) -> int:
    """Where the longest tail begins that has at most `limit` tokens; the last messages stay in any case."""
    total = 0
    for index in range(len(sizes) - 1, -1, -1):
        total += sizes[index]
        if total > limit and len(sizes) - index > at_least:
            return index + 1
    return 0


def turn_before(messages: Sequence[Message], position: int) -> int | None:
    """Where a person started to speak last before a position, summaries not counted."""
    for index in range(position - 1, -1, -1):
        message = messages[index]
        if message.role == "user" and message.is_user_turn and not message.is_summary:
            return index
    return None


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """Where a person starts to speak, summaries not counted."""
    return [i for i, message in enumerate(messages) if message.is_user_turn and not message.is_summary]
