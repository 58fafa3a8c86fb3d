"""Rules of leases and of the work queue, over one record for each session; the store keeps the records."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from refold.errors import Conflict
from refold.stores import Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """Last lease of one session and its place in the queue."""

    fence: int = 0
    holder: str = ""
    until: float = 0.0
    """Time when the lease expires; 0 once it was released."""
    turn: int = 0
    """Number in the queue; 0 outside of it."""
    taken: int = 0
    """Number that it had in the queue when it was taken; 0 once that lease was released."""


class LeaseTable:
    """Leases of all sessions. `save` gets each change before it counts: a failed write changes nothing."""

    def __init__(self, save: Callable[[str, LeaseRecord], None], now: Callable[[], float]) -> None:
        self.records: dict[str, LeaseRecord] = {}
        self._save = save
        self._now = now

    def load(self, records: Mapping[str, LeaseRecord]) -> None:
        """Replace all records by those that were stored."""
        self.records = dict(records)

    def check_fence(self, session: str, fence: int | None) -> None:
        """Raise `Conflict` for a fence that is older than the last lease."""
        last = self.records[session].fence if session in self.records else 0
        if fence is not None and fence < last:
            raise Conflict(f"lease {fence}", f"lease {last}")

    def claim(self, session: str, *, holder: str, seconds: float) -> Lease | None:
        """Lease a session, or renew the lease of the same holder; None while another holder has it."""
        record = self.records.get(session, LeaseRecord())
        is_lapsed = record.until <= self._now()
        if is_lapsed and not (record.until and record.holder == holder):  # a late renewal changes nothing
            # Work that was taken and never released goes back to its place in the queue.
            record = replace(record, fence=record.fence + 1, taken=0, turn=record.turn or record.taken)
        elif record.holder != holder:
            return None
        return self._grant(session, replace(record, holder=holder), seconds)

    def release(self, lease: Lease) -> None:
        """End a lease if it is the last one of its session."""
        record = self.records.get(lease.session)
        if record and record.fence == lease.fence and record.holder == lease.holder:
            self._change(lease.session, replace(record, until=0.0, taken=0))

    def offer(self, session: str) -> None:
        """Add a session to the end of the queue, unless it is in there."""
        record = self.records.get(session, LeaseRecord())
        if not record.turn:
            turn = 1 + max((max(r.turn, r.taken) for r in self.records.values()), default=0)
            self._change(session, replace(record, turn=turn))

    def take(self, *, holder: str, seconds: float) -> Lease | None:
        """Lease the oldest session of the queue that has no lease; None if there is none."""
        now = self._now()
        waiting = [
            (record.turn or record.taken, session)
            for session, record in self.records.items()
            if (record.turn or record.taken) and record.until <= now
        ]
        if not waiting:
            return None
        turn, session = min(waiting)
        record = self.records[session]
        record = replace(record, fence=record.fence + 1, holder=holder, turn=0, taken=turn)
        return self._grant(session, record, seconds)

    def _grant(self, session: str, record: LeaseRecord, seconds: float) -> Lease:
        self._change(session, replace(record, until=self._now() + seconds))
        return Lease(session=session, holder=record.holder, fence=record.fence)

    def _change(self, session: str, record: LeaseRecord) -> None:
        self._save(session, record)
        self.records[session] = record
