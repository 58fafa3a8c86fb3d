"""Read views that stood earlier from the log: a caller may continue any of them.

A session remembers the views that it sent itself. Another process may have sent more, or this one was started
since. Folds may insert the same words, so an earlier view must not be taken for a later one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from refold.core.log.entries import SAID, Kind, hash_entry
from refold.core.log.normal_form import write_normal_form
from refold.core.log.view import MessageRange, Replacement, View, ViewItem, extend_view, step
from refold.core.messages.message import Message
from refold.errors import FormatError
from refold.formats import Format
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.block_makers import show_messages
from refold.session.state.caller_history import SentView, copy_item
from refold.session.state.session_state import SessionState
from refold.session.steps.load import visible_fold_messages
from refold.stores import Place

MAX_EARLIER_VIEWS: Final = 8
"""Earlier views that are compared, the newest ones; as many as a session remembers of its own. A caller
that continues an older view starts a branch."""
BLOCK: Final = 256
"""Messages that are compared in one step. More makes one that has changed costlier, fewer all the others."""
_WRITTEN_ANEW: Final = frozenset(
    {"role", "type", "id", "status", "content", "parts", "output", "result", "summary", "input", "tool_calls"}
    | {"function_call", "arguments"}
)
"""Fields of a message that the formats read in more than one form, or that do not count."""
_CALLS: Final = ("tool_calls", "function_call")
_RESULTS: Final = frozenset({"functionResponse", "function_response", "toolResult"})
"""Fields of parts that hold a result: Gemini, Converse."""
_CHANGES: Final[frozenset[Kind]] = frozenset({"fold", "unfold"})


def find_resumed_items(state: SessionState, body: Sequence[Any]) -> list[Any] | None:
    """Return copies of the first messages of the list if they stand for everything said; else None.

    A caller may continue an earlier view for many turns, and a turn must not cost more for it: no store is
    read, and only messages in other JSON are copied. The caller's own objects would follow its edits.
    What was said since has to stand at the end of the view; its names prove that nothing lies between.
    """
    last = state.caller.resumed_view
    since = state.view.said - (state.view.said if last is None else last.said)
    if last is None or not 0 <= since <= len(state.loaded.body):
        return None
    new = state.loaded.items[len(state.loaded.items) - since :]
    name = last.tip
    for number, item in enumerate(new, last.said + 1):
        name = hash_entry(name, "said", state.to_stored(item), number)
    known = [*last.items, *new]
    if name != state.position.tip or (rewritten := find_rewritten(state.wire, known, body)) is None:
        return None
    for place in rewritten:
        known[place] = copy_item(body[place])
    return known


def earlier_views(state: SessionState, body: Sequence[Any]) -> SessionFlow[list[SentView]]:
    """Return the views before each of the last folds, each as far as the list agrees with it."""
    if state.head is None or not state.view.folds:
        return []
    place = state.head.place
    views: list[SentView] = yield StoreCall(
        lambda: [_read_while_equal(state, place, view, body) for view in _read_folded_views(state, place)]
    )
    return views


def read_elsewhere(state: SessionState, body: Sequence[Any]) -> list[SentView]:
    """Read the folded views on the newest branches, each as far as the list agrees with it."""
    views: list[SentView] = []
    ends = sorted((one.ends for one in state.store.branches(state.name)), key=lambda place: -place.seq)
    for end in ends[:MAX_EARLIER_VIEWS]:
        tip = next(state.log.read(state.name, end, newest=True))
        folded = _read_folded_views(state, end, tip.said)
        views += [replace(_read_while_equal(state, end, view, body), tip=tip.name) for view in folded]
    return views


def _read_folded_views(state: SessionState, place: Place, last: int = 0) -> list[View]:
    """Return the folded views that stood before the last folds and unfolds.

    last   messages said at the place, if its own view is wanted, too
    """
    views: dict[tuple[str, ...], View] = {}
    view = View()
    for entry in state.log.read(state.name, place, kinds=_CHANGES):
        view = extend_view(view, entry.said)
        folds = tuple(fold.name for fold in view.standing)
        views.pop(folds, None)
        if folds:
            views[folds] = view
        view = step(view, entry)
        while len(views) > MAX_EARLIER_VIEWS:
            del views[next(iter(views))]
    return [*views.values(), *([extend_view(view, last)] if last and view.standing else [])]


def _read_while_equal(state: SessionState, place: Place, view: View, body: Sequence[Any]) -> SentView:
    """Read a view up to the first message that differs from the list; the items behind it are not read."""
    view_items: list[ViewItem | None] = []
    items: list[Any] = []
    fold_messages = visible_fold_messages(state, place, view)
    for index, piece in enumerate(view.items):
        for single, item in _read_messages(state, place, piece, fold_messages):
            view_items.append(single)
            items.append(item)
            if not _is_at(state.wire, item, body, len(items) - 1):
                if (
                    isinstance(piece, MessageRange)
                    and isinstance(single, MessageRange)
                    and single.last < piece.last
                ):
                    view_items.append(MessageRange(single.last + 1, piece.last))
                return SentView([*view_items, *view.items[index + 1 :]], items, view.said, "")
    return SentView(view_items, items, view.said, "")


def _read_messages(
    state: SessionState, place: Place, piece: ViewItem, fold_messages: dict[str, tuple[Message, ...]]
) -> Iterator[tuple[ViewItem, Any]]:
    """Yield a piece as single messages; the store is read only as far as they are asked for."""
    if isinstance(piece, Replacement):
        shown = show_messages(state, [fold_messages[piece.fold][piece.place]], state.wire.name)
        yield from ((piece, item) for item in state.wire.render(shown))
        return
    for entry in state.log.read(state.name, place, kinds=SAID, first=piece.first, last=piece.last):
        yield MessageRange(entry.said, entry.said), state.from_stored(entry)


def common_length(wire: Format, known: Sequence[Any], body: Sequence[Any]) -> int:
    """Return the number of messages at the start of two lists that are the same, in whatever JSON."""
    count = 0
    while count < len(known) and _is_at(wire, known[count], body, count):
        count += 1
    return count


def find_rewritten(
    wire: Format, known: Sequence[Any], body: Sequence[Any], changed: list[int] | None = None, start: int = 0
) -> list[int] | None:
    """Return the places of messages that came back in other JSON; None if the list begins otherwise.

    changed   the places that differ, if they are known
    start     where the known messages begin in the list
    """
    if len(body) - start < len(known):
        return None
    places = []
    for place in find_changed(known, body, start) if changed is None else changed:
        if not is_same(wire, known[place], body[start + place], place + 1):
            return None
        places.append(place)
    return places


def find_changed(known: Sequence[Any], body: Sequence[Any], start: int = 0) -> Iterator[int]:
    """Yield the places of known messages that stand otherwise in a list, or are not in it.

    start   where the known messages begin in the list
    """
    for first in range(0, len(known), BLOCK):  # most blocks are the same, which one step tells
        old = known[first : first + BLOCK]
        new = body[start + first : start + first + len(old)]
        if old != new:
            end = min(len(old), len(new))
            yield from (first + at for at in range(end) if old[at] is not new[at] and old[at] != new[at])
            yield from range(first + end, first + len(old))


def _is_at(wire: Format, item: Any, body: Sequence[Any], place: int) -> bool:
    return place < len(body) and is_same(wire, item, body[place], place + 1)


def is_same(wire: Format, old: Any, new: Any, number: int) -> bool:
    """True if two wire values are one message: by their normal form, or as the format reads them.

    A field that only one of them has does not tell them apart: clients drop what they do not know.

    number   the place in the list, from 1; a client's environment does not count in the first messages
    """
    if old is new or old == new:
        return True
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return False
    old, new = _without_repeats(old), _without_repeats(new)
    try:
        if write_normal_form(old, number) == write_normal_form(new, number):
            return True
        return wire.parse([old]) == wire.parse([new]) and _agree(old, new)
    except (FormatError, TypeError):  # the list is read as a whole later, and the error is told there
        return False


def _agree(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """True if no field that both have tells them apart; formats do not read all, such as spoken answers.

    Calls that only one of them has do: the format of now does not read those of a list in another one.
    """
    if any(map(old.get, _CALLS)) != any(map(new.get, _CALLS)):
        return False
    fields = (old.keys() & new.keys()) - _WRITTEN_ANEW
    alone = ({name: message[name] for name in fields} for message in (old, new))
    return len({write_normal_form(message, 0) for message in alone}) == 1


def _without_repeats(item: dict[str, Any]) -> dict[str, Any]:
    """Return a message without results that it has a second time: gemini-cli doubles them when it resumes."""
    for key in ("content", "parts"):
        parts = item.get(key)
        if isinstance(parts, list) and len(parts) > 1:
            kept = [part for at, part in enumerate(parts) if not (_is_result(part) and part in parts[:at])]
            item = item if len(kept) == len(parts) else {**item, key: kept}
    return item


def _is_result(part: Any) -> bool:
    return isinstance(part, dict) and (part.get("type") == "tool_result" or not _RESULTS.isdisjoint(part))
