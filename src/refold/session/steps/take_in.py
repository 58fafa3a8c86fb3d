"""Take in the caller's list: all of its history, or a view of ours and later messages. Store the new ones.

The list is compared with what was said and with what was sent last. If it continues either, the rest is new.
If it differs earlier, somebody edited the history: a branch begins there, and folds that only concern earlier
messages are carried along. Leading system messages are no part of the chain, because programs write the date
into them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from refold import formats
from refold.core.log.entries import ROOT, hash_entry, make_message_entry
from refold.core.log.view import MessageRange, Replacement, ViewItem
from refold.core.messages.message import Message
from refold.core.messages.plain_values import has_objects, read_each, to_plain_messages
from refold.errors import FormatError
from refold.formats import Format
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.caller_history import SHORT, SentView, copy_item, view_to_send
from refold.session.state.loaded_view import without_private
from refold.session.state.session_state import SessionState
from refold.session.steps.append import append_messages, mark_entry
from refold.session.steps.branches.branch import branch
from refold.session.steps.branches.walk import walk_on
from refold.session.steps.earlier_views import (
    earlier_views,
    find_changed,
    find_resumed_items,
    find_rewritten,
    is_same,
)
from refold.session.steps.fill_view import fill_view
from refold.session.steps.native.fold_blocks import adopt_list, show_known
from refold.session.steps.other_head import find_said_head, show_head, show_orders

if TYPE_CHECKING:
    from refold.stores import Place

NEWEST: Final = 32
"""Newest messages of the caller's own list that are compared by content in every turn: programs that edit in
place mostly edit recent messages. That reads every word; whether the objects are the same is looked at for
all of them."""
STRETCH: Final = 64
"""Older messages that are compared by content in one turn, one stretch after the other. An edit in place
among them is noticed some turns later."""

_Orders: TypeAlias = list[tuple[ViewItem | None, Any]]
"""Orders that a view begins with: where they stand, and as they are known."""


class _Comparison(NamedTuple):
    """How a list differs from the messages that were said, or from the view if the last list was one."""

    known: list[Any]
    """Those messages."""
    places: list[int]
    """Messages that stand otherwise in it, from 0."""
    same_objects: bool = False
    """True if it holds the caller's own objects as they came last."""
    is_of_view: bool = False
    """True if those messages are a view."""


class _Known(NamedTuple):
    """The first messages of a list, if they stand for everything that was said."""

    items: list[Any]
    as_said: bool
    """True if they are the messages as they were said, and not a view of them."""


def take_in(state: SessionState, messages: Sequence[Any]) -> SessionFlow[bool]:
    """Store what is new in the caller's list; an unreadable list is refused before anything is stored.

    Returns True if the list has the messages as they were said, so that it may be sent as it is.
    """
    if isinstance(messages, (str, bytes)) or not isinstance(messages, (list, Sequence)):
        raise FormatError(f"expected a list of messages, found {type(messages).__name__}", path="messages")
    messages = messages if isinstance(messages, list) else list(messages)
    wire, before = None, state.loaded.reader.wire
    try:
        compared = _compare(state, messages)
        if _has_new_objects(state, messages, compared):
            messages = state.caller.to_plain_list(messages, NEWEST)
            compared = _compare(state, messages)
        fixed, orders = yield from _find_front(state, messages, compared)
        wire = _detect_list(state, _find_new(state, messages, fixed, compared))
        if wire.name != before.name:
            yield from fill_view(state, state.loaded.system, wire)
        return (yield from _take_in_orders(state, messages, fixed, orders, compared))
    except (FormatError, RecursionError) as error:
        plain = to_plain_messages(messages)  # these name the place in the caller's list
        if wire is None:
            detect_format(state, plain).parse(plain)
        elif wire.name != before.name:
            state.position.mark_stale()  # the conversation goes on in the format that it had
        name_fault(state, plain, error)
        raise


