"""Leases and the work queue in a SQLite store; each function is part of one transaction.

The rules are those of `lease_table`, as SQL, so that a claim reads one row and not all of them.
"""

from typing import Final

from refold.errors import Conflict
from refold.stores import Lease
from refold.stores.sqlite.driver import RawConnection
from refold.stores.text import decode_text, encode_text

_GRANT: Final = (
    "INSERT INTO leases (session, fence, holder, until, turn, taken) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (session) DO UPDATE SET fence = excluded.fence, holder = excluded.holder,"
    " until = excluded.until, turn = excluded.turn, taken = excluded.taken"
)
_OFFER: Final = (
    "INSERT INTO leases (session, turn) VALUES (?1, ?2)"
    " ON CONFLICT (session) DO UPDATE SET turn = ?2 WHERE turn = 0"
)
_LAST_TURN: Final = "SELECT ifnull(max(max(turn, taken)), 0) FROM leases WHERE max(turn, taken) > 0"
# A new turn is always larger than the number that the same session was taken with, so max() finds it.
_OLDEST: Final = (
    "SELECT session, fence, max(turn, taken) FROM leases WHERE max(turn, taken) > 0 AND until <= ?"
    " ORDER BY max(turn, taken) LIMIT 1"
)


def check_fence(raw: RawConnection, session: bytes, fence: int) -> None:
    """Raise `Conflict` for a fence that is older than the last lease."""
    for (last,) in raw.execute("SELECT fence FROM leases WHERE session = ?", (session,)).fetchall():
        if fence < last:
            raise Conflict(f"lease {fence}", f"lease {last}")


def claim(raw: RawConnection, session: str, holder: str, now: float, seconds: float) -> Lease | None:
    """Lease a session, or renew the lease of the same holder; None while another holder has it."""
    statement = "SELECT fence, holder, until, turn, taken FROM leases WHERE session = ?"
    rows = raw.execute(statement, (encode_text(session),)).fetchall()
    fence, current, until, turn, taken = rows[0] if rows else (0, b"", 0.0, 0, 0)
    # A late renewal changes nothing; work that was never released goes back to its place in the queue.
    if until <= now and not (until and current == encode_text(holder)):
        fence, turn, taken = fence + 1, turn or taken, 0
    elif current != encode_text(holder):
        return None
    raw.execute(_GRANT, (encode_text(session), fence, encode_text(holder), now + seconds, turn, taken))
    return Lease(session=session, holder=holder, fence=fence)


def release(raw: RawConnection, lease: Lease) -> None:
    """End a lease if it is the last one of its session."""
    raw.execute(
        "UPDATE leases SET until = 0, taken = 0 WHERE session = ? AND holder = ? AND fence = ?",
        (encode_text(lease.session), encode_text(lease.holder), lease.fence),
    )


def offer(raw: RawConnection, session: str) -> None:
    """Add a session to the end of the queue, unless it is in there."""
    [(last,)] = raw.execute(_LAST_TURN).fetchall()
    raw.execute(_OFFER, (encode_text(session), last + 1))


def take(raw: RawConnection, holder: str, now: float, seconds: float) -> Lease | None:
    """Lease the oldest session of the queue that nobody holds."""
    for session, fence, turn in raw.execute(_OLDEST, (now,)).fetchall():
        raw.execute(_GRANT, (session, fence + 1, encode_text(holder), now + seconds, 0, turn))
        return Lease(session=decode_text(session), holder=holder, fence=fence + 1)
    return None
