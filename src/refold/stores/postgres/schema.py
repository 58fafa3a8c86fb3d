"""Tables of a PostgreSQL store: created by the first process that opens it, updated by a newer refold.

The table `refold.migrations` records which SQL files were run. All missing ones are one transaction, and an
advisory lock lets one process at a time run them.
"""

from typing import Final

from psycopg import sql

from refold.errors import LogTooNew, StoreError
from refold.stores.postgres.connections import Connection
from refold.stores.sql_files import read_migrations, read_statement

PACKAGE: Final = "refold.stores.postgres"
_LOCK: Final = 0x7265666F6C64
"""Number of the advisory lock: "refold" in ASCII."""
_MIGRATIONS: Final = read_statement("migrations")
# Not `to_regclass`: it answers from a cache that misses tables made while this process waited for a lock.
_HAS_TABLES: Final = read_statement("has_tables")


def migrate(connection: Connection) -> None:
    """Create the tables or bring them up to date; raises `LogTooNew` if a newer refold made them."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(f"the database has the encoding {encoding}: make one with UTF8")
    scripts = read_migrations(PACKAGE)
    if _read_version(connection) == len(scripts):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        version = _read_version(connection)
        if version > len(scripts):
            raise LogTooNew(
                f"the tables are of version {version} and this refold knows {len(scripts)}: upgrade refold"
            )
        if version == 0:
            connection.execute("CREATE SCHEMA IF NOT EXISTS refold")
            connection.execute(_MIGRATIONS)
        for number, script in enumerate(scripts[version:], start=version + 1):
            connection.execute(sql.SQL(script))
            connection.execute("INSERT INTO refold.migrations (version) VALUES (%s)", [number])


def _read_version(connection: Connection) -> int:
    """Return the version of the tables; 0 if there are none."""
    row = connection.execute(_HAS_TABLES).fetchone()
    if row is None or not row[0]:
        return 0
    row = connection.execute("SELECT coalesce(max(version), 0) FROM refold.migrations").fetchone()
    return int(row[0]) if row else 0
