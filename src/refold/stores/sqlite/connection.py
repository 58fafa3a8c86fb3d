"""One connection to the file of a SQLite store: transactions, waiting, and errors in words.

All threads share it and take turns. A write is one transaction that is begun with the write lock, so that it
never fails half-way for want of it; who waits for other processes lets the other threads go on. After an I/O
error the connection is dropped and opened anew: what the disk did not confirm once is not asked for again. A
child process after a fork opens its own.
"""

import errno
import os
import random
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar
from weakref import WeakSet

from refold.errors import LogCorrupt, RefoldWarning, StoreBusy, StoreError, StoreFull
from refold.stores import Durability
from refold.stores.sqlite import driver, files, schema
from refold.stores.sqlite.driver import Driver, Raw

T = TypeVar("T")
_CARRY_BYTES: Final = 16_000_000
"""The write-ahead log is carried over into the file about every so many bytes: two syncs each time."""
_COMMIT_BYTES: Final = 30_000
"""What a small append adds to it: seven pages."""
_CACHE_KIB: Final = 16_000
_PAUSE_SECONDS: Final = (0.002, 0.02)
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FOR_GOOD: Final = {  # by journal: what confirms a commit before it counts
    ("wal", "normal"): "NORMAL",
    ("wal", "full"): "FULL",
    ("truncate", "normal"): "FULL",  # less could damage the file when the power goes
    ("truncate", "full"): "EXTRA",
}
_OPEN: "WeakSet[Connection]" = WeakSet()
_PARENTS: Final[list[Raw]] = []
"""Connections of the parent process: to close them here would meddle with its locks and its log."""


