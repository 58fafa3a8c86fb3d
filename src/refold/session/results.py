"""What a session gives back and is set to; values only."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from refold.calls.conversation import Count
from refold.calls.outcome import Outcome
from refold.core.compaction.budget import Budget
from refold.core.compaction.circuit_breaker import Limits
from refold.core.compaction.policy import Policy
from refold.core.models.prices import Spent, price_at
from refold.core.models.spending_limits import Caps
from refold.core.tokens.usage import Usage

Background: TypeAlias = bool | Literal["queue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a session behaves; none of it is stored."""

    chosen: Policy
    """The policy as it was given."""
    policy: Policy = field(init=False)
    """The policy as it is for this model: where tokens have a price it may be another."""
    model: str | None = None
    endpoint: str = ""
    """The address the requests go to, where windows differ by endpoint."""
    window: int | None = None
    count: Count = None
    format: str | None = None
    background: Background = False
    """Prepare folds while the conversation goes on: here, or by whoever works on the store's queue."""
    limits: Limits = Limits()
    caps: Caps = Caps()
    """What summaries may cost."""

    def __post_init__(self) -> None:
        paid = price_at(self.endpoint, self.model or "") is not None
        object.__setattr__(self, "policy", self.chosen.where_paid if paid else self.chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """What to send, and how full the context is."""

    messages: list[Any]
    budget: Budget
    outcome: Outcome
    fold: str | None = None
    """The name of the fold that was made for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a response or an error meant; true where the same turn is to be sent again."""

    send_again: bool = False
    messages: list[Any] | None = None
    """What to send then."""
    reason: str = ""
    usage: Usage | None = None
    finish: str = ""
    budget: Budget | None = None
    outcome: Outcome | None = None
    reverted: str | None = None
    """The fold that was undone because it had not helped."""

    def __bool__(self) -> bool:
        return self.send_again


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Something that was said and found again."""

    handle: str
    """`#12` where it is on this branch, else the entry's name; `original` takes both."""
    number: int
    role: str
    text: str
    """All of it."""
    score: float
    folded: bool
    """Whether the view does not show it as it was said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Tokens of all requests of a session, as reported."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def plus(self, usage: Usage) -> "Totals":
        """With one request more."""
        return Totals(
            requests=self.requests + 1,
            input=self.input + usage.input,
            output=self.output + usage.output,
            cache_read=self.cache_read + usage.cache_read,
            cache_write=self.cache_write + usage.cache_write,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """How a session stands: what fills the context now, against what all its requests cost together."""

    session: str
    said: int
    """Messages ever said on this branch."""
    messages: int
    """Messages in the view."""
    current_context_tokens: int
    window: int
    room: int
    ratio: float
    level: str
    should_compact: bool
    folds: int
    unfolded: int
    tokens_saved: int
    """By the folds that stand, as measured when they were made."""
    totals: Totals = field(default_factory=Totals)
    spent: Spent = field(default_factory=Spent)
    """What the conversation's own requests cost, as observed."""
    summaries: Spent = field(default_factory=Spent)
    """What the summariser's calls cost, those that came to nothing included."""

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldMade:
    """A fold of a session, for people who choose which to undo."""

    name: str
    handle: str
    """The messages it took, e.g. `#3-#57`."""
    stages: tuple[str, ...]
    tokens_before: int
    tokens_after: int
    at: float
    standing: bool
    covered_by: str | None = None
    """A later fold that took what this one put."""
    receipt: Mapping[str, Any] = field(default_factory=dict, repr=False)
    spent: Spent = field(default_factory=Spent)
    """What the model's calls for it took."""
