"""A store copied into a new one, as far as it can be read: every entry of every branch, under its own name.

Entries keep their names, so everything that names one still finds it. A message that is lost leaves a gap;
what came after it stands behind the gap. The head goes where it was if the view there can still be read, else
before the first message that is lost; what stands behind is found by `recall` and by its name. Notes and
leases are not copied.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from refold.core.log.entries import MARKS, ROOT, SAID, Entry
from refold.core.log.view import Run, project_marks
from refold.errors import StoreError
from refold.stores import START, Head, Info, Place, Store

WAITING: Final = 1_000
"""Entries that wait to be written together: more needs more memory, fewer take longer."""
WAITING_CHARACTERS: Final = 8_000_000
_VIEW: Final = MARKS - {"usage", "attempt"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What became of one session."""

    session: str
    entries: int
    """Copied ones, on all branches."""
    lost: int | None
    """Entries that were stored once and cannot be read; None where the store no longer tells."""
    said: int
    """Messages on the way to the head."""
    note: str = ""
    """What is worth to be known about its head; empty where it stands where it stood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvaged:
    """What became of a store."""

    sessions: tuple[Copied, ...]
    stopped: str = ""
    """Why reading stopped before the end, if it did."""

    @property
    def entries(self) -> int:
        """How many entries were copied."""
        return sum(each.entries for each in self.sessions)

    @property
    def whole(self) -> bool:
        """Whether nothing was left out."""
        return not self.stopped and all(each.lost == 0 and not each.note for each in self.sessions)


def salvage(source: Store, target: Store, *, tell: Callable[[int], None] | None = None) -> Salvaged:
    """Copy everything that can be read into another store, in which nothing is yet; the first one stays.

    tell   is called now and then with the number of entries that were copied so far
    """
    if target.sessions():
        raise StoreError(f"{target.address} has sessions already: salvage into a new store")
    known = _infos(source)
    copies = {session: _Copy(source, target, session) for session in known}
    stops: list[str] = []
    waiting = size = 0
    for done, (session, place, entry) in enumerate(_rows(source, stops), 1):
        if session not in copies:
            copies[session] = _Copy(source, target, session)
        copies[session].take(place, entry)
        waiting, size = waiting + 1, size + len(entry.body) + len(entry.text)
        if waiting >= WAITING or size >= WAITING_CHARACTERS:
            for copy in copies.values():
                copy.write()
            waiting = size = 0
            if tell is not None:
                tell(done)
    ended = tuple(copy.end(known.get(session)) for session, copy in copies.items())
    return Salvaged(sessions=ended, stopped="".join(stops))


def _rows(source: Store, stops: list[str]) -> Iterator[tuple[str, Place, Entry]]:
    """What can be read, until nothing more can; then it says why."""
    try:
        yield from source.salvage()
    except StoreError as error:
        stops.append(str(error))


def _infos(source: Store) -> dict[str, Info]:
    """What the store still tells of its sessions, the one that changed last at the end."""
    with suppress(StoreError):
        return {info.name: info for info in reversed(source.sessions())}
    return {}


class _End(NamedTuple):
    """The last entry of a line that was copied."""

    place: Place
    message: str
    """Name of the last message on the way to it."""


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
        """The line of those that wait."""
        self._seqs = array("Q")
        self._lines = array("Q")
        """For each entry of the new store, whose numbers grow by one, its old number and its new line."""
        self._gap = False

    def take(self, place: Place, entry: Entry) -> None:
        """Take in the next entry; one that is not what its name says is left out."""
        if not entry.sound:
            return
        if self._waiting and place.line != self._line:
            self.write()
        if place.line not in self._ends:
            self._ends[place.line] = self._begin(place, entry)
        end = self._ends[place.line]
        if entry.kind == "said":
            self._gap = self._gap or entry.parent != end.message
            self._ends[place.line] = end._replace(message=entry.name)
        self._line = place.line
        self._waiting.append(entry)
        self._seqs.append(place.seq)

    def write(self) -> None:
        """Write those that wait."""
        if not self._waiting:
            return
        end = self._ends[self._line]
        self._head = self._target.append(self.session, self._waiting, expect=self._head, at=end.place)
        self._ends[self._line] = end._replace(place=self._head.place)
        self._lines.extend([self._head.place.line] * len(self._waiting))
        self._waiting = []

    def _begin(self, place: Place, entry: Entry) -> _End:
        """Where a line begins: behind the entry that stands before it, or else behind the parent."""
        name = self._before(place) if place.line else ROOT
        found = self._place(entry.parent if name is None else name)
        if found is None:
            self._gap = True
            return _End(START, ROOT)
        return _End(found, self._message(found))

    def _before(self, place: Place) -> str | None:
        """Name of the entry before this one; None where it cannot be told."""
        with suppress(StoreError):
            path = list(islice(self._source.read(self.session, place, newest=True), 2))
            return path[1].name if len(path) > 1 else ROOT
        return None

    def _place(self, name: str) -> Place | None:
        if name == ROOT:
            return START
        return self._target.find(self.session, [name]).get(name)

    def _message(self, place: Place) -> str:
        """Name of the last message on the way to a place."""
        if place == START:
            return ROOT
        found = self._target.read(self.session, place, kinds=SAID, newest=True)
        return next((one.name for one in found), ROOT)

    def end(self, info: Info | None) -> Copied:
        """Write the rest and put the head in its place."""
        self.write()
        lost = None if info is None else max(0, info.entries - len(self._seqs))
        if not self._seqs and (lost or info is None):
            return Copied(session=self.session, entries=0, lost=lost, said=0, note="nothing can be read")
        place, note = self._where()
        self._move(place)
        if self._gap and not self._shows():
            lost_number, place = self._before_the_gap()
            self._move(place)
            said = self._head.said if self._head else 0
            note = f"message #{lost_number} is lost: the head stands at #{said} now, recall finds the rest"
        said = self._head.said if self._head else 0
        return Copied(session=self.session, entries=len(self._seqs), lost=lost, said=said, note=note)

    def _move(self, place: Place) -> None:
        self._head = self._target.append(self.session, [], expect=self._head, at=place)

    def _where(self) -> tuple[Place, str]:
        """Where the head stood, or the nearest place that is left."""
        last = START if self._head is None else self._head.place
        try:
            head = self._source.head(self.session)
        except StoreError:
            head = None
        if head is None:
            return last, "its head is lost: it stands at the last entry now"
        if head.place == START:
            return START, ""
        index = bisect_left(self._seqs, head.place.seq)
        if index < len(self._seqs) and self._seqs[index] == head.place.seq:
            return Place(self._lines[index], index + 1), ""
        near = self._ends.get(head.place.line)
        return near.place if near else last, "the entry at its head is lost: it stands at the one before now"

    def _shows(self) -> bool:
        """Whether every message that the view at the head shows is there."""
        head = self._head
        if head is None or head.place == START:
            return True
        with suppress(StoreError):
            view = project_marks(self._target.read(self.session, head.place, kinds=_VIEW), head.said)
            runs = [piece for piece in view.pieces if isinstance(piece, Run)]
            return all(self._count(head, run) == run.last - run.first + 1 for run in runs)
        return False

    def _count(self, head: Head, run: Run) -> int:
        return sum(1 for _ in self._messages(head, run.first, run.last))

    def _messages(self, head: Head, first: int = 0, last: int | None = None) -> Iterator[Entry]:
        return self._target.read(self.session, head.place, kinds=SAID, first=first, last=last)

    def _before_the_gap(self) -> tuple[int, Place]:
        """The number of the first message that is lost, and the place before it."""
        name, number = ROOT, 0
        for one in self._messages(self._head) if self._head else ():
            if one.said != number + 1 or one.parent != name:
                break
            name, number = one.name, one.said
        return number + 1, self._place(name) or START
