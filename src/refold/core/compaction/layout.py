"""How much of each message a view shows: the newest whole, older ones less, the oldest not at all.

Arithmetic on sizes alone; `stages.grade` applies it to messages. Each message gets tokens by its age, from
one level that is as high as the goal allows. So the boundaries between whole messages, shortened ones and
those that leave follow from the goal. What is left of it is for the text that stands for the rest.
docs/decisions/0023-age-graded-views.md has the measurements behind the numbers.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from typing import Final, NamedTuple

from refold.core.compaction.cuts import Cuts

TAIL_SHARE: Final = 0.25
"""Share of the free room in which the newest messages stand whole, whatever that leaves for older ones."""
AGE_SHARE: Final = 0.2
"""Tokens behind a message, as a share of the free room, at which it is twice as old as the newest. Smaller
gives the newest messages more: better for the next actions, worse for later ones."""
AGE_POWER: Final = 1.5
"""A message that is twice as old gets tokens by this power less."""
ACTION_WORTH: Final = 6.0
"""Tokens of an output that one token of an action is worth: actions are short and tell what was tried."""
LARGEST_SHARE: Final = 0.5
"""Share of the free room that one message may have where all stay whole, and that counts for the age of
those before it: a huge output does not end the view."""
LEAST_TEXT_SHARE: Final = 0.1
"""Share of the free room that the text has beside messages of which the caller named the size."""
LEAST_TOKENS: Final = 40
"""Tokens below which a part of a message says nothing: a line in the text that stands for it says more."""
OLD_SHARE: Final = 0.5
"""Tokens behind a guarded message, as a share of the goal, from which on it may be shortened."""
LEVELS: Final = 20
"""Steps of the search for the level; the last one changes it by one part in a million."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedHistory:
    """What a layout knows of a history; all sizes in units of one counter."""

    sizes: Sequence[int]
    actions: Collection[int]
    """Positions of messages of the model."""
    undivided: Collection[int]
    """Positions of messages that are shown whole or leave: summaries and words of people."""
    guarded: Collection[int]
    """Positions of messages that stay."""
    fixed: Collection[int]
    """Positions among them of messages that stay word for word."""
    head: int
    """Number of system messages that lead the history."""
    cuts: Cuts
    unit: int = 1
    """Units of a token."""
    without_media: Mapping[int, int] = field(default_factory=dict)
    """Sizes of the messages with pictures or files, with markers in their place: no part of a picture is
    shown, so a message that is not whole has at most that."""
    firm: Mapping[int, int] = field(default_factory=dict)
    """Units of the messages with thinking or opaque blocks that they have at least if they stay."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the messages start that stay, and how much of each is shown."""

    start: int
    """Messages before it leave, unless they are guarded."""
    limits: Mapping[int, int] = field(default_factory=dict)
    """Units of each message that is shown in part."""
    units: int = 0
    """Units that the messages from the start have in the view, without guarded ones."""
    covers: int = 0
    """Units that they have in the history."""


TextSize = Callable[[int, int], int]
"""Gives the size of the text that stands for what leaves, from the free room and the size of what leaves."""


def plan_layout(
    history: SizedHistory,
    goal: int,
    text_size: TextSize,
    *,
    guarded_share: float,
    whole: bool = False,
    divide: bool = True,
    most: int | None = None,
) -> Layout:
    """Plan the view of a history for a goal in units.

    guarded_share   the share of the room beside pins and newer messages that old guarded ones may have
    whole           show every message that stays whole, unless it is huge
    divide          False if huge ones are shown whole as well, or leave
    most            units of those messages at most
    """
    guarded = _limit_guarded(history, goal, guarded_share)
    staying = sum(guarded.get(at, history.sizes[at]) for at in history.guarded)
    planner = _Planner(history, max(0, goal - staying), whole=whole, divide=divide)
    best = planner.place_whole(text_size, most) if whole else planner.place_by_age(text_size)
    return replace(best, limits={**guarded, **best.limits})


