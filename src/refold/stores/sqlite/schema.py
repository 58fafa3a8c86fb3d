"""The tables of a SQLite store: made in a new file, brought up to date in an old one, all or nothing.

The steps are the numbered files in `schema/sqlite`; the table `migrations` says which were taken and what
they said then. A file that something else made, or a newer refold, is refused before anything is written.
"""

import hashlib
import time
from functools import cache
from importlib.resources import files
from typing import Any, Final

from refold.errors import LogTooNew, StoreError
from refold.stores.sqlite.driver import Raw

APPLICATION: Final = 0x52464C44
"""SQLite's mark of whose file it is: "RFLD" in ASCII."""
_MIGRATIONS: Final = (
    "CREATE TABLE migrations (version INTEGER PRIMARY KEY, checksum TEXT NOT NULL, taken REAL NOT NULL)"
)


def refuse_foreign(raw: Raw, path: str) -> None:
    """Refuse the file of another program or of a newer refold."""
    version = _pragma(raw, "user_version")
    mark = _pragma(raw, "application_id")
    empty = raw.execute("SELECT count(*) FROM sqlite_schema").fetchall() == [(0,)]
    if mark != APPLICATION and not (empty and mark == version == 0):
        raise StoreError(f"{path} is the database of another program: name another file")
    known = len(steps())
    if version > known:
        raise LogTooNew(
            f"{path} has version {version} and this refold knows versions up to {known}: upgrade refold"
        )


def prepare(raw: Raw, path: str) -> None:
    """Take the steps that are missing."""
    if _pragma(raw, "user_version") != len(steps()):
        _migrate(raw, path)
    taken: dict[int, str] = dict(raw.execute("SELECT version, checksum FROM migrations").fetchall())
    if taken != {number: _checksum(step) for number, step in enumerate(steps(), 1)}:
        raise StoreError(
            f"the tables of {path} were made by a refold that is not this one: name another file"
        )


def _migrate(raw: Raw, path: str) -> None:
    """All missing steps as one transaction; of two processes the second finds them taken."""
    raw.execute("BEGIN IMMEDIATE")
    try:
        refuse_foreign(raw, path)
        version = _pragma(raw, "user_version")
        if version == 0:
            raw.execute(_MIGRATIONS)
            raw.execute(f"PRAGMA application_id = {APPLICATION}")
        for number, step in enumerate(steps()[version:], version + 1):
            for statement in statements(step):
                raw.execute(statement)
            values = (number, _checksum(step), time.time())
            raw.execute("INSERT INTO migrations VALUES (?, ?, ?)", values)
            raw.execute(f"PRAGMA user_version = {number}")
        raw.execute("COMMIT")
    except BaseException:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        raise


@cache
def steps() -> tuple[str, ...]:
    """The steps, oldest first."""
    folder = files("refold.stores.sqlite") / "migrations"
    found = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return tuple(step.read_text(encoding="utf-8") for step in found)


def statements(step: str) -> list[str]:
    """The statements of a step."""
    return [statement for statement in step.split(";\n") if statement.strip()]


def _checksum(step: str) -> str:
    return hashlib.blake2b(step.encode(), digest_size=16).hexdigest()


def _pragma(raw: Raw, name: str) -> Any:
    rows = raw.execute(f"PRAGMA {name}").fetchall()
    return rows[0][0] if rows else None
