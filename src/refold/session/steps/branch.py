"""Where a caller's list leaves what is known: the branch that begins there, or the one that is there already.

Folds, pins and checkpoints that only concern what stands before that place go along.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from refold.core.log.entries import ROOT, SAID, Entry, Kind, make_entry, hash_entry
from refold.core.log.view import ViewItem, Replacement, MessageRange, View
from refold.core.models.prices import Spent
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.session_state import SentView, SessionState, commit, message_entries
from refold.session.steps.earlier_views import common_length, earlier_views
from refold.session.steps.load import load_at_head, spent_at
from refold.stores import START, Place

if TYPE_CHECKING:
    from refold.session.state.spending_totals import SpendingTotals

PAGE: Final = 500
"""Names that are looked up at once."""
LEFT: Final = 64
"""How many branches that were left are remembered."""


class _Fork(NamedTuple):
    """Where a list leaves what is known."""

    said: int
    """How many messages it shares with what was said."""
    rest: Sequence[Any]
    shared: Sequence[Any] | None
    """Those it shares, as far as they are at hand."""
    shows: bool = False
    """Whether it shares them as a view that was sent, and not as they were said."""
    goes_on: bool = False
    """Whether that is the whole of a view that was given out here."""
    hidden: Sequence[MessageRange] = ()
    """What stands behind a fold's words, where it leaves a view right after them."""


def _directly(state: SessionState, body: Sequence[Any]) -> _Fork:
    """How far the list goes along with what was said, word for word."""
    matched = common_length(_known(state), body)
    return _Fork(matched, body[matched:], body[:matched])


def _fork(state: SessionState, body: Sequence[Any], handed: Sequence[SentView]) -> _Fork:
    """How far the list goes along with what was said, directly or as sent."""
    found = _directly(state, body)
    matched = found.said
    fixed = state.shelf.fixed
    now = SentView(tuple(state.shelf.atoms[fixed:]), state.shelf.body, state.view.said, state.tip)
    for one in (now, *handed):
        count = common_length(one.items, body)
        runs = _originals(state, one.atoms[:count])
        if count > matched and runs:
            whole = count == len(one.items)  # then also what it hides behind its last message
            said = one.said if whole else max(run.last for run in runs)
            matched = count + _kept_beside(state, one.atoms[count:], said, body[count:])
            shared = None if state.seen is None else state.seen[:said]
            last = one.atoms[count - 1]
            hidden = state.view.originals(last) if isinstance(last, Replacement) and not whole else ()
            goes_on = whole and one is not now
            found = _Fork(said, body[matched:], shared, shows=True, goes_on=goes_on, hidden=hidden)
    return found


def _repeats(state: SessionState, fork: _Fork) -> SessionFlow[bool]:
    """Whether what follows is what stands behind the fold's words right before it.

    Folds may put the same words, such as a notice: then it was another view, and nothing is said twice.
    """
    if not fork.hidden or not fork.rest or state.head is None:
        return False
    place = state.head.place
    rest = {hash_entry(ROOT, "said", state.stored(item)) for item in fork.rest}

    def look() -> bool:
        return any(
            hash_entry(ROOT, "said", one.value) in rest
            for run in fork.hidden
            for one in state.store.read(state.name, place, kinds=SAID, first=run.first, last=run.last)
        )

    found: bool = yield StoreCall(look)
    return found


def _originals(state: SessionState, pieces: Sequence[ViewItem | None]) -> list[MessageRange]:
    return [run for piece in pieces if piece for run in state.view.originals(piece)]


def _kept_beside(state: SessionState, pieces: Sequence[ViewItem | None], said: int, rest: Sequence[Any]) -> int:
    """How many of these are messages that stand beside a summary which covers what was said around them.

    pieces   what follows in that view; what it hides is not beside anything, and may well be said again
    """
    runs = _originals(state, pieces)
    numbers = {number for run in runs for number in range(run.first, min(run.last, said) + 1)}
    at_hand = {atom.first: item for atom, item in _shown(state)}
    count = 0
    for number in sorted(numbers):
        item = at_hand.get(number) if state.seen is None else state.seen[number - 1]
        if count < len(rest) and item is not None and item == rest[count]:
            count += 1
    return count