def name_fault(state: SessionState, messages: Sequence[Any], error: Exception) -> None:
    """Raise `FormatError` for the first message that cannot be stored, unless an error names its place."""
    facts: dict[str, Any] = {"parent": ROOT, "said": 1, "text": "", "about": None, "at": 0.0, "name": ""}
    if not str(error).startswith("messages"):
        read_each(messages, lambda item: make_message_entry(state.to_stored(item), **facts))


def _take_in_orders(
    state: SessionState, messages: list[Any], fixed: int, orders: _Orders, compared: _Comparison | None
) -> SessionFlow[bool]:
    """Store what is new in a list whose leading orders may be edited ones of a view."""
    if not orders:
        return (yield from _take_in_known(state, messages, fixed, compared))
    given = copy_item(messages[fixed : fixed + len(orders)])
    known = [*messages[:fixed], *(item for _, item in orders), *messages[fixed + len(orders) :]]
    as_said = yield from _take_in_known(state, known, fixed, None)
    pairs = zip(orders, given, strict=True)
    yield from show_orders(
        state, {order.first: new for (order, _), new in pairs if isinstance(order, MessageRange)}
    )
    return as_said


def _take_in_known(
    state: SessionState, messages: list[Any], fixed: int, compared: _Comparison | None
) -> SessionFlow[bool]:
    """Store what is new in a list behind so many system messages, in which orders stand as they are known."""
    shown = show_known(state, messages) if state.position.blocks else messages
    known = None if shown is messages else _find_known(state, shown, fixed, None)
    messages = messages if known is None else shown
    known = known or _find_known(state, messages, fixed, compared)
    walked = False
    if known is not None and (
        yield from _is_stored(state, messages[fixed + len(known.items) :], len(known.items))
    ):
        before = _Known(known.items[:], known.as_said)  # what is known grows by the messages walked along
        walked = known.as_said and (yield from _walk_on(state, messages, fixed, len(before.items)))
        known = before if walked else None
    if known is None:
        compared = None  # with another view than that of the place where the list goes on
        if (yield from _adopt(state, messages, fixed)):
            known = _find_known(state, messages, fixed, None)
    known_count = 0 if known is None else len(known.items)
    body, as_said = known or (yield from _branch_off(state, messages, fixed))
    first_new = len(messages) if known is None or walked else fixed + known_count
    new, parsed, names = _read_new(state, messages, first_new)
    if fixed == state.loaded.fixed and messages[:fixed] == state.loaded.items[:fixed]:
        yield from append_messages(state, new, parsed, names=names)
    else:
        yield from replace_system(state, copy_item(messages[:fixed]), new, parsed)
    same = compared is not None and compared.same_objects
    state.caller.hold_list(messages, fixed, known_count, as_said=as_said, same=same)
    if not as_said:
        is_whole = compared is not None and compared.is_of_view and not compared.places
        state.caller.hold_view(messages, state.loaded, state.view.said, is_whole=is_whole)
        body += new  # a list of its own, as it is none of what was said
        state.caller.hold_resumed(body, state.position)
    elif edited := state.position.edited:  # what was edited in a view may be again what it was
        places = {number: fixed + number - 1 for number in edited if fixed + number <= len(messages)}
        changed = {
            number: copy_item(messages[at])
            for number, at in places.items()
            if not is_same(state.wire, state.from_stored(edited[number]), messages[at], number)
        }
        yield from show_orders(state, changed)
    return as_said


def _read_new(
    state: SessionState, messages: list[Any], first: int
) -> tuple[list[Any], Sequence[Message], Sequence[str]]:
    """Return new messages, as they are kept and as they were read, and their names if those are known."""
    new, wire = messages[first:], state.loaded.reader.wire
    read = state.request.find_read(new) if state.request.read else ()
    if read and not state.loaded.is_positional(one.message for one in read):
        names = [one.name for one in read] if read[0].parent == state.position.tip else ()
        return new, [one.message for one in read], names
    new = copy_item(new)
    formats.refuse_other(wire, new, first)
    try:
        return new, state.loaded.read(new) if new else (), ()
    except FormatError:
        wire.parse(messages)  # names the place in the caller's list
        raise


