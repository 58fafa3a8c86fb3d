"""One session's file and what is known of it: an index of offsets that grows with the file.

What one append wrote ends with a row that says where the head is. Rows behind the last such row were not
written to their end: readers skip them and the next writer cuts them off, unless one of them is damaged
rather than cut short. Then they may have been confirmed, so nothing is cut off and the session says so.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from refold.core.log.entries import Entry
from refold.errors import LogCorrupt, LogTooNew, StoreError
from refold.stores import START, Head, Info, Place
from refold.stores.disk import create, errors_of, lock, opened, sync_folder, write_behind
from refold.stores.jsonl.rows import (
    FORMAT,
    Row,
    entry_of,
    entry_to_json,
    from_row,
    known_kind,
    outline,
    rows,
    to_row,
)
from refold.stores.lines import Lines, Spot, same_head

_PAGE: Final = 256
_HASHED: Final = "b2:"
_SEQ_BITS: Final = 40
_EDGE: Final = 1 << 16
"""The first and the last row are looked for in so many bytes."""
_SPAN: Final = 1 << 20
"""Entries of a page that lie within so many bytes are read at once."""


class SessionFile:
    """The file of one session; holds no open file between calls."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._forget()

    def _forget(self) -> None:
        self.session: str | None = None
        self.created = 0.0
        self.changed = 0.0
        self.head: Head | None = None
        self.lines = Lines()
        self.damaged: list[int] = []
        """Numbers of damaged rows."""
        self._unsure = 0
        """Number of a damaged row behind the last head."""
        self._names: dict[int | str, int] = {}
        self._good = 0
        self._rows = 0
        self._identity = (0, 0)
        self._named = False
        """Whether the name of the file is known to be durable."""

    # -- following the file ------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """See what others wrote; False where there is no file."""
        with errors_of(self.path):
            try:
                with opened(self.path) as file:
                    self._follow(file)
                    if self._unsure:  # perhaps somebody is writing: look again when nobody is
                        lock(file, self.path, shared=True)
                        self._follow(file)
            except FileNotFoundError:
                self._forget()
                return False
        return True

    def _follow(self, file: int) -> None:
        status = os.fstat(file)
        identity = (status.st_dev, status.st_ino)
        if identity != self._identity or status.st_size < self._good:
            self._forget()
            self._identity = identity
        self._unsure = 0
        if status.st_size == self._good:
            return
        waiting: list[Row] = []
        for row in rows(file, self._good, self._rows + 1, read=outline):
            if row.number == 1 and row.whole and not row.is_a("head"):
                self._begin(row)
            elif row.whole and row.is_a("head"):
                self._take(waiting, row)
                waiting = []
            else:
                waiting.append(row if row.value is None else _slim(row))
        self._unsure = next((row.number for row in waiting if row.value is None and row.whole), 0)
        if waiting and waiting[-1].is_a("head"):
            self._unsure = waiting[-1].number

    def _begin(self, row: Row) -> None:
        if row.value is None or "refold" not in row.value:
            self.damaged.append(row.number)
        else:
            refuse_newer(row.value, self.path)
            self.session = row.value.get("session")
            self.created = row.value.get("created", 0.0)
        self._good, self._rows = row.end, row.number

    def _take(self, waiting: Iterable[Row], end: Row) -> None:
        """Take in what one append wrote."""
        value: dict[str, Any] = end.value or {}
        blame = self.damaged[-1] if self.damaged else 0
        for row in waiting:
            if row.value is None:
                blame = row.number
                self.damaged.append(row.number)
                continue
            place, behind = Place(*row.value["place"]), Place(*row.value["behind"])
            spot = Spot(row.at, row.size)
            self.lines.add(place, behind, row.value["kind"], row.value["said"], spot, blame=blame)
            self._names.setdefault(_key(row.value["name"]), _packed(place))
        if value["wrote"]:
            self.lines.reach(Place(*value["wrote"]), blame=blame)
        self.head = _head_of(value)
        self.changed = value["at"]
        self._good, self._rows = end.end, end.number

    # -- asking ------------------------------------------------------------------------------------------

    def sure_head(self) -> Head | None:
        """The head; `LogCorrupt` where the file does not tell."""
        if self._unsure:
            number = self._unsure
            raise LogCorrupt(
                f"{self.path}, line {number}: damaged, and the session's head with it: salvage what is left",
                line=number,
            )
        return self.head

    def walk(self, place: Place, **filters: Any) -> Iterator[Spot]:
        """Where the entries on a path are kept; `LogCorrupt` where some of them are damaged."""
        try:
            return self.lines.walk(place, **filters)
        except LogCorrupt:
            raise
        except StoreError:
            raise self._missing(place) from None

    def _missing(self, place: Place) -> StoreError:
        if not self.damaged or place.seq > self.lines.last_seq:
            return StoreError(f"nothing stands at {tuple(place)} in this session")
        number = self.damaged[-1]
        return LogCorrupt(f"{self.path}, line {number}: damaged: salvage what is left", line=number)

    def info(self) -> Info | None:
        """The session in a list; None where nothing was ever stored or its name is lost."""
        if self.head is None or self.session is None:
            return None
        return Info(
            name=self.session,
            said=self.head.said,
            entries=self.lines.last_seq,
            created=self.created,
            changed=self.changed,
        )

    def find(self, names: Sequence[str]) -> dict[str, Place]:
        """Where entries of these names stand."""
        known = self._names
        return {name: _unpacked(known[key]) for name in names if (key := _key(name)) in known}

    def entries(self, spots: Iterator[Spot], alive: Callable[[], None] = lambda: None) -> Iterator[Entry]:
        """The entries that are kept in these spots, read in pages."""
        while page := list(islice(spots, _PAGE)):
            alive()
            with errors_of(self.path), opened(self.path) as file:
                lines = list(_lines(file, page))
            for spot, line in zip(page, lines, strict=True):
                yield self._entry(spot, line)

    def _entry(self, spot: Spot, line: bytes) -> Entry:
        value = from_row(line)
        if value is None:
            number = self._number(spot.at)
            raise LogCorrupt(f"{self.path}, line {number}: damaged: salvage what is left", line=number)
        return entry_of(value)

    def _number(self, at: int) -> int:
        """The number of the row at an offset."""
        with opened(self.path) as file:
            return next((row.number for row in rows(file) if row.at >= at), 0)

    # -- appending ---------------------------------------------------------------------------------------

    def append(
        self,
        session: str,
        entries: Sequence[Entry],
        *,
        expect: Head | None,
        at: Place | None,
        now: float,
        sync: bool,
    ) -> Head:
        """Add entries and move the head, under the file's lock."""
        if not self.path.exists():
            same_head(expect, None)
            create(self.path, to_row({"refold": FORMAT, "session": session, "created": now}), put=os.link)
        with errors_of(self.path), opened(self.path, write=True) as file:
            lock(file, self.path)
            self._follow(file)
            same_head(expect, self.sure_head())
            place = at if at is not None else self.head.place if self.head else START
            if place not in self.lines:
                raise self._missing(place)
            content = b"".join(self._batch(entries, place, now))
            if sync and not self._named:  # who made the file may have been stopped before this
                sync_folder(self.path.parent)
                self._named = True
            try:
                write_behind(file, self.path, self._good, content, sync=sync)
            except BaseException:
                self._forget()  # the file is read again before anything in it counts
                raise
            self._follow(file)
        if self.head is None:
            raise StoreError(f"{self.path}: what was written is not there: the disk does not keep its word")
        return self.head

    def _batch(self, entries: Sequence[Entry], place: Place, now: float) -> Iterator[bytes]:
        line = self.lines.line_behind(place)
        name, said = self._at(place)
        seq = self.lines.last_seq
        for entry in entries:
            seq += 1
            behind, place = place, Place(line, seq)
            name, said = entry.name, entry.said
            yield to_row(entry_to_json(entry, place, behind))
        yield to_row(
            {
                "head": place,
                "name": name,
                "said": said,
                "version": self.head.version + 1 if self.head else 1,
                "wrote": place if entries else None,
                "entries": seq,
                "at": now,
            }
        )

    def _at(self, place: Place) -> tuple[str, int]:
        if self.head is not None and self.head.place == place:
            return self.head.name, self.head.said
        if place == START:
            return "", 0
        (entry,) = self.entries(iter([self.lines.spot(place)]))
        return entry.name, entry.said


