"""Continue where the caller's list differs from what was said: on a new branch, or on one that is stored.

Folds, pins and checkpoints that only concern messages before that place are carried along.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from refold import formats
from refold.core.log.entries import AS_WRITTEN, ROOT, SAID, hash_entry
from refold.core.log.view import MessageRange, Replacement, View, ViewItem
from refold.core.messages.message import Message
from refold.errors import StoreError
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.caller_history import SentView, view_to_send
from refold.session.state.session_state import SessionState
from refold.session.steps.append import Draft, commit, message_entries
from refold.session.steps.branches.carried_marks import carry_marks, carry_spending, show_last_request
from refold.session.steps.branches.stored_places import (
    StoredPlace,
    find_end_behind,
    find_last_place,
    follow_names,
)
from refold.session.steps.earlier_views import common_length, earlier_views, is_same, read_elsewhere
from refold.session.steps.fill_view import fill_view
from refold.session.steps.load import load_at_head, read_attempts
from refold.stores import START, Place


class _Fork(NamedTuple):
    """The place where the caller's list first differs from the known messages."""

    said: int
    """Number of messages said that the list shares."""
    rest: Sequence[Any]
    shared: Sequence[Any] | None
    """The shared messages, as far as they are in memory."""
    is_view: bool = False
    """True if the list shares them as a view that was sent, and not as they were said."""
    continues_sent: bool = False
    """True if the list shares all of a view that was sent earlier."""
    hidden: Sequence[MessageRange] = ()
    """The messages behind a fold's words, if the list leaves a view right after those words."""
    base: StoredPlace | None = None
    """The place of the last of the shared messages if they are on another branch."""


def branch(state: SessionState, body: list[Any]) -> SessionFlow[bool]:
    """Continue from where the list differs from the known messages, on a new branch or on a stored one.

    Returns True if the list has all messages as they were said, and is not a view of them.
    """
    fork = yield from _choose_fork(state, body)
    said, rest, shared = fork.said, fork.rest, fork.shared
    said_items = None if shared is None else [*shared, *rest]
    base = fork.base or (yield from find_last_place(state, said, state.head.place if state.head else START))
    stored, base = yield from _follow_stored(state, rest, said, base)
    if as_stored := (yield from _read_as_stored(state, rest[stored:], said + stored)):
        more, base = yield from _follow_stored(state, as_stored, said + stored, base)
        stored += more
    on_this_branch = True
    if stored or fork.base is not None:
        base, on_this_branch = yield from _last_place_of(state, said + stored, base)
    draft = Draft(base.place, base.name, View(said=said + stored), state.now())
    if on_this_branch:
        draft = yield from carry_marks(state, draft)
    if draft.marks:
        yield from show_last_request(state, said_items, rest[stored:], draft)
    has_new = stored < len(rest) or bool(draft.marks)
    trail = None if has_new else state.position.find_trail(base.place, base.name, base.tip)
    if has_new or state.head is None or base.place != state.head.place:
        view, tip = state.view, state.position.tip
        state.position.leave_for(said + stored, base.tip)
        try:
            entries = message_entries(state, rest[stored:], state.wire.parse(rest[stored:]))
            marks = draft.marks[::-1]
            yield from carry_spending(state, draft, lambda: [*marks, *read_attempts(state, base.place)])
            yield from commit(state, [*draft.marks, *entries], at=base.place)
        except StoreError:
            state.position.return_to(view, tip)
            raise
        wire = state.wire
        yield from load_at_head(state)
        state.position.note_trail(trail and replace(trail, view=state.view))
        if state.wire.name != wire.name and (
            formats.detect_or_none(body) or not formats.may_read(state.wire, body)
        ):
            yield from fill_view(state, state.loaded.system, wire)  # the list is in the format of now
    if said_items is not None:
        state.loaded.update_items(dict(enumerate(said_items, 1)))
    state.caller.hold_said(said_items)
    return not fork.is_view


def _choose_fork(state: SessionState, body: list[Any]) -> SessionFlow[_Fork]:
    """Return how far the list agrees with what was said, or with a view if it agrees with that for longer."""
    sent = yield from _sent_on_this_branch(state)
    fork = _find_fork(state, body, sent)
    if not fork.continues_sent:
        fork = _find_fork(state, body, [*sent, *(yield from earlier_views(state, body))])
    if elsewhere := (yield from _find_elsewhere(state, body, len(body) - len(fork.rest))):
        return elsewhere
    if (yield from _repeats_hidden(state, fork)):
        return _find_direct_fork(state, body)
    if fork.is_view and state.caller.said_items is None:
        # Equal messages stand for each other: a view that leaves one out may begin as the whole history does.
        direct = _find_direct_fork(state, body)
        stored = yield from _read_as_stored(state, direct.rest, direct.said)
        if direct.said + len(stored) >= len(body) - len(fork.rest):
            return direct
    return fork


