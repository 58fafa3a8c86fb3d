"""The state of one session and how it is read from and written to its store; the only thing that changes.

Every change is first appended to the store and then made here. Where that is interrupted in between, the
state is *stale* and reads itself anew before the next act, so that nothing here is ever truer than the log.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from refold import formats
from refold.calls.conversation import choose_counter
from refold.core.compaction import circuit_breaker as breakers
from refold.core.compaction.flow import Answerer
from refold.core.log.entries import ROOT, Entry, Kind, make_entry
from refold.core.log.view import Folded, ViewItem, Replacement, MessageRange, View, step
from refold.core.messages.message import Message
from refold.core.messages.message_text import full_text
from refold.core.tokens.counting import Counter
from refold.core.tokens.usage import Usage
from refold.errors import FormatError
from refold.formats import Format
from refold.formats.shared import canonical
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.events import Event, Listeners
from refold.session.results import Settings, Totals
from refold.session.state.loaded_view import LoadedView
from refold.session.state.spending_totals import SpendingTotals, Summariser
from refold.stores import Head, Place, Store

T = TypeVar("T")

_TRUST: Final = 400
"""Tokens for which the whole request's ratio speaks among what requests grew by."""
_MEMORY: Final = 50_000
"""Tokens of growth after which older ones count half."""
_HANDED: Final = 8
"""How many views that were given out are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """The provider's last word on how large a request was, and what we had estimated for it."""

    usage: Usage
    estimate: int
    model: str = ""
    at: float = 0.0
    """When it came."""
    holds: bool = True
    """Whether the same messages still stand at the front, so that the report can be built upon."""
    messages: int | None = None
    """How many messages were in the request, where this process made it; the reply comes behind them."""
    grown: tuple[int, int] = (0, 0)
    """By how much requests grew from one to the next: as reported, and as estimated."""

    @property
    def ratio(self) -> float:
        """How far the estimate was off."""
        return min(4.0, max(0.25, self.usage.context / self.estimate)) if self.estimate > 0 else 1.0

    @property
    def scale(self) -> float:
        """How far estimates of what is new are off: a system prompt may count otherwise than tool output."""
        told, estimated = self.grown
        return min(4.0, max(0.25, (told + _TRUST * self.ratio) / (estimated + _TRUST)))

    def behind(self, last: "UsageReport | None") -> "UsageReport":
        """The report with what it teaches beside the one before it."""
        if last is None or not last.holds or last.model != self.model:
            return self
        told, estimated = self.usage.context - last.usage.context, self.estimate - last.estimate
        if told <= 0 or estimated <= 0:
            return replace(self, grown=last.grown)
        old = last.grown if last.grown[1] <= _MEMORY else (last.grown[0] // 2, last.grown[1] // 2)
        return replace(self, grown=(old[0] + told, old[1] + estimated))


@dataclass(frozen=True, slots=True)
class SentView:
    """A view as it was given out, without the system messages."""

    atoms: tuple[ViewItem | None, ...]
    items: list[Any]
    said: int
    tip: str


@dataclass(slots=True)
class SessionState:
    """One conversation: where it is in the store, and its view at hand."""

    store: Store
    name: str
    settings: Settings
    ask: Answerer | None
    ask_window: int | None
    now: Callable[[], float]
    listeners: Listeners
    redact: Callable[[Any], Any] | None = None
    """Takes secrets out of what leaves for a summary, a receipt, an event or a file; None where none are."""
    to_store: Callable[[Any], Any] | None = None
    """Takes them out of what is stored."""
    head: Head | None = None
    view: View = field(default_factory=View)
    tip: str = ROOT
    """Name of the last message."""
    shelf: LoadedView = field(init=False)
    puts: dict[str, tuple[Message, ...]] = field(default_factory=dict)
    """What the folds put, by fold."""
    seen: list[Any] | None = field(default_factory=list)
    """Every message said, as the caller holds it; None where that is not at hand."""
    report: UsageReport | None = None
    totals: Totals = Totals()
    purse: SpendingTotals = field(default_factory=SpendingTotals)
    """What was spent, and on what."""
    summariser: Summariser = field(default_factory=Summariser)
    """Who is asked."""
    breaker: breakers.Breaker = field(default_factory=breakers.Breaker)
    saved: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Tokens before and after each fold."""
    stale: bool = True
    held: Sequence[Any] | None = None
    """The caller's own list, as it was given last."""
    handed: dict[tuple[str, ...], SentView] = field(default_factory=dict)
    """The views that were given out last, by the folds that stood."""
    brought: SentView | None = None
    """A caller's list that went on from an earlier view, and tells all that was said by then."""
    out: list[Any] = field(default_factory=list)
    """The copies that were given out last; made anew where a caller changed one."""
    objects: list[Any] = field(default_factory=list)
    """The caller's own objects for what was said, as far as they are at hand."""
    left: dict[str, Head] = field(default_factory=dict)
    """The ends of branches that were left, by their last message."""
    ahead: bool = True
    """Whether something may stand behind this place in the store."""
    turned: int = 0
    """In which turn the caller's older messages were compared last."""
    events: deque[Event] = field(default_factory=deque)
    """What is still to be told to listeners."""
    sent_estimate: int | None = None
    """What we estimated for the request that `prepare` gave out last."""
    sent_messages: int | None = None
    """How many messages it had."""
    trial: tuple[str, int, int] | None = None
    """A fold whose use the next report has to show, how full the context was before it, the history after."""
    level: str = "none"
    """The level that listeners were told last."""
    waiting: Callable[[], SessionFlow[Any]] | None = None
    """Waits for a fold that is being prepared in the background."""
    refused: bool = False
    """Whether the provider has refused this turn for its size."""
    learned: int | None = None
    """The window that refusals have taught; 0 for none, None where nobody has looked yet."""

    def __post_init__(self) -> None:
        wire = formats.get(self.settings.format or formats.DEFAULT)
        self.shelf = LoadedView(wire, self.counter())

    def counter(self) -> Counter:
        """How this session counts."""
        return choose_counter(self.settings.policy, self.settings.model, self.settings.count)

    def emit(self, event: Event) -> None:
        """Keep an event for the listeners; they are told when nothing is locked."""
        self.events.append(event)

    def flush(self) -> None:
        """Tell the listeners; several threads may come here at once."""
        with suppress(IndexError):
            while True:
                self.listeners.emit(self.events.popleft())

    def sent(self, *, anew: bool = False) -> list[Any]:
        """What the model sees, as copies that the caller may change and go on from.

        Copies are given out again as long as nobody has changed them, unless they are wanted anew.
        """
        folds = tuple(fold.name for fold in self.view.standing)
        self.handed.pop(folds, None)
        fixed = self.shelf.fixed
        self.handed[folds] = SentView(
            tuple(self.shelf.atoms[fixed:]), self.shelf.items[fixed:], self.view.said, self.tip
        )
        while len(self.handed) > _HANDED:
            del self.handed[next(iter(self.handed))]
        items, same = self.shelf.items, len(self.out)
        if anew or same > len(items) or items[:same] != self.out:
            self.out, same = [], 0
        self.out += [copy_item(item) for item in items[same:]]
        return list(self.out)

    def shortened(self) -> list[Folded]:
        """The folds that made the view shorter, oldest first; mending is not for people to undo."""
        return [fold for fold in self.view.folds if any(self.saved.get(fold.name, ()))]

    @property
    def wire(self) -> Format:
        """The shape the conversation is in."""
        return self.shelf.wire

    def stored(self, item: Any) -> Any:
        """A message as the log keeps it."""
        value = canonical.to_json(item) if isinstance(item, Message) else item
        return value if self.to_store is None else self.to_store(value)

    def given(self, found: Entry) -> Any:
        """A message of the log as its shape has it."""
        if found.beside.get("format") == canonical.FORMAT.name:
            return canonical.from_json(found.value)
        return found.value


def commit(
    state: SessionState,
    entries: Sequence[Entry],
    *,
    at: Place | None = None,
    fence: int | None = None,
    first: View | None = None,
) -> SessionFlow[None]:
    """Append entries; the view follows unless they go elsewhere than behind the head.

    `first`: the view after the first of them, where somebody has worked it out already.
    """
    expect = state.head
    state.stale = True
    state.head = yield StoreCall(
        lambda: state.store.append(state.name, entries, expect=expect, at=at, fence=fence)
    )
    if at is None:
        for one in entries:
            known = first if one is entries[0] else None
            state.view = step(state.view, one) if known is None else known
        state.stale = False


def mark_entry(state: SessionState, kind: Kind, value: Any, about: Mapping[str, Any] | None = None) -> Entry:
    """An entry of anything but a message, behind the head."""
    parent = ROOT if state.head is None else state.head.name
    return make_entry(kind, value, parent=parent, said=state.view.said, about=about, at=state.now())


def message_entries(state: SessionState, items: Sequence[Any], messages: Sequence[Message]) -> list[Entry]:
    """Entries for messages behind the last one."""
    done: list[Entry] = []
    parent, number = state.tip, state.view.said
    wire = state.wire.name
    for item, message in zip(items, messages, strict=True):
        number += 1
        about = {"format": wire} if wire != formats.DEFAULT else None
        text = full_text(message)
        if state.to_store is not None:
            text = str(state.to_store(text))
        made = make_entry(
            "said", state.stored(item), parent=parent, said=number, text=text, about=about, at=state.now()
        )
        parent = made.name
        done.append(made)
    return done


def append_messages(
    state: SessionState,
    items: Sequence[Any],
    read: Sequence[Message] | None = None,
    *,
    front: Sequence[Entry] = (),
) -> SessionFlow[None]:
    """Append messages to the log and to the view, in one step with the marks that go in front of them."""
    if not items and not front:
        return
    messages = state.shelf.read(items) if read is None else read
    entries = message_entries(state, items, messages)
    first = state.view.said + 1
    yield from commit(state, [*front, *entries])
    if entries:
        state.tip = entries[-1].name
        state.ahead = False
    state.shelf.add([MessageRange(n, n) for n in range(first, first + len(items))], items, messages)
    if state.seen is not None:
        state.seen += items


def copy_item(item: Any) -> Any:
    """A copy of a JSON value; callers change their messages in place, and what was said stays as it was."""
    try:
        return _copied(item)
    except RecursionError:
        raise FormatError("is nested too deep to be stored") from None


def _copied(item: Any) -> Any:
    if isinstance(item, dict):
        return {key: _copied(value) for key, value in item.items()}
    return [_copied(value) for value in item] if isinstance(item, list) else item


def single_pieces(piece: ViewItem) -> Sequence[ViewItem]:
    """A piece as pieces of one message each."""
    if isinstance(piece, Replacement):
        return (piece,)
    return [MessageRange(number, number) for number in range(piece.first, piece.last + 1)]
