"""The contract between the pipeline and the stages: what a stage gets and what it gives back."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from refold.core.compaction.budget import ROOMY
from refold.core.compaction.cached_prefix import CachedPrefix
from refold.core.compaction.cuts import HistoryIndex
from refold.core.compaction.edits import Edit, replace_message
from refold.core.compaction.flow import Flow
from refold.core.compaction.keep_rules import MeasuredHistory, Segment
from refold.core.compaction.placeholders import undo_cuts
from refold.core.messages.message import Message, Part, Text, map_parts
from refold.core.messages.normalize import OPENING, insert_turns
from refold.core.messages.speakers import find_user_turns
from refold.core.messages.wire_rules import CANONICAL, Shape
from refold.core.models.spending_limits import Allowance
from refold.core.models.window_table import Price, Window
from refold.core.tokens.counting import Counter
from refold.core.tokens.findings import Findings

Numbers: TypeAlias = tuple[tuple[int, int] | None, ...]
NO_MODEL: Final = "no model was given"
"""The reason of a stage that would ask a model, where the caller has named none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A history to shrink, and everything a stage may know about it."""

    messages: tuple[Message, ...]
    sizes: tuple[int, ...]
    """Units of each message, by the counter."""
    counter: Counter
    window: int
    room: int
    fixed: int = 0
    """Tokens of the parts that are not history."""
    fitting: int | None = None
    """Tokens of history that fit into the room; None: the room less what is fixed."""
    goal: int | None = None
    """Tokens the history may have afterwards; None: shrink once."""
    target: int | None = None
    """The same where the caller named a number."""
    least: int | None = None
    """Tokens the history should keep, where the caller named a pair; None: no such number."""
    protected: frozenset[int] = frozenset()
    """Positions of messages that stay."""
    pinned: frozenset[int] = frozenset()
    """Positions of messages that stay word for word."""
    originals: Mapping[int, Message] = field(default_factory=dict)
    """The original messages, where earlier stages have rewritten them."""
    uncut: Mapping[int, Message] = field(default_factory=dict)
    """The messages, by number, that earlier compactions have cut, as they were before."""
    shape: Shape = CANONICAL
    force: bool = False
    refused: bool = False
    """True if the provider has refused the history for its size."""
    binds_thinking: bool = False
    """True if the model refuses thinking behind a prefix that has changed."""
    due: bool = True
    """True if compaction would start by itself now."""
    tells: bool = False
    """True if somebody asked for this compaction: what leaves is told by a summary or a digest. A summariser
    that is there is asked before any other stage, and nobody else acts where compaction is not due."""
    untold_above: int | None = None
    """Tokens of history up to which no stage may drop messages without telling of them; None: no limit."""
    focus: str = ""
    """The subject that a summary pays attention to, in the caller's words."""
    model: bool = False
    """True if a summariser model is available."""
    why_no_model: str = NO_MODEL
    """The reason why none is available."""
    ask_window: int = 32_768
    """The window of the summariser. The default is a small model's: a request must fit any that is asked."""
    ask_price: Price | None = None
    """The price of the summariser, for answers that do not name their model."""
    find_window: Callable[[str | None], Window] | None = field(default=None, compare=False, repr=False)
    """Gives the window and the price of a model, as the policy knows them."""
    allowance: Allowance | None = None
    """The money that summaries may still cost; None for no limit."""
    turned_down: int = 0
    """The number of the last message of which a model's summary was turned down; 0 for none."""
    prefix: CachedPrefix | None = None
    """The cached conversation, where a summary can be asked for as one more turn of it."""
    checkpoint: int | None = None
    recallable: bool = False
    """True if messages that leave can be fetched back by their number."""
    archive: str = ""
    """Folder in which the session keeps the originals as files; empty for none."""
    numbers: Numbers = ()
    """The numbers by which handles name each message: the first and last of those it stands for."""
    render: Callable[[Sequence[Message]], Sequence[Any]] = tuple
    """Renders messages in the caller's own shape, for custom strategies."""
    parse: Callable[[Sequence[Any]], Sequence[Message]] = tuple
    """Parses messages from the caller's own shape."""
    index: HistoryIndex = field(default=None, compare=False, repr=False)  # type: ignore[assignment]
    """The links and cuts of the messages; a task with other messages gets another index."""
    found: Findings = field(default_factory=Findings, compare=False, repr=False)
    """What was found in single messages and texts, for stages that look at them again."""

    def __post_init__(self) -> None:
        if self.index is None or self.index.messages is not self.messages:
            object.__setattr__(self, "index", HistoryIndex(self.messages))

    @property
    def fitting_tokens(self) -> int:
        """Tokens of history that fit into the room."""
        return self.room - self.fixed if self.fitting is None else self.fitting

    @property
    def uncut_tokens(self) -> int:
        """Tokens of history up to which the user's last message is not cut."""
        goal = self.goal or 0
        if self.target is not None:
            return goal
        return max(goal, int((self.fitting_tokens + self.fixed) * ROOMY) - self.fixed)

    @property
    def tokens(self) -> int:
        """Tokens of the history."""
        return self.counter.total(self.sizes)

    @property
    def only_model(self) -> bool:
        """True if nothing may leave that was not given to a model: somebody wants one asked, and has room."""
        return self.tells and self.model and not self.due

    @property
    def measured(self) -> MeasuredHistory:
        """The history as a `Keep` sees it."""
        # What somebody asked for has to reach its goal by what is told, so the tail has to leave room for it.
        target = self.goal if self.tells else self.target
        return MeasuredHistory(
            self.messages,
            self.sizes,
            self.window,
            self.room,
            target,
            self.force,
            self.checkpoint,
            self.refused,
            index=self.index,
        )

    def measure_turns(self, messages: Sequence[Message]) -> int:
        """Return the units by which mending these messages adds more turns than it adds to the history."""
        more = len(insert_turns(messages, self.shape)) - len(messages)
        more -= len(insert_turns(self.messages, self.shape)) - len(self.messages)
        return more * self.counter.message(Message("user", (Text(OPENING),)))

    def original(self, index: int) -> Message:
        """Return the message before any stage rewrote it."""
        return self.originals.get(index, self.messages[index])

    def whole(self, index: int) -> Message:
        """Return the message with the whole text of what was cut, now or in an earlier compaction."""
        message = self.messages[index]
        return message if message.is_summary else undo_cuts(message, self.as_said(index))

    def as_said(self, index: int) -> Message:
        """Return the message before a stage rewrote it, or a cut of an earlier compaction."""
        first, last = (self.numbers[index] if self.numbers else None) or (-1, -2)
        is_one = first == last and not self.messages[index].is_summary
        return (self.uncut.get(first) if is_one else None) or self.original(index)

    def number(self, index: int) -> int:
        """Return the number that names a message."""
        span = self.numbers[index] if self.numbers else None
        return index if span is None else span[0]

    def span(self, indices: Sequence[int]) -> tuple[int, int]:
        """Return the numbers of the first and the last message that these stand for."""
        spans = [span for index in indices if self.numbers and (span := self.numbers[index])]
        if not spans:
            return indices[0], indices[-1]
        return min(first for first, _ in spans), max(last for _, last in spans)

    def leaving(self, segment: Segment) -> tuple[int, ...]:
        """Return the positions in a segment that may leave."""
        return tuple(i for i in range(segment.start, segment.end) if i not in self.protected)

    def request(self, segment: Segment) -> str:
        """Return the user's last request if it leaves with the segment; else ""."""
        turns = find_user_turns(self.messages)
        last = turns[-1] if turns else None
        if last is None or last in self.protected or not segment.start <= last < segment.end:
            return ""
        return self.messages[last].text


