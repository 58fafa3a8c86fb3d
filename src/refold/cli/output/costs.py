"""What was spent, in a few words for people; and what stands about it in the log of a session."""

from itertools import islice
from typing import Final

from refold.core.log.entries import Kind
from refold.core.models.prices import Spent
from refold.core.models.spending_limits import together
from refold.stores import Head, Store

LOOKED_AT: Final = 64
"""Entries of a log that are looked at for its sums, which nearly always stand in the newest."""
MOST_SESSIONS: Final = 100
"""How many logs a list of sessions looks into; more would keep people waiting."""

_REQUESTS: Final[frozenset[Kind]] = frozenset({"usage"})
_ATTEMPTS: Final[frozenset[Kind]] = frozenset({"fold", "attempt"})


def dollars(amount: float) -> str:
    """An amount, with as many places as say something.

    >>> dollars(0), dollars(0.00421), dollars(0.1234), dollars(12.345)
    ('$0', '$0.0042', '$0.123', '$12.35')
    """
    places = 2 if amount >= 1 else 3 if amount >= 0.1 else 4
    return f"${amount:,.{places}f}" if amount else "$0"


def told(spent: Spent) -> str:
    """What calls took: dollars where they are known, else tokens; nothing for no calls.

    >>> told(Spent(calls=1, input=900, output=100, dollars=None)), told(Spent())
    ('1,000 tokens', '')
    """
    if not spent.calls:
        return ""
    if spent.dollars is None:
        return f"{spent.tokens:,} tokens"
    return f"{dollars(spent.dollars)}{' and more' * bool(spent.unpriced)}"


def of_log(store: Store, session: str, head: Head) -> Spent:
    """What a session has spent in all, as its newest entries say."""
    own = _newest(store, session, head, _REQUESTS, "spent")
    return together((own, _newest(store, session, head, _ATTEMPTS, "summaries")))


def _newest(store: Store, session: str, head: Head, kinds: frozenset[Kind], name: str) -> Spent:
    for one in islice(store.read(session, head.place, kinds=kinds, newest=True), LOOKED_AT):
        if name in one.beside:
            return Spent.read(one.beside[name])
    return Spent()
