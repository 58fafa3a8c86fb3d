"""Prepare what is sent: take in the caller's list, measure, repair, compact if it is due."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from refold.calls.compact import CompactionOptions, build_task
from refold.core.compaction.pipeline import shrink
from refold.core.tokens.units import format_count
from refold.errors import StoreError
from refold.session.drivers import SessionFlow
from refold.session.results import Ready
from refold.session.state.request_context import RequestContext
from refold.session.state.session_state import SessionState
from refold.session.steps.background import offer_to_queue, should_prepare_fold
from refold.session.steps.compact import compact_if_due
from refold.session.steps.context import (
    context_state,
    current_request,
    find_window,
    measure_context,
    to_conversation,
    warn_listeners,
)
from refold.session.steps.install_fold import install_fold
from refold.session.steps.load import reload_if_stale, retry_on_conflict
from refold.session.steps.take_in import take_in


def prepare(
    state: SessionState,
    messages: Sequence[Any] | None,
    *,
    system: Any,
    tools: Sequence[Any] | None,
    prompt: str | None,
    files: Sequence[Any] | None,
    start_background: Callable[[], None],
) -> SessionFlow[Ready]:
    """Store what is new, compact if it is due, and return what to send.

    start_background   prepares a fold in the background
    """
    state.request.update(system=system, tools=tools, prompt=prompt, files=files)
    try:
        taken = yield from retry_on_conflict(state, lambda: _take_in_and_repair(state, messages))
    except StoreError as error:  # the caller's list is enough to go on
        if messages is None or not state.begin_again(error):
            raise
        taken = yield from retry_on_conflict(state, lambda: _take_in_and_repair(state, messages))
    context = yield from context_state(state)
    budget, accounting = context.budget, state.accounting
    if state.events.is_new_level(budget.level):
        warn_listeners(state, budget)
    accounting.note_refusal(refused=False)
    attempt = yield from compact_if_due(state, context)
    if attempt.fold:
        budget = (yield from context_state(state)).budget
    accounting.note_request(current_request(state))
    # The caller's own list is sent as it is if nothing was changed: no copy, and the same objects come back.
    unchanged = taken.as_said and not state.view.standing and len(messages or ()) == len(state.loaded.items)
    sent = messages if unchanged and isinstance(messages, list) else state.send_view()
    outcome = replace(attempt.outcome, messages=sent)
    if taken.mended:
        reason = f"{outcome.reason}; mended {format_count(taken.mended, 'message')}"
        receipt = replace(outcome.receipt, mended=taken.mended, reason=reason)
        outcome = replace(outcome, reason=reason, receipt=receipt)
    if should_prepare_fold(state, budget):
        if state.settings.background == "queue":
            yield from offer_to_queue(state, budget)
        else:
            start_background()
    return Ready(messages=sent, budget=budget, outcome=outcome, fold=attempt.fold)


@dataclass(frozen=True, slots=True)
class _TakenIn:
    """What became of the caller's list."""

    as_said: bool
    """True if it has the messages as they were said, and is not a view of them."""
    mended: int
    """Messages that were repaired."""


def _take_in_and_repair(state: SessionState, messages: Sequence[Any] | None) -> SessionFlow[_TakenIn]:
    """Take in the caller's list, and repair the view if a provider would refuse it."""
    said, as_said, mended = state.view.said, False, 0
    if messages is None:
        yield from reload_if_stale(state)
    else:
        as_said = yield from take_in(state, messages)
    new = state.view.said - said
    if new > 0 and any(message.role == "assistant" for message in state.loaded.messages[-new:]):
        state.accounting.record_breaker_event("turn", state.now())
    if state.loaded.sound is None:
        # The repair becomes a fold, so that the same view is not repaired again in every turn.
        window = yield from find_window(state)
        budget = measure_context(state, window, RequestContext())
        policy = state.settings.policy
        task = build_task(to_conversation(state, window, budget), CompactionOptions(), None)
        result = yield from shrink(task, (), orphans=policy.orphans, missing=policy.missing)
        if result.repaired:
            view_items = tuple(state.loaded.view_items)
            yield from install_fold(state, view_items, result.edits, {"trigger": "repair"})
            mended = result.repaired
    return _TakenIn(as_said, mended)
