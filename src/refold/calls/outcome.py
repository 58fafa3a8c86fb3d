"""The results of the calls: an outcome with its receipt, a plan, a repaired list; values only."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from refold.calls.savings import Saving
from refold.core.compaction.budget import Breakdown, Budget, Level
from refold.core.compaction.edits import Edit
from refold.core.compaction.model_calls import ModelCall
from refold.core.compaction.pipeline import Report
from refold.core.messages.file_operations import FileOps, find_files
from refold.core.messages.message import Message
from refold.core.messages.quick_init import quick_init
from refold.core.messages.short_repr import short_repr
from refold.core.models.prices import Spent
from refold.core.models.spending_limits import total_spent


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Record of one attempt at compaction: its numbers and stages; also of an attempt that did nothing."""

    policy: str
    trigger: str
    """Why it was attempted: `threshold`, `forced`, `target`, `called`, or `none`."""
    window: int
    window_source: str
    count_source: str
    estimated_tokens: int
    reported_tokens: int | None = None
    goal_tokens: int | None = None
    """Tokens the history may have at most; None if one successful stage is enough."""
    fits: bool = True
    """True if the context is within the room afterwards."""
    met_target: bool = True
    """True if the history is within its goal afterwards, or there is no goal."""
    stages: tuple[Report, ...] = ()
    mended: int = 0
    """Messages that had to be repaired."""
    reason: str = ""
    session: str = ""
    """The session of the attempt; "" for a list outside of a session."""
    fold: str = ""
    """The name of the fold that was made in the session; "" if none was."""

    __repr__ = short_repr

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """Every question that was asked."""
        return tuple(call for report in self.stages for call in report.calls)

    @property
    def spent(self) -> Spent:
        """Tokens and money that the questions took together."""
        return total_spent(call.spent for call in self.calls)

    def as_dict(self) -> dict[str, Any]:
        """Return the receipt as plain data; `session` and `fold` only where there are any."""
        plain = {**asdict(self), "spent": self.spent.as_dict()}
        return {name: value for name, value in plain.items() if value or name not in ("session", "fold")}


_OUTCOME_SHOWS: Final = (
    *("compacted", "fits", "met_target", "stages", "messages_before", "messages_after"),
    *("tokens_before", "tokens_after", "reason"),
)


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of `compact`: the messages to go on with, the sizes, and the record of the attempt."""

    messages: list[Any]
    """The history to go on with, in the shape it came in."""
    compacted: bool
    fits: bool
    """True if the context is within the room: `used_after <= budget.room`."""
    met_target: bool = True
    """True if the history is within its target, or there is no target."""
    reason: str
    stages: tuple[str, ...] = ()
    """The stages that were accepted, in order."""
    tier: int = 0
    """Number of the last accepted stage in the policy's list; 0 for none."""
    level: Level = "none"
    messages_before: int = 0
    messages_after: int = 0
    tokens_before: int = 0
    """Tokens of the whole context: `budget.used`, for every policy."""
    tokens_after: int = 0
    """Tokens of the whole context afterwards; the same as `used_after`."""
    used_after: int
    """Tokens of the whole context afterwards, counted as `budget.used` is."""
    edits: tuple[Edit, ...] = ()
    summary: str | None = None
    """The text of the summary, as the model or the stage wrote it."""
    history: tuple[Message, ...] = field(default=(), repr=False)
    """The conversation as it came, as values."""
    breakdown: Breakdown = field(default_factory=Breakdown)
    """Tokens of each part of the context afterwards."""
    budget: Budget
    """The budget before: how full the context was."""
    receipt: Receipt

    def __repr__(self) -> str:
        return short_repr(self, _OUTCOME_SHOWS)

    @property
    def tokens_saved(self) -> int:
        """Tokens before, less tokens after."""
        return self.tokens_before - self.tokens_after

    @property
    def files(self) -> FileOps:
        """The files that were read and modified in the conversation, earlier rounds included."""
        return find_files(self.history)

    def _repr_html_(self) -> str:
        """Show the meter afterwards, and what left and why."""
        from refold.core.compaction import notebook  # only a notebook asks for HTML

        title = "Outcome: compacted" if self.compacted else "Outcome: not compacted"
        rows = (
            (f"#{edit.start} to #{edit.end - 1}", len(edit.put), edit.stage, edit.why) for edit in self.edits
        )
        return notebook.card(
            f"{title}{_describe_misses(self)}",
            notebook.meter(self.used_after, self.budget.room, "none" if self.fits else "critical"),
            notebook.line(_before_and_after(self)),
            notebook.line(self.reason),
            notebook.table(("messages", "replaced by", "stage", "why"), rows),
        )


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
    """One message that stays among messages that leave."""

    index: int
    role: str
    tokens: int
    why: str


