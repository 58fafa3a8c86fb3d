"""A policy joins the three questions: when to act, what to keep, how to shrink. A value only."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from refold.core.compaction.budget import Levels, Reserve, Target, Trigger
from refold.core.compaction.task import Stage
from refold.core.messages.repair import UNAVAILABLE, Orphans
from refold.core.models.windows import Window
from refold.core.tokens.counting import HOUSE, Counter

Guard: TypeAlias = Literal[
    "system", "pins", "last user", "first user", "open calls", "user words", "provider's fold"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    """When to act and how where tokens have a price, and what this stands instead of."""

    trigger: Trigger
    target: Target | None
    stages: tuple[Stage, ...]
    instead_of: tuple[Trigger, Target | None, tuple[Stage, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One way of keeping a conversation inside its window."""

    name: str
    counter: Counter = HOUSE
    counters: Callable[[str | None], Counter] | None = None
    """The counter for a provider, where a system counts differently for each."""
    window: Callable[[str | None], Window]
    """The window of a model."""
    reserve: Reserve = Reserve()
    output: int | None = None
    """Tokens the answer may have, where the caller set it; wins over the reserve."""
    trigger: Trigger
    levels: Levels = Levels()
    target: Target | None = None
    """How large the history may be afterwards; None: one successful stage is enough."""
    forced_share: float | None = None
    """When compaction is forced below its target: the share of the history to aim at; None: do nothing."""
    forced_once: bool = False
    """When compaction is forced below its target: one successful stage is enough."""
    stages: tuple[Stage, ...] = ()
    direct: bool = False
    """Whether the first stages, as far as they only thin tool traffic out, are passed over together where
    nobody summarises and the words alone are over the goal."""
    guards: frozenset[Guard] = frozenset({"system", "pins", "last user", "open calls"})
    """What is in every view."""
    user_words: int = 0
    """Tokens of the user's own messages to keep, newest first."""
    user_words_fraction: float = 1.0
    """And never more than this share of the room."""
    orphans: Orphans = "call"
    """What happens to a tool result whose call is not there."""
    missing: str = UNAVAILABLE
    """What stands for a result that is not there."""
    learns: bool = True
    """Whether what came after a report is scaled by how far the estimate was off; else it is added as is."""
    tokens_of_all: bool = True
    """Whether reported tokens include system prompt and tools, or the history alone."""
    checkpoint: int | None = None
    """Where the current thread begins."""
    summariser: str | None = None
    """The model that summarises, where the system names one."""
    file_fraction: float = 0.6
    """The share of what remains that files may take."""
    paid: Paid | None = None
    """What is otherwise in a session whose tokens have a price."""

    @property
    def where_paid(self) -> "Policy":
        """The policy in a session whose tokens have a price; who has changed it has the last word."""
        if self.paid is None or (self.trigger, self.target, self.stages) != self.paid.instead_of:
            return self
        return replace(
            self, trigger=self.paid.trigger, target=self.paid.target, stages=self.paid.stages, paid=None
        )
