"""Read the rows of a damaged SQLite file from its pages, without SQLite.

Knows the format of the file (sqlite.org/fileformat2.html), of a write-ahead log, and the shape of our rows.
Every row has a checksum and entries are never changed, so a row that is found on any page and whose checksum
is right is true, whatever became of the pages that led to it. A row is lost only with a page that it is on.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from refold.errors import LogCorrupt
from refold.stores.sqlite.driver import Row
from refold.stores.sqlite.rows import SessionRow, parse_entry_row, parse_session_row
from refold.stores.sqlite.schema import APPLICATION

_MAGIC: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100
_PAGE_BYTES: Final = 4096
"""Size of a page where the header of the file is damaged: SQLite's default, with which our files are made."""
_TABLE_LEAF: Final = 0x0D
_FRAME: Final = struct.Struct(">IIII8x")
"""Head of a frame of the log: page, size of the file if a transaction ends here, two salts, a checksum."""
_LOG_HEADER_BYTES: Final = 32
_COLUMNS: Final = 14
"""Columns of `entries` and of `sessions`; the first is the id, which stands beside the record."""
_INTEGERS: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
"""Bytes of an integer by its type in a record."""
_MOST_PAGES: Final = 4096
"""Pages that are looked at to tell a damaged store from a file of others; 16 MB of the usual size."""
_KEPT: Final[list[int]] = []
"""Files that were opened here. Closing one would drop the locks that SQLite holds on it in this process."""


class _Cell(NamedTuple):
    """Where a row is: its page, and its number there."""

    page: int
    number: int


