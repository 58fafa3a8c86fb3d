"""Appending to a PostgreSQL store: one transaction, under the lock of the session's row.

An append whose connection dies is called again. Every append writes a number of its own beside what it
writes, so that the second call knows whether the first one came through.
"""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from refold.core.log.entries import Entry
from refold.errors import Conflict, StoreError
from refold.stores import START, Head, Place
from refold.stores.postgres.connections import Connection
from refold.stores.postgres.log import NOW, head, head_of, key_of, packed
from refold.stores.postgres.search import indexed

_BATCH_ROWS: Final = 1000
_BATCH_CHARACTERS: Final = 16 << 20
"""For one statement; the server takes a gigabyte at most."""

# %b sends lists as they are; as text every quote of a body would be escaped once more, which takes seconds
_ENTRIES: Final = """
    INSERT INTO refold.entries
        (scope, session, line, batch, seq, name, parent, kind, body, said, text, about, at)
    SELECT %s, %s, %s, %s, * FROM unnest(%b::bigint[], %b::text[], %b::text[], %b::text[], %b::text[],
                                         %b::bigint[], %b::bytea[], %b::text[], %b::float8[])
"""
_WORDS: Final = """
    INSERT INTO refold.words (scope, session, seq, lexemes)
    SELECT %s, %s, seq, to_tsvector('refold.words', words)
    FROM unnest(%b::bigint[], %b::text[]) AS t (seq, words)
"""
_MOVE: Final = f"""
    UPDATE refold.sessions SET line = %(line)s, seq = %(seq)s, head = %(head)s, said = %(said)s,
           version = version + 1, last = %(last)s, lines = %(lines)s, batch = %(batch)s, changed = {NOW}
    WHERE scope = %(scope)s AND id = %(id)s AND version = %(version)s
"""  # noqa: S608  # put together of constants
_BEGIN: Final = f"""
    INSERT INTO refold.sessions (scope, key, name, batch, created, changed)
    VALUES (%(scope)s, %(key)s, %(name)s, %(batch)s, {NOW}, {NOW})
    ON CONFLICT (scope, key) DO NOTHING RETURNING id
"""  # noqa: S608  # put together of constants


@dataclass(frozen=True, slots=True)
class _Session:
    """A session's row, locked."""

    id: int
    head: Head
    last: int
    lines: int
    batch: int


