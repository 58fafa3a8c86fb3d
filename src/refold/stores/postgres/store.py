"""The store for many processes and hosts: sessions in a PostgreSQL database, each tenant in its scope.

    postgresql://USER:PASSWORD@HOST/DATABASE?scope=TENANT

Needs the extra `refold[postgres]`, a database in UTF8 and, for the first one who opens it, the right to make
the schema `refold`. A connection keeps its settings, the scope among them: a pooler in between has to be one
of sessions, not of transactions (with one of transactions nothing leaks, but nothing is found either).

Both durabilities wait until the server has an append on its disk: what was acknowledged survives a kill of
this process and a crash of the server. `full` waits for synchronous standbys as well.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, TypeVar

from refold.core.log.entries import Entry, Kind
from refold.errors import RefoldError
from refold.stores import Durability, Found, Head, Info, Lease, Place, Trouble
from refold.stores.addresses import no_more
from refold.stores.postgres.address import parse

try:
    from refold.stores.postgres import leases, log
    from refold.stores.postgres.append import Append
    from refold.stores.postgres.check import check, salvage
    from refold.stores.postgres.connections import Connection, Connections
    from refold.stores.postgres.schema import prepare
    from refold.stores.postgres.search import search
except ImportError as error:
    raise RefoldError(f"a PostgreSQL store needs psycopg ({error}): pip install 'refold[postgres]'") from None

T = TypeVar("T")
DEFAULT_SCOPE: Final = "default"
"""Not empty, because a setting that was never made reads as empty."""
_LONGEST_SCOPE: Final = 500
"""Characters; it stands in every index, whose rows have room for 2,704 bytes."""
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
    busy_seconds: float | None = None,
    connections: int | None = None,
    **options: Any,
) -> "PostgresStore":
    """Open the store in a database; options may stand in the address too, those given here go first.

    scope          the tenant; no other one's sessions are seen
    now            a clock for tests; the server's otherwise
    busy_seconds   how long to wait for a lock, a free connection, or a server that restarts; 5
    connections    at most so many at once; 8
    """
    no_more("postgresql", options)
    parsed = parse(address)
    given = {
        "durability": durability,
        "scope": scope,
        "busy_seconds": busy_seconds,
        "connections": connections,
    }
    said = {**parsed.options, **{key: value for key, value in given.items() if value is not None}}
    tenant = _scope(str(said.get("scope", DEFAULT_SCOPE)))
    pool = Connections(
        parsed,
        scope=tenant,
        durability=_durability(said.get("durability", "normal")),
        busy_seconds=_number("busy_seconds", said.get("busy_seconds", 5.0)),
        most=int(_number("connections", said.get("connections", 8))),
    )
    try:
        pool.run(prepare, patient=False)
    except BaseException:
        pool.close()
        raise
    return PostgresStore(pool, tenant, now)


def _scope(scope: str) -> str:
    if not 0 < len(scope) <= _LONGEST_SCOPE or not scope.isprintable():
        raise RefoldError(f"a scope has 1 to {_LONGEST_SCOPE} printable characters, not {scope[:40]!r}")
    return scope


def _durability(value: Any) -> Durability:
    if value == "full":
        return "full"
    if value == "normal":
        return "normal"
    raise RefoldError(f"durability is full or normal, not {value!r}")


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not 0 < number < 1e6:
        raise RefoldError(f"{name} is a number above 0, not {value!r}")
    return number


class PostgresStore:
    """The sessions of one scope."""

    def __init__(self, connections: Connections, scope: str, now: Callable[[], float] | None) -> None:
        self._connections = connections
        self._scope = scope
        self._clock = now

    @property
    def address(self) -> str:
        """How it was opened, without secrets."""
        return self._connections.address.shown

    def _run(self, work: Callable[[Connection], T]) -> T:
        return self._connections.run(work)

    def _now(self) -> float | None:
        return None if self._clock is None else self._clock()

    # -- the log -----------------------------------------------------------------------------------------

    def sessions(self) -> list[Info]:
        """All sessions, the one that changed last first."""
        rows = self._run(
            lambda connection: connection.execute(
                "SELECT name, said, last, created, changed FROM refold.sessions WHERE scope = %s"
                " ORDER BY changed DESC, id DESC",
                [self._scope],
            ).fetchall()
        )
        return [
            Info(name=log.unpacked(name), said=said, entries=last, created=created, changed=changed)
            for name, said, last, created, changed in rows
        ]

    def head(self, session: str) -> Head | None:
        """Where a session is; None where there is none of this name."""
        return self._run(lambda connection: log.head(connection, self._scope, session))

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

        Where the connection dies before the answer comes, what the database has decides: the append is done,
        or it is tried again.
        """
        return self._run(Append(self._scope, session, entries, expect, at, fence, self._now()))

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
        """Entries on the path to a place, oldest first, or newest first."""
        path = self._run(lambda connection: log.path(connection, self._scope, session, place))
        rows = path.rows(self._run, kinds=kinds, first=first, last=last, newest=newest)
        return (log.placed(row)[1] for row in rows)

    def find(self, session: str, names: Sequence[str]) -> dict[str, Place]:
        """Where entries of these names stand, on whatever branch."""
        return self._run(lambda connection: log.find(connection, self._scope, session, names))

    # -- search and notes --------------------------------------------------------------------------------

    def search(
        self, query: str, *, session: str | None = None, limit: int = 10, some: bool = False
    ) -> list[Found]:
        """The best hits, best first, on all branches."""
        key = None if session is None else log.key_of(session)
        rows = self._run(
            lambda connection: search(connection, self._scope, query, key=key, limit=limit, some=some)
        )
        return [self._found(row) for row in rows]

    @staticmethod
    def _found(row: log.Row) -> Found:
        place, entry = log.placed(row[1:-1])
        return Found(session=log.unpacked(row[0]), entry=entry, place=place, score=float(row[-1]))

    def note(self, key: str) -> str | None:
        """What was noted last."""
        row = self._run(
            lambda connection: connection.execute(
                "SELECT value FROM refold.notes WHERE scope = %s AND key = %s", [self._scope, log.key_of(key)]
            ).fetchone()
        )
        return None if row is None else log.unpacked(row[0])

    def put_note(self, key: str, value: str) -> None:
        """Note something; durable on return."""
        given = [self._scope, log.key_of(key), log.packed(key), log.packed(value)]
        self._run(lambda connection: connection.execute(_PUT_NOTE, given))

    # -- leases ------------------------------------------------------------------------------------------

    def claim(self, session: str, *, holder: str, seconds: float) -> Lease | None:
        """The right to work on a session; None while somebody else has it."""
        return self._run(
            lambda connection: leases.claim(
                connection, self._scope, session, holder=holder, seconds=seconds, now=self._now()
            )
        )

    def release(self, lease: Lease) -> None:
        """Give it back; nothing happens where somebody else has it by now."""
        self._run(lambda connection: leases.release(connection, self._scope, lease))

    def offer(self, session: str) -> None:
        """Put a session among those that wait for work."""
        self._run(lambda connection: leases.offer(connection, self._scope, session))

    def take(self, *, holder: str, seconds: float) -> Lease | None:
        """Claim a session that waits for work, the oldest first; others get other ones."""
        return self._run(
            lambda connection: leases.take(
                connection, self._scope, holder=holder, seconds=seconds, now=self._now()
            )
        )

    # -- all of it ---------------------------------------------------------------------------------------

    def check(self) -> Iterator[Trouble]:
        """Look at everything that is stored in this scope; gives what is wrong."""
        return check(self._connections, self._scope)

    def salvage(self) -> Iterator[tuple[str, Place, Entry]]:
        """Everything that can still be read, session by session in the order it was stored."""
        return salvage(self._connections, self._scope)

    def close(self) -> None:
        """Close the connections; may be called twice."""
        self._connections.close()