class Pages:
    """The pages of a file, and those of its write-ahead log that are newer."""

    def __init__(self, path: str) -> None:
        self._file = _open(path)
        header = os.pread(self._file, _HEADER_BYTES, 0)
        self._size, reserved = _PAGE_BYTES, 0
        if header.startswith(_MAGIC) and len(header) == _HEADER_BYTES:
            self._size = int.from_bytes(header[16:18], "big")
            self._size = 65536 if self._size == 1 else self._size
            reserved = header[20]
        if self._size < 512 or self._size & (self._size - 1):  # no size that SQLite has
            self._size, reserved = _PAGE_BYTES, 0
        self._usable = self._size - reserved
        self.count = os.fstat(self._file).st_size // self._size
        self._log, self._newer = -1, dict[int, int]()
        if Path(f"{path}-wal").exists():
            self._log = _open(f"{path}-wal")
            self._newer = self._read_log()
        self.count = max([self.count, *self._newer])

    def _read_log(self) -> dict[int, int]:
        """Return where the newest version of each page is, up to the end of the last transaction."""
        salts = os.pread(self._log, _LOG_HEADER_BYTES, 0)[16:24]
        newer: dict[int, int] = {}
        waiting: dict[int, int] = {}
        at, step = _LOG_HEADER_BYTES, _FRAME.size + self._size
        size = os.fstat(self._log).st_size
        while at + step <= size and (frame := os.pread(self._log, _FRAME.size, at))[8:16] == salts:
            page, ends, _, _ = _FRAME.unpack(frame)
            waiting[page] = at + _FRAME.size
            if ends:
                newer |= waiting
                waiting = {}
            at += step
        return newer

    def read(self, page: int) -> bytes:
        """Return the content of a page; it is shorter at the end of a file that was cut."""
        if page in self._newer:
            return os.pread(self._log, self._size, self._newer[page])
        return os.pread(self._file, self._size, (page - 1) * self._size) if page > 0 else b""

    def read_cells(self, page: int) -> Iterator[tuple[_Cell, int, list[Any]]]:
        """Yield the rows on a page of a table, each with its id; what cannot be read is left out."""
        content = self.read(page)
        start = _HEADER_BYTES if page == 1 else 0
        if len(content) < self._size or content[start] != _TABLE_LEAF:
            return
        count = int.from_bytes(content[start + 3 : start + 5], "big")
        for number in range(min(count, self._size // 2)):
            try:
                yield (_Cell(page, number), *self._read_cell(content, start + 8 + 2 * number))
            except (IndexError, ValueError, struct.error):
                continue

    def _read_cell(self, content: bytes, pointer: int) -> tuple[int, list[Any]]:
        at = int.from_bytes(content[pointer : pointer + 2], "big")
        size, at = _read_varint(content, at)
        number, at = _read_varint(content, at)
        return number, _read_record(self._read_payload(content, at, size))

    def _read_payload(self, content: bytes, at: int, size: int) -> bytes:
        """Return the record of a row; a long one goes on in a chain of other pages."""
        usable = self._usable
        local = size
        if size > usable - 35:
            least = (usable - 12) * 32 // 255 - 23
            local = least + (size - least) % (usable - 4)
            local = local if local <= usable - 35 else least
        parts = [content[at : at + local]]
        left = size - local
        following = int.from_bytes(content[at + local : at + local + 4], "big") if left else 0
        seen: set[int] = set()
        while left > 0:
            page = self.read(following)
            if len(page) < self._size or following in seen:
                raise ValueError("a page of this row is missing")
            seen.add(following)
            parts.append(page[4 : 4 + min(left, usable - 4)])
            left -= len(parts[-1])
            following = int.from_bytes(page[:4], "big")
        return b"".join(parts)


class RescuedRows:
    """The rows of a store that are intact, found on its pages."""

    def __init__(self, path: str) -> None:
        self._pages = Pages(path)
        self._places: dict[int, _Cell] = {}
        self._sessions: dict[int, SessionRow] = {}
        for page in range(1, self._pages.count + 1):
            for cell, number, values in self._pages.read_cells(page):
                self._add(cell, number, values)

    def _add(self, cell: _Cell, number: int, values: list[Any]) -> None:
        if _is_intact_entry(values):
            self._places[number] = cell
        elif (session := _parse_session(number, values)) is not None:
            known = self._sessions.get(number)
            if known is None or known.version < session.version:
                self._sessions[number] = session

    @property
    def last_id(self) -> int:
        """The highest id of an entry."""
        return max(self._places, default=0)

    def session(self, number: int) -> SessionRow | None:
        """Return the row of a session, or None if it is lost."""
        return self._sessions.get(number)

    def entry(self, number: int) -> Row | None:
        """Return the columns of the entry with this id, or None if it is lost."""
        place = self._places.get(number)
        if place is None:
            return None
        cells = self._pages.read_cells(place.page)
        return next(_entry_columns(values) for cell, _, values in cells if cell == place)


def was_store(path: str) -> bool:
    """True if a file that SQLite cannot open was a store: by its header, or by one intact row."""
    try:
        pages = Pages(path)
    except OSError:
        return False
    if pages.read(1)[68:72] == APPLICATION.to_bytes(4, "big"):
        return True
    numbers = range(1, min(pages.count, _MOST_PAGES) + 1)
    return any(_is_intact_entry(values) for page in numbers for _, _, values in pages.read_cells(page))


def _open(path: str) -> int:
    file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    _KEPT.append(file)
    return file


def _entry_columns(values: list[Any]) -> Row:
    """Return the columns of an entry; SQLite keeps a whole number in a column of reals as an integer."""
    columns = values[1:]
    columns[6] = float(columns[6])
    return tuple(columns)


def _is_intact_entry(values: list[Any]) -> bool:
    if len(values) != _COLUMNS or values[0] is not None or not isinstance(values[1], int):
        return False
    try:
        return parse_entry_row(_entry_columns(values)).intact
    except (LogCorrupt, TypeError, ValueError):
        return False


def _parse_session(number: int, values: list[Any]) -> SessionRow | None:
    if len(values) != _COLUMNS or values[0] is not None or not isinstance(values[1], bytes):
        return None
    columns = [number, *values[1:-1]]
    try:
        columns[10:12] = map(float, columns[10:12])
        return parse_session_row(tuple(columns))
    except (LogCorrupt, TypeError, ValueError):
        return None


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    """Return a number of one to nine bytes, and where it ends."""
    value = 0
    for count in range(8):
        byte = content[at + count]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + count + 1
    return value << 8 | content[at + 8], at + 9


def _read_record(payload: bytes) -> list[Any]:
    """Return the values of a record; only records as long as ours are read."""
    length, at = _read_varint(payload, 0)
    types: list[int] = []
    while at < length:
        kind, at = _read_varint(payload, at)
        types.append(kind)
    if len(types) != _COLUMNS:
        raise ValueError("a row of another table")
    values: list[Any] = []
    for kind in types:
        size = _INTEGERS.get(kind, 8 if kind == 7 else max(0, kind - 12) // 2)
        values.append(_read_value(kind, payload[at : at + size]))
        at += size
    if at != len(payload):
        raise ValueError("the record is damaged")
    return values


def _read_value(kind: int, data: bytes) -> Any:
    if kind in _INTEGERS:
        return int.from_bytes(data, "big", signed=True)
    if kind == 7:
        return struct.unpack(">d", data)[0]
    if kind in (0, 8, 9):
        return {0: None, 8: 0, 9: 1}[kind]
    return data.decode() if kind % 2 else data
