"""The log of one session: what its store has, and behind that what waits in memory while the store fails.

A store fails if its disk is full, its file is read-only, locked or deleted, or its server is away. `prepare`
and `observe` go on then: what they write waits here, is read as if it were stored, and is stored in the same
order as soon as the store works again. Every other call that writes raises the store's error, so that what
only waits is never acknowledged as stored.

A place with a negative line is one in memory.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final, NoReturn, TypeVar

from refold.core.log.entries import Entry, Kind
from refold.errors import (
    Conflict,
    LogCorrupt,
    LogTooNew,
    SessionNotFound,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReplaced,
    StoreUnsure,
)
from refold.stores import START, Head, Place, SearchHit, Store
from refold.stores.word_index import rank_with_newest

T = TypeVar("T")

_PAUSE: Final = 10.0
"""A store that failed after a wait is left alone for ten times that wait, so that a locked file or a server
that is away takes at most a tenth of the time."""
_GONE: Final = "it was deleted, or the store was replaced; open the session again"
_AT_ONCE: Final = 0.1
"""Seconds that are no wait: a full disk fails in a few milliseconds, and is tried in every call."""


@dataclass(slots=True)
class WaitingWrite:
    """One append that waits."""

    entries: list[Entry]
    at: Place | None
    """The place behind which it stands; None for the head."""
    places: list[Place]
    """The places of its entries in memory."""
    settle: Callable[[], Head | None] | None = None
    """Asks the store what became of it, if its answer was lost."""

    @property
    def messages(self) -> list[Entry]:
        """The messages among the entries, which stand behind each other."""
        return [entry for entry in self.entries if entry.kind == "said"]

    def replace_entries(self, entries: list[Entry]) -> None:
        """Wait with other entries, which stand behind something that others wrote."""
        self.entries = entries


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the store does not work."""

    error: StoreError
    retry_at: float
    """Before this time nobody waits for the store who can do without it."""
    reported: bool = False
    """True if listeners know of it."""


def is_outage(error: StoreError) -> bool:
    """True if a store may work again later, by itself or after somebody made room or brought a file back."""
    return not isinstance(error, Conflict | LogCorrupt | LogTooNew)


