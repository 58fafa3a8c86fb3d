"""The path to a place in a SQLite store: read in pages, and checked to have no gap."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Any, Final

from refold.core.log.entries import Entry, Kind
from refold.errors import LogCorrupt, StoreError
from refold.stores import START, Place
from refold.stores.paths import Stretch, stretches
from refold.stores.sqlite.connection import Connection
from refold.stores.sqlite.driver import Raw, Row
from refold.stores.sqlite.rows import Stored, entries, parent_of_line, whole

_PAGE_ROWS: Final = 500
_PAGE_BYTES: Final = 2_000_000
"""A page ends early where its bodies are large."""
_AT: Final = entries("WHERE session = ? AND line = ? AND seq = ?")
_LINES: Final = """
WITH RECURSIVE way (session, line, parent_line, parent_seq, sum) AS (
    SELECT session, line, parent_line, parent_seq, sum FROM lines WHERE session = ?1 AND line = ?2
    UNION SELECT lines.session, lines.line, lines.parent_line, lines.parent_seq, lines.sum
    FROM way JOIN lines ON lines.session = way.session AND lines.line = way.parent_line
) SELECT * FROM way
"""
_MARKS: Final = " AND kind <> 'said'"
"""What the index of marks wants to hear."""
_NEXT: Final = (
    "SELECT seq, said FROM entries INDEXED BY entries_by_place"
    " WHERE session = ? AND line = ? AND seq >= ? ORDER BY seq LIMIT 1"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which entries of a path, and in which order."""

    kinds: Collection[Kind] | None = None
    first: int = 0
    last: int | None = None
    newest: bool = False

    @property
    def everything(self) -> bool:
        """Whether no entry of the path is left out."""
        return self.kinds is None and self.first <= 0 and self.last is None

    def takes(self, entry: Entry) -> bool:
        """Whether the numbers of messages fit."""
        return self.first <= entry.said and (self.last is None or entry.said <= self.last)


def entry_at(raw: Raw, session: int, place: Place) -> Stored:
    """The entry that stands at a place."""
    for row in raw.execute(_AT, (session, *place)).fetchall():
        return whole(row)
    raise StoreError(f"nothing stands at {tuple(place)} in this session")


def walk(connection: Connection, session: int, place: Place, wanted: Wanted) -> Iterator[Entry]:
    """The entries on the way to a place; raises at once for a place that is not there."""
    if place == START:
        return iter(())
    connection.read(lambda raw: entry_at(raw, session, place))
    path = way_to(connection, session, place)
    found = _along(connection, session, path[::-1] if wanted.newest else path, wanted)
    if wanted.kinds is None:
        found = _unbroken(found, place, wanted)
    return (each.entry for each in found)


def way_to(connection: Connection, session: int, place: Place) -> list[Stretch]:
    """The stretches of the way to a place, oldest first."""
    rows = connection.read(lambda raw: raw.execute(_LINES, (session, place.line)).fetchall())
    try:
        return stretches(place, {0: START} | dict(map(parent_of_line, rows)))
    except (KeyError, ValueError):
        raise LogCorrupt(f"the way to {tuple(place)} is damaged: salvage what can be read") from None


def _along(connection: Connection, session: int, path: Sequence[Stretch], wanted: Wanted) -> Iterator[Stored]:
    for stretch in path:
        cut = connection.read(lambda raw, stretch=stretch: _cut(raw, session, stretch, wanted))  # type: ignore[misc]
        for found in _streams(connection, session, cut, wanted):
            if wanted.takes(found.entry):
                yield found


def _cut(raw: Raw, session: int, stretch: Stretch, wanted: Wanted) -> Stretch:
    """The stretch without those whose numbers do not fit: numbers never fall along a line."""
    line, after, through = stretch
    if wanted.first > 0:
        after = max(after, _first_with(raw, session, stretch, wanted.first) - 1)
    if wanted.last is not None:
        through = min(through, _first_with(raw, session, stretch, wanted.last + 1) - 1)
    return line, after, through


