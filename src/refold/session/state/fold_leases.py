"""The right to fold a session: one process at a time has it, so that no two pay for the same summary.

A lease is short, and a thread renews it while the fold is made. So others wait for seconds only if the
process dies, however long its model would have taken.
"""

import os
import threading
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Final, TypeVar

from refold.errors import StoreError
from refold.session.drivers import Pause, SessionFlow, StoreCall
from refold.session.state.session_state import SessionState

if TYPE_CHECKING:
    from refold.stores import Lease, Store

T = TypeVar("T")
FOLD_SECONDS: Final = 300.0
"""Seconds that a fold may take, and for which its lease is renewed at most: a model that hangs must not keep
all others from folding for ever."""
LEASE_SECONDS: Final = 15.0
"""Seconds for which others wait for a process that has died. Fewer would take the lease from one that only
stalls, and its summary would be paid for twice."""
RENEW_SECONDS: Final = 5.0
"""Seconds between two renewals: one may fail, and the lease still holds."""
OTHER_SECONDS: Final = LEASE_SECONDS
"""Seconds for which a caller without room waits for the fold of another process; a lease whose holder has
died is free by then. A fold without a model in between would be made for nothing, and the summary as well:
it would find other messages in its place."""
LOOK_SECONDS: Final = 0.2
"""Seconds between two looks at the lease of another process."""
_PROCESS: Final = token_hex(4)
"""Tells processes apart that have the same number, as the first ones of two containers do."""


class FoldLease:
    """A lease that is renewed until it is released or stopped; several threads may use it."""

    def __init__(self, store: "Store", lease: "Lease", seconds: float = FOLD_SECONDS) -> None:
        self._store, self._lease, self._seconds = store, lease, seconds
        self._lock = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._renew_until_ended, name="refold-lease", daemon=True).start()

    @property
    def fence(self) -> int:
        """The fence of the lease, as it was renewed last."""
        return self._lease.fence

    def stop(self) -> None:
        """Renew it no more: it runs out by itself."""
        self._ended.set()

    def release(self) -> None:
        """Let others fold the session."""
        self.stop()
        with self._lock:  # a renewal under way would take the lease once more behind the release
            self._store.release(self._lease)

    def _renew_until_ended(self) -> None:
        for _ in range(int(self._seconds / RENEW_SECONDS)):
            if self._ended.wait(RENEW_SECONDS) or not self._renew():
                return

    def _renew(self) -> bool:
        """Renew the lease; False if it is not this one's any more."""
        with self._lock:
            if self._ended.is_set():
                return False
            old = self._lease
            try:
                lease = self._store.claim(old.session, holder=old.holder, seconds=LEASE_SECONDS)
                if lease is not None and lease.fence > old.fence + 1:  # others held it in between
                    self._store.release(lease)
                    return False
            except StoreError:  # the lease may still hold, and the next renewal may come through
                return True
            self._lease = lease or old
            return lease is not None


def claim_lease(state: SessionState) -> SessionFlow["FoldLease | None"]:
    """Claim the lease of a session; None while another process folds it."""
    holder = f"{os.getpid()}-{_PROCESS}-{id(state):x}"
    lease: Lease | None = yield StoreCall(
        lambda: state.store.claim(state.name, holder=holder, seconds=LEASE_SECONDS)
    )
    return None if lease is None else FoldLease(state.store, lease)


def wait_for_lease(state: SessionState) -> SessionFlow["FoldLease | None"]:
    """Claim the lease as soon as the process that folds has ended; None if that takes too long."""
    for _ in range(round(OTHER_SECONDS / LOOK_SECONDS)):
        yield Pause(LOOK_SECONDS)
        lease = yield from claim_lease(state)
        if lease is not None:
            return lease
    return None


def work_under(lease: FoldLease, work: SessionFlow[T]) -> SessionFlow[T]:
    """Do work under a lease and release it; if the flow is closed meanwhile, the lease runs out."""
    try:
        result = yield from work
    except Exception:
        yield from _release_or_leave(lease)
        raise
    finally:
        # Not the release: a flow that is closed here cannot call the store any more.
        lease.stop()
    yield from _release_or_leave(lease)
    return result


def _release_or_leave(lease: FoldLease) -> SessionFlow[None]:
    """Release a lease; one that cannot be released runs out by itself."""
    with suppress(StoreError):
        yield StoreCall(lease.release)


def shares_folds(state: SessionState) -> bool:
    """True if other processes may fold this session as well, and a store answers that keeps them apart."""
    settings = state.settings
    return bool(settings.background) and state.summariser.ask is not None and state.log.failure is None