def _sent_on_this_branch(state: SessionState) -> SessionFlow[list[SentView]]:
    """Return the views that were sent on the way to this place; a caller may continue any of them."""
    if state.head is None:
        return []
    place = state.head.place
    views: list[SentView] = yield StoreCall(
        lambda: [
            view
            for view in state.caller.sent_views.values()
            if any(
                entry.name == view.tip
                for entry in state.log.read(state.name, place, kinds=SAID, first=view.said, last=view.said)
            )
        ]
    )
    return views


def _find_elsewhere(state: SessionState, body: Sequence[Any], matched: int) -> SessionFlow[_Fork | None]:
    """Return how far the list agrees with a view that was sent on another branch, such as before a rewind.

    matched   messages with which it agrees on this one; None is returned if no other view has more
    """
    if state.head is None or state.log.failure is not None:
        return None
    found: SentView | None = None
    last, views = 0, list(state.caller.sent_views.values())
    # A summary is nobody's words: the list may continue a view that another process has sent.
    if any(message.is_summary for message in state.wire.parse(body[matched:])):
        views += yield StoreCall(lambda: read_elsewhere(state, body))
    for view in views:
        count = common_length(state.wire, view.items, body)
        ranges = [item if isinstance(item, MessageRange) else None for item in view.view_items[:count]]
        complete = count == len(view.items)
        # Where a summary ends is only known where the whole view is shared.
        while ranges and not (complete or ranges[-1]):
            ranges.pop()
        if len(ranges) > matched and None in ranges:
            matched, found = len(ranges), view
            last = view.said if complete or ranges[-1] is None else ranges[-1].last
    if found is None:
        return None
    places: dict[str, Place] = yield StoreCall(partial(state.log.find, state.name, [found.tip]))
    if found.tip not in places:
        return None
    base = yield from find_last_place(state, last, places[found.tip])
    return _Fork(last, body[matched:], None, is_view=True, base=base)


def _find_direct_fork(state: SessionState, body: Sequence[Any]) -> _Fork:
    """Return how far the list agrees with the messages as they were said."""
    known = state.caller.said_items
    if known is None:  # then those that the view shows from the first message on
        view_items, count = state.loaded.view_items[state.loaded.fixed :], 0
        while count < len(view_items) and view_items[count] == MessageRange(count + 1, count + 1):
            count += 1
        known = state.loaded.body[:count]
    matched = common_length(state.wire, known, body)
    return _Fork(matched, body[matched:], body[:matched])


def _find_fork(state: SessionState, body: Sequence[Any], sent: Sequence[SentView]) -> _Fork:
    """Return how far the list agrees with the messages as they were said, or with a view that was sent."""
    fork = _find_direct_fork(state, body)
    matched, said_items = fork.said, state.caller.said_items
    current = view_to_send(state.position, state.loaded)
    for view in (current, *sent):
        count = common_length(state.wire, view.items, body)
        complete = count == len(view.items)
        while count and not complete and _stands_early(state, view.view_items[:count]):
            count -= 1
        ranges = _originals(state, view.view_items[:count])
        if count > matched and ranges:
            # It also stands for the messages that the view hides before the next one that it shows.
            rest = [each.first for each in _originals(state, view.view_items[count:])]
            hidden = view.said if complete else min(rest, default=1) - 1
            said = max(hidden, *(shared.last for shared in ranges))
            matched = count + _count_kept(state, view.view_items[count:], said, body[count:])
            last = view.view_items[count - 1]
            fork = _Fork(
                said,
                body[matched:],
                None if said_items is None or state.position.edited else said_items[:said],
                is_view=True,
                continues_sent=complete and view is not current,
                hidden=state.view.originals(last) if isinstance(last, Replacement) and not complete else (),
            )
    return fork


