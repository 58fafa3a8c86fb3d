"""Continue where the caller's list differs from what was said: on a new branch, or on one that is stored.

Folds, pins and checkpoints that only concern messages before that place are carried along.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from refold import formats
from refold.core.log.entries import AS_WRITTEN, ROOT, SAID, Entry, Kind, hash_entry, make_entry
from refold.core.log.folds import FoldDraft, name_as_own
from refold.core.log.rebase import find_last_summarised, rebase_summaries
from refold.core.log.remade_folds import carry_value
from refold.core.log.view import (
    MessageRange,
    Replacement,
    ViewItem,
    changes_to_json,
    extend_view,
    project_marks,
    rename_folds,
)
from refold.core.messages.message import Message
from refold.errors import StoreError
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.caller_history import SentView, view_to_send
from refold.session.state.position import Trail
from refold.session.state.session_state import SessionState
from refold.session.steps.append import commit, message_entries
from refold.session.steps.earlier_views import common_length, earlier_views, is_same
from refold.session.steps.load import (
    VIEW_MARKS,
    can_grow,
    drop_messages,
    fill_view,
    grow_view,
    load_at_head,
    read_attempts,
    read_last_report,
    spending_at,
)
from refold.session.steps.read_entries import fold_messages
from refold.stores import START, Place

if TYPE_CHECKING:
    from refold.session.state.accounting import SpendingTotals

PAGE: Final = 500
"""Names that are looked up in the store at once: few calls, and no statement over SQLite's 999 parameters."""


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


@dataclass(frozen=True, slots=True)
class _Base:
    """A place to continue from: the entry that stands there, and the last message before it."""

    place: Place
    name: str
    tip: str


class _Step(NamedTuple):
    """The way from one turn to the next along a stored branch."""

    base: _Base
    trail: Trail
    """Where the stored branch is left next."""
    newest: list[Entry]
    """What stands between, newest first."""
    own: int
    """How many of these stand behind the stored branch, on one that this session has left."""


def branch(state: SessionState, body: list[Any]) -> SessionFlow[bool]:
    """Continue from where the list differs from the known messages, on a new branch or on a stored one.

    Returns True if the list has all messages as they were said, and is not a view of them.
    """
    fork = yield from _choose_fork(state, body)
    said, rest, shared = fork.said, fork.rest, fork.shared
    said_items = None if shared is None else [*shared, *rest]
    base = yield from _last_place(state, said, START if state.head is None else state.head.place)
    stored, base = yield from _follow_stored(state, rest, said, base)
    if as_stored := (yield from _read_as_stored(state, rest[stored:], said + stored)):
        more, base = yield from _follow_stored(state, as_stored, said + stored, base)
        stored += more
    on_this_branch = True
    if stored:
        base, on_this_branch = yield from _last_place_of(state, said + stored, base)
    marks = (yield from _carry_marks(state, said + stored, base)) if on_this_branch else []
    has_new = stored < len(rest) or bool(marks)
    trail = None if has_new else state.position.find_trail(base.place, base.name, base.tip)
    if has_new or state.head is None or base.place != state.head.place:
        view, tip = state.view, state.position.tip
        state.position.leave_for(said + stored, base.tip)
        try:
            entries = message_entries(state, rest[stored:], state.wire.parse(rest[stored:]))
            parent = marks[-1].name if marks else base.name
            spending = yield from _carry_spending(
                state, parent, lambda: [*reversed(marks), *read_attempts(state, base.place)]
            )
            yield from commit(state, [*marks, *spending, *entries], at=base.place)
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


def walk_on(state: SessionState, items: Sequence[Any], messages: Sequence[Message]) -> SessionFlow[bool]:
    """Go on along a stored branch that has these messages next; False if `branch` has to find the way.

    A program that runs its script again comes along here in every turn. So only what stands between two turns
    is read, and what is in memory grows by it.
    """
    position, view, tip, trail = state.position, state.view, state.position.tip, state.position.trail
    if trail is None or trail.view is not view or state.log.failure is not None:
        return False
    if state.caller.said_items is None:  # after a change of the format; `branch` has the list itself
        return False
    step = yield from _find_step(state, trail, items)
    if step is None or not can_grow(state, step.newest, messages):
        return False
    newest, base = step.newest, step.base

    def read_sums() -> tuple[list[Entry], list[Entry], list[Entry]]:
        known = read_attempts(state, trail.place, newest[step.own :], trail.attempts)
        known = known if trail.attempts is not None else [*map(drop_messages, known)]
        attempts = read_attempts(state, base.place, newest[: step.own], known)
        return known, attempts, read_last_report(state, trail.place, newest)

    known, attempts, reports = yield StoreCall(read_sums)
    position.leave_for(view.said + len(items), base.tip)
    try:
        spending = yield from _carry_spending(state, base.name, lambda: attempts)
        yield from commit(state, spending, at=base.place)
    except StoreError:
        position.return_to(view, tip)
        raise
    position.return_to(extend_view(view, view.said + len(items)), base.tip)
    grow_view(state, items, messages, reports, [*spending, *attempts])
    position.note_trail(replace(step.trail, view=state.view, attempts=known))
    return True


