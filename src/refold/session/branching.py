"""Where a caller's list leaves what is known: the branch that begins there, or the one that is there already.

Folds, pins and checkpoints that only concern what stands before that place go along.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from refold.core.log import ROOT, SAID, Entry, Kind, entry, name_of, without_marks
from refold.core.view import Piece, Run, View
from refold.session.effects import Do, Work
from refold.session.keeper import Handed, Keeper, commit, spoken
from refold.session.loading import load
from refold.stores import START, Place

PAGE: Final = 500
"""Names that are looked up at once."""
LEFT: Final = 64
"""How many branches that were left are remembered."""


def _fork(
    keeper: Keeper, body: Sequence[Any], handed: Sequence[Handed]
) -> tuple[int, Sequence[Any], Sequence[Any] | None]:
    """How many messages the list shares with what was said, directly or as sent; what follows; those."""
    known = _known(keeper)
    said = matched = common(known, body)
    shared: Sequence[Any] | None = body[:said]
    fixed = keeper.shelf.fixed
    now = (tuple(keeper.shelf.atoms[fixed:]), keeper.shelf.body)
    for atoms, items in (now, *((one.atoms, one.items) for one in handed)):
        count = common(items, body)
        runs = [run for piece in atoms[:count] if piece for run in keeper.view.originals(piece)]
        if count > matched and runs:
            said, matched = max(run.last for run in runs), count
            matched += _kept_beside(keeper, runs, said, body[count:])
            shared = None if keeper.seen is None else keeper.seen[:said]
    return said, body[matched:], shared


def _kept_beside(keeper: Keeper, runs: Sequence[Run], said: int, rest: Sequence[Any]) -> int:
    """How many of these are messages that stand beside a summary which covers what was said around them."""
    numbers = set(range(1, said + 1)).difference(*(range(run.first, run.last + 1) for run in runs))
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


def common(known: Sequence[Any], body: Sequence[Any]) -> int:
    """How many messages two lists begin with alike."""
    count = 0
    for old, new in zip(known, body, strict=False):
        if old is not new and old != new and not _same_words(old, new):
            break
        count += 1
    return count


def _same_words(old: Any, new: Any) -> bool:
    """Whether two messages differ only in marks of what is to be cached."""
    return isinstance(old, dict) and isinstance(new, dict) and without_marks(old) == without_marks(new)


def branch(keeper: Keeper, body: list[Any]) -> Work[None]:
    """Go on from where the list leaves what is known, on a branch of its own or on one that is there."""
    said, rest, shared = _fork(keeper, body, (yield from _still_here(keeper)))
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
        yield from commit(keeper, [*marks, *entries], at=base.place)
        yield from load(keeper)
    if seen is not None:
        _refresh(keeper, seen)
    keeper.seen = seen


def _refresh(keeper: Keeper, said: Sequence[Any]) -> None:
    """Send messages in the form the caller has them now, where that differs in what is no part of them."""
    shelf = keeper.shelf
    for index, atom in enumerate(shelf.atoms):
        item = said[atom.first - 1] if isinstance(atom, Run) else shelf.items[index]
        if item != shelf.items[index] and not shelf.wire.positional:
            shelf.items[index] = item
            (shelf.messages[index],) = shelf.wire.parse([item])


class _Base:
    """A place to go on from: the entry that stands there, and the last message before it."""

    __slots__ = ("name", "place", "tip")

    def __init__(self, place: Place, name: str, tip: str) -> None:
        self.place = place
        self.name = name
        self.tip = tip


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
        made = entry(one.kind, value, parent=above, said=said, about=about, at=keeper.now())
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
