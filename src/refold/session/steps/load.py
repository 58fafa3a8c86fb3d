"""How a state reads itself from its store: the view first, then the messages it shows and what they mean.

Folds are read one after another and only those that show are kept, so that a long log needs little memory.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any, Final, TypeVar

from refold import formats
from refold.core.compaction import circuit_breaker as breakers
from refold.core.log.entries import MARKS, ROOT, SAID, Entry, Kind
from refold.core.log.view import ViewItem, Replacement, MessageRange, View, extend_view, step
from refold.core.messages.message import EMPTY, Message
from refold.core.models.prices import Spent
from refold.core.models.spending_limits import HOUR
from refold.core.tokens.usage import Usage
from refold.errors import Conflict, LogCorrupt
from refold.formats import Format
from refold.formats.shared import canonical
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.results import Totals
from refold.session.state.loaded_view import LoadedView
from refold.session.state.session_state import SessionState, UsageReport, single_pieces
from refold.session.state.spending_totals import SpendingTotals
from refold.stores import Place

T = TypeVar("T")

TRIES: Final = 64
"""How often an act is tried again behind somebody else's; each time somebody got ahead."""
FOLDS: Final[frozenset[Kind]] = frozenset({"fold"})
_LOADED: Final[frozenset[Kind]] = MARKS - {"usage", "attempt"}
_TRIGGERS: Final[Mapping[Any, breakers.Happening | None]] = {
    "repair": None,
    "carried": None,
    "forced": None,
    "emergency": "emergency",
}
"""What a fold means to the breaker that was not made by itself; people may fold as often as they like."""
_REMEMBERED: Final = 64
"""Attempts from which the breaker is rebuilt, at least; those of the last hour count for the caps as well."""
_LOOKED_AT: Final = 2_000
"""Entries that are looked at for it, at most."""


def retry_on_conflict(state: SessionState, act: Callable[[], SessionFlow[T]]) -> SessionFlow[T]:
    """Do something on the newest state; again where somebody else was faster."""
    left = TRIES
    while True:
        if state.stale:
            yield from load(state)
        try:
            return (yield from act())
        except Conflict:
            state.stale = True
            left -= 1
            if not left:
                raise


def load(state: SessionState) -> SessionFlow[None]:
    """Read the state from the store; until that is done there is none."""
    state.stale = True
    state.head = yield StoreCall(lambda: state.store.head(state.name))
    yield from load_at_head(state)


def load_at_head(state: SessionState) -> SessionFlow[None]:
    """Read the state as it is at this state's own head.

    For one who has just written: another may have gone on behind it, which the next act will meet, and which
    must not be taken for what was written here.
    """
    state.stale = True
    head = state.head
    state.seen = [] if head is None or head.said == 0 else None
    marked = _Marked()
    recent: list[Entry] = []
    fared: list[Entry] = []
    if head is not None:
        place, said = head.place, head.said
        marked = yield StoreCall(lambda: _marked(state, place, said))
        recent = yield StoreCall(lambda: _newest(state, place))
        fared = yield StoreCall(lambda: _fared(state, place))
    state.view, state.saved, state.puts = marked.view, marked.saved, marked.puts
    _remember(state, recent)
    _judge(state, fared)
    yield from fill_view(state, [] if marked.system is None else system_in(marked.system))
    state.ahead = True
    state.stale = False


def reload_if_stale(state: SessionState) -> SessionFlow[None]:
    """Read anew what another process may have added."""
    if not state.stale:
        head = yield StoreCall(lambda: state.store.head(state.name))
        same = head is state.head or (head and state.head and head.version == state.head.version)
        state.stale = not same
    if state.stale:
        yield from load(state)


def _newest(state: SessionState, place: Place) -> list[Entry]:
    """The last report and what came since, newest first."""
    found: list[Entry] = []
    for one in state.store.read(state.name, place, kinds=("usage", "fold", "unfold", "system"), newest=True):
        found.append(one)
        if one.kind == "usage" or len(found) >= _LOOKED_AT:
            break
    return found


