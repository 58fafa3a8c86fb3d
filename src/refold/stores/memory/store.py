"""The store that is gone with the process: for tests, and for what nobody needs tomorrow."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from threading import RLock
from typing import Any

from refold.core.log.entries import Entry, Kind
from refold.errors import SessionNotFound, StoreError
from refold.stores import START, Durability, Found, Head, Info, Lease, Place, Trouble
from refold.stores.addresses import no_more
from refold.stores.lease_table import Desk
from refold.stores.lines import Lines, Spot, same_head
from refold.stores.parents import Parents
from refold.stores.word_index import Words


def open_store(
    rest: str = "",  # noqa: ARG001  # every store is opened alike, and this one has no place
    *,
    durability: Durability = "normal",  # noqa: ARG001  # nothing here outlives the process
    now: Callable[[], float] = time.time,
    **options: Any,
) -> "MemoryStore":
    """Open an empty store."""
    no_more("memory", options)
    return MemoryStore(now)


@dataclass(slots=True)
class _Session:
    created: float
    changed: float
    head: Head
    lines: Lines = field(default_factory=Lines)
    entries: list[tuple[Place, Entry]] = field(default_factory=list)
    names: dict[str, Place] = field(default_factory=dict)
    searched: int = 0
    """How many of the entries a search knows."""


class MemoryStore:
    """Sessions in plain lists."""

    address = "memory:"

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = RLock()
        self._open = True
        self._sessions: dict[str, _Session] = {}
        self._notes: dict[str, str] = {}
        self._desk = Desk(lambda session, record: None, now)  # noqa: ARG005  # the desk's memory is enough
        self._words = Words()
        self._texts: list[tuple[str, int]] = []
        """For each text of the index its session and its number there."""

    @contextmanager
    def _using(self) -> Iterator[None]:
        with self._lock:
            if not self._open:
                raise StoreError("the store memory: is closed: open it again")
            yield

    # -- the log -----------------------------------------------------------------------------------------

    def sessions(self) -> list[Info]:
        """All sessions, the one that changed last first."""
        with self._using():
            found = [
                Info(name=n, said=s.head.said, entries=len(s.entries), created=s.created, changed=s.changed)
                for n, s in self._sessions.items()
            ]
        return sorted(found, key=lambda info: -info.changed)

    def head(self, session: str) -> Head | None:
        """Where a session is."""
        with self._using():
            return self._sessions[session].head if session in self._sessions else None

    def append(
        self,
        session: str,
        entries: Sequence[Entry],
        *,
        expect: Head | None,
        at: Place | None = None,
        fence: int | None = None,
    ) -> Head:
        """Add entries behind a place and move the head behind them, all or nothing."""
        with self._using():
            self._desk.check(session, fence)
            found = self._sessions.get(session)
            same_head(expect, found.head if found else None)
            if found is None:
                start = Head(place=START, name="", said=0, version=0)
                found = _Session(created=self._now(), changed=0.0, head=start)
            place = found.head.place if at is None else at
            if place not in found.lines:
                raise StoreError(f"nothing stands at {tuple(place)} in this session")
            self._add(found, entries, place)
            self._sessions[session] = found
            return found.head

    def _add(self, found: _Session, entries: Sequence[Entry], place: Place) -> None:
        line = found.lines.line_behind(place)
        for entry in entries:
            behind, place = place, Place(line, len(found.entries) + 1)
            found.lines.add(place, behind, entry.kind, entry.said, Spot(len(found.entries)))
            found.entries.append((place, entry))
            found.names.setdefault(entry.name, place)
        last = None if place == START else found.entries[found.lines.spot(place).at][1]
        found.head = Head(
            place=place,
            name=last.name if last else "",
            said=last.said if last else 0,
            version=found.head.version + 1,
        )
        found.changed = self._now()

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
        """Entries on the path to a place, oldest first, or newest first."""
        with self._using():
            found = self._sessions.get(session)
            if found is None:
                raise SessionNotFound(f"there is no session {session!r}")
            spots = found.lines.walk(place, kinds=kinds, first=first, last=last, newest=newest)
        return (found.entries[spot.at][1] for spot in spots)

    def find(self, session: str, names: Sequence[str]) -> dict[str, Place]:
        """Where entries of these names stand."""
        with self._using():
            known = self._sessions[session].names if session in self._sessions else {}
            return {name: known[name] for name in names if name in known}

    # -- search, notes, leases ---------------------------------------------------------------------------

    def search(
        self, query: str, *, session: str | None = None, limit: int = 10, some: bool = False
    ) -> list[Found]:
        """The best hits, best first."""
        with self._using():
            self._catch_up()
            texts = self._texts
            among = None if session is None else lambda text: texts[text][0] == session
            hits = self._words.search(query, limit=limit, among=among, some=some)
            return [self._found(*texts[hit.text], hit.score) for hit in hits]

    def _catch_up(self) -> None:
        for name, found in self._sessions.items():
            for number, (_, entry) in enumerate(islice(found.entries, found.searched, None), found.searched):
                if entry.text:
                    self._words.add(entry.text)
                    self._texts.append((name, number))
            found.searched = len(found.entries)

    def _found(self, session: str, number: int, score: float) -> Found:
        place, entry = self._sessions[session].entries[number]
        return Found(session=session, entry=entry, place=place, score=score)

    def note(self, key: str) -> str | None:
        """What was noted last."""
        with self._using():
            return self._notes.get(key)

    def put_note(self, key: str, value: str) -> None:
        """Note something."""
        with self._using():
            self._notes[key] = value

    def claim(self, session: str, *, holder: str, seconds: float) -> Lease | None:
        """The right to work on a session; None while somebody else has it."""
        with self._using():
            return self._desk.claim(session, holder=holder, seconds=seconds)

    def release(self, lease: Lease) -> None:
        """Give it back."""
        with self._using():
            self._desk.release(lease)

    def offer(self, session: str) -> None:
        """Put a session among those that wait for work."""
        with self._using():
            self._desk.offer(session)

    def take(self, *, holder: str, seconds: float) -> Lease | None:
        """Claim a session that waits for work, the oldest first."""
        with self._using():
            return self._desk.take(holder=holder, seconds=seconds)

    # -- all of it ---------------------------------------------------------------------------------------

    def check(self) -> Iterator[Trouble]:
        """Entries that are not what their name says, or stand behind others than their parents."""
        with self._using():
            kept = [(name, found.entries[:], found.lines) for name, found in self._sessions.items()]
        for session, entries, lines in kept:
            parents = Parents()
            last: dict[int, Place] = {}
            for place, entry in entries:
                wrong = parents.wrong(entry, place, last.get(place.line, lines.parents[place.line]))
                last[place.line] = place
                if not entry.sound:
                    wrong = f"entry {entry.name} is not what its name says"
                if wrong:
                    yield Trouble(session=session, what=wrong, seq=place.seq)

    def salvage(self) -> Iterator[tuple[str, Place, Entry]]:
        """Everything, in the order it was stored."""
        with self._using():
            kept = [(name, found.entries, len(found.entries)) for name, found in self._sessions.items()]
        return ((name, *row) for name, entries, count in kept for row in islice(entries, count))

    def close(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._open = False
            self._sessions.clear()