class _Planner:
    """Places the messages of one history in the room that guarded ones leave free."""

    def __init__(self, history: SizedHistory, free: int, *, whole: bool, divide: bool) -> None:
        self.history = history
        self.whole = whole
        self.divide = divide
        self.free = free
        self.largest = int(free * LARGEST_SHARE)
        self.ages = _measure_ages(history.sizes, self.largest)
        self.removable = sum(history.sizes) - sum(history.sizes[at] for at in history.guarded)
        legal = history.cuts.legal
        last = bisect_left(legal, len(history.sizes))
        self.starts = legal[bisect_left(legal, history.head) : last][::-1]
        self.ends_unread = len(history.sizes) - 1 not in history.actions
        """True if the model has not answered the newest messages, such as the results of its calls: they are
        shown, be it in part. Without them it would make the same calls again."""
        self.groups: list[_Group] = []
        """The groups that were measured so far, the newest first."""

    def place_by_age(self, text_size: TextSize) -> Layout:
        """Search the highest level at which the messages and the text that stands for the rest fit."""
        low, high = 0.0, 8.0 * max(self.history.sizes, default=0)
        for _ in range(LEVELS):
            level = (low + high) / 2
            reach = self._measure(level)
            text = text_size(self.free, self.removable - reach.covers)
            if reach.units + text <= self.free:
                low = level
            else:
                high = level
        return self._fill(self._place(low), high, text_size)

    def _fill(self, best: Layout, level: float, text_size: TextSize) -> Layout:
        """Show more of the newest messages where the next level has room for some of what it adds.

        A huge message needs a level at which all small ones before it come back at once.
        """
        text = text_size(self.free, self.removable - best.covers)
        fuller = self._place(level, self.free - text)
        text = text_size(self.free, self.removable - fuller.covers)
        return fuller if best.units < fuller.units <= self.free - text else best

    def place_whole(self, text_size: TextSize, most: int | None) -> Layout:
        """Keep the newest messages whole, as many as fit beside the text that stands for the rest."""
        text = text_size(self.free, self.removable)
        if most is None:
            return self._place(0.0, self.free - text)
        text = min(text, max(self.free - most, int(self.free * LEAST_TEXT_SHARE)))
        return self._place(0.0, min(self.free - text, most))

    def _place(self, level: float, most: int | None = None) -> Layout:
        """Give messages their tokens, the newest first, up to the first group that would say too little."""
        reach = self._measure(level, most)
        limits = {
            share.at: limit
            for number in range(reach.groups)
            for limit, share in zip(self._show(number, level), self.groups[number].shares, strict=True)
            if limit < share.size
        }
        start = self.starts[reach.groups - 1] if reach.groups else len(self.history.sizes)
        return Layout(start, limits, reach.units, reach.covers)

    def _measure(self, level: float, most: int | None = None) -> "_Reach":
        """Measure the newest groups that stay at a level."""
        number = units = covers = 0
        # Once there is too much, more would not make it fit again.
        while number < len(self.starts) and units <= self.free:
            group = self.groups[number] if number < len(self.groups) else self._add_group(number)
            size = group.measure(level) if number else self._measure_newest(level)
            if size is None or (most is not None and units and units + size > most):
                break
            if units and group.is_firm:
                break  # it cannot be shortened to its share
            number, units, covers = number + 1, units + size, covers + group.covers
        return _Reach(number, units, covers)

    def _measure_newest(self, level: float) -> int | None:
        """Measure the newest group; None if it would say too little."""
        shown = self._show(0, level)
        says_little = any(
            limit < share.least for limit, share in zip(shown, self.groups[0].shares, strict=True)
        )
        return None if says_little else sum(shown)

    def _show(self, number: int, level: float) -> list[int]:
        """Return the units of each message of a group at a level."""
        shares = self.groups[number].shares
        shown = [share.limit(level) for share in shares]
        if not number and self.ends_unread:
            parts = [max(limit, share.least) for limit, share in zip(shown, shares, strict=True)]
            return parts if sum(parts) <= self.free else shown
        return shown

    def _add_group(self, number: int) -> "_Group":
        """Measure the next messages between two cuts, counted from the newest; once for all levels."""
        end = self.starts[number - 1] if number else len(self.history.sizes)
        places = [at for at in range(self.starts[number], end) if at not in self.history.guarded]
        group = _Group(
            [self._share(at) for at in places],
            sum(self.history.sizes[at] for at in places),
            any(self.history.firm.get(at, 0) > self.largest for at in places),
        )
        self.groups.append(group)
        return group

    def _share(self, at: int) -> "_Share":
        """Measure what a message gets by its age."""
        history, size, age = self.history, self.history.sizes[at], self.ages[at]
        divisible, least = history.without_media.get(at, size), LEAST_TOKENS * history.unit
        # A huge message may be divided in any case.
        least = min(divisible, max(self.largest, least) if at in history.undivided else least)
        is_tail = age + size <= self.free * TAIL_SHARE
        # The newest message may be larger than the others of the tail.
        if is_tail or (not age and size <= self.largest) or not self.divide:
            return _Share(at, size, least, size, size)
        firm = history.firm.get(at, 0)
        huge = max(firm, self.largest)
        dear = at in history.actions or at in history.undivided
        worth = ACTION_WORTH if dear else 1.0
        older = (1 + age / max(1.0, self.free * AGE_SHARE)) ** AGE_POWER
        return _Share(at, size, least, divisible, huge if self.whole or not age else firm, worth, older)


