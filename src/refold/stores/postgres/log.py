"""Reading entries and heads of a PostgreSQL store, on connections that are handed over."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from psycopg.sql import SQL

from refold.core.log.entries import Entry, Kind
from refold.errors import LogCorrupt, SessionNotFound, StoreError
from refold.stores import START, Head, Place
from refold.stores.paths import Stretch, stretches
from refold.stores.postgres.connections import Connection

Row: TypeAlias = tuple[Any, ...]
Run: TypeAlias = Callable[[Callable[[Connection], list[Row]]], list[Row]]
"""Does a statement on some connection and gives its rows."""

COLUMNS: Final = "line, seq, name, parent, kind, body, said, text, about, at"
NOW: Final = "coalesce(%(now)s::float8, extract(epoch FROM clock_timestamp())::float8)"
"""The server's clock, which all processes share, unless a test turns its own."""
_PAGE_ROWS: Final = 500
_PAGE_BYTES: Final = 4 << 20
"""Of bodies, after which a page ends; one entry is read whatever its size."""
_PAGE: Final = """
    SELECT {columns} FROM (
        SELECT {columns}, sum(octet_length(body)) OVER (ORDER BY seq {order}) - octet_length(body) AS before
        FROM refold.entries
        WHERE scope = %(scope)s AND session = %(session)s AND line = %(line)s
              AND seq > %(after)s AND seq <= %(through)s AND said >= %(first)s{more}
        ORDER BY seq {order} LIMIT {rows}
    ) AS page WHERE before < {bytes} ORDER BY seq {order}
"""


def key_of(name: str) -> bytes:
    """What a name is found by."""
    return hashlib.blake2b(packed(name), digest_size=20).digest()


def packed(text: str) -> bytes:
    """Any text as bytes."""
    return text.encode("utf-8", "surrogatepass")


def unpacked(data: bytes) -> str:
    """The text of such bytes; what somebody broke is replaced."""
    try:
        return bytes(data).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return bytes(data).decode("utf-8", "replace")


def placed(row: Row) -> tuple[Place, Entry]:
    """A row of `COLUMNS` as an entry and its place."""
    line, seq, name, parent, kind, body, said, text, about, at = row
    entry = Entry(
        name=name, parent=parent, kind=kind, body=body, said=said, text=unpacked(text), about=about, at=at
    )
    return Place(line, seq), entry


def head(connection: Connection, scope: str, session: str) -> Head | None:
    """Where a session is."""
    row = connection.execute(
        "SELECT line, seq, head, said, version FROM refold.sessions WHERE scope = %s AND key = %s",
        [scope, key_of(session)],
    ).fetchone()
    return None if row is None else head_of(row)


def head_of(row: Row) -> Head:
    """A row of line, seq, head, said and version as a head."""
    line, seq, name, said, version = row
    return Head(place=Place(line, seq), name=name, said=said, version=version)


@dataclass(frozen=True, slots=True)
class Path:
    """The way to a place of a session."""

    scope: str
    session: int
    stretches: Sequence[Stretch]

    def rows(
        self, run: Run, *, kinds: Collection[Kind] | None, first: int, last: int | None, newest: bool
    ) -> Iterator[Row]:
        """Rows of the way, read in pages; no connection is held between two of them."""
        wanted = {"kinds": None if kinds is None else list(kinds), "first": first, "last": last}
        statement = _statement(kinds, last, newest=newest)
        for line, after, through in self.stretches[::-1] if newest else self.stretches:
            start, end = after, through
            while start < end:
                given = {"scope": self.scope, "session": self.session, "line": line, **wanted}
                given |= {"after": start, "through": end}
                page = run(partial(_rows, statement, given))
                yield from page
                if not page:
                    break
                start, end = (start, page[-1][1] - 1) if newest else (page[-1][1], end)


def _rows(statement: str, given: Mapping[str, Any], connection: Connection) -> list[Row]:
    return connection.execute(SQL(statement), given, binary=True).fetchall()


def _statement(kinds: Collection[Kind] | None, last: int | None, *, newest: bool) -> str:
    more = "" if kinds is None else " AND kind = ANY(%(kinds)s)"
    if kinds is not None and "said" not in kinds:
        more += " AND kind <> 'said'"  # lets the index of marks serve
    if last is not None:
        more += " AND said <= %(last)s"
    order = "DESC" if newest else "ASC"
    return _PAGE.format(columns=COLUMNS, more=more, order=order, rows=_PAGE_ROWS, bytes=_PAGE_BYTES)


def path(connection: Connection, scope: str, session: str, place: Place) -> Path:
    """The way to a place; `SessionNotFound` and `StoreError` where there is none."""
    row = connection.execute(
        "SELECT id, EXISTS (SELECT FROM refold.entries AS e WHERE e.scope = %(scope)s AND e.session = s.id"
        " AND e.seq = %(seq)s AND e.line = %(line)s)"
        " FROM refold.sessions AS s WHERE scope = %(scope)s AND key = %(key)s",
        {"scope": scope, "key": key_of(session), "line": place.line, "seq": place.seq},
    ).fetchone()
    if row is None:
        raise SessionNotFound(f"there is no session {session!r}")
    if not row[1] and place != START:
        raise StoreError(f"nothing stands at {tuple(place)} in session {session!r}")
    parents = {0: START}
    if place.line:
        rows = connection.execute(
            "SELECT line, parent_line, parent_seq FROM refold.lines WHERE scope = %s AND session = %s",
            [scope, row[0]],
        )
        parents |= {line: Place(parent_line, parent_seq) for line, parent_line, parent_seq in rows}
    try:
        return Path(scope, row[0], stretches(place, parents))
    except (KeyError, ValueError):
        raise LogCorrupt(f"the way to {tuple(place)} in session {session!r} is broken: run check") from None


def find(connection: Connection, scope: str, session: str, names: Sequence[str]) -> dict[str, Place]:
    """Where entries of these names stand; the first of several with one name."""
    rows = connection.execute(
        "SELECT name, line, seq FROM refold.entries WHERE scope = %(scope)s AND session ="
        " (SELECT id FROM refold.sessions WHERE scope = %(scope)s AND key = %(key)s)"
        " AND name = ANY(%(names)s) ORDER BY seq DESC",
        {"scope": scope, "key": key_of(session), "names": [name for name in names if _storable(name)]},
    )
    return {name: Place(line, seq) for name, line, seq in rows}


def _storable(name: str) -> bool:
    """Whether the name of an entry can be in a store at all."""
    return "\0" not in name and packed(name) == name.encode("utf-8", "replace")