def _first_with(raw: Raw, session: int, stretch: Stretch, said: int) -> int:
    """The least number that only entries with so many messages have; found by halving the stretch."""
    line, low, high = stretch
    low, high = low + 1, high + 1
    while low < high:
        middle = (low + high) // 2
        found = raw.execute(_NEXT, (session, line, middle)).fetchall()
        if found and found[0][0] < high and found[0][1] < said:
            low = found[0][0] + 1
        else:
            high = middle
    return low


def _streams(connection: Connection, session: int, stretch: Stretch, wanted: Wanted) -> Iterator[Stored]:
    """The entries of a stretch; marks come kind by kind from an index of their own."""
    kinds = None if wanted.kinds is None else sorted(set(wanted.kinds))
    if kinds is None or "said" in kinds:
        yield from stream(connection, session, stretch, kinds=kinds, newest=wanted.newest)
        return
    each = [stream(connection, session, stretch, kinds=[k], newest=wanted.newest) for k in kinds]
    yield from merge(*each, key=lambda found: found.place.seq, reverse=wanted.newest)


def stream(
    connection: Connection,
    session: int,
    stretch: Stretch,
    *,
    kinds: Sequence[str] | None = None,
    newest: bool = False,
) -> Iterator[Stored]:
    """The entries of a stretch, page by page."""
    line, after, through = stretch
    statement = _statement(kinds, newest=newest)
    while after < through:
        values = (session, line, after, through, *(kinds or ()))
        rows, more = connection.read(lambda raw, values=values: page(raw, statement, values))  # type: ignore[misc]
        for row in rows:
            yield whole(row)
        if not more:
            return
        after, through = (after, rows[-1][2] - 1) if newest else (rows[-1][2], through)


def _statement(kinds: Sequence[str] | None, *, newest: bool) -> str:
    marks = kinds is not None and len(kinds) == 1 and kinds[0] != "said"
    some = f" AND kind IN ({', '.join('?' * len(kinds))})" if kinds is not None else ""
    return entries(
        f"INDEXED BY {'marks' if marks else 'entries_by_place'}"
        f" WHERE session = ? AND line = ? AND seq > ? AND seq <= ?{some}{_MARKS if marks else ''}"
        f" ORDER BY seq{' DESC' if newest else ''} LIMIT {_PAGE_ROWS}"
    )


def page(raw: Raw, statement: str, values: Sequence[Any]) -> tuple[list[Row], bool]:
    """The next rows, and whether there may be more."""
    rows: list[Row] = []
    size = 0
    cursor = raw.execute(statement, values)
    for row in cursor:
        rows.append(row)
        size += len(row[-1] or "") + len(row[-2] or "")
        if size > _PAGE_BYTES:
            cursor.close()
            return rows, True
    return rows, len(rows) == _PAGE_ROWS


def _unbroken(path: Iterator[Stored], place: Place, wanted: Wanted) -> Iterator[Stored]:
    """The same entries; `LogCorrupt` where one is missing."""
    step = -1 if wanted.newest else 1
    before: Stored | None = None
    for found in path:
        if before is None:
            _begins(found, place, wanted)
        elif found.depth != before.depth + step:
            raise _missing(before.place)
        yield found
        before = found
    if wanted.everything and (
        before is None or (before.depth != 1 if wanted.newest else before.place != place)
    ):
        raise _missing(before.place if before else place)


def _begins(found: Stored, place: Place, wanted: Wanted) -> None:
    if wanted.newest and wanted.last is None and found.place != place:
        raise _missing(place)
    if not wanted.newest and wanted.first <= 0 and found.depth != 1:
        raise _missing(found.place)


def _missing(place: Place) -> LogCorrupt:
    return LogCorrupt(f"an entry is missing beside {tuple(place)}: salvage what can be read")
