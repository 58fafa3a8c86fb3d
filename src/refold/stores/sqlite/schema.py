"""Tables of a SQLite store: created in a new file, brought up to date in an old one, all or nothing.

The table `migrations` records which SQL files were run, and their checksums. The file of another program, or
of a newer refold, is refused before anything is written.
"""

import hashlib
import time
from typing import Any, Final

from refold.errors import LogTooNew, StoreError
from refold.stores.sql_files import read_migrations
from refold.stores.sqlite.driver import RawConnection

PACKAGE: Final = "refold.stores.sqlite"
APPLICATION: Final = 0x52464C44
"""Application id in the header of the file: "RFLD" in ASCII."""
READABLE: Final = 1
"""The oldest version of the tables that can be read as they are: later ones have only other indexes."""
_MIGRATIONS: Final = (
    "CREATE TABLE migrations (version INTEGER PRIMARY KEY, checksum TEXT NOT NULL, taken REAL NOT NULL)"
)


def refuse_foreign(raw: RawConnection, path: str) -> None:
    """Raise an error for the file of another program or of a newer refold."""
    version = read_pragma(raw, "user_version")
    application = read_pragma(raw, "application_id")
    empty = raw.execute("SELECT count(*) FROM sqlite_schema").fetchall() == [(0,)]
    if application != APPLICATION and not (empty and application == version == 0):
        raise StoreError(f"{path} is the database of another program: name another file")
    known = len(read_migrations(PACKAGE))
    if version > known:
        raise LogTooNew(
            f"{path} has version {version} and this refold knows versions up to {known}: upgrade refold"
        )


def migrate(raw: RawConnection, path: str) -> None:
    """Run the migrations that are missing, all in one transaction."""
    scripts = read_migrations(PACKAGE)
    checksums = {
        number: hashlib.blake2b(script.encode(), digest_size=16).hexdigest()
        for number, script in enumerate(scripts, 1)
    }
    if read_pragma(raw, "user_version") != len(scripts):
        raw.execute("BEGIN IMMEDIATE")
        try:
            refuse_foreign(raw, path)
            version = read_pragma(raw, "user_version")  # again: another process may have been first
            if version == 0:
                raw.execute(_MIGRATIONS)
                raw.execute(f"PRAGMA application_id = {APPLICATION}")
            for number in range(version + 1, len(scripts) + 1):
                for statement in split_statements(scripts[number - 1]):
                    raw.execute(statement)
                row = (number, checksums[number], time.time())
                raw.execute("INSERT INTO migrations VALUES (?, ?, ?)", row)
                raw.execute(f"PRAGMA user_version = {number}")
            raw.execute("COMMIT")
        except BaseException:
            if raw.in_transaction:
                raw.execute("ROLLBACK")
            raise
    if dict(raw.execute("SELECT version, checksum FROM migrations").fetchall()) != checksums:
        raise StoreError(f"the tables of {path} were made by another version of refold: name another file")


def require_current(raw: RawConnection, path: str) -> None:
    """Raise an error if this refold cannot read the tables; they cannot be brought up to date here."""
    if not READABLE <= read_pragma(raw, "user_version") <= len(read_migrations(PACKAGE)):
        raise StoreError(
            f"{path} is of an older refold and not writable here: open it once where it is writable"
        )


def split_statements(script: str) -> list[str]:
    """Split a migration into statements; one ends where a line ends with a semicolon."""
    return [statement for statement in script.split(";\n") if statement.strip()]


def read_pragma(raw: RawConnection, name: str) -> Any:
    """Return the answer of a pragma, or None."""
    rows = raw.execute(f"PRAGMA {name}").fetchall()
    return rows[0][0] if rows else None
