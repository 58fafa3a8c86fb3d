"""The results of a replay: turns, folds with their break-even, and a run with its sums."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from refold.core.models.prices import Spent
from refold.core.models.windows import Price

NONE: Final = "none"
"""The policy name for no compaction."""
LEAST_SAVED: Final = 0.005
"""Dollars below which a saving is none: half of the cent that is printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One request of the conversation, as it would have been sent."""

    number: int
    """Counted from 1."""
    at: int
    """The number of recorded messages before the answer."""
    tokens: int
    """Tokens of the request: system prompt, tools, view."""
    cache_read: int
    cache_write: int
    fresh: int
    """Input tokens outside the cache."""
    output: int
    dollars: float | None
    """The cost of the request; None if no price is known."""
    cold: bool = False
    """True if the cache had expired since the last request."""
    over: bool = False
    """True if it is larger than what the model takes in; a provider refuses such a request."""
    fold: int | None = None
    """The number of the fold made for it, counted from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedFold:
    """One fold of a run, and whether it paid for itself."""

    number: int
    turn: int
    """The turn for which it was made."""
    trigger: str
    stages: tuple[str, ...]
    tokens_before: int
    """Tokens of the request without the fold."""
    tokens_after: int
    anew: int
    """Cached tokens that are written again because the prefix changed."""
    calls: Spent
    """Tokens and cost of the summariser, or of its stand-in."""
    dollars: float | None
    """The cost: the calls, and writing the cache again; negative if the cache was cold."""
    turns_needed: float | None
    """Turns after which the fold pays; None if no price is known, or if it never pays."""
    turns_came: int
    """Turns until the next fold, or until the end."""
    reused: int = 0
    """Names seen before the fold that the model writes later without seeing them again."""
    kept: int = 0
    """The number of these names in the view."""

    @property
    def paid(self) -> bool | None:
        """True if the fold paid before the next one; None if no price is known."""
        if self.dollars is None:
            return None
        return self.dollars <= 0 or (self.turns_needed is not None and self.turns_came >= self.turns_needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A recorded conversation under one policy and one window."""

    policy: str
    window: int
    model: str
    """The summariser: `passed over`, `stand-in`, or a name."""
    price: Price | None
    turns: tuple[Turn, ...]
    folds: tuple[PlayedFold, ...] = ()
    attempts: Spent = field(default_factory=Spent)
    """Cost of attempts that became no fold."""

    @property
    def sent(self) -> int:
        """Tokens of all requests."""
        return sum(turn.tokens for turn in self.turns)

    @property
    def cache_read(self) -> int:
        """Tokens that were read from the cache."""
        return sum(turn.cache_read for turn in self.turns)

    @property
    def cache_write(self) -> int:
        """Tokens written to the cache."""
        return sum(turn.cache_write for turn in self.turns)

    @property
    def output(self) -> int:
        """Tokens the model wrote."""
        return sum(turn.output for turn in self.turns)

    @property
    def calls(self) -> Spent:
        """Tokens and cost of all summaries."""
        spent = self.attempts
        for fold in self.folds:
            spent = spent.plus(fold.calls)
        return spent

    @property
    def dollars(self) -> float | None:
        """The total cost; None if no price is known."""
        if self.price is None:
            return None
        return sum(turn.dollars or 0.0 for turn in self.turns) + (self.calls.dollars or 0.0)

    @property
    def peak(self) -> int:
        """The largest request."""
        return max((turn.tokens for turn in self.turns), default=0)

    @property
    def over(self) -> int:
        """The number of requests larger than what the model takes in."""
        return sum(turn.over for turn in self.turns)

    @property
    def facts(self) -> float | None:
        """The share of re-used names still in the view after the folds; None without a fold."""
        wanted = sum(fold.reused for fold in self.folds)
        return sum(fold.kept for fold in self.folds) / wanted if wanted else None

    @property
    def paid(self) -> int:
        """The number of folds that paid."""
        return sum(fold.paid is True for fold in self.folds)

    def totals(self) -> dict[str, Any]:
        """Return the sums by name."""
        return {
            "requests": len(self.turns),
            "tokens_sent": self.sent,
            "cache_read": self.cache_read,
            "cache_write": self.cache_write,
            "output": self.output,
            "dollars": self.dollars,
            "summarising": self.calls.as_dict(),
            "folds": len(self.folds),
            "folds_paid": self.paid if self.price else None,
            "peak": self.peak,
            "requests_over_window": self.over,
            "facts_kept": self.facts,
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the run as plain data."""
        return {
            "policy": self.policy,
            "window": self.window,
            "summaries": self.model,
            "totals": self.totals(),
            "folds": [{**asdict(fold), "paid": fold.paid} for fold in self.folds],
            "turns": [asdict(turn) for turn in self.turns],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedSaving:
    """What the policy `thrifty` would have saved in one window, compared with another policy."""

    window: int
    compared_with: str
    dollars: float
    """The total cost under `thrifty`."""
    saved: float
    """The other policy's cost less that; negative if `thrifty` costs more."""
    facts: float | None
    """The share of re-used names that `thrifty` keeps in the view; None without a fold."""

    def __str__(self) -> str:
        if abs(self.saved) < LEAST_SAVED:
            return f"thrifty would cost the same as {self.compared_with}"
        more = "less" if self.saved > 0 else "more"
        share = abs(self.saved) / (self.dollars + self.saved)
        facts = "" if self.facts is None else f", facts {self.facts:.0%}"
        sums = f"${self.dollars:,.2f}, ${abs(self.saved):,.2f} ({share:.0%}) {more} than {self.compared_with}"
        return f"thrifty would cost {sums}{facts}"


def compare_with_thrifty(runs: Sequence[Run], thrifty: Run) -> ReplayedSaving:
    """Compare a run under `thrifty` with the first policy of its window; all runs must have a price."""
    same_window = [run for run in runs if run.window == thrifty.window]
    other = next((run for run in same_window if run.policy != NONE), same_window[0])
    return ReplayedSaving(
        window=thrifty.window,
        compared_with="no compaction" if other.policy == NONE else other.policy,
        dollars=thrifty.dollars or 0.0,
        saved=(other.dollars or 0.0) - (thrifty.dollars or 0.0),
        facts=thrifty.facts,
    )
