"""Folds prepared while the conversation goes on: one at a time for each session, also across processes.

Either the session's own process makes them, in a thread or a task; or it offers the session to the store's
queue, and a worker takes it from there, on whatever host. Whoever works holds a lease with a fence: one that
was paused and comes back after its lease went to somebody else cannot write any more.
"""

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from refold.calls.compact import CompactionOptions
from refold.core.compaction import circuit_breaker
from refold.core.compaction.budget import Budget
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.session_state import SessionState
from refold.session.steps.compact import NEAR, SOFT, attempt, context_state
from refold.session.steps.context import RequestContext
from refold.session.steps.install_fold import Attempt
from refold.session.steps.load import reload_if_stale

if TYPE_CHECKING:
    from refold.stores import Lease

JOB: Final = "job:"
"""Under which a store notes what a worker has to know of a session."""
LEASE_SECONDS: Final = 300.0
"""How long one may take; a process that dies meanwhile keeps others waiting no longer than that."""


def should_prepare_fold(state: SessionState, budget: Budget) -> bool:
    """Whether a fold should be prepared now."""
    settings = state.settings
    soft, line = SOFT * budget.room, budget.trigger_tokens
    if line is not None and line < soft:
        soft = NEAR * line
    return (
        bool(settings.background)
        and (state.ask is not None or settings.background == "queue")
        and state.waiting is None
        and budget.used >= soft
        and not _spent_out(state)
        and circuit_breaker.allows(state.breaker, state.now()).yes
    )


def _spent_out(state: SessionState) -> bool:
    """Whether the caps leave nothing for a model."""
    left = state.purse.left(state.settings.caps, state.now())
    return left is not None and left.spent_out


def offer_to_queue(state: SessionState, budget: Budget) -> SessionFlow[None]:
    """Put the session into the store's queue, with what a worker has to know of it."""
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
    yield StoreCall(lambda: state.store.put_note(f"{JOB}{state.name}", json.dumps(job)))
    yield StoreCall(lambda: state.store.offer(state.name))


def lease_holder(state: SessionState) -> str:
    """The name under which a state works."""
    return f"{os.getpid()}-{id(state):x}"


def fold_in_background(
    state: SessionState,
    around: RequestContext,
    done: Callable[[Attempt | None], None],
    lease: "Lease | None" = None,
) -> SessionFlow[None]:
    """Make a fold of what is there now; installed only if that still stands when it is ready."""
    made: Attempt | None = None
    holder = lease_holder(state)
    try:
        if lease is None:
            lease = yield StoreCall(
                lambda: state.store.claim(state.name, holder=holder, seconds=LEASE_SECONDS)
            )
        yield from reload_if_stale(state)
        if lease is not None:
            now = yield from context_state(state, around)
            made = yield from attempt(
                state, now, CompactionOptions(force=True, model=True), "background", fence=lease.fence
            )
    except Exception:
        yield from _released(state, lease)
        raise
    finally:
        state.waiting = None
        done(made)
    yield from _released(state, lease)


def _released(state: SessionState, lease: "Lease | None") -> SessionFlow[None]:
    if lease is not None:
        yield StoreCall(lambda: state.store.release(lease))
