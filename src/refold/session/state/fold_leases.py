"""The right to fold a session: one process at a time has it, so that no two pay for the same summary."""

import os
from typing import TYPE_CHECKING, Final

from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.session_state import SessionState

if TYPE_CHECKING:
    from refold.stores import Lease

LEASE_SECONDS: Final = 300.0
"""Seconds that a fold may take. If a process dies, others wait no longer than that; a worker that needs
longer may lose its fold to another one."""


def claim_lease(state: SessionState) -> SessionFlow["Lease | None"]:
    """Claim the lease of a session; None while another process folds it."""
    holder = f"{os.getpid()}-{id(state):x}"
    lease: Lease | None = yield StoreCall(
        lambda: state.store.claim(state.name, holder=holder, seconds=LEASE_SECONDS)
    )
    return lease


def release_lease(state: SessionState, lease: "Lease | None") -> SessionFlow[None]:
    """Let others fold the session."""
    if lease is not None:
        yield StoreCall(lambda: state.store.release(lease))


def shares_folds(state: SessionState) -> bool:
    """True if other processes may fold this session as well, and a store answers that keeps them apart."""
    settings = state.settings
    return bool(settings.background) and state.summariser.ask is not None and state.log.failure is None
