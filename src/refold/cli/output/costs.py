"""The cost of model calls in words."""

from refold.core.models.prices import Spent
from refold.core.tokens.units import format_count


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
