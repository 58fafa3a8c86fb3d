"""The store for many processes and hosts: sessions in a PostgreSQL database, each tenant in its scope.

    postgresql://USER:PASSWORD@HOST/DATABASE?scope=TENANT

Needs the extra `refold[postgres]`, a database in UTF8 and, for the first process that opens it, the right to
create the schema `refold`. A connection keeps its settings, the scope among them. So a pooler in between must
pool sessions, not transactions (with the latter nothing leaks, but nothing is found either).

Both durabilities wait until an append is on the server's disk: it survives a kill of this process and a crash
of the server. `full` waits for synchronous standbys as well.
"""

from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from refold.core.log.entries import Entry, Kind
from refold.errors import RefoldError, StoreError, StoreUnsure, install_hint
from refold.stores import (
    DEFAULT_SCOPE,
    Branch,
    Defect,
    Durability,
    Head,
    Lease,
    Located,
    Place,
    SearchHit,
    SessionInfo,
    check_scope,
    refuse_options,
)
from refold.stores.text import encode_text, name_hash

try:
    from refold.stores.postgres import leases, log
    from refold.stores.postgres.append import Append, delete
    from refold.stores.postgres.changes import FindScopes, watch
    from refold.stores.postgres.check import check, salvage
    from refold.stores.postgres.connections import Connection, Connections, parse_address
    from refold.stores.postgres.schema import migrate
    from refold.stores.postgres.search import search
except ImportError as error:
    hint = install_hint("postgres")
    raise RefoldError(f"a PostgreSQL store needs psycopg ({error}): {hint}") from None

T = TypeVar("T")
_DEFAULTS: Final = {"scope": DEFAULT_SCOPE, "durability": "normal", "busy_seconds": 5.0, "connections": 8}
"""Five seconds outlast the restart of a server; eight connections leave most of a server's usual 100 to
others."""
_PUT_NOTE: Final = (
    "INSERT INTO refold.notes (scope, key, name, value) VALUES (%s, %s, %s, %s)"
    " ON CONFLICT (scope, key) DO UPDATE SET value = excluded.value"
)


def open_store(
    address: str,
    *,
    durability: Durability | None = None,
    scope: str | None = None,
    now: Callable[[], float] | None = None,
    busy_seconds: float | str | None = None,
    connections: int | None = None,
    **options: Any,
) -> "PostgresStore":
    """Open the store in a database; an argument goes before the same option in the address.

    scope          tenant, who sees no other tenant's sessions
    now            clock for tests; the server's clock by default
    busy_seconds   how long to wait for a lock, a free connection, or a server that restarts; 5
    connections    most connections at a time; 8
    """
    refuse_options("postgresql", options)
    parsed = parse_address(address)
    arguments = {
        "durability": durability,
        "scope": scope,
        "busy_seconds": busy_seconds,
        "connections": connections,
    }
    chosen: dict[str, Any] = {**_DEFAULTS, **parsed.options}
    chosen |= {key: value for key, value in arguments.items() if value is not None}
    tenant = check_scope(str(chosen["scope"]))
    if chosen["durability"] not in ("full", "normal"):
        raise RefoldError(f"durability is full or normal, not {chosen['durability']!r}")
    pool = Connections(
        parsed,
        scope=tenant,
        durability=chosen["durability"],
        busy_seconds=_parse_number("busy_seconds", chosen["busy_seconds"]),
        most=int(_parse_number("connections", chosen["connections"])),
    )
    try:
        pool.run(migrate, patient=False)
    except BaseException:
        pool.close()
        raise
    return PostgresStore(pool, tenant, now)


def _parse_number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not 0 < number < 1e6:
        raise RefoldError(f"{name} is a number above 0, not {value!r}")
    return number


