"""What the calls give back: an outcome with its receipt, a plan, a repaired list; values only."""

from dataclasses import asdict, dataclass, field
from typing import Any

from refold.core.compaction.budget import Breakdown, Budget, Level
from refold.core.compaction.edits import Edit
from refold.core.compaction.model_calls import Call
from refold.core.compaction.pipeline import Report
from refold.core.messages.file_operations import FileOps, gather
from refold.core.messages.message import Message
from refold.core.models.prices import Spent
from refold.core.models.spending_limits import together


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What one attempt at compaction saw and did, also one that did nothing."""

    policy: str
    trigger: str
    """Why it was attempted: `threshold`, `forced`, `target`, `called`, or `none`."""
    window: int
    window_source: str
    count_source: str
    estimated_tokens: int
    reported_tokens: int | None = None
    goal_tokens: int | None = None
    """Tokens the history was to have at most; None where one successful stage is enough."""
    stages: tuple[Report, ...] = ()
    mended: int = 0
    reason: str = ""

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every question that was asked."""
        return tuple(call for report in self.stages for call in report.calls)

    @property
    def spent(self) -> Spent:
        """What they took together."""
        return together(call.spent for call in self.calls)

    def as_dict(self) -> dict[str, Any]:
        """The receipt as plain data."""
        return {**asdict(self), "spent": self.spent.as_dict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What `compact` did."""

    messages: list[Any]
    """The history to go on with, in the shape it came in."""
    compacted: bool
    fits: bool
    """Whether it is within its target, or within the room where there is none."""
    reason: str
    stages: tuple[str, ...] = ()
    """The stages that were accepted, in order."""
    tier: int = 0
    """Number of the last one in the policy's list; 0 for none."""
    level: Level = "none"
    messages_before: int = 0
    messages_after: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    edits: tuple[Edit, ...] = ()
    summary: str | None = None
    """The text of the summary, as the model wrote it or the stage put it."""
    history: tuple[Message, ...] = field(default=(), repr=False)
    """The conversation as it came, as values."""
    breakdown: Breakdown = field(default_factory=Breakdown)
    """What fills the context afterwards."""
    budget: Budget
    """How full it was before."""
    receipt: Receipt

    @property
    def tokens_saved(self) -> int:
        """Tokens before, less tokens after."""
        return self.tokens_before - self.tokens_after

    @property
    def files(self) -> FileOps:
        """The files that were read and modified in the conversation, earlier rounds included."""
        return gather(self.history)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """One message that would leave or change."""

    index: int
    role: str
    tokens: int
    stage: str
    why: str
    preview: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Staying:
    """One message that is not touched although it stands among those that are."""

    index: int
    role: str
    tokens: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What `compact` would do, asking nobody."""

    would_compact: bool
    reason: str
    fits: bool
    budget: Budget
    stages: tuple[str, ...]
    leaves: tuple[Leaving, ...]
    refuses: tuple[Staying, ...]
    """What it would not touch, and why."""
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    cache_tokens_lost: int
    """Tokens behind the first change that a provider has to read anew."""
    model_calls: int
    model_tokens: int
    money_now: float | None
    """US dollars that it costs; None where no price is known."""
    money_per_turn: float | None
    """US dollars that each later turn costs less."""
    break_even_turns: float | None
    """Turns after which it has paid for itself; None where no price is known or it never does."""
    turn_before: float | None = None
    """US dollars for reading the context in each turn, out of the cache, as it is."""
    turn_after: float | None = None
    """And as it would be."""
    money_in_cache: float | None = None
    """What it costs where the summary is asked for behind the conversation's own cached prefix; None where no
    model is asked, no price is known, or the provider has no cache."""
    break_even_in_cache: float | None = None

    @property
    def tokens_saved(self) -> int:
        """Tokens before, less tokens after."""
        return self.tokens_before - self.tokens_after


@dataclass(frozen=True, slots=True)
class Repaired:
    """A history in which every call has its result and every result its call."""

    messages: Any
    """The very list that was given where nothing had to be mended."""
    fixed_calls: int = 0
    fixed_results: int = 0
