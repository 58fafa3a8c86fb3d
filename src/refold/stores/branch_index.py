"""Index of one session's entries in memory: their locations, and the numbers that a read filters by.

Holds a few numbers for each entry and no bodies. Everything only grows, so a read that has begun continues
undisturbed while others append.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from refold.core.log.entries import KINDS, Kind
from refold.errors import LogCorrupt, StoreError
from refold.stores import START, Branch, Place
from refold.stores.paths import split_path

_CODES: Final = {kind: code for code, kind in enumerate(KINDS)}


class Extent(NamedTuple):
    """The location of an entry: its index in a list, or its offset and size in a file."""

    at: int
    size: int = 0


class _Line:
    """Entries in a row. Arrays, because a tuple for each entry takes several times the memory."""

    __slots__ = ("at", "gaps", "kinds", "saids", "seqs", "sizes")

    def __init__(self) -> None:
        self.seqs = array("Q")
        self.saids = array("Q")
        self.kinds = bytearray()
        self.at = array("Q")
        self.sizes = array("Q")
        self.gaps: dict[int, int] = {}
        """Index before which entries are lost, and the damaged row of the file to name in the error."""


class BranchIndex:
    """Places of the entries of one session."""

    def __init__(self) -> None:
        self.parents: dict[int, Place] = {}
        self.last_seq = 0
        self.last_line = -1
        self._lines: dict[int, _Line] = {}

    def __contains__(self, place: object) -> bool:
        return place == START or (isinstance(place, Place) and self._find(place) is not None)

    def _find(self, place: Place) -> tuple[_Line, int] | None:
        line = self._lines.get(place.line)
        if line is None:
            return None
        index = bisect_left(line.seqs, place.seq)
        return (line, index) if index < len(line.seqs) and line.seqs[index] == place.seq else None

    def locate(self, place: Place) -> Extent:
        """Return the location of the entry at a place."""
        hit = self._find(place)
        if hit is None:
            raise StoreError(f"there is no entry at {tuple(place)} in this session")
        line, index = hit
        return Extent(line.at[index], line.sizes[index])

    def line_behind(self, place: Place) -> int:
        """Return the line for an append behind a place: its own if it is last there, else a new one."""
        line = self._lines.get(place.line)
        return place.line if line and line.seqs[-1] == place.seq else self.last_line + 1

    def add(
        self, place: Place, behind: Place, kind: Kind, said: int, at: int, *, size: int = 0, blame: int = 0
    ) -> None:
        """Add an entry that stands behind another.

        at, size   as in `Extent`
        blame      row of the file to name if entries between the two are lost
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
        line.at.append(at)
        line.sizes.append(size)
        self.last_seq = max(self.last_seq, place.seq)
        self.last_line = max(self.last_line, place.line)

    def extend_to(self, place: Place, *, blame: int = 0) -> None:
        """Record that entries up to a place were stored once; those that are missing count as lost."""
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
    ) -> Iterator[Extent]:
        """Iterate over the locations of the entries on a path; raises at once for an unknown place."""
        try:
            path = split_path(place, self.parents)
        except (KeyError, ValueError):
            raise StoreError(f"there is no entry at {tuple(place)} in this session") from None
        parts = [self._select(*stretch, first, last) for stretch in path]
        codes = None if kinds is None else frozenset(_CODES[kind] for kind in kinds)

        def extents() -> Iterator[Extent]:  # inner, so that the errors above come at the call
            for line, low, high in parts[::-1] if newest else parts:
                for index in range(high - 1, low - 1, -1) if newest else range(low, high):
                    if codes is None or line.kinds[index] in codes:
                        yield Extent(line.at[index], line.sizes[index])

        return extents()

    def list_branches(self) -> list[Branch]:
        """Return all lines, each with where it begins and its last entry."""
        ends = {number: Place(number, line.seqs[-1]) for number, line in sorted(self._lines.items())}
        return [Branch(begins=self.parents[number], ends=end) for number, end in ends.items()]

    def find_kind(self, kind: Kind) -> list[tuple[Place, Extent]]:
        """Return the places and locations of the entries of a kind on all lines, oldest first."""
        found = [
            (Place(number, line.seqs[index]), Extent(line.at[index], line.sizes[index]))
            for number, line in self._lines.items()
            for index, code in enumerate(line.kinds)
            if code == _CODES[kind]
        ]
        return sorted(found, key=lambda each: each[0].seq)

    def _select(
        self, number: int, after: int, through: int, first: int, last: int | None
    ) -> tuple[_Line, int, int]:
        """Find the range of a line that a stretch and the filter by messages select; refuses gaps in it."""
        line = self._lines[number]
        end = bisect_right(line.seqs, through)
        if not end or line.seqs[end - 1] != through:
            if end in line.gaps:
                raise _damaged_row(line.gaps[end])
            raise StoreError(f"there is no entry at {(number, through)} in this session")
        begin = bisect_right(line.seqs, after)
        low = bisect_left(line.saids, first, begin, end)
        high = end if last is None else max(low, bisect_right(line.saids, last, low, end))
        for index, blame in line.gaps.items():
            if low <= index < end and index <= high:
                raise _damaged_row(blame)
        return line, low, high


def _damaged_row(number: int) -> LogCorrupt:
    return LogCorrupt(f"line {number} of the session's file is damaged: salvage what is left", line=number)
