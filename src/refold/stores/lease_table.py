"""The rules of leases and of waiting for work, over records that a store keeps for each session."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from refold.errors import Conflict
from refold.stores import Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is known of one session: its last lease, and its turn among those that wait."""

    fence: int = 0
    holder: str = ""
    until: float = 0.0
    """When the lease runs out; 0 once it was given back."""
    turn: int = 0
    """Its number among those that wait; 0 for one that does not."""
    taken: int = 0
    """The number it had when it was taken, for as long as it has not been given back."""

    def to_json(self) -> dict[str, Any]:
        """As a file keeps it."""
        return asdict(self)


class Desk:
    """Who works on what; changes are handed to the store before they count."""

    def __init__(self, keep: Callable[[str, Record], None], now: Callable[[], float]) -> None:
        self.records: dict[str, Record] = {}
        self._keep = keep
        self._now = now

    def load(self, records: Mapping[str, Record]) -> None:
        """Go on from records that were kept."""
        self.records = dict(records)

    def check(self, session: str, fence: int | None) -> None:
        """Refuse who comes with an older lease than the last."""
        last = self.records[session].fence if session in self.records else 0
        if fence is not None and fence < last:
            raise Conflict(f"lease {fence}", f"lease {last}")

    def claim(self, session: str, *, holder: str, seconds: float) -> Lease | None:
        """Give a lease, or make the holder's own longer."""
        record = self.records.get(session, Record())
        if record.until <= self._now():
            record = replace(record, fence=record.fence + 1, taken=0, turn=record.turn or record.taken)
        elif record.holder != holder:
            return None
        return self._give(session, replace(record, holder=holder), seconds)

    def release(self, lease: Lease) -> None:
        """End a lease, where it is the last one."""
        record = self.records.get(lease.session)
        if record and record.fence == lease.fence and record.holder == lease.holder:
            self._change(lease.session, replace(record, until=0.0, taken=0))

    def offer(self, session: str) -> None:
        """Put a session behind those that wait, unless it waits."""
        record = self.records.get(session, Record())
        if not record.turn:
            turn = 1 + max((max(r.turn, r.taken) for r in self.records.values()), default=0)
            self._change(session, replace(record, turn=turn))

    def take(self, *, holder: str, seconds: float) -> Lease | None:
        """Lease the session that waits longest and that nobody works on."""
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
        return self._give(session, record, seconds)

    def _give(self, session: str, record: Record, seconds: float) -> Lease:
        self._change(session, replace(record, until=self._now() + seconds))
        return Lease(session=session, holder=record.holder, fence=record.fence)

    def _change(self, session: str, record: Record) -> None:
        self._keep(session, record)
        self.records[session] = record
