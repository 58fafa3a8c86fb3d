"""Append to a PostgreSQL store, and delete: one transaction, under the lock of the session's row.

An append whose connection dies is called again. Each append writes a random number of its own beside its
rows, so that the second call can see whether the first one was committed. If the server stays away, `settle`
finds it out later.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg

from refold.core.log.entries import Entry
from refold.errors import Conflict, StoreError
from refold.stores import START, Head, Place, name_notes
from refold.stores.paths import require_head
from refold.stores.postgres.changes import TELL, tell_values
from refold.stores.postgres.connections import Connection
from refold.stores.postgres.log import NOW, parse_head_row, read_head
from refold.stores.postgres.search import Indexed, index_page, insert_words
from refold.stores.sql_files import read_statement
from refold.stores.text import encode_text, name_hash

_BATCH_ROWS: Final = 1000
_BATCH_CHARACTERS: Final = 16 << 20
"""Size of one statement: far below the server's limit of a gigabyte, and bounded memory here."""

# %b sends lists in binary; as text every quote of a body would be escaped once more, which takes seconds
_ENTRIES: Final = read_statement("entries")
_MOVE: Final = read_statement("move", NOW=NOW, TELL=TELL)
_FIND_TO_DELETE: Final = read_statement("find_to_delete")
_DELETE_ROWS: Final = read_statement("delete_rows").split(";")[:-1]
_BEGIN: Final = read_statement("begin", NOW=NOW)


@dataclass(frozen=True, slots=True)
class _Session:
    """Row of a session, locked."""

    id: int
    head: Head
    last: int
    lines: int
    batch: int
    indexed: int


