"""Read views that stood earlier from the log: a caller may continue any of them.

A session remembers the views that it sent itself. Another process may have sent more, or this one was started
since. Folds may insert the same words, so an earlier view must not be taken for a later one.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from refold.core.log.entries import SAID, Kind, hash_entry, remove_cache_marks
from refold.core.log.view import MessageRange, Replacement, View, ViewItem, extend_view, step
from refold.core.messages.message import Message
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.caller_history import SentView
from refold.session.state.session_state import SessionState
from refold.session.steps.load import visible_fold_messages
from refold.stores import Place

MAX_EARLIER_VIEWS: Final = 8
"""Earlier views that are compared, the newest ones; as many as a session remembers of its own. A caller
that continues an older view starts a branch."""
_CHANGES: Final[frozenset[Kind]] = frozenset({"fold", "unfold"})


def find_resumed_items(state: SessionState, body: Sequence[Any]) -> list[Any] | None:
    """Return the first messages of the list if they stand for everything said; else None. Reads no store.

    A caller may continue an earlier view for many turns, and a turn must not cost more for it.
    What was said since has to stand at the end of the view; its names prove that nothing lies between.
    """
    last = state.caller.resumed_view
    since = state.view.said - (state.view.said if last is None else last.said)
    if last is None or not 0 <= since <= len(state.loaded.body):
        return None
    new = state.loaded.items[len(state.loaded.items) - since :]
    name = last.tip
    for item in new:
        name = hash_entry(name, "said", state.to_stored(item))
    known = [*last.items, *new]
    return known if name == state.position.tip and list(body[: len(known)]) == known else None


def earlier_views(state: SessionState, body: Sequence[Any]) -> SessionFlow[list[SentView]]:
    """Return the views before each of the last folds, each as far as the list agrees with it."""
    if state.head is None or not state.view.folds:
        return []
    place = state.head.place
    views: list[SentView] = yield StoreCall(
        lambda: [_read_while_equal(state, place, view, body) for view in _read_folded_views(state, place)]
    )
    return views


def _read_folded_views(state: SessionState, place: Place) -> list[View]:
    """Return the folded views that stood before the last folds and unfolds."""
    views: dict[tuple[str, ...], View] = {}
    view = View()
    for entry in state.store.read(state.name, place, kinds=_CHANGES):
        view = extend_view(view, entry.said)
        folds = tuple(fold.name for fold in view.standing)
        views.pop(folds, None)
        if folds:
            views[folds] = view
        view = step(view, entry)
        while len(views) > MAX_EARLIER_VIEWS:
            del views[next(iter(views))]
    return list(views.values())


def _read_while_equal(state: SessionState, place: Place, view: View, body: Sequence[Any]) -> SentView:
    """Read a view up to the first message that differs from the list; the items behind it are not read."""
    view_items: list[ViewItem | None] = []
    items: list[Any] = []
    fold_messages = visible_fold_messages(state, place, view)
    for index, piece in enumerate(view.items):
        for single, item in _read_messages(state, place, piece, fold_messages):
            view_items.append(single)
            items.append(item)
            if not common_length([item], body[len(items) - 1 : len(items)]):
                if (
                    isinstance(piece, MessageRange)
                    and isinstance(single, MessageRange)
                    and single.last < piece.last
                ):
                    view_items.append(MessageRange(single.last + 1, piece.last))
                return SentView((*view_items, *view.items[index + 1 :]), items, view.said, "")
    return SentView(tuple(view_items), items, view.said, "")


def _read_messages(
    state: SessionState, place: Place, piece: ViewItem, fold_messages: dict[str, tuple[Message, ...]]
) -> Iterator[tuple[ViewItem, Any]]:
    """Yield a piece as single messages; the store is read only as far as they are asked for."""
    if isinstance(piece, Replacement):
        yield from ((piece, item) for item in state.wire.render([fold_messages[piece.fold][piece.place]]))
        return
    for entry in state.store.read(state.name, place, kinds=SAID, first=piece.first, last=piece.last):
        yield MessageRange(entry.said, entry.said), state.from_stored(entry)


def common_length(known: Sequence[Any], body: Sequence[Any]) -> int:
    """Return the number of equal messages at the start of two lists; cache marks are not compared."""
    count = 0
    for old, new in zip(known, body, strict=False):
        if old is not new and old != new:
            if not (isinstance(old, dict) and isinstance(new, dict)):
                break
            if remove_cache_marks(old) != remove_cache_marks(new):
                break
        count += 1
    return count
