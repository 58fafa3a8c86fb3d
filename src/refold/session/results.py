"""The results of a session's operations; values only."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from refold.calls.outcome import Outcome
from refold.calls.savings import Saving
from refold.core.compaction import notebook
from refold.core.compaction.budget import Budget
from refold.core.messages.quick_init import quick_init
from refold.core.messages.short_repr import short_repr
from refold.core.models.prices import Spent
from refold.core.tokens.units import format_count
from refold.core.tokens.usage import Usage


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The messages to send, and how full the context is."""

    messages: list[Any]
    budget: Budget
    outcome: Outcome
    """Its sizes are those of the list that was handed in and of the one to send. Edits, summary and receipt
    are those of the fold, which may have been prepared for fewer messages."""
    fold: str | None = None
    """The name of the fold that was made for it."""
    unsaved: int = 0
    """Entries of the log that are only in memory, because the store fails; 0 if everything is stored."""

    places: Sequence[int | None] = field(default=(), repr=False)
    tip: str = field(default="", repr=False)
    """The name in the log of the last message that was handed in."""

    @property
    def origins(self) -> list[int | None]:
        """For each message its index in the list that was handed in; None where a fold made or changed it."""
        return list(self.places)

    def __repr__(self) -> str:
        budget, messages = self.budget, format_count(len(self.messages), "message")
        size = f"{messages}, {budget.used:,} of {budget.room:,} tokens"
        return f"Ready({size}, level={budget.level!r}, fold={self.fold!r})"

    def _repr_html_(self) -> str:
        """Show the meter, and what was done before sending."""
        return notebook.card(
            f"Ready: {format_count(len(self.messages), 'message')} to send",
            notebook.meter(self.budget.used, self.budget.room, self.budget.level),
            notebook.line(self.outcome.reason),
            notebook.line(f"fold {self.fold}") if self.fold else "",
        )


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The meaning of a response or an error; true if the same turn is to be sent again."""

    send_again: bool = False
    messages: list[Any] | None = None
    """The messages to send again; None if nothing is to be sent."""
    reason: str = ""
    usage: Usage | None = None
    finish: str = ""
    budget: Budget | None = None
    outcome: Outcome | None = None
    reverted: str | None = None
    """The fold that was undone because it did not help."""
    fold: str | None = None
    """The name of the fold that the provider's own compaction became, if the answer was one."""
    origins: Sequence[int | None] = field(default=(), repr=False)
    """For each message to send again its index in the list that `prepare` was given last; None where a fold
    made or changed it."""
    unsaved: int = 0
    """Entries of the log that are only in memory, because the store fails; 0 if everything is stored."""

    __repr__ = short_repr

    def __bool__(self) -> bool:
        return self.send_again


if TYPE_CHECKING:  # so that a type checker knows by `send_again` whether there are messages

    class _SendAgain(Observed):
        send_again: Literal[True]
        messages: list[Any]

        def __bool__(self) -> Literal[True]: ...

    class _Done(Observed):
        send_again: Literal[False]
        messages: None

        def __bool__(self) -> Literal[False]: ...

    ObservedTurn: TypeAlias = _SendAgain | _Done
else:
    ObservedTurn = Observed


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A message that a search has found."""

    handle: str
    """`#12` if it is on this branch, else the name of the entry; `original` takes both."""
    number: int
    role: str
    text: str
    """The whole text."""
    score: float
    folded: bool
    """True if the view does not show it as it was said."""

    __repr__ = short_repr


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Tokens of all requests of a session, as reported."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def as_dict(self) -> dict[str, int]:
        """Return the sums as plain data."""
        cached = {"cache_read": self.cache_read, "cache_write": self.cache_write}
        return {"requests": self.requests, "input": self.input, "output": self.output, **cached}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Size of a session's context now, and the sums of all its requests and summaries."""

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
    """Tokens saved by the standing folds, as measured when they were made."""
    totals: Totals = field(default_factory=Totals)
    spent: Spent = field(default_factory=Spent)
    """Cost of the conversation's own requests, as observed."""
    summaries: Spent = field(default_factory=Spent)
    """Cost of the summariser's calls, failed attempts included."""
    thrifty: Saving | None = None
    """What the policy `thrifty` would save by folding now; None if no price is known or it would not fold."""

    def as_dict(self) -> dict[str, Any]:
        """Return the values as plain data."""
        return asdict(self)

    def __repr__(self) -> str:
        names = ("session", "said", "messages", "current_context_tokens", "room", "level", "folds")
        return short_repr(self, (*names, "tokens_saved"))

    def _repr_html_(self) -> str:
        """Show the meter, and what requests and summaries took."""
        rows = []
        for label, spent in (("requests", self.spent), ("summaries", self.summaries)):
            cost = "unknown" if spent.dollars is None else f"${spent.dollars:.4f}"
            rows.append((label, spent.calls, spent.input, spent.output, cost))
        folds = f"{format_count(self.folds, 'standing fold')}, {self.tokens_saved:,} tokens saved"
        return notebook.card(
            f"Session {self.session}: {self.messages:,} of {self.said:,} messages in view",
            notebook.meter(self.current_context_tokens, self.room, self.level),
            notebook.line(f"{folds}; {self.unfolded:,} undone" if self.unfolded else folds),
            notebook.line(str(self.thrifty)) if self.thrifty else "",
            notebook.table(("", "calls", "tokens read", "tokens written", "cost"), rows),
        )


class Rewound(int):
    """The number of messages where a session stands after `rewind`."""

    folded_again: tuple[str, ...]
    """Names of the folds that stand there and were undone where the session came from."""

    def __new__(cls, said: int, folded_again: tuple[str, ...] = ()) -> Self:
        """Make the number; it is an int like any other."""
        number = super().__new__(cls, said)
        number.folded_again = folded_again
        return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A named place of a session, as `checkpoints` lists it; `rewind` takes it."""

    name: str
    handle: str
    """The message right before it, such as `#12`; `#0` at the start."""
    said: int
    """Number of messages before it."""
    entry: str
    """Name of its entry in the log; it tells checkpoints of one name on two branches apart."""
    on_branch: bool
    """True if it stands on this branch."""

    __repr__ = short_repr


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSegment:
    """The messages that `compact` would fold now, from the first to the last of them."""

    start: int
    """Position of the first one in `view()`."""
    end: int
    """Position behind the last one."""
    handle: str
    """The same messages by number, such as `#3-#57`."""
    checkpoint: str | None = None
    """The checkpoint where the segment begins; None if the policy does not begin at one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldMade:
    """A fold of a session, as `folds` lists it."""

    name: str
    handle: str
    """The messages it removed, e.g. `#3-#57`."""
    stages: tuple[str, ...]
    tokens_before: int
    tokens_after: int
    at: float
    standing: bool
    covered_by: str | None = None
    """A later fold that removed the messages of this one."""
    receipt: Mapping[str, Any] = field(default_factory=dict, repr=False)
    spent: Spent = field(default_factory=Spent)
    """Cost of the model's calls for it."""
    block: Any = field(default=None, repr=False)
    """The message with the provider's own compaction; None for any other fold."""
    twin: str = field(default="", repr=False)
    """The summary that others are shown in its place."""

    __repr__ = short_repr
