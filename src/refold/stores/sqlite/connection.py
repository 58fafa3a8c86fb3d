"""One connection to the file of a SQLite store: transactions, waiting for others, errors in plain words.

All threads share it and take turns. A write is one transaction that begins with the write lock, so that it
never fails half-way for want of it. A thread that waits for another process lets the other threads continue.
After an I/O error the connection is closed and opened again: what the disk did not confirm once is not asked
for a second time. Before a fork the connection is closed, and parent and child open one of their own: SQLite
would remember in the child which locks the parent held. A file that this process may not write is opened for
reading, until it may. While the disk is full, reads go on. A file that was deleted or replaced is noticed
before the next write.
"""

import errno
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, TypeVar
from weakref import WeakSet

from refold.errors import (
    LogCorrupt,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReplaced,
    install_hint,
    warn_caller,
)
from refold.stores import Durability
from refold.stores.sqlite import driver, files, pages, schema
from refold.stores.sqlite.driver import Driver, RawConnection, Row

T = TypeVar("T")
_CHECKPOINT_BYTES: Final = 16_000_000
"""Size of the write-ahead log after which it is copied into the file, which takes two syncs. SQLite's default
is 4 MB; more bytes sync less often and make the first read after a crash slower."""
_LOOK_BYTES: Final = 500_000
"""Growth of the write-ahead log after which somebody looks for the room on the disk; a quarter of a second of
small appends."""
_COMMIT_BYTES: Final = 30_000
"""Estimate of what a small append adds to the write-ahead log: seven pages of 4 KB."""
_CACHE_KIB: Final = 16_000
"""Page cache: SQLite's default of 2 MB is too small for the index of a long log."""
# A random pause in this range keeps waiting threads apart; a small append takes about as long.
_PAUSE_SECONDS: Final = (0.002, 0.02)
_NO_DISK: Final = frozenset({driver.IO_ERROR, driver.FULL, driver.READ_ONLY, driver.CANNOT_OPEN})
"""Kinds of errors with which a file may still be read."""
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_SYNCHRONOUS: Final = {
    ("wal", "normal"): "NORMAL",
    ("wal", "full"): "FULL",
    ("truncate", "normal"): "FULL",  # less could damage the file when the power fails
    ("truncate", "full"): "EXTRA",
}
"""The syncs that a commit waits for, by journal and durability (SQLite's page on PRAGMA synchronous)."""
_OPEN: "WeakSet[Connection]" = WeakSet()
_PAUSED: "Final[list[Connection]]" = []
"""Connections whose locks are held while the process forks."""
_INHERITED: Final[list[RawConnection]] = []
"""Connections of the parent process. Kept, because closing one here would drop the parent's locks."""


