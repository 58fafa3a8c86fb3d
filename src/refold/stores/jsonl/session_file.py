"""The file of one session, and an index of its rows in memory that grows with the file.

The rows of one append end with a row that holds the head. Rows behind the last such row were not written
completely: readers skip them and the next writer cuts them off. If one of them is damaged rather than cut
short, it may have been confirmed to a caller; then nothing is cut off and the session reports the damage.
The last head is written into another, small file as well (`end_file`).
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

from refold.core.log.entries import AS_WRITTEN, NORMALISED, Entry, bare_name
from refold.errors import Conflict, LogCorrupt, StoreError, StoreReplaced
from refold.stores import START, Head, Place, SessionInfo
from refold.stores.branch_index import BranchIndex, Extent
from refold.stores.disk import create_file, identify, lock, map_errors, open_file, sync_folder, write_at_end
from refold.stores.jsonl.end_file import end_path, write_end
from refold.stores.jsonl.rows import (
    FORMAT,
    Row,
    entry_to_json,
    format_row,
    has_known_kind,
    parse_outline,
    parse_row,
    read_rows,
    refuse_newer,
    to_entry,
)
from refold.stores.paths import require_head

_PAGE_ENTRIES: Final = 256
"""Entries that a reader holds at a time: a few megabytes of usual messages."""
_SEQ_BITS: Final = 40
"""A place is packed into one number, 40 bits for its seq: less memory than a tuple, for 10^12 entries."""
_EDGE_BYTES: Final = 1 << 16
"""Bytes in which the first and the last row are searched; a longer row only makes the list slower."""
_NO_FILE: Final = (0, 0, b"")
_SPAN_BYTES: Final = 1 << 20
"""Bytes that are read with one call if they hold the entries of a page."""


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
        self.index = BranchIndex()
        self.damaged: list[int] = []
        """Numbers of damaged rows."""
        self._unsure = 0
        """Number of a damaged row behind the last head; 0 for none."""
        self._names: dict[int | str, int] = {}
        self._good = 0
        self._rows = 0
        self._identity = _NO_FILE
        self._folder_synced = False

    # -- following the file ------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Read what other processes wrote; False if there is no file."""
        with map_errors(self.path):
            try:
                with open_file(self.path) as file:
                    self._follow(file)
                    if self._unsure:  # perhaps somebody is writing: look again when nobody is
                        lock(file, self.path, shared=True)
                        self._follow(file)
            except FileNotFoundError:
                self._forget()
                return False
        return True

    def _follow(self, file: int) -> None:
        """Read the rows behind the last known head."""
        if identify(file, self._good) != self._identity:
            self._forget()
        self._unsure = 0
        if os.fstat(file).st_size == self._good:
            return
        waiting: list[Row] = []
        for row in read_rows(file, self._good, self._rows + 1, parse=parse_outline):
            if row.number == 1 and row.terminated and not row.has("head"):
                self._take_first_row(row)
            elif row.terminated and row.has("head"):
                self._take_append(waiting, row)
                waiting = []
            else:
                waiting.append(_keep_outline(row))
        self._unsure = next((row.number for row in waiting if row.value is None and row.terminated), 0)
        if waiting and waiting[-1].has("head"):
            self._unsure = waiting[-1].number
        self._identity = identify(file, self._good)

    def _take_first_row(self, row: Row) -> None:
        if row.value is None or "refold" not in row.value:
            self.damaged.append(row.number)
        else:
            refuse_newer(row.value, self.path)
            self.session = row.value.get("session")
            self.created = row.value.get("created", 0.0)
        self._good, self._rows = row.end, row.number

    def _take_append(self, waiting: Iterable[Row], end: Row) -> None:
        """Add the entries of one append to the index and move the head."""
        value: dict[str, Any] = end.value or {}
        blame = self.damaged[-1] if self.damaged else 0
        for row in waiting:
            if row.value is None:
                blame = row.number
                self.damaged.append(row.number)
                continue
            place, behind = Place(*row.value["place"]), Place(*row.value["behind"])
            kind, said = row.value["kind"], row.value["said"]
            self.index.add(place, behind, kind, said, row.at, size=row.size, blame=blame)
            self._names.setdefault(_compact_name(row.value["name"]), place.line << _SEQ_BITS | place.seq)
        if value["wrote"]:
            self.index.extend_to(Place(*value["wrote"]), blame=blame)
        place = Place(*value["head"])
        self.head = Head(place=place, name=value["name"], said=value["said"], version=value["version"])
        self.changed = value["at"]
        self._good, self._rows = end.end, end.number

    # -- asking ------------------------------------------------------------------------------------------

    def require_sure_head(self) -> Head | None:
        """Return the head; raises `LogCorrupt` if a later one may be lost."""
        if self._unsure:
            number = self._unsure
            raise LogCorrupt(
                f"{self.path}, line {number}: damaged, and the session's head with it: salvage what is left",
                line=number,
            )
        return self.head

    def walk(self, place: Place, **filters: Any) -> Iterator[Extent]:
        """Iterate over where the entries on a path are kept; raises `LogCorrupt` if some are damaged."""
        try:
            return self.index.walk(place, **filters)
        except LogCorrupt:
            raise
        except StoreError:
            raise self._missing(place) from None

    def _missing(self, place: Place) -> StoreError:
        if not self.damaged or place.seq > self.index.last_seq:
            return StoreError(f"there is no entry at {tuple(place)} in this session")
        return self._damaged_row(self.damaged[-1])

    def _damaged_row(self, number: int) -> LogCorrupt:
        return LogCorrupt(f"{self.path}, line {number}: damaged: salvage what is left", line=number)

    def info(self) -> SessionInfo | None:
        """Return the summary of the session; None if nothing was ever stored or its name is lost."""
        if self.head is None or self.session is None:
            return None
        return SessionInfo(
            name=self.session,
            said=self.head.said,
            entries=self.index.last_seq,
            created=self.created,
            changed=self.changed,
        )

    def find(self, names: Sequence[str]) -> dict[str, Place]:
        """Find entries by name."""
        places = {}
        for name in names:
            packed = self._names.get(_compact_name(name))
            if packed is not None:
                places[name] = Place(packed >> _SEQ_BITS, packed & (1 << _SEQ_BITS) - 1)
        return places

    def entries(
        self, extents: Iterator[Extent], require_open: Callable[[], None] = lambda: None
    ) -> Iterator[Entry]:
        """Read the entries at these extents, page by page."""
        while page := list(islice(extents, _PAGE_ENTRIES)):
            require_open()
            with map_errors(self.path), open_file(self.path) as file:
                lines = _read_extents(file, page)
            for extent, line in zip(page, lines, strict=True):
                value = parse_row(line)
                if value is None:
                    with open_file(self.path) as file:
                        number = next((row.number for row in read_rows(file) if row.at >= extent.at), 0)
                    raise self._damaged_row(number)
                yield to_entry(value)

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
        """Add entries and move the head, under the lock of the file."""
        known = self._identity
        if not self.path.exists():
            if expect is not None and known != _NO_FILE:
                raise self._replaced()
            require_head(expect, None)
            first = format_row({"refold": FORMAT, "session": session, "created": now})
            create_file(self.path, first, put=os.link)
        with map_errors(self.path), open_file(self.path, write=True) as file:
            lock(file, self.path)
            self._follow(file)
            is_other = known != _NO_FILE and known[:2] != self._identity[:2]
            if expect is not None and (is_other or not os.fstat(file).st_nlink):
                raise self._replaced()
            if not os.fstat(file).st_nlink:  # deleted while this waited
                raise Conflict(None, None)
            require_head(expect, self.require_sure_head())
            place = at if at is not None else self.head.place if self.head else START
            if place not in self.index:
                raise self._missing(place)
            content = b"".join(self._format_append(entries, place, now))
            if sync and not self._folder_synced:  # the process that created the file may have died before
                sync_folder(self.path.parent)
                self._folder_synced = True
            try:
                write_at_end(file, self.path, self._good, content, sync=sync)
            except BaseException:
                self._forget()  # nobody knows what the file holds until it is read again
                raise
            self._follow(file)
            if self.head is None:
                raise StoreError(f"{self.path}: what was written is not there: the disk lost a write")
            write_end(self.path, self.head)
        return self.head

    def delete(self) -> int | None:
        """Delete the file under its lock and return its size; None if there is none."""
        with map_errors(self.path), suppress(FileNotFoundError), open_file(self.path, write=True) as file:
            lock(file, self.path)
            end_path(self.path).unlink(missing_ok=True)
            self.path.unlink()
            sync_folder(self.path.parent)
            self._forget()
            return os.fstat(file).st_size
        return None

    def _replaced(self) -> StoreReplaced:
        what = f"{self.path} was deleted or replaced while it was open, nothing was written"
        return StoreReplaced(f"{what}: open the store again")

    def _format_append(self, entries: Sequence[Entry], place: Place, now: float) -> Iterator[bytes]:
        """Format the rows of one append: its entries, then the new head."""
        line = self.index.line_behind(place)
        name, said = "", 0
        if self.head is not None and self.head.place == place:
            name, said = self.head.name, self.head.said
        elif place != START:
            (entry,) = self.entries(iter([self.index.locate(place)]))
            name, said = entry.name, entry.said
        seq = self.index.last_seq
        for entry in entries:
            seq += 1
            behind, place = place, Place(line, seq)
            name, said = entry.name, entry.said
            yield format_row(entry_to_json(entry, place, behind))
        yield format_row(
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


def peek_info(path: Path) -> SessionInfo | None:
    """Read a session's summary from the first and the last row of its file; None if it is not there."""
    first = last = b""
    with map_errors(path), suppress(FileNotFoundError), open_file(path) as file:
        size = os.fstat(file).st_size
        first = os.pread(file, _EDGE_BYTES, 0).partition(b"\n")[0]
        last = os.pread(file, _EDGE_BYTES, max(0, size - _EDGE_BYTES))
    value, end = parse_row(first), parse_row(last[:-1].rpartition(b"\n")[2])
    if last[-1:] != b"\n" or not value or not end or "session" not in value or "head" not in end:
        return None
    refuse_newer(value, path)
    return SessionInfo(
        name=value["session"],
        said=end["said"],
        entries=end["entries"],
        created=value["created"],
        changed=end["at"],
    )


def _compact_name(name: str) -> int | str:
    """Turn the name of an entry into the number that its hash is, which takes less memory; others stay."""
    try:
        number = int(bare_name(name), 16)
    except ValueError:
        return name
    for prefix, sign in ((NORMALISED, 1), (AS_WRITTEN, -1)):
        if name == f"{prefix}{number:040x}":
            return sign * number
    return name


def _keep_outline(row: Row) -> Row:
    """Drop what the index does not need, so that a long append waits in little memory for its last row."""
    if row.value is None:
        return row
    if "place" not in row.value or not has_known_kind(row.value):
        return row._replace(value=row.value if "head" in row.value else None)
    if "body" not in row.value:
        return row
    return row._replace(value={key: row.value[key] for key in ("place", "behind", "kind", "said", "name")})


def _read_extents(file: int, page: Sequence[Extent]) -> list[bytes]:
    first = min(extent.at for extent in page)
    last = max(extent.at + extent.size for extent in page)
    if last - first > _SPAN_BYTES:
        return [os.pread(file, extent.size, extent.at) for extent in page]
    block = os.pread(file, last - first, first)
    return [block[extent.at - first : extent.at - first + extent.size] for extent in page]