def _fared(state: SessionState, place: Place) -> list[Entry]:
    """The last attempts to compact and the turns between them, newest first."""
    found: list[Entry] = []
    attempts = 0
    kinds: tuple[Kind, ...] = ("usage", "fold", "attempt")
    for one in islice(state.store.read(state.name, place, kinds=kinds, newest=True), _LOOKED_AT):
        found.append(one)
        attempts += one.kind != "usage"
        if attempts >= _REMEMBERED and abs(state.now() - one.at) > HOUR:
            break
    return found


@dataclass(slots=True)
class _Marked:
    """What the marks of a log say."""

    view: View = field(default_factory=View)
    saved: dict[str, tuple[int, int]] = field(default_factory=dict)
    puts: dict[str, tuple[Message, ...]] = field(default_factory=dict)
    system: Entry | None = None


def _marked(state: SessionState, place: Place, said: int) -> _Marked:
    """Read the marks one after another, then the folds that show."""
    done = _Marked()
    for one in state.store.read(state.name, place, kinds=_LOADED):
        done.view = step(extend_view(done.view, one.said), one)
        if one.kind == "fold":
            done.saved[one.name] = (_whole(one.value.get("before")), _whole(one.value.get("after")))
        elif one.kind == "system":
            done.system = one
    done.view = extend_view(done.view, said)
    done.puts = puts_of(state, place, done.view)
    return done


def puts_of(state: SessionState, place: Place, view: View) -> dict[str, tuple[Message, ...]]:
    """What the folds put of which something shows in a view."""
    puts: dict[str, tuple[Message, ...]] = {}
    for name in {piece.fold: None for piece in view.pieces if isinstance(piece, Replacement)}:
        fold = view.fold(name)
        at = 0 if fold is None else fold.said
        for one in state.store.read(state.name, place, kinds=FOLDS, first=at, last=at):
            if one.name == name:
                puts[name] = put_messages(one)
    return puts


def system_in(one: Entry) -> list[Any]:
    """The system messages of an entry."""
    own = one.beside.get("format") == canonical.FORMAT.name
    return [canonical.from_json(item) for item in one.value] if own else list(one.value)


def _remember(state: SessionState, recent: Sequence[Entry]) -> None:
    """Rebuild what is known of usage and totals."""
    state.report, state.totals = None, Totals()
    moved = False
    for one in recent:
        if one.kind == "usage":
            state.report = replace(reported_in(one), holds=not moved)
            state.totals = Totals(**one.beside.get("totals", {}))
            own = max(state.purse.own, _own(one, state.totals), key=lambda sums: sums.calls)
            state.purse = replace(state.purse, own=own)
            break
        moved = True


def _own(one: Entry, totals: Totals) -> Spent:
    """What the conversation's requests had cost by then; an older log tells their tokens alone."""
    if "spent" in one.beside:
        return Spent.read(one.beside["spent"])
    counts = {name: number for name, number in asdict(totals).items() if name != "requests"}
    return Spent(calls=totals.requests, **counts, dollars=None, unpriced=totals.requests)


def _whole(value: Any) -> int:
    """A number of tokens; what an import brought may be anything."""
    return value if type(value) is int else 0


def _judge(state: SessionState, fared: Sequence[Entry]) -> None:
    """Rebuild breaker and purse, unless this state remembers more: other branches know nothing of it."""
    found = breakers.Breaker(limits=state.settings.limits)
    said = 0
    for one in reversed(fared):
        if (what := happening(one)) is not None:
            if one.said > said:  # somebody answered in between, whether or not it was reported
                found = breakers.step(found, "turn", one.at)
            said = one.said
            found = breakers.step(found, what, one.at)
    if len(found.attempts) >= len(state.breaker.attempts):
        state.breaker = found
    state.purse = state.purse.restored(fared)


def spent_at(state: SessionState, place: Place, marks: Sequence[Entry] = ()) -> SpendingTotals:
    """What a place of the log knows of what was spent, with marks that are to stand behind it."""
    return state.purse.emptied().restored([*reversed(marks), *_fared(state, place)])


