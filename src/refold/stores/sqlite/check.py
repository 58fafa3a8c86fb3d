"""Looking through a whole SQLite store: what is wrong with it, and what can still be read."""

from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar
from zlib import crc32

from refold.core.log.entries import ROOT, Entry
from refold.errors import StoreError
from refold.stores import START, Place, Trouble
from refold.stores.sqlite.connection import Connection
from refold.stores.sqlite.driver import Raw, Row
from refold.stores.sqlite.paths import Wanted, entry_at, page, walk
from refold.stores.sqlite.rows import (
    SessionRow,
    Stored,
    entries,
    parent_of_line,
    session_row,
    sessions,
    stored,
    unpacked,
)
from refold.stores.sqlite.search import catch_up

T = TypeVar("T")
_TROUBLES: Final = 100
"""So many lines of SQLite's own findings are enough."""
_PAGE_BYTES: Final = 2_000_000
_LINE: Final = entries(
    "INDEXED BY entries_by_place WHERE session = ? AND line = ? AND seq > ? ORDER BY seq LIMIT 500"
)
_BY_ID: Final = entries("WHERE id > ? ORDER BY id LIMIT 500").replace("SELECT ", "SELECT id, ", 1)
_LAST_IDS: Final = (
    "SELECT max(id) FROM entries",
    "SELECT max(id) FROM entries INDEXED BY entries_by_place WHERE session > 0",
    "SELECT sum(last_seq) FROM sessions",
    "SELECT through FROM indexed",
)
_BEGINS: Final = (
    "SELECT session, line, parent_line, parent_seq, sum FROM lines WHERE session = ? AND line = ?"
)
_STANDS: Final = (
    "SELECT 1 FROM entries INDEXED BY entries_by_place WHERE session = ? AND line = ? AND seq = ? AND id = ?"
)
_STRANGERS: Final = (
    "SELECT DISTINCT session FROM entries INDEXED BY entries_by_place"
    " WHERE session NOT IN (SELECT id FROM sessions)"
)
_NOTES: Final = "SELECT CAST(key AS BLOB), CAST(value AS BLOB), sum FROM notes"
_WORDS: Final = "INSERT INTO words (words) VALUES ('integrity-check')"


def check(connection: Connection) -> Iterator[Trouble]:
    """What is wrong: SQLite's own findings, then branches, entries and heads, then the search index."""
    statement = f"PRAGMA integrity_check({_TROUBLES})"
    rows = yield from _tried("", lambda: connection.read(lambda raw: raw.execute(statement).fetchall()))
    for row in rows or ():
        if row != ("ok",):
            yield Trouble(session="", what=f"SQLite says: {row[0]}")
    yield from _sessions(connection)
    rows = yield from _tried("", lambda: connection.read(lambda raw: raw.execute(_STRANGERS).fetchall()))
    for (number,) in rows or ():
        yield Trouble(session="", what=f"the name and the head of session {number} are lost")
    rows = yield from _tried("", lambda: connection.read(lambda raw: raw.execute(_NOTES).fetchall()))
    for key, value, found in rows or ():
        if crc32(key + value) != found:
            yield Trouble(
                session="", what=f"the note {key.decode('utf-8', 'replace')!r} is damaged on the disk"
            )
    yield from _tried("", lambda: catch_up(connection))
    yield from _tried("", lambda: connection.write(lambda raw: raw.execute(_WORDS).close()))


def _tried(session: str, work: Callable[[], T]) -> Generator[Trouble, None, T | None]:
    """What the work gives, or trouble."""
    try:
        return work()
    except StoreError as error:
        yield Trouble(session=session, what=str(error))
        return None


def _sessions(connection: Connection) -> Iterator[Trouble]:
    ids = yield from _tried(
        "", lambda: connection.read(lambda raw: raw.execute("SELECT id FROM sessions").fetchall())
    )
    statement = sessions("WHERE id = ?")
    for values in ids or ():
        found = yield from _tried("", lambda values=values: _session_of(connection, statement, values))  # type: ignore[misc]
        if found:
            yield from _session(connection, found)


def _session_of(connection: Connection, statement: str, values: Row) -> SessionRow | None:
    rows = connection.read(lambda raw: raw.execute(statement, values).fetchall())
    return session_row(rows[0]) if rows else None


def _session(connection: Connection, session: SessionRow) -> Iterator[Trouble]:
    name = unpacked(session.key)
    count = 0
    for line in range(session.last_line + 1):
        before = yield from _tried(name, lambda line=line: _before(connection, session, line))  # type: ignore[misc]
        count += yield from _line(connection, session, line, before)
    if count != session.last_seq:
        yield Trouble(session=name, what=f"{count} of {session.last_seq} entries are there")
    if session.place == START:
        return
    head = yield from _tried(
        name, lambda: connection.read(lambda raw: entry_at(raw, session.id, session.place))
    )
    seen = (session.depth, session.head, session.said)
    if head and (head.depth, head.entry.name, head.entry.said) != seen:
        yield Trouble(session=name, what="the head is not what stands at its place", seq=session.place.seq)


