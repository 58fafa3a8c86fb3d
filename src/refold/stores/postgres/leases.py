"""Leases and the work queue in a PostgreSQL store, by the clock of the server.

The row of a lease stays when the lease is released, so that its fence only grows. A session that was taken
from the queue keeps its row there until that lease is released. If that never happens, the lease expires and
the row is taken again.
"""

from collections.abc import Mapping
from typing import Any, Final

from refold.stores import Lease
from refold.stores.postgres.connections import Connection
from refold.stores.postgres.log import NOW, decode_damaged_text
from refold.stores.text import encode_text, name_hash

_CLAIM: Final = f"""
    INSERT INTO refold.leases AS l (scope, key, holder, fence, until)
    VALUES (%(scope)s, %(key)s, %(holder)s, 1, {NOW} + %(seconds)s)
    ON CONFLICT (scope, key) DO UPDATE SET
        fence = l.fence + CASE WHEN %(renew)s AND l.holder = excluded.holder THEN 0 ELSE 1 END,
        holder = excluded.holder, until = excluded.until
    WHERE l.holder IS NULL OR l.until <= {NOW} OR (%(renew)s AND l.holder = excluded.holder)
    RETURNING fence
"""  # noqa: S608  # put together of constants
_OLDEST: Final = f"""
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
    """Lease a session; a holder that asks again in time keeps its fence."""
    values = {"scope": scope, "holder": encode_text(holder), "seconds": seconds, "now": now, "renew": True}
    fence = _grant(connection, values | {"key": name_hash(session)})
    return None if fence is None else Lease(session=session, holder=holder, fence=fence)


def release(connection: Connection, scope: str, lease: Lease) -> None:
    """End a lease, and remove the session from the queue if the lease took it from there."""
    values = {
        "scope": scope,
        "key": name_hash(lease.session),
        "fence": lease.fence,
        "holder": encode_text(lease.holder),
    }
    with connection.transaction():
        connection.execute(
            "DELETE FROM refold.queue WHERE scope = %(scope)s AND key = %(key)s AND taken = %(fence)s"
            " AND EXISTS (SELECT FROM refold.leases AS l WHERE l.scope = %(scope)s AND l.key = %(key)s"
            " AND l.fence = %(fence)s AND l.holder = %(holder)s)",
            values,
        )
        connection.execute(
            "UPDATE refold.leases SET holder = NULL WHERE scope = %(scope)s AND key = %(key)s"
            " AND fence = %(fence)s AND holder = %(holder)s",
            values,
        )


def offer(connection: Connection, scope: str, session: str) -> None:
    """Add a session to the queue; one that is being worked on is queued for the time after."""
    connection.execute(_OFFER, [scope, name_hash(session), encode_text(session)])


def take(
    connection: Connection, scope: str, *, holder: str, seconds: float, now: float | None
) -> Lease | None:
    """Lease the oldest session of the queue; others who take at the same time get the next ones."""
    values = {"scope": scope, "holder": encode_text(holder), "seconds": seconds, "now": now, "renew": False}
    while True:
        with connection.transaction():
            row = connection.execute(_OLDEST, {"scope": scope, "now": now}).fetchone()
            if row is None:
                return None
            fence = _grant(connection, values | {"key": row[0]})
            if fence is not None:
                connection.execute(
                    "UPDATE refold.queue SET taken = %s WHERE scope = %s AND key = %s", [fence, scope, row[0]]
                )
                return Lease(session=decode_damaged_text(row[1]), holder=holder, fence=fence)
        # Somebody claimed it between the two statements; the next look does not see it any more.


def _grant(connection: Connection, values: Mapping[str, Any]) -> int | None:
    """Give or renew a lease and return its fence; None while another holder has one."""
    row = connection.execute(_CLAIM, values).fetchone()
    return None if row is None else int(row[0])
