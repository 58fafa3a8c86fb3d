"""The view of a session by the marks of its log, without its messages, and what it hides."""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from refold.core.log.entries import MARKS, Kind
from refold.core.log.view import MessageRange, View, project_marks
from refold.core.models.prices import Spent
from refold.core.models.spending_limits import total_spent
from refold.stores import Head, Store

VIEW_KINDS: Final[frozenset[Kind]] = MARKS - {"usage", "attempt"}
"""The entries of which a view is made."""
LOOKED_AT: Final = 64
"""Newest entries of a log that are searched for its totals. Nearly every session writes them there."""


def read_view(store: Store, session: str, head: Head) -> View:
    """Return the view at the head, without its messages."""
    return project_marks(store.read(session, head.place, kinds=VIEW_KINDS), head.said)


def make_is_visible(view: View) -> Callable[[int], bool]:
    """Return a quick test whether a message of this number is in the view as it was said."""
    return make_is_within(piece for piece in view.items if isinstance(piece, MessageRange))


def make_is_within(ranges: Iterable[MessageRange]) -> Callable[[int], bool]:
    """Return a quick test whether a number lies in one of some ranges, which do not overlap."""
    runs = sorted((run.first, run.last) for run in ranges)
    firsts = [first for first, _ in runs]

    def is_within(number: int) -> bool:
        at = bisect_right(firsts, number) - 1
        return at >= 0 and number <= runs[at][1]

    return is_within


def read_spent(store: Store, session: str, head: Head) -> Spent:
    """Return the total cost of a session, from the newest entries of its log."""

    def read_total(name: str, *kinds: Kind) -> Spent:
        entries = islice(store.read(session, head.place, kinds=kinds, newest=True), LOOKED_AT)
        recorded = (entry.beside[name] for entry in entries if name in entry.beside)
        return next(map(Spent.read, recorded), Spent())

    # After a step back an attempt holds what was spent on the branch that was left, until a request does.
    own = max(read_total("spent", "usage"), read_total("own", "attempt"), key=lambda spent: spent.calls)
    return total_spent([own, read_total("summaries", "fold", "attempt")])
