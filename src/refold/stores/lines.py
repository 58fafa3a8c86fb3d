"""The lines of one session in memory: for each entry where it is kept and what a path is filtered by.

Holds a few numbers for each entry and no bodies. Everything only grows, so a walk that has begun goes on
undisturbed while others append.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from refold.core.log.entries import KINDS, Kind
from refold.errors import Conflict, LogCorrupt, StoreError
from refold.stores import START, Head, Place
from refold.stores.paths import stretches

_CODES: Final = {kind: code for code, kind in enumerate(KINDS)}


def same_head(expect: Head | None, found: Head | None) -> None:
    """Refuse to go on from a head that moved."""
    if (expect.version if expect else None) != (found.version if found else None):
        raise Conflict(expect.name if expect else None, found.name if found else None)


class Spot(NamedTuple):
    """Where an entry is kept: its number in a list, or its bytes in a file."""

    at: int
    size: int = 0


class _Line:
    """Entries that stand one behind the other."""

    __slots__ = ("at", "gaps", "kinds", "saids", "seqs", "sizes")

    def __init__(self) -> None:
        self.seqs = array("Q")
        self.saids = array("Q")
        self.kinds = bytearray()
        self.at = array("Q")
        self.sizes = array("Q")
        self.gaps: dict[int, int] = {}
        """Index before which entries are lost, and the line of the file that is to blame."""

    def index(self, seq: int) -> int | None:
        found = bisect_left(self.seqs, seq)
        return found if found < len(self.seqs) and self.seqs[found] == seq else None


class Lines:
    """Where the entries of a session stand."""

    def __init__(self) -> None:
        self.parents: dict[int, Place] = {}
        self.last_seq = 0
        self.last_line = -1
        self._lines: dict[int, _Line] = {}

    def __contains__(self, place: object) -> bool:
        return place == START or (isinstance(place, Place) and self._find(place) is not None)

    def _find(self, place: Place) -> tuple[_Line, int] | None:
        line = self._lines.get(place.line)
        index = line.index(place.seq) if line else None
        return (line, index) if line is not None and index is not None else None

    def spot(self, place: Place) -> Spot:
        """Where the entry at a place is kept."""
        found = self._find(place)
        if not found:
            raise StoreError(f"nothing stands at {tuple(place)} in this session")
        line, index = found
        return Spot(line.at[index], line.sizes[index])

    def line_behind(self, place: Place) -> int:
        """The line that goes on behind a place: its own where it is the last there, else a new one."""
        line = self._lines.get(place.line)
        return place.line if line and line.seqs[-1] == place.seq else self.last_line + 1

    def add(self, place: Place, behind: Place, kind: Kind, said: int, spot: Spot, *, blame: int = 0) -> None:
        """Take in an entry that stands behind another.

        blame   the line of the file to name where what stood between the two is lost
        """
        line = self._lines.get(place.line)
        if line is None:
            line = self._lines[place.line] = _Line()
            lost = behind.line == place.line and behind != START
            self.parents[place.line] = START if lost else behind
        else:
            lost = behind.line != place.line or behind.seq != line.seqs[-1]
        if lost:
            line.gaps.setdefault(len(line.seqs), blame)
        line.seqs.append(place.seq)
        line.saids.append(said)
        line.kinds.append(_CODES[kind])
        line.at.append(spot.at)
        line.sizes.append(spot.size)
        self.reach(place)

    def reach(self, place: Place, *, blame: int = 0) -> None:
        """Note that entries up to a place were stored; what is not there of them is lost."""
        self.last_seq = max(self.last_seq, place.seq)
        self.last_line = max(self.last_line, place.line)
        line = self._lines.get(place.line)
        if line is not None and line.seqs[-1] < place.seq:
            line.gaps.setdefault(len(line.seqs), blame)

    def walk(
        self,
        place: Place,
        *,
        kinds: Collection[Kind] | None = None,
        first: int = 0,
        last: int | None = None,
        newest: bool = False,
    ) -> Iterator[Spot]:
        """Where the entries on the path to a place are kept; raises at once for a place that is not there."""
        parts = [self._part(*stretch, first, last) for stretch in self._stretches(place)]
        wanted = None if kinds is None else frozenset(_CODES[kind] for kind in kinds)
        return _spots(parts[::-1] if newest else parts, wanted, newest=newest)

    def _stretches(self, place: Place) -> list[tuple[int, int, int]]:
        try:
            return stretches(place, self.parents)
        except (KeyError, ValueError):
            raise StoreError(f"nothing stands at {tuple(place)} in this session") from None

    def _part(
        self, number: int, after: int, through: int, first: int, last: int | None
    ) -> tuple[_Line, int, int]:
        line = self._lines[number]
        end = bisect_right(line.seqs, through)
        if not end or line.seqs[end - 1] != through:
            if end in line.gaps:
                raise _lost(line.gaps[end])
            raise StoreError(f"nothing stands at {(number, through)} in this session")
        begin = bisect_right(line.seqs, after)
        low = bisect_left(line.saids, first, begin, end)
        high = end if last is None else max(low, bisect_right(line.saids, last, low, end))
        for index, blame in line.gaps.items():
            if low <= index < end and index <= high:
                raise _lost(blame)
        return line, low, high


def _spots(
    parts: list[tuple[_Line, int, int]], wanted: frozenset[int] | None, *, newest: bool
) -> Iterator[Spot]:
    for line, low, high in parts:
        for index in range(high - 1, low - 1, -1) if newest else range(low, high):
            if wanted is None or line.kinds[index] in wanted:
                yield Spot(line.at[index], line.sizes[index])


def _lost(number: int) -> LogCorrupt:
    return LogCorrupt(f"line {number} of the session's file is damaged: salvage what is left", line=number)
