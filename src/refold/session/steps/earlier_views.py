"""Views that stood earlier on the way to this place, read from the log: a caller may go on from any of them.

The state remembers what it gave out itself. Another process may have given out more, or this one was started
anew since; and folds may put the same words, so that an earlier view must not be taken for a later one.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from refold.core.log.entries import SAID, Kind, hash_entry, remove_cache_marks
from refold.core.log.view import ViewItem, Replacement, MessageRange, View, extend_view, step
from refold.core.messages.message import Message
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.session_state import SentView, SessionState
from refold.session.steps.load import puts_of
from refold.stores import Place

EARLIER: Final = 8
"""How many of them are looked at, the newest ones."""
_CHANGES: Final[frozenset[Kind]] = frozenset({"fold", "unfold"})


def note_resumed_view(state: SessionState, body: list[Any]) -> None:
    """Remember a caller's list that goes on from an earlier view, and that it tells all that was said."""
    state.brought = SentView((), body, state.view.said, state.tip)


def find_resumed_view(state: SessionState, body: Sequence[Any]) -> list[Any] | None:
    """The beginning of the list that tells all that was said, where that is known without the store.

    Such a caller may keep its list for long, and no turn is to cost more for it. What was said since the list
    was brought has to stand at the end of the view; the names prove that nothing lies between.
    """
    last = state.brought
    since = state.view.said - (state.view.said if last is None else last.said)
    if last is None or not 0 <= since <= len(state.shelf.body):
        return None
    new = state.shelf.items[len(state.shelf.items) - since :]
    name = last.tip
    for item in new:
        name = hash_entry(name, "said", state.stored(item))
    known = [*last.items, *new]
    return known if name == state.tip and list(body[: len(known)]) == known else None


def earlier_views(state: SessionState, body: Sequence[Any]) -> SessionFlow[list[SentView]]:
    """The views that stood before each of the last folds, each as far as the list goes along with it."""
    if state.head is None or not state.view.folds:
        return []
    place = state.head.place

    def look() -> list[SentView]:
        return [_as_far_as(state, place, view, body) for view in _stood(state, place)]

    found: list[SentView] = yield StoreCall(look)
    return found


def _stood(state: SessionState, place: Place) -> list[View]:
    """The views with something folded in them that stood before the last changes."""
    views: dict[tuple[str, ...], View] = {}
    view = View()
    for one in state.store.read(state.name, place, kinds=_CHANGES):
        view = extend_view(view, one.said)
        folds = tuple(fold.name for fold in view.standing)
        views.pop(folds, None)
        if folds:
            views[folds] = view
        view = step(view, one)
        while len(views) > EARLIER:
            del views[next(iter(views))]
    return list(views.values())


def _as_far_as(state: SessionState, place: Place, view: View, body: Sequence[Any]) -> SentView:
    """A view up to the first message in which the list differs, and the pieces that follow it."""
    atoms: list[ViewItem | None] = []
    items: list[Any] = []
    puts = puts_of(state, place, view)
    for index, piece in enumerate(view.pieces):
        for atom, item in _messages(state, place, piece, puts):
            atoms.append(atom)
            items.append(item)
            if not common_length([item], body[len(items) - 1 : len(items)]):
                if isinstance(piece, MessageRange) and isinstance(atom, MessageRange) and atom.last < piece.last:
                    atoms.append(MessageRange(atom.last + 1, piece.last))
                return SentView((*atoms, *view.pieces[index + 1 :]), items, view.said, "")
    return SentView(tuple(atoms), items, view.said, "")


def _messages(
    state: SessionState, place: Place, piece: ViewItem, puts: dict[str, tuple[Message, ...]]
) -> Iterator[tuple[ViewItem, Any]]:
    """A piece as single messages; read from the store only as far as somebody asks."""
    if isinstance(piece, Replacement):
        yield from ((piece, item) for item in state.wire.render([puts[piece.fold][piece.place]]))
        return
    for one in state.store.read(state.name, place, kinds=SAID, first=piece.first, last=piece.last):
        yield MessageRange(one.said, one.said), state.given(one)


def common_length(known: Sequence[Any], body: Sequence[Any]) -> int:
    """How many messages two lists begin with alike."""
    count = 0
    for old, new in zip(known, body, strict=False):
        if old is not new and old != new and not _same_words(old, new):
            break
        count += 1
    return count


def _same_words(old: Any, new: Any) -> bool:
    """Whether two messages differ only in marks of what is to be cached."""
    return isinstance(old, dict) and isinstance(new, dict) and remove_cache_marks(old) == remove_cache_marks(new)
