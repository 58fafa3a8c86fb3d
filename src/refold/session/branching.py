"""Where a caller's list leaves what is known: the branch that begins there, or the one that is there already.

Folds, pins and checkpoints that only concern what stands before that place go along.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from refold.core.log.entries import ROOT, SAID, Entry, Kind, entry, name_of
from refold.core.log.view import Piece, Put, Run, View
from refold.core.models.prices import Spent
from refold.session.effects import Do, Work
from refold.session.keeper import Handed, Keeper, commit, spoken
from refold.session.loading import behind, spent_at
from refold.session.remembering import common, earlier
from refold.stores import START, Place

if TYPE_CHECKING:
    from refold.session.purse import Purse

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
    hidden: Sequence[Run] = ()
    """What stands behind a fold's words, where it leaves a view right after them."""


def _directly(keeper: Keeper, body: Sequence[Any]) -> _Fork:
    """How far the list goes along with what was said, word for word."""
    matched = common(_known(keeper), body)
    return _Fork(matched, body[matched:], body[:matched])


def _fork(keeper: Keeper, body: Sequence[Any], handed: Sequence[Handed]) -> _Fork:
    """How far the list goes along with what was said, directly or as sent."""
    found = _directly(keeper, body)
    matched = found.said
    fixed = keeper.shelf.fixed
    now = Handed(tuple(keeper.shelf.atoms[fixed:]), keeper.shelf.body, keeper.view.said, keeper.tip)
    for one in (now, *handed):
        count = common(one.items, body)
        runs = _originals(keeper, one.atoms[:count])
        if count > matched and runs:
            whole = count == len(one.items)  # then also what it hides behind its last message
            said = one.said if whole else max(run.last for run in runs)
            matched = count + _kept_beside(keeper, one.atoms[count:], said, body[count:])
            shared = None if keeper.seen is None else keeper.seen[:said]
            last = one.atoms[count - 1]
            hidden = keeper.view.originals(last) if isinstance(last, Put) and not whole else ()
            goes_on = whole and one is not now
            found = _Fork(said, body[matched:], shared, shows=True, goes_on=goes_on, hidden=hidden)
    return found


def _repeats(keeper: Keeper, fork: _Fork) -> Work[bool]:
    """Whether what follows is what stands behind the fold's words right before it.

    Folds may put the same words, such as a notice: then it was another view, and nothing is said twice.
    """
    if not fork.hidden or not fork.rest or keeper.head is None:
        return False
    place = keeper.head.place
    rest = {name_of(ROOT, "said", keeper.stored(item)) for item in fork.rest}

    def look() -> bool:
        return any(
            name_of(ROOT, "said", one.value) in rest
            for run in fork.hidden
            for one in keeper.store.read(keeper.name, place, kinds=SAID, first=run.first, last=run.last)
        )

    found: bool = yield Do(look)
    return found


def _originals(keeper: Keeper, pieces: Sequence[Piece | None]) -> list[Run]:
    return [run for piece in pieces if piece for run in keeper.view.originals(piece)]


def _kept_beside(keeper: Keeper, pieces: Sequence[Piece | None], said: int, rest: Sequence[Any]) -> int:
    """How many of these are messages that stand beside a summary which covers what was said around them.

    pieces   what follows in that view; what it hides is not beside anything, and may well be said again
    """
    runs = _originals(keeper, pieces)
    numbers = {number for run in runs for number in range(run.first, min(run.last, said) + 1)}
    at_hand = {atom.first: item for atom, item in _shown(keeper)}
    count = 0
    for number in sorted(numbers):
        item = at_hand.get(number) if keeper.seen is None else keeper.seen[number - 1]
        if count < len(rest) and item is not None and item == rest[count]:
            count += 1
    return count


def _shown(keeper: Keeper) -> list[tuple[Run, Any]]:
    pairs = zip(keeper.shelf.atoms, keeper.shelf.items, strict=True)
    return [(atom, item) for atom, item in pairs if isinstance(atom, Run)]


