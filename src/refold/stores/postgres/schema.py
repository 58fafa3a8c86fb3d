"""The tables of a PostgreSQL store: made by the first who opens it, brought up to date by the next.

The steps are the numbered files beside this one; the table `refold.migrations` says which were taken. All
missing steps are one transaction, and an advisory lock lets one process at a time take them.
"""

from importlib.resources import files
from typing import Final

from psycopg import sql

from refold.errors import LogTooNew, StoreError
from refold.stores.postgres.connections import Connection

_LOCK: Final = 0x7265666F6C64
"""The advisory lock: "refold" in ASCII."""
_MIGRATIONS: Final = (
    "CREATE TABLE IF NOT EXISTS refold.migrations"
    " (version integer PRIMARY KEY, taken timestamptz NOT NULL DEFAULT now())"
)

_HAS_TABLES: Final = (
    "SELECT EXISTS (SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
    " WHERE n.nspname = 'refold' AND c.relname = 'migrations')"
)
"""Not `to_regclass`: it answers from a cache that does not see what was made while one waited for a lock."""


def prepare(connection: Connection) -> None:
    """Make sure that the tables are there and of our version; `LogTooNew` where they are of a later one."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(f"the database has the encoding {encoding}: make one with UTF8")
    steps = _steps()
    if version(connection) == len(steps):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        taken = version(connection)
        if taken > len(steps):
            raise LogTooNew(
                f"the tables are of version {taken} and this refold knows {len(steps)}: upgrade refold"
            )
        if taken == 0:
            connection.execute("CREATE SCHEMA IF NOT EXISTS refold")
            connection.execute(_MIGRATIONS)
        for number, step in enumerate(steps[taken:], start=taken + 1):
            connection.execute(sql.SQL(step))
            connection.execute("INSERT INTO refold.migrations (version) VALUES (%s)", [number])


def version(connection: Connection) -> int:
    """The version of the tables; 0 where there are none."""
    row = connection.execute(_HAS_TABLES).fetchone()
    if row is None or not row[0]:
        return 0
    row = connection.execute("SELECT coalesce(max(version), 0) FROM refold.migrations").fetchone()
    return int(row[0]) if row else 0


def _steps() -> list[str]:
    folder = files("refold.stores.postgres") / "migrations"
    found = sorted(
        (step for step in folder.iterdir() if step.name.endswith(".sql")), key=lambda step: step.name
    )
    return [step.read_text(encoding="utf-8") for step in found]
