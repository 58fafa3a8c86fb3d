"""The state of one session and how it is read from and written to its store; the only thing that changes.

Every change is first appended to the store and then made here. Where that is interrupted in between, the
keeper is *stale* and reads itself anew before the next act, so that nothing here is ever truer than the log.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, TypeVar

from refold import formats
from refold.core import breaker as breakers
from refold.core.counting import Counter, everything
from refold.core.flow import Answerer
from refold.core.log import MARKS, ROOT, SAID, Entry, Kind, entry
from refold.core.messages import EMPTY, Message
from refold.core.usage import Usage
from refold.core.view import Piece, Put, Run, View, project_marks, step
from refold.errors import Conflict, StoreError
from refold.events import Event, Listeners
from refold.formats import Format, canonical
from refold.measuring import counter_for
from refold.session.effects import Do, Work
from refold.session.shelf import Shelf
from refold.session.values import Settings, Totals
from refold.stores import Head, Place, Store

T = TypeVar("T")

TRIES: Final = 64
"""How often an act is tried again behind somebody else's; each time somebody got ahead."""
_LOADED: Final[frozenset[Kind]] = MARKS - {"usage", "attempt"}
_TRIGGERS: Final[Mapping[Any, breakers.Happening | None]] = {
    "repair": None,
    "carried": None,
    "forced": None,
    "emergency": "emergency",
}
"""What a fold means to the breaker that was not made by itself; people may fold as often as they like."""
_REMEMBERED: Final = 64
"""Attempts from which the breaker is rebuilt; an hour has far less."""
_HANDED: Final = 8
"""How many views that were given out are remembered."""
_LOOKED_AT: Final = 2_000
"""Entries that are looked at for it, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The provider's last word on how large a request was, and what we had estimated for it."""

    usage: Usage
    estimate: int
    model: str = ""
    holds: bool = True
    """Whether the same messages still stand at the front, so that the report can be built upon."""

    @property
    def ratio(self) -> float:
        """How far the estimate was off."""
        return min(4.0, max(0.25, self.usage.context / self.estimate)) if self.estimate > 0 else 1.0


@dataclass(frozen=True, slots=True)
class Handed:
    """A view as it was given out, without the system messages."""

    atoms: tuple[Piece | None, ...]
    items: list[Any]
    said: int
    tip: str


