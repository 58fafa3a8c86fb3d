"""A file of facts by key, the last of each key counting; every change is one row behind the others.

When most rows have been overtaken the file is written anew and put in the place of the old one. Who waited
for the lock of the old one notices and opens the new one.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from refold.errors import LogTooNew, StoreError
from refold.stores.disk import create, errors_of, lock, opened, sync_folder, write_behind
from refold.stores.jsonl.rows import FORMAT, Row, rows, to_row

_SPARE: Final = 1_000
"""Rows that may be overtaken before the file is written anew."""


class Ledger:
    """Facts by key, in one file."""

    def __init__(self, path: Path, *, sync: bool) -> None:
        self.path = path
        self.facts: dict[str, Any] = {}
        self._sync = sync
        self._file: int | None = None
        self._clear((0, 0))

    def _clear(self, identity: tuple[int, int]) -> None:
        self._identity = identity
        self._good = 0
        self._rows = 0
        self._lead = b""
        self._named = False
        """Whether the name of the file is known to be durable."""
        self.facts.clear()

    def refresh(self) -> None:
        """See what others wrote."""
        with errors_of(self.path):
            try:
                with opened(self.path) as file:
                    self._refresh(file)
            except FileNotFoundError:
                self._clear((0, 0))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep others from writing, and see what they wrote; `put` works only in here."""
        with ExitStack() as stack:
            with errors_of(self.path):
                self._file = self._locked(stack)
                self._refresh(self._file)
            try:
                yield
                if self._rows > _SPARE + 4 * len(self.facts):
                    self._write_anew()
            finally:
                self._file = None

    def _locked(self, stack: ExitStack) -> int:
        """The file, once it is locked and still the one of that name."""
        while True:
            if not self.path.exists():
                create(self.path, to_row({"refold": FORMAT}), put=os.link)
            with suppress(FileNotFoundError), ExitStack() as trial:
                file = trial.enter_context(opened(self.path, write=True))
                lock(file, self.path)
                if os.path.samestat(os.fstat(file), self.path.stat()):
                    stack.push(trial.pop_all())
                    return file

    def put(self, key: str, value: Any) -> None:
        """Write a fact; it counts once this returns."""
        if self._file is None:
            raise StoreError(f"{self.path} is not held: nothing was written")
        row = self._lead + to_row({"key": key, "value": value})
        if self._sync and not self._named:  # who put the file in its place may have been stopped before this
            with errors_of(self.path):
                sync_folder(self.path.parent)
            self._named = True
        try:
            write_behind(self._file, self.path, self._good, row, sync=self._sync)
        except StoreError:
            self._clear((0, 0))  # what is in the file is read again before anything counts
            raise
        self._good += len(row)
        self._lead = b""
        self._rows += 1
        self.facts[key] = value

    def _write_anew(self) -> None:
        kept = (to_row({"key": key, "value": value}) for key, value in self.facts.items())
        with suppress(StoreError):  # the old file is as good, only longer
            create(self.path, b"".join((to_row({"refold": FORMAT}), *kept)))

    def _refresh(self, file: int) -> None:
        status = os.fstat(file)
        identity = (status.st_dev, status.st_ino)
        if identity != self._identity or status.st_size < self._good:
            self._clear(identity)
        for row in rows(file, self._good, self._rows + 1):
            if row.whole:
                self._take(row)
                self._good = row.end
                self._rows = row.number
                self._lead = b""
            elif row.value is not None:  # whole but for its line feed, which the next writer mends
                self._take(row)
                self._good = row.end - 1
                self._rows = row.number
                self._lead = b"\n"

    def _take(self, row: Row) -> None:
        if row.value is None:
            return
        if row.value.get("refold", FORMAT) > FORMAT:
            raise LogTooNew(
                f"{self.path} has version {row.value['refold']}, this refold knows {FORMAT}: upgrade refold"
            )
        if "key" in row.value:
            self.facts[row.value["key"]] = row.value["value"]

    def troubles(self) -> Iterator[str]:
        """What is wrong with the file."""
        with errors_of(self.path), suppress(FileNotFoundError), opened(self.path) as file:
            for row in rows(file):
                if row.value is None and row.whole:
                    yield f"{self.path}, line {row.number}: damaged"
