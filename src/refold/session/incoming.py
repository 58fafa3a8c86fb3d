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
from refold.core.log.entries import name_of
from refold.core.log.view import Run
from refold.core.messages.message import Message
from refold.errors import FormatError
from refold.formats import Format
from refold.session.branching import branch
from refold.session.effects import Do, Work
from refold.session.keeper import Keeper, mark, own, say
from refold.session.loading import fill
from refold.session.remembering import common, note, noted
from refold.session.shelf import Shelf

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


def take_in(keeper: Keeper, messages: Sequence[Any]) -> Work[bool]:
    """Store what is new in a caller's list; one that cannot be read is refused before anything is stored.

    Gives whether the list may be sent as it is where nothing is folded: it is no view of another time.
    """
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        raise FormatError(f"expected a list of messages, found {type(messages).__name__}", path="messages")
    given = messages if isinstance(messages, list) else list(messages)
    fixed = _leading(keeper, given)
    wire = _shape(keeper, given, fixed)
    if wire.name != keeper.wire.name:
        yield from fill(keeper, keeper.shelf.items[: keeper.shelf.fixed], wire)
    begins = _goes_on(keeper, given, fixed)
    if begins is not None and (yield from _was_said(keeper, given[fixed + len(begins.items) :])):
        begins = None
    known = 0 if begins is None else len(begins.items)
    new = [own(item) for item in (given if begins is None else given[fixed + known :])]
    read = wire.parse(new) if begins is None else keeper.shelf.read(new)
    if begins is None:
        body = new[fixed:]
        as_said = yield from branch(keeper, body)
        new, read = [], ()
    else:
        body, as_said = begins
    if given[:fixed] == keeper.shelf.items[: keeper.shelf.fixed]:
        yield from say(keeper, new, read)
    else:
        yield from instruct(keeper, own(given[:fixed]), new, read)
    if keeper.held is not given or begins is None or len(keeper.objects) != known:
        keeper.objects, known = [], 0
    keeper.objects += given[fixed + known :]
    keeper.held = given if as_said else ()
    if not as_said:
        note(keeper, [*body, *new])
    return as_said


def _was_said(keeper: Keeper, new: Sequence[Any]) -> Work[bool]:
    """Whether what follows stands behind this place already: somebody went back and comes again."""
    if not new or not keeper.ahead or keeper.head is None:
        return False
    name = name_of(keeper.tip, "said", keeper.stored(new[0]))
    places: dict[str, Place] = yield Do(lambda: keeper.store.find(keeper.name, [name]))
    return bool(places)


def _shape(keeper: Keeper, given: Sequence[Any], fixed: int) -> Format:
    """The session's shape, or another one that the newest messages show."""
    known = fixed + len(keeper.objects)
    same = bool(keeper.objects) and len(given) >= known and given[known - 1] is keeper.objects[-1]
    return shape_of(keeper, given[known:] if same else given)


def shape_of(keeper: Keeper, new: Sequence[Any]) -> Format:
    """The session's shape, or another one that these messages show."""
    if keeper.settings.format is not None:
        return formats.get(keeper.settings.format)
    if not new:
        return keeper.wire
    found = formats.detect(new)
    if keeper.view.said == 0 or found.name == keeper.wire.name:
        return found
    return found if any(found.recognise(item) for item in new) else keeper.wire


def _leading(keeper: Keeper, given: Sequence[Any]) -> int:
    """How many system messages stand in front."""
    fixed = keeper.shelf.fixed
    start = fixed if given[:fixed] == keeper.shelf.items[:fixed] else 0
    while start < len(given) and is_system(keeper.wire, given[start]):
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
    keeper: Keeper, system: list[Any], items: Sequence[Any] = (), read: Sequence[Message] = ()
) -> Work[None]:
    """Other system messages hold from here on, and these are said behind them; one step for the store."""
    value = [keeper.stored(item) for item in system]
    front = mark(keeper, "system", value, {"format": keeper.wire.name})
    parsed = keeper.wire.parse(system)
    yield from say(keeper, items, read, front=[front])
    if keeper.report is not None:
        keeper.report = replace(keeper.report, holds=False)
    old = keeper.shelf
    shelf = Shelf(old.wire, old.counter, fixed=len(system))
    shelf.add([None] * len(system), system, parsed)
    shelf.add(old.atoms[old.fixed :], old.body, old.messages[old.fixed :])
    keeper.shelf = shelf


def _goes_on(keeper: Keeper, given: list[Any], fixed: int) -> _Begins | None:
    """What is known behind the system's messages, where the list goes on from there; None where not."""
    if keeper.view.said == 0:
        return _Begins([], as_said=True)
    seen = keeper.seen
    same = given is keeper.held and fixed == keeper.shelf.fixed and len(given) >= fixed + len(seen or ())
    if seen and same and len(keeper.objects) == len(seen) and _still_held(keeper, seen, given, fixed):
        return _Begins(seen, as_said=True)
    return _continues(keeper, given[fixed:])


def _still_held(keeper: Keeper, seen: Sequence[Any], given: Sequence[Any], fixed: int) -> bool:
    """Whether the caller's own list, longer by now, begins as before.

    Whether the objects are others, and whether one was changed in place, is looked at for the newest in every
    turn and for the rest in turns, so that a turn costs the same however long the history is.
    """
    keeper.turned += 1
    last = len(seen)
    for known, newest, stretch in zip((keeper.objects, seen), NEWEST, TURNED, strict=True):
        turned = keeper.turned % -(-last // stretch) * stretch
        for start, end in ((max(0, last - newest), last), (turned, min(turned + stretch, last))):
            if known[start:end] != given[fixed + start : fixed + end]:
                return False
    return True


def _may_be_another(keeper: Keeper) -> bool:
    """Whether a list that begins with this view may come from an earlier one: folds may put the same words.

    Only one that ends with a fold's own words, and that was not given out here.
    """
    if isinstance(keeper.shelf.atoms[-1], Run) or len(keeper.view.folds) == 1:
        return False
    return tuple(fold.name for fold in keeper.view.standing) not in keeper.handed


def _continues(keeper: Keeper, body: list[Any]) -> _Begins | None:
    """The messages of the list that are there already, where it goes on from them; None where it does not."""
    seen, now, folded = keeper.seen, keeper.shelf.body, bool(keeper.view.standing)
    if seen and body[: len(seen)] == seen:
        return _Begins(seen, as_said=True)
    if now and body[: len(now)] == now:
        return None if _may_be_another(keeper) else _Begins(now, as_said=not folded)
    if folded and now and common(now, body) == len(now):
        fixed = keeper.shelf.fixed  # our view with other marks of what is to be cached: send those
        keeper.shelf.items[fixed:] = [own(item) for item in body[: len(now)]]
        return _Begins(keeper.shelf.body, as_said=False)
    last = noted(keeper, body)
    return None if last is None else _Begins(last, as_said=False)
