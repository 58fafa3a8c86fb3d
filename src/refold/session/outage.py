"""Go on while the store fails, tell the caller and the listeners, and catch up when the store works again."""

from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TypeVar

from refold.core.log.entries import ROOT, SAID, Entry, make_entry
from refold.errors import Conflict, StoreError, StoreReplaced, warn_caller
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.events import StoreFailed, StoreRestored
from refold.session.results import Observed, Ready
from refold.session.state.session_log import WaitingWrite
from refold.session.state.session_state import SessionState
from refold.session.steps.append import commit, mark_entry
from refold.session.steps.load import MAX_TRIES, load
from refold.stores import START, Head, Place, Store

Result = TypeVar("Result", Ready, Observed, str)


def catch_up(state: SessionState, *, at_once: bool) -> SessionFlow[None]:
    """Store what waits in memory; if the store still fails, it goes on waiting.

    at_once   try it now, also if the store has just failed after a long wait
    """
    log = state.log
    if log.failure is None or not (at_once or log.may_try):
        return
    count = log.unsaved_messages
    try:
        head: Head | None = yield StoreCall(partial(log.catch_up, state.name))
        if head is not None:
            state.position.move_to(head)
    except Conflict:
        before, was_stale = copy(log), state.position.stale
        try:
            # A caller without a list of its own continues what is there; a list begins a branch.
            joins = state.caller.caller_list is None
            for write in log.writes:
                yield StoreCall(partial(_store_by_name, state.store, state.name, write, joins=joins))
            log.clear()
            yield from _load_with_spending(state)
        except StoreError as error:  # what was stored by now is found by its name the next time
            before.note_failure(error)
            state.restore_log(before, stale=was_stale)
            return
    except StoreError:
        return  # whoever has to write raises it
    state.events.add(StoreRestored(session=state.name, at=state.now(), stored=count))


def _store_by_name(store: Store, session: str, write: WaitingWrite, *, joins: bool) -> None:
    """Store messages behind the message before them, as far as they are not stored: others wrote meanwhile.

    joins   True if they go behind what the others said; else they begin a branch

    Names are made of the content, so that nothing is stored twice, whoever wrote it.
    """
    for tries in range(MAX_TRIES, -1, -1):
        messages = write.messages
        places = store.find(session, [entry.name for entry in messages]) if messages else {}
        rest = [entry for entry in messages if entry.name not in places]
        if not rest:
            return
        head = store.head(session)
        if joins:
            rest = _chain(rest, _read_last(store, session, head))
            write.replace_entries(rest)  # first: if it fails, it is looked for under these names
        try:
            store.append(session, rest, expect=head, at=_place_behind(store, session, rest[0].parent, head))
        except Conflict:
            if not tries:
                raise
        else:
            return


def _read_last(store: Store, session: str, head: Head | None) -> Entry | None:
    """Return the last message on the path to a head."""
    if head is None or not head.said:
        return None
    return next(store.read(session, head.place, kinds=SAID, newest=True))


def _chain(messages: Sequence[Entry], last: Entry | None) -> list[Entry]:
    """Return messages as they stand behind another one."""
    parent, said = (ROOT, 0) if last is None else (last.name, last.said)
    chained: list[Entry] = []
    for number, entry in enumerate(messages, said + 1):
        made = make_entry(
            "said", entry.value, parent=parent, said=number, text=entry.text, about=entry.beside, at=entry.at
        )
        chained.append(made)
        parent = made.name
    return chained


def _place_behind(store: Store, session: str, message: str, head: Head | None) -> Place | None:
    """Return the place of a message; None if it is the last one, so that marks behind it stay."""
    last = _read_last(store, session, head)
    if message == (ROOT if last is None else last.name):
        return None
    if message == ROOT:
        return START
    places = store.find(session, [message])
    if message not in places:
        what = f"the log of session {session!r} in {store.address} lacks earlier messages"
        raise StoreReplaced(f"{what}: bring the store back, or open the session again")
    return places[message]


def _load_with_spending(state: SessionState) -> SessionFlow[None]:
    """Read the newest state; what was spent while the store failed is added to what it records."""
    accounting = state.accounting
    before = accounting.replace_spending(accounting.spending.without_sums())
    try:
        yield from load(state)
    finally:
        there = accounting.replace_spending(accounting.spending.merge(before))
    if about := before.missing_from(there):
        value = {"trigger": "store", "reason": "spent before", "counted": False}
        mark = mark_entry(state, "attempt", value, about)
        with suppress(StoreError):  # the next report of usage records it as well
            yield from commit(state, [mark])


def report_failure(state: SessionState, result: Result) -> SessionFlow[Result]:
    """Say in a result that it is only in memory; tell listeners once that the store fails."""
    yield from ()
    log = state.log
    if log.failure is None:
        return result
    if log.report():
        event = StoreFailed(
            session=state.name, at=state.now(), reason=str(log.failure.error), unsaved=log.unsaved
        )
        state.events.add(event)
        warn_caller(log.explanation)
    if isinstance(result, str):
        return result
    if isinstance(result, Ready):
        outcome = replace(result.outcome, reason=f"{result.outcome.reason}; {log.explanation}")
        return replace(result, outcome=outcome, unsaved=log.unsaved)
    return replace(result, reason=f"{result.reason}; {log.explanation}", unsaved=log.unsaved)