def _shown(state: SessionState) -> list[tuple[MessageRange, Any]]:
    pairs = zip(state.shelf.atoms, state.shelf.items, strict=True)
    return [(atom, item) for atom, item in pairs if isinstance(atom, MessageRange)]


def _still_here(state: SessionState) -> SessionFlow[list[SentView]]:
    """The views that were handed out on the way to this place; a caller may go on from any of them."""
    if state.head is None:
        return []
    place = state.head.place

    def look() -> list[SentView]:
        return [
            one
            for one in state.handed.values()
            if any(
                found.name == one.tip
                for found in state.store.read(state.name, place, kinds=SAID, first=one.said, last=one.said)
            )
        ]

    found: list[SentView] = yield StoreCall(look)
    return found


def _known(state: SessionState) -> Sequence[Any]:
    """What was said from the first message on, as far as it is at hand."""
    if state.seen is not None:
        return state.seen
    body, atoms = state.shelf.body, state.shelf.atoms[state.shelf.fixed :]
    count = 0
    while count < len(atoms) and atoms[count] == MessageRange(count + 1, count + 1):
        count += 1
    return body[:count]


def branch(state: SessionState, body: list[Any]) -> SessionFlow[bool]:
    """Go on from where the list leaves what is known, on a branch of its own or on one that is there.

    Gives whether the list is all that was said, word for word, and not a view of it.
    """
    handed = yield from _still_here(state)
    fork = _fork(state, body, handed)
    if not fork.goes_on:
        fork = _fork(state, body, [*handed, *(yield from earlier_views(state, body))])
    if (yield from _repeats(state, fork)):
        fork = _directly(state, body)
    said, rest, shared = fork.said, fork.rest, fork.shared
    seen = None if shared is None else [*shared, *rest]
    base = yield from _behind(state, said)
    found, base = yield from _stored_already(state, rest, base)
    here = True
    if found:
        base, here = yield from _marks_behind(state, said + found, base)
    marks = (yield from _carried(state, said + found, base)) if here else []
    if found < len(rest) or marks or state.head is None or base.place != state.head.place:
        _leave(state)
        state.view, state.tip = View(said=said + found), base.tip
        entries = message_entries(state, rest[found:], state.wire.parse(rest[found:]))
        paid = yield from _spent_before(state, base, marks)
        yield from commit(state, [*marks, *paid, *entries], at=base.place)
        yield from load_at_head(state)
    if seen is not None:
        _refresh(state, seen)
    state.seen = seen
    return not fork.shows


class _Base:
    """A place to go on from: the entry that stands there, and the last message before it."""

    __slots__ = ("name", "place", "tip")

    def __init__(self, place: Place, name: str, tip: str) -> None:
        self.place = place
        self.name = name
        self.tip = tip


def _spent_before(state: SessionState, base: _Base, marks: Sequence[Entry]) -> SessionFlow[list[Entry]]:
    """What summaries have cost by now, for a branch that does not know of it: caps hold on every branch."""
    if not state.purse.summaries.calls:
        return []
    there: SpendingTotals = yield StoreCall(lambda: spent_at(state, base.place, marks))
    about = replace(state.purse, own=Spent()).lacking(there)
    if not about:
        return []
    parent, said = marks[-1].name if marks else base.name, state.view.said
    value = {"trigger": "branch", "reason": "spent before", "counted": False}
    return [make_entry("attempt", value, parent=parent, said=said, about=about, at=state.now())]


def _refresh(state: SessionState, said: Sequence[Any]) -> None:
    """Send messages in the form the caller has them now, where that differs in what is no part of them."""
    shelf = state.shelf
    for index, atom in enumerate(shelf.atoms):
        item = said[atom.first - 1] if isinstance(atom, MessageRange) else shelf.items[index]
        if item != shelf.items[index] and not shelf.wire.positional:
            shelf.items[index] = item
            (shelf.messages[index],) = shelf.wire.parse([item])


