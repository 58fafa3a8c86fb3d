"""What a session has spent: on its own requests, on summaries, in the last hour.

The sums are stored in the log: every fold and every failed attempt records its own cost and the sum of all
costs by then, and so does every report of usage. A session that is opened again reads the newest of these.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from refold.core.log.entries import Entry
from refold.core.models.prices import Spent
from refold.core.models.spending_limits import HOUR, Allowance, Bill, Caps, remaining_allowance, total_spent


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingTotals:
    """What was spent so far."""

    own: Spent = Spent()
    """Cost of the conversation's own requests."""
    summaries: Spent = Spent()
    """Cost of the summariser's calls."""
    bills: tuple[Bill, ...] = ()
    """Cost of each attempt in the last hour."""
    missed: bool = False
    """True if a question behind the conversation was answered without the provider's cache."""
    warned: bool = False
    """True if listeners know that a cap is reached."""

    def allowance_left(self, caps: Caps, at: float) -> Allowance | None:
        """Return what may still be spent on summaries; None if there is no cap."""
        return remaining_allowance(caps, self.summaries, self.bills, at) if caps.any else None

    def add_attempt(self, spent: Spent, at: float) -> "SpendingTotals":
        """Return the sums after an attempt that cost `spent`."""
        if not spent.calls:
            return self
        recent = tuple(bill for bill in self.bills if abs(at - bill.at) < HOUR)
        return replace(self, summaries=self.summaries.plus(spent), bills=(*recent, Bill(at=at, spent=spent)))

    @property
    def recorded_sum(self) -> dict[str, Any]:
        """The sum of all summaries, as an entry records it."""
        return {"summaries": self.summaries.as_dict()} if self.summaries.calls else {}

    def record_attempt(self, spent: Spent) -> dict[str, Any]:
        """Return the cost of one attempt and the sum with it, as an entry records them."""
        total = self.summaries.plus(spent)
        return {"spent": spent.as_dict(), "summaries": total.as_dict()} if total.calls else {}

    def without_sums(self) -> "SpendingTotals":
        """Return empty sums, to learn what a branch records by itself."""
        return replace(self, own=Spent(), summaries=Spent(), bills=())

    def merge(self, known: "SpendingTotals") -> "SpendingTotals":
        """Return the larger of these sums and those of another branch."""
        more = known.summaries.calls > self.summaries.calls
        ours = replace(self, summaries=known.summaries, bills=known.bills) if more else self
        return replace(ours, own=max(ours.own, known.own, key=_calls))

    def missing_from(self, there: "SpendingTotals") -> dict[str, Any]:
        """Return what an entry has to record on a branch whose sums are smaller; empty if nothing."""
        about = {"own": self.own.as_dict()} if self.own.calls > there.own.calls else {}
        if self.summaries.calls <= there.summaries.calls:
            return about
        recent = total_spent(bill.spent for bill in self.bills if bill not in there.bills)
        spent = {"spent": recent.as_dict()} if recent.calls else {}
        return {**about, **spent, "summaries": self.summaries.as_dict()}

    def restore(self, newest: Sequence[Entry]) -> "SpendingTotals":
        """Return the larger of these sums and those that the newest entries record.

        Other branches do not record what was spent here, so the log may say less.
        """
        sums = (one.beside.get("summaries") for one in newest if '"summaries":' in one.about)
        total = Spent.read(next(sums, None))
        # Parsing is expensive and most entries record no cost, so their text is looked at first.
        costs = [e for e in reversed(newest) if e.kind != "usage" and '"spent":' in e.about]
        bills = tuple(Bill(at=e.at, spent=s) for e in costs if (s := Spent.read(e.beside.get("spent"))).calls)
        own = (one.beside.get("own") for one in newest if one.kind == "attempt" and '"own":' in one.about)
        return replace(
            self,
            own=max(self.own, Spent.read(next(own, None)), key=_calls),
            summaries=max(self.summaries, total, key=_calls),
            bills=max(self.bills, bills, key=len),
        )


def _calls(sums: Spent) -> int:
    return sums.calls
