"""What each day cost: the sums that logs hold beside their reports, taken apart by the time of each."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from refold.core.log.entries import Entry, Kind
from refold.core.models.prices import Spent
from refold.core.models.spending_limits import total_spent
from refold.errors import LogCorrupt
from refold.inspector.scopes import Scope, Scopes
from refold.stores import SessionInfo

DAYS: Final = 14
MOST_DAYS: Final = 92
DAY: Final = 86_400
_LONGEST_DAY: Final = 25 * 3_600
"""Seconds of a day on which clocks are put back."""
_STEP: Final = 900
"""Seconds that are added up together: every time zone begins its day at a quarter of an hour."""
_MOST_SESSIONS: Final = 2_000
"""Sessions that are read, those that changed last; each once until it changes again."""
_KINDS: Final[tuple[Kind, ...]] = ("usage", "fold", "attempt")
_NOTHING: Final = Spent()


@dataclass(slots=True)
class _Sums:
    """The sums of one log, newest first: what stands between two sums was spent at the later one."""

    since: float
    steps: dict[int, Spent] = field(default_factory=dict)
    later: dict[str, tuple[Spent, int]] = field(default_factory=dict)
    """For requests and summaries the sum that was read last, and its time."""

    def take(self, entry: Entry) -> bool:
        """Take in the next older entry; False if nothing before it counts."""
        beside, is_usage = entry.beside, entry.kind == "usage"
        sums = {"own": beside.get("spent" if is_usage else "own"), "summaries": beside.get("summaries")}
        for name, value in sums.items():
            if value is not None or is_usage:  # a report without a sum of summaries has seen none
                self._add(name, Spent.read(value))
                self.later[name] = (Spent.read(value), int(entry.at // _STEP))
        return not (is_usage and entry.at < self.since)

    def end(self) -> None:
        """Count what was spent before the oldest sum: there is nothing older."""
        for name in self.later:
            self._add(name, _NOTHING)

    def _add(self, name: str, before: Spent) -> None:
        total, step = self.later.get(name, (_NOTHING, 0))
        if total.calls > before.calls and step * _STEP >= self.since - _STEP:
            self.steps[step] = self.steps.get(step, _NOTHING).plus(_subtract(total, before))


def _subtract(total: Spent, before: Spent) -> Spent:
    """Return what was spent between two sums."""
    counts = {
        name: max(0, getattr(total, name) - getattr(before, name))
        for name in ("calls", "input", "output", "cache_read", "cache_write", "unpriced")
    }
    dollars = None if total.dollars is None else max(0.0, total.dollars - (before.dollars or 0.0))
    return Spent(**counts, dollars=None if counts["unpriced"] == counts["calls"] else dollars)


def show_costs(scopes: Scopes, tenants: Iterable[str], begins: Sequence[int]) -> dict[str, Any]:
    """Return what each of some days cost, the newest last.

    begins   when each day began where the reader is: one on which clocks are changed has 23 or 25 hours
    """
    since, days = begins[0], len(begins)
    spent: list[list[Spent]] = [[] for _ in range(days)]
    sessions = [0] * days
    left_out = 0
    for tenant in tenants:
        with scopes.use(tenant) as scope:
            recent = [info for info in scope.store.sessions() if info.changed >= since]
            left_out += max(0, len(recent) - _MOST_SESSIONS)
            for info in recent[:_MOST_SESSIONS]:
                by_day = _split_days(_read_steps(scope, info, since), begins)
                for day, part in by_day.items():
                    spent[day].append(part)
                    sessions[day] += 1
    rows = [
        {"at": begins[day], "sessions": sessions[day], "spent": total_spent(spent[day]).as_dict()}
        for day in range(days)
    ]
    whole = total_spent(part for parts in spent for part in parts)
    return {"days": rows, "spent": whole.as_dict(), "left_out": left_out}


def _split_days(steps: dict[int, Spent], begins: Sequence[int]) -> dict[int, Spent]:
    by_day: dict[int, Spent] = {}
    for step, part in steps.items():
        day = bisect_right(begins, step * _STEP) - 1
        if day >= 0 and step * _STEP < begins[-1] + _LONGEST_DAY:
            by_day[day] = by_day.get(day, _NOTHING).plus(part)
    return by_day


def _read_steps(scope: Scope, info: SessionInfo, since: float) -> dict[int, Spent]:
    """Return what a session spent, by the quarter of an hour; read again only if it has changed."""
    known = scope.costs.get(info.name)
    if known is not None and known[0] == (info.entries, info.changed) and known[1] <= since:
        return known[2]
    sums = _Sums(since)
    try:
        if all(map(sums.take, _read_newest(scope, info.name, since))):
            sums.end()
    except LogCorrupt:
        return {}  # the others are counted; the list shows that it is damaged
    scope.costs[info.name] = ((info.entries, info.changed), since, sums.steps)
    return sums.steps


def _read_newest(scope: Scope, name: str, since: float) -> list[Entry]:
    """Read the sums of all branches, newest first.

    A branch begins with the sums of the one that was left, so that they grow with time and not with the path.
    """
    found: dict[tuple[str, float], Entry] = {}  # what is said again in the same place has the same name
    for branch in reversed(scope.store.branches(name)):
        for entry in scope.store.read(name, branch.ends, kinds=_KINDS, newest=True):
            is_known = (entry.name, entry.at) in found
            found[entry.name, entry.at] = entry
            if is_known or (entry.kind == "usage" and entry.at < since):
                break
    return sorted(found.values(), key=lambda entry: entry.at, reverse=True)
