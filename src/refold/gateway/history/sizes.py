"""Sizes of a request: of its history as it came, and of its system prompt and tools."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from refold.calls.measure import measure
from refold.core.compaction.budget import Budget
from refold.core.compaction.policy import Policy
from refold.core.overflow.detect import overflow
from refold.core.overflow.learned_windows import SHARE
from refold.core.tokens.calibration import LEAST_RATIO, MOST_RATIO
from refold.core.tokens.counting import Counter
from refold.gateway.history.memo import NamedHistory
from refold.gateway.history.split import SplitBody
from refold.session.results import Ready
from refold.session.session import Session

_SHORT_BYTES: Final = 64 * 1024
"""Bytes that a body may grow by to be taken in in the event loop: 5 ms, and a megabyte takes 30 ms."""
_MOST_MEASURED: Final = 64
"""System prompts and tools whose sizes are remembered; a client's own have some 100 kB."""


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
    units = loaded.sums.units - _count_shown(session) + came.units + counter.per_conversation
    more = counter.tokens(units) - loaded.tokens
    ratio = budget.used / (budget.breakdown.total or 1)
    # beyond these bounds a report counts something that is not in the history, which does not grow with it
    return budget.used + max(0, round(more * (ratio if LEAST_RATIO <= ratio <= MOST_RATIO else 1)))


def _count_shown(session: Session) -> int:
    """Return the units of the messages in the view, without system messages in front."""
    loaded = session.state.loaded
    return loaded.sums.units - sum(loaded.sizes[: loaded.fixed])


class FixedSizes:
    """What system prompts and tools take; those of a client come again with every request."""

    def __init__(self, make_policy: Callable[[str], Policy]) -> None:
        self._make_policy = make_policy
        self._measured: dict[tuple[Any, ...], tuple[Budget, Any, Any]] = {}

    def measure(self, split: SplitBody, system: Any, tools: Any, window: int | None, policy: str) -> Budget:
        """Return how much of the room they take under a policy of this name."""
        key = (id(system), id(tools), split.model, window, policy)
        known = self._measured.get(key)
        if known is None:
            messages = [{"role": "user", "content": "."}]
            budget = self.measure_messages(messages, split, window, policy, system=system, tools=tools)
            if len(self._measured) >= _MOST_MEASURED:
                self._measured.clear()
            known = self._measured[key] = (budget, system, tools)  # held, so that their ids stay their own
        return known[0]

    def measure_messages(
        self, messages: list[Any], split: SplitBody, window: int | None, policy: str, **fixed: Any
    ) -> Budget:
        """Return how much of the room messages take; nothing of it is remembered."""
        make, name = self._make_policy(policy), split.model
        return measure(messages, model=name, window=window, policy=make, format=split.wire, **fixed)


def describe_fullness(session: Session, ready: Ready) -> str:
    """Return how full the context is, when it is folded, and what a fold that was made now has changed."""
    budget = ready.budget
    line, room = budget.trigger_tokens, budget.room
    when = "never folds by itself" if line is None else f"folds from {line / room:.0%} on"
    before, after = session.state.accounting.fold_sizes.get(ready.fold or "", (0, 0))
    if before <= after:
        return f"fills {budget.ratio:.0%} of the room, {when}"
    filled = (budget.used + before - after) / room
    return f"filled {filled:.0%} of the room, {when}: brought to {budget.ratio:.0%}"


def find_short_bytes(size: int, budget: Budget) -> int:
    """Return how long a body may become before a fold may be due, or before it takes long to count.

    A token has two bytes and more.
    """
    line = budget.room if budget.trigger_tokens is None else budget.trigger_tokens
    return size + min(2 * (line - budget.used), _SHORT_BYTES)


def fits_after(refusal: Any, refused: int, tokens: int) -> bool:
    """True if a request may be taken after another one was refused for its size, both by our own count."""
    if (info := overflow(refusal)) is None:
        return False
    share = SHARE if info.limit is None else info.limit / (info.requested or refused or 1)
    return tokens <= refused * share
