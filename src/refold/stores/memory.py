"""The store in memory, which ends with the process: for tests, and for conversations that are not kept."""

import os
import time
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from threading import RLock
from typing import Any

from refold.core.log.entries import Entry, Kind, MessageEntry
from refold.errors import SessionNotFound, StoreError
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
    refuse_options,
)
from refold.stores.branch_index import BranchIndex
from refold.stores.lease_table import LeaseTable
from refold.stores.paths import ParentCheck, require_head
from refold.stores.word_index import WordIndex, rank_texts


def open_store(
    rest: str = "",  # noqa: ARG001  # every store is opened alike, and this one has no location
    *,
    durability: Durability = "normal",  # noqa: ARG001  # nothing here outlives the process
    now: Callable[[], float] = time.time,
    scope: str = DEFAULT_SCOPE,
    **options: Any,
) -> "MemoryStore":
    """Open an empty store; nobody else sees it, whatever the scope."""
    check_scope(scope)
    refuse_options("memory", options)
    return MemoryStore(now)


@dataclass(slots=True)
class _Session:
    created: float
    changed: float
    head: Head
    index: BranchIndex = field(default_factory=BranchIndex)
    entries: list[Entry] = field(default_factory=list)
    """A message has its value, which the session holds as well, and no JSON: each text is there once."""
    lines: "array[int]" = field(default_factory=lambda: array("Q"))
    """The line of each entry."""
    names: dict[str, int] = field(default_factory=dict)
    """The index of each entry by its name, of the oldest one of this name."""
    searchable: int = 0
    """Number of the entries that are in the word index."""

    def add(self, entry: Entry, line: int) -> Place:
        """Keep an entry and return its place."""
        if entry.kind == "said" and isinstance(entry, MessageEntry):
            entry.drop_json()
        index = len(self.entries)
        self.entries.append(entry)
        self.lines.append(line)
        self.names.setdefault(entry.name, index)
        return Place(line, index + 1)

    def place(self, index: int) -> Place:
        """Return the place of an entry."""
        return Place(self.lines[index], index + 1)

    def find(self, name: str) -> Place:
        """Return the place of the oldest entry of a name."""
        return self.place(self.names[name])

    def read(self, index: int) -> Entry:
        """Return an entry as it was stored."""
        entry = self.entries[index]
        return entry.as_stored() if isinstance(entry, MessageEntry) else entry


