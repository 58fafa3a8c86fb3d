"""The cost of model calls: in words, and read from the log of a session."""

from itertools import islice
from typing import Final

from refold.core.log.entries import Kind
from refold.core.models.prices import Spent
from refold.core.models.spending_limits import total_spent
from refold.stores import Head, Store

LOOKED_AT: Final = 64
"""Newest entries of a log that are searched for its totals. Nearly every session writes them there."""


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
    """
    if not spent.calls:
        return ""
    if spent.dollars is None:
        return f"{spent.tokens:,} tokens"
    return f"{format_dollars(spent.dollars)}{' and more' * bool(spent.unpriced)}"


def read_spent(store: Store, session: str, head: Head) -> Spent:
    """Return the total cost of a session, from the newest entries of its log."""

    def read_total(name: str, *kinds: Kind) -> Spent:
        entries = islice(store.read(session, head.place, kinds=kinds, newest=True), LOOKED_AT)
        recorded = (entry.beside[name] for entry in entries if name in entry.beside)
        return next(map(Spent.read, recorded), Spent())

    # After a step back an attempt holds what was spent on the branch that was left, until a request does.
    own = max(read_total("spent", "usage"), read_total("own", "attempt"), key=lambda spent: spent.calls)
    return total_spent([own, read_total("summaries", "fold", "attempt")])
