"""How much of each message a view shows: the newest whole, older ones less, the oldest not at all.

Arithmetic on sizes alone; `stages.grade` applies it to messages. Each message gets tokens by its age, from
one level that is as high as the goal allows. So the boundaries between whole messages, shortened ones and
those that leave follow from the goal. What is left of it is for the text that stands for the rest.
docs/decisions/0023-age-graded-views.md has the measurements behind the numbers.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby
from operator import attrgetter, lt
from typing import Final, NamedTuple

from refold.core.compaction.cuts import Cuts

TAIL_SHARE: Final = 0.25
"""Share of the free room in which the newest messages stand whole, whatever that leaves for older ones."""
EXCHANGE_SHARE: Final = 0.7
"""Share of the free room up to which the newest exchange of words stands whole, before the text has its room:
what somebody asks next is about the last answer."""
AGE_SHARE: Final = 0.3
"""Tokens behind a message, as a share of the free room, at which it is twice as old as the newest. Smaller
gives the newest messages more: better for the next actions, worse for later ones."""
AGE_POWER: Final = 1.5
"""A message that is twice as old gets tokens by this power less."""
ACTION_WORTH: Final = 6.0
"""Tokens of an output that one token of an action is worth: actions are short and tell what was tried."""
LARGEST_SHARE: Final = 0.5
"""Share of the free room that one message may have where all stay whole, and that counts for the age of
those before it: a huge output does not end the view."""
UNREAD_SHARE: Final = 0.8
"""Share of the free room up to which results that the model has not answered stand whole: it asked for them,
and asks again for what is cut."""
UNREAD_REST_TOKENS: Final = 1_000
"""Tokens that they leave for other messages at least: in smaller views these tell more than the rest of an
output."""
LEAST_TEXT_SHARE: Final = 0.1
"""Share of the free room that the text has beside messages of which the caller named the size."""
LEAST_TOKENS: Final = 40
"""Tokens below which a part of a message says nothing: a line in the text that stands for it says more."""
OLD_SHARE: Final = 0.5
"""Tokens behind a guarded message, as a share of the goal, from which on it may be shortened."""
WORTH_A_CUT: Final = 1.25
"""Times its share from which on a guarded message is shortened: a gap that saves less breaks more."""
FILLED: Final = 0.95
"""Share of the free room from which on it is no use to search again without results that do not fit."""
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
    exchange_start: int
    """Where the newest exchange of words begins, which stands whole where it can."""
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
        self.ages = _measure_ages(history, self.largest)
        self.removable = sum(history.sizes) - sum(history.sizes[at] for at in history.guarded)
        legal = history.cuts.legal
        last = bisect_left(legal, len(history.sizes))
        self.starts = legal[bisect_left(legal, history.head) : last][::-1]
        self.groups: list[list[_Share]] = []
        """The messages between two cuts, which stay or leave together, the newest first; read as needed."""
        # The same groups as lists of numbers, because a search measures all of them at twenty levels.
        self.rows: list[tuple[int, int, float, float]] = []
        """Of each message behind the newest group the most, the firm units, the worth and the age."""
        self.leasts: list[int] = []
        """Units below which it leaves."""
        self.ends: list[int] = []
        """Number of those messages up to the end of each group."""
        self.covers = [0]
        """Units in the history of the first groups, for each number of them."""
        self.firm_groups: list[int] = []
        """Groups in which one message has more that cannot be shortened than the share of a huge one."""

    @property
    def is_unread(self) -> bool:
        """True if the model has not answered the newest messages."""
        return len(self.history.sizes) - 1 not in self.history.actions

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
        best = self._fill(self._place(low), high, text_size)
        text = text_size(self.free, self.removable - best.covers)
        number = sum(start >= best.start for start in self.starts)
        ages = [self.ages[share.at] for group in self.groups[number : number + 1] for share in group]
        if best.units + text > FILLED * self.free or len(set(ages)) == len(ages):
            return best
        # Results of parallel calls come back at once. Where they do not fit, newer messages have their room.
        del self.groups[number:]
        self.starts = self.starts[:number]
        return max(best, self.place_by_age(text_size), key=attrgetter("units"))

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
            for limit, share in zip(self._show(number, level), self.groups[number], strict=True)
            if limit < share.size
        }
        start = self.starts[reach.groups - 1] if reach.groups else len(self.history.sizes)
        return Layout(start, limits, reach.units, reach.covers)

    def _measure(self, level: float, most: int | None = None) -> "_Reach":
        """Measure the newest groups that stay at a level."""
        reach = self._sum_up(level, most)
        # Once there is too much, more would not make it fit again.
        while reach.groups == len(self.groups) < len(self.starts) and reach.units <= self.free:
            self._add_groups(2 * len(self.groups) + 16)
            reach = self._sum_up(level, most)
        return reach

    def _sum_up(self, level: float, most: int | None) -> "_Reach":
        """Measure those of the groups read so far that stay at a level."""
        newest = self._measure_newest(level) if self.groups else None
        if newest is None:
            return _Reach(0, 0, 0)
        limits = [
            top if (limit := int(level * worth / older)) >= top else max(limit, firm)
            for top, firm, worth, older in self.rows
        ]
        units = list(accumulate(limits, initial=newest))
        says_little = [*map(lt, limits, self.leasts), True].index(True)

        def count_until_over(size: int) -> int:
            """Count the groups up to the one with which there is more than a size."""
            return bisect_left(self.ends, bisect_right(units, size)) + 1

        stops = [bisect_right(self.ends, says_little), count_until_over(self.free), len(self.groups)]
        some = count_until_over(0)  # the first group that has anything is shown in any case
        stops += [] if most is None else [max(some, count_until_over(most) - 1)]
        # What is firm cannot be shortened to its share.
        stops += [number for number in self.firm_groups if number >= some][:1]
        number = min(stops)
        return _Reach(number, units[self.ends[number - 1]], self.covers[number])

    def _measure_newest(self, level: float) -> int | None:
        """Measure the newest group; None if it would say too little."""
        shown = self._show(0, level)
        says_little = any(limit < share.least for limit, share in zip(shown, self.groups[0], strict=True))
        return None if says_little else sum(shown)

    def _show(self, number: int, level: float) -> list[int]:
        """Return the units of each message of a group at a level."""
        shares = self.groups[number]
        # What the model has not answered, such as the results of its calls, is shown, be it in part. Without
        # it, the same calls would be made again.
        # Whether it fits is the same at all levels: a search takes what leaves at a higher one for small.
        if (
            self.is_unread
            and not number
            and sum(max(share.limit(0), share.least) for share in shares) <= self.free
        ):
            return [max(share.limit(level), share.least) for share in shares]
        return [share.limit(level) for share in shares]

    def _add_groups(self, most: int) -> None:
        """Read the next groups, counted from the newest, up to this number of them."""
        history = self.history
        for number in range(len(self.groups), min(most, len(self.starts))):
            end = self.starts[number - 1] if number else len(history.sizes)
            places = [at for at in range(self.starts[number], end) if at not in history.guarded]
            runs = [[*run] for _, run in groupby(places, self.ages.__getitem__)]
            actions = sum(at in history.actions for at in places)
            calls = max(map(len, runs), default=0) // max(1, actions)
            shares = [share for run in runs for share in self._share_run(run, calls)]
            self.groups.append(shares)
            if number:
                self.rows += [
                    (each.most, min(each.firm, each.most), each.worth, each.older) for each in shares
                ]
                self.leasts += [each.least for each in shares]
            self.ends.append(len(self.rows))
            self.covers.append(self.covers[-1] + sum([history.sizes[at] for at in places]))
            if any(history.firm.get(at, 0) > self.largest for at in places):
                self.firm_groups.append(number)

    def _share_run(self, run: Sequence[int], calls: int) -> Iterator["_Share"]:
        """Measure what messages of one age get: results of so many calls of an action, or one message."""
        history, age, least = self.history, self.ages[run[0]], LEAST_TOKENS * self.history.unit
        older = (1 + age / max(1.0, self.free * AGE_SHARE)) ** AGE_POWER
        # The newest message may be larger than the others of the tail. Results of one turn share that room.
        sizes = [history.sizes[at] for at in run]
        whole = EXCHANGE_SHARE if run[0] >= history.exchange_start else TAIL_SHARE
        room = int(self.free * whole) - age if age else self._find_newest_room(sum(sizes))
        height = find_height(sizes, room)
        for at in run:
            size, firm = history.sizes[at], history.firm.get(at, 0)
            # The marker of a small picture may be larger than the picture.
            divisible = min(size, history.without_media.get(at, size))
            # A huge message may be divided in any case.
            small = min(divisible, max(self.largest, least) if at in history.undivided else least)
            if size <= height or not self.divide:
                yield _Share(at, size, small, size, size)
                continue
            huge = max(firm, self.largest if self.whole else 0 if age else height)
            if calls > 1 and at in history.actions:
                huge = max(huge, calls * least)  # each call says nothing below that
            dear = at in history.actions or at in history.undivided
            yield _Share(at, size, small, divisible, huge, ACTION_WORTH if dear else 1.0, older)

    def _find_newest_room(self, size: int) -> int:
        """Return the room of the newest messages: what they need where the model has yet to read them."""
        rest = max(self.free * (1 - UNREAD_SHARE), UNREAD_REST_TOKENS * self.history.unit)
        return size if self.is_unread and size <= self.free - rest else self.largest


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


class _Reach(NamedTuple):
    """How far back the groups go that stay at a level."""

    groups: int
    units: int
    covers: int


def _measure_ages(history: SizedHistory, largest: int) -> list[int]:
    """Measure how much stands behind each message; a huge one makes others no older than a large one.

    Results of parallel calls are as old as the last of them, and count as one message for those before.
    """
    sizes, apart = history.sizes, {*history.cuts.legal, *history.actions, *history.undivided}
    ages, behind, together = [0] * len(sizes), 0, 0
    for at in range(len(sizes) - 1, -1, -1):
        ages[at], together = behind, together + sizes[at]
        if at in apart or at - 1 in history.actions or at - 1 in history.undivided:
            behind, together = behind + min(together, largest), 0
    return ages


def _limit_guarded(history: SizedHistory, goal: int, share: float) -> dict[int, int]:
    """Shorten the largest guarded messages where all of them have more than their share.

    Before the tail that is a share of the goal, in the tail what newer messages leave of it. Where all other
    messages stand whole, it is what these leave.
    """
    ages = _measure_ages(history, int(goal * LARGEST_SHARE))
    loose = {at: history.sizes[at] for at in sorted(history.guarded) if at not in history.fixed}
    guarded = sum(history.sizes[at] for at in history.guarded)
    others, removable = guarded - sum(loose.values()), sum(history.sizes) - guarded
    old = {at: size for at, size in loose.items() if ages[at] >= goal * OLD_SHARE}
    new = {at: size for at, size in loose.items() if at not in old}
    left = goal - others - sum(new.values())
    height = find_height(old.values(), max(int(left * share), left - removable))
    least = min(4 * LEAST_TOKENS * history.unit, max(2 * LEAST_TOKENS * history.unit, int(goal * share)))
    most = max(int(height * WORTH_A_CUT), least)
    limits = {at: max(height, least) for at, size in old.items() if size > most}
    behind = range(min(new, default=len(history.sizes)), len(history.sizes))
    newer = sum(history.sizes[at] for at in behind if at not in history.guarded)
    left = goal - others - sum(limits.get(at, size) for at, size in old.items())
    # Newer messages may be shortened to half of what they have.
    height = find_height(new.values(), left - newer)
    # What would say too little is left to the stages behind.
    if sum(new.values()) > left - newer // 2 and height >= least:
        limits |= {at: height for at, size in new.items() if size > height}
    return limits


def find_height(sizes: Iterable[int], allowed: int) -> int:
    """Return the height to which the largest sizes must be cut, so that all together are `allowed`."""
    left, ordered = max(0, allowed), sorted(sizes)
    for place, size in enumerate(ordered):
        share = left // (len(ordered) - place)
        if size > share:
            return share
        left -= size
    return max(ordered, default=0)
