"""Read the entries on the path to a place in a SQLite store: page by page, and checked to have no gap."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import merge
from typing import Any, Final

from refold.core.log.entries import Entry, Kind
from refold.errors import LogCorrupt, SessionNotFound, StoreError
from refold.stores import START, Place
from refold.stores.paths import Stretch, split_path
from refold.stores.sqlite.connection import Connection
from refold.stores.sqlite.driver import RawConnection, Row
from refold.stores.sqlite.rows import StoredEntry, parse_intact_row, parse_line_row, select_entries

_PAGE_ROWS: Final = 500
"""Rows that one read takes: the lock that threads share is held for about a millisecond."""
_PAGE_BYTES: Final = 2_000_000
"""Size after which a page ends early, so that large bodies do not fill the memory."""
_AT: Final = select_entries("WHERE session = ? AND line = ? AND seq = ?")
_LINES: Final = """
WITH RECURSIVE way (session, line, parent_line, parent_seq, sum) AS (
    SELECT session, line, parent_line, parent_seq, sum FROM lines WHERE session = ?1 AND line = ?2
    UNION SELECT lines.session, lines.line, lines.parent_line, lines.parent_seq, lines.sum
    FROM way JOIN lines ON lines.session = way.session AND lines.line = way.parent_line
) SELECT * FROM way
"""
_NEXT: Final = (
    "SELECT seq, said FROM entries INDEXED BY entries_by_place"
    " WHERE session = ? AND line = ? AND seq >= ? ORDER BY seq LIMIT 1"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFilter:
    """The choice of entries that are read of a path, and their order."""

    kinds: Collection[Kind] | None = None
    first: int = 0
    last: int | None = None
    newest: bool = False

    @property
    def takes_all(self) -> bool:
        """True if no entry of the path is left out."""
        return self.kinds is None and self.first <= 0 and self.last is None


def read_entry_at(raw: RawConnection, session: int, place: Place) -> StoredEntry:
    """Read the entry at a place."""
    for row in raw.execute(_AT, (session, *place)).fetchall():
        return parse_intact_row(row)
    raise StoreError(f"there is no entry at {tuple(place)} in this session")


def read_path(connection: Connection, session: int, place: Place, wanted: PathFilter) -> Iterator[Entry]:
    """Iterate over the entries on the path to a place; raises at once for an unknown place."""
    if place == START:
        return iter(())
    connection.read(lambda raw: read_entry_at(raw, session, place))
    rows = connection.fetch(_LINES, (session, place.line))
    try:
        path = split_path(place, {0: START} | dict(map(parse_line_row, rows)))
    except (KeyError, ValueError):
        raise LogCorrupt(f"the path to {tuple(place)} is damaged: salvage what can be read") from None
    stored = _read_stretches(connection, session, path[::-1] if wanted.newest else path, wanted)
    if wanted.kinds is None:  # with a filter by kind a gap cannot be told from an entry that was left out
        stored = _require_no_gap(stored, place, wanted)

    def entries() -> Iterator[Entry]:
        try:
            for row in stored:
                yield row.entry
        except LogCorrupt:
            if connection.fetch("SELECT id FROM sessions WHERE id = ?", (session,)):
                raise
            raise SessionNotFound("the session was deleted while it was read") from None

    return entries()


def _read_stretches(
    connection: Connection, session: int, path: Sequence[Stretch], wanted: PathFilter
) -> Iterator[StoredEntry]:
    kinds = None if wanted.kinds is None else sorted(set(wanted.kinds))
    for stretch in path:
        part = connection.read(partial(_narrow, session=session, stretch=stretch, wanted=wanted))
        if kinds is None or "said" in kinds:
            entries = _read_stretch(connection, session, part, kinds=kinds, newest=wanted.newest)
        else:  # marks come kind by kind from an index of their own, which skips all messages
            streams = [
                _read_stretch(connection, session, part, kinds=[k], newest=wanted.newest) for k in kinds
            ]
            entries = merge(*streams, key=lambda found: found.place.seq, reverse=wanted.newest)
        for stored in entries:
            said = stored.entry.said
            if wanted.first <= said and (wanted.last is None or said <= wanted.last):
                yield stored


def _narrow(raw: RawConnection, session: int, stretch: Stretch, wanted: PathFilter) -> Stretch:
    """Cut a stretch to the wanted messages; their numbers never fall along a line."""
    line, after, through = stretch
    if wanted.first > 0:
        after = max(after, _find_seq(raw, session, stretch, wanted.first) - 1)
    if wanted.last is not None:
        through = min(through, _find_seq(raw, session, stretch, wanted.last + 1) - 1)
    return line, after, through


def _find_seq(raw: RawConnection, session: int, stretch: Stretch, said: int) -> int:
    """Find the first seq from which on entries have at least `said` messages, by halving the stretch."""
    line, low, high = stretch
    low, high = low + 1, high + 1
    while low < high:
        middle = (low + high) // 2
        rows = raw.execute(_NEXT, (session, line, middle)).fetchall()
        if rows and rows[0][0] < high and rows[0][1] < said:
            low = rows[0][0] + 1
        else:
            high = middle
    return low


def _read_stretch(
    connection: Connection, session: int, stretch: Stretch, *, kinds: Sequence[str] | None, newest: bool
) -> Iterator[StoredEntry]:
    """Read the entries of a stretch, page by page."""
    line, after, through = stretch
    marks = kinds is not None and len(kinds) == 1 and kinds[0] != "said"
    among = f" AND kind IN ({', '.join('?' * len(kinds))})" if kinds is not None else ""
    statement = select_entries(
        f"INDEXED BY {'marks' if marks else 'entries_by_place'}"
        f" WHERE session = ? AND line = ? AND seq > ? AND seq <= ?{among}"
        # SQLite uses a partial index only for a query that repeats its condition
        f"{' AND kind <> ' + repr('said') if marks else ''}"
        f" ORDER BY seq{' DESC' if newest else ''} LIMIT {_PAGE_ROWS}"
    )
    while after < through:
        values = (session, line, after, through, *(kinds or ()))
        rows, more = connection.read(partial(read_page, statement=statement, values=values))
        for row in rows:
            yield parse_intact_row(row)
        if not more:
            return
        after, through = (after, rows[-1][2] - 1) if newest else (rows[-1][2], through)


def read_page(raw: RawConnection, statement: str, values: Sequence[Any]) -> tuple[list[Row], bool]:
    """Read the next rows; also returns True if there may be more."""
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


def _require_no_gap(path: Iterator[StoredEntry], place: Place, wanted: PathFilter) -> Iterator[StoredEntry]:
    """Pass the entries on; raises `LogCorrupt` if one is missing."""
    step = -1 if wanted.newest else 1
    before: StoredEntry | None = None
    for stored in path:
        if before is None:
            if wanted.newest and wanted.last is None and stored.place != place:
                raise _missing_entry(place)
            if not wanted.newest and wanted.first <= 0 and stored.depth != 1:
                raise _missing_entry(stored.place)
        elif stored.depth != before.depth + step:
            raise _missing_entry(before.place)
        yield stored
        before = stored
    if wanted.takes_all:
        complete = before and (before.depth == 1 if wanted.newest else before.place == place)
        if not complete:
            raise _missing_entry(before.place if before else place)


def _missing_entry(place: Place) -> LogCorrupt:
    return LogCorrupt(f"an entry is missing beside {tuple(place)}: salvage what can be read")