def _behind(state: SessionState, said: int) -> SessionFlow[_Base]:
    """The last place where so many messages had been said."""
    if said == 0 or state.head is None:
        return _Base(START, ROOT, ROOT)
    place = state.head.place

    def look() -> _Base:
        newest = next(state.store.read(state.name, place, first=said, last=said, newest=True))
        tip = next(state.store.read(state.name, place, kinds=SAID, first=said, last=said))
        return _Base(state.store.find(state.name, [newest.name])[newest.name], newest.name, tip.name)

    found: _Base = yield StoreCall(look)
    return found


def _stored_already(state: SessionState, rest: Sequence[Any], base: _Base) -> SessionFlow[tuple[int, _Base]]:
    """How many of these messages stand behind that one on some branch, and the last of them."""
    names: list[str] = []
    parent = base.tip
    for item in rest:
        parent = hash_entry(parent, "said", state.stored(item))
        names.append(parent)
    count = 0
    for start in range(0, len(names), PAGE):
        page = names[start : start + PAGE]
        places: dict[str, Place] = yield StoreCall(partial(state.store.find, state.name, page))
        for name in page:
            if name not in places:
                return count, base
            count, base = count + 1, _Base(places[name], name, name)
    return count, base


def _marks_behind(state: SessionState, said: int, base: _Base) -> SessionFlow[tuple[_Base, bool]]:
    """The last place at which a stored message was the newest one, and whether that is on this branch.

    Of other branches that is known as long as this state remembers where it left them.
    """
    place = START if state.head is None else state.head.place

    def look() -> bool:
        found = state.store.read(state.name, place, kinds=SAID, first=said, last=said)
        return any(one.name == base.name for one in found)

    here: bool = yield StoreCall(look)
    if here:
        return (yield from _behind(state, said)), True
    left = state.left.get(base.tip)
    return base if left is None else _Base(left.place, left.name, base.tip), False


def _leave(state: SessionState) -> None:
    """Remember where this branch ends."""
    if state.head is not None:
        state.left[state.tip] = state.head
        while len(state.left) > LEFT:
            del state.left[next(iter(state.left))]


def _carried(state: SessionState, said: int, base: _Base) -> SessionFlow[list[Entry]]:
    """Marks made later that only concern the first so many messages, to stand behind a place before that."""
    if state.head is None:
        return []
    place = state.head.place
    kinds: tuple[Kind, ...] = ("fold", "unfold", "pin", "checkpoint", "system")
    later: list[Entry] = yield StoreCall(
        lambda: list(state.store.read(state.name, place, kinds=kinds, first=said + 1))
    )
    names = {fold.name: fold.name for fold in state.view.folds if fold.said <= said}
    done: list[Entry] = []
    above = base.name
    for one in later:
        if (value := _carried_value(state, one, said, names)) is None:
            continue
        about = {**one.beside, **(state.purse.running if one.kind == "fold" else {})}
        made = make_entry(one.kind, value, parent=above, said=said, about=about, at=one.at)
        if one.kind == "fold":
            names[one.name] = made.name
        above = made.name
        done.append(made)
    return done


def _carried_value(state: SessionState, one: Entry, said: int, names: dict[str, str]) -> Any:
    """The body of a mark that goes along; None for one that does not."""
    value = one.value
    if one.kind == "system":
        return value
    if one.kind == "unfold":
        return {"fold": names[value["fold"]]} if value["fold"] in names else None
    if one.kind != "fold":
        return value if value["said"] <= said else None
    fold = state.view.fold(one.name)
    if fold is None or not all(_within(piece, said, names) for c in fold.changes for piece in c.took):
        return None
    return {
        **value,
        "trigger": "carried",
        "changes": [_renamed(change, names) for change in value["changes"]],
    }


def _within(piece: ViewItem, said: int, names: dict[str, str]) -> bool:
    return piece.last <= said if isinstance(piece, MessageRange) else piece.fold in names


def _renamed(change: dict[str, list[str]], names: dict[str, str]) -> dict[str, list[str]]:
    def word(piece: str) -> str:
        fold, slash, place = piece.rpartition("/")
        return f"{names.get(fold, fold)}/{place}" if slash else piece

    return {side: [word(piece) for piece in pieces] for side, pieces in change.items()}