@dataclass(frozen=True, slots=True)
class Step:
    """A stage's proposal: its edits and their reason, or the reason why there are none."""

    edits: tuple[Edit, ...] = ()
    note: str = ""
    failed: bool = False
    """True if something went wrong, as opposed to nothing being left to do."""
    facts: tuple[int, int, int] = (0, 0, 0)
    """Numbers of the facts in the messages that leave: kept by the text, repaired, reachable by handle."""
    capped: bool = False
    """True if a spending limit kept a model from being asked."""
    name: str = ""
    """The name in receipts where the stage did something else than its own name says."""
    turned_down: int = 0
    """The number of the last message of which a model's summary was turned down; 0 for none."""


Proposal: TypeAlias = Step | Flow[Step]


class Stage(Protocol):
    """One way to shrink: a value whose fields are its knobs."""

    @property
    def name(self) -> str:
        """Its name in receipts."""
        ...

    def __call__(self, task: Task) -> Proposal:
        """Propose edits, asking a model where needed by yielding questions."""
        ...


@runtime_checkable
class LimitingStage(Stage, Protocol):
    """A stage that can tell by one message whether it has something to do."""

    def limits(self, message: Message) -> bool:
        """True if it would change this message."""
        ...


def replace_runs(
    task: Task, leaving: Sequence[int], put: Sequence[Message], stage: str, why: str
) -> tuple[Edit, ...]:
    """Make edits that take messages out and put others in the place of the last run of them."""
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


def rewrite_messages(
    task: Task, places: Iterable[int], change: Callable[[Part], Part | None], stage: str, why: str
) -> tuple[Edit, ...]:
    """Make edits that change the parts of messages by a function; messages that stay the same get none."""
    edits = []
    for index in places:
        changed = map_parts(task.messages[index], change)
        if changed is not task.messages[index]:
            edits.append(replace_message(task.messages, index, changed, stage, why))
    return tuple(edits)
