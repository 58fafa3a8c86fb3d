"""Keep the most important lines of a text and mark what is left out; knows no kind of output.

A ranking puts the lines of a text into an order, the most important first. `LinePlan` keeps as many of them
as fit, prints them in their own order, and writes one marker for each gap. All sizes are characters: who
counts tokens calls `render` again with another size.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from operator import not_
from typing import Final, Protocol

from refold.core.messages.text_boundaries import boundary_after, boundary_before, word_after, word_before

Describe = Callable[[int, int], str]
"""Says in a few words what stands in the lines from a start to a stop; empty if there is nothing to say."""
Cut = Callable[[str, int], str]

MARKER_CHARS: Final = 30
"""Size of `[... 212 lines left out]` with its line end and a few digits more than the average text has; an
estimate, as the final text is counted."""
SHORTEST_CUT: Final = 80
"""Characters that a cut line keeps at least: fewer do not show what the line was about."""
WORTH_A_CUT: Final = 1.3
"""A line this many times its limit is not cut: the marker would take what the cut saves."""
CUT_SAVES: Final = 4 * MARKER_CHARS
"""Characters from which on what a cut saves is worth it, however long the line is."""
BRIEF_CHARS: Final = 56
"""Characters that a long name keeps at least: both ends tell which test it was. A chosen bound."""
LINE_SHARE, BRIEF_SHARE = 3, 4
"""One line takes at most a third of the room where it would push out others; a brief one a quarter."""
MISSES: Final = 12
"""Lines that may be too long for the rest of the room before the choice ends; bounds the work."""
CRUMB_CHARS: Final = 12
"""Shorter lines are not taken alone where a better one did not fit: they say less than their marker."""
LEAST_AT_ONCE: Final = 4
"""Lines that are looked at together; after fewer the look ends a little earlier and costs more."""
WORTH_A_MARKER: Final = 1.5
"""A gap is shown whole unless it is this many times as long as its marker: the lines say more."""


def no_facts(_start: int, _stop: int) -> str:
    """Say nothing about a gap."""
    return ""


def mark_gap(number: int, noun: str, facts: str = "") -> str:
    """Return the marker for what was left out.

    >>> mark_gap(212, "line", "3 warnings")
    '[... 212 lines left out, 3 warnings]'
    """
    return f"[... {number} {noun}{'' if number == 1 else 's'} left out{', ' if facts else ''}{facts}]"


_GAP: Final = re.compile(r"\[\.\.\. (\d{1,12}) lines? left out[^\]\n]*\]")


def count_lines(lines: Iterable[str]) -> int:
    """Count lines; a marker from an earlier time counts as the lines that it stands for.

    >>> count_lines(["a", "[... 212 lines left out]"])
    213
    """
    gaps = [_GAP.fullmatch(line) if line.startswith("[... ") else None for line in lines]
    return sum([int(gap[1]) if gap else 1 for gap in gaps])


# -- one long line ------------------------------------------------------------------------------------------

_HEX: Final = re.compile(r"[0-9a-fA-F]{64,}")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{64,}={0,2}")


def name_blob(text: str) -> str:
    """Return what encoded data is called: "hex", "base64", or nothing for plain text."""
    sample = text[:4_096].rstrip("=")
    if _HEX.fullmatch(sample):
        return "hex"
    is_mixed = any(map(str.isdigit, sample)) and any(map(str.isupper, sample)) and not sample.isupper()
    return "base64" if is_mixed and _BASE64.fullmatch(sample) else ""


def is_worth_cutting(size: int, max_chars: int) -> bool:
    """True if a line is so much longer than its limit that a cut saves more than its marker costs."""
    return size > _least_cut(max_chars)


def _least_cut(max_chars: int) -> float:
    """Return the characters that a line must have more than to be cut."""
    return min(max_chars * WORTH_A_CUT, max_chars + CUT_SAVES)


def cut_line(line: str, max_chars: int) -> str:
    """Cut a long line to about `max_chars` characters: two thirds from its head, one from its tail."""
    if not is_worth_cutting(len(line), max_chars):
        return line
    blob = name_blob(line[len(line) // 3 : len(line) * 2 // 3])
    room = max(0, max_chars - len(mark_gap(len(line), "character", blob)))
    before, after = (boundary_before, boundary_after) if blob else (word_before, word_after)
    head, tail = before(line, room * 2 // 3), after(line, len(line) - room // 3)
    if head < room // 3:  # a long name would leave its first word alone: `Caused by:`
        head = boundary_before(line, room * 2 // 3)
    marker = mark_gap(tail - head, "character", blob)
    return line if tail - head <= len(marker) else line[:head] + marker + line[tail:]


def cut_name(line: str, max_chars: int) -> str:
    """Cut the middle of a line that is known again by its ends: a marker would be half of a short one."""
    if len(line) <= max_chars:
        return line
    head, tail = max_chars * 2 // 3, len(line) - max_chars // 3 + 1
    return f"{line[: boundary_before(line, head)]}…{line[boundary_after(line, tail) :]}"


# -- many lines ---------------------------------------------------------------------------------------------


class Plan(Protocol):
    """A text that can be written in fewer characters."""

    def render(self, max_chars: int) -> str:
        """Return the text in about this many characters."""
        ...

    def best(self) -> str:
        """Return what matters most, for the case that nothing else fits."""
        ...


@dataclass(frozen=True, slots=True)
class LinePlan:
    """Lines in the order in which they stand, and in the order in which they matter."""

    lines: Sequence[str]
    order: Iterable[int]
    """Places of lines, the most important first; lines that are not named come last; read when needed."""
    describe: Describe = no_facts
    cut: Cut = cut_line
    redundant: frozenset[int] = frozenset()
    """Lines that say what others say too; a gap of nothing else needs no marker."""
    brief: frozenset[int] = frozenset()
    """Lines that are cut shorter than others where they are very long: a name is best used whole."""
    sizes: Sequence[int] = field(init=False, repr=False)
    """Characters of each line; a plan is rendered in many sizes."""
    bare: Sequence[int] = field(init=False, repr=False)
    """The same without blanks at both ends; 0 for a marker from an earlier time."""
    ends: Sequence[int] = field(init=False, repr=False)
    """Characters before each line and behind the last, line ends included."""
    longest: int = field(init=False, repr=False)
    """Characters of the longest line."""
    counted: Mapping[int, int] = field(init=False, repr=False)
    """The lines that markers from an earlier time stand for, by their places."""
    gaps: dict[tuple[int, int], list[str]] = field(init=False, repr=False, compare=False)
    """What is shown for each gap that there was; sizes that differ little have mostly the same ones."""
    shown: dict[bytes, str] = field(init=False, repr=False, compare=False)
    """What is shown of each choice of lines none of which is cut; two in five sizes have the same one."""

    def __post_init__(self) -> None:
        sizes = list(map(len, self.lines))
        markers = self.lines if "[... " in "".join(self.lines) else ()
        counted = {place: int(gap[1]) for place, line in enumerate(markers) if (gap := _GAP.fullmatch(line))}
        bare = list(map(len, map(str.strip, self.lines)))
        for place in counted:  # it says no more than the marker of a gap
            bare[place] = 0
        object.__setattr__(self, "order", LazyPlaces(self.order))
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "bare", bare)
        object.__setattr__(self, "ends", list(accumulate([size + 1 for size in sizes], initial=0)))
        object.__setattr__(self, "longest", max(sizes, default=-1))
        object.__setattr__(self, "counted", counted)
        object.__setattr__(self, "gaps", {})
        object.__setattr__(self, "shown", {})

    def render(self, max_chars: int) -> str:
        """Return the most important lines in about this many characters; never more than the whole text."""
        # What all the others leave for the longest.
        beside = max_chars - self.ends[-1] + self.longest + 1
        longest = max(SHORTEST_CUT, max_chars // LINE_SHARE, beside)
        brief = max(BRIEF_CHARS, max_chars // BRIEF_SHARE, beside)
        kept = self._choose(max_chars, longest, brief)
        if self.longest > longest:
            return self._join(kept, longest, brief)
        choice = bytes(kept)
        if choice not in self.shown:
            self.shown[choice] = self._join(kept, longest, brief)
        return self.shown[choice]

    def best(self) -> str:
        """Return the most important line alone."""
        return next((self.lines[place] for place in self.order if self.bare[place]), "")

    def _join(self, kept: bytearray, longest: int, brief: int) -> str:
        """Return the lines that are kept, cut to these sizes, and what is shown for the gaps between."""
        least = _least_cut(longest) if self.cut is cut_line else -1
        shown: list[str] = []
        at, end = 0, len(self.lines)
        while at < end:
            if kept[at + 1]:
                stop = kept.find(0, at + 2) - 1
                stop = end if stop < 0 else stop
                lines = self.lines[at:stop]
                if self.longest > longest:
                    lines = [
                        line if self.sizes[place] <= least else self._cut(place, longest, brief)
                        for place, line in enumerate(lines, at)
                    ]
                shown += lines
            else:
                stop = kept.index(1, at + 1) - 1
                if (at, stop) not in self.gaps:
                    self.gaps[at, stop] = self._show_gap(at, stop)
                shown += self.gaps[at, stop]
            at = stop
        return "\n".join(shown)

    def _cut(self, place: int, longest: int, brief: int) -> str:
        """Return a line cut to its size."""
        is_name = place in self.brief and is_worth_cutting(self.sizes[place], longest)
        return cut_name(self.lines[place], brief) if is_name else self.cut(self.lines[place], longest)

    def _choose(self, max_chars: int, longest: int, brief: int) -> bytearray:
        """Return for each line whether it is kept, with a 1 before the first and behind the last line."""
        kept = bytearray(len(self.lines) + 2)
        kept[0] = kept[-1] = 1
        room, misses, any_kept = max_chars - MARKER_CHARS, 0, 0
        sizes, bare, named, least_cut = self.sizes, self.bare, self.brief, _least_cut(longest)
        for place in self.order:
            if not bare[place]:
                continue
            # A line alone splits a gap in two; one that fills a gap saves its marker.
            gaps, size = 1 - kept[place] - kept[place + 2], sizes[place]
            if size > least_cut:
                size = brief if place in named else longest
            is_crumb = misses > 0 < gaps and bare[place] < CRUMB_CHARS and place not in named
            if ((cost := size + 1 + gaps * MARKER_CHARS) <= room and not is_crumb) or not any_kept:
                kept[place + 1] = any_kept = 1
                room -= cost
            else:
                misses += 1
                if misses > MISSES:
                    break
        return kept

    def _show_gap(self, start: int, stop: int) -> list[str]:
        if self.redundant and all(place in self.redundant for place in range(start, stop)):
            return []
        if stop - start == 1 and start in self.counted:  # it may say more than a new one
            return [self.lines[start]]
        earlier = [self.counted[place] for place in range(start, stop) if place in self.counted]
        number = stop - start + sum(earlier) - len(earlier)
        marker = mark_gap(number, "line", self.describe(start, stop))
        is_longer = self.ends[stop] - self.ends[start] - 1 > len(marker) * WORTH_A_MARKER
        # Of several markers one is left.
        is_joined = len(earlier) > 1 and not any(self.bare[start:stop])
        return [marker] if is_longer or is_joined else list(self.lines[start:stop])


def end_places(stop: int, head: int = 1, tail: int = 1) -> Iterator[int]:
    """Yield places from both ends towards the middle: `head` from the front, then `tail` from the back.

    >>> list(end_places(6, head=1, tail=2))
    [0, 5, 4, 1, 3, 2]
    """
    start = 0
    while start < stop:
        front = range(start, min(start + head, stop))
        yield from front
        start = front.stop
        back = range(stop - 1, max(stop - 1 - tail, start - 1), -1)
        yield from back
        stop -= len(back)


class LazyPlaces:
    """Places, each once, worked out as far as somebody reads them: of a long text few lines are shown."""

    __slots__ = ("_known", "_rest")

    def __init__(self, places: Iterable[int]) -> None:
        self._known: dict[int, None] = {}
        self._rest = iter(places)

    def __iter__(self) -> Iterator[int]:
        return chain(self._known, self._find_more())

    def _find_more(self) -> Iterator[int]:
        for place in self._rest:
            if place not in self._known:
                self._known[place] = None
                yield place


def mix_places(lines: Sequence[str], streams: Iterable[tuple[float, Iterable[int]]]) -> Iterator[int]:
    """Merge rankings so that at each size every one has about its share of the characters."""
    rankings = [(share, iter(places)) for share, places in streams]
    used = [0.0] * len(rankings)
    seen: set[int] = set()
    waiting = list(range(len(rankings)))
    while waiting:
        number = min(waiting, key=used.__getitem__)  # of those that used as much the first
        share, places = rankings[number]
        for place in places:
            if place not in seen:
                seen.add(place)
                yield place
                used[number] += (len(lines[place]) + 1) / share
                break
        else:
            waiting.remove(number)


def has_share(lines: Sequence[str], is_one: Callable[[str], object], part: int, of: int) -> bool:
    """True if at least `part` of `of` lines are such ones; ends as soon as too many are not.

    >>> has_share(["1", "2", "c"], str.isdigit, 2, 3)
    True
    """
    left, at = len(lines) * (of - part) // of, 0
    while at < len(lines) and left >= 0:
        # So many are looked at in any case, and at once; one by one takes twice the time.
        some = lines[at : at + max(left + 1, LEAST_AT_ONCE)]
        left -= sum(map(not_, map(is_one, some)))
        at += len(some)
    return left >= 0
