"""A policy: when to compact, what to keep, how to shrink. A value; it does nothing by itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from refold.core.compaction.budget import (
    NO_PARTS,
    Breakdown,
    Levels,
    Reserve,
    Target,
    Trigger,
    count_as_reported,
)
from refold.core.messages.repair import MISSING, MissingTexts, Orphans
from refold.core.messages.short_repr import short_repr
from refold.core.models.windows import Window
from refold.core.tokens.counting import ESTIMATE_COUNTER, Counter

if TYPE_CHECKING:  # the stages are most of the program, and whoever only measures needs none
    from refold.core.compaction.task import Stage

Guard: TypeAlias = Literal[
    "system", "pins", "last user", "first user", "open calls", "user words", "provider's fold"
]

ReadList: TypeAlias = Callable[[Sequence[Any]], Sequence[tuple[Any, Mapping[str, Any] | None]]]
"""Returns the messages that are shown, each with what is known of it as a summary, None for any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules by which a conversation is kept inside its window: when to compact, how, and how far."""

    name: str
    counter: Counter = ESTIMATE_COUNTER
    counters: Callable[[str | None], Counter] | None = None
    """The counter for a provider, where a system counts differently for each."""
    window: Callable[[str | None], Window]
    """Gives the window of a model."""
    reserve: Reserve = Reserve()
    output: int | None = None
    """Tokens the answer may have, as set by the caller; wins over the reserve."""
    trigger: Trigger
    levels: Levels = Levels()
    target: Target | None = None
    """The size of the history afterwards; None: one successful stage is enough."""
    forced_share: float | None = None
    """When compaction is forced below its target: the share of the history to aim at; None: do nothing."""
    forced_once: bool = False
    """When compaction is forced below its target: one successful stage is enough."""
    refused_asks: bool = False
    """After a refusal for size: True if the summariser is asked before the stages that need none."""
    stages: "tuple[Stage, ...]" = ()
    guards: frozenset[Guard] = frozenset({"system", "pins", "last user", "open calls"})
    """Messages that stay in every view."""
    user_words: int = 0
    """Tokens of the user's own messages to keep, newest first."""
    user_words_fraction: float = 1.0
    """The same as a share of the room; the smaller one holds."""
    orphans: Orphans = "call"
    """The treatment of a tool result without its call."""
    missing: MissingTexts = MISSING
    """The texts that stand for a missing result or call."""
    learns: bool = True
    """True if the estimate of newer messages is scaled by how far it was off at the last reported usage."""
    tokens_of_all: bool = True
    """True if a named target is a size of the whole context, False for the history alone."""
    checkpoint: int | None = None
    """The start of the current thread."""
    summariser: str | None = None
    """The model that summarises, where the system names one."""
    file_fraction: float = 0.6
    """The share of what remains that files may take."""
    read_list: ReadList | None = None
    """Gives the messages of a caller's list that the model sees, where a system keeps hidden ones in it."""

    __repr__ = short_repr

    def find_room(
        self, window: Window, parts: Breakdown = NO_PARTS, system: int = 0, used: int | None = None
    ) -> tuple[int, int]:
        """Return the tokens that are left free for the answer, and those that may go in.

        parts    what fills the context
        system   tokens of system messages in the history
        used     tokens of the whole context, as the provider counts them
        """
        fixed = count_as_reported(parts.standing + system, parts.total, used, window.tokens)
        reserve = self.reserve.tokens(window.tokens, self.output, window.output_tokens, fixed)
        return reserve, window.usable(reserve)

    @property
    def made_stages(self) -> "tuple[Stage, ...]":
        """The stages that are there by now. Those that are made later limit no message when it arrives."""
        stages = _STAGES.read(self)
        return () if isinstance(stages, _StagesLater) else stages

    @property
    def begins_at_checkpoint(self) -> bool:
        """True if it compacts from the checkpoint on, and leaves what stands before it."""
        return any(getattr(getattr(stage, "keep", None), "from_checkpoint", False) for stage in self.stages)


class _StagesLater:
    """Stages that nobody has looked at yet."""

    def __init__(self, make: "Callable[[], tuple[Stage, ...]]") -> None:
        self.make = make


class _StagesField:
    """The field `stages` of a policy, which makes them when they are first looked at."""

    def __init__(self, slot: Any) -> None:
        self._slot = slot

    def __get__(self, policy: Policy | None, owner: type[Policy]) -> Any:
        if policy is None:
            return self
        stages = self.read(policy)
        if isinstance(stages, _StagesLater):
            stages = stages.make()
            self._slot.__set__(policy, stages)
        return stages

    def read(self, policy: Policy) -> Any:
        """Return the stages, or what makes them."""
        return self._slot.__get__(policy)

    def __set__(self, policy: Policy, stages: Any) -> None:
        self._slot.__set__(policy, stages)


# A frozen dataclass has no fields that are made later, so its slot is wrapped.
_STAGES: Final = _StagesField(Policy.stages)  # type: ignore[misc]
Policy.stages = _STAGES  # type: ignore[assignment, misc]


def make_stages_later(make: "Callable[[], tuple[Stage, ...]]") -> "tuple[Stage, ...]":
    """Return stages for a policy that are made when they are first looked at."""
    return _StagesLater(make)  # type: ignore[return-value]  # the field gives the tuple
