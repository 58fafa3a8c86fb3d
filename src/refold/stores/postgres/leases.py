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
from refold.stores.sql_files import read_statement
from refold.stores.text import encode_text, name_hash

_CLAIM: Final = read_statement("claim", NOW=NOW)
_OLDEST: Final = read_statement("oldest", NOW=NOW)
_OFFER: Final = read_statement("offer")


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