def peek(path: Path) -> Info | None:
    """The session of a file from its first and its last row; None where they do not tell."""
    with errors_of(path), opened(path) as file:
        size = os.fstat(file).st_size
        first = os.pread(file, _EDGE, 0).partition(b"\n")[0]
        last = os.pread(file, _EDGE, max(0, size - _EDGE))
    value, end = from_row(first), from_row(last[:-1].rpartition(b"\n")[2])
    if last[-1:] != b"\n" or not value or not end or "session" not in value or "head" not in end:
        return None
    refuse_newer(value, path)
    return Info(
        name=value["session"],
        said=end["said"],
        entries=end["entries"],
        created=value["created"],
        changed=end["at"],
    )


def _key(name: str) -> int | str:
    """A name in less memory: the number that its hash is."""
    try:
        number = int(name[len(_HASHED) :], 16)
    except ValueError:
        return name
    return number if name == f"{_HASHED}{number:040x}" else name


def _packed(place: Place) -> int:
    return place.line << _SEQ_BITS | place.seq


def _unpacked(number: int) -> Place:
    return Place(number >> _SEQ_BITS, number & (1 << _SEQ_BITS) - 1)


def refuse_newer(value: dict[str, Any], path: Path) -> None:
    """Leave a file alone that a newer version wrote."""
    if value.get("refold", FORMAT) > FORMAT:
        raise LogTooNew(f"{path} has version {value['refold']}, this refold knows {FORMAT}: upgrade refold")


def _slim(row: Row) -> Row:
    """A row without what the index does not need, so that a long append waits in little memory."""
    value = row.value or {}
    if "place" not in value or not known_kind(value):
        return row._replace(value=value if "head" in value else None)
    if "body" not in value:
        return row
    kept = {key: value[key] for key in ("place", "behind", "kind", "said", "name")}
    return row._replace(value=kept)


def _head_of(value: dict[str, Any]) -> Head:
    place = Place(*value["head"])
    return Head(place=place, name=value["name"], said=value["said"], version=value["version"])


def _lines(file: int, page: Sequence[Spot]) -> Iterator[bytes]:
    first = min(spot.at for spot in page)
    last = max(spot.at + spot.size for spot in page)
    if last - first <= _SPAN:
        block = os.pread(file, last - first, first)
        for spot in page:
            yield block[spot.at - first : spot.at - first + spot.size]
        return
    for spot in page:
        yield os.pread(file, spot.size, spot.at)