class _Before(NamedTuple):
    """What stands before an entry."""

    depth: int = 0
    name: str = ROOT
    message: str = ROOT
    """Name of the last message."""

    def then(self, found: Stored) -> "_Before":
        """What stands before the next."""
        name = found.entry.name
        return _Before(found.depth, name, name if found.entry.kind == "said" else self.message)


def _before(connection: Connection, session: SessionRow, line: int) -> _Before:
    """What stands where a line begins."""
    if line == 0:
        return _Before()
    rows = connection.read(lambda raw: raw.execute(_BEGINS, (session.id, line)).fetchall())
    if not rows:
        raise StoreError(f"it is lost where line {line} begins")
    _, place = parent_of_line(rows[0])
    if place == START:
        return _Before()
    found = connection.read(lambda raw: entry_at(raw, session.id, place))
    messages = walk(connection, session.id, place, Wanted(kinds=["said"], newest=True))
    return _Before(found.depth, found.entry.name, next((message.name for message in messages), ROOT))


def _line(
    connection: Connection, session: SessionRow, line: int, before: _Before | None
) -> Generator[Trouble, None, int]:
    """Look at the entries of a line; gives how many there are."""
    name, after, count, more = unpacked(session.key), 0, 0, True
    while more:
        values = (session.id, line, after)
        found = yield from _tried(name, lambda values=values: _page(connection, values))  # type: ignore[misc]
        rows, more = found or ([], False)
        for row in rows:
            after, count = row[2], count + 1
            entry = yield from _tried(name, lambda row=row: stored(row))  # type: ignore[misc]
            if entry is None:
                before = None
                continue
            for what in _wrong(entry, before):
                yield Trouble(session=name, what=f"entry {entry.entry.name} {what}", seq=after)
            before = before.then(entry) if before else None
    return count


def _page(connection: Connection, values: Row) -> tuple[list[Row], bool]:
    return connection.read(lambda raw: page(raw, _LINE, values))


def _wrong(found: Stored, before: _Before | None) -> Iterator[str]:
    entry = found.entry
    if not found.whole:
        yield "is damaged on the disk"
    if not entry.sound:
        yield "is not what its name says"
    if before is None:  # nobody knows what stood there
        return
    if found.depth != before.depth + 1:
        yield "does not stand behind the one before it"
    if entry.parent != (before.message if entry.kind == "said" else before.name):
        yield "does not stand behind its parent"


def salvage(connection: Connection) -> Iterator[tuple[str, Place, Entry]]:
    """Everything that can still be read, in the order it was stored; steps over what cannot."""
    names: dict[int, str] = {}
    after, end = 0, _end(connection)
    while after < end:
        rows, damaged = connection.read(lambda raw, after=after: _some(connection, raw, after))  # type: ignore[misc]
        for row in rows:
            after = row[0]
            found = _readable(row[1:])
            if found and (found.whole or _stands(connection, found, after)):
                if found.session not in names:
                    names[found.session] = _name(connection, found.session)
                yield names[found.session], found.place, found.entry
        if damaged:
            after += 1
        elif not rows:
            return


def _some(connection: Connection, raw: Raw, after: int) -> tuple[list[Row], bool]:
    """The next rows, up to the first that cannot be read, and whether there was one."""
    rows: list[Row] = []
    size = 0
    try:
        cursor = raw.execute(_BY_ID, (after,))
        for row in cursor:
            rows.append(row)
            size += len(str(row[-1])) + len(str(row[-2]))
            if size > _PAGE_BYTES:
                break
        cursor.close()
    except connection.driver.errors:
        return rows, True
    return rows, False


def _stands(connection: Connection, found: Stored, number: int) -> bool:
    """Whether an index knows an entry at its place, whose row alone is not to be trusted."""
    values = (found.session, *found.place, number)
    try:
        return connection.read(lambda raw: raw.execute(_STANDS, values).fetchall()) == [(1,)]
    except StoreError:
        return False


def _readable(row: Row) -> Stored | None:
    """An entry whose row is whole, or at least what its name says."""
    try:
        found = stored(row)
    except StoreError:
        return None
    return found if found.whole or found.entry.sound else None


def _end(connection: Connection) -> int:
    """A number that no entry's is above, as far as the tables still tell."""
    ends = [0]
    for statement in _LAST_IDS:
        with suppress(StoreError):
            ends += _numbers(connection, statement)
    return max(ends)


def _numbers(connection: Connection, statement: str) -> list[int]:
    rows = connection.read(lambda raw: raw.execute(statement).fetchall())
    return [number for (number,) in rows if isinstance(number, int)]


def _name(connection: Connection, session: int) -> str:
    """A session's name, or one that says that it is lost."""
    try:
        found = _session_of(connection, sessions("WHERE id = ?"), (session,))
    except StoreError:
        found = None
    return unpacked(found.key) if found else f"session {session}, whose name is lost"
