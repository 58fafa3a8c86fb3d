"""Read entries and heads of a PostgreSQL store, on a connection that the caller provides."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from psycopg.sql import SQL

from refold.core.log.entries import Entry, Kind
from refold.errors import LogCorrupt, SessionNotFound, StoreError
from refold.stores import START, Head, Located, Place
from refold.stores.paths import Stretch, split_path
from refold.stores.postgres.connections import Connection
from refold.stores.sql_files import read_statement
from refold.stores.text import decode_text, encode_text, name_hash

Row: TypeAlias = tuple[Any, ...]
Run: TypeAlias = Callable[[Callable[[Connection], list[Row]]], list[Row]]
"""Runs a statement on some connection and returns its rows."""

COLUMNS: Final = "line, seq, name, parent, kind, body, said, text, about, at"
NOW: Final = "coalesce(%(now)s::float8, extract(epoch FROM clock_timestamp())::float8)"
"""The clock of the server, which all processes share, unless a test passes its own."""
PAGE_ROWS: Final = 500
PAGE_BYTES: Final = 4 << 20
"""Rows and bytes of bodies after which a page ends: bounded memory here and on the server. One
entry is always read, whatever its size."""
_PAGE: Final = read_statement("page")

_LOCATE: Final = read_statement("locate")
MARKS: Final = read_statement("marks", COLUMNS=COLUMNS)

# the last entry of a line has the highest number of messages, by which there is an index
BRANCHES: Final = read_statement("branches")


def decode_damaged_text(data: bytes) -> str:
    """Decode a text of `encode_text`; damaged characters in the database are replaced."""
    try:
        return decode_text(bytes(data))
    except UnicodeDecodeError:
        return bytes(data).decode("utf-8", "replace")


def parse_entry_row(row: Row) -> tuple[Place, Entry]:
    """Parse a row of `COLUMNS` into an entry and its place."""
    line, seq, name, parent, kind, body, said, text, about, at = row
    text = decode_damaged_text(text)
    entry = Entry(name=name, parent=parent, kind=kind, body=body, said=said, text=text, about=about, at=at)
    return Place(line, seq), entry


def read_head(connection: Connection, scope: str, session: str) -> Head | None:
    """Read the head of a session."""
    row = connection.execute(
        "SELECT line, seq, head, said, version FROM refold.sessions WHERE scope = %s AND key = %s",
        [scope, name_hash(session)],
    ).fetchone()
    return None if row is None else parse_head_row(row)


def parse_head_row(row: Row) -> Head:
    """Parse a row of line, seq, head, said and version."""
    line, seq, name, said, version = row
    return Head(place=Place(line, seq), name=name, said=said, version=version)


@dataclass(frozen=True, slots=True)
class Path:
    """The path to a place of a session."""

    scope: str
    session: int
    stretches: Sequence[Stretch]

    def rows(
        self, run: Run, *, kinds: Collection[Kind] | None, first: int, last: int | None, newest: bool
    ) -> Iterator[Row]:
        """Read the rows of the path, page by page; no connection is held between two pages."""
        more = "" if kinds is None else " AND kind = ANY(%(kinds)s)"
        if kinds is not None and "said" not in kinds:
            more += " AND kind <> 'said'"  # the planner uses the partial index only if the query says so
        if last is not None:
            more += " AND said <= %(last)s"
        order = "DESC" if newest else "ASC"
        statement = _PAGE.format(columns=COLUMNS, more=more, order=order, rows=PAGE_ROWS, bytes=PAGE_BYTES)
        wanted = {"kinds": None if kinds is None else list(kinds), "first": first, "last": last}
        for line, after, through in self.stretches[::-1] if newest else self.stretches:
            start, end = after, through
            while start < end:
                values = {"scope": self.scope, "session": self.session, "line": line, **wanted}
                page = run(fetch_all(statement, values | {"after": start, "through": end}))
                yield from page
                if not page:
                    alive = "SELECT id FROM refold.sessions WHERE scope = %(scope)s AND id = %(session)s"
                    if kinds is None and not run(fetch_all(alive, values)):
                        raise SessionNotFound("the session was deleted while it was read")
                    break
                start, end = (start, page[-1][1] - 1) if newest else (page[-1][1], end)


def fetch_all(statement: str, values: Mapping[str, Any]) -> Callable[[Connection], list[Row]]:
    """Return the work of reading all rows of a statement, in binary, which spares parsing on both sides."""
    return lambda connection: connection.execute(SQL(statement), values, binary=True).fetchall()


def find_path(connection: Connection, scope: str, session: str, place: Place) -> Path:
    """Find the path to a place; raises `SessionNotFound` or `StoreError` if there is none."""
    row = connection.execute(
        "SELECT id, EXISTS (SELECT FROM refold.entries AS e WHERE e.scope = %(scope)s AND e.session = s.id"
        " AND e.seq = %(seq)s AND e.line = %(line)s)"
        " FROM refold.sessions AS s WHERE scope = %(scope)s AND key = %(key)s",
        {"scope": scope, "key": name_hash(session), "line": place.line, "seq": place.seq},
    ).fetchone()
    if row is None:
        raise SessionNotFound(f"there is no session {session!r}")
    if not row[1] and place != START:
        raise StoreError(f"there is no entry at {tuple(place)} in session {session!r}")
    parents = {0: START}
    if place.line:
        rows = connection.execute(
            "SELECT line, parent_line, parent_seq FROM refold.lines WHERE scope = %s AND session = %s",
            [scope, row[0]],
        )
        parents |= {line: Place(parent_line, parent_seq) for line, parent_line, parent_seq in rows}
    try:
        return Path(scope, row[0], split_path(place, parents))
    except (KeyError, ValueError):
        raise LogCorrupt(f"the path to {tuple(place)} in session {session!r} is broken: run check") from None


def find_names(connection: Connection, scope: str, session: str, names: Sequence[str]) -> dict[str, Place]:
    """Find entries by name; of several with one name the first."""
    rows = connection.execute(
        "SELECT name, line, seq FROM refold.entries WHERE scope = %(scope)s AND session ="
        " (SELECT id FROM refold.sessions WHERE scope = %(scope)s AND key = %(key)s)"
        " AND name = ANY(%(names)s) ORDER BY seq DESC",
        {"scope": scope, "key": name_hash(session), "names": _storable(names)},
    )
    return {name: Place(line, seq) for name, line, seq in rows}


def locate_names(
    connection: Connection, scope: str, names: Sequence[str], limit: int
) -> dict[str, list[Located]]:
    """Find messages by name in all sessions of a scope, those stored last first."""
    located: dict[str, list[Located]] = {}
    for wanted in _storable(names):
        rows = connection.execute(_LOCATE, {"scope": scope, "name": wanted, "limit": limit})
        for name, line, seq in rows:
            found = Located(session=decode_damaged_text(name), place=Place(line, seq))
            located.setdefault(wanted, []).append(found)
    return located


def _storable(names: Sequence[str]) -> list[str]:
    """Return the names that can be stored: the server refuses a query with NUL or a lone surrogate."""
    return [
        name for name in names if "\0" not in name and encode_text(name) == name.encode("utf-8", "replace")
    ]
