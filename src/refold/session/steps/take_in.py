"""What a caller brings: its whole history, or our view and what came since; only what is new is stored.

The caller's list is compared with what was said and with what was sent last. Where it goes on from either,
the rest is new. Where it differs earlier, somebody edited the history: a branch begins there, and folds that
only concern what stands before it go along. System messages in front are no part of the chain, because
programs write the date into them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from refold import formats
from refold.core.log.entries import hash_entry
from refold.core.log.view import MessageRange
from refold.core.messages.message import Message
from refold.errors import FormatError
from refold.formats import Format
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.loaded_view import LoadedView
from refold.session.state.session_state import SessionState, append_messages, copy_item, mark_entry
from refold.session.steps.branch import branch
from refold.session.steps.earlier_views import common_length, find_resumed_view, note_resumed_view
from refold.session.steps.load import fill_view

if TYPE_CHECKING:
    from refold.stores import Place

NEWEST: Final = (1_024, 32)
"""How many of the newest messages of a caller's own list must be the same objects, and the same words,
in every turn."""
TURNED: Final = (2_048, 64)
"""How many of the others are looked at in one turn, one stretch after the other."""


class _Begins(NamedTuple):
    """What a list begins with that is all that was said."""

    items: list[Any]
    as_said: bool
    """Whether it is told word for word, and not in a view."""


def take_in(state: SessionState, messages: Sequence[Any]) -> SessionFlow[bool]:
    """Store what is new in a caller's list; one that cannot be read is refused before anything is stored.

    Gives whether the list may be sent as it is where nothing is folded: it is no view of another time.
    """
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        raise FormatError(f"expected a list of messages, found {type(messages).__name__}", path="messages")
    given = messages if isinstance(messages, list) else list(messages)
    fixed = _leading(state, given)
    wire = _shape(state, given, fixed)
    if wire.name != state.wire.name:
        yield from fill_view(state, state.shelf.items[: state.shelf.fixed], wire)
    begins = _goes_on(state, given, fixed)
    if begins is not None and (yield from _was_said(state, given[fixed + len(begins.items) :])):
        begins = None
    known = 0 if begins is None else len(begins.items)
    new = [copy_item(item) for item in (given if begins is None else given[fixed + known :])]
    read = wire.parse(new) if begins is None else state.shelf.read(new)
    if begins is None:
        body = new[fixed:]
        as_said = yield from branch(state, body)
        new, read = [], ()
    else:
        body, as_said = begins
    if given[:fixed] == state.shelf.items[: state.shelf.fixed]:
        yield from append_messages(state, new, read)
    else:
        yield from instruct(state, copy_item(given[:fixed]), new, read)
    if state.held is not given or begins is None or len(state.objects) != known:
        state.objects, known = [], 0
    state.objects += given[fixed + known :]
    state.held = given if as_said else ()
    if not as_said:
        note_resumed_view(state, [*body, *new])
    return as_said


def _was_said(state: SessionState, new: Sequence[Any]) -> SessionFlow[bool]:
    """Whether what follows stands behind this place already: somebody went back and comes again."""
    if not new or not state.ahead or state.head is None:
        return False
    name = hash_entry(state.tip, "said", state.stored(new[0]))
    places: dict[str, Place] = yield StoreCall(lambda: state.store.find(state.name, [name]))
    return bool(places)


def _shape(state: SessionState, given: Sequence[Any], fixed: int) -> Format:
    """The session's shape, or another one that the newest messages show."""
    known = fixed + len(state.objects)
    same = bool(state.objects) and len(given) >= known and given[known - 1] is state.objects[-1]
    return shape_of(state, given[known:] if same else given)


def shape_of(state: SessionState, new: Sequence[Any]) -> Format:
    """The session's shape, or another one that these messages show."""
    if state.settings.format is not None:
        return formats.get(state.settings.format)
    if not new:
        return state.wire
    found = formats.detect(new)
    if state.view.said == 0 or found.name == state.wire.name:
        return found
    return found if any(found.recognise(item) for item in new) else state.wire