@dataclass(slots=True)
class Keeper:
    """One conversation: where it is in the store, and its view at hand."""

    store: Store
    name: str
    settings: Settings
    ask: Answerer | None
    ask_window: int | None
    now: Callable[[], float]
    listeners: Listeners
    redact: Callable[[Any], Any] | None = None
    head: Head | None = None
    view: View = field(default_factory=View)
    tip: str = ROOT
    """Name of the last message."""
    shelf: Shelf = field(init=False)
    puts: dict[str, tuple[Message, ...]] = field(default_factory=dict)
    """What the folds put, by fold."""
    seen: list[Any] | None = field(default_factory=list)
    """Every message said, as the caller holds it; None where that is not at hand."""
    report: Reported | None = None
    totals: Totals = Totals()
    breaker: breakers.Breaker = field(default_factory=breakers.Breaker)
    saved: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Tokens before and after each fold."""
    stale: bool = True
    held: Sequence[Any] | None = None
    """The caller's own list, as it was given last."""
    handed: dict[tuple[str, ...], Handed] = field(default_factory=dict)
    """The views that were given out last, by the folds that stood."""
    left: dict[str, Head] = field(default_factory=dict)
    """The ends of branches that were left, by their last message."""
    ahead: bool = True
    """Whether something may stand behind this place in the store."""
    turned: int = 0
    """How far the messages that the view hides were compared with the caller's."""
    events: deque[Event] = field(default_factory=deque)
    """What is still to be told to listeners."""
    sent_estimate: int | None = None
    """What we estimated for the request that `prepare` gave out last."""
    trial: tuple[str, int, int] | None = None
    """A fold whose use the next report has to show, how full the context was before it, the history after."""
    level: str = "none"
    """The level that listeners were told last."""
    waiting: Callable[[], Work[Any]] | None = None
    """Waits for a fold that is being prepared in the background."""
    refused: bool = False
    """Whether the provider has refused this turn for its size."""
    learned: int | None = None
    """The window that refusals have taught; 0 for none, None where nobody has looked yet."""

    def __post_init__(self) -> None:
        wire = formats.get(self.settings.format or formats.DEFAULT)
        self.shelf = Shelf(wire, self.counter())

    def counter(self) -> Counter:
        """How this session counts."""
        return counter_for(self.settings.policy, self.settings.model, self.settings.count)

    def emit(self, event: Event) -> None:
        """Keep an event for the listeners; they are told when nothing is locked."""
        self.events.append(event)

    def flush(self) -> None:
        """Tell the listeners; several threads may come here at once."""
        with suppress(IndexError):
            while True:
                self.listeners.emit(self.events.popleft())

    def sent(self) -> list[Any]:
        """What the model sees, as copies that the caller may change and go on from."""
        folds = tuple(fold.name for fold in self.view.standing)
        self.handed.pop(folds, None)
        fixed = self.shelf.fixed
        self.handed[folds] = Handed(
            tuple(self.shelf.atoms[fixed:]), self.shelf.items[fixed:], self.view.said, self.tip
        )
        while len(self.handed) > _HANDED:
            del self.handed[next(iter(self.handed))]
        return [own(item) for item in self.shelf.items]

    @property
    def wire(self) -> Format:
        """The shape the conversation is in."""
        return self.shelf.wire

    def stored(self, item: Any) -> Any:
        """A message as the log keeps it."""
        value = canonical.to_json(item) if isinstance(item, Message) else item
        return (
            self.redact(value) if self.redact is not None and self.settings.redaction == "storage" else value
        )

    def given(self, found: Entry) -> Any:
        """A message of the log as its shape has it."""
        if found.beside.get("format") == canonical.FORMAT.name:
            return canonical.from_json(found.value)
        return found.value


def sure(keeper: Keeper, act: Callable[[], Work[T]]) -> Work[T]:
    """Do something on the newest state; again where somebody else was faster."""
    for left in range(TRIES, 0, -1):
        if keeper.stale:
            yield from load(keeper)
        try:
            return (yield from act())
        except Conflict:
            keeper.stale = True
            if left == 1:
                raise
    raise StoreError("unreachable")  # the last try raises


def commit(keeper: Keeper, entries: Sequence[Entry], *, at: Place | None = None) -> Work[None]:
    """Append entries; the view follows unless they go elsewhere than behind the head."""
    expect = keeper.head
    keeper.stale = True
    keeper.head = yield Do(lambda: keeper.store.append(keeper.name, entries, expect=expect, at=at))
    if at is None:
        for one in entries:
            keeper.view = step(keeper.view, one)
        keeper.stale = False


def mark(keeper: Keeper, kind: Kind, value: Any, about: Mapping[str, Any] | None = None) -> Entry:
    """An entry of anything but a message, behind the head."""
    parent = ROOT if keeper.head is None else keeper.head.name
    return entry(kind, value, parent=parent, said=keeper.view.said, about=about, at=keeper.now())


def spoken(keeper: Keeper, items: Sequence[Any], messages: Sequence[Message]) -> list[Entry]:
    """Entries for messages behind the last one."""
    done: list[Entry] = []
    parent, number = keeper.tip, keeper.view.said
    wire = keeper.wire.name
    for item, message in zip(items, messages, strict=True):
        number += 1
        about = {"format": wire} if wire != formats.DEFAULT else None
        text = everything(message)
        if keeper.redact is not None and keeper.settings.redaction == "storage":
            text = str(keeper.redact(text))
        made = entry(
            "said", keeper.stored(item), parent=parent, said=number, text=text, about=about, at=keeper.now()
        )
        parent = made.name
        done.append(made)
    return done


