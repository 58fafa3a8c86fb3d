"""A file of values by key (notes, leases): every change is one more row, and the last row of a key counts.

When most rows are out of date, a new file with the current values replaces the old one. A process that waited
for the lock of the old file notices and opens the new one.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from refold.errors import StoreError
from refold.stores.disk import create_file, identify, lock, map_errors, open_file, sync_folder, write_at_end
from refold.stores.jsonl.rows import FORMAT, Row, format_row, read_rows, refuse_newer

_SPARE: Final = 1_000
"""Out-of-date rows before the file is replaced: about 100 KB, which a process reads in milliseconds. Fewer
would replace it more often, more would make every opening slower."""


class KeyFile:
    """Values by key in one file."""

    def __init__(self, path: Path, *, sync: bool) -> None:
        self.path = path
        self.values: dict[str, Any] = {}
        self._sync = sync
        self._file: int | None = None
        self._clear()

    def _clear(self) -> None:
        self._identity = (0, 0, b"")
        self._good = 0
        self._rows = 0
        self._lead = b""
        """Line feed to write first, if the last row lost its own."""
        self._folder_synced = False
        self.values.clear()

    def refresh(self) -> None:
        """Read what other processes wrote."""
        with map_errors(self.path):
            try:
                with open_file(self.path) as file:
                    self._refresh(file)
            except FileNotFoundError:
                self._clear()

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Lock the file and read what others wrote; `put` works only inside of this context."""
        with ExitStack() as stack:
            with map_errors(self.path):
                self._file = self._lock_current(stack)
                self._refresh(self._file)
            try:
                yield
                if self._rows > _SPARE + 4 * len(self.values):
                    with suppress(StoreError):  # the old file is as good, only longer
                        self._replace()
            finally:
                self._file = None

    def _lock_current(self, stack: ExitStack) -> int:
        """Open and lock the file, again if another process replaced it while this one waited."""
        while True:
            if not self.path.exists():
                create_file(self.path, format_row({"refold": FORMAT}), put=os.link)
            with suppress(FileNotFoundError), ExitStack() as attempt:
                file = attempt.enter_context(open_file(self.path, write=True))
                lock(file, self.path)
                if os.path.samestat(os.fstat(file), self.path.stat()):
                    stack.push(attempt.pop_all())
                    return file

    def _replace(self) -> None:
        rows = [format_row({"key": key, "value": value}) for key, value in self.values.items()]
        create_file(self.path, b"".join([format_row({"refold": FORMAT}), *rows]))

    def remove(self, keys: Iterable[str]) -> None:
        """Remove keys, and every row that they ever had."""
        self.refresh()
        if here := self.values.keys() & set(keys):
            with self.hold_lock():
                for key in here:
                    self.values.pop(key, None)
                self._replace()

    def put(self, key: str, value: Any) -> None:
        """Write the value of a key; it counts once this returns."""
        if self._file is None:
            raise StoreError(f"{self.path} is not locked: nothing was written")
        row = self._lead + format_row({"key": key, "value": value})
        if self._sync and not self._folder_synced:  # the process that created the file may have died before
            with map_errors(self.path):
                sync_folder(self.path.parent)
            self._folder_synced = True
        try:
            write_at_end(self._file, self.path, self._good, row, sync=self._sync)
        except StoreError:
            self._clear()  # nobody knows what the file holds until it is read again
            raise
        self._good += len(row)
        self._identity = identify(self._file, self._good)
        self._lead = b""
        self._rows += 1
        self.values[key] = value

    def _refresh(self, file: int) -> None:
        if identify(file, self._good) != self._identity:
            self._clear()
        for row in read_rows(file, self._good, self._rows + 1):
            if row.terminated or row.value is not None:
                self._take_row(row)
        self._identity = identify(file, self._good)

    def _take_row(self, row: Row) -> None:
        if row.value is not None:
            refuse_newer(row.value, self.path)
            if "key" in row.value:
                self.values[row.value["key"]] = row.value["value"]
        # A row that only lacks its line feed counts; the next writer replaces the byte behind it.
        self._good = row.end if row.terminated else row.end - 1
        self._lead = b"" if row.terminated else b"\n"
        self._rows = row.number

    def find_defects(self) -> Iterator[str]:
        """Describe each damaged row."""
        with map_errors(self.path), suppress(FileNotFoundError), open_file(self.path) as file:
            for row in read_rows(file):
                if row.value is None and row.terminated:
                    yield f"{self.path}, line {row.number}: damaged"
