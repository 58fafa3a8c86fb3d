"""A look at everything in a PostgreSQL store, and the way to get out what can still be read."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from refold.core.log.entries import ROOT, Entry
from refold.stores import START, Place, Trouble
from refold.stores.postgres.connections import Connection, Connections
from refold.stores.postgres.log import COLUMNS, Row, placed, unpacked

_PAGE_ROWS: Final = 500
_PAGE_BYTES: Final = 4 << 20
_ALL: Final = f"""
    SELECT session, {COLUMNS} FROM (
        SELECT session, {COLUMNS},
               sum(octet_length(body)) OVER (ORDER BY session, seq) - octet_length(body) AS before
        FROM refold.entries WHERE scope = %(scope)s AND (session, seq) > (%(session)s, %(seq)s)
        ORDER BY session, seq LIMIT {_PAGE_ROWS}
    ) AS page WHERE before < {_PAGE_BYTES} ORDER BY session, seq
"""  # noqa: S608  # put together of constants


@dataclass(slots=True)
class _Session:
    """A session while its entries pass by."""

    name: str
    head: tuple[Place, str, int]
    last: int
    parents: dict[int, Place]
    begins: set[Place] = field(default_factory=set)
    """Where lines begin."""
    seen: int = 0
    ends: dict[int, tuple[int, str, str]] = field(default_factory=dict)
    """For each line its last seq, the name of the entry there and of the message said last."""
    forks: dict[Place, tuple[int, str, str]] = field(default_factory=dict)
    """The same for the places that lines begin behind."""
    at_head: tuple[str, int] | None = None


def salvage(connections: Connections, scope: str) -> Iterator[tuple[str, Place, Entry]]:
    """Every entry, session by session; those whose session is gone come under a name that says so."""
    names = {
        number: session.name for number, session in connections.run(lambda c: _sessions(c, scope)).items()
    }
    for session, place, entry in _entries(connections, scope):
        yield names.get(session, f"lost session {session}"), place, entry


def check(connections: Connections, scope: str) -> Iterator[Trouble]:
    """What is wrong: contents, parents, numbers and heads."""
    sessions = connections.run(lambda c: _sessions(c, scope))
    last: int | None = None
    for number, place, entry in _entries(connections, scope):
        if last is not None and number != last and last in sessions:
            yield from _ended(sessions.pop(last))
        last = number
        if number in sessions:
            yield from _looked_at(sessions[number], place, entry)
        else:
            yield Trouble(
                session=f"lost session {number}", what=f"entry {entry.name} has no session", seq=place.seq
            )
    for session in sessions.values():
        yield from _ended(session)


def _sessions(connection: Connection, scope: str) -> dict[int, _Session]:
    rows = connection.execute(
        "SELECT id, name, line, seq, head, said, last FROM refold.sessions WHERE scope = %s ORDER BY id",
        [scope],
    )
    found = {
        row[0]: _Session(unpacked(row[1]), (Place(row[2], row[3]), row[4], row[5]), row[6], {0: START})
        for row in rows
    }
    lines = connection.execute(
        "SELECT session, line, parent_line, parent_seq FROM refold.lines WHERE scope = %s", [scope]
    )
    for session, line, parent_line, parent_seq in lines:
        if session in found:
            found[session].parents[line] = Place(parent_line, parent_seq)
            found[session].begins.add(Place(parent_line, parent_seq))
    return found


def _entries(connections: Connections, scope: str) -> Iterator[tuple[int, Place, Entry]]:
    where = {"scope": scope, "session": 0, "seq": 0}

    def page(connection: Connection) -> list[Row]:
        return connection.execute(_ALL, where, binary=True).fetchall()

    while rows := connections.run(page):
        for row in rows:
            yield row[0], *placed(row[1:])
        where = {"scope": scope, "session": rows[-1][0], "seq": rows[-1][2]}


def _looked_at(session: _Session, place: Place, entry: Entry) -> Iterator[Trouble]:
    """What is wrong with one entry; those appended since the sessions were read are none of our business."""
    if place.seq > session.last:
        return
    for what in _faults(session, place, entry):
        yield Trouble(session=session.name, what=f"entry {entry.name} {what}", seq=place.seq)
    _, _, said = _before(session, place)
    end = (place.seq, entry.name, entry.name if entry.kind == "said" else said)
    session.seen += 1
    session.ends[place.line] = end
    if place in session.begins:
        session.forks[place] = end
    if place == session.head[0]:
        session.at_head = (entry.name, entry.said)


def _faults(session: _Session, place: Place, entry: Entry) -> Iterator[str]:
    if not entry.sound:
        yield "is not what its name says"
    if place.line not in session.parents:
        yield f"stands on line {place.line}, which begins nowhere"
        return
    _, name, said = _before(session, place)
    due = said if entry.kind == "said" else name
    if entry.parent != due:
        yield f"stands behind {due or 'the start'} and not behind its parent {entry.parent or 'the start'}"


def _before(session: _Session, place: Place) -> tuple[int, str, str]:
    """What stands before a place on its way."""
    if place.line in session.ends:
        return session.ends[place.line]
    return session.forks.get(session.parents.get(place.line, START), (0, ROOT, ROOT))


def _ended(session: _Session) -> Iterator[Trouble]:
    """What is wrong with a session as a whole."""
    place, name, said = session.head
    if session.seen != session.last:
        yield Trouble(
            session=session.name, what=f"{session.last - session.seen:,} of {session.last:,} entries are lost"
        )
    if place != START and session.at_head != (name, said):
        what = f"the head {name} is not the entry at {tuple(place)}"
        yield Trouble(session=session.name, what=what, seq=place.seq)