def _walk_on(state: SessionState, messages: list[Any], fixed: int, known: int) -> SessionFlow[bool]:
    """Take in new messages that a stored branch has next; False if all of the list has to be read for it."""
    if messages[:fixed] != state.loaded.system:
        return False
    new, parsed, _ = _read_new(state, messages, fixed + known)
    return (yield from walk_on(state, new, parsed))


def _adopt(state: SessionState, messages: list[Any], fixed: int) -> SessionFlow[bool]:
    """Take over what a provider made of the known messages; False if the list is none of it."""
    if (wire := _detect_list(state, messages)).name != state.wire.name:  # though its last words are known
        yield from fill_view(state, state.loaded.system, wire)
    formats.refuse_other(state.wire, messages)
    return (yield from adopt_list(state, copy_item(messages[fixed:])))


def _branch_off(state: SessionState, messages: Sequence[Any], fixed: int) -> SessionFlow[_Known]:
    """Go on from where the list differs from what is known, also in the first messages alone."""
    copies = [copy_item(item) for item in messages]
    state.wire.parse(copies)  # raises FormatError before anything is stored
    body = copies[fixed:]
    head = yield from find_said_head(state, body)
    as_said = yield from branch(state, [*head, *body[len(head) :]])
    if head:
        yield from show_head(state, head, body[: len(head)])
    return _Known(body, as_said=as_said)


def _compare(state: SessionState, messages: list[Any]) -> _Comparison | None:
    """Compare a list with what it continues; None if it is shorter, or has other system messages in front."""
    caller, fixed = state.caller, state.loaded.fixed
    known = state.loaded.body if caller.handed_view else caller.said_items
    if not known or len(messages) < fixed + len(known) or messages[:fixed] != state.loaded.items[:fixed]:
        return None
    objects, count = caller.caller_objects, len(known)
    is_own = messages is caller.caller_list or messages is caller.sent_list
    if (
        (is_own or (count > SHORT and caller.caller_list))
        and len(objects) == count
        and objects[-1] is messages[fixed + count - 1]
        and _holds(messages, objects, fixed)
        and _is_unchanged(state, known, messages, fixed)
    ):
        return _Comparison(known, [], same_objects=True, is_of_view=bool(caller.handed_view))
    return _Comparison(known, [*find_changed(known, messages, fixed)], is_of_view=bool(caller.handed_view))


def _find_new(
    state: SessionState, messages: list[Any], fixed: int, compared: _Comparison | None
) -> Sequence[Any]:
    """Return the messages behind those of the last list if this one continues it; else all of them.

    A list that continues the last one is in its format, so that only its new messages are looked at.
    """
    known = state.caller.caller_objects
    if compared is not None and fixed == state.loaded.fixed:
        known = compared.known
    end = fixed + len(known)
    last = messages[end - 1] if 0 < len(known) <= len(messages) - fixed else None
    if last is not None and last == known[-1]:
        return messages[end:]
    if last is None or not is_same(state.wire, known[-1], last, 0):
        return messages
    try:
        state.wire.parse([last])
    except FormatError:  # the same words in another format
        return messages
    return messages[end:]


def _has_new_objects(state: SessionState, messages: list[Any], compared: _Comparison | None) -> bool:
    """True if the list holds objects of an SDK; messages that are known word for word are not looked at."""
    fixed = state.loaded.fixed
    if state.request.read:
        return False
    if compared is not None:
        changed = [messages[fixed + at] for at in compared.places] if compared.places else []
        return has_objects(changed + messages[fixed + len(compared.known) :])
    known = [*state.loaded.system, *(state.caller.said_items or state.loaded.body)]
    new = (messages[at] for at in find_changed(known[: len(messages)], messages))
    return any(map(has_objects, new)) or any(map(has_objects, messages[len(known) :]))


