"""Copy a damaged store into a new one, as far as it can be read: every entry of every branch, under its name.

Entries keep their names, so everything that names one still finds it. A lost message leaves a gap; what came
after it stands behind the gap. The head goes to its old place if the view there can still be read, else
before the first lost message; `recall` and names still find what stands behind it. Notes and leases are not
copied.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from refold.core.log.entries import ROOT, SAID, Entry
from refold.core.log.view import MessageRange
from refold.errors import StoreError
from refold.stores import START, Head, Place, SessionInfo, Store
from refold.stores.reading.stored_views import read_view

BATCH_ENTRIES: Final = 1_000
BATCH_CHARACTERS: Final = 8_000_000
"""Entries are written in batches of this size: larger ones need more memory, smaller ones take longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedSession:
    """Result of copying one session."""

    session: str
    entries: int
    """Copied entries, on all branches."""
    lost: int | None
    """Entries that were stored once and cannot be read; None if the store does not tell any more."""
    said: int
    """Messages on the path to the head."""
    note: str = ""
    """The new place of the head and the reason; "" if the head did not move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvageReport:
    """Result of copying a store."""

    sessions: tuple[CopiedSession, ...]
    stopped: str = ""
    """The error that stopped reading before the end; "" if everything was read."""

    @property
    def entries(self) -> int:
        """Number of copied entries."""
        return sum(copied.entries for copied in self.sessions)

    @property
    def whole(self) -> bool:
        """True if nothing was left out."""
        return not self.stopped and all(copied.lost == 0 and not copied.note for copied in self.sessions)


def salvage(source: Store, target: Store, *, tell: Callable[[int], None] | None = None) -> SalvageReport:
    """Copy everything that can be read into another, empty store; the source stays as it is.

    tell   called now and then with the number of entries copied so far
    """
    if target.sessions():
        raise StoreError(f"{target.address} has sessions already: salvage into a new store")
    infos: dict[str, SessionInfo] = {}
    with suppress(StoreError):  # entries may be readable although the list of sessions is not
        infos = {info.name: info for info in reversed(source.sessions())}  # keeps the order of changes
    copies = {session: _Copy(source, target, session) for session in infos}
    stopped = ""

    def read_all() -> Iterator[tuple[str, Place, Entry]]:
        nonlocal stopped
        try:
            yield from source.salvage()
        except StoreError as error:  # of the source only: an error of the target is the caller's
            stopped = str(error)

    waiting = size = 0
    for done, (session, place, entry) in enumerate(read_all(), 1):
        if session not in copies:
            copies[session] = _Copy(source, target, session)
        copies[session].take(place, entry)
        waiting, size = waiting + 1, size + len(entry.body) + len(entry.text)
        if waiting >= BATCH_ENTRIES or size >= BATCH_CHARACTERS:
            for copy in copies.values():
                copy.write()
            waiting = size = 0
            if tell is not None:
                tell(done)
    copied = tuple(copy.finish(infos.get(session)) for session, copy in copies.items())
    return SalvageReport(sessions=copied, stopped=stopped)


class _End(NamedTuple):
    """The last copied entry of a line."""

    place: Place
    message: str
    """Name of the last message on the path to it."""


class _Copy:
    """One session on its way into the new store."""

    def __init__(self, source: Store, target: Store, session: str) -> None:
        self.session = session
        self._source = source
        self._target = target
        self._head: Head | None = None
        self._ends: dict[int, _End] = {}
        self._waiting: list[Entry] = []
        self._line = 0
        """Line of the waiting entries."""
        self._seqs = array("Q")
        self._lines = array("Q")
        """For each entry of the new store, whose numbers grow by one, its old number and its new line."""
        self._gap = False

    def take(self, place: Place, entry: Entry) -> None:
        """Take the next entry; one whose name does not match its content is left out."""
        if not entry.sound:
            return
        if self._waiting and place.line != self._line:
            self.write()
        if place.line not in self._ends:
            self._ends[place.line] = self._begin_line(place, entry)
        end = self._ends[place.line]
        if entry.kind == "said":
            self._gap = self._gap or entry.parent != end.message
            self._ends[place.line] = end._replace(message=entry.name)
        self._line = place.line
        self._waiting.append(entry)
        self._seqs.append(place.seq)

    def write(self) -> None:
        """Write the waiting entries."""
        if not self._waiting:
            return
        end = self._ends[self._line]
        self._head = self._target.append(self.session, self._waiting, expect=self._head, at=end.place)
        self._ends[self._line] = end._replace(place=self._head.place)
        self._lines.extend([self._head.place.line] * len(self._waiting))
        self._waiting = []

    def _begin_line(self, place: Place, entry: Entry) -> _End:
        """Find where a line begins: behind the entry before it or, if that is lost, behind the parent."""
        name = entry.parent
        if place.line == 0:
            name = ROOT
        else:
            with suppress(StoreError):
                path = list(islice(self._source.read(self.session, place, newest=True), 2))
                name = path[1].name if len(path) > 1 else ROOT
        start = self._find_place(name)
        if start is None:
            self._gap = True
            return _End(START, ROOT)
        if start == START:
            return _End(start, ROOT)
        messages = self._target.read(self.session, start, kinds=SAID, newest=True)
        return _End(start, next((message.name for message in messages), ROOT))

    def _find_place(self, name: str) -> Place | None:
        return START if name == ROOT else self._target.find(self.session, [name]).get(name)

    def finish(self, info: SessionInfo | None) -> CopiedSession:
        """Write the rest and put the head in its place."""
        self.write()
        lost = None if info is None else max(0, info.entries - len(self._seqs))
        if not self._seqs and (lost or info is None):
            return CopiedSession(
                session=self.session, entries=0, lost=lost, said=0, note="nothing can be read"
            )
        place, note = self._choose_head()
        said = self._move_head(place)
        if self._gap and not self._is_view_complete():
            number, place = self._find_gap()
            said = self._move_head(place)
            note = f"message #{number} is lost: the head stands at #{said} now, recall finds the rest"
        return CopiedSession(session=self.session, entries=len(self._seqs), lost=lost, said=said, note=note)

    def _move_head(self, place: Place) -> int:
        self._head = self._target.append(self.session, [], expect=self._head, at=place)
        return self._head.said

    def _choose_head(self) -> tuple[Place, str]:
        """Return the old place of the head, or the nearest place that is left, and a note about it."""
        last = START if self._head is None else self._head.place
        head: Head | None = None
        with suppress(StoreError):
            head = self._source.head(self.session)
        if head is None:
            return last, "its head is lost: it stands at the last entry now"
        if head.place == START:
            return START, ""
        index = bisect_left(self._seqs, head.place.seq)
        if index < len(self._seqs) and self._seqs[index] == head.place.seq:
            return Place(self._lines[index], index + 1), ""
        near = self._ends.get(head.place.line)
        return near.place if near else last, "the entry at its head is lost: it stands at the one before now"

    def _is_view_complete(self) -> bool:
        """True if every message of the view at the head is there."""
        head = self._head
        if head is None or head.place == START:
            return True
        with suppress(StoreError):
            view = read_view(self._target, self.session, head)
            ranges = [item for item in view.items if isinstance(item, MessageRange)]
            return all(
                sum(1 for _ in self._read_messages(head, stretch.first, stretch.last))
                == stretch.last - stretch.first + 1
                for stretch in ranges
            )
        return False

    def _read_messages(self, head: Head, first: int = 0, last: int | None = None) -> Iterator[Entry]:
        return self._target.read(self.session, head.place, kinds=SAID, first=first, last=last)

    def _find_gap(self) -> tuple[int, Place]:
        """Return the number of the first lost message, and the place before it."""
        name, number = ROOT, 0
        for message in self._read_messages(self._head) if self._head else ():
            if message.said != number + 1 or message.parent != name:
                break
            name, number = message.name, message.said
        return number + 1, self._find_place(name) or START
