"""Files that several processes write: locks with a time limit, writes that happen completely or not at all.

Knows bytes and paths, nothing of sessions. Needs POSIX, so the SQLite store does not use it.
"""

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from refold.errors import StoreBusy, StoreError, StoreFull

WAIT_SECONDS: Final = 5.0
"""Seconds to wait for the lock of another process; the same as `busy_seconds` of the databases. An append
holds the lock for milliseconds, so that a longer wait means that another process hangs."""
_TAIL_BYTES: Final = 24
"""Bytes at the end of what was read that tell whether it is still there: the checksum of the last row."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def map_errors(path: Path) -> Iterator[None]:
    """Turn errors of the operating system into errors of a store, in one clear line."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StoreFull(
                f"no room left to write {path}: nothing was written; make room and retry"
            ) from error
        raise StoreError(f"{path}: {error.strerror or error}") from error


@contextmanager
def open_file(path: Path, *, write: bool = False) -> Iterator[int]:
    """Open an existing file while the context lasts; raises `FileNotFoundError` if there is none."""
    flags = os.O_RDWR | os.O_APPEND if write else os.O_RDONLY
    # A link could lead a writer to a file outside of the store, so links are refused.
    file = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        yield file
    finally:
        if write:
            # A child process that was forked meanwhile has a copy of the file, which would keep the lock.
            fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


def identify(file: int, end: int) -> tuple[int, int, bytes]:
    """Return what tells an open file, read up to `end`, from others: numbers are given again."""
    status = os.fstat(file)
    return status.st_dev, status.st_ino, os.pread(file, _TAIL_BYTES, max(0, end - _TAIL_BYTES))[:end]


def lock(file: int, path: Path, *, shared: bool = False) -> None:
    """Lock a file against other writers until it is closed; raises `StoreBusy` if that takes too long."""
    how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
    until = time.monotonic() + WAIT_SECONDS
    # Half a millisecond, then doubled: an append is done in less, and a long wait should cost no CPU.
    pause = 0.0005
    while True:
        try:
            fcntl.flock(file, how)
        except BlockingIOError:
            if time.monotonic() > until:
                raise StoreBusy(f"other processes held {path} for too long: retry later") from None
            time.sleep(pause)
            pause = min(pause * 2, 0.01)
        else:
            return


def write_at_end(file: int, path: Path, good: int, content: bytes, *, sync: bool) -> None:
    """Cut a locked file to its first `good` bytes and append the content, all of it or nothing."""
    with map_errors(path):
        if os.fstat(file).st_size != good:
            os.ftruncate(file, good)
        try:
            _write_all(file, content)
        except BaseException:
            with suppress(OSError):  # if this fails too, readers see an incomplete end and skip it
                os.ftruncate(file, good)
            raise
    if not sync:
        return
    try:
        os.fdatasync(file)
    except OSError as error:
        # The kernel may drop the pages and report the next sync as good, so the write is taken back.
        with suppress(OSError):
            os.ftruncate(file, good)
            os.fsync(file)
        raise StoreError(f"{path}: the disk did not confirm a write ({error.strerror}): retry") from error


def create_file(path: Path, content: bytes, *, put: Callable[[Path, Path], None] = os.replace) -> None:
    """Create a file with all of its content or not at all, also after a loss of power.

    put   how the finished file gets its name; `os.link` keeps a file that exists already
    """
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.{time.monotonic_ns():x}.new")
    with map_errors(path):
        try:
            file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                _write_all(file, content)
                os.fsync(file)
            finally:
                os.close(file)
            with suppress(FileExistsError):
                put(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
        sync_folder(path.parent)


def _write_all(file: int, content: bytes) -> None:
    left = memoryview(content)
    while left:  # one call may write less than it was given
        left = left[os.write(file, left) :]


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable: a new file is lost with the power until its folder is synced."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
