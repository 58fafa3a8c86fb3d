"""Folds prepared while the conversation goes on: one at a time for each session, also across processes.

Either the session's own process makes them, in a thread or a task; or it offers the session to the store's
queue, and a worker takes it from there, on whatever host. Whoever works holds a lease with a fence: one that
was paused and comes back after its lease went to somebody else cannot write any more.
"""

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from refold.calls.compact import Wish
from refold.core.compaction import circuit_breaker
from refold.core.compaction.budget import Budget
from refold.session.budgets import Around
from refold.session.deciding import NEAR, SOFT, attempt, standing
from refold.session.effects import Do, Work
from refold.session.folding import Made
from refold.session.keeper import Keeper
from refold.session.loading import fresh

if TYPE_CHECKING:
    from refold.stores import Lease

JOB: Final = "job:"
"""Under which a store notes what a worker has to know of a session."""
LEASE_SECONDS: Final = 300.0
"""How long one may take; a process that dies meanwhile keeps others waiting no longer than that."""


def is_time(keeper: Keeper, budget: Budget) -> bool:
    """Whether a fold should be prepared now."""
    settings = keeper.settings
    soft, line = SOFT * budget.room, budget.trigger_tokens
    if line is not None and line < soft:
        soft = NEAR * line
    return (
        bool(settings.background)
        and (keeper.ask is not None or settings.background == "queue")
        and keeper.waiting is None
        and budget.used >= soft
        and not _spent_out(keeper)
        and circuit_breaker.allows(keeper.breaker, keeper.now()).yes
    )


def _spent_out(keeper: Keeper) -> bool:
    """Whether the caps leave nothing for a model."""
    left = keeper.purse.left(keeper.settings.caps, keeper.now())
    return left is not None and left.spent_out


def offer(keeper: Keeper, budget: Budget) -> Work[None]:
    """Put the session into the store's queue, with what a worker has to know of it."""
    settings = keeper.settings
    job = {
        "policy": settings.policy.name,
        "model": settings.model,
        "endpoint": settings.endpoint,
        "window": budget.window,
        "beside": budget.breakdown.fixed,
        "format": settings.format,
        **settings.caps.named,
    }
    yield Do(lambda: keeper.store.put_note(f"{JOB}{keeper.name}", json.dumps(job)))
    yield Do(lambda: keeper.store.offer(keeper.name))


def holder_of(keeper: Keeper) -> str:
    """The name under which a keeper works."""
    return f"{os.getpid()}-{id(keeper):x}"


def fold(
    keeper: Keeper,
    around: Around,
    done: Callable[[Made | None], None],
    lease: "Lease | None" = None,
) -> Work[None]:
    """Make a fold of what is there now; installed only if that still stands when it is ready."""
    made: Made | None = None
    holder = holder_of(keeper)
    try:
        if lease is None:
            lease = yield Do(lambda: keeper.store.claim(keeper.name, holder=holder, seconds=LEASE_SECONDS))
        yield from fresh(keeper)
        if lease is not None:
            now = yield from standing(keeper, around)
            made = yield from attempt(
                keeper, now, Wish(force=True, model=True), "background", fence=lease.fence
            )
    except Exception:
        yield from _released(keeper, lease)
        raise
    finally:
        keeper.waiting = None
        done(made)
    yield from _released(keeper, lease)


def _released(keeper: Keeper, lease: "Lease | None") -> Work[None]:
    if lease is not None:
        yield Do(lambda: keeper.store.release(lease))
