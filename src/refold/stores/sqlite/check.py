"""Examine a whole SQLite store: find its defects, and read what can still be read."""

from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Final, NamedTuple, TypeVar
from zlib import crc32

from refold.core.log.entries import ROOT, Entry
from refold.errors import StoreError
from refold.stores import START, Defect, Place
from refold.stores.sqlite.connection import Connection
from refold.stores.sqlite.driver import RawConnection, Row
from refold.stores.sqlite.pages import RescuedRows
from refold.stores.sqlite.paths import PathFilter, read_entry_at, read_page, read_path
from refold.stores.sqlite.rows import (
    SessionRow,
    StoredEntry,
    parse_entry_row,
    parse_line_row,
    parse_session_row,
    select_entries,
    select_sessions,
)
from refold.stores.sqlite.search import index_new_entries
from refold.stores.text import decode_text

T = TypeVar("T")
_MOST_FINDINGS: Final = 100
"""Lines after which SQLite stops its own check: a file with more is replaced, not repaired by hand."""
# Pages as in `paths`: a check shares the connection with other threads, which must get their turn.
_PAGE_BYTES: Final = 2_000_000
_LINE: Final = select_entries(
    "INDEXED BY entries_by_place WHERE session = ? AND line = ? AND seq > ? ORDER BY seq LIMIT 500"
)
_BY_ID: Final = select_entries("WHERE id > ? ORDER BY id LIMIT 500").replace("SELECT ", "SELECT id, ", 1)
_LAST_IDS: Final = (
    "SELECT max(id) FROM entries",
    "SELECT max(id) FROM entries INDEXED BY entries_by_place WHERE session > 0",
    "SELECT sum(last_seq) FROM sessions",
    "SELECT through FROM indexed_stems",
)
"""Ways to learn the highest id: one of them may still work when a page of another is damaged."""
_BEGINS: Final = (
    "SELECT session, line, parent_line, parent_seq, sum FROM lines WHERE session = ? AND line = ?"
)
_IN_INDEX: Final = (
    "SELECT 1 FROM entries INDEXED BY entries_by_place WHERE session = ? AND line = ? AND seq = ? AND id = ?"
)
_WITHOUT_SESSION: Final = (
    "SELECT DISTINCT session FROM entries INDEXED BY entries_by_place"
    " WHERE session NOT IN (SELECT id FROM sessions)"
)
_NOTES: Final = "SELECT CAST(key AS BLOB), CAST(value AS BLOB), sum FROM notes"
_CHECK_WORDS: Final = "INSERT INTO stems (stems) VALUES ('integrity-check')"


def check(connection: Connection) -> Iterator[Defect]:
    """Yield SQLite's own findings, then defects of branches, entries and heads, then of the search index."""
    if (yield from _attempt("", lambda: connection.read(lambda raw: raw))) is None:
        return  # SQLite cannot open the file at all
    for row in (yield from _query(connection, f"PRAGMA integrity_check({_MOST_FINDINGS})")):
        if row != ("ok",):
            yield Defect(session="", what=f"SQLite says: {row[0]}")
    for (number,) in (yield from _query(connection, "SELECT id FROM sessions")):
        session = yield from _attempt("", partial(_read_session, connection, number))
        if session:
            yield from _check_session(connection, session)
    for (number,) in (yield from _query(connection, _WITHOUT_SESSION)):
        yield Defect(session="", what=f"the name and the head of session {number} are lost")
    for key, value, checksum in (yield from _query(connection, _NOTES)):
        if crc32(key + value) != checksum:
            name = key.decode("utf-8", "replace")
            yield Defect(session="", what=f"the note {name!r} is damaged on the disk")
    if not connection.read_only:  # the index checks itself as if it were written
        yield from _attempt("", partial(index_new_entries, connection))
        yield from _attempt("", lambda: connection.write(lambda raw: raw.execute(_CHECK_WORDS).close()))


def _attempt(session: str, work: Callable[[], T]) -> Generator[Defect, None, T | None]:
    """Return the result of the work, or yield its error as a defect."""
    try:
        return work()
    except StoreError as error:
        yield Defect(session=session, what=str(error))
        return None


def _query(connection: Connection, statement: str) -> Generator[Defect, None, list[Row]]:
    rows = yield from _attempt("", partial(connection.fetch, statement))
    return rows or []


def _read_session(connection: Connection, number: int) -> SessionRow | None:
    rows = connection.fetch(select_sessions("WHERE id = ?"), (number,))
    return parse_session_row(rows[0]) if rows else None


class _Before(NamedTuple):
    """The entry before another one on its path: its depth, its name, and the last message."""

    depth: int = 0
    name: str = ROOT
    message: str = ROOT
    """Name of the last message."""


def _check_session(connection: Connection, session: SessionRow) -> Iterator[Defect]:
    name = decode_text(session.key)
    count = 0
    for line in range(session.last_line + 1):
        before = yield from _attempt(name, partial(_read_before_line, connection, session, line))
        count += yield from _check_line(connection, session, line, before)
    if count != session.last_seq:
        yield Defect(session=name, what=f"{count} of {session.last_seq} entries exist")
    if session.place == START:
        return
    head = yield from _attempt(
        name, partial(connection.read, partial(read_entry_at, session=session.id, place=session.place))
    )
    stored = (session.depth, session.head, session.said)
    if head and (head.depth, head.entry.name, head.entry.said) != stored:
        yield Defect(
            session=name, what="the head does not match the entry at its place", seq=session.place.seq
        )