def say(
    keeper: Keeper,
    items: Sequence[Any],
    read: Sequence[Message] | None = None,
    *,
    front: Sequence[Entry] = (),
) -> Work[None]:
    """Append messages to the log and to the view, in one step with the marks that go in front of them."""
    if not items and not front:
        return
    messages = keeper.shelf.read(items) if read is None else read
    entries = spoken(keeper, items, messages)
    first = keeper.view.said + 1
    yield from commit(keeper, [*front, *entries])
    if entries:
        keeper.tip = entries[-1].name
        keeper.ahead = False
    keeper.shelf.add([Run(n, n) for n in range(first, first + len(items))], items, messages)
    if keeper.seen is not None:
        keeper.seen += items


def own(item: Any) -> Any:
    """A copy of a JSON value; callers change their messages in place, and what was said stays as it was."""
    if isinstance(item, dict):
        return {key: own(value) for key, value in item.items()}
    return [own(value) for value in item] if isinstance(item, list) else item


def load(keeper: Keeper) -> Work[None]:
    """Read the state from the store; until that is done there is none."""
    keeper.stale = True
    head: Head | None = yield Do(lambda: keeper.store.head(keeper.name))
    keeper.head = head
    keeper.seen = [] if head is None or head.said == 0 else None
    marks: list[Entry] = []
    recent: list[Entry] = []
    fared: list[Entry] = []
    if head is not None:
        place = head.place
        marks = yield Do(lambda: list(keeper.store.read(keeper.name, place, kinds=_LOADED)))
        recent = yield Do(lambda: _newest(keeper, place))
        fared = yield Do(lambda: _fared(keeper, place))
    keeper.view = project_marks(marks, 0 if head is None else head.said)
    _remember(keeper, marks, recent)
    _judge(keeper, fared)
    keeper.puts = {one.name: put_messages(one) for one in marks if one.kind == "fold"}
    yield from fill(keeper, system_of(marks, keeper.view.system))
    keeper.ahead = True
    keeper.stale = False


def fresh(keeper: Keeper) -> Work[None]:
    """Read anew what another process may have added."""
    if not keeper.stale:
        head = yield Do(lambda: keeper.store.head(keeper.name))
        same = head is keeper.head or (head and keeper.head and head.version == keeper.head.version)
        keeper.stale = not same
    if keeper.stale:
        yield from load(keeper)


def _newest(keeper: Keeper, place: Place) -> list[Entry]:
    """The last report and what came since, newest first."""
    found: list[Entry] = []
    for one in keeper.store.read(
        keeper.name, place, kinds=("usage", "fold", "unfold", "system"), newest=True
    ):
        found.append(one)
        if one.kind == "usage" or len(found) >= _LOOKED_AT:
            break
    return found


def _fared(keeper: Keeper, place: Place) -> list[Entry]:
    """The last attempts to compact and the turns between them, newest first."""
    found: list[Entry] = []
    attempts = 0
    kinds: tuple[Kind, ...] = ("usage", "fold", "attempt")
    for one in islice(keeper.store.read(keeper.name, place, kinds=kinds, newest=True), _LOOKED_AT):
        found.append(one)
        attempts += one.kind != "usage"
        if attempts >= _REMEMBERED:
            break
    return found


def system_of(marks: Sequence[Entry], name: str) -> list[Any]:
    """The system messages that hold."""
    found = next((one for one in marks if one.name == name), None) if name else None
    if found is None:
        return []
    own = found.beside.get("format") == canonical.FORMAT.name
    return [canonical.from_json(item) for item in found.value] if own else list(found.value)


def _remember(keeper: Keeper, marks: Sequence[Entry], recent: Sequence[Entry]) -> None:
    """Rebuild what is known of usage, totals and folds."""
    keeper.report, keeper.totals = None, Totals()
    keeper.saved = {
        one.name: (_whole(one.value.get("before")), _whole(one.value.get("after")))
        for one in marks
        if one.kind == "fold"
    }
    moved = False
    for one in recent:
        if one.kind == "usage":
            keeper.report = replace(reported_in(one), holds=not moved)
            keeper.totals = Totals(**one.beside.get("totals", {}))
            break
        moved = True


def _whole(value: Any) -> int:
    """A number of tokens; what an import brought may be anything."""
    return value if type(value) is int else 0


