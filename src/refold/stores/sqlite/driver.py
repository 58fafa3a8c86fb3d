"""The SQLite library in use: apsw if it is installed, else the standard library's. Contains no SQL."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeAlias, cast
from urllib.parse import quote

from refold.errors import StoreError, install_hint

SAFE_WAL: Final = (3, 51, 3)
"""Before this version, two connections that write and reset the write-ahead log at the same moment could
damage the file (docs/decisions/0009-stores.md)."""
STEP_SECONDS: Final = 0.05
"""Time that the library itself waits for a lock. It blocks all threads meanwhile, so longer waits are done by
`Connection`."""

# Result codes from sqlite.org/rescode.html, written out because the two libraries name them differently.
BUSY: Final = 5
LOCKED: Final = 6
READ_ONLY: Final = 8
IO_ERROR: Final = 10
IO_ERROR_SYNC: Final = 1034
CORRUPT: Final = 11
CORRUPT_INDEX: Final = 267
FULL: Final = 13
CANNOT_OPEN: Final = 14
TOO_BIG: Final = 18
NO_DATABASE: Final = 26
_NOT_UTF8: Final = "Could not decode"
"""Beginning of the standard library's message for bytes that are not UTF-8; it has no code for it."""

Row: TypeAlias = tuple[Any, ...]
Access: TypeAlias = Literal["write", "read", "frozen"]
"""How a file is opened. `frozen` takes no locks: for a file that nobody can change."""
_URI_OPTIONS: Final[dict[Access, str]] = {"read": "mode=ro", "frozen": "mode=ro&immutable=1"}


class Cursor(Protocol):
    """Rows of a statement."""

    def __iter__(self) -> Iterator[Row]: ...  # says what it is
    def fetchall(self) -> list[Row]: ...  # noqa: D102  # as everywhere in Python
    def close(self) -> None: ...  # noqa: D102  # as everywhere in Python


class RawConnection(Protocol):
    """The part of a connection that both libraries have and this package uses."""

    @property
    def in_transaction(self) -> bool: ...  # noqa: D102  # says what it is

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Cursor: ...  # noqa: D102
    def executemany(self, statement: str, rows: Any, /) -> Cursor: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """One of the two SQLite libraries that the store can use."""

    name: str
    version: tuple[int, ...]
    connect: Callable[[str, Access], RawConnection]
    errors: tuple[type[Exception], ...]

    @property
    def safe_wal(self) -> bool:
        """True if its write-ahead log may be used."""
        return self.version >= SAFE_WAL


def choose_driver(name: str | None = None) -> Driver:
    """Return the library of this name, or the best that is installed."""
    if name == "sqlite3":
        return _standard()
    if name not in (None, "apsw"):
        raise StoreError(f"driver is apsw or sqlite3, not {name!r}")
    try:
        import apsw
    except ImportError:
        if name is None:
            return _standard()
        raise StoreError(f"apsw is not installed: {install_hint('sqlite')}") from None

    def connect(path: str, access: Access) -> RawConnection:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        if access != "write":
            path, flags = _to_uri(path, access), apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        raw = apsw.Connection(path, flags=flags, statementcachesize=256)
        raw.set_busy_timeout(int(STEP_SECONDS * 1000))
        return cast("RawConnection", raw)

    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    return Driver(name="apsw", version=version, connect=connect, errors=(apsw.Error, UnicodeDecodeError))


def _standard() -> Driver:
    def connect(path: str, access: Access) -> RawConnection:
        raw = sqlite3.connect(
            path if access == "write" else _to_uri(path, access),
            timeout=STEP_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            uri=access != "write",
        )
        return cast("RawConnection", raw)

    return Driver(
        name="sqlite3",
        version=sqlite3.sqlite_version_info,
        connect=connect,
        errors=(sqlite3.Error, UnicodeDecodeError),
    )


def _to_uri(path: str, access: Access) -> str:
    return f"file:{quote(path)}?{_URI_OPTIONS[access]}"


def error_code(error: Exception) -> int:
    """Return SQLite's extended code of an error."""
    if isinstance(error, UnicodeDecodeError) or str(error).startswith(_NOT_UTF8):
        return CORRUPT
    for attribute in ("sqlite_errorcode", "extendedresult", "result"):
        if isinstance(code := getattr(error, attribute, None), int):
            return code
    return 1


def system_errno(raw: RawConnection | None) -> int:
    """Return the errno of the last failed system call; 0 if the library does not tell."""
    return int(getattr(raw, "system_errno", 0) or 0)


def set_wait(raw: RawConnection, seconds: float) -> None:
    """Set how long the library itself waits for a lock."""
    set_timeout = getattr(raw, "set_busy_timeout", None)
    if set_timeout is not None:  # ten times as fast as the statement
        set_timeout(int(seconds * 1000))
    else:
        raw.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}").close()


def close_without_checkpoint(raw: RawConnection) -> None:
    """Close without copying the write-ahead log into the file: after a failed sync its content is unknown.

    The next opening checks every frame of the log and keeps those that are complete.
    """
    with suppress(Exception):  # the standard library learned this later than Python 3.11
        if isinstance(raw, sqlite3.Connection):
            raw.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, True)  # type: ignore[attr-defined, unused-ignore]
        else:
            cast("Any", raw).config(1006, 1)  # SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE
    with suppress(Exception):
        raw.close()
