"""What a session has spent: on its own requests, on summaries, in the last hour; restored from its log.

Sums run along with the log: every fold and every attempt that failed says beside itself what it took, and
what all of them have taken by then; so does every report of usage. A session that is opened again knows its
sums from the newest of these.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from refold.core.log.entries import Entry
from refold.core.models.prices import Spent
from refold.core.models.spending_limits import HOUR, Allowance, Bill, Caps, allowance, together
from refold.core.models.windows import Price


@dataclass(frozen=True, slots=True, kw_only=True)
class Summariser:
    """Who summarises, as far as it tells."""

    model: str = ""
    provider: str = ""
    format: str = ""
    price: Price | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingTotals:
    """What was spent by now."""

    own: Spent = Spent()
    """By the conversation's own requests."""
    summaries: Spent = Spent()
    """By the summariser's calls."""
    bills: tuple[Bill, ...] = ()
    """What attempts took in the last hour."""
    missed: bool = False
    """Whether a question behind the conversation's prefix was not answered out of the cache."""
    warned: bool = False
    """Whether listeners know that a cap is reached."""

    def left(self, caps: Caps, at: float) -> Allowance | None:
        """What may still be spent on summaries; None where there is no cap."""
        return allowance(caps, self.summaries, self.bills, at) if caps.any else None

    def paid(self, spent: Spent, at: float) -> "SpendingTotals":
        """After an attempt that took so much."""
        if not spent.calls:
            return self
        recent = tuple(bill for bill in self.bills if abs(at - bill.at) < HOUR)
        return replace(self, summaries=self.summaries.plus(spent), bills=(*recent, Bill(at=at, spent=spent)))

    @property
    def running(self) -> dict[str, Any]:
        """What an entry says beside itself about all summaries by then."""
        return {"summaries": self.summaries.as_dict()} if self.summaries.calls else {}

    def beside(self, spent: Spent) -> dict[str, Any]:
        """The same about an attempt that took so much, and about all with it."""
        total = self.summaries.plus(spent)
        return {"spent": spent.as_dict(), "summaries": total.as_dict()} if total.calls else {}

    def emptied(self) -> "SpendingTotals":
        """As if nothing had been spent: to learn what a branch knows by itself."""
        return replace(self, own=Spent(), summaries=Spent(), bills=())

    def with_all_of(self, known: "SpendingTotals") -> "SpendingTotals":
        """With what was spent elsewhere, where that is more."""
        more = known.summaries.calls > self.summaries.calls
        ours = replace(self, summaries=known.summaries, bills=known.bills) if more else self
        return replace(ours, own=max(ours.own, known.own, key=_calls))

    def lacking(self, there: "SpendingTotals") -> dict[str, Any]:
        """What an entry says beside itself on a branch that knows less, so that it is known there as well."""
        about = {"own": self.own.as_dict()} if self.own.calls > there.own.calls else {}
        if self.summaries.calls <= there.summaries.calls:
            return about
        recent = together(bill.spent for bill in self.bills if bill not in there.bills)
        spent = {"spent": recent.as_dict()} if recent.calls else {}
        return {**about, **spent, "summaries": self.summaries.as_dict()}

    def restored(self, newest: Sequence[Entry]) -> "SpendingTotals":
        """With what the newest entries say, unless more is known here: other branches know nothing of it."""
        sums = (one.beside.get("summaries") for one in newest if '"summaries":' in one.about)
        total = Spent.read(next(sums, None))
        bills = tuple(_bills(reversed(newest)))
        own = (one.beside.get("own") for one in newest if one.kind == "attempt" and '"own":' in one.about)
        return replace(
            self,
            own=max(self.own, Spent.read(next(own, None)), key=_calls),
            summaries=max(self.summaries, total, key=_calls),
            bills=max(self.bills, bills, key=len),
        )


def _calls(sums: Spent) -> int:
    return sums.calls


def _bills(entries: Iterable[Entry]) -> Iterable[Bill]:
    for one in entries:
        if one.kind == "usage" or '"spent":' not in one.about:  # reading text is dear, and most have none
            continue
        spent = Spent.read(one.beside.get("spent"))
        if spent.calls:
            yield Bill(at=one.at, spent=spent)
