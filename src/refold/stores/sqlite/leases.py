"""Leases and waiting for work in a SQLite store; each function is part of one transaction."""

from typing import Final

from refold.errors import Conflict
from refold.stores import Lease
from refold.stores.sqlite.driver import Raw
from refold.stores.sqlite.rows import packed, unpacked

_GIVE: Final = (
    "INSERT INTO leases (session, fence, holder, until, turn, taken) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (session) DO UPDATE SET fence = excluded.fence, holder = excluded.holder,"
    " until = excluded.until, turn = excluded.turn, taken = excluded.taken"
)
_OFFER: Final = (
    "INSERT INTO leases (session, turn) VALUES (?1, ?2)"
    " ON CONFLICT (session) DO UPDATE SET turn = ?2 WHERE turn = 0"
)
_LAST_TURN: Final = "SELECT ifnull(max(max(turn, taken)), 0) FROM leases WHERE max(turn, taken) > 0"
# A new turn is always larger than the number that the same session was taken with.
_WAITING: Final = (
    "SELECT session, fence, max(turn, taken) FROM leases WHERE max(turn, taken) > 0 AND until <= ?"
    " ORDER BY max(turn, taken) LIMIT 1"
)


def check(raw: Raw, session: bytes, fence: int | None) -> None:
    """Refuse who comes with an older lease than the last."""
    if fence is None:
        return
    for (last,) in raw.execute("SELECT fence FROM leases WHERE session = ?", (session,)).fetchall():
        if fence < last:
            raise Conflict(f"lease {fence}", f"lease {last}")


def claim(raw: Raw, session: str, holder: str, now: float, seconds: float) -> Lease | None:
    """Give a lease, or make the holder's own longer."""
    statement = "SELECT fence, holder, until, turn, taken FROM leases WHERE session = ?"
    rows = raw.execute(statement, (packed(session),)).fetchall()
    fence, holding, until, turn, taken = rows[0] if rows else (0, b"", 0.0, 0, 0)
    if until <= now:  # work that was taken and not given back waits again
        fence, turn, taken = fence + 1, turn or taken, 0
    elif holding != packed(holder):
        return None
    raw.execute(_GIVE, (packed(session), fence, packed(holder), now + seconds, turn, taken))
    return Lease(session=session, holder=holder, fence=fence)


def release(raw: Raw, lease: Lease) -> None:
    """End a lease, where it is the last one."""
    raw.execute(
        "UPDATE leases SET until = 0, taken = 0 WHERE session = ? AND holder = ? AND fence = ?",
        (packed(lease.session), packed(lease.holder), lease.fence),
    )


def offer(raw: Raw, session: str) -> None:
    """Put a session behind those that wait, unless it waits."""
    [(last,)] = raw.execute(_LAST_TURN).fetchall()
    raw.execute(_OFFER, (packed(session), last + 1))


def take(raw: Raw, holder: str, now: float, seconds: float) -> Lease | None:
    """Lease the session that waits longest and that nobody works on."""
    for session, fence, turn in raw.execute(_WAITING, (now,)).fetchall():
        raw.execute(_GIVE, (session, fence + 1, packed(holder), now + seconds, 0, turn))
        return Lease(session=unpacked(session), holder=holder, fence=fence + 1)
    return None