class Connection:
    """Connection to the file."""

    def __init__(self, path: str, *, driver: Driver, durability: Durability, busy_seconds: float) -> None:
        self.path = path
        self.driver = driver
        self._durability = durability
        self._busy_seconds = busy_seconds
        self._lock = threading.RLock()
        self._raw: RawConnection | None = None
        self._closed = False
        self._log_bytes = 0
        self._look_at = _LOOK_BYTES
        """Size of the log at which the room on the disk is looked for."""
        self._disk_failed = False
        """True if the disk failed and the write-ahead log was not copied into the file since."""
        self._identity: tuple[int, int] | None = None
        """Device and inode of the file, once it was opened."""
        self.read_only = not files.is_writable(path)
        # Who has the store already was told when it was made; a log beside it is read by the other journal.
        is_news = not self.read_only and (not Path(path).exists() or Path(f"{path}-wal").exists())
        if not self.read_only:
            files.make_file(path)
        self.journal = "wal" if driver.safe_wal and files.supports_wal(path) else "truncate"
        if not driver.safe_wal and is_news:
            version = ".".join(map(str, driver.version))
            warn_caller(
                f"SQLite {version} can damage a write-ahead log, so a slower journal is used:"
                f" {install_hint('sqlite')}"
            )
        _OPEN.add(self)
        try:
            self.require_open()
        except LogCorrupt:
            # Whatever SQLite cannot read raises this error again; `check` and `salvage` read the pages.
            if not pages.was_store(path):
                self.close()
                raise
        except BaseException:
            self.close()
            raise

    def require_open(self) -> None:
        """Connect if there is no connection yet; raises an error if the store was closed."""
        self.read(lambda raw: None)  # noqa: ARG005  # opening is all that is wanted

    def refuse_closed(self) -> None:
        """Raise an error if the store was closed."""
        if self._closed:
            raise StoreError(f"the store sqlite:{self.path} is closed: open it again")

    def read(self, work: Callable[[RawConnection], T]) -> T:
        """Run work that only reads; it runs again if others were in the way.

        Nothing stays half-done between two attempts, and other threads continue while this one waits.
        """
        return self._wait_for_others(lambda: self._read_once(work))

    def _read_once(self, work: Callable[[RawConnection], T]) -> T:
        """Run work that only reads, also if the disk has no room for what opening the file writes."""
        try:
            return work(self._raw or self._connect())
        except self.driver.errors as error:
            if self._raw is not None or driver.error_code(error) & 0xFF not in _NO_DISK:
                raise
            first = error
        # The second error says less than the first.
        with suppress(*self.driver.errors, StoreError), closing(self._connect_to_read()) as raw:
            return work(raw)
        raise first

    def _wait_for_others(self, act: Callable[[], T]) -> T:
        until: float | None = None
        while True:
            with self._lock:
                try:
                    return act()
                except self.driver.errors as caught:
                    error, cause = self._to_store_error(caught), caught
            if not isinstance(error, StoreBusy):
                raise error from cause
            until = until or time.monotonic() + self._busy_seconds
            if time.monotonic() >= until:
                raise error from cause
            time.sleep(random.uniform(*_PAUSE_SECONDS))  # noqa: S311  # spreads those who wait

    def fetch(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        """Read all rows of a statement."""
        return self.read(lambda raw: raw.execute(statement, values).fetchall())

    def write(self, work: Callable[[RawConnection], T], *, size: int = 0) -> T:
        """Run work that writes, as one transaction.

        size   about how many bytes are written
        """

        def act() -> T:
            if self.read_only and not self._closed and files.is_writable(self.path):
                self._disconnect()
                files.share_mode(self.path)
                self.read_only = False
            return self._run_transaction(self._raw or self._connect(), work, size)

        return self._wait_for_others(act)

    def write_at_once(self, work: Callable[[RawConnection], T], *, size: int) -> T | None:
        """Do the same if it waits for nobody; None if it would wait for a thread, a process or the disk.

        With a write-ahead log a commit waits for the disk only where a new log begins, and where the old one
        is copied into the file.
        """
        if self.journal != "wal" or self._durability != "normal" or self.read_only:
            return None
        if not self._lock.acquire(blocking=False):
            return None
        try:
            raw = self._raw
            if raw is None or self._log_bytes == 0 or self._is_log_long():
                return None
            driver.set_wait(raw, 0)
            try:
                return self._run_transaction(raw, work, size)
            except self.driver.errors as caught:
                error = self._to_store_error(caught)
                if isinstance(error, StoreBusy):
                    return None
                raise error from caught
            finally:
                if self._raw is not None:  # an error may have closed it
                    driver.set_wait(self._raw, driver.STEP_SECONDS)
        finally:
            self._lock.release()

    def empty_log(self) -> None:
        """Copy the write-ahead log into the file and empty it, as far as nobody reads it just now."""
        self.fetch("PRAGMA wal_checkpoint(TRUNCATE)")
        self._log_bytes, self._look_at = 0, _LOOK_BYTES

    def can_read_after(self, error: StoreError) -> bool:
        """True if a write failed for a reason that does not concern reads, such as a full disk."""
        cause = error.__cause__
        kind = driver.error_code(cause) & 0xFF if isinstance(cause, self.driver.errors) else None
        unnamed = self.is_open and files.identify(self.path) != self._identity
        return self.read_only or unnamed or isinstance(error, StoreBusy) or kind in _NO_DISK

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._closed = True
            self._disconnect()

    def pause_for_fork(self) -> bool:
        """Wait until no thread is inside, close the file and keep the lock; False if that takes too long."""
        if not self._lock.acquire(timeout=self._busy_seconds):
            return False
        raw = self._raw
        if raw is not None and not raw.in_transaction:
            self._raw = None
            driver.close_without_checkpoint(raw)
        return True

    def go_on_after_fork(self) -> None:
        """In the parent, let the threads go on; the next one opens the file again."""
        self._lock.release()

    def after_fork(self) -> None:
        """In a child process, forget the parent's connection, and a lock that its threads may have held."""
        self._lock = threading.RLock()
        if self._raw is not None:
            _INHERITED.append(self._raw)
            self._raw = None

    def _run_transaction(self, raw: RawConnection, work: Callable[[RawConnection], T], size: int) -> T:
        if self.read_only:
            raise StoreError(f"{self.path} is not writable here, nothing was written: check its permissions")
        self._require_same_file(raw)
        if self._is_log_long():
            raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._log_bytes, self._look_at = 0, _LOOK_BYTES
        try:
            raw.execute("BEGIN IMMEDIATE")
            # Another process with another library may have switched the file to a write-ahead log.
            if self.journal != "wal" and schema.read_pragma(raw, "journal_mode") != self.journal:
                raw.execute("ROLLBACK")
                self._set_journal(raw)
                raw.execute("BEGIN IMMEDIATE")
            result = work(raw)
            raw.execute("COMMIT")
        except BaseException:
            self._roll_back(raw)
            raise
        if self.journal == "wal":
            self._log_bytes += _COMMIT_BYTES + size
        return result

    def _is_log_long(self) -> bool:
        """True if the log is to be copied into the file; on a small disk, while it can still be."""
        if self._log_bytes <= self._look_at:
            return False
        free = files.count_free_bytes(self.path)
        if self._log_bytes > (_CHECKPOINT_BYTES if free is None else min(_CHECKPOINT_BYTES, free // 2)):
            return True
        self._look_at = self._log_bytes + _LOOK_BYTES
        return False

    def _roll_back(self, raw: RawConnection) -> None:
        with suppress(*self.driver.errors):  # the caller raises the error that made the work fail
            if raw.in_transaction:
                raw.execute("ROLLBACK")
            return
        self._disconnect(checkpoint=False)

    # -- connecting --------------------------------------------------------------------------------------

    def _connect(self) -> RawConnection:
        self.refuse_closed()
        if self._identity is not None:
            self._require_same_file()
        if self.read_only:
            raw = self._connect_to_read()
        else:
            files.make_file(self.path)
            raw = self._prepared("write", self._prepare)
        self._raw = raw
        self._identity = files.identify(self.path)
        self._log_bytes, self._look_at = 0, _LOOK_BYTES
        return raw

    def _prepared(self, access: driver.Access, prepare: Callable[[RawConnection], None]) -> RawConnection:
        raw = self.driver.connect(self.path, access)
        try:
            prepare(raw)
        except BaseException:
            raw.close()
            raise
        return raw

    def _connect_to_read(self) -> RawConnection:
        """Open a file that cannot be written; without its write-ahead log no locks are needed to read it."""
        try:
            return self._prepared("read", self._prepare_to_read)
        except self.driver.errors as error:
            kind, log = driver.error_code(error) & 0xFF, Path(f"{self.path}-wal")
            if kind not in (driver.CANNOT_OPEN, driver.READ_ONLY) or (log.exists() and log.stat().st_size):
                raise
        return self._prepared("frozen", self._prepare_to_read)

    def _prepare_to_read(self, raw: RawConnection) -> None:
        self._check_owner(raw)
        raw.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        schema.require_current(raw, self.path)

    def _check_owner(self, raw: RawConnection) -> None:
        """Raise an error for the file of another program, before anything is written."""
        raw.execute("PRAGMA trusted_schema = OFF")
        raw.execute("PRAGMA cell_size_check = ON")
        raw.execute("BEGIN")  # one snapshot: another process may be making the tables just now
        schema.refuse_foreign(raw, self.path)
        raw.execute("COMMIT")

    def _require_same_file(self, raw: RawConnection | None = None) -> None:
        """Raise `StoreReplaced` if the file was deleted or replaced since it was opened."""
        if files.identify(self.path) == self._identity:
            return
        if raw is not None:
            self._empty_log(raw)
        what = f"{self.path} was deleted or replaced while it was open, nothing was written"
        raise StoreReplaced(f"{what}: open the store again")

    def _empty_log(self, raw: RawConnection) -> None:
        """Empty the write-ahead log of a file that was replaced, or it would be read into the new file.

        It is left alone if others may use it already.
        """
        here = [other for other in _OPEN if other is not self and other.path == self.path and other.is_open]
        if self.journal == "wal" and not here and not files.is_used_by_others(self.path):
            with suppress(*self.driver.errors):
                raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @property
    def is_open(self) -> bool:
        """True if the file is open."""
        return self._raw is not None

    def _prepare(self, raw: RawConnection) -> None:
        """Check whose file it is before anything is written, then set the pragmas, then make the tables."""
        self._check_owner(raw)
        self._set_journal(raw)
        raw.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[self.journal, self._durability]}")
        raw.execute("PRAGMA fullfsync = ON")  # macOS: down to the disk, not only to its cache
        raw.execute("PRAGMA wal_autocheckpoint = 0")  # done here, because SQLite hides its errors
        raw.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        raw.execute("PRAGMA temp_store = MEMORY")
        raw.execute("PRAGMA secure_delete = ON").fetchall()  # what is deleted is overwritten
        schema.migrate(raw, self.path)
        if self._disk_failed and self.journal == "wal":
            # Opening checked the log, but the system may believe that it is on the disk when it is not. So it
            # is copied into the file, and a new log begins.
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self._disk_failed = False

    def _set_journal(self, raw: RawConnection) -> None:
        journal = schema.read_pragma(raw, f"journal_mode = {self.journal.upper()}")
        if journal != self.journal:
            raise StoreError(
                f"{self.path} uses the journal {journal} and not {self.journal}: close it in other programs"
            )

    def _disconnect(self, *, checkpoint: bool = True) -> None:
        raw, self._raw = self._raw, None
        if raw is None:
            return
        if checkpoint and not self.read_only and files.identify(self.path) != self._identity:
            self._empty_log(raw)
        if checkpoint:
            with suppress(*self.driver.errors):
                raw.close()
        else:
            self._disk_failed = True
            driver.close_without_checkpoint(raw)

    # -- errors ------------------------------------------------------------------------------------------

    def _to_store_error(self, error: Exception) -> StoreError:
        """Turn an error of the library into one of a store; drops a connection that cannot be trusted."""
        code = driver.error_code(error)
        kind = code & 0xFF
        system = driver.system_errno(self._raw)
        # After a sync that failed for want of room nobody knows what was written: that is not a StoreFull.
        unknown = code == driver.IO_ERROR_SYNC
        full = kind == driver.FULL or (kind == driver.IO_ERROR and not unknown and self._is_disk_full(system))
        if kind in (driver.IO_ERROR, driver.NO_DATABASE) and not full:
            self._disconnect(checkpoint=False)
        if kind in (driver.BUSY, driver.LOCKED):
            return StoreBusy(
                f"other processes held {self.path} for more than {self._busy_seconds:g} s:"
                " nothing was written; try again"
            )
        if full:
            return StoreFull(
                f"no room left to write {self.path}: nothing was written; make room and try again"
            )
        if code == driver.CORRUPT_INDEX:
            return LogCorrupt(
                f"the search index of {self.path} is damaged; the log itself may be sound: check it"
            )
        if kind in (driver.CORRUPT, driver.NO_DATABASE):
            what = "is not a SQLite database" if kind == driver.NO_DATABASE else f"is damaged ({error})"
            return LogCorrupt(f"{self.path} {what}: name another file, or salvage what can be read")
        if kind in (driver.READ_ONLY, driver.CANNOT_OPEN):
            return StoreError(f"{self.path} is not writable here ({error}): check the file and its folder")
        if kind == driver.IO_ERROR:
            return StoreError(f"the disk of {self.path} failed ({error}): read the session, then try again")
        if kind == driver.TOO_BIG:
            return StoreError("an entry is larger than SQLite can keep (1 GB): shorten it")
        return StoreError(f"{self.path}: {error}")

    def _is_disk_full(self, system: int) -> bool:
        # some libraries do not tell the system's error
        return system in _NO_ROOM if system else files.count_free_bytes(self.path) == 0


def in_snapshot(work: Callable[[RawConnection], T]) -> Callable[[RawConnection], T]:
    """Return work that sees nothing of what others do meanwhile, such as the deletion of a session."""

    def read(raw: RawConnection) -> T:
        raw.execute("BEGIN").close()
        try:
            return work(raw)
        finally:
            if raw.in_transaction:  # some errors have ended it
                raw.execute("ROLLBACK").close()

    return read


def _pause_all() -> None:
    _PAUSED.extend(connection for connection in list(_OPEN) if connection.pause_for_fork())


def _go_on() -> None:
    while _PAUSED:
        _PAUSED.pop().go_on_after_fork()


def _forget_parents() -> None:
    _PAUSED.clear()
    for connection in _OPEN:
        connection.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_pause_all, after_in_parent=_go_on, after_in_child=_forget_parents)