class MemoryStore:
    """Sessions in plain lists."""

    address = "memory:"

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._process = os.getpid()
        self._lock = RLock()
        self._open = True
        self._sessions: dict[str, _Session] = {}
        self._located: dict[str, list[str] | str] = {}
        """For each name of a message the session that has it, or all of them in the order they stored it."""
        self._notes: dict[str, str] = {}
        self._leases = LeaseTable(lambda session, record: None, now)  # noqa: ARG005  # nothing to save
        self._words = WordIndex()
        self._texts = array("L")
        """For each text of the word index the index of its entry in its session."""

    def _hold_lock(self) -> AbstractContextManager[object]:
        """Return the lock, to be held while the store is open."""
        # After a fork, another thread of the parent may have held the lock: a child begins with its own.
        if self._process != os.getpid():
            self._process, self._lock = os.getpid(), RLock()
        if not self._open:
            raise StoreError("the store memory: is closed: open it again")
        return self._lock

    # -- the log -----------------------------------------------------------------------------------------

    def sessions(self) -> list[SessionInfo]:
        """List all sessions, most recently changed first."""
        with self._hold_lock():
            infos = [
                SessionInfo(
                    name=name,
                    said=session.head.said,
                    entries=len(session.entries),
                    created=session.created,
                    changed=session.changed,
                )
                for name, session in self._sessions.items()
            ]
        return sorted(infos, key=lambda info: -info.changed)

    def head(self, session: str) -> Head | None:
        """Return the head of a session, or None if there is no such session."""
        with self._hold_lock():
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
        with self._hold_lock():
            if fence is not None:
                self._leases.check_fence(session, fence)
            stored = self._sessions.get(session)
            if stored is None or expect is not stored.head:
                require_head(expect, stored.head if stored else None)
            if stored is None:
                start = Head(place=START, name="", said=0, version=0)
                stored = _Session(created=self._now(), changed=0.0, head=start)
            place = stored.head.place if at is None else at
            if at is not None and place not in stored.index:
                raise StoreError(f"there is no entry at {tuple(place)} in this session")
            line = stored.index.line_behind(place)
            for entry in entries:
                if entry.kind == "said" and entry.name not in stored.names:
                    self._note_session(entry.name, session)
                behind, place = place, stored.add(entry, line)
                stored.index.add(place, behind, entry.kind, entry.said, place.seq - 1)
            last = None if place == START else stored.entries[place.seq - 1]
            stored.head = Head(
                place=place,
                name=last.name if last else "",
                said=last.said if last else 0,
                version=stored.head.version + 1,
            )
            stored.changed = self._now()
            self._sessions[session] = stored
            return stored.head

    def append_at_once(self, session: str, entries: Sequence[Entry], **where: Any) -> Head | None:
        """Do the same, which never waits for long; None for a class that may append in its own way."""
        return self.append(session, entries, **where) if type(self) is MemoryStore else None

    def _note_session(self, name: str, session: str) -> None:
        """Note that a session has a message of this name; a list of one would take as much as the name."""
        known = self._located.setdefault(name, session)
        if isinstance(known, list):
            known.append(session)
        elif known != session:
            self._located[name] = [known, session]

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
        """Iterate over the entries on the path to a place, oldest first unless `newest`."""
        with self._hold_lock():
            stored = self._sessions.get(session)
            if stored is None:
                raise SessionNotFound(f"there is no session {session!r}")
            extents = stored.index.walk(place, kinds=kinds, first=first, last=last, newest=newest)
        return (stored.read(extent.at) for extent in extents)

    def find(self, session: str, names: Sequence[str]) -> dict[str, Place]:
        """Find entries by name on all branches."""
        with self._hold_lock():
            known = self._sessions[session].names if session in self._sessions else {}
            return {name: self._sessions[session].find(name) for name in names if name in known}

    def find_marks(self, session: str, kind: Kind) -> list[tuple[Place, Entry]]:
        """Find the entries of a kind on all branches, in the order they were stored."""
        with self._hold_lock():
            stored = self._sessions.get(session)
            if stored is None:
                return []
            return [(place, stored.read(extent.at)) for place, extent in stored.index.find_kind(kind)]

    def branches(self, session: str) -> list[Branch]:
        """List the lines of a session in the order in which they began."""
        with self._hold_lock():
            stored = self._sessions.get(session)
            return [] if stored is None else stored.index.list_branches()

    def locate(self, names: Sequence[str], *, limit: int = 8) -> dict[str, list[Located]]:
        """Find messages by name in all sessions."""
        with self._hold_lock():
            return {
                name: [
                    Located(session=session, place=self._sessions[session].find(name))
                    for session in islice(reversed([known] if isinstance(known, str) else known), limit)
                ]
                for name in names
                if (known := self._located.get(name)) is not None
            }

    def delete(self, *sessions: str) -> dict[str, int]:
        """Remove sessions with everything that belongs to them."""
        sizes: dict[str, int] = {}
        with self._hold_lock():
            for session in sessions:
                self._leases.records.pop(session, None)
                for key in name_notes(session):
                    self._notes.pop(key, None)
                if (stored := self._sessions.pop(session, None)) is None:
                    continue
                sizes[session] = sum(len(entry.body) + len(entry.text) for entry in stored.entries)
                for name in stored.names.keys() & self._located.keys():
                    known = self._located.pop(name)
                    if isinstance(known, list) and (others := [one for one in known if one != session]):
                        self._located[name] = others
            self._words, self._texts = WordIndex(), array("L")  # made again by the next search
            for stored in self._sessions.values():
                stored.searchable = 0
        return sizes

    # -- search, notes, leases ---------------------------------------------------------------------------

    def search(
        self, query: str, *, session: str | None = None, limit: int = 10, some: bool = False
    ) -> list[SearchHit]:
        """Return the best hits, best first."""
        with self._hold_lock():
            for name in self._sessions if session is None else self._sessions.keys() & {session}:
                self._index_words(name, self._sessions[name])
            hits = []
            for score, (name, text) in rank_texts(self._words.select(session), query, limit=limit, some=some):
                stored, index = self._sessions[name], self._texts[text]
                hits.append(
                    SearchHit(session=name, entry=stored.read(index), place=stored.place(index), score=score)
                )
            return hits

    def _index_words(self, name: str, stored: _Session) -> None:
        """Index the texts of a session that came since."""
        for index in range(stored.searchable, len(stored.entries)):
            if text := stored.entries[index].text:
                self._words.add(text, name)
                self._texts.append(index)
        stored.searchable = len(stored.entries)

    def note(self, key: str) -> str | None:
        """Return the value that was noted last for a key, or None."""
        with self._hold_lock():
            return self._notes.get(key)

    def put_note(self, key: str, value: str) -> None:
        """Set the value of a key."""
        with self._hold_lock():
            self._notes[key] = value

    def notes(self, start: str) -> dict[str, str]:
        """Return the notes whose keys start so."""
        with self._hold_lock():
            return {key: value for key, value in self._notes.items() if key.startswith(start)}

    def claim(self, session: str, *, holder: str, seconds: float) -> Lease | None:
        """Lease a session, or renew the lease of the same holder; None while another holder has it."""
        with self._hold_lock():
            return self._leases.claim(session, holder=holder, seconds=seconds)

    def release(self, lease: Lease) -> None:
        """End a lease."""
        with self._hold_lock():
            self._leases.release(lease)

    def offer(self, session: str) -> None:
        """Add a session to the queue of those that need work, unless it is in there."""
        with self._hold_lock():
            self._leases.offer(session)

    def take(self, *, holder: str, seconds: float) -> Lease | None:
        """Remove the oldest session from the queue and lease it."""
        with self._hold_lock():
            return self._leases.take(holder=holder, seconds=seconds)

    # -- the whole store ---------------------------------------------------------------------------------

    def check(self) -> Iterator[Defect]:
        """Yield entries whose name does not match their content, or that do not stand behind their parent."""
        with self._hold_lock():
            copies = [(name, stored, len(stored.entries)) for name, stored in self._sessions.items()]
        for session, stored, count in copies:
            parents = ParentCheck()
            last: dict[int, Place] = {}
            for index in range(count):
                place, entry = stored.place(index), stored.read(index)
                wrong = parents.add(entry, place, last.get(place.line, stored.index.parents[place.line]))
                last[place.line] = place
                if not entry.sound:
                    wrong = f"entry {entry.name} does not match its name"
                if wrong:
                    yield Defect(session=session, what=wrong, seq=place.seq)

    def salvage(self) -> Iterator[tuple[str, Place, Entry]]:
        """Yield every entry with its session and place, in the order it was stored."""
        with self._hold_lock():
            all_now = [(name, stored, range(len(stored.entries))) for name, stored in self._sessions.items()]
        return ((name, each.place(at), each.read(at)) for name, each, indexes in all_now for at in indexes)

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._open = False
            self._sessions.clear()
            self._located.clear()
