"""Prepare folds while the conversation goes on: one at a time for each session, also across processes.

Either the session's own process prepares them, in a thread or a task. Or it offers the session to the queue
of the store, and a worker on any host takes it. Whoever works holds a lease with a number: a worker that was
paused while its lease went to somebody else cannot write any more.
"""

import json
from collections.abc import Callable
from typing import Final

from refold.calls.build_task import CompactionOptions
from refold.core.compaction import circuit_breaker
from refold.core.compaction.budget import Budget
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.fold_leases import FoldLease, claim_lease, work_under
from refold.session.state.session_state import SessionState
from refold.session.steps.compact import attempt_compaction
from refold.session.steps.context import (
    context_state,
    explain_wait,
    find_fixed_tokens,
    is_crowded,
    measure_next_turns,
)
from refold.session.steps.install_fold import Attempt
from refold.session.steps.load import reload_if_stale
from refold.session.steps.shared_folds import take_over_folds
from refold.stores import JOB_NOTE

START_FRACTION: Final = 0.70
"""Share of the room from which a fold may be prepared. Lower folds more often than needed; higher leaves a
slow model too little time before the room is full."""
NEAR_TRIGGER: Final = 0.82
"""Share of the trigger from which it may, if the trigger comes before that share of the room."""


def should_prepare_fold(state: SessionState, budget: Budget) -> bool:
    """True if a fold should be prepared in the background now."""
    settings, accounting = state.settings, state.accounting
    if not settings.background or state.pending_fold is not None or state.log.failure:
        return False
    start, trigger = START_FRACTION * budget.room, budget.trigger_tokens
    if trigger is not None and trigger < start:
        start = NEAR_TRIGGER * trigger
    if is_crowded(state, budget):  # a share of the whole room would always be reached
        if explain_wait(state, budget):
            return False
        fixed = find_fixed_tokens(state, budget)
        start = max(start, fixed + START_FRACTION * (budget.room - fixed))
    if budget.used < start:
        return False
    if state.summariser.ask is None and settings.background != "queue":
        return False
    allowance = accounting.spending.allowance_left(settings.caps, state.now())
    if allowance is not None and allowance.spent_out:
        return False
    return circuit_breaker.allows(accounting.breaker, state.now()).yes


def offer_to_queue(state: SessionState, budget: Budget) -> SessionFlow[None]:
    """Put the session into the queue of the store, with what a worker has to know of it."""
    settings = state.settings
    job = {
        "policy": settings.policy.name,
        "model": settings.model,
        "endpoint": settings.endpoint,
        "window": budget.window,
        "beside": budget.breakdown.fixed,
        "format": settings.format,
        **settings.caps.named,
    }
    yield StoreCall(lambda: state.log.put_note(f"{JOB_NOTE}{state.name}", json.dumps(job)))
    yield StoreCall(lambda: state.log.offer(state.name))


def fold_in_background(
    state: SessionState, done: Callable[[Attempt | None], None], lease: FoldLease | None = None
) -> SessionFlow[None]:
    """Fold the view as it is now; the fold is installed only if the view still stands when it is ready.

    done    called with the attempt, or with None if there was none
    lease   the lease of a worker; without it the session claims one
    """
    attempt: Attempt | None = None
    try:
        if lease is None:
            lease = yield from claim_lease(state)
        if lease is None:
            yield from reload_if_stale(state)
        else:
            attempt = yield from work_under(lease, _fold_under(state, lease))
    finally:
        state.set_pending_fold(None)
        done(attempt)


def _fold_under(state: SessionState, lease: FoldLease) -> SessionFlow[Attempt]:
    """Fold the newest view under a lease."""
    yield from reload_if_stale(state)
    context = yield from context_state(state)
    taken_over = yield from take_over_folds(state, context.budget)
    if taken_over is not None:
        return taken_over
    spare = measure_next_turns(state) if is_crowded(state, context.budget) else 0
    options = CompactionOptions(force=True, ahead=True, model=state.summariser.ask is not None, spare=spare)
    return (yield from attempt_compaction(state, context, options, "background", lease=lease))
