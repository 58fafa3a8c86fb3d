"""Leases and the queue in a PostgreSQL store: who works on what, by the server's clock.

A lease's row stays when the lease is given back, so that its fence only grows. A session that was taken from
the queue keeps its row there until the lease that took it is given back; where that never happens, the lease
runs out and the row is taken again.
"""

from collections.abc import Mapping
from typing import Any, Final

from refold.stores import Lease
from refold.stores.postgres.connections import Connection
from refold.stores.postgres.log import NOW, key_of, packed, unpacked

_CLAIM: Final = f"""
    INSERT INTO refold.leases AS l (scope, key, holder, fence, until)
    VALUES (%(scope)s, %(key)s, %(holder)s, 1, {NOW} + %(seconds)s)
    ON CONFLICT (scope, key) DO UPDATE SET
        fence = l.fence + CASE WHEN l.holder IS NULL OR l.until <= {NOW} THEN 1 ELSE 0 END,
        holder = excluded.holder, until = excluded.until
    WHERE l.holder IS NULL OR l.until <= {NOW} OR (%(renew)s AND l.holder = excluded.holder)
    RETURNING fence
"""  # noqa: S608  # put together of constants
_WAITING: Final = f"""
    SELECT q.key, q.name FROM refold.queue AS q
    WHERE q.scope = %(scope)s AND NOT EXISTS (
        SELECT FROM refold.leases AS l
        WHERE l.scope = %(scope)s AND l.key = q.key AND l.holder IS NOT NULL AND l.until > {NOW})
    ORDER BY q.number LIMIT 1 FOR UPDATE OF q SKIP LOCKED
"""  # noqa: S608  # put together of constants
_OFFER: Final = """
    INSERT INTO refold.queue AS q (scope, key, name) VALUES (%s, %s, %s)
    ON CONFLICT (scope, key) DO UPDATE SET taken = NULL, number = DEFAULT WHERE q.taken IS NOT NULL
"""


def claim(
    connection: Connection, scope: str, session: str, *, holder: str, seconds: float, now: float | None
) -> Lease | None:
    """The right to work on a session; a holder that asks again in time keeps its fence."""
    given = {"scope": scope, "holder": packed(holder), "seconds": seconds, "now": now, "renew": True}
    fence = _leased(connection, given | {"key": key_of(session)})
    return None if fence is None else Lease(session=session, holder=holder, fence=fence)


def release(connection: Connection, scope: str, lease: Lease) -> None:
    """Give a lease back, and the session out of the queue if the lease took it from there."""
    given = {
        "scope": scope,
        "key": key_of(lease.session),
        "fence": lease.fence,
        "holder": packed(lease.holder),
    }
    with connection.transaction():
        connection.execute(
            "DELETE FROM refold.queue WHERE scope = %(scope)s AND key = %(key)s AND taken = %(fence)s"
            " AND EXISTS (SELECT FROM refold.leases AS l WHERE l.scope = %(scope)s AND l.key = %(key)s"
            " AND l.fence = %(fence)s AND l.holder = %(holder)s)",
            given,
        )
        connection.execute(
            "UPDATE refold.leases SET holder = NULL WHERE scope = %(scope)s AND key = %(key)s"
            " AND fence = %(fence)s AND holder = %(holder)s",
            given,
        )


def offer(connection: Connection, scope: str, session: str) -> None:
    """Put a session into the queue; one that is being worked on waits for the time after."""
    connection.execute(_OFFER, [scope, key_of(session), packed(session)])


def take(
    connection: Connection, scope: str, *, holder: str, seconds: float, now: float | None
) -> Lease | None:
    """Claim the session that waited longest; others who take at the same time get the next ones."""
    given = {"scope": scope, "holder": packed(holder), "seconds": seconds, "now": now, "renew": False}
    while True:
        with connection.transaction():
            row = connection.execute(_WAITING, {"scope": scope, "now": now}).fetchone()
            if row is None:
                return None
            fence = _leased(connection, given | {"key": row[0]})
            if fence is not None:
                connection.execute(
                    "UPDATE refold.queue SET taken = %s WHERE scope = %s AND key = %s",
                    [fence, scope, row[0]],
                )
                return Lease(session=unpacked(row[1]), holder=holder, fence=fence)
        # somebody claimed it between the two statements; the next look does not see it any more


def _leased(connection: Connection, given: Mapping[str, Any]) -> int | None:
    """The fence of a lease that was given or made longer."""
    row = connection.execute(_CLAIM, given).fetchone()
    return None if row is None else int(row[0])
