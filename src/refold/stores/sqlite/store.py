"""The default store: one SQLite file, several threads and processes at once.

Entries, heads and branches are plain tables. The words of new entries are indexed a little later, and always
before a search. Every read verifies the checksums of its rows.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from zlib import crc32

from refold.core.log.entries import Entry, Kind
from refold.errors import LogCorrupt, SessionNotFound, StoreBusy, StoreError, warn_caller
from refold.stores import (
    DEFAULT_SCOPE,
    START,
    Branch,
    Defect,
    Durability,
    Head,
    Lease,
    Located,
    Place,
    SearchHit,
    SessionInfo,
    check_scope,
    name_notes,
    refuse_missing_folder,
    refuse_options,
)
from refold.stores.paths import require_head
from refold.stores.sqlite import check, leases, paths, search
from refold.stores.sqlite import rows as sqlite_rows
from refold.stores.sqlite.connection import Connection, in_snapshot
from refold.stores.sqlite.driver import RawConnection, Row, choose_driver
from refold.stores.sqlite.files import default_path
from refold.stores.sqlite.rows import COLUMNS, SESSION_COLUMNS, SessionRow
from refold.stores.text import decode_text, encode_text, name_hash
from refold.stores.word_index import rank_with_newest

_INDEX_EVERY: Final = 256
"""Entries whose words are indexed at once, which costs half of indexing each append."""
_SHORT_BYTES: Final = 200_000
"""A write of this size takes a few milliseconds, for which an event loop may stand still."""
_WRITTEN: Final = 4_096
"""Sessions whose rows are remembered; a row takes 1 kB."""
_PLACEHOLDERS: Final = ", ".join("?" * 13)
_NAMES: Final = 500
"""Names that are looked up before other threads get their turn."""
_ADD: Final = f"INSERT INTO entries ({COLUMNS}) VALUES ({_PLACEHOLDERS})"  # noqa: S608  # constants only
_NEW: Final = f"INSERT INTO sessions ({SESSION_COLUMNS}, turn) VALUES ({_PLACEHOLDERS}, 0)"  # noqa: S608  # constants only
_MOVE: Final = (
    "UPDATE sessions SET line = ?3, seq = ?4, depth = ?5, head = ?6, said = ?7, version = ?8, last_seq = ?9,"
    " last_line = ?10, created = ?11, changed = ?12, sum = ?13"
)
# `turn` orders the sessions by their last change without a clock: the id of the last entry, shifted so that
# moves of a head without an entry fit in between.
_APPENDED: Final = f"{_MOVE}, turn = last_insert_rowid() << 20 WHERE id = ?1 AND name = ?2"
_NEXT_TURN: Final = (
    "1 + max((SELECT max(turn) FROM sessions), (SELECT ifnull(max(id), 0) FROM entries) << 20)"
)
_MOVED: Final = f"{_MOVE}, turn = {_NEXT_TURN} WHERE id = ?1 AND name = ?2"
_NEXT_SESSION: Final = (
    "SELECT 1 + max(ifnull((SELECT max(id) FROM sessions), 0), ifnull((SELECT max(session) FROM lines), 0))"
)
_DELETE: Final = (
    "DELETE FROM entries WHERE session = ?",
    "DELETE FROM lines WHERE session = ?",
    "DELETE FROM sessions WHERE id = ?",
    "DELETE FROM indexed_texts WHERE session = ?",
    "INSERT INTO lines VALUES (?, -1, 0, 0, 0)",  # no line: with it nobody gets the number again
)
_SIZE: Final = (
    "SELECT ifnull(sum(length(CAST(body AS BLOB)) + length(CAST(text AS BLOB))), 0) FROM entries"
    " WHERE session = ?"
)
_SESSION: Final = sqlite_rows.select_sessions("WHERE name = ?")
_LINES: Final = "SELECT session, line, parent_line, parent_seq, sum FROM lines WHERE session = ?"
_LAST_OF_LINE: Final = "SELECT max(seq) FROM entries WHERE session = ? AND line = ?"
_ENDS: Final = (  # of all lines in one step; line 0 has no row
    "SELECT way.line, (SELECT max(seq) FROM entries WHERE session = ?1 AND line = way.line)"
    " FROM (SELECT 0 AS line UNION ALL SELECT line FROM lines WHERE session = ?1) AS way"
)
# The index leaves messages out; SQLite uses it only for a query that repeats its condition.
_MARKS: Final = sqlite_rows.select_entries(
    "INDEXED BY marks WHERE session = ? AND kind = ? AND kind <> 'said' ORDER BY seq"
)
_FIND: Final = (  # two indexes have to agree, because either may be damaged
    "SELECT a.line, a.seq, a.id = b.id FROM entries a INDEXED BY entries_by_name"
    " LEFT JOIN entries b INDEXED BY entries_by_place"
    " ON b.session = a.session AND b.line = a.line AND b.seq = a.seq"
    " WHERE a.session = ? AND a.name = ? ORDER BY a.id LIMIT 1"
)
_LOCATE: Final = (
    "SELECT session, min(id) AS first FROM entries WHERE name = ? AND kind = 'said'"
    " GROUP BY session ORDER BY first DESC LIMIT ?"
)
_NAME_OF_SESSION: Final = sqlite_rows.select_sessions("WHERE id = ?")


def open_store(
    rest: str = "",
    *,
    durability: Durability = "normal",
    busy_seconds: float | str = 5.0,
    now: Callable[[], float] = time.time,
    driver: str | None = None,
    scope: str = DEFAULT_SCOPE,
    **options: Any,
) -> "SQLiteStore":
    """Open the store in a file; creates the file if there is none.

    rest           the file; "" for the one in the user's data folder
    busy_seconds   how long to wait for other processes
    driver         apsw or sqlite3; the best that is installed by default
    scope          tenant, who has a file of its own in a folder beside the file
    """
    refuse_options("sqlite", options)
    try:
        seconds = float(busy_seconds)
    except ValueError:
        raise StoreError(f"busy_seconds is a number of seconds, not {busy_seconds!r}") from None
    path = _find_file(rest) if rest else default_path()
    address = f"sqlite:{path}"
    if check_scope(scope) != DEFAULT_SCOPE:
        address = f"{address}?scope={quote(scope)}"
        path = path.with_name(f"{path.name}.scopes") / f"{name_hash(scope).hex()}.db"
    library = choose_driver(driver)
    connection = Connection(str(path), driver=library, durability=durability, busy_seconds=seconds)
    return SQLiteStore(connection, now, address)


def _find_file(name: str) -> Path:
    """Return the path of a file; only the default folder is created, because others may be mistyped."""
    path = Path(name).expanduser().absolute()
    refuse_missing_folder(path.parent)
    return path


class SQLiteStore:
    """Sessions in one file."""

    def __init__(self, connection: Connection, now: Callable[[], float], address: str) -> None:
        self.address = address
        self._connection = connection
        self._now = now
        self._unindexed = 0
        self._written: dict[bytes, Row] = {}
        """The rows of sessions as they were written last, by name: they need not be verified again."""

    # -- the log -----------------------------------------------------------------------------------------

    def sessions(self) -> list[SessionInfo]:
        """List all sessions, most recently changed first."""
        rows = self._connection.fetch(sqlite_rows.select_sessions("ORDER BY turn DESC"))
        return [sqlite_rows.parse_session_row(row).as_info() for row in rows]

    def head(self, session: str) -> Head | None:
        """Return the head of a session, or None if there is no such session."""
        row = self._read_session(session)
        return row.as_head() if row else None

    def _read_session(self, session: str) -> SessionRow | None:
        return self._connection.read(lambda raw: _read_session(raw, encode_text(session)))

    def append(
        self,
        session: str,
        entries: Sequence[Entry],
        *,
        expect: Head | None,
        at: Place | None = None,
        fence: int | None = None,
    ) -> Head:
        """Add entries behind a place and move the head behind them, all or nothing; durable on return."""
        add = self._plan_append(session, entries, expect, at, fence)
        head = self._connection.write(add, size=_size(entries))
        self._unindexed += len(entries)
        if self._unindexed >= _INDEX_EVERY:
            self._index()
        return head

    def append_at_once(
        self,
        session: str,
        entries: Sequence[Entry],
        *,
        expect: Head | None,
        at: Place | None = None,
        fence: int | None = None,
    ) -> Head | None:
        """Do the same if it waits for nobody: no sync, no other writer, no words to index; else None."""
        size, is_other = _size(entries), type(self) is not SQLiteStore  # which may append in its own way
        if is_other or self._unindexed + len(entries) >= _INDEX_EVERY or size >= _SHORT_BYTES:
            return None
        add = self._plan_append(session, entries, expect, at, fence)
        head = self._connection.write_at_once(add, size=size)
        if head is not None:
            self._unindexed += len(entries)
        return head

    def _plan_append(
        self, session: str, entries: Sequence[Entry], expect: Head | None, at: Place | None, fence: int | None
    ) -> Callable[[RawConnection], Head]:
        """Return what an append does in its transaction."""
        key, now = encode_text(session), float(self._now())

        def add(raw: RawConnection) -> Head:
            if fence is not None:
                leases.check_fence(raw, key, fence)
            row = _read_session(raw, key, self._written.get(key))
            if row is None or expect is None or (row.version, row.head) != (expect.version, expect.name):
                require_head(expect, row.as_head() if row else None)
            if row is None:
                [(number,)] = raw.execute(_NEXT_SESSION).fetchall()
                row = SessionRow(number, key, created=now)
                raw.execute(_NEW, (*row, sqlite_rows.checksum(row)))
            head, moved = _append(raw, row, entries, None if at is None else Place(*at), now)
            if len(self._written) >= _WRITTEN:
                self._written.clear()
            self._written[key] = moved
            return head

        return add

    def _index(self) -> None:
        """Index new entries; an error here is ignored, because the next search meets and reports it."""
        self._unindexed = 0
        with suppress(StoreError):
            search.index_new_entries(self._connection)

    def read(
        self,
        session: str,
        place: Place,
        *,
        kinds: Collection[Kind] | None = None,
        first: int = 0,
        last: int | None = None,
        newest: bool = False,
    ) -> Iterator[Entry]:
        """Iterate over the entries on the path to a place; holds no lock between pages."""
        row = self._read_session(session)
        if row is None:
            raise SessionNotFound(f"there is no session {session!r}")
        wanted = paths.PathFilter(kinds=kinds, first=first, last=last, newest=newest)
        return paths.read_path(self._connection, row.id, Place(*place), wanted)

    def find(self, session: str, names: Sequence[str]) -> dict[str, Place]:
        """Find entries by name on all branches; names that do not exist are left out."""
        row = self._read_session(session)
        places: dict[str, Place] = {}
        if row is not None:
            for start in range(0, len(names), _NAMES):
                batch = names[start : start + _NAMES]
                places |= self._connection.read(partial(_find_names, session=row.id, names=batch))
        return places

    def find_marks(self, session: str, kind: Kind) -> list[tuple[Place, Entry]]:
        """Find the entries of a kind on all branches, in the order they were stored."""
        row = self._read_session(session)
        rows = [] if row is None else self._connection.fetch(_MARKS, (row.id, kind))
        return [(found.place, found.entry) for found in map(sqlite_rows.parse_intact_row, rows)]

    def branches(self, session: str) -> list[Branch]:
        """List the lines of a session in the order in which they began."""
        row = self._read_session(session)
        if row is None or row.last_line < 0:
            return []
        begins = {0: START} | dict(map(sqlite_rows.parse_line_row, self._connection.fetch(_LINES, (row.id,))))
        ends: dict[int, int] = dict(self._connection.fetch(_ENDS, (row.id,)))
        return [
            Branch(begins=place, ends=Place(line, ends[line]))
            for line, place in sorted(begins.items())
            if ends[line]
        ]

    def locate(self, names: Sequence[str], *, limit: int = 8) -> dict[str, list[Located]]:
        """Find messages by name in all sessions, by the index that finds them in one."""
        located: dict[str, list[Located]] = {}
        for start in range(0, len(names), _NAMES):
            batch = names[start : start + _NAMES]
            find = partial(_locate_names, names=batch, limit=limit)
            located |= self._connection.read(in_snapshot(find))
        return located

    def delete(self, *sessions: str) -> dict[str, int]:
        """Remove sessions with everything that belongs to them, and overwrite where they stood."""
        sizes: dict[str, int] = {}
        try:
            for session in dict.fromkeys(sessions):
                key = encode_text(session)
                # before the transaction: to split a long session into its words takes seconds
                packed = search.pack_texts(self._connection.fetch(search.TEXTS_OF_SESSION, (key,)))
                size = self._connection.write(partial(_delete, session=session, packed=packed))
                if size is not None:
                    sizes[session] = size
        finally:
            if sizes:
                self._overwrite_deleted()
        return sizes

    def _overwrite_deleted(self) -> None:
        """Write the index and the log anew; the sessions are gone, so that others who write are no error."""
        try:
            search.merge_index(self._connection)
            self._connection.empty_log()
        except StoreBusy:
            left = "words of deleted sessions stay in the search index until the next deletion"
            warn_caller(f"{self.address} is busy: {left}")

    # -- search, notes, leases ---------------------------------------------------------------------------

    def search(
        self, query: str, *, session: str | None = None, limit: int = 10, some: bool = False
    ) -> list[SearchHit]:
        """Return the best hits on all branches, best first."""
        key = None if session is None else encode_text(session)
        newest: list[SearchHit] = []
        try:
            search.index_new_entries(self._connection)
            self._unindexed = 0
        except StoreError as error:
            if not self._connection.can_read_after(error):
                raise
            newest = self._connection.read(lambda raw: search.read_unindexed(raw, key, query))
        find = partial(search.search, query=query, session=key, limit=limit, some=some)
        hits = self._connection.read(in_snapshot(find))
        return rank_with_newest(query, newest, hits, limit=limit, some=some)

    def note(self, key: str) -> str | None:
        """Return the value that was noted last for a key, or None."""
        rows = self._connection.fetch("SELECT value, sum FROM notes WHERE key = ?", (encode_text(key),))
        for value, checksum in rows:
            if crc32(encode_text(key) + value) != checksum:
                raise LogCorrupt(f"the note {key!r} is damaged on the disk: note it again")
            return decode_text(value)
        return None

    def put_note(self, key: str, value: str) -> None:
        """Set the value of a key; durable on return."""
        row = (encode_text(key), encode_text(value), crc32(encode_text(key) + encode_text(value)))
        self._connection.write(lambda raw: raw.execute("REPLACE INTO notes VALUES (?, ?, ?)", row).close())

    def notes(self, start: str) -> dict[str, str]:
        """Return the notes whose keys start so; one that is damaged is left out."""
        first = encode_text(start)
        rows = self._connection.fetch("SELECT key, value, sum FROM notes WHERE key >= ?", (first,))
        return {
            decode_text(key): decode_text(value)
            for key, value, checksum in rows
            if key.startswith(first) and crc32(key + value) == checksum
        }

    def claim(self, session: str, *, holder: str, seconds: float) -> Lease | None:
        """Lease a session, or renew the lease of the same holder; None while another holder has it."""
        now = self._now()
        return self._connection.write(lambda raw: leases.claim(raw, session, holder, now, seconds))

    def release(self, lease: Lease) -> None:
        """End a lease; does nothing if the session has a newer lease."""
        self._connection.write(lambda raw: leases.release(raw, lease))

    def offer(self, session: str) -> None:
        """Add a session to the queue of those that need work, unless it is in there."""
        self._connection.write(lambda raw: leases.offer(raw, session))

    def take(self, *, holder: str, seconds: float) -> Lease | None:
        """Remove the oldest session from the queue and lease it."""
        now = self._now()
        return self._connection.write(lambda raw: leases.take(raw, holder, now, seconds))

    # -- the whole store ---------------------------------------------------------------------------------

    def check(self) -> Iterator[Defect]:
        """Examine everything that is stored and yield each defect."""
        self._connection.refuse_closed()
        return check.check(self._connection)

    def salvage(self) -> Iterator[tuple[str, Place, Entry]]:
        """Yield every readable entry with its session and place, in the order it was stored."""
        self._connection.refuse_closed()
        return check.salvage(self._connection)

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._unindexed:
            self._index()
        self._connection.close()


def _size(entries: Sequence[Entry]) -> int:
    """Return about how many bytes entries take."""
    size = 0
    for entry in entries:
        size += len(entry.body) + len(entry.text)
    return 2 * size


def _read_session(raw: RawConnection, key: bytes, written: Row | None = None) -> SessionRow | None:
    """Read the row of a session, and verify it unless it is as it was written."""
    for row in raw.execute(_SESSION, (key,)).fetchall():
        return sqlite_rows.parse_session_row(row, written)
    return None


def _append(
    raw: RawConnection, session: SessionRow, entries: Sequence[Entry], at: Place | None, now: float
) -> tuple[Head, Row]:
    """Write the entries and the new head of a session; return the head and the row of the session."""
    place = session.place
    if at is None or at == place:
        at, depth, head, said = place, session.depth, session.head, session.said
    elif at == START:
        depth, head, said = 0, "", 0
    else:
        parent = paths.read_entry_at(raw, session.id, at)
        depth, head, said = parent.depth, parent.entry.name, parent.entry.said
    last_seq, last_line = session.last_seq, session.last_line
    if entries:
        line = _choose_line(raw, session, at)
        rows = [
            sqlite_rows.entry_row(session.id, line, last_seq + n, depth + n, entry)
            for n, entry in enumerate(entries, 1)
        ]
        raw.executemany(_ADD, rows)
        last_seq += len(entries)
        depth += len(entries)
        at, last_line = Place(line, last_seq), max(line, last_line)
        head, said = entries[-1].name, entries[-1].said
    version = session.version + 1
    bound = head if head.isascii() else sqlite_rows.bind_text(head)
    # in the order of `SESSION_COLUMNS`; `_replace` takes three times as long
    moved = (
        *(session.id, session.key, at.line, at.seq, depth, bound, said, version),
        *(last_seq, last_line, session.created, now),
    )
    row = (*moved, sqlite_rows.checksum(moved))
    raw.execute(_APPENDED if entries else _MOVED, row)
    return Head(place=at, name=head, said=said, version=version), row


def _delete(raw: RawConnection, session: str, packed: search.Packed) -> int | None:
    """Remove a session and return its bytes; None if there is none."""
    key = encode_text(session)
    raw.execute("DELETE FROM leases WHERE session = ?", (key,)).close()
    raw.executemany("DELETE FROM notes WHERE key = ?", [(encode_text(note),) for note in name_notes(session)])
    rows = raw.execute("SELECT id FROM sessions WHERE name = ?", (key,)).fetchall()
    if not rows:
        return None
    [(size,)] = raw.execute(_SIZE, rows[0]).fetchall()
    search.remove_texts(raw, key, packed)
    for statement in _DELETE:
        raw.execute(statement, rows[0]).close()
    [(last,)] = raw.execute("SELECT ifnull(max(id), 0) FROM entries").fetchall()
    raw.execute("UPDATE indexed_stems SET through = min(through, ?)", (last,)).close()
    # The numbers of the last entries are given again: what was moved behind them stays before what comes.
    late = raw.execute("SELECT id FROM sessions WHERE turn > ? ORDER BY turn", (last << 20,)).fetchall()
    turns = [((last << 20) + at, number) for at, (number,) in enumerate(late, 1)]
    raw.executemany("UPDATE sessions SET turn = ? WHERE id = ?", turns)
    return int(size)


def _choose_line(raw: RawConnection, session: SessionRow, at: Place) -> int:
    """Return the line for an append behind a place: its own if the place is last there, else a new one."""
    if at.seq == session.last_seq and session.last_line >= 0:
        return at.line
    [(last,)] = raw.execute(_LAST_OF_LINE, (session.id, at.line)).fetchall()
    if last == at.seq:
        return at.line
    line = session.last_line + 1
    if line:  # line 0 begins at the start and has no row
        row = sqlite_rows.line_row(session.id, line, at)
        raw.execute("INSERT INTO lines VALUES (?, ?, ?, ?, ?)", row)
    return line


def _find_names(raw: RawConnection, session: int, names: Sequence[str]) -> dict[str, Place]:
    places: dict[str, Place] = {}
    for name in names:
        for line, seq, agree in raw.execute(_FIND, (session, sqlite_rows.bind_text(name))).fetchall():
            if not agree:
                raise LogCorrupt(f"entry {name} is damaged on the disk: salvage what can be read", entry=name)
            places[name] = Place(line, seq)
    return places


def _locate_names(raw: RawConnection, names: Sequence[str], limit: int) -> dict[str, list[Located]]:
    located: dict[str, list[Located]] = {}
    for name in names:
        bound = sqlite_rows.bind_text(name)
        for session, _ in raw.execute(_LOCATE, (bound, limit)).fetchall():
            [row] = raw.execute(_NAME_OF_SESSION, (session,)).fetchall()
            found = _find_names(raw, session, [name])
            owner = sqlite_rows.parse_session_row(row).as_info().name
            located.setdefault(name, []).append(Located(session=owner, place=found[name]))
    return located