class _Share(NamedTuple):
    """What one message may have in a view."""

    at: int
    size: int
    least: int
    """Units below which it leaves."""
    most: int
    firm: int
    """Units that it has at any level, unless they are more than the most."""
    worth: float = 1.0
    older: float = 1.0
    """By how much its age divides what it gets."""

    def limit(self, level: float) -> int:
        """Return the units that it gets at a level."""
        return min(self.most, max(self.firm, int(level * self.worth / self.older)))


class _Group(NamedTuple):
    """Messages that stay or leave together."""

    shares: Sequence[_Share]
    covers: int
    is_firm: bool
    """True if what cannot be shortened of one is more than the share of a huge message."""

    def measure(self, level: float) -> int | None:
        """Return the units of all at a level; None if one of them would say too little."""
        units = 0
        # Written out, because a search measures each group at twenty levels.
        for _, _, least, most, firm, worth, older in self.shares:
            limit = int(level * worth / older)
            limit = max(limit, firm)
            limit = min(limit, most)
            if limit < least:
                return None
            units += limit
        return units


class _Reach(NamedTuple):
    """How far back the groups go that stay at a level."""

    groups: int
    units: int
    covers: int


def _measure_ages(sizes: Sequence[int], largest: int) -> list[int]:
    """Measure how much stands behind each message; a huge one makes others no older than a large one."""
    behind = accumulate((min(size, largest) for size in reversed(sizes)), initial=0)
    return list(islice(behind, len(sizes)))[::-1]


def _limit_guarded(history: SizedHistory, goal: int, share: float) -> dict[int, int]:
    """Shorten the largest guarded messages before the tail where all of them have more than their share."""
    ages = _measure_ages(history.sizes, int(goal * LARGEST_SHARE))
    old = [at for at in history.guarded if at not in history.fixed and ages[at] >= goal * OLD_SHARE]
    others = sum(history.sizes[at] for at in history.guarded) - sum(history.sizes[at] for at in old)
    height = find_height([history.sizes[at] for at in old], int((goal - others) * share))
    height = max(height, 4 * LEAST_TOKENS * history.unit)
    return {at: height for at in old if history.sizes[at] > height}


def find_height(sizes: Iterable[int], allowed: int) -> int:
    """Return the height to which the largest sizes must be cut, so that all together are `allowed`."""
    left, ordered = max(0, allowed), sorted(sizes)
    for place, size in enumerate(ordered):
        share = left // (len(ordered) - place)
        if size > share:
            return share
        left -= size
    return max(ordered, default=0)