def _leading(state: SessionState, given: Sequence[Any]) -> int:
    """How many system messages stand in front."""
    fixed = state.shelf.fixed
    start = fixed if given[:fixed] == state.shelf.items[:fixed] else 0
    while start < len(given) and is_system(state.wire, given[start]):
        start += 1
    return start


def is_system(wire: Format, item: Any) -> bool:
    """Whether this is a system message of the caller's own, and not a summary that came back."""
    role = item.get("role") if isinstance(item, dict) else getattr(item, "role", None)
    if role not in ("system", "developer"):
        return False
    (message,) = wire.parse([item])
    return message.role == "system" and not message.is_summary


def instruct(
    state: SessionState, system: list[Any], items: Sequence[Any] = (), read: Sequence[Message] = ()
) -> SessionFlow[None]:
    """Other system messages hold from here on, and these are said behind them; one step for the store."""
    value = [state.stored(item) for item in system]
    front = mark_entry(state, "system", value, {"format": state.wire.name})
    parsed = state.wire.parse(system)
    yield from append_messages(state, items, read, front=[front])
    if state.report is not None:
        state.report = replace(state.report, holds=False)
    old = state.shelf
    shelf = LoadedView(old.wire, old.counter, fixed=len(system))
    shelf.add([None] * len(system), system, parsed)
    shelf.add(old.atoms[old.fixed :], old.body, old.messages[old.fixed :])
    state.shelf = shelf


def _goes_on(state: SessionState, given: list[Any], fixed: int) -> _Begins | None:
    """What is known behind the system's messages, where the list goes on from there; None where not."""
    if state.view.said == 0:
        return _Begins([], as_said=True)
    seen = state.seen
    same = given is state.held and fixed == state.shelf.fixed and len(given) >= fixed + len(seen or ())
    if seen and same and len(state.objects) == len(seen) and _still_held(state, seen, given, fixed):
        return _Begins(seen, as_said=True)
    return _continues(state, given[fixed:])


def _still_held(state: SessionState, seen: Sequence[Any], given: Sequence[Any], fixed: int) -> bool:
    """Whether the caller's own list, longer by now, begins as before.

    Whether the objects are others, and whether one was changed in place, is looked at for the newest in every
    turn and for the rest in turns, so that a turn costs the same however long the history is.
    """
    state.turned += 1
    last = len(seen)
    for known, newest, stretch in zip((state.objects, seen), NEWEST, TURNED, strict=True):
        turned = state.turned % -(-last // stretch) * stretch
        for start, end in ((max(0, last - newest), last), (turned, min(turned + stretch, last))):
            if known[start:end] != given[fixed + start : fixed + end]:
                return False
    return True


def _may_be_another(state: SessionState) -> bool:
    """Whether a list that begins with this view may come from an earlier one: folds may put the same words.

    Only one that ends with a fold's own words, and that was not given out here.
    """
    if isinstance(state.shelf.atoms[-1], MessageRange) or len(state.view.folds) == 1:
        return False
    return tuple(fold.name for fold in state.view.standing) not in state.handed


def _continues(state: SessionState, body: list[Any]) -> _Begins | None:
    """The messages of the list that are there already, where it goes on from them; None where it does not."""
    seen, now, folded = state.seen, state.shelf.body, bool(state.view.standing)
    if seen and body[: len(seen)] == seen:
        return _Begins(seen, as_said=True)
    if now and body[: len(now)] == now:
        return None if _may_be_another(state) else _Begins(now, as_said=not folded)
    if folded and now and common_length(now, body) == len(now):
        fixed = state.shelf.fixed  # our view with other marks of what is to be cached: send those
        state.shelf.items[fixed:] = [copy_item(item) for item in body[: len(now)]]
        return _Begins(state.shelf.body, as_said=False)
    last = find_resumed_view(state, body)
    return None if last is None else _Begins(last, as_said=False)