def _find_step(state: SessionState, trail: Trail, items: Sequence[Any]) -> SessionFlow[_Step | None]:
    """Return the way to these messages, where `branch` would go to; None if it is not plain."""
    first, last = state.view.said, state.view.said + len(items)
    start = _Base(trail.place, trail.name, state.position.tip)
    count, base = yield from _follow_names(state, items, first, start, "")
    left = state.position.left_branches.get(base.tip)
    if count < len(items):
        return None

    def read() -> _Step | None:
        end = trail.end
        if left is None and (end[0].line != base.place.line or end[1] <= last):
            place = _find_end(state, base.place)
            end = place, next(state.log.read(state.name, place, newest=True)).said
        place = end[0] if left is None else left.head.place
        entries = state.log.read(state.name, place, first=first, last=last, newest=True)
        newest = list(takewhile(lambda entry: entry.name != trail.name, entries))
        to, root = _Base(place, newest[0].name, base.tip), left and left.trail
        if root is None:
            to = replace(to, place=state.log.find(state.name, [to.name])[to.name])
            root = Trail(place=to.place, name=to.name, view=trail.view)
        # On one line a later place has the earlier one on its path; nothing else tells that for sure.
        if root.place.line != trail.place.line or root.place <= trail.place:
            return None
        names = [entry.name for entry in newest]
        return _Step(to, replace(root, end=end), newest, names.index(root.name))

    step: _Step | None = yield StoreCall(read)
    return step


def _choose_fork(state: SessionState, body: list[Any]) -> SessionFlow[_Fork]:
    """Return how far the list agrees with what was said, or with a view if it agrees with that for longer."""
    sent = yield from _sent_on_this_branch(state)
    fork = _find_fork(state, body, sent)
    if not fork.continues_sent:
        fork = _find_fork(state, body, [*sent, *(yield from earlier_views(state, body))])
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
        ranges = _originals(state, view.view_items[:count])
        if count > matched and ranges:
            complete = count == len(view.items)
            # All of a view also stands for the messages that it hides behind its last one.
            said = view.said if complete else max(shared.last for shared in ranges)
            matched = count + _count_kept(state, view.view_items[count:], said, body[count:])
            last = view.view_items[count - 1]
            fork = _Fork(
                said,
                body[matched:],
                None if said_items is None else said_items[:said],
                is_view=True,
                continues_sent=complete and view is not current,
                hidden=state.view.originals(last) if isinstance(last, Replacement) and not complete else (),
            )
    return fork


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


def _last_place(state: SessionState, said: int, end: Place) -> SessionFlow[_Base]:
    """Return the last place on the path to `end` where `said` messages had been said."""
    if said == 0 or end == START:
        return _Base(START, ROOT, ROOT)

    def read_base() -> _Base:
        newest = next(state.log.read(state.name, end, first=said, last=said, newest=True))
        tip = next(state.log.read(state.name, end, kinds=SAID, first=said, last=said))
        return _Base(state.log.find(state.name, [newest.name])[newest.name], newest.name, tip.name)

    base: _Base = yield StoreCall(read_base)
    return base


def _follow_stored(
    state: SessionState, rest: Sequence[Any], said: int, base: _Base
) -> SessionFlow[tuple[int, _Base]]:
    """Return how many of these messages are stored behind that place on some branch, and the last of them."""
    count, last = yield from _follow_names(state, rest, said, base, "")
    if not count and base.tip == ROOT:  # a log that began before messages were named by their normal form
        count, last = yield from _follow_names(state, rest, said, base, AS_WRITTEN)
    return count, last


def _follow_names(
    state: SessionState, rest: Sequence[Any], said: int, base: _Base, prefix: str
) -> SessionFlow[tuple[int, _Base]]:
    names: list[str] = []
    parent = base.tip
    for number, item in enumerate(rest, said + 1):
        parent = hash_entry(parent, "said", state.to_stored(item), number, prefix)
        names.append(parent)
    count = 0
    for start in range(0, len(names), PAGE):
        page = names[start : start + PAGE]
        places: dict[str, Place] = yield StoreCall(partial(state.log.find, state.name, page))
        for name in page:
            if name not in places:
                return count, base
            count, base = count + 1, _Base(places[name], name, name)
    return count, base


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
            found.append(stored)
        return found

    as_stored: list[Any] = yield StoreCall(read)
    return as_stored


