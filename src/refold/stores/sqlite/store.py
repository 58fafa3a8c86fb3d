"""The default store: one SQLite file, several threads and processes at once.

Entries, heads and their branches are plain tables; the words of a search are indexed a little later than the
entries are stored, and always before a search looks. Every read is checked against the checksum of its rows.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from refold.core.log.entries import Entry, Kind
from refold.errors import LogCorrupt, SessionNotFound, StoreError
from refold.stores import START, Durability, Found, Head, Info, Lease, Place, Trouble
from refold.stores.addresses import no_more
from refold.stores.lines import same_head
from refold.stores.sqlite import check, leases, paths, search
from refold.stores.sqlite import rows as sqlite_rows
from refold.stores.sqlite.connection import Connection
from refold.stores.sqlite.driver import Raw
from refold.stores.sqlite.driver import driver as driver_of
from refold.stores.sqlite.files import default_path
from refold.stores.sqlite.rows import COLUMNS, SESSION_COLUMNS, SessionRow, packed, unpacked

_INDEX_EVERY: Final = 256
"""The words of so many entries are indexed at once, which costs half of doing it often."""
_MARKS: Final = ", ".join("?" * 13)
_NAMES: Final = 500
"""So many names are looked up before other threads get their turn."""
_ADD: Final = f"INSERT INTO entries ({COLUMNS}) VALUES ({_MARKS})"  # noqa: S608  # our own words only
_NEW: Final = f"INSERT INTO sessions ({SESSION_COLUMNS}, turn) VALUES ({_MARKS}, 0)"  # noqa: S608  # the same
_MOVE: Final = (
    "UPDATE sessions SET line = ?3, seq = ?4, depth = ?5, head = ?6, said = ?7, version = ?8, last_seq = ?9,"
    " last_line = ?10, created = ?11, changed = ?12, sum = ?13"
)
# Entries get growing numbers, which order the sessions; a move without an entry counts in between.
_APPENDED: Final = f"{_MOVE}, turn = last_insert_rowid() << 20 WHERE id = ?1 AND name = ?2"
_NEXT_TURN: Final = (
    "1 + max((SELECT max(turn) FROM sessions), (SELECT ifnull(max(id), 0) FROM entries) << 20)"
)
_MOVED: Final = f"{_MOVE}, turn = {_NEXT_TURN} WHERE id = ?1 AND name = ?2"
_SESSION: Final = sqlite_rows.sessions("WHERE name = ?")
_LAST_OF_LINE: Final = "SELECT max(seq) FROM entries WHERE session = ? AND line = ?"
_FIND: Final = (  # two indexes have to agree
    "SELECT a.line, a.seq, a.id = b.id FROM entries a INDEXED BY entries_by_name"
    " LEFT JOIN entries b INDEXED BY entries_by_place"
    " ON b.session = a.session AND b.line = a.line AND b.seq = a.seq"
    " WHERE a.session = ? AND a.name = ? ORDER BY a.id LIMIT 1"
)


def open_store(
    rest: str = "",
    *,
    durability: Durability = "normal",
    busy_seconds: float | str = 5.0,
    now: Callable[[], float] = time.time,
    driver: str | None = None,
    **options: Any,
) -> "SQLiteStore":
    """Open the store in a file, which is made where there is none.

    rest           the file; "" for the one in the user's data folder
    busy_seconds   how long to wait for other processes
    driver         apsw or sqlite3; the best there is by default
    """
    no_more("sqlite", options)
    try:
        seconds = float(busy_seconds)
    except ValueError:
        raise StoreError(f"busy_seconds is a number of seconds, not {busy_seconds!r}") from None
    path = str(Path(rest).expanduser().absolute() if rest else default_path())
    chosen = driver_of(driver)
    return SQLiteStore(Connection(path, driver=chosen, durability=durability, busy_seconds=seconds), now)


class SQLiteStore:
    """Sessions in one file."""

    def __init__(self, connection: Connection, now: Callable[[], float]) -> None:
        self._connection = connection
        self._now = now
        self._unindexed = 0

    @property
    def address(self) -> str:
        """How it was opened."""
        return f"sqlite:{self._connection.path}"

    # -- the log -----------------------------------------------------------------------------------------

    def sessions(self) -> list[Info]:
        """All sessions, the one that changed last first."""
        statement = sqlite_rows.sessions("ORDER BY turn DESC")
        rows = self._connection.read(lambda raw: raw.execute(statement).fetchall())
        return [sqlite_rows.session_row(row).as_info() for row in rows]

    def head(self, session: str) -> Head | None:
        """Where a session is; None where there is none of this name."""
        found = self._connection.read(lambda raw: _session(raw, packed(session)))
        return found.as_head() if found else None

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
        key, now = packed(session), float(self._now())

        def add(raw: Raw) -> Head:
            leases.check(raw, key, fence)
            found = _session(raw, key)
            same_head(expect, found.as_head() if found else None)
            if found is None:
                found = _new_session(raw, key, now)
            return _append(raw, found, entries, found.place if at is None else Place(*at), now)

        size = 2 * sum(len(entry.body) + len(entry.text) for entry in entries)
        head = self._connection.write(add, size=size)
        self._unindexed += len(entries)
        if self._unindexed >= _INDEX_EVERY:
            self._index()
        return head

    def _index(self) -> None:
        """Index what was said; what goes wrong here is told by the search that needs it."""
        self._unindexed = 0
        with suppress(StoreError):
            search.catch_up(self._connection)

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
        """Entries on the path to a place, oldest first, or newest first; holds no lock between pages."""
        found = self._connection.read(lambda raw: _session(raw, packed(session)))
        if found is None:
            raise SessionNotFound(f"there is no session {session!r}")
        wanted = paths.Wanted(kinds=kinds, first=first, last=last, newest=newest)
        return paths.walk(self._connection, found.id, Place(*place), wanted)

    def find(self, session: str, names: Sequence[str]) -> dict[str, Place]:
        """Where entries of these names stand, on whatever branch; those that are not there are left out."""
        found = self._connection.read(lambda raw: _session(raw, packed(session)))
        places: dict[str, Place] = {}
        for start in range(0, len(names) if found else 0, _NAMES):
            some = names[start : start + _NAMES]
            places |= self._connection.read(lambda raw, some=some: _find(raw, found.id, some))  # type: ignore[misc, union-attr]
        return places

    # -- search, notes, leases ---------------------------------------------------------------------------

    def search(
        self, query: str, *, session: str | None = None, limit: int = 10, some: bool = False
    ) -> list[Found]:
        """The best hits, best first, on all branches."""
        words = search.words_of(query)
        if not words or limit < 1:
            return []
        self._unindexed = 0
        search.catch_up(self._connection)
        key = None if session is None else packed(session)
        return self._connection.read(lambda raw: search.search(raw, words, key, limit, some=some))

    def note(self, key: str) -> str | None:
        """What was noted last."""
        statement = "SELECT value, sum FROM notes WHERE key = ?"
        rows = self._connection.read(lambda raw: raw.execute(statement, (packed(key),)).fetchall())
        for value, found in rows:
            if crc32(packed(key) + value) != found:
                raise LogCorrupt(f"the note {key!r} is damaged on the disk: note it again")
            return unpacked(value)
        return None

    def put_note(self, key: str, value: str) -> None:
        """Note something; durable on return."""
        row = (packed(key), packed(value), crc32(packed(key) + packed(value)))
        self._connection.write(lambda raw: raw.execute("REPLACE INTO notes VALUES (?, ?, ?)", row).close())

    def claim(self, session: str, *, holder: str, seconds: float) -> Lease | None:
        """The right to work on a session; None while somebody else has it."""
        now = self._now()
        return self._connection.write(lambda raw: leases.claim(raw, session, holder, now, seconds))

    def release(self, lease: Lease) -> None:
        """Give it back; nothing happens where somebody else has it by now."""
        self._connection.write(lambda raw: leases.release(raw, lease))

    def offer(self, session: str) -> None:
        """Put a session among those that wait for work; once, however often it is offered."""
        self._connection.write(lambda raw: leases.offer(raw, session))

    def take(self, *, holder: str, seconds: float) -> Lease | None:
        """Claim a session that waits for work, the oldest first, and take it from those that wait."""
        now = self._now()
        return self._connection.write(lambda raw: leases.take(raw, holder, now, seconds))

    # -- all of it ---------------------------------------------------------------------------------------

    def check(self) -> Iterator[Trouble]:
        """Look at everything that is stored; gives what is wrong."""
        self._connection.read(lambda raw: None)  # noqa: ARG005  # a closed store says so at once
        return check.check(self._connection)

    def salvage(self) -> Iterator[tuple[str, Place, Entry]]:
        """Everything that can still be read, with its session and place, in the order it was stored."""
        self._connection.read(lambda raw: None)  # noqa: ARG005  # a closed store says so at once
        return check.salvage(self._connection)

    def close(self) -> None:
        """Let go of the file; may be called twice."""
        if self._unindexed:
            self._index()
        self._connection.close()


def _session(raw: Raw, key: bytes) -> SessionRow | None:
    for row in raw.execute(_SESSION, (key,)).fetchall():
        return sqlite_rows.session_row(row)
    return None


def _new_session(raw: Raw, key: bytes, now: float) -> SessionRow:
    [(number,)] = raw.execute("SELECT ifnull(max(id), 0) + 1 FROM sessions").fetchall()
    made = SessionRow(number, key, created=now)
    raw.execute(_NEW, (*made, made.sum()))
    return made


def _append(raw: Raw, session: SessionRow, entries: Sequence[Entry], at: Place, now: float) -> Head:
    depth, head, said = _standing(raw, session, at)
    last_seq, last_line = session.last_seq, session.last_line
    if entries:
        line = _line_behind(raw, session, at)
        rows = [
            sqlite_rows.entry_row(session.id, Place(line, last_seq + n), depth + n, entry)
            for n, entry in enumerate(entries, 1)
        ]
        raw.executemany(_ADD, rows)
        last_seq += len(entries)
        depth += len(entries)
        at, last_line = Place(line, last_seq), max(line, last_line)
        head, said = entries[-1].name, entries[-1].said
    version = session.version + 1
    moved = SessionRow(
        session.id,
        session.key,
        *at,
        depth,
        sqlite_rows.binding(head),  # type: ignore[arg-type]  # bytes for what is no UTF-8
        said,
        version,
        last_seq,
        last_line,
        session.created,
        now,
    )
    raw.execute(_APPENDED if entries else _MOVED, (*moved, moved.sum()))
    return Head(place=at, name=head, said=said, version=version)


def _standing(raw: Raw, session: SessionRow, at: Place) -> tuple[int, str, int]:
    """Depth, name and number of messages at a place."""
    if at == session.place:
        return session.depth, session.head, session.said
    if at == START:
        return 0, "", 0
    found = paths.entry_at(raw, session.id, at)
    return found.depth, found.entry.name, found.entry.said


def _line_behind(raw: Raw, session: SessionRow, at: Place) -> int:
    """The line that goes on behind a place: its own where it is the last there, else a new one."""
    if at.seq == session.last_seq and session.last_line >= 0:
        return at.line
    [(last,)] = raw.execute(_LAST_OF_LINE, (session.id, at.line)).fetchall()
    if last == at.seq:
        return at.line
    line = session.last_line + 1
    if line:
        row = sqlite_rows.line_row(session.id, line, at)
        raw.execute("INSERT INTO lines VALUES (?, ?, ?, ?, ?)", row)
    return line


def _find(raw: Raw, session: int, names: Sequence[str]) -> dict[str, Place]:
    places: dict[str, Place] = {}
    for name in names:
        for line, seq, agreed in raw.execute(_FIND, (session, sqlite_rows.binding(name))).fetchall():
            if not agreed:
                raise LogCorrupt(f"entry {name} is damaged on the disk: salvage what can be read", entry=name)
            places[name] = Place(line, seq)
    return places
