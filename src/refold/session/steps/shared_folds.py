"""Take over the folds that another session of the store has made of the same messages.

Two sessions may hold one conversation: a copy of it, or a program that names its sessions anew. The name of
a message stands for all messages before it, so one look into the index tells what they share. A summary is
paid for once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from refold.calls.make_outcome import make_idle_outcome, resize_outcome
from refold.calls.outcome import Outcome
from refold.core.compaction.budget import Budget
from refold.core.log.entries import SAID, Entry
from refold.core.log.remade_folds import carry_value
from refold.core.log.view import Folded, MessageRange, Replacement, project_marks, rename_folds
from refold.core.messages.speakers import find_user_turns
from refold.errors import StoreError
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.loaded_view import single_pieces
from refold.session.state.session_state import SessionState
from refold.session.steps.append import begin_draft, commit
from refold.session.steps.context import context_state
from refold.session.steps.install_fold import Attempt, record_fold
from refold.session.steps.load import VIEW_MARKS, load_at_head, retry_on_conflict
from refold.session.steps.read_entries import fold_messages, read_block
from refold.stores import Place

TAKEN_FROM: Final = "taken_from"
"""Fact beside a fold: the session that has made it."""


def take_over_folds(state: SessionState, budget: Budget) -> SessionFlow[Attempt | None]:
    """Fold as another session has folded the same messages; None if there is nothing to take over.

    Only for a first fold, and only what the same policy has made for the same window by the same summariser.
    """

    def act() -> SessionFlow[tuple[_KnownFolds, Entry] | None]:
        if state.view.folds or state.view.pins or state.head is None or not state.view.said:
            return None
        place = state.head.place
        try:
            found: _KnownFolds | None = yield StoreCall(lambda: _find_folds(state, place, budget.window))
        except StoreError:  # a model can be asked
            return None
        if found is None:
            return None
        entries, said_items = _copy_folds(state, found), state.caller.said_items
        if not entries:
            return None
        yield from commit(state, entries)
        yield from load_at_head(state, said_items)
        return found, entries[-1]

    if state.summariser.ask is None or state.redact is not None:  # others may have written secrets down
        return None
    taken = yield from retry_on_conflict(state, act)
    if taken is None:
        return None
    state.accounting.invalidate_report()
    after = (yield from context_state(state)).budget
    found, entry = taken
    sizes = dict(state.accounting.fold_sizes)
    attempt = record_fold(state, entry, entry.value, _describe(state, found, budget, after), budget.used)
    state.accounting.restore_folds(sizes)  # the outcome is that of all folds together
    return attempt


def _describe(state: SessionState, taken: "_KnownFolds", before: Budget, after: Budget) -> Outcome:
    reason = f"folded as session {taken.session!r} has folded the same messages"
    outcome = resize_outcome(make_idle_outcome(state.settings.policy, before, reason), before, after)
    stages = dict.fromkeys(stage for fold in taken.folds for stage in fold.value.get("stages", ()))
    receipt = replace(outcome.receipt, trigger="carried", fits=outcome.fits)
    return replace(outcome, compacted=True, stages=tuple(stages), receipt=receipt)


@dataclass(frozen=True, slots=True)
class _KnownFolds:
    """Folds of another session, oldest first."""

    session: str
    folds: list[Entry]


def _find_folds(state: SessionState, place: Place, window: int) -> _KnownFolds | None:
    """Return the folds that another session has made of the messages that both share."""
    shared, name = _find_shared(state, place)
    if not shared:
        return None
    for located in state.store.locate([name]).get(name, ()):
        head = None if located.session == state.name else state.store.head(located.session)
        if head is None or head.said < shared:
            continue
        there = state.store.read(located.session, head.place, kinds=SAID, first=shared, last=shared)
        if name not in {entry.name for entry in there}:  # it goes on from another message
            continue
        marks = list(state.store.read(located.session, head.place, kinds=VIEW_MARKS))
        known = {entry.name: entry for entry in marks}
        standing = project_marks(marks, head.said).standing
        folds = _choose_folds(state, [(fold, known[fold.name]) for fold in standing], shared, window)
        if folds:
            return _KnownFolds(located.session, folds)
    return None


def _find_shared(state: SessionState, place: Place) -> tuple[int, str]:
    """Return number and name of the last message that another session has as well; 0 if there is none."""

    def name_if_known(number: int) -> str:
        entries = state.log.read(state.name, place, kinds=SAID, first=number, last=number)
        name = next(iter(entries)).name
        sessions = {located.session for located in state.store.locate([name]).get(name, ())}
        return name if sessions - {state.name} else ""

    if not (best := name_if_known(1)):  # most sessions share nothing
        return 0, ""
    if name := name_if_known(state.view.said):  # a copy shares everything
        return state.view.said, name
    low, high = 1, state.view.said - 1
    while low < high:
        middle = (low + high + 1) // 2
        if name := name_if_known(middle):
            low, best = middle, name
        else:
            high = middle - 1
    return low, best


def _choose_folds(
    state: SessionState, standing: Sequence[tuple[Folded, Entry]], shared: int, window: int
) -> list[Entry]:
    """Return the folds that apply to the shared messages; none if no model was paid for any of them."""
    chosen: dict[str, Entry] = {}
    paid = False
    loaded = state.loaded
    turn = [loaded.view_items[place] for place in find_user_turns(loaded.messages)[-1:]]
    newest = {state.view.said, *(item.first for item in turn if isinstance(item, MessageRange))}
    for fold, entry in standing:
        removed = [item for change in fold.changes for item in change.removed]
        applies = all(
            item.last <= shared if isinstance(item, MessageRange) else item.fold in chosen for item in removed
        )
        if fold.said > shared:  # it left the newest messages of that session, which are others
            gone = [
                item for change in fold.changes for item in change.gone() if isinstance(item, MessageRange)
            ]
            applies = applies and not any(item.first <= at <= item.last for at in newest for item in gone)
        receipt: Mapping[str, Any] = entry.beside.get("receipt", {})
        calls = [call for report in receipt.get("stages", ()) for call in report.get("calls", ())]
        alike = not receipt or (
            receipt.get("window") == window
            and receipt.get("policy") == state.settings.policy.name
            and all(call.get("model", "") == state.summariser.model for call in calls)
        )
        is_native = read_block(entry) is not None
        if applies and alike and not is_native and entry.beside.get("format") == state.wire.name:
            chosen[fold.name] = entry
            paid = paid or bool(calls)
    return list(chosen.values()) if paid else []


def _copy_folds(state: SessionState, taken: _KnownFolds) -> list[Entry]:
    """Return the folds as entries of this session; none if a provider would refuse what they leave.

    They cost nothing here. Messages that are not shared may belong to those that are, as results to calls.
    """
    names: dict[str, str] = {}
    draft, about = begin_draft(state), {"format": state.wire.name, TAKEN_FROM: taken.session}
    for fold in taken.folds:
        value = carry_value(fold.value, rename_folds(fold.value["changes"], names))
        names[fold.name] = draft.add("fold", value, about).name
    loaded, made = state.loaded, {entry.name: fold_messages(entry) for entry in draft.marks}
    shown = dict(zip(loaded.view_items, loaded.messages, strict=True))
    items = [piece for item in draft.view.items for piece in single_pieces(item)]
    left = [made[item.fold][item.place] if isinstance(item, Replacement) else shown[item] for item in items]
    messages = [*loaded.messages[: loaded.fixed], *left]
    if loaded.is_positional(messages):  # their ids follow from the order of calls and results
        messages = list(state.wire.parse(state.wire.render(messages)))
    before, after = ({found.rule for found in state.wire.check(each)} for each in (loaded.messages, messages))
    return [] if after - before - {"open-call", "invalid-arguments"} else draft.marks