_PLAN_SHOWS: Final = (
    *(
        "would_compact",
        "fits",
        "met_target",
        "stages",
        "messages_before",
        "messages_after",
        "tokens_before",
        "tokens_after",
    ),
    *("model_calls", "money_now", "break_even_turns", "reason"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Forecast of what `compact` would do and cost; made without asking a model."""

    would_compact: bool
    reason: str
    fits: bool
    """True if the context would be within the room afterwards."""
    met_target: bool = True
    """True if the history would be within its target, or there is no target."""
    budget: Budget
    stages: tuple[str, ...]
    leaves: tuple[Leaving, ...]
    refuses: tuple[Staying, ...]
    """The messages that would stay among those that leave, and why."""
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    cache_tokens_lost: int
    """Tokens behind the first change that a provider has to read anew."""
    model_calls: int
    model_tokens: int
    money_now: float | None
    """US dollars that it costs; None if no price is known."""
    money_per_turn: float | None
    """US dollars that each later turn costs less."""
    break_even_turns: float | None
    """Turns after which it has paid for itself; None if no price is known or it never does."""
    turn_before: float | None = None
    """US dollars for reading the context from the cache in each turn, before."""
    turn_after: float | None = None
    """The same afterwards."""
    money_in_cache: float | None = None
    """US dollars that it costs if the summary is asked for as one more turn of the cached conversation.

    None if no model is asked, no price is known, or the provider has no cache.
    """
    break_even_in_cache: float | None = None
    thrifty: Saving | None = None
    """What the policy `thrifty` would save by folding now; None if no price is known or it would not fold."""

    def __repr__(self) -> str:
        return short_repr(self, _PLAN_SHOWS)

    @property
    def tokens_saved(self) -> int:
        """Tokens before, less tokens after."""
        return self.tokens_before - self.tokens_after

    def _repr_html_(self) -> str:
        """Show the meter as it is, what would leave and why, and what would not."""
        from refold.core.compaction import notebook  # only a notebook asks for HTML

        budget, money = self.budget, "" if self.money_now is None else f", costs ${self.money_now:.4f}"
        turns = "" if self.break_even_turns is None else f", pays after {self.break_even_turns:.1f} turns"
        return notebook.card(
            f"Plan: would {'' if self.would_compact else 'not '}compact{_describe_misses(self)}",
            notebook.meter(budget.used, budget.room, budget.level),
            notebook.line(f"{_before_and_after(self)}, {self.model_calls} questions{money}{turns}"),
            notebook.line(self.reason),
            notebook.table(
                ("messages", "tokens", "stage", "why"),
                _group_rows((x.stage, x.why, x.tokens) for x in self.leaves),
            ),
            notebook.table(
                ("messages", "tokens", "stays", "because"),
                _group_rows(("stays", x.why, x.tokens) for x in self.refuses),
            ),
        )


def _describe_misses(value: Outcome | Plan) -> str:
    """Return what is wrong with the size afterwards, for a title; "" if nothing is."""
    if not value.fits:
        return ", does not fit"
    return "" if value.met_target else ", misses its target"


def _before_and_after(value: Outcome | Plan) -> str:
    messages = f"{value.messages_before:,} to {value.messages_after:,} messages"
    return f"{messages}, {value.tokens_before:,} to {value.tokens_after:,} tokens"


def _group_rows(rows: Iterable[tuple[str, str, int]]) -> list[tuple[int, int, str, str]]:
    """Add up messages and tokens of rows with the same two texts."""
    messages, tokens = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for stage, why, size in rows:
        messages[stage, why] += 1
        tokens[stage, why] += size
    return [(number, tokens[key], *key) for key, number in messages.items()]


@dataclass(frozen=True, slots=True)
class Repaired:
    """A history in which every call has its result and every result its call."""

    messages: Any
    """The very list that was given if nothing had to be repaired."""
    fixed_calls: int = 0
    fixed_results: int = 0

    __repr__ = short_repr