def _stands_early(state: SessionState, items: Sequence[ViewItem | None]) -> bool:
    """True if the last of these is a message that a mend has put before others, which a list may not share.

    Where the list branches off nothing is mended, and the caller's own one goes on in its place.
    """
    item, last = items[-1], max((each.last for each in _originals(state, items)), default=0)
    if not isinstance(item, Replacement) or state.view.originals(item):  # most stand for what was said
        return False
    taken = (c.gone() for fold in state.view.folds if fold.name == item.fold for c in fold.changes)
    return any(isinstance(gone, MessageRange) and gone.first > last for gone in chain.from_iterable(taken))


def _originals(state: SessionState, items: Sequence[ViewItem | None]) -> list[MessageRange]:
    return [original for item in items if item for original in state.view.originals(item)]


def _count_kept(state: SessionState, items: Sequence[ViewItem | None], said: int, rest: Sequence[Any]) -> int:
    """Return how many of the next messages stand beside a summary that covers the messages around them.

    items   what follows in that view; hidden messages are beside nothing, and may well be said again
    """
    numbers = {
        number
        for original in _originals(state, items)
        for number in range(original.first, min(original.last, said) + 1)
    }
    loaded, said_items = state.loaded, state.caller.said_items
    shown = {
        single.first: item
        for single, item in zip(loaded.view_items, loaded.items, strict=True)
        if isinstance(single, MessageRange)
    }
    count = 0
    for number in sorted(numbers):
        item = shown.get(number) if said_items is None else said_items[number - 1]
        if count < len(rest) and item is not None and common_length(state.wire, [item], [rest[count]]):
            count += 1
    return count


def _repeats_hidden(state: SessionState, fork: _Fork) -> SessionFlow[bool]:
    """True if the rest of the list repeats messages that the fold right before it hides.

    Folds may insert the same words, such as a notice. Then the list continues another view, and storing the
    rest would store these messages twice.
    """
    if not fork.hidden or not fork.rest or state.head is None:
        return False
    place = state.head.place
    rest = {hash_entry(ROOT, "said", state.to_stored(item)) for item in fork.rest}
    repeats: bool = yield StoreCall(
        lambda: any(
            hash_entry(ROOT, "said", entry.value) in rest
            for hidden in fork.hidden
            for entry in state.log.read(state.name, place, kinds=SAID, first=hidden.first, last=hidden.last)
        )
    )
    return repeats


def _follow_stored(
    state: SessionState, rest: Sequence[Any], said: int, base: StoredPlace
) -> SessionFlow[tuple[int, StoredPlace]]:
    """Return how many of these messages are stored behind that place on some branch, and the last of them."""
    count, last = yield from follow_names(state, rest, said, base, "")
    if not count and base.tip == ROOT:  # a log that began before messages were named by their normal form
        count, last = yield from follow_names(state, rest, said, base, AS_WRITTEN)
    return count, last


def _read_as_stored(state: SessionState, rest: Sequence[Any], said: int) -> SessionFlow[list[Any]]:
    """Return the next messages as this branch has them, as far as the list has the same in other JSON.

    Names tell most of that. This is for the rest: messages that only the format reads alike.
    """
    if not rest or state.head is None or said >= state.view.said:
        return []
    place = state.head.place

    def read() -> list[Any]:
        found: list[Any] = []
        for entry in state.log.read(
            state.name, place, kinds=SAID, first=said + 1, last=min(state.view.said, said + len(rest))
        ):
            stored, given = state.from_stored(entry), rest[len(found)]
            given = given if state.redact_stored is None else state.redact_stored(given)
            if not is_same(state.wire, stored, given, entry.said):
                break
            # Its name is that of the format in which it came.
            found.append(stored if isinstance(stored, Message) else entry.value)
        return found

    as_stored: list[Any] = yield StoreCall(read)
    return as_stored


def _last_place_of(
    state: SessionState, said: int, base: StoredPlace
) -> SessionFlow[tuple[StoredPlace, bool]]:
    """Return the last place where a stored message was the newest, and whether it is on this branch.

    If this session did not leave that branch itself, another process may have folded behind the message.
    """
    end = START if state.head is None else state.head.place
    on_this_branch: bool = yield StoreCall(
        lambda: any(
            entry.name == base.name
            for entry in state.log.read(state.name, end, kinds=SAID, first=said, last=said)
        )
    )
    if not on_this_branch:
        if (left := state.position.left_branches.get(base.tip)) is not None:
            return StoredPlace(left.head.place, left.head.name, base.tip), False
        end = yield StoreCall(lambda: find_end_behind(state, base, said))
    return (yield from find_last_place(state, said, end)), on_this_branch