def happening(one: Entry) -> breakers.Happening | None:
    """What an entry means to the breaker."""
    if one.kind == "usage":
        return "turn"
    if one.kind == "fold":
        return folding_by(one.value.get("trigger"))
    return "failed" if one.kind == "attempt" and one.value.get("counted") else None


def folding_by(trigger: str | None) -> breakers.Happening | None:
    """What a fold means to the breaker, by what it was made for."""
    return _TRIGGERS.get(trigger, "fold")


def reported_in(one: Entry) -> UsageReport:
    """A usage entry, read."""
    value = one.value
    counts = {key: int(value.get(key, 0)) for key in ("input", "output", "cache_read", "cache_write")}
    return UsageReport(
        usage=Usage(**counts),
        estimate=int(value.get("estimate", 0)),
        model=str(value.get("model", "")),
        at=one.at,
        grown=_grown(one.beside.get("grown")),
    )


def _grown(value: Any) -> tuple[int, int]:
    """By how much requests grew, where the entry tells."""
    told = isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(n, int) for n in value)
    return (value[0], value[1]) if told else (0, 0)


def put_messages(one: Entry) -> tuple[Message, ...]:
    """The messages that a fold put."""
    wire = formats.get(one.beside.get("format", formats.DEFAULT))
    return tuple(_put(value, wire) for value in one.value["messages"])


def _put(value: Mapping[str, Any], wire: Format) -> Message:
    if "message" in value:
        return canonical.from_json(value["message"])
    (message,) = wire.parse([value["wire"]])
    source, meta = value.get("source"), value.get("meta")
    if source is None and not meta:
        return message
    meta = canonical.from_json({"role": "user", "meta": meta or {}}).meta
    return replace(message, source=source, meta=meta or EMPTY)


def fill_view(state: SessionState, system: Sequence[Any], wire: Format | None = None) -> SessionFlow[None]:
    """Put the view's messages on the shelf, from the store."""
    runs = [piece for piece in state.view.pieces if isinstance(piece, MessageRange)]
    said: dict[int, Entry] = {}
    if state.head is not None:
        place = state.head.place
        said = yield StoreCall(lambda: _said(state, place, [*runs, MessageRange(state.view.said, state.view.said)]))
    last = said.get(state.view.said)
    state.tip = ROOT if last is None else last.name
    wire = wire or _wire(state, last)
    atoms: list[ViewItem | None] = [None] * len(system)
    items: list[Any] = list(system)
    for piece in state.view.pieces:
        for atom in single_pieces(piece):
            atoms.append(atom)
            if isinstance(atom, MessageRange):
                if atom.first not in said:
                    raise LogCorrupt(f"message #{atom.first} of session {state.name!r} is not there")
                items.append(state.given(said[atom.first]))
            else:
                items += wire.render([state.puts[atom.fold][atom.place]])
    messages = list(wire.parse(items))
    for index, put in enumerate(atoms):
        if isinstance(put, Replacement):
            messages[index] = _as_put(state.puts[put.fold][put.place], messages[index])
    shelf = LoadedView(wire, state.counter(), fixed=len(system))
    shelf.add(atoms, items, messages)
    state.shelf = shelf


def _as_put(put: Message, read: Message) -> Message:
    return replace(read, source=put.source, meta=put.meta)


def _wire(state: SessionState, last: Entry | None) -> Format:
    """The shape of the newest message, which the log tells."""
    if state.settings.format is not None:
        return formats.get(state.settings.format)
    return state.wire if last is None else formats.get(last.beside.get("format", formats.DEFAULT))


def _said(state: SessionState, place: Place, runs: Sequence[MessageRange]) -> dict[int, Entry]:
    found: dict[int, Entry] = {}
    for run in runs:
        for one in state.store.read(state.name, place, kinds=SAID, first=run.first, last=run.last):
            found[one.said] = one
    return found
