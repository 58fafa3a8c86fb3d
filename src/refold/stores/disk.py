"""Files that several processes write: locks that are waited for, writes that are whole or undone."""

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from refold.errors import StoreBusy, StoreError, StoreFull

WAIT: Final = 5.0
"""Seconds to wait for others."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class SyncFailed(StoreError):
    """The disk did not confirm a write: what is in the file is not known until it is read again."""


@contextmanager
def errors_of(path: Path) -> Iterator[None]:
    """Say what the system refused in one clear line."""
    try:
        yield
    except OSError as error:
        raise _told(path, error) from error


def _told(path: Path, error: OSError) -> StoreError:
    if error.errno in _FULL:
        return StoreFull(f"no room left to write {path}: nothing was written; make room and retry")
    return StoreError(f"{path}: {error.strerror or error}")


@contextmanager
def opened(path: Path, *, write: bool = False) -> Iterator[int]:
    """A file for as long as it is used; `FileNotFoundError` where there is none."""
    flags = os.O_RDWR | os.O_APPEND if write else os.O_RDONLY
    file = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        yield file
    finally:
        os.close(file)


def lock(file: int, path: Path, *, shared: bool = False, wait: float | None = None) -> None:
    """Lock a file against other writers until it is closed; `StoreBusy` where that takes too long."""
    how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
    until = time.monotonic() + (WAIT if wait is None else wait)
    pause = 0.0005
    while True:
        try:
            fcntl.flock(file, how)
        except BlockingIOError:
            if time.monotonic() > until:
                raise StoreBusy(f"others held {path} for too long: retry later") from None
            time.sleep(pause)
            pause = min(pause * 2, 0.01)
        else:
            return


def write_behind(file: int, path: Path, good: int, content: bytes, *, sync: bool) -> None:
    """Write behind the first `good` bytes of a locked file, all of it or nothing; cuts off what is there."""
    with errors_of(path):
        if os.fstat(file).st_size != good:
            os.ftruncate(file, good)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(file, left) :]
    except BaseException as error:
        with suppress(OSError):  # where this fails too, readers see an end that is not whole and skip it
            os.ftruncate(file, good)
        if isinstance(error, OSError):
            raise _told(path, error) from error
        raise
    if sync:
        _sync(file, path, good)


def _sync(file: int, path: Path, good: int) -> None:
    try:
        os.fdatasync(file)
    except OSError as error:
        with suppress(OSError):
            os.ftruncate(file, good)
            os.fsync(file)
        raise SyncFailed(f"{path}: the disk did not confirm a write ({error.strerror}): retry") from error


def create(path: Path, content: bytes, *, put: Callable[[Path, Path], None] = os.replace) -> None:
    """Make a file that is there with all of its content or not at all, also after a loss of power.

    put   how the finished file gets its name; `os.link` leaves one alone that is there already
    """
    made = path.with_name(f"{path.name}.{os.getpid()}.{time.monotonic_ns():x}.new")
    with errors_of(path):
        try:
            file = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                left = memoryview(content)
                while left:
                    left = left[os.write(file, left) :]
                os.fsync(file)
            finally:
                os.close(file)
            with suppress(FileExistsError):
                put(made, path)
        finally:
            made.unlink(missing_ok=True)
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
