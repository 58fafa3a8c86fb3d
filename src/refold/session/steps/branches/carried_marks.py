"""Carry marks to another branch: folds, pins and checkpoints of shared messages, and what was spent."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from refold.core.log.entries import Entry, Kind
from refold.core.log.folds import FoldDraft, name_as_own
from refold.core.log.rebase import find_last_summarised, rebase_summaries
from refold.core.log.remade_folds import carry_value
from refold.core.log.view import MessageRange, View, changes_to_json, rename_folds
from refold.core.messages.speakers import find_user_turns
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.position import drop_edits
from refold.session.state.session_state import SessionState
from refold.session.steps.append import Draft, read_draft
from refold.session.steps.edit_summary import keep_in_view
from refold.session.steps.load import spending_at
from refold.session.steps.read_entries import fold_messages, write_report
from refold.session.steps.recall import read_said

if TYPE_CHECKING:
    from refold.session.state.accounting import SpendingTotals


def carry_marks(state: SessionState, draft: Draft) -> SessionFlow[Draft]:
    """Return a draft for the same place with the later marks that only concern the messages before it."""
    if state.head is None:
        return draft
    place, said = state.head.place, draft.view.said
    kinds: tuple[Kind, ...] = ("fold", "unfold", "pin", "checkpoint", "system")
    later: list[Entry] = yield StoreCall(
        lambda: list(state.log.read(state.name, place, kinds=kinds, first=said + 1))
    )
    if not later:
        return draft
    names = {fold.name: fold.name for fold in state.view.folds if fold.said <= said}
    draft = yield from read_draft(state, draft.place)
    for entry in later:
        value, is_whole = entry.value, True
        if entry.kind == "unfold":
            value = {"fold": new} if (new := names.get(value["fold"])) else None
        elif entry.kind == "fold":
            value = _carry_fold(state, entry, said, names)
            if value is None:
                value = _carry_summaries(state, entry, draft.view)
                is_whole = False
        elif entry.kind != "system" and value["said"] > said:
            value = None
        if value is None:
            continue
        about = {**entry.beside, **(state.accounting.spending.recorded_sum if entry.kind == "fold" else {})}
        about |= drop_edits(about, said)
        copy = draft.add(entry.kind, value, about, entry.at)
        if entry.kind == "fold" and is_whole:
            names[entry.name] = copy.name
    return draft


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


def _carry_summaries(state: SessionState, entry: Entry, behind: View) -> Any:
    """Return the body of a fold with its summaries alone; None if they tell of what is not on the branch.

    A fold that summarises the oldest messages also shortens newer ones. A summary is not paid for twice.
    """
    fold = state.view.fold(entry.name)
    if fold is None or not fold.standing:
        return None
    draft = FoldDraft(name_as_own(fold), fold_messages(entry))
    if not 0 < find_last_summarised(draft, state.view) <= behind.said:
        return None
    rebased = rebase_summaries(draft, state.view, behind)
    if rebased is None:
        return None
    messages = [entry.value["messages"][draft.inserted.index(message)] for message in rebased.inserted]
    return {**carry_value(entry.value, changes_to_json(rebased.changes)), "messages": messages}


def show_last_request(
    state: SessionState, said_items: Sequence[Any] | None, rest: Sequence[Any], draft: Draft
) -> SessionFlow[None]:
    """Add marks that show the user's last words where a carried fold told them: others came behind there.

    said_items   all messages of the branch, if they are in memory; `rest` are those behind the carried marks
    """
    said = draft.view.said
    if said_items is None:
        said_items = [*(yield from read_said(state, [MessageRange(1, said)])), *rest]
    turns = find_user_turns(state.wire.parse(said_items))
    if turns and (number := turns[-1] + 1) <= said and not draft.view.shown(number):
        yield from keep_in_view(state, [number], draft)


def carry_spending(
    state: SessionState, draft: Draft, read: Callable[[], list[Entry]], trigger: str = "branch"
) -> SessionFlow[None]:
    """Add what was spent, for a branch that lacks it: to go elsewhere refunds nothing.

    read     reads the attempts up to there
    """
    spending = state.accounting.spending
    if not (spending.summaries.calls or spending.own.calls):
        return
    there: SpendingTotals = yield StoreCall(lambda: spending_at(state, read()))
    if about := spending.missing_from(there):
        about |= write_report(state.accounting.report) if state.accounting.report else {}
        draft.add("attempt", {"trigger": trigger, "reason": "spent before", "counted": False}, about)
