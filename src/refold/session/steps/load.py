"""Read the state of a session from its store: first the view, then its messages and what they mean.

Folds are read one after another and only visible ones are kept, so that a long log needs little memory.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Any, Final, TypeVar, cast

from refold.core.compaction import circuit_breaker
from refold.core.compaction.bound_thinking import has_bound
from refold.core.log.entries import FOLDS, KINDS, MARKS, SYSTEM, Entry, Kind, to_json_text
from refold.core.log.view import MessageRange, Replacement, View, extend_view, read_body, step
from refold.core.messages.message import Message
from refold.core.models.prices import Spent
from refold.core.models.spending_limits import HOUR
from refold.errors import Conflict, FormatError, RefoldError, StoreError
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.accounting import SpendingTotals
from refold.session.state.position import UnsureWrite, read_edited
from refold.session.state.session_state import SessionState
from refold.session.state.thinking_prefixes import BEGUN_WITH, MADE_BEHIND, SENT
from refold.session.steps.fill_view import fill_view, find_wire, take_in_prefixes, write_item
from refold.session.steps.read_entries import (
    breaker_event,
    find_began,
    find_turned_down,
    fold_messages,
    fold_sizes,
    is_believed,
    read_doubt,
    read_report,
    system_items,
    usage_cost,
    usage_report,
)
from refold.stores import Head, Place

T = TypeVar("T")

MAX_TRIES: Final = 1_000
"""Times that an operation is tried again after a conflict, which says that another process has written. A
long list that begins a branch takes longer than what five busy writers say: it lost 64 times in a row."""
VIEW_MARKS: Final[frozenset[Kind]] = MARKS - {"usage", "attempt"}
"""The kinds that a view depends on."""
_REPORTS: Final[tuple[Kind, ...]] = ("usage", "fold", "unfold", "system", "attempt")
_ATTEMPTS: Final[tuple[Kind, ...]] = ("usage", "fold", "attempt")
"""The kinds that the breaker and the caps on spending look at."""
_ADDED: Final[frozenset[Kind]] = frozenset({"said", "usage"})
"""The kinds of most turns: with them a view only goes on."""
_SUMS: Final = '"summaries":'
_BREAKER_ATTEMPTS: Final = 64
"""Attempts that are read for the circuit breaker, at least; its limits look at fewer. Attempts of the last
hour are read as well, because the caps on spending count them."""
_MAX_READ_BACK: Final = 2_000
"""Entries that are read backwards, at most, so that opening a long log stays fast. If there are more, the
breaker and the caps count too little."""


def retry_on_conflict(state: SessionState, act: Callable[[], SessionFlow[T]]) -> SessionFlow[T]:
    """Do something on the newest state, and again if another process has written meanwhile.

    If the answer to the last write was lost, it is first settled. If it was stored, `act` runs on the state
    before it: an `act` that repeats the write finds it done, any other one runs again on the newest state.
    """
    tries, position = MAX_TRIES, state.position
    waiting: UnsureWrite | None = None
    while True:
        if position.unsure is not None:
            waiting = (yield from _settle(state, position.unsure)) or waiting
        if position.stale:
            yield from load(state)
        try:
            result = yield from act()
            if position.unsure is None:
                if waiting is not None:
                    position.set_unsure(waiting)
                return result
            position.set_unsure(None)
        except Conflict:
            position.set_unsure(None)  # if a lost answer is the reason, its write is read now, as any other
            tries -= 1
            if not tries:
                raise
        if not position.behind:
            position.mark_stale()


def _settle(state: SessionState, unsure: UnsureWrite) -> SessionFlow[UnsureWrite | None]:
    """Ask the store what became of a write whose answer was lost; go before it if it was stored.

    Returns the write if the store does not answer and the caller may go on without it: it is asked later.
    """
    position, before = state.position, state.copy_memory()
    try:
        stored: Head | None = yield StoreCall(unsure.settle)
        position.set_unsure(None)
        position.mark_stale()
        if stored is not None:
            position.go_before(unsure, stored)
            yield from load_at_head(state)
    except StoreError as error:
        state.restore_memory(before)
        if state.head is None or not (yield StoreCall(partial(state.log.go_on_without, error))):
            raise
        position.set_unsure(None)
        return unsure
    return None


def reload_if_stale(state: SessionState) -> SessionFlow[None]:
    """Read the state again if another process has written."""
    if not state.position.stale:
        try:
            yield from check_head(state)
        except Conflict:
            state.position.fall_behind()
    if state.position.stale:
        yield from load(state)


def check_head(state: SessionState) -> SessionFlow[None]:
    """Raise `Conflict` if another process has written, as a write would."""
    head: Head | None = yield StoreCall(lambda: state.log.head(state.name))
    known = state.head
    if not _is_same_head(head, known):
        raise Conflict(known.name if known else None, head.name if head else None)


def _is_same_head(head: Head | None, known: Head | None) -> bool:
    return head is known or (head is not None and known is not None and head.version == known.version)


def load(state: SessionState) -> SessionFlow[None]:
    """Read the state at the newest head; it is stale until that is done.

    Where others have only said more behind a state that is known, that is added to it. If the store fails,
    the state is as it was. A caller that may go on without the store does so with it.
    """
    known = state.head if state.position.behind else None
    state.position.mark_stale()

    def read() -> SessionFlow[None]:
        head: Head | None = yield StoreCall(lambda: state.log.head(state.name))
        added: list[Entry] | None = None
        if known is not None and head is not None:
            place, behind = head.place, known
            added = yield StoreCall(lambda: _read_added(state, behind, place))
        state.position.move_to(head)
        if added is None or not _add_entries(state, added):
            yield from load_at_head(state)

    yield from keep_memory(state, read())
    state.position.stay()


def keep_memory(state: SessionState, reading: SessionFlow[None]) -> SessionFlow[None]:
    """Read the state wholly or not at all; a caller that may go on without the store goes on from memory."""
    before = state.copy_memory()
    try:
        yield from reading
    except StoreError as error:
        state.restore_memory(before)
        if state.head is None or not (yield StoreCall(partial(state.log.go_on_without, error))):
            raise


def _read_added(state: SessionState, known: Head, place: Place) -> list[Entry] | None:
    """Read what was appended behind a known head; None if the view does not just go on with it."""
    if state.loaded.bound.thinking is not None:  # it is shown by what stands before it
        return None
    added: list[Entry] = []
    for entry in islice(state.log.read(state.name, place, newest=True), _MAX_READ_BACK):
        if entry.name == known.name:
            return added[::-1]
        if entry.kind not in _ADDED or entry.said < known.said:
            return None
        added.append(entry)
    return None


def _add_entries(state: SessionState, added: Sequence[Entry]) -> bool:
    """Add messages and reports of others to what is in memory; False if all of it has to be read again."""
    said = [entry for entry in added if entry.kind == "said"]
    usages = [entry for entry in reversed(added) if entry.kind == "usage"]
    believed = [place for place, entry in enumerate(usages, 1) if is_believed(entry)]
    wire, accounting, report = state.wire, state.accounting, state.accounting.report
    if said and find_wire(state, said[-1]).name != wire.name:
        return False
    items = [write_item(state, wire, entry) for entry in said]
    try:
        messages = state.loaded.read(items) if items else ()
    except FormatError:
        return False
    if state.caller.thinking.is_unsure_of(state.settings.model or "") and any(map(has_bound, messages)):
        return False
    state.loaded.add([MessageRange(entry.said, entry.said) for entry in said], items, messages)
    state.caller.add_said(items)
    state.note_turn(messages)
    state.position.set_tip(said[-1].name if said else state.position.tip)
    state.position.follow(added)
    if usages:
        _restore_reports(state, usages[: believed[0]] if believed else usages)
        accounting.replace_report(accounting.report if believed else report)
        breaker = circuit_breaker.record_event(accounting.breaker, "turn", usages[0].at)
        accounting.restore_breaker(breaker)
        accounting.replace_spending(accounting.spending.restore(usages))
    state.position.finish_loading()
    return True


def load_at_head(
    state: SessionState, said_items: list[Any] | None = None, *, view_known: bool = False
) -> SessionFlow[None]:
    """Read the state at this session's own head.

    said_items   every message said as the caller holds it, if that is known
    view_known   True if the view in memory is that of the head and all its folds are known

    This is for a session that has just written. Another process may have written behind its head; the next
    operation will notice that, and it must not be taken for what was written here.
    """
    position, head = state.position, state.head
    position.mark_stale()
    empty = head is None or head.said == 0
    state.caller.hold_said([] if empty and said_items is None else said_items)
    marks = _Marks()
    reports: list[Entry] = []
    attempts: list[Entry] = []
    if head is not None:
        place, said = head.place, head.said
        read = _read_known_marks if view_known else _read_marks
        marks = yield StoreCall(lambda: read(state, place, said))
        reports = yield StoreCall(lambda: read_last_report(state, place))
        attempts = yield StoreCall(lambda: read_attempts(state, place))
    position.restore(marks.view, marks.fold_messages, marks.edited)
    state.accounting.restore_folds(marks.fold_sizes)
    last_attempt = _restore_accounting(state, reports, attempts)
    yield from fill_view(state, [] if marks.system is None else system_items(marks.system))
    _finish_loading(state, last_attempt)


def grow_view(
    state: SessionState,
    items: Sequence[Any],
    messages: Sequence[Message],
    reports: Sequence[Entry],
    attempts: Sequence[Entry],
) -> None:
    """Do what `load_at_head` does where stored messages follow those in memory and nothing else does."""
    last_attempt = _restore_accounting(state, reports, attempts)
    state.loaded.count_guesses(state.counter())
    numbers = range(state.view.said - len(items) + 1, state.view.said + 1)
    state.loaded.add([MessageRange(number, number) for number in numbers], items, messages)
    state.caller.add_said(items)
    _finish_loading(state, last_attempt)


def can_grow(state: SessionState, newest: Iterable[Entry], messages: Iterable[Message]) -> bool:
    """True if a view just goes on with these entries, whose messages were read.

    Thinking that is bound is shown by what stands before it.
    """
    model, thinking = state.settings.model or "", state.caller.thinking
    if state.loaded.bound.thinking is not None or (
        thinking.is_unsure_of(model) and (model or thinking.recorded[1] or any(map(has_bound, messages)))
    ):
        return False
    return not any(
        entry.kind in VIEW_MARKS
        or MADE_BEHIND in entry.about
        or (entry.kind == "said" and find_wire(state, entry).name != state.wire.name)
        for entry in newest
    )


def _restore_accounting(state: SessionState, reports: Sequence[Entry], attempts: Sequence[Entry]) -> int:
    """Restore the sums and the breaker of a view; returns how much was said by the last attempt."""
    folds = tuple(fold.name for fold in state.view.standing)
    state.accounting.check_requests(folds, state.view.said)
    _restore_reports(state, reports)
    return _restore_attempts(state, attempts)


def _finish_loading(state: SessionState, last_attempt: int) -> None:
    behind = state.view.said - last_attempt
    state.note_turn(state.loaded.messages[-behind:] if behind > 0 else ())
    state.position.finish_loading()


def read_last_report(state: SessionState, place: Place, newer: Iterable[Entry] = ()) -> list[Entry]:
    """Read back to the last report of usage that was believed, with the changes of the view since.

    A branch without one has that of another branch, which it has recorded as it began.

    newer   entries behind the place, newest first
    """
    entries: list[Entry] = []
    others: list[Entry] = []
    stored = state.log.read(state.name, place, kinds=_REPORTS, newest=True)
    reports = (entry for entry in newer if entry.kind in _REPORTS)
    for entry in islice(chain(reports, stored), _MAX_READ_BACK):
        if entry.kind == "attempt":
            others = others or read_report(entry)
            continue
        entries.append(entry)
        if entry.kind == "usage" and is_believed(entry):
            return entries
    return [*entries, *others]


def _restore_reports(state: SessionState, newest: Sequence[Entry]) -> None:
    """Restore the last report that was believed, and the sums of the last one of all."""
    accounting, before = state.accounting, state.accounting.report
    usages = [entry for entry in newest if entry.kind == "usage"]
    # What a provider's counts have taught holds on every branch, though the request stands on one only.
    report = None if before is None else replace(before, holds=False)
    if usages and is_believed(usages[-1]):
        # Whatever was read before it changed the front of the view after the report came.
        unchanged = len(usages) == len(newest)
        read = usage_report(usages[-1])
        report = replace(read, holds=read.holds and unchanged)
    accounting.replace_report(report)
    own = usage_cost(usages[0]) if usages else Spent()
    if own.calls > accounting.spending.own.calls:  # requests of other branches were sent as well
        accounting.restore_doubt(read_doubt(usages[0], state.settings.model or ""))
        accounting.replace_spending(replace(accounting.spending, own=own))


def read_attempts(
    state: SessionState, place: Place, newer: Iterable[Entry] = (), known: Sequence[Entry] | None = None
) -> list[Entry]:
    """Read the last attempts to compact and whether there were turns between them, newest first.

    newer   entries behind the place, newest first
    known   those up to the place, if they were read before

    Of several reports in a row the newest is enough: each has all sums, and one turn is as good as many.
    """
    entries: list[Entry] = []
    attempts = 0
    stored = state.log.read(state.name, place, kinds=_ATTEMPTS, newest=True) if known is None else known
    newer = (entry for entry in newer if entry.kind in _ATTEMPTS)
    for entry in islice(chain(newer, stored), _MAX_READ_BACK):
        is_repeated = bool(entries) and entry.kind == entries[-1].kind == "usage"
        if is_repeated and _SUMS in entry.about:
            is_repeated = _SUMS in entries[-1].about
        if is_repeated:
            continue
        entries.append(entry)
        attempts += entry.kind != "usage"
        if attempts >= _BREAKER_ATTEMPTS and abs(state.now() - entry.at) > HOUR:
            break
    return entries


def drop_messages(entry: Entry) -> Entry:
    """Return a fold without the messages that it put in: a trail holds many, and they are long."""
    if entry.kind != "fold":
        return entry
    value = read_body(entry)
    kept = {key: value[key] for key in ("trigger", "unanswered") if key in value}  # what the breaker asks for
    return replace(entry, body=to_json_text(kept), text="")


@dataclass(slots=True)
class _Marks:
    """The view, the folds and the system messages, as the marks of a log record them."""

    view: View = field(default_factory=View)
    fold_sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    fold_messages: dict[str, tuple[Message, ...]] = field(default_factory=dict)
    system: Entry | None = None
    edited: Mapping[int, Entry] = field(default_factory=dict)


def _read_marks(state: SessionState, place: Place, said: int) -> _Marks:
    """Read the marks one after another, then the messages of the visible folds."""
    marks = _Marks()
    for entry in state.log.read(state.name, place, kinds=VIEW_MARKS):
        value = read_body(entry)  # that of a fold is long, so it is decoded once
        marks.view = step(extend_view(marks.view, entry.said), entry, value)
        if entry.kind == "fold":
            marks.fold_sizes[entry.name] = fold_sizes(value)
        elif entry.kind == "system":
            marks.system, marks.edited = entry, read_edited(entry, marks.edited)
        if BEGUN_WITH in entry.about or SENT in entry.about:
            state.caller.thinking.take_in_mark(entry.beside, is_last=entry.said == said)
    marks.view = extend_view(marks.view, said)
    marks.fold_messages = visible_fold_messages(state, place, marks.view)
    return marks


def _read_known_marks(state: SessionState, place: Place, said: int) -> _Marks:
    """Return the view in memory with the messages of its visible folds, and the system messages."""
    view = extend_view(state.view, said)
    system = next(state.log.read(state.name, place, kinds=SYSTEM, newest=True), None)
    folds, edited = visible_fold_messages(state, place, view), state.position.edited
    return _Marks(view, state.accounting.fold_sizes, folds, system, edited)


def visible_fold_messages(state: SessionState, place: Place, view: View) -> dict[str, tuple[Message, ...]]:
    """Read the messages of the folds that are visible in a view."""
    messages: dict[str, tuple[Message, ...]] = {}
    for name in {item.fold: None for item in view.items if isinstance(item, Replacement)}:
        fold = view.fold(name)
        at = 0 if fold is None else fold.said
        for entry in state.log.read(state.name, place, kinds=FOLDS, first=at, last=at):
            if entry.name == name:
                messages[name] = fold_messages(entry)
                take_in_prefixes(state, [entry])
    return messages


def _restore_attempts(state: SessionState, newest: Sequence[Entry]) -> int:
    """Restore the circuit breaker and the sums of spending; returns how much was said by the last attempt."""
    breaker = circuit_breaker.Breaker(limits=state.settings.limits)
    said = 0
    for entry in reversed(newest):
        if (event := breaker_event(entry)) is not None:
            if entry.said > said:  # the model answered in between, even if no usage was reported
                breaker = circuit_breaker.record_event(breaker, "turn", entry.at)
            said = entry.said
            breaker = circuit_breaker.record_event(breaker, event, entry.at, find_began(entry))
    state.accounting.restore_breaker(breaker)
    state.accounting.replace_spending(state.accounting.spending.restore(newest))
    state.accounting.note_turned_down(find_turned_down(newest))
    return said


def spending_at(state: SessionState, newest: Sequence[Entry]) -> SpendingTotals:
    """Return the sums that a place of the log records, by the attempts up to there."""
    there = state.accounting.spending.without_sums().restore(newest)
    report = next((entry for entry in newest if entry.kind == "usage"), None)
    own = there.own if report is None else max(there.own, usage_cost(report), key=lambda sums: sums.calls)
    return replace(there, own=own)


def read_log(
    state: SessionState, *, kinds: Collection[Kind] | None = None, first: int = 0, last: int | None = None
) -> SessionFlow[list[Entry]]:
    """Return the entries of this branch, oldest first."""
    unknown = [kind for kind in kinds or () if kind not in KINDS]
    if unknown:
        raise RefoldError(f"there are no entries of kind {unknown[0]!r}; kinds are: {', '.join(KINDS)}")

    def read(place: Place) -> list[Entry]:
        return list(state.log.read(state.name, place, kinds=kinds, first=first, last=last))

    known = state.head
    if known is not None and not state.position.stale:  # one call of the store, which may be one of a thread
        head, entries = yield StoreCall(lambda: (state.log.head(state.name), read(known.place)))
        if _is_same_head(head, known):
            return cast("list[Entry]", entries)
        state.position.fall_behind()
    yield from reload_if_stale(state)
    newest = state.head
    return [] if newest is None else (yield StoreCall(lambda: read(newest.place)))
