"""Costs, savings and plans in words: what calls cost, how much is saved, why nothing changes."""

from typing import TYPE_CHECKING, Final

from refold.core.models.prices import Spent
from refold.core.tokens.units import format_count

if TYPE_CHECKING:  # slow to import, and whoever lists sessions needs none
    from refold.calls.outcome import Outcome, Plan

EARLY: Final = "not yet: "
"""The beginning of a reason if it is not time to compact."""


def format_dollars(amount: float) -> str:
    """Return an amount with as many places as carry information.

    >>> format_dollars(0), format_dollars(0.00421), format_dollars(0.1234), format_dollars(12.345)
    ('$0', '$0.0042', '$0.123', '$12.35')
    """
    places = 2 if amount >= 1 else 3 if amount >= 0.1 else 4
    return f"${amount:,.{places}f}" if amount else "$0"


def format_spent(spent: Spent) -> str:
    """Return the cost of calls: dollars if they are known, else tokens; empty if there were no calls.

    >>> format_spent(Spent(calls=1, input=900, output=100, dollars=None)), format_spent(Spent())
    ('1,000 tokens', '')
    >>> format_spent(Spent(calls=4, dollars=0.25, unpriced=1))
    '$0.250 + 1 call without a price'
    """
    if not spent.calls:
        return ""
    if spent.dollars is None:
        return f"{spent.tokens:,} tokens"
    rest = f" + {format_count(spent.unpriced, 'call')} without a price" if spent.unpriced else ""
    return f"{format_dollars(spent.dollars)}{rest}"


def explain_no_change(result: "Plan | Outcome") -> str:
    """Return why nothing changes; if it is only too early, also when it starts and how to do it now."""
    start = result.budget.trigger_tokens
    if not result.reason.startswith(EARLY):
        return result.reason
    why, *mended = result.reason.removeprefix(EARLY).split("; ")
    if start is not None:
        why = f"at {result.budget.used:,} tokens it is too early, it starts at {start:,}"
    return "; ".join([why, "--force does it now", *mended])


def format_saving(before: int, after: int) -> str:
    """Return the saving in percent; never "100%" while something is left.

    >>> format_saving(200, 50), format_saving(100_000, 60)
    ('75% less', '99.9% less')
    """
    share = (before - after) / before if before else 0.0
    return f"{int(share * 1000) / 10}% less" if share > 0.99 else f"{share:.0%} less"