def _still_here(keeper: Keeper) -> Work[list[Handed]]:
    """The views that were handed out on the way to this place; a caller may go on from any of them."""
    if keeper.head is None:
        return []
    place = keeper.head.place

    def look() -> list[Handed]:
        return [
            one
            for one in keeper.handed.values()
            if any(
                found.name == one.tip
                for found in keeper.store.read(keeper.name, place, kinds=SAID, first=one.said, last=one.said)
            )
        ]

    found: list[Handed] = yield Do(look)
    return found


def _known(keeper: Keeper) -> Sequence[Any]:
    """What was said from the first message on, as far as it is at hand."""
    if keeper.seen is not None:
        return keeper.seen
    body, atoms = keeper.shelf.body, keeper.shelf.atoms[keeper.shelf.fixed :]
    count = 0
    while count < len(atoms) and atoms[count] == Run(count + 1, count + 1):
        count += 1
    return body[:count]


def branch(keeper: Keeper, body: list[Any]) -> Work[bool]:
    """Go on from where the list leaves what is known, on a branch of its own or on one that is there.

    Gives whether the list is all that was said, word for word, and not a view of it.
    """
    handed = yield from _still_here(keeper)
    fork = _fork(keeper, body, handed)
    if not fork.goes_on:
        fork = _fork(keeper, body, [*handed, *(yield from earlier(keeper, body))])
    if (yield from _repeats(keeper, fork)):
        fork = _directly(keeper, body)
    said, rest, shared = fork.said, fork.rest, fork.shared
    seen = None if shared is None else [*shared, *rest]
    base = yield from _behind(keeper, said)
    found, base = yield from _stored_already(keeper, rest, base)
    here = True
    if found:
        base, here = yield from _marks_behind(keeper, said + found, base)
    marks = (yield from _carried(keeper, said + found, base)) if here else []
    if found < len(rest) or marks or keeper.head is None or base.place != keeper.head.place:
        _leave(keeper)
        keeper.view, keeper.tip = View(said=said + found), base.tip
        entries = spoken(keeper, rest[found:], keeper.wire.parse(rest[found:]))
        paid = yield from _spent_before(keeper, base, marks)
        yield from commit(keeper, [*marks, *paid, *entries], at=base.place)
        yield from behind(keeper)
    if seen is not None:
        _refresh(keeper, seen)
    keeper.seen = seen
    return not fork.shows


class _Base:
    """A place to go on from: the entry that stands there, and the last message before it."""

    __slots__ = ("name", "place", "tip")

    def __init__(self, place: Place, name: str, tip: str) -> None:
        self.place = place
        self.name = name
        self.tip = tip


def _spent_before(keeper: Keeper, base: _Base, marks: Sequence[Entry]) -> Work[list[Entry]]:
    """What summaries have cost by now, for a branch that does not know of it: caps hold on every branch."""
    if not keeper.purse.summaries.calls:
        return []
    there: Purse = yield Do(lambda: spent_at(keeper, base.place, marks))
    about = replace(keeper.purse, own=Spent()).lacking(there)
    if not about:
        return []
    parent, said = marks[-1].name if marks else base.name, keeper.view.said
    value = {"trigger": "branch", "reason": "spent before", "counted": False}
    return [entry("attempt", value, parent=parent, said=said, about=about, at=keeper.now())]


def _refresh(keeper: Keeper, said: Sequence[Any]) -> None:
    """Send messages in the form the caller has them now, where that differs in what is no part of them."""
    shelf = keeper.shelf
    for index, atom in enumerate(shelf.atoms):
        item = said[atom.first - 1] if isinstance(atom, Run) else shelf.items[index]
        if item != shelf.items[index] and not shelf.wire.positional:
            shelf.items[index] = item
            (shelf.messages[index],) = shelf.wire.parse([item])


def _behind(keeper: Keeper, said: int) -> Work[_Base]:
    """The last place where so many messages had been said."""
    if said == 0 or keeper.head is None:
        return _Base(START, ROOT, ROOT)
    place = keeper.head.place

    def look() -> _Base:
        newest = next(keeper.store.read(keeper.name, place, first=said, last=said, newest=True))
        tip = next(keeper.store.read(keeper.name, place, kinds=SAID, first=said, last=said))
        return _Base(keeper.store.find(keeper.name, [newest.name])[newest.name], newest.name, tip.name)

    found: _Base = yield Do(look)
    return found


