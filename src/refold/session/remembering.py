"""Views that stood earlier on the way to this place, read from the log: a caller may go on from any of them.

The keeper remembers what it gave out itself. Another process may have given out more, or this one was started
anew since; and folds may put the same words, so that an earlier view must not be taken for a later one.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from refold.core.log.entries import SAID, Kind, name_of, without_marks
from refold.core.log.view import Piece, Put, Run, View, grown, step
from refold.core.messages.message import Message
from refold.session.effects import Do, Work
from refold.session.keeper import Handed, Keeper
from refold.session.loading import puts_of
from refold.stores import Place

EARLIER: Final = 8
"""How many of them are looked at, the newest ones."""
_CHANGES: Final[frozenset[Kind]] = frozenset({"fold", "unfold"})


def note(keeper: Keeper, body: list[Any]) -> None:
    """Remember a caller's list that goes on from an earlier view, and that it tells all that was said."""
    keeper.brought = Handed((), body, keeper.view.said, keeper.tip)


def noted(keeper: Keeper, body: Sequence[Any]) -> list[Any] | None:
    """The beginning of the list that tells all that was said, where that is known without the store.

    Such a caller may keep its list for long, and no turn is to cost more for it. What was said since the list
    was brought has to stand at the end of the view; the names prove that nothing lies between.
    """
    last = keeper.brought
    since = keeper.view.said - (keeper.view.said if last is None else last.said)
    if last is None or not 0 <= since <= len(keeper.shelf.body):
        return None
    new = keeper.shelf.items[len(keeper.shelf.items) - since :]
    name = last.tip
    for item in new:
        name = name_of(name, "said", keeper.stored(item))
    known = [*last.items, *new]
    return known if name == keeper.tip and list(body[: len(known)]) == known else None


def earlier(keeper: Keeper, body: Sequence[Any]) -> Work[list[Handed]]:
    """The views that stood before each of the last folds, each as far as the list goes along with it."""
    if keeper.head is None or not keeper.view.folds:
        return []
    place = keeper.head.place

    def look() -> list[Handed]:
        return [_as_far_as(keeper, place, view, body) for view in _stood(keeper, place)]

    found: list[Handed] = yield Do(look)
    return found


def _stood(keeper: Keeper, place: Place) -> list[View]:
    """The views with something folded in them that stood before the last changes."""
    views: dict[tuple[str, ...], View] = {}
    view = View()
    for one in keeper.store.read(keeper.name, place, kinds=_CHANGES):
        view = grown(view, one.said)
        folds = tuple(fold.name for fold in view.standing)
        views.pop(folds, None)
        if folds:
            views[folds] = view
        view = step(view, one)
        while len(views) > EARLIER:
            del views[next(iter(views))]
    return list(views.values())


def _as_far_as(keeper: Keeper, place: Place, view: View, body: Sequence[Any]) -> Handed:
    """A view up to the first message in which the list differs, and the pieces that follow it."""
    atoms: list[Piece | None] = []
    items: list[Any] = []
    puts = puts_of(keeper, place, view)
    for index, piece in enumerate(view.pieces):
        for atom, item in _messages(keeper, place, piece, puts):
            atoms.append(atom)
            items.append(item)
            if not common([item], body[len(items) - 1 : len(items)]):
                if isinstance(piece, Run) and isinstance(atom, Run) and atom.last < piece.last:
                    atoms.append(Run(atom.last + 1, piece.last))
                return Handed((*atoms, *view.pieces[index + 1 :]), items, view.said, "")
    return Handed(tuple(atoms), items, view.said, "")


def _messages(
    keeper: Keeper, place: Place, piece: Piece, puts: dict[str, tuple[Message, ...]]
) -> Iterator[tuple[Piece, Any]]:
    """A piece as single messages; read from the store only as far as somebody asks."""
    if isinstance(piece, Put):
        yield from ((piece, item) for item in keeper.wire.render([puts[piece.fold][piece.place]]))
        return
    for one in keeper.store.read(keeper.name, place, kinds=SAID, first=piece.first, last=piece.last):
        yield Run(one.said, one.said), keeper.given(one)


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
