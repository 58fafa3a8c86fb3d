"""Go on along a stored branch, as a program does that runs its script again."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, NamedTuple

from refold.core.log.entries import Entry
from refold.core.log.view import extend_view
from refold.core.messages.message import Message
from refold.errors import StoreError
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.position import Trail
from refold.session.state.session_state import SessionState
from refold.session.steps.append import Draft, commit
from refold.session.steps.branches.carried_marks import carry_spending
from refold.session.steps.branches.stored_places import StoredPlace, find_end, follow_names
from refold.session.steps.load import can_grow, drop_messages, grow_view, read_attempts, read_last_report


class Step(NamedTuple):
    """The way from one turn to the next along a stored branch."""

    base: StoredPlace
    trail: Trail
    """Where the stored branch is left next."""
    newest: list[Entry]
    """What stands between, newest first."""
    own: int
    """How many of these stand behind the stored branch, on one that this session has left."""


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
        draft = Draft(base.place, base.name, state.view, state.now())
        yield from carry_spending(state, draft, lambda: attempts)
        yield from commit(state, draft.marks, at=base.place)
    except StoreError:
        position.return_to(view, tip)
        raise
    position.return_to(extend_view(view, view.said + len(items)), base.tip)
    grow_view(state, items, messages, reports, [*draft.marks, *attempts])
    position.note_trail(replace(step.trail, view=state.view, attempts=known))
    return True


def _find_step(state: SessionState, trail: Trail, items: Sequence[Any]) -> SessionFlow[Step | None]:
    """Return the way to these messages, where `branch` would go to; None if it is not plain."""
    first, last = state.view.said, state.view.said + len(items)
    start = StoredPlace(trail.place, trail.name, state.position.tip)
    count, base = yield from follow_names(state, items, first, start, "")
    left = state.position.left_branches.get(base.tip)
    if count < len(items):
        return None

    def read() -> Step | None:
        end = trail.end
        if left is None and (end[0].line != base.place.line or end[1] <= last):
            place = find_end(state, base.place)
            end = place, next(state.log.read(state.name, place, newest=True)).said
        place = end[0] if left is None else left.head.place
        entries = state.log.read(state.name, place, first=first, last=last, newest=True)
        newest = list(takewhile(lambda entry: entry.name != trail.name, entries))
        to, root = StoredPlace(place, newest[0].name, base.tip), left and left.trail
        if root is None:
            to = replace(to, place=state.log.find(state.name, [to.name])[to.name])
            root = Trail(place=to.place, name=to.name, view=trail.view)
        # On one line a later place has the earlier one on its path; nothing else tells that for sure.
        if root.place.line != trail.place.line or root.place <= trail.place:
            return None
        names = [entry.name for entry in newest]
        return Step(to, replace(root, end=end), newest, names.index(root.name))

    step: Step | None = yield StoreCall(read)
    return step