def _find_front(
    state: SessionState, messages: Sequence[Any], compared: _Comparison | None
) -> SessionFlow[tuple[int, _Orders]]:
    """Return how many system messages stand in front, without those that a view begins with.

    A fold may take all that stood before a system message that came in the middle. If the caller has edited
    such orders before the summary of a fold, which nobody else writes, they come back as they are known.
    """
    wire, caller, fixed = state.loaded.reader.wire, state.caller, state.loaded.fixed
    first = fixed if compared is not None or messages[:fixed] == state.loaded.system else 0
    count = _count_leading(wire, messages, first)
    if count == first:
        return count, []
    current = view_to_send(state.position, state.loaded)
    views = [current, *caller.sent_views.values(), *filter(None, [caller.resumed_view])]
    found = _find_in_views(wire, views, messages, first, count)
    if found is None and count > fixed:  # a view that another process has sent may begin with them
        views = yield from earlier_views(state, messages[first:])
        found = _find_in_views(wire, views, messages, first, count)
    return found or (count, [])


def _find_in_views(
    wire: Format, views: Sequence[SentView], messages: Sequence[Any], first: int, count: int
) -> tuple[int, _Orders] | None:
    """Return where the first view that the list continues begins in it, and its orders if they are edited."""
    for view in views:
        own = _count_leading(wire, view.items)
        if not own or (start := count - own) < first:
            continue
        if find_rewritten(wire, view.items[: own + 1], messages, start=start) is not None:
            return start, []
        if view.view_items and _puts_behind(wire, view, own, messages[count:]):  # a resumed view has none
            return start, list(zip(view.view_items[:own], view.items[:own], strict=True))
    return None


def _puts_behind(wire: Format, view: SentView, place: int, rest: Sequence[Any]) -> bool:
    """True if messages begin with the summary that a fold has put at this place of a view."""
    if place >= len(view.items) or not isinstance(view.view_items[place], Replacement) or not rest:
        return False
    return wire.parse([view.items[place]])[0].is_summary and is_same(wire, view.items[place], rest[0], 0)


def _count_leading(wire: Format, messages: Sequence[Any], first: int = 0) -> int:
    at, end = first, len(messages)
    while at < end and is_system(wire, messages[at]):
        at += 1
    return at


def is_system(wire: Format, item: Any) -> bool:
    """True for a system message of the caller's own; a summary that comes back is none."""
    if isinstance(item, Message):  # which has no format yet where it comes first
        return item.role == "system" and not item.is_summary
    role = item.get("role") if isinstance(item, dict) else getattr(item, "role", None)
    if role not in ("system", "developer"):
        return False
    reader = wire if formats.may_read(wire, [item]) else formats.detect([item])  # of a list in another format
    (message,) = reader.parse([item])
    return message.role == "system" and not message.is_summary


def _detect_list(state: SessionState, messages: Sequence[Any]) -> Format:
    """Return the format of a list; plain messages have no mark, and not every format reads them."""
    wire = state.loaded.reader.wire
    if wire.name == state.settings.format:
        return wire
    wire = detect_format(state, messages)
    is_read = wire.name == state.settings.format or formats.may_read(wire, messages)
    return wire if is_read else formats.detect(messages, state.settings.model)


def detect_format(state: SessionState, new: Sequence[Any]) -> Format:
    """Return the session's format, or another one if new messages are clearly in it."""
    if state.settings.format is not None:
        return formats.get(state.settings.format)
    if state.view.said or not new:
        return formats.detect_or_none(new) or state.wire
    return formats.detect([*state.loaded.system, *new], state.settings.model, state.request.tools)


def replace_system(
    state: SessionState, system: list[Any], items: Sequence[Any] = (), messages: Sequence[Message] = ()
) -> SessionFlow[None]:
    """Put other system messages in front and append messages, in one write to the store."""
    value = [state.to_stored(item) for item in system]
    mark = mark_entry(state, "system", value, {"format": state.wire.name})
    parsed = state.wire.parse(system)
    if state.view.said == 0:  # what is brought along was made behind the system messages that come with it
        state.caller.thinking.note_sent(state.loaded.with_system(system, parsed).bound.prefix)
    yield from append_messages(state, items, messages, marks=[mark])
    state.accounting.invalidate_report()
    state.loaded = state.loaded.with_system(system, parsed)