def _find_end(state: SessionState, place: Place) -> Place:
    """Return the last place on the line of a place."""
    ends = (one.ends for one in state.store.branches(state.name))
    return next((end for end in ends if end.line == place.line), place)


def _last_place_of(state: SessionState, said: int, base: _Base) -> SessionFlow[tuple[_Base, bool]]:
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
            return _Base(left.head.place, left.head.name, base.tip), False
        end = yield StoreCall(lambda: _find_end(state, base.place))
    return (yield from _last_place(state, said, end)), on_this_branch


def _carry_marks(state: SessionState, said: int, base: _Base) -> SessionFlow[list[Entry]]:
    """Copy the later marks that only concern the first `said` messages, to append them behind `base`."""
    if state.head is None:
        return []
    place = state.head.place
    kinds: tuple[Kind, ...] = ("fold", "unfold", "pin", "checkpoint", "system")
    later: list[Entry] = yield StoreCall(
        lambda: list(state.log.read(state.name, place, kinds=kinds, first=said + 1))
    )
    names = {fold.name: fold.name for fold in state.view.folds if fold.said <= said}
    carried: list[Entry] = []
    parent = base.name
    for entry in later:
        value, is_whole = entry.value, True
        if entry.kind == "unfold":
            value = {"fold": names[value["fold"]]} if value["fold"] in names else None
        elif entry.kind == "fold":
            value = _carry_fold(state, entry, said, names)
            if value is None:
                value = yield from _carry_summaries(state, entry, said, base, carried)
                is_whole = False
        elif entry.kind != "system" and value["said"] > said:
            value = None
        if value is None:
            continue
        about = {**entry.beside, **(state.accounting.spending.recorded_sum if entry.kind == "fold" else {})}
        copy = make_entry(entry.kind, value, parent=parent, said=said, about=about, at=entry.at)
        if entry.kind == "fold" and is_whole:
            names[entry.name] = copy.name
        parent = copy.name
        carried.append(copy)
    return carried


def _carry_fold(state: SessionState, entry: Entry, said: int, names: dict[str, str]) -> Any:
    """Return the body of a fold under the new names of the folds it mentions; None if it cannot go along."""
    fold = state.view.fold(entry.name)
    removed = () if fold is None else (item for change in fold.changes for item in change.removed)
    if fold is None or not all(
        item.last <= said if isinstance(item, MessageRange) else item.fold in names for item in removed
    ):
        return None
    return carry_value(entry.value, rename_folds(entry.value["changes"], names))


def _carry_summaries(
    state: SessionState, entry: Entry, said: int, base: _Base, carried: Sequence[Entry]
) -> SessionFlow[Any]:
    """Return the body of a fold with its summaries alone; None if they tell of what is not on the branch.

    A fold that summarises the oldest messages also shortens newer ones. A summary is not paid for twice.
    """
    fold = state.view.fold(entry.name)
    if fold is None or not fold.standing:
        return None
    draft = FoldDraft(name_as_own(fold), fold_messages(entry))
    if not 0 < find_last_summarised(draft, state.view) <= said:
        return None
    marks: list[Entry] = yield StoreCall(
        lambda: list(state.log.read(state.name, base.place, kinds=VIEW_MARKS))
    )
    after = project_marks([*marks, *carried], said)
    rebased = rebase_summaries(draft, state.view, after)
    if rebased is None:
        return None
    kept = [draft.inserted.index(message) for message in rebased.inserted]
    messages = [entry.value["messages"][place] for place in kept]
    return {**carry_value(entry.value, changes_to_json(rebased.changes)), "messages": messages}


def _carry_spending(
    state: SessionState, parent: str, read: Callable[[], list[Entry]]
) -> SessionFlow[list[Entry]]:
    """Return an entry with what was spent, for a branch that lacks it: to go elsewhere refunds nothing.

    parent   name of the entry behind which it is to stand
    read     reads the attempts up to there
    """
    spending = state.accounting.spending
    if not (spending.summaries.calls or spending.own.calls):
        return []
    there: SpendingTotals = yield StoreCall(lambda: spending_at(state, read()))
    about = spending.missing_from(there)
    if not about:
        return []
    value, said = {"trigger": "branch", "reason": "spent before", "counted": False}, state.view.said
    return [make_entry("attempt", value, parent=parent, said=said, about=about, at=state.now())]