def _read_before_line(connection: Connection, session: SessionRow, line: int) -> _Before:
    """Read what stands before the first entry of a line."""
    if line == 0:
        return _Before()
    rows = connection.fetch(_BEGINS, (session.id, line))
    if not rows:
        raise StoreError(f"the beginning of line {line} is lost")
    _, place = parse_line_row(rows[0])
    if place == START:
        return _Before()
    parent = connection.read(lambda raw: read_entry_at(raw, session.id, place))
    messages = read_path(connection, session.id, place, PathFilter(kinds=["said"], newest=True))
    return _Before(parent.depth, parent.entry.name, next((message.name for message in messages), ROOT))


def _check_line(
    connection: Connection, session: SessionRow, line: int, before: _Before | None
) -> Generator[Defect, None, int]:
    """Yield the defects of the entries of a line; returns how many entries there are."""
    name, after, count, more = decode_text(session.key), 0, 0, True
    while more:
        read = partial(read_page, statement=_LINE, values=(session.id, line, after))
        page = yield from _attempt(name, partial(connection.read, read))
        rows, more = page or ([], False)
        for row in rows:
            after, count = row[2], count + 1
            stored = yield from _attempt(name, partial(parse_entry_row, row))
            if stored is None:
                before = None
                continue
            entry = stored.entry
            for what in _compare(stored, before):
                yield Defect(session=name, what=f"entry {entry.name} {what}", seq=after)
            if before:
                message = entry.name if entry.kind == "said" else before.message
                before = _Before(stored.depth, entry.name, message)
    return count


def _compare(stored: StoredEntry, before: _Before | None) -> Iterator[str]:
    """Describe what is wrong with an entry behind the one before it; None for an unknown one."""
    entry = stored.entry
    if not stored.intact:
        yield "is damaged on the disk"
    if not entry.sound:
        yield "does not match its name"
    if before is None:
        return
    if stored.depth != before.depth + 1:
        yield "does not follow the one before it"
    if entry.parent != (before.message if entry.kind == "said" else before.name):
        yield "does not follow its parent"


def salvage(connection: Connection) -> Iterator[tuple[str, Place, Entry]]:
    """Yield everything that can still be read, in the order it was stored; steps over damaged rows."""
    names: dict[int, str] = {}
    rescue = _Rescue(connection)
    for stored in _read_all(connection, rescue):
        if stored.session not in names:
            names[stored.session] = rescue.name_session(stored.session)
        yield names[stored.session], stored.place, stored.entry


class _Rescue:
    """Reads from the pages of the file what SQLite cannot read; they are searched at the first damage."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @cached_property
    def rows(self) -> RescuedRows:
        return RescuedRows(self._connection.path)

    def name_session(self, number: int) -> str:
        """Return the name of a session, or a text in its place."""
        session = None
        with suppress(StoreError):
            session = _read_session(self._connection, number)
        session = session or self.rows.session(number)
        return decode_text(session.key) if session else f"session {number}, whose name is lost"

    def entry(self, number: int) -> StoredEntry | None:
        """Return the entry with this id, or None if it is lost."""
        row = self.rows.entry(number)
        return None if row is None else parse_entry_row(row)


def _read_all(connection: Connection, rescue: _Rescue) -> Iterator[StoredEntry]:
    """Yield every entry that can be trusted, by id."""
    ends = [0]
    with suppress(StoreError):
        connection.require_open()
    for statement in _LAST_IDS:
        with suppress(StoreError):
            ends += [end for (end,) in connection.fetch(statement) if isinstance(end, int)]
    after, end = 0, max(ends)
    if not connection.is_open or len(ends) <= len(_LAST_IDS):  # one of the ways failed
        end = max(end, rescue.rows.last_id)
    while after < end:
        rows, damaged = _read_until_damage(connection, after)
        for row in rows:
            after = row[0]
            if (stored := _trusted_entry(connection, row) or rescue.entry(after)) is not None:
                yield stored
        if damaged:
            after += 1
            if (stored := rescue.entry(after)) is not None:
                yield stored
        elif not rows:
            return


def _read_until_damage(connection: Connection, after: int) -> tuple[list[Row], bool]:
    """Read the next rows, up to the first unreadable one; also returns True if there was one."""
    if not connection.is_open:
        return [], True
    return connection.read(partial(_read_rows, connection, after=after))


def _read_rows(connection: Connection, raw: RawConnection, after: int) -> tuple[list[Row], bool]:
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


def _trusted_entry(connection: Connection, row: Row) -> StoredEntry | None:
    """Return the entry of a row with its id if its checksum is right, or at least its name and its index."""
    try:
        stored = parse_entry_row(row[1:])
        if stored.intact:
            return stored
        # The content is right, the place may not be: an index has to agree with it.
        place = (stored.session, *stored.place, row[0])
        if not stored.entry.sound or connection.fetch(_IN_INDEX, place) != [(1,)]:
            return None
        # The name does not cover the text for the search: it is made again of the message.
        from refold.core.messages.message_text import full_text  # wire formats take time to load
        from refold.stores.reading.stored_messages import parse_entry

        text = full_text(parse_entry(stored.entry)) if stored.entry.kind == "said" else ""
        return replace(stored, entry=replace(stored.entry, text=text))
    except StoreError:
        return None
