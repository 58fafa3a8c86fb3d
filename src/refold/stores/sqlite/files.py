"""The file of a SQLite store: its default path, its permissions, and the kind of disk it is on."""

import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from refold.errors import StoreError

_MOUNTS: Final = "/proc/self/mountinfo"
_OCTAL: Final = re.compile(r"\\([0-7]{3})")
"""Escapes of spaces and other odd characters in that file."""
_SHM_IN_USE: Final = 128
"""Byte of the file `-shm` that is locked by all who use it ("DMS" in SQLite's os_unix.c)."""
_SHARED_MEMORY_WORKS: Final = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs", "nilfs2"}
    | {"tmpfs", "ramfs", "overlay", "aufs", "rootfs", "apfs", "hfs", "ufs"}
)
"""Local file systems. A write-ahead log needs memory that all processes share, which a network file system
does not have. Anything that is not in this list gets a rollback journal, which is slower and always right."""


def default_path() -> Path:
    """Return `refold/refold.db` in the folder for data of this platform."""
    home = Path.home()
    if sys.platform == "darwin":
        folder = home / "Library" / "Application Support"
    elif sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        data = os.environ.get("XDG_DATA_HOME", "")
        folder = Path(data) if Path(data).is_absolute() else home / ".local" / "share"
    return folder / "refold" / "refold.db"


def make_file(path: str) -> None:
    """Create the file if there is none; only its owner may read it.

    SQLite gives its other files (-wal, -shm, -journal) the permissions of this one. An existing file is not
    even opened: closing it would drop the POSIX locks that this process may hold on it.
    """
    file = Path(path)
    try:
        _make_folder(file.parent)
        if file.is_dir():
            raise StoreError(f"{path} is a folder: name a file")
        if not file.exists():
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
                file.chmod(0o600)  # whatever the umask says
                _sync_folder(file.parent)
    except ValueError as error:
        raise StoreError(f"{path!r} is not a file name: {error}") from None
    except OSError as error:
        elsewhere = "name a store in another folder, or memory:"
        raise StoreError(f"{path} cannot be created: {error.strerror}; {elsewhere}") from error


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(0o700)
            folder.chmod(0o700)
            _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    """Make names durable; platforms that cannot sync a folder do it by themselves."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def identify(path: str) -> tuple[int, int] | None:
    """Return what tells a file from another one of the same name; None if there is no file."""
    try:
        status = os.stat(path)  # noqa: PTH116  # before every write, and Path takes five times as long
    except OSError:
        return None
    return status.st_dev, status.st_ino


def count_free_bytes(path: str) -> int | None:
    """Return the room on the disk of a file; None where nobody tells."""
    with suppress(OSError, AttributeError):  # Windows has no such call
        disk = os.statvfs(Path(path).parent)
        return disk.f_bavail * disk.f_frsize
    return None


def is_writable(path: str) -> bool:
    """True if this process may write a file and create others beside it, or if there is no file yet."""
    own = {"effective_ids": True} if os.access in os.supports_effective_ids else {}
    return not os.path.exists(path) or all(  # noqa: PTH110  # a name that no Path can hold is told later
        os.access(place, os.W_OK, **own) for place in (path, Path(path).parent)
    )


def share_mode(path: str) -> None:
    """Give the files beside a store its permissions: they were made while it could not be written."""
    for suffix in ("-wal", "-shm"):
        with suppress(OSError):  # there is none, or it belongs to somebody else
            Path(path + suffix).chmod(Path(path).stat().st_mode & 0o777)


def is_used_by_others(path: str) -> bool:
    """True if another process may have the write-ahead log of a store open.

    Every connection holds a shared lock on one byte of the file `-shm` as long as it is open.
    """
    if sys.platform != "linux":
        return True  # the lock's layout is that of Linux
    import fcntl
    import struct

    try:
        with Path(f"{path}-shm").open("rb+") as file:
            wanted = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, _SHM_IN_USE, 1, 0)
            found = fcntl.fcntl(file, fcntl.F_GETLK, wanted)
    except OSError:
        return True
    return bool(struct.unpack("hhqqi", found)[0] != fcntl.F_UNLCK)


def supports_wal(path: str) -> bool:
    """True if a write-ahead log works on the disk of this path."""
    if sys.platform == "linux":
        return filesystem_type(path) in _SHARED_MEMORY_WORKS
    return not path.startswith(("\\\\", "//"))


def filesystem_type(path: str, mounts: str | None = None) -> str:
    """Return the type of the file system of a path; "" if Linux does not tell."""
    if mounts is None:
        try:
            mounts = Path(_MOUNTS).read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ""
    wanted = os.path.realpath(path)
    best, kind = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) > 4 and after:
            point = _OCTAL.sub(lambda found: chr(int(found[1], 8)), fields[4])
            inside = wanted == point or wanted.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= best:  # of two mounts on one point the later one counts
                best, kind = len(point), after.split(" ", 1)[0]
    return kind
