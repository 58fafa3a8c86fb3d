"""The size of a history as it came, whatever folds and pins make of it."""

from dataclasses import dataclass

from refold.core.compaction.budget import Budget
from refold.core.tokens.counting import Counter
from refold.gateway.history.memo import NamedHistory
from refold.session.session import Session


@dataclass(frozen=True, slots=True)
class HistorySize:
    """The size of a history, so that of one that goes on only what is new is counted."""

    count: int
    """Number of its messages, without system messages in front."""
    tip: str
    """Name of the last one of them."""
    units: int
    counter: Counter


def count_history(
    session: Session, history: NamedHistory, known: HistorySize | None, *, is_whole: bool
) -> HistorySize:
    """Return the size of a history that a session has taken in.

    known      the size of the history before it
    is_whole   True if the view of the session has every message of it, so that nothing is to be counted
    """
    names, counter = history.names, session.state.loaded.counter
    if is_whole:
        return HistorySize(len(names), names[-1], _count_shown(session), counter)
    start, units = 0, 0
    if known is not None and known.counter is counter and names[known.count - 1 : known.count] == [known.tip]:
        start, units = known.count, known.units
    new = session.state.wire.parse(history.values[history.fixed + start :])
    return HistorySize(len(names), names[-1], units + sum(counter.sizes(new)), counter)


def estimate_came(session: Session, came: HistorySize, budget: Budget | None) -> int:
    """Return the tokens of a request as it came; its view is counted by the provider's reports, too."""
    if budget is None:
        return 0
    loaded, counter = session.state.loaded, came.counter
    units = loaded.units - _count_shown(session) + came.units + counter.per_conversation
    more = counter.tokens(units) - loaded.tokens
    counted = budget.breakdown.total
    return budget.used + max(0, round(more * budget.used / counted if counted else more))


def _count_shown(session: Session) -> int:
    """Return the units of the messages in the view, without system messages in front."""
    loaded = session.state.loaded
    return loaded.units - sum(loaded.sizes[: loaded.fixed])