@dataclass(slots=True)
class SessionLog:
    """The log of one session, with the calls of a store; used under the lock of the session."""

    store: Store
    clock: Callable[[], float] = time.monotonic
    failure: Failure | None = None
    """Why the store does not work; None if it does."""
    closed: bool = False
    """True if the session was closed: nothing may wait any more."""
    _may_wait: bool = False
    _known: Head | None = None
    """The head in the store, as far as it is known."""
    _is_known: bool = False
    _in_place: bool = True
    """True if everything that waits was written behind the known head."""
    _head: Head | None = None
    """The head in memory."""
    writes: list[WaitingWrite] = field(default_factory=list)
    """What waits, in order."""
    _entries: dict[Place, tuple[Entry, Place]] = field(default_factory=dict)
    """The entries in memory, each with the place before it."""
    _last_seq: int = 0
    _stored: dict[Place, Place] = field(default_factory=dict)
    """Places in the store of entries that were in memory."""
    _notes: dict[str, str] = field(default_factory=dict)

    @property
    def unsaved(self) -> int:
        """Number of entries that are only in memory."""
        return sum(len(write.entries) for write in self.writes)

    @property
    def unsaved_messages(self) -> int:
        """Number of messages that are only in memory."""
        return sum(len(write.messages) for write in self.writes)

    @property
    def explanation(self) -> str:
        """What is not stored, and why; "" if the store works."""
        if self.failure is None:
            return ""
        count = self.unsaved_messages
        waits = "1 message waits" if count == 1 else f"{count:,} messages wait"
        return f"the store fails, {waits} in memory: {self.failure.error}"

    @property
    def may_try(self) -> bool:
        """True unless the store has just failed after a long wait."""
        return self.failure is None or self.clock() >= self.failure.retry_at

    def run_in_memory(self, call: Callable[[], T]) -> T:
        """Make a call whose writes may wait in memory if the store fails."""
        self._may_wait = not self.closed
        try:
            return call()
        finally:
            self._may_wait = False

    def note_failure(self, error: StoreError, seconds: float = 0.0) -> None:
        """Remember that the store failed, after so many seconds."""
        reported = self.failure is not None and self.failure.reported
        pause = _PAUSE * seconds if seconds > _AT_ONCE else 0.0
        self.failure = Failure(error, self.clock() + pause, reported)

    def report(self) -> bool:
        """Note that listeners are told of the failure now; False if they know of it."""
        if self.failure is None or self.failure.reported:
            return False
        self.failure = replace(self.failure, reported=True)
        return True

    def go_on_without(self, error: StoreError) -> bool:
        """Go on from what is in memory, though others may have written; False if the call at hand may not."""
        if not self._may_wait or not is_outage(error):
            return False
        if self.failure is None:  # a read may fail at its second page
            self.note_failure(error)
        self._in_place = False
        return True

    def begin_again(self, error: StoreError) -> None:
        """Begin with an empty history, because the store cannot be read: it is compared by names later."""
        if self.failure is None:
            self.note_failure(error)
        self._head, self._in_place = None, False
        if not self.writes:
            self._known, self._is_known = None, True

    def close(self) -> None:
        """Let nothing wait any more; raises the store's error if something does."""
        was_closed, self.closed = self.closed, True
        if self.writes and not was_closed:
            self._raise_failure("closed, though not everything is stored: ")

    def _raise_failure(self, what: str = "") -> NoReturn:
        error = None if self.failure is None else self.failure.error
        kind = type(error) if isinstance(error, StoreFull | StoreBusy | StoreReplaced) else StoreError
        raise kind(f"{what}{self.explanation}") from error

    def _ask_store(self, call: Callable[[], T], go_on: Callable[[StoreError], T] | None = None) -> T:
        """Call the store; if it fails and the caller may go on without it, return what `go_on` returns."""
        started = self.clock()
        may_try = self.failure is None or not self._may_wait or self.may_try
        try:
            return call() if may_try else self._raise_failure()
        except StoreError as caught:
            error = caught
            if isinstance(caught, SessionNotFound) and self._known is not None:
                error = StoreReplaced(f"{caught} in {self.store.address} any more: {_GONE}")
            if not self._may_wait or not is_outage(error):
                raise error from None
            if may_try:
                self.note_failure(error, self.clock() - started)
            if go_on is None:
                raise error from None
            return go_on(error)

    # -- the calls of a store ----------------------------------------------------------------------------

    def head(self, session: str) -> Head | None:
        """Return the end of the branch: in memory while something waits, else in the store."""
        if self.writes:
            return self._head

        def use_known(error: StoreError) -> Head | None:
            if not self._is_known:
                raise error
            return self._known

        return self._ask_store(lambda: self._read_head(session), use_known)

    def _read_head(self, session: str) -> Head | None:
        head, known = self.store.head(session), self._known
        if known is not None and known != head:
            # An entry stays as long as its session: without that of the known head this is another one.
            names = [known.name] if known.name else []
            if head is None or len(self.store.find(session, names)) < len(names):
                raise StoreReplaced(f"session {session!r} is gone from {self.store.address}: {_GONE}")
        self._known, self._is_known = head, True
        return head

    def append(
        self,
        session: str,
        entries: Sequence[Entry],
        *,
        expect: Head | None,
        at: Place | None = None,
        fence: int | None = None,
    ) -> Head:
        """Append to the store; if it fails and the caller may go on, in memory."""
        if self.writes or not self._in_place:
            if not self._may_wait:
                self._raise_failure()
            return self._keep(session, entries, expect, at)

        def write() -> Head:
            place = None if at is None else self._stored.get(at, at)
            head = self.store.append(session, entries, expect=expect, at=place, fence=fence)
            self._known, self._is_known = head, True
            if self.failure is not None and not self.failure.reported:
                self.failure = None
            return head

        return self._ask_store(write, lambda error: self._keep(session, entries, expect, at, error))

    def append_at_once(
        self, session: str, entries: Sequence[Entry], *, at: Place | None = None, **where: Any
    ) -> Head | None:
        """Append to the store if that waits for nobody; None if it might, or did not succeed.

        Only the store's own class is asked: one that stands around another store may wait for more, and so
        may an `append` that somebody has put in the place of its own.
        """
        write = getattr(type(self.store), "append_at_once", None)
        if write is None or "append" in getattr(self.store, "__dict__", ()):
            return None
        if self.writes or not self._in_place or self.failure is not None:
            return None
        place = None if at is None else self._stored.get(at, at)
        try:
            head: Head | None = write(self.store, session, entries, at=place, **where)
        except StoreError:  # `append` meets it again, and knows what to do
            return None
        if head is not None:
            self._known, self._is_known = head, True
        return head

    def _keep(
        self,
        session: str,
        entries: Sequence[Entry],
        expect: Head | None,
        at: Place | None,
        error: StoreError | None = None,
    ) -> Head:
        """Keep a write in memory and return the head behind it."""
        if not self.writes:
            self._known, self._is_known = expect, True
        place = (START if expect is None else expect.place) if at is None else at
        goes_on = bool(self.writes) and self._head is not None and place == self._head.place
        if self.writes and not goes_on:
            at = place
        # A line of its own for each branch, as in a store.
        line = place.line if goes_on and place.line < 0 else -1 - self._last_seq
        places = []
        for entry in entries:
            self._last_seq += 1
            behind, place = place, Place(line, self._last_seq)
            self._entries[place] = (entry, behind)
            places.append(place)
        last = entries[-1] if entries else next(self.read(session, place, newest=True), None)
        self._head = Head(
            place=place,
            name=last.name if last else "",
            said=last.said if last else 0,
            version=1 + max(head.version if head else 0 for head in (self._head, expect)),
        )
        settle = error.settle if isinstance(error, StoreUnsure) else None
        if at is None and goes_on and self.writes[-1].settle is None:
            self.writes[-1].entries += entries
            self.writes[-1].places += places
        else:
            self.writes.append(WaitingWrite(list(entries), at, places, settle))
        return self._head

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
        """Iterate over the entries on the path to a place, in the store and then in memory."""
        waiting: list[Entry] = []
        while place in self._entries:
            entry, place = self._entries[place]
            waiting.append(entry)
        place = self._stored.get(place, place)
        said = 0 if not waiting else waiting[-1].said - (waiting[-1].kind == "said")
        here = [
            entry
            for entry in (waiting if newest else reversed(waiting))
            if (kinds is None or entry.kind in kinds)
            and first <= entry.said
            and (last is None or entry.said <= last)
        ]

        def read_stored() -> Iterator[Entry]:
            # A store that may not answer is not asked for what is in memory alone.
            if waiting and (place == START or first > said):
                return
            yield from self._ask_store(
                lambda: self.store.read(session, place, kinds=kinds, first=first, last=last, newest=newest)
            )

        return chain(here, read_stored()) if newest else chain(read_stored(), here)

    def find(self, session: str, names: Sequence[str]) -> dict[str, Place]:
        """Find entries by name on all branches, in the store and in memory."""
        wanted = frozenset(names)
        here = {entry.name: place for place, (entry, _) in self._entries.items() if entry.name in wanted}
        return self._ask_store(lambda: self.store.find(session, names)) | here

    def search(
        self, query: str, *, session: str | None = None, limit: int = 10, some: bool = False
    ) -> list[SearchHit]:
        """Search the store and what waits in memory."""
        newest = [
            SearchHit(session=session or "", entry=entry, place=place, score=0.0)
            for place, (entry, _) in self._entries.items()
            if entry.text and place not in self._stored
        ]
        hits = self.store.search(query, session=session, limit=limit, some=some)
        return rank_with_newest(query, newest, hits, limit=limit, some=some)

    def note(self, key: str) -> str | None:
        """Return the value that was noted last for a key; None if there is none, or the store fails."""
        if key in self._notes:
            return self._notes[key]
        return self._ask_store(lambda: self.store.note(key), lambda _error: None)

    def put_note(self, key: str, value: str) -> None:
        """Set the value of a key, now or when the store works again."""
        self._ask_store(
            lambda: self.store.put_note(key, value), lambda _error: self._notes.update({key: value})
        )

    def offer(self, session: str) -> None:
        """Add a session to the queue; while the store fails there is no queue."""
        self._ask_store(lambda: self.store.offer(session), lambda _error: None)

    # -- catching up -------------------------------------------------------------------------------------

    def catch_up(self, session: str) -> Head | None:
        """Store everything that waits, as it was written; returns the head of it, None if nothing waited.

        Raises what the store raises, and the rest goes on waiting. Raises `Conflict` if others wrote
        meanwhile, or if nobody knows what was stored before.
        """
        started = self.clock()
        try:
            for key in list(self._notes):
                self.store.put_note(key, self._notes[key])
                del self._notes[key]
            head = self._read_head(session) if not self.writes else None
            if len(self.writes) == 1 and self._known is None and not self._in_place:
                # Nothing is there to be compared with. Several writes may repeat each other's messages.
                self._in_place = self.store.head(session) is None
            while self.writes:
                if not self._in_place:
                    raise Conflict(None, None)  # noqa: TRY301  # as if the store had found it out
                head = self._known = self._store_write(session, self.writes[0])
                del self.writes[0]
        except Conflict:
            self._in_place = False
            raise
        except StoreError as error:
            self.note_failure(error, self.clock() - started)
            raise
        moved = self._head is not None
        self.clear()
        return head if moved else None

    def clear(self) -> None:
        """Forget what waited: it is stored, and the store works."""
        self.writes, self._entries = [], {}
        self.failure, self._head, self._in_place = None, None, True

    def _store_write(self, session: str, write: WaitingWrite) -> Head:
        """Store a write, unless it is stored already and only its answer was lost."""
        head = None if write.settle is None else write.settle()
        write.settle = None
        if head is None:
            at = None if write.at is None else self._stored.get(write.at, write.at)
            try:
                head = self.store.append(session, write.entries, expect=self._known, at=at)
            except StoreUnsure as error:
                write.settle = error.settle
                raise
        for number, place in enumerate(write.places, head.place.seq - len(write.entries) + 1):
            self._stored[place] = Place(head.place.line, number)
        return head
