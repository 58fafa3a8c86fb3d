"""What a stage is given and what it gives back; the contract between the pipeline and the stages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from refold.core.compaction.cached_prefix import Prefix
from refold.core.compaction.cuts import HistoryIndex, Measured, Segment
from refold.core.compaction.edits import Edit
from refold.core.compaction.flow import Flow
from refold.core.messages.message import Message
from refold.core.messages.speakers import spoken
from refold.core.messages.wire_rules import CANONICAL, Shape
from refold.core.models.spending_limits import Allowance
from refold.core.models.window_table import Price
from refold.core.tokens.counting import Counter

Numbers: TypeAlias = tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A history to shrink, and all that is known about it."""

    messages: tuple[Message, ...]
    sizes: tuple[int, ...]
    """Units of each message, by the counter."""
    counter: Counter
    window: int
    room: int
    fixed: int = 0
    """Tokens of what is not history."""
    goal: int | None = None
    """Tokens the history may have afterwards; None: shrink once."""
    target: int | None = None
    """The same where the caller named a number."""
    protected: frozenset[int] = frozenset()
    """Messages that stay."""
    pinned: frozenset[int] = frozenset()
    """Those of them that stay word for word."""
    came: Mapping[int, Message] = field(default_factory=dict)
    """Messages as they came, where earlier stages have rewritten them."""
    shape: Shape = CANONICAL
    force: bool = False
    focus: str = ""
    """What the caller wants a summary to look at."""
    model: bool = False
    """Whether somebody answers questions."""
    ask_window: int = 32_768
    """The window of whoever answers."""
    ask_price: Price | None = None
    """The price of whoever is asked, for answers that do not say whose they are."""
    allowance: Allowance | None = None
    """What summaries may still cost; None for as much as they like."""
    prefix: Prefix | None = None
    """The conversation as its provider has it in the cache, where a question can be asked behind it."""
    checkpoint: int | None = None
    recallable: bool = False
    """Whether what leaves can be fetched back by its number."""
    numbers: Numbers = ()
    """By which handles name each message: the first and last of those it stands for."""
    render: Callable[[Sequence[Message]], Sequence[Any]] = tuple
    """Messages in the caller's own shape, for what a program adds."""
    parse: Callable[[Sequence[Any]], Sequence[Message]] = tuple
    """And back."""
    index: HistoryIndex = field(default=None, compare=False, repr=False)  # type: ignore[assignment]
    """The links and cuts of the messages; a task made with other messages gets another one."""

    def __post_init__(self) -> None:
        if self.index is None or self.index.messages is not self.messages:
            object.__setattr__(self, "index", HistoryIndex(self.messages))

    @property
    def tokens(self) -> int:
        """Tokens of the history."""
        return self.counter.total(self.sizes)

    @property
    def measured(self) -> Measured:
        """What a `Keep` may look at."""
        guarded = 0 if self.target is None else sum(self.sizes[index] for index in self.protected)
        return Measured(
            self.messages,
            self.sizes,
            self.window,
            self.room,
            self.target,
            self.force,
            self.checkpoint,
            guarded=self.counter.tokens(guarded),
            index=self.index,
        )

    def original(self, index: int) -> Message:
        """A message as it came, before any stage rewrote it."""
        return self.came.get(index, self.messages[index])

    def number(self, index: int) -> int:
        """The number that names a message."""
        found = self.numbers[index] if self.numbers else None
        return index if found is None else found[0]

    def span(self, indices: Sequence[int]) -> tuple[int, int]:
        """The numbers of the first and the last message that these stand for."""
        found = [number for index in indices if self.numbers and (number := self.numbers[index])]
        if not found:
            return indices[0], indices[-1]
        return min(first for first, _ in found), max(last for _, last in found)

    def leaving(self, segment: Segment) -> tuple[int, ...]:
        """The messages of a stretch that may leave."""
        return tuple(i for i in range(segment.start, segment.end) if i not in self.protected)

    def request(self, segment: Segment) -> str:
        """The user's last request, where it leaves with the stretch and nobody speaks after it."""
        turns = spoken(self.messages)
        last = turns[-1] if turns else None
        if last is None or last in self.protected or not segment.start <= last < segment.end:
            return ""
        return self.messages[last].text


@dataclass(frozen=True, slots=True)
class Step:
    """What a stage proposes: edits, and in a word why, or why not."""

    edits: tuple[Edit, ...] = ()
    note: str = ""
    failed: bool = False
    """Whether something went wrong, as opposed to nothing being left to do."""
    facts: tuple[int, int, int] = (0, 0, 0)
    """Of the facts in what leaves: how many the text kept, were repaired, are reachable by handle."""
    capped: bool = False
    """Whether a cap on what may be spent kept a model from being asked."""


Proposal: TypeAlias = Step | Flow[Step]


class Stage(Protocol):
    """One way to shrink: a value whose fields are its knobs."""

    @property
    def name(self) -> str:
        """The word for it in receipts."""
        ...

    def __call__(self, task: Task) -> Proposal:
        """Propose edits, asking a model where needed by yielding questions."""
        ...


def replace_runs(
    task: Task, leaving: Sequence[int], put: Sequence[Message], stage: str, why: str
) -> tuple[Edit, ...]:
    """Take messages out and put others where the last run of them stood."""
    runs: list[list[int]] = []
    for index in leaving:
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    edits = []
    for run in runs:
        placed = tuple(put) if run is runs[-1] else ()
        took = task.messages[run[0] : run[-1] + 1]
        edits.append(Edit(run[0], run[-1] + 1, placed, stage, why, took))
    return tuple(edits)
