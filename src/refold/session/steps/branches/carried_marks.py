"""Carry marks to another branch: folds, pins and checkpoints of shared messages, and what was spent."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from refold.core.log.entries import Entry, Kind, make_entry
from refold.core.log.folds import FoldDraft, name_as_own
from refold.core.log.rebase import find_last_summarised, rebase_summaries
from refold.core.log.remade_folds import carry_value
from refold.core.log.view import MessageRange, View, changes_to_json, project_marks, rename_folds
from refold.core.messages.speakers import find_user_turns
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.session_state import SessionState
from refold.session.steps.branches.stored_places import StoredPlace
from refold.session.steps.edit_summary import keep_in_view
from refold.session.steps.load import VIEW_MARKS, spending_at
from refold.session.steps.read_entries import fold_messages
from refold.session.steps.recall import read_said

if TYPE_CHECKING:
    from refold.session.state.accounting import SpendingTotals


def carry_marks(state: SessionState, said: int, base: StoredPlace) -> SessionFlow[list[Entry]]:
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
            value = {"fold": new} if (new := names.get(value["fold"])) else None
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
    if fold is None:
        return None
    if not any(change.gone() for change in fold.changes) and not any(
        message.calls or message.results for message in fold_messages(entry)
    ):  # words that were put in for the sake of a fold are put in again where they are needed
        names[entry.name] = ""
        return None
    removed = (item for change in fold.changes for item in change.removed)
    # What mends the last message depends on what follows it.
    last = said - 1 if entry.value.get("trigger") == "repair" else said
    if not all(
        item.last <= last if isinstance(item, MessageRange) else item.fold in names for item in removed
    ):
        return None
    changes = rename_folds(entry.value["changes"], names)
    return carry_value(entry.value, changes) if changes else None


def _carry_summaries(
    state: SessionState, entry: Entry, said: int, base: StoredPlace, carried: Sequence[Entry]
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
    after = yield from _view_behind(state, said, base, carried)
    rebased = rebase_summaries(draft, state.view, after)
    if rebased is None:
        return None
    messages = [entry.value["messages"][draft.inserted.index(message)] for message in rebased.inserted]
    return {**carry_value(entry.value, changes_to_json(rebased.changes)), "messages": messages}


def show_last_request(
    state: SessionState,
    said_items: Sequence[Any] | None,
    rest: Sequence[Any],
    base: StoredPlace,
    carried: Sequence[Entry],
) -> SessionFlow[list[Entry]]:
    """Return marks that show the user's last words where a carried fold told them: others came behind there.

    They are written with the carried ones: a branch without them would never get them.

    said_items   all messages of the branch, if they are in memory; `rest` are those behind the carried marks
    """
    said = carried[-1].said
    if said_items is None:
        said_items = [*(yield from read_said(state, [MessageRange(1, said)])), *rest]
    turns = find_user_turns(state.wire.parse(said_items))
    if not turns or (number := turns[-1] + 1) > said:
        return []
    after = yield from _view_behind(state, said, base, carried)
    return [] if after.shown(number) else (yield from keep_in_view(state, [number], after, carried))


def _view_behind(
    state: SessionState, said: int, base: StoredPlace, carried: Sequence[Entry]
) -> SessionFlow[View]:
    marks: list[Entry] = yield StoreCall(
        lambda: list(state.log.read(state.name, base.place, kinds=VIEW_MARKS))
    )
    return project_marks([*marks, *carried], said)


def carry_spending(
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
