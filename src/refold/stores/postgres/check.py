"""Examine everything in a PostgreSQL store, and read what can still be read."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from refold.core.log.entries import ROOT, Entry
from refold.stores import START, Defect, Place
from refold.stores.postgres.connections import Connection, Connections
from refold.stores.postgres.log import (
    COLUMNS,
    PAGE_BYTES,
    PAGE_ROWS,
    decode_damaged_text,
    fetch_all,
    parse_entry_row,
)
from refold.stores.sql_files import read_statement

_ALL: Final = read_statement("all", COLUMNS=COLUMNS, PAGE_ROWS=PAGE_ROWS, PAGE_BYTES=PAGE_BYTES)


class _End(NamedTuple):
    """The last entry at some place."""

    name: str = ROOT
    message: str = ROOT
    """Name of the last message on the path."""


@dataclass(slots=True)
class _Session:
    """State of one session while its entries pass by. Holds the ends of lines only: a log may be long."""

    name: str
    head: tuple[Place, str, int]
    last: int
    parents: dict[int, Place]
    begins: set[Place] = field(default_factory=set)
    """Places that lines begin behind."""
    seen: int = 0
    ends: dict[int, _End] = field(default_factory=dict)
    """Last entry of each line so far."""
    forks: dict[Place, _End] = field(default_factory=dict)
    """Entries that lines begin behind."""
    at_head: tuple[str, int] | None = None

    def examine(self, place: Place, entry: Entry) -> Iterator[Defect]:
        """Yield the defects of the next entry."""
        if place.seq > self.last:
            return  # appended since the sessions were read
        end = self.ends.get(place.line)
        before = end or self.forks.get(self.parents.get(place.line, START), _End())
        wrong = [] if entry.sound else ["does not match its name"]
        expected = before.message if entry.kind == "said" else before.name
        if place.line not in self.parents:
            wrong.append(f"is on line {place.line}, whose beginning is lost")
        elif entry.parent != expected:
            parent = entry.parent or "the start"
            wrong.append(f"follows {expected or 'the start'} and not its parent {parent}")
        for what in wrong:
            yield Defect(session=self.name, what=f"entry {entry.name} {what}", seq=place.seq)
        self.seen += 1
        self.ends[place.line] = _End(entry.name, entry.name if entry.kind == "said" else before.message)
        if place in self.begins:
            self.forks[place] = self.ends[place.line]
        if place == self.head[0]:
            self.at_head = (entry.name, entry.said)

    def finish(self) -> Iterator[Defect]:
        """Yield the defects of the session as a whole, after its last entry."""
        place, name, said = self.head
        if self.seen != self.last:
            lost = f"{self.last - self.seen:,} of {self.last:,} entries are lost"
            yield Defect(session=self.name, what=lost)
        if place != START and self.at_head != (name, said):
            what = f"the head {name} is not the entry at {tuple(place)}"
            yield Defect(session=self.name, what=what, seq=place.seq)


def check(connections: Connections, scope: str) -> Iterator[Defect]:
    """Yield defects of contents, parents, numbers and heads."""
    sessions = connections.run(lambda connection: _read_sessions(connection, scope))
    last: int | None = None
    for number, place, entry in _read_entries(connections, scope):
        if last is not None and number != last and last in sessions:
            yield from sessions.pop(last).finish()
        last = number
        if number in sessions:
            yield from sessions[number].examine(place, entry)
        else:
            yield Defect(
                session=f"lost session {number}", what=f"entry {entry.name} has no session", seq=place.seq
            )
    for session in sessions.values():
        yield from session.finish()


def salvage(connections: Connections, scope: str) -> Iterator[tuple[str, Place, Entry]]:
    """Yield every entry, session by session; those of a lost session come under a name that says so."""
    sessions = connections.run(lambda connection: _read_sessions(connection, scope))
    for number, place, entry in _read_entries(connections, scope):
        yield sessions[number].name if number in sessions else f"lost session {number}", place, entry


def _read_sessions(connection: Connection, scope: str) -> dict[int, _Session]:
    rows = connection.execute(
        "SELECT id, name, line, seq, head, said, last FROM refold.sessions WHERE scope = %s ORDER BY id",
        [scope],
    )
    sessions = {
        number: _Session(decode_damaged_text(name), (Place(line, seq), head, said), last, {0: START})
        for number, name, line, seq, head, said, last in rows
    }
    lines = connection.execute(
        "SELECT session, line, parent_line, parent_seq FROM refold.lines WHERE scope = %s", [scope]
    )
    for number, line, parent_line, parent_seq in lines:
        if number in sessions:
            sessions[number].parents[line] = Place(parent_line, parent_seq)
            sessions[number].begins.add(Place(parent_line, parent_seq))
    return sessions


def _read_entries(connections: Connections, scope: str) -> Iterator[tuple[int, Place, Entry]]:
    after = {"scope": scope, "session": 0, "seq": 0}
    while rows := connections.run(fetch_all(_ALL, after)):
        for row in rows:
            yield row[0], *parse_entry_row(row[1:])
        after = {"scope": scope, "session": rows[-1][0], "seq": rows[-1][2]}