@dataclass(slots=True)
class Append:
    """One append, which may be called again: it finds out whether it was committed the time before."""

    scope: str
    session: str
    entries: Sequence[Entry]
    expect: Head | None
    at: Place | None
    fence: int | None
    now: float | None
    batch: int = field(default_factory=lambda: secrets.randbits(63))
    """Random number of this append, written with every row."""
    sent: tuple[int, Head] | None = None
    """Session and head after the COMMIT, which may have gone unanswered."""

    def __call__(self, connection: Connection) -> Head:
        """Append, or find that it is done."""
        with connection.transaction():
            session = self._lock_session(connection)
            if self.sent:
                session = session or self._await_other(connection)
                if session and (done := self._find_earlier_result(connection, session, *self.sent)):
                    return done
                self.sent = None
            self._check_fence(connection)
            require_head(self.expect, session.head if session else None)
            if session is None:
                session = self._insert_session(connection)
            moved = self._write(connection, session)
            self.sent = (session.id, moved)
        return moved

    def settle(self, connection: Connection) -> Head | None:
        """Find out what became of a COMMIT without an answer: the head that it left, None if it is lost."""
        with connection.transaction():
            session = self._lock_session(connection) or self._await_other(connection)
            if session is None or self.sent is None:
                return None
            return self._find_earlier_result(connection, session, *self.sent)

    def _await_other(self, connection: Connection) -> _Session | None:
        """Return the session if a transaction that has just inserted it is committed; waits for its end."""
        with connection.transaction() as attempt:
            row = connection.execute(_BEGIN, self._session_values()).fetchone()
            raise psycopg.Rollback(attempt)
        return None if row else self._lock_session(connection)

    def _session_values(self) -> dict[str, Any]:
        return {
            "scope": self.scope,
            "key": name_hash(self.session),
            "name": encode_text(self.session),
            "batch": self.batch,
            "now": self.now,
        }

    def _lock_session(self, connection: Connection) -> _Session | None:
        row = connection.execute(
            "SELECT id, last, lines, batch, indexed, line, seq, head, said, version FROM refold.sessions"
            " WHERE scope = %s AND key = %s FOR UPDATE",
            [self.scope, name_hash(self.session)],
        ).fetchone()
        return None if row is None else _Session(row[0], parse_head_row(row[5:]), *row[1:5])

    def _find_earlier_result(
        self, connection: Connection, session: _Session, number: int, moved: Head
    ) -> Head | None:
        """Return the head that the first try left, if it was committed."""
        if session.id != number or session.head.version < moved.version:
            return None
        if session.batch == self.batch:
            return moved
        if not self.entries:
            self.sent = None  # nobody will ever know
            raise StoreError(
                f"the connection was lost while the head of {self.session!r} was moved, and others moved it"
                " since: look where it is and move it again if need be"
            )
        row = connection.execute(
            "SELECT batch FROM refold.entries WHERE scope = %s AND session = %s AND seq = %s",
            [self.scope, number, moved.place.seq],
        ).fetchone()
        return moved if row is not None and row[0] == self.batch else None

    def _check_fence(self, connection: Connection) -> None:
        """Raise `Conflict` for an old lease; the row lock makes new leases wait until this append is done."""
        if self.fence is None:
            return
        row = connection.execute(
            "SELECT fence FROM refold.leases WHERE scope = %s AND key = %s FOR SHARE",
            [self.scope, name_hash(self.session)],
        ).fetchone()
        if row is not None and row[0] > self.fence:
            raise Conflict(f"lease {self.fence}", f"lease {row[0]}")

    def _insert_session(self, connection: Connection) -> _Session:
        """Insert a new session; waits for another process that is inserting it, then raises `Conflict`."""
        row = connection.execute(_BEGIN, self._session_values()).fetchone()
        if row is None:
            other = read_head(connection, self.scope, self.session)
            raise Conflict(None, other.name if other else None)
        return _Session(row[0], Head(place=START, name="", said=0, version=0), 0, 1, self.batch, 0)

    def _write(self, connection: Connection, session: _Session) -> Head:
        """Write the entries and the new head."""
        at, name, said = self._find_parent(connection, session)
        line, lines, indexed = at.line, session.lines, Indexed()
        if self.entries:
            if not self._is_last(connection, session, at):
                line, lines = lines, lines + 1
                connection.execute(
                    "INSERT INTO refold.lines VALUES (%s, %s, %s, %s, %s)",
                    [self.scope, session.id, line, *at],
                )
            indexed = self._insert_entries(connection, session, line)
            name, said = self.entries[-1].name, self.entries[-1].said
            at = Place(line, session.last + len(self.entries))
        values = {
            "scope": self.scope,
            "id": session.id,
            "version": session.head.version,
            "line": at.line,
            "seq": at.seq,
            "head": name,
            "said": said,
            "last": session.last + len(self.entries),
            "lines": lines,
            "batch": self.batch,
            "now": self.now,
            **indexed._asdict(),
            **tell_values(self.scope),
        }
        if connection.execute(_MOVE, values).rowcount != 1:
            raise StoreError(f"the head of {self.session!r} moved under a lock: run the store's check")
        return Head(place=at, name=name, said=said, version=session.head.version + 1)

    def _find_parent(self, connection: Connection, session: _Session) -> tuple[Place, str, int]:
        """Return the place to append behind, and the name and message number of the entry there."""
        at = session.head.place if self.at is None else self.at
        if at == START:
            return at, "", 0
        if at == session.head.place:
            return at, session.head.name, session.head.said
        row = connection.execute(
            "SELECT name, said FROM refold.entries"
            " WHERE scope = %s AND session = %s AND seq = %s AND line = %s",
            [self.scope, session.id, at.seq, at.line],
        ).fetchone()
        if row is None:
            raise StoreError(f"there is no entry at {tuple(at)} in session {self.session!r}")
        return at, row[0], row[1]

    def _is_last(self, connection: Connection, session: _Session, at: Place) -> bool:
        """True if a place is the last of its line."""
        if at.seq == session.last:
            return True
        row = connection.execute(
            "SELECT EXISTS (SELECT FROM refold.entries"
            " WHERE scope = %s AND session = %s AND line = %s AND seq > %s)",
            [self.scope, session.id, at.line, at.seq],
        ).fetchone()
        return row is None or not row[0]

    def _insert_entries(self, connection: Connection, session: _Session, line: int) -> Indexed:
        """Insert the entries and their words, in batches that fit into a statement."""
        start, indexed, through = 0, Indexed(), session.indexed
        if through < session.last:  # an older version has left some
            through = index_page(connection, self.scope, session.id, through)
        while start < len(self.entries):
            end, size = start, 0
            while end < len(self.entries) and end - start < _BATCH_ROWS and size < _BATCH_CHARACTERS:
                entry = self.entries[end]
                size += len(entry.body) + len(entry.text) + len(entry.about)
                end += 1
            batch = self.entries[start:end]
            seqs = range(session.last + start + 1, session.last + end + 1)
            connection.execute(
                _ENTRIES,
                [
                    *(self.scope, session.id, line, self.batch, list(seqs)),
                    *(
                        [getattr(e, part) for e in batch]
                        for part in ("name", "parent", "kind", "body", "said")
                    ),
                    [encode_text(e.text) for e in batch],
                    *([getattr(e, part) for e in batch] for part in ("about", "at")),
                ],
            )
            if through == session.last:
                texts = zip(seqs, (e.text for e in batch), strict=True)
                added = insert_words(connection, self.scope, session.id, texts)
                indexed = Indexed(indexed.texts + added.texts, indexed.words + added.words)
            start = end
        return indexed


def delete(connection: Connection, scope: str, session: str) -> int | None:
    """Delete a session and return its bytes; None if there is none."""
    notes = [name_hash(note) for note in name_notes(session)]
    values = {"scope": scope, "key": name_hash(session), "notes": notes, "id": None}
    with connection.transaction():
        row = connection.execute(_FIND_TO_DELETE, values).fetchone()
        if row is not None:
            values["id"] = row[0]
        for statement in _DELETE_ROWS:
            connection.execute(statement, values)
    return None if row is None else int(row[1])