class Connection:
    """The way to the file."""

    def __init__(self, path: str, *, driver: Driver, durability: Durability, busy_seconds: float) -> None:
        self.path = path
        self.driver = driver
        self._durability = durability
        self._busy = busy_seconds
        self._lock = threading.RLock()
        self._raw: Raw | None = None
        self._closed = False
        self._to_carry = 0
        self._failed = False
        """Whether the disk failed since what the log holds was last made sure of."""
        files.make_file(path)
        self.journal = "wal" if driver.safe_wal and files.wal_works_at(path) else "truncate"
        if not driver.safe_wal:
            _warn(driver)
        _OPEN.add(self)
        try:
            self._patiently(lambda raw: None)  # noqa: ARG005  # only opens
        except BaseException:
            self.close()
            raise

    def read(self, work: Callable[[Raw], T]) -> T:
        """Do what only reads; it may be done again where others were in the way."""
        return self._patiently(work)

    def write(self, work: Callable[[Raw], T], *, size: int = 0) -> T:
        """Do what writes as one transaction: all of it or nothing.

        size   about how many bytes are written
        """
        return self._patiently(lambda raw: self._transaction(raw, work, size))

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._closed = True
            self._drop()

    def after_fork(self) -> None:
        """Forget the parent's connection, and a lock that one of its threads may have held."""
        self._lock = threading.RLock()
        if self._raw is not None:
            _PARENTS.append(self._raw)
            self._raw = None

    def _patiently(self, work: Callable[[Raw], T]) -> T:
        """Try until the time is over; nothing is left half-done between two tries."""
        until: float | None = None
        while True:
            with self._lock:
                try:
                    return work(self._raw or self._open())
                except self.driver.errors as error:
                    told = self._told(error)
                    cause = error
            if not isinstance(told, StoreBusy):
                raise told from cause
            until = until or time.monotonic() + self._busy
            if time.monotonic() >= until:
                raise told from cause
            time.sleep(random.uniform(*_PAUSE_SECONDS))  # noqa: S311  # keeps those who wait apart

    def _transaction(self, raw: Raw, work: Callable[[Raw], T], size: int) -> T:
        if self._to_carry > _CARRY_BYTES:
            raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._to_carry = 0
        try:
            raw.execute("BEGIN IMMEDIATE")
            if self.journal != "wal":
                self._still_mine(raw)
            result = work(raw)
            raw.execute("COMMIT")
        except BaseException:
            self._roll_back(raw)
            raise
        if self.journal == "wal":
            self._to_carry += _COMMIT_BYTES + size
        return result

    def _roll_back(self, raw: Raw) -> None:
        with suppress(*self.driver.errors):  # what made the work fail is told
            if raw.in_transaction:
                raw.execute("ROLLBACK")
            return
        self._drop(untidily=True)

    def _still_mine(self, raw: Raw) -> None:
        """Make sure that no process with another library has switched the file to a write-ahead log."""
        if _one(raw, "PRAGMA journal_mode") != self.journal:
            raw.execute("ROLLBACK")
            self._set_journal(raw)
            raw.execute("BEGIN IMMEDIATE")

    # -- opening and dropping ----------------------------------------------------------------------------

    def _open(self) -> Raw:
        if self._closed:
            raise StoreError(f"the store sqlite:{self.path} is closed: open it again")
        files.make_file(self.path)
        raw = self.driver.connect(self.path)
        try:
            self._prepare(raw)
        except BaseException:
            raw.close()
            raise
        self._raw = raw
        self._to_carry = 0
        return raw

    def _prepare(self, raw: Raw) -> None:
        """Look before anything is written, then set what holds for a connection, then make the tables."""
        raw.execute("PRAGMA trusted_schema = OFF")
        raw.execute("PRAGMA cell_size_check = ON")
        raw.execute("BEGIN")  # one look: another process may be making the tables just now
        schema.refuse_foreign(raw, self.path)
        raw.execute("COMMIT")
        self._set_journal(raw)
        raw.execute(f"PRAGMA synchronous = {_FOR_GOOD[self.journal, self._durability]}")
        raw.execute("PRAGMA fullfsync = ON")  # macOS: down to the disk, not only to its cache
        raw.execute("PRAGMA wal_autocheckpoint = 0")  # done by us, because SQLite keeps its errors quiet
        raw.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        raw.execute("PRAGMA temp_store = MEMORY")
        schema.prepare(raw, self.path)
        if self._failed and self.journal == "wal":
            # What the log holds was checked by the opening, but the system may think that it is on the disk
            # when it is not: it goes into the file itself, and the log begins anew.
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self._failed = False

    def _set_journal(self, raw: Raw) -> None:
        answered = _one(raw, f"PRAGMA journal_mode = {self.journal.upper()}")
        if answered != self.journal:
            raise StoreError(
                f"{self.path} wants the journal {answered} and not {self.journal}: close it elsewhere"
            )

    def _drop(self, *, untidily: bool = False) -> None:
        raw, self._raw = self._raw, None
        if raw is not None:
            if untidily:
                self._failed = True
                driver.close_untidily(raw)
            else:
                with suppress(*self.driver.errors):
                    raw.close()

    # -- errors ------------------------------------------------------------------------------------------

    def _told(self, error: Exception) -> StoreError:
        """An error of the library as one of ours; drops a connection that is not to be trusted any more."""
        code = driver.code_of(error)
        kind = code & 0xFF
        system = driver.errno_of(self._raw)
        if kind in (driver.IO_ERROR, driver.NO_DATABASE):
            self._drop(untidily=True)
        if kind in (driver.BUSY, driver.LOCKED):
            return StoreBusy(
                f"others held {self.path} for more than {self._busy:g} s: nothing was written; try again"
            )
        # a sync that failed for want of room leaves open what was written: that is no StoreFull
        written = code == driver.IO_ERROR_SYNC
        if kind == driver.FULL or (kind == driver.IO_ERROR and not written and self._no_room(system)):
            return StoreFull(
                f"no room left to write {self.path}: nothing was written; make room and try again"
            )
        if code == driver.CORRUPT_INDEX:
            return LogCorrupt(
                f"the search index of {self.path} is damaged; the log itself may be sound: check it"
            )
        if kind in (driver.CORRUPT, driver.NO_DATABASE):
            what = "is no SQLite database" if kind == driver.NO_DATABASE else f"is damaged ({error})"
            return LogCorrupt(f"{self.path} {what}: name another file, or salvage what can be read")
        if kind in (driver.READ_ONLY, driver.CANNOT_OPEN):
            return StoreError(f"{self.path} may not be written here ({error}): check the file and its folder")
        if kind == driver.IO_ERROR:
            return StoreError(
                f"the disk failed under {self.path} ({error}): read the session, then try again"
            )
        if kind == driver.TOO_BIG:
            return StoreError("an entry is larger than SQLite can keep (1 GB): shorten it")
        return StoreError(f"{self.path}: {error}")

    def _no_room(self, system: int) -> bool:
        if system:
            return system in _NO_ROOM
        with suppress(OSError, AttributeError):  # a library that does not tell, or Windows
            return os.statvfs(Path(self.path).parent).f_bavail == 0
        return False


def _one(raw: Raw, statement: str) -> Any:
    rows = raw.execute(statement).fetchall()
    return rows[0][0] if rows else None


def _warn(driver: Driver) -> None:
    version = ".".join(map(str, driver.version))
    warnings.warn(
        f"SQLite {version} can damage a write-ahead log, so a slower journal is used: install refold[sqlite]",
        RefoldWarning,
        stacklevel=5,
    )


def _forked() -> None:
    for connection in _OPEN:
        connection.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
