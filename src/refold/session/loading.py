"""How a keeper reads itself from its store: the view first, then the messages it shows and what they mean.

Folds are read one after another and only those that show are kept, so that a long log needs little memory.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any, Final, TypeVar

from refold import formats
from refold.core.compaction import circuit_breaker as breakers
from refold.core.log.entries import MARKS, ROOT, SAID, Entry, Kind
from refold.core.log.view import Piece, Put, Run, View, grown, step
from refold.core.messages.message import EMPTY, Message
from refold.core.models.prices import Spent
from refold.core.models.spending_limits import HOUR
from refold.core.tokens.usage import Usage
from refold.errors import Conflict, LogCorrupt
from refold.formats import Format
from refold.formats.shared import canonical
from refold.session.effects import Do, Work
from refold.session.keeper import Keeper, Reported, single
from refold.session.purse import Purse
from refold.session.shelf import Shelf
from refold.session.values import Totals
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


def sure(keeper: Keeper, act: Callable[[], Work[T]]) -> Work[T]:
    """Do something on the newest state; again where somebody else was faster."""
    left = TRIES
    while True:
        if keeper.stale:
            yield from load(keeper)
        try:
            return (yield from act())
        except Conflict:
            keeper.stale = True
            left -= 1
            if not left:
                raise


def load(keeper: Keeper) -> Work[None]:
    """Read the state from the store; until that is done there is none."""
    keeper.stale = True
    keeper.head = yield Do(lambda: keeper.store.head(keeper.name))
    yield from behind(keeper)


def behind(keeper: Keeper) -> Work[None]:
    """Read the state as it is at this keeper's own head.

    For one who has just written: another may have gone on behind it, which the next act will meet, and which
    must not be taken for what was written here.
    """
    keeper.stale = True
    head = keeper.head
    keeper.seen = [] if head is None or head.said == 0 else None
    marked = _Marked()
    recent: list[Entry] = []
    fared: list[Entry] = []
    if head is not None:
        place, said = head.place, head.said
        marked = yield Do(lambda: _marked(keeper, place, said))
        recent = yield Do(lambda: _newest(keeper, place))
        fared = yield Do(lambda: _fared(keeper, place))
    keeper.view, keeper.saved, keeper.puts = marked.view, marked.saved, marked.puts
    _remember(keeper, recent)
    _judge(keeper, fared)
    yield from fill(keeper, [] if marked.system is None else system_in(marked.system))
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
        if attempts >= _REMEMBERED and abs(keeper.now() - one.at) > HOUR:
            break
    return found


@dataclass(slots=True)
class _Marked:
    """What the marks of a log say."""

    view: View = field(default_factory=View)
    saved: dict[str, tuple[int, int]] = field(default_factory=dict)
    puts: dict[str, tuple[Message, ...]] = field(default_factory=dict)
    system: Entry | None = None


def _marked(keeper: Keeper, place: Place, said: int) -> _Marked:
    """Read the marks one after another, then the folds that show."""
    done = _Marked()
    for one in keeper.store.read(keeper.name, place, kinds=_LOADED):
        done.view = step(grown(done.view, one.said), one)
        if one.kind == "fold":
            done.saved[one.name] = (_whole(one.value.get("before")), _whole(one.value.get("after")))
        elif one.kind == "system":
            done.system = one
    done.view = grown(done.view, said)
    done.puts = puts_of(keeper, place, done.view)
    return done


def puts_of(keeper: Keeper, place: Place, view: View) -> dict[str, tuple[Message, ...]]:
    """What the folds put of which something shows in a view."""
    puts: dict[str, tuple[Message, ...]] = {}
    for name in {piece.fold: None for piece in view.pieces if isinstance(piece, Put)}:
        fold = view.fold(name)
        at = 0 if fold is None else fold.said
        for one in keeper.store.read(keeper.name, place, kinds=FOLDS, first=at, last=at):
            if one.name == name:
                puts[name] = put_messages(one)
    return puts


def system_in(one: Entry) -> list[Any]:
    """The system messages of an entry."""
    own = one.beside.get("format") == canonical.FORMAT.name
    return [canonical.from_json(item) for item in one.value] if own else list(one.value)


def _remember(keeper: Keeper, recent: Sequence[Entry]) -> None:
    """Rebuild what is known of usage and totals."""
    keeper.report, keeper.totals = None, Totals()
    moved = False
    for one in recent:
        if one.kind == "usage":
            keeper.report = replace(reported_in(one), holds=not moved)
            keeper.totals = Totals(**one.beside.get("totals", {}))
            own = max(keeper.purse.own, _own(one, keeper.totals), key=lambda sums: sums.calls)
            keeper.purse = replace(keeper.purse, own=own)
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


def _judge(keeper: Keeper, fared: Sequence[Entry]) -> None:
    """Rebuild breaker and purse, unless this keeper remembers more: other branches know nothing of it."""
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
    keeper.purse = keeper.purse.restored(fared)


def spent_at(keeper: Keeper, place: Place, marks: Sequence[Entry] = ()) -> Purse:
    """What a place of the log knows of what was spent, with marks that are to stand behind it."""
    return keeper.purse.emptied().restored([*reversed(marks), *_fared(keeper, place)])


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


def reported_in(one: Entry) -> Reported:
    """A usage entry, read."""
    value = one.value
    counts = {key: int(value.get(key, 0)) for key in ("input", "output", "cache_read", "cache_write")}
    return Reported(
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
                if atom.first not in said:
                    raise LogCorrupt(f"message #{atom.first} of session {keeper.name!r} is not there")
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