def _is_stored(state: SessionState, new: Sequence[Any], known: int) -> SessionFlow[bool]:
    """True if what follows is stored behind this place or was put there by a fold: the caller went back."""
    position = state.position
    if not new or not position.may_have_successors or position.head is None:
        return False
    for view in state.caller.sent_views.values():
        put = [isinstance(item, Replacement) for item in view.view_items[known : known + 1]]
        if put == [True] and is_same(state.wire, view.items[known], new[0], known + 1):
            return True
    name = hash_entry(position.tip, "said", state.to_stored(new[0]), state.view.said + 1)
    places: dict[str, Place] = yield StoreCall(lambda: state.log.find(state.name, [name]))
    return bool(places)


def _find_known(
    state: SessionState, messages: list[Any], fixed: int, compared: _Comparison | None
) -> _Known | None:
    """Return the known messages behind the system messages; None if the list does not continue them.

    compared   how the list differs from what was said or from the view, if that is known
    """
    loaded, caller, said = state.loaded, state.caller, state.caller.said_items
    if state.position.view.said == 0:
        return _Known([], as_said=True)
    compared = compared if fixed == loaded.fixed else None
    changed = None if compared is None else compared.places
    in_said, in_view = (None, changed) if compared and compared.is_of_view else (changed, None)
    if said and in_said == []:
        return _Known(said, as_said=True)
    if said and (rewritten := find_rewritten(state.wire, said, messages, in_said, fixed)) is not None:
        for place in rewritten:  # they came back in other JSON; the log keeps the first form
            said[place] = copy_item(messages[fixed + place])
        loaded.update_items({place + 1: said[place] for place in rewritten})
        return _Known(said, as_said=True)
    sent = loaded.body if compared is None or in_view is None else compared.known
    if sent and (rewritten := find_rewritten(state.wire, sent, messages, in_view, fixed)) is not None:
        # Folds may insert the same words, so a list that begins with this view may continue an earlier one:
        # if it ends with a fold's own words, and this view was not sent from here.
        folds = tuple(fold.name for fold in state.view.standing)
        ends_with_fold = not isinstance(loaded.view_items[-1], MessageRange) and len(state.view.folds) != 1
        if ends_with_fold and folds not in caller.sent_views:
            return None
        folded = bool(state.view.standing)
        # Send what the caller has now, such as other cache marks. A view in which thinking was left out may
        # be continued behind a system prompt that it is bound to: then it is shown again.
        loaded.put_items(
            {
                loaded.fixed + place: copy_item(without_private(messages[fixed + place]))
                for place in rewritten
                if not (folded and loaded.changes_bound(loaded.fixed + place, messages[fixed + place]))
                and not loaded.is_mended(loaded.fixed + place, messages[fixed + place])
            }
        )
        return _Known(loaded.body if rewritten else sent, as_said=not folded)
    resumed = find_resumed_items(state, messages[fixed:])
    return None if resumed is None else _Known(resumed, as_said=False)


def _holds(messages: list[Any], objects: list[Any], fixed: int) -> bool:
    """True if a list has these objects behind its system messages, or others that are equal.

    They get the rest of the list around them for a moment: two whole lists are compared by their places in
    memory, while a part of one is a copy, which touches every object and takes twenty times as long.
    """
    end = fixed + len(objects)
    objects[:0] = messages[:fixed]
    objects += messages[end:]
    try:
        return objects == messages
    finally:
        del objects[end:], objects[:fixed]


def _is_unchanged(state: SessionState, said: Sequence[Any], messages: Sequence[Any], fixed: int) -> bool:
    """True if the caller's own list, which has grown, says the same as before.

    The newest messages are compared in every turn, the older ones part by part, so that a turn costs the
    same however long the history is.
    """
    first = max(0, len(said) - NEWEST)
    start, end = state.caller.next_stretch("said", STRETCH, first)
    is_same_end = said[first:] == messages[fixed + first : fixed + len(said)]
    return is_same_end and said[start:end] == messages[fixed + start : fixed + end]