@dataclass(slots=True)
class Append:
    """One append, which may be tried again: it finds out whether it was done the time before."""

    scope: str
    session: str
    entries: Sequence[Entry]
    expect: Head | None
    at: Place | None
    fence: int | None
    now: float | None
    batch: int = field(default_factory=lambda: secrets.randbits(63))
    """Written with everything, so that no other append is taken for this one."""
    sent: tuple[int, Head] | None = None
    """The session and the head that a COMMIT without an answer would have left."""

    def __call__(self, connection: Connection) -> Head:
        """Append, or find that it is done."""
        with connection.transaction():
            found = self._locked(connection)
            if self.sent and found and (done := self._done(connection, found, *self.sent)):
                return done
            self._fenced(connection)
            self._expected(found)
            if found is None:
                found = self._begun(connection)
            moved = self._written(connection, found)
            self.sent = (found.id, moved)
        return moved

    def _locked(self, connection: Connection) -> _Session | None:
        row = connection.execute(
            "SELECT id, last, lines, batch, line, seq, head, said, version FROM refold.sessions"
            " WHERE scope = %s AND key = %s FOR UPDATE",
            [self.scope, key_of(self.session)],
        ).fetchone()
        return None if row is None else _Session(row[0], head_of(row[4:]), row[1], row[2], row[3])

    def _done(self, connection: Connection, found: _Session, session: int, moved: Head) -> Head | None:
        """The head that this append left, if its first try came through."""
        if found.id != session or found.head.version < moved.version:
            return None
        if found.batch == self.batch:
            return moved
        if not self.entries:
            raise StoreError(
                f"the connection was lost while the head of {self.session!r} was moved, and others moved it"
                " since: look where it is and move it again if need be"
            )
        row = connection.execute(
            "SELECT batch FROM refold.entries WHERE scope = %s AND session = %s AND seq = %s",
            [self.scope, session, moved.place.seq],
        ).fetchone()
        return moved if row is not None and row[0] == self.batch else None

    def _fenced(self, connection: Connection) -> None:
        """Refuse a lease that is no longer the youngest; a younger one waits until this append is done."""
        if self.fence is None:
            return
        row = connection.execute(
            "SELECT fence FROM refold.leases WHERE scope = %s AND key = %s FOR SHARE",
            [self.scope, key_of(self.session)],
        ).fetchone()
        if row is not None and row[0] > self.fence:
            raise Conflict(f"lease {self.fence}", f"lease {row[0]}")

    def _expected(self, found: _Session | None) -> None:
        expected = None if self.expect is None else self.expect.version
        version = None if found is None else found.head.version
        if expected != version:
            raise Conflict(
                None if self.expect is None else self.expect.name, None if found is None else found.head.name
            )

    def _begun(self, connection: Connection) -> _Session:
        """A new session; waits for another process that is making it and then gives way."""
        row = connection.execute(
            _BEGIN,
            {
                "scope": self.scope,
                "key": key_of(self.session),
                "name": packed(self.session),
                "batch": self.batch,
                "now": self.now,
            },
        ).fetchone()
        if row is None:
            other = head(connection, self.scope, self.session)
            raise Conflict(None, other.name if other else None)
        return _Session(row[0], Head(place=START, name="", said=0, version=0), 0, 1, self.batch)

    def _written(self, connection: Connection, found: _Session) -> Head:
        at, name, said = self._behind(connection, found)
        line, lines = at.line, found.lines
        if self.entries:
            if not self._is_last(connection, found, at):
                line, lines = lines, lines + 1
                connection.execute(
                    "INSERT INTO refold.lines VALUES (%s, %s, %s, %s, %s)", [self.scope, found.id, line, *at]
                )
            last = found.last
            for batch in _batches(self.entries):
                self._insert(connection, found.id, line, last, batch)
                last += len(batch)
            name, said = self.entries[-1].name, self.entries[-1].said
            at = Place(line, found.last + len(self.entries))
        values = {
            "scope": self.scope,
            "id": found.id,
            "version": found.head.version,
            "line": at.line,
            "seq": at.seq,
            "head": name,
            "said": said,
            "last": found.last + len(self.entries),
            "lines": lines,
            "batch": self.batch,
            "now": self.now,
        }
        if connection.execute(_MOVE, values).rowcount != 1:
            raise StoreError(f"the head of {self.session!r} moved under a lock: run the store's check")
        return Head(place=at, name=name, said=said, version=found.head.version + 1)

    def _behind(self, connection: Connection, found: _Session) -> tuple[Place, str, int]:
        """The place to go on from, and the name and number of what stands there."""
        at = found.head.place if self.at is None else self.at
        if at == START:
            return at, "", 0
        if at == found.head.place:
            return at, found.head.name, found.head.said
        row = connection.execute(
            "SELECT name, said FROM refold.entries"
            " WHERE scope = %s AND session = %s AND seq = %s AND line = %s",
            [self.scope, found.id, at.seq, at.line],
        ).fetchone()
        if row is None:
            raise StoreError(f"nothing stands at {tuple(at)} in session {self.session!r}")
        return at, row[0], row[1]

    def _is_last(self, connection: Connection, found: _Session, at: Place) -> bool:
        """Whether nothing stands behind a place on its line."""
        if at.seq == found.last:
            return True
        row = connection.execute(
            "SELECT EXISTS (SELECT FROM refold.entries"
            " WHERE scope = %s AND session = %s AND line = %s AND seq > %s)",
            [self.scope, found.id, at.line, at.seq],
        ).fetchone()
        return row is None or not row[0]

    def _insert(
        self, connection: Connection, session: int, line: int, last: int, entries: Sequence[Entry]
    ) -> None:
        numbers = range(last + 1, last + 1 + len(entries))
        connection.execute(
            _ENTRIES,
            [
                *(self.scope, session, line, self.batch, list(numbers)),
                *([getattr(e, part) for e in entries] for part in ("name", "parent", "kind", "body", "said")),
                [packed(e.text) for e in entries],
                *([getattr(e, part) for e in entries] for part in ("about", "at")),
            ],
        )
        texts = [(seq, words) for seq, e in zip(numbers, entries, strict=True) if (words := indexed(e.text))]
        if texts:
            connection.execute(
                _WORDS, [self.scope, session, [seq for seq, _ in texts], [words for _, words in texts]]
            )


def _batches(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """The entries in groups that fit into a statement."""
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        if batch and (len(batch) >= _BATCH_ROWS or size >= _BATCH_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += len(entry.body) + len(entry.text) + len(entry.about)
    if batch:
        yield batch