class PostgresStore:
    """Sessions of one scope."""

    def __init__(self, connections: Connections, scope: str, now: Callable[[], float] | None) -> None:
        self._connections, self._run = connections, connections.run
        self._scope = scope
        self._clock = now

    @property
    def address(self) -> str:
        """Address that opens this store again, without secrets."""
        return self._connections.address.shown

    def _now(self) -> float | None:
        return None if self._clock is None else self._clock()

    # -- the log -----------------------------------------------------------------------------------------

    def sessions(self) -> list[SessionInfo]:
        """List all sessions, most recently changed first."""
        rows = self._run(
            lambda connection: connection.execute(
                "SELECT name, said, last, created, changed FROM refold.sessions WHERE scope = %s"
                " ORDER BY changed DESC, id DESC",
                [self._scope],
            ).fetchall()
        )
        return [
            SessionInfo(
                name=log.decode_damaged_text(name), said=said, entries=last, created=created, changed=changed
            )
            for name, said, last, created, changed in rows
        ]

    def head(self, session: str) -> Head | None:
        """Return the head of a session, or None if there is no such session."""
        return self._run(lambda connection: log.read_head(connection, self._scope, session))

    def append(
        self,
        session: str,
        entries: Sequence[Entry],
        *,
        expect: Head | None,
        at: Place | None = None,
        fence: int | None = None,
    ) -> Head:
        """Add entries behind a place and move the head behind them, all or nothing; durable on return.

        If the connection dies before the answer comes, the database decides: the append is done, or it runs
        again. Raises `StoreUnsure` if the database does not come back in time.
        """
        append = Append(self._scope, session, entries, expect, at, fence, self._now())
        return self._run_surely(append, append)

    def _run_surely(self, append: Append, work: Callable[[Connection], T]) -> T:
        """Run work of an append; raises `StoreUnsure` if nobody knows whether its entries are stored."""
        try:
            return self._run(work)
        except StoreError as error:
            if append.sent is None:
                raise
            problem = f"{error}; what was written last may or may not be stored: repeat the call"
            raise StoreUnsure(problem, settle=lambda: self._run_surely(append, append.settle)) from error

    def read(
        self,
        session: str,
        place: Place,
        *,
        kinds: Collection[Kind] | None = None,
        first: int = 0,
        last: int | None = None,
        newest: bool = False,
    ) -> Iterator[Entry]:
        """Iterate over the entries on the path to a place, oldest first unless `newest`."""
        path = self._run(lambda connection: log.find_path(connection, self._scope, session, place))
        rows = path.rows(self._run, kinds=kinds, first=first, last=last, newest=newest)
        return (log.parse_entry_row(row)[1] for row in rows)

    def find(self, session: str, names: Sequence[str]) -> dict[str, Place]:
        """Find entries by name on all branches."""
        return self._run(lambda connection: log.find_names(connection, self._scope, session, names))

    def find_marks(self, session: str, kind: Kind) -> list[tuple[Place, Entry]]:
        """Find the entries of a kind on all branches, in the order they were stored."""
        values = {"scope": self._scope, "key": name_hash(session), "kind": kind}
        return [log.parse_entry_row(row) for row in self._run(log.fetch_all(log.MARKS, values))]

    def branches(self, session: str) -> list[Branch]:
        """List the lines of a session in the order in which they began."""
        values = {"scope": self._scope, "key": name_hash(session)}
        rows = self._run(log.fetch_all(log.BRANCHES, values))
        return [
            Branch(begins=Place(parent_line, parent_seq), ends=Place(line, last))
            for line, parent_line, parent_seq, last in rows
        ]

    def locate(self, names: Sequence[str], *, limit: int = 8) -> dict[str, list[Located]]:
        """Find messages by name in all sessions of the scope."""
        return self._run(lambda connection: log.locate_names(connection, self._scope, names, limit))

    def delete(self, *sessions: str) -> dict[str, int]:
        """Remove sessions with everything that belongs to them."""
        remove = partial(delete, scope=self._scope)
        sizes = {one: self._run(partial(remove, session=one)) for one in dict.fromkeys(sessions)}
        return {session: size for session, size in sizes.items() if size is not None}

    # -- search and notes --------------------------------------------------------------------------------

    def search(
        self, query: str, *, session: str | None = None, limit: int = 10, some: bool = False
    ) -> list[SearchHit]:
        """Return the best hits on all branches, best first."""
        return self._run(
            lambda connection: search(connection, self._scope, query, session=session, limit=limit, some=some)
        )

    def note(self, key: str) -> str | None:
        """Return the value that was noted last for a key, or None."""
        row = self._run(
            lambda connection: connection.execute(
                "SELECT value FROM refold.notes WHERE scope = %s AND key = %s", [self._scope, name_hash(key)]
            ).fetchone()
        )
        return None if row is None else log.decode_damaged_text(row[0])

    def put_note(self, key: str, value: str) -> None:
        """Set the value of a key; durable on return."""
        values = [self._scope, name_hash(key), encode_text(key), encode_text(value)]
        self._run(lambda connection: connection.execute(_PUT_NOTE, values))

    def notes(self, start: str) -> dict[str, str]:
        """Return the notes whose keys start so."""
        rows = self._run(
            lambda connection: connection.execute(
                "SELECT name, value FROM refold.notes WHERE scope = %s AND name >= %s",
                [self._scope, encode_text(start)],
            ).fetchall()
        )
        found = {log.decode_damaged_text(name): log.decode_damaged_text(value) for name, value in rows}
        return {key: value for key, value in found.items() if key.startswith(start)}

    # -- leases ------------------------------------------------------------------------------------------

    def claim(self, session: str, *, holder: str, seconds: float) -> Lease | None:
        """Lease a session, or renew the lease of the same holder; None while another holder has it."""
        return self._run(
            lambda connection: leases.claim(
                connection, self._scope, session, holder=holder, seconds=seconds, now=self._now()
            )
        )

    def release(self, lease: Lease) -> None:
        """End a lease; does nothing if the session has a newer lease."""
        self._run(lambda connection: leases.release(connection, self._scope, lease))

    def offer(self, session: str) -> None:
        """Add a session to the queue of those that need work, unless it is in there."""
        self._run(lambda connection: leases.offer(connection, self._scope, session))

    def take(self, *, holder: str, seconds: float) -> Lease | None:
        """Remove the oldest session from the queue and lease it."""
        return self._run(
            lambda connection: leases.take(
                connection, self._scope, holder=holder, seconds=seconds, now=self._now()
            )
        )

    def watch(self, find_scopes: FindScopes) -> AsyncGenerator[None, None]:
        """Yield when something may have been appended in one of some scopes; "" is that of this store."""

        async def find_named() -> list[str]:
            return [scope or self._scope for scope in await find_scopes()]

        return watch(self._connections, find_named)

    # -- the whole store ---------------------------------------------------------------------------------

    def check(self) -> Iterator[Defect]:
        """Examine everything that is stored in this scope and yield each defect."""
        return check(self._connections, self._scope)

    def salvage(self) -> Iterator[tuple[str, Place, Entry]]:
        """Yield every readable entry, session by session in the order it was stored."""
        return salvage(self._connections, self._scope)

    def close(self) -> None:
        """Close the connections; may be called twice."""
        self._connections.close()
