"""Folds prepared while the conversation goes on: one at a time for each session, also across processes."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from refold.compacting import Wish
from refold.core import breaker
from refold.session.budgets import Around
from refold.session.deciding import SOFT, attempt, standing
from refold.session.effects import Do, Work
from refold.session.folding import Made
from refold.session.keeper import Keeper

if TYPE_CHECKING:
    from refold.stores import Lease

LEASE_SECONDS: Final = 300.0
"""How long one may take; a process that dies meanwhile keeps others waiting no longer than that."""


def is_time(keeper: Keeper, ratio: float) -> bool:
    """Whether a fold should be prepared now."""
    return (
        keeper.settings.background
        and keeper.ask is not None
        and keeper.waiting is None
        and ratio >= SOFT
        and breaker.allows(keeper.breaker, keeper.now()).yes
    )


def fold(keeper: Keeper, around: Around, done: Callable[[Made | None], None]) -> Work[None]:
    """Make a fold of what is there now; installed only if that still stands when it is ready."""
    made: Made | None = None
    lease: Lease | None = None
    holder = f"{os.getpid()}-{id(keeper):x}"
    try:
        lease = yield Do(lambda: keeper.store.claim(keeper.name, holder=holder, seconds=LEASE_SECONDS))
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