def _judge(keeper: Keeper, fared: Sequence[Entry]) -> None:
    """Rebuild the breaker, unless this keeper remembers more: other branches do not know of its attempts."""
    found = breakers.Breaker(limits=keeper.settings.limits)
    said = 0
    for one in reversed(fared):
        if (what := happening(one)) is not None:
            if one.said > said:  # somebody answered in between, whether or not it was reported
                found = breakers.step(found, "turn", one.at)
            said = one.said
            found = breakers.step(found, what, one.at)
    if len(found.attempts) >= len(keeper.breaker.attempts):
        keeper.breaker = found


def happening(one: Entry) -> breakers.Happening | None:
    """What an entry means to the breaker."""
    if one.kind == "usage":
        return "turn"
    if one.kind == "fold":
        return _TRIGGERS.get(one.value.get("trigger"), "fold")
    return "failed" if one.kind == "attempt" and one.value.get("counted") else None


def reported_in(one: Entry) -> Reported:
    """A usage entry, read."""
    value = one.value
    counts = {key: int(value.get(key, 0)) for key in ("input", "output", "cache_read", "cache_write")}
    return Reported(
        usage=Usage(**counts), estimate=int(value.get("estimate", 0)), model=str(value.get("model", ""))
    )


def put_messages(one: Entry) -> tuple[Message, ...]:
    """The messages that a fold put."""
    return tuple(_put(value, one.beside.get("format", formats.DEFAULT)) for value in one.value["messages"])


def _put(value: Mapping[str, Any], wire: str) -> Message:
    if "message" in value:
        return canonical.from_json(value["message"])
    (message,) = formats.get(wire).parse([value["wire"]])
    meta = canonical.from_json({"role": "user", "meta": value.get("meta", {})}).meta
    return replace(message, source=value.get("source"), meta=meta or EMPTY)


def fill(keeper: Keeper, system: Sequence[Any], wire: Format | None = None) -> Work[None]:
    """Put the view's messages on the shelf, from the store."""
    runs = [piece for piece in keeper.view.pieces if isinstance(piece, Run)]
    said: dict[int, Entry] = {}
    if keeper.head is not None:
        place = keeper.head.place
        said = yield Do(lambda: _said(keeper, place, [*runs, Run(keeper.view.said, keeper.view.said)]))
    last = said.get(keeper.view.said)
    keeper.tip = ROOT if last is None else last.name
    wire = wire or _wire(keeper, last)
    atoms: list[Piece | None] = [None] * len(system)
    items: list[Any] = list(system)
    for piece in keeper.view.pieces:
        for atom in single(piece):
            atoms.append(atom)
            if isinstance(atom, Run):
                items.append(keeper.given(said[atom.first]))
            else:
                items += wire.render([keeper.puts[atom.fold][atom.place]])
    messages = list(wire.parse(items))
    for index, put in enumerate(atoms):
        if isinstance(put, Put):
            messages[index] = _as_put(keeper.puts[put.fold][put.place], messages[index])
    shelf = Shelf(wire, keeper.counter(), fixed=len(system))
    shelf.add(atoms, items, messages)
    keeper.shelf = shelf


def _as_put(put: Message, read: Message) -> Message:
    return replace(read, source=put.source, meta=put.meta)


def _wire(keeper: Keeper, last: Entry | None) -> Format:
    """The shape of the newest message, which the log tells."""
    if keeper.settings.format is not None:
        return formats.get(keeper.settings.format)
    return keeper.wire if last is None else formats.get(last.beside.get("format", formats.DEFAULT))


def _said(keeper: Keeper, place: Place, runs: Sequence[Run]) -> dict[int, Entry]:
    found: dict[int, Entry] = {}
    for run in runs:
        for one in keeper.store.read(keeper.name, place, kinds=SAID, first=run.first, last=run.last):
            found[one.said] = one
    return found


def single(piece: Piece) -> Sequence[Piece]:
    """A piece as pieces of one message each."""
    if isinstance(piece, Put):
        return (piece,)
    return [Run(number, number) for number in range(piece.first, piece.last + 1)]
