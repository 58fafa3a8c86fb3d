"""What a replay gives back: turns, folds and their break-even, a run and its sums; values only."""

from dataclasses import asdict, dataclass, field
from typing import Any, Final

from refold.core.models.prices import Spent
from refold.core.models.windows import Price

NONE: Final = "none"
"""The name of no compaction at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One request of the conversation, as it would have been sent."""

    number: int
    """Counted from 1."""
    at: int
    """How many recorded messages stand before the answer."""
    tokens: int
    """What was sent: system prompt, tools, view."""
    cache_read: int
    cache_write: int
    fresh: int
    """What was read without the cache: what it has no price for, or holds too little of."""
    output: int
    dollars: float | None
    """What the request cost; None where no price is known."""
    cold: bool = False
    """Whether the cache had run out since the last request."""
    over: bool = False
    """Whether it was more than the window holds: a provider refuses such a request."""
    fold: int | None = None
    """Number of the fold that was made for it, counted from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One fold of a run, and whether it paid."""

    number: int
    turn: int
    """The turn for which it was made."""
    trigger: str
    stages: tuple[str, ...]
    tokens_before: int
    """What would have been sent without it."""
    tokens_after: int
    anew: int
    """Tokens that were in the cache and are written anew because the prefix moved."""
    calls: Spent
    """What models took that were asked for it, or their stand-in."""
    dollars: float | None
    """What it cost: the calls, and writing anew what was cached; negative where the cache was cold."""
    turns_needed: float | None
    """Turns after which it has paid; None where no price is known, or for never."""
    turns_came: int
    """Turns until the next fold, or until the end."""
    reused: int = 0
    """Names and values seen before it that the model writes afterwards without having seen them again."""
    kept: int = 0
    """Those of them that are in the view."""

    @property
    def paid(self) -> bool | None:
        """Whether it paid before the next one; None where no price is known."""
        if self.dollars is None:
            return None
        return self.dollars <= 0 or (self.turns_needed is not None and self.turns_came >= self.turns_needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A recorded conversation under one policy and one window."""

    policy: str
    window: int
    model: str
    """Who summarised: `passed over`, `stand-in`, or the name of who was asked."""
    price: Price | None
    turns: tuple[Turn, ...]
    folds: tuple[Played, ...] = ()
    attempts: Spent = field(default_factory=Spent)
    """What models took for attempts that became no fold."""

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
        """Tokens that were written to the cache, or read anew where writing has no price of its own."""
        return sum(turn.cache_write for turn in self.turns)

    @property
    def output(self) -> int:
        """Tokens the model wrote."""
        return sum(turn.output for turn in self.turns)

    @property
    def calls(self) -> Spent:
        """What summarising took."""
        spent = self.attempts
        for fold in self.folds:
            spent = spent.plus(fold.calls)
        return spent

    @property
    def dollars(self) -> float | None:
        """What all of it cost; None where no price is known."""
        if self.price is None:
            return None
        return sum(turn.dollars or 0.0 for turn in self.turns) + (self.calls.dollars or 0.0)

    @property
    def peak(self) -> int:
        """The largest request."""
        return max((turn.tokens for turn in self.turns), default=0)

    @property
    def over(self) -> int:
        """How many requests were larger than the window."""
        return sum(turn.over for turn in self.turns)

    @property
    def facts(self) -> float | None:
        """The share of what is used again that was still in the view after each fold; None for no fold."""
        wanted = sum(fold.reused for fold in self.folds)
        return sum(fold.kept for fold in self.folds) / wanted if wanted else None

    @property
    def paid(self) -> int:
        """How many folds paid."""
        return sum(fold.paid is True for fold in self.folds)

    def totals(self) -> dict[str, Any]:
        """The sums, by name."""
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
        """As plain data."""
        return {
            "policy": self.policy,
            "window": self.window,
            "summaries": self.model,
            "totals": self.totals(),
            "folds": [{**asdict(fold), "paid": fold.paid} for fold in self.folds],
            "turns": [asdict(turn) for turn in self.turns],
        }