def _stored_already(keeper: Keeper, rest: Sequence[Any], base: _Base) -> Work[tuple[int, _Base]]:
    """How many of these messages stand behind that one on some branch, and the last of them."""
    names: list[str] = []
    parent = base.tip
    for item in rest:
        parent = name_of(parent, "said", keeper.stored(item))
        names.append(parent)
    count = 0
    for start in range(0, len(names), PAGE):
        page = names[start : start + PAGE]
        places: dict[str, Place] = yield Do(partial(keeper.store.find, keeper.name, page))
        for name in page:
            if name not in places:
                return count, base
            count, base = count + 1, _Base(places[name], name, name)
    return count, base


def _marks_behind(keeper: Keeper, said: int, base: _Base) -> Work[tuple[_Base, bool]]:
    """The last place at which a stored message was the newest one, and whether that is on this branch.

    Of other branches that is known as long as this keeper remembers where it left them.
    """
    place = START if keeper.head is None else keeper.head.place

    def look() -> bool:
        found = keeper.store.read(keeper.name, place, kinds=SAID, first=said, last=said)
        return any(one.name == base.name for one in found)

    here: bool = yield Do(look)
    if here:
        return (yield from _behind(keeper, said)), True
    left = keeper.left.get(base.tip)
    return base if left is None else _Base(left.place, left.name, base.tip), False


def _leave(keeper: Keeper) -> None:
    """Remember where this branch ends."""
    if keeper.head is not None:
        keeper.left[keeper.tip] = keeper.head
        while len(keeper.left) > LEFT:
            del keeper.left[next(iter(keeper.left))]


def _carried(keeper: Keeper, said: int, base: _Base) -> Work[list[Entry]]:
    """Marks made later that only concern the first so many messages, to stand behind a place before that."""
    if keeper.head is None:
        return []
    place = keeper.head.place
    kinds: tuple[Kind, ...] = ("fold", "unfold", "pin", "checkpoint", "system")
    later: list[Entry] = yield Do(
        lambda: list(keeper.store.read(keeper.name, place, kinds=kinds, first=said + 1))
    )
    names = {fold.name: fold.name for fold in keeper.view.folds if fold.said <= said}
    done: list[Entry] = []
    above = base.name
    for one in later:
        if (value := _carried_value(keeper, one, said, names)) is None:
            continue
        about = {**one.beside, **(keeper.purse.running if one.kind == "fold" else {})}
        made = entry(one.kind, value, parent=above, said=said, about=about, at=one.at)
        if one.kind == "fold":
            names[one.name] = made.name
        above = made.name
        done.append(made)
    return done


def _carried_value(keeper: Keeper, one: Entry, said: int, names: dict[str, str]) -> Any:
    """The body of a mark that goes along; None for one that does not."""
    value = one.value
    if one.kind == "system":
        return value
    if one.kind == "unfold":
        return {"fold": names[value["fold"]]} if value["fold"] in names else None
    if one.kind != "fold":
        return value if value["said"] <= said else None
    fold = keeper.view.fold(one.name)
    if fold is None or not all(_within(piece, said, names) for c in fold.changes for piece in c.took):
        return None
    return {
        **value,
        "trigger": "carried",
        "changes": [_renamed(change, names) for change in value["changes"]],
    }


def _within(piece: Piece, said: int, names: dict[str, str]) -> bool:
    return piece.last <= said if isinstance(piece, Run) else piece.fold in names


def _renamed(change: dict[str, list[str]], names: dict[str, str]) -> dict[str, list[str]]:
    def word(piece: str) -> str:
        fold, slash, place = piece.rpartition("/")
        return f"{names.get(fold, fold)}/{place}" if slash else piece

    return {side: [word(piece) for piece in pieces] for side, pieces in change.items()}
