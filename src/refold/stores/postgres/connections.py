"""Connections to a PostgreSQL server: a few at a time, never one of another process, and what errors mean.

A connection that died is dropped and the work is done again on a new one, for at most `busy_seconds`; work
that must not be done twice finds out for itself what became of the first time (`postgres_append`).
"""

import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from refold.errors import StoreBusy, StoreError, StoreFull
from refold.stores import Durability
from refold.stores.postgres.address import Address

T = TypeVar("T")
Connection: TypeAlias = psycopg.Connection[Any]

_COMMIT: Final[dict[Durability, str]] = {"normal": "local", "full": "on"}
"""Both wait until the server's own disk has it, so that a crash of the server loses nothing that was
acknowledged; `full` waits for synchronous standbys as well. `off` would lose the last moments."""
_PAUSE_SECONDS: Final = 0.05
"""Between two tries; a server that restarts needs some tenths of a second."""
_IDLE_MILLISECONDS: Final = 30_000
"""A process that stops in the middle of a transaction holds its locks no longer than that."""
_PARAMETERS: Final[dict[str, str | int]] = {
    "connect_timeout": 10,
    "application_name": "refold",
    "keepalives_idle": 30,
}
"""Unless the address says otherwise."""
_GONE: Final = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.IdleInTransactionSessionTimeout,
)
_AGAIN: Final = (errors.DeadlockDetected, errors.SerializationFailure)
_BUSY: Final = (errors.LockNotAvailable, *_AGAIN)
_INHERITED: Final[list[Connection]] = []
"""Connections of a parent process: to let go of them would end them for the parent."""


class Lost(Exception):
    """The connection died; what was asked may or may not have been done."""

    @property
    def passing(self) -> bool:
        """Whether the server is there and only starts or stops, or has no room for one more."""
        return self.crowded or "the database system is" in str(self)

    @property
    def crowded(self) -> bool:
        """Whether others have all connections; when one connects there is no code to tell it by."""
        return any(words in str(self) for words in ("too many c", "connection slots are reserved"))


class Connections:
    """At most `most` connections of this process to one server, all of one scope."""

    def __init__(
        self, address: Address, *, scope: str, durability: Durability, busy_seconds: float, most: int
    ) -> None:
        self.address = address
        self._scope = scope
        self._commit = _COMMIT[durability]
        self._busy_seconds = busy_seconds
        self._most = most
        self._closed = False
        self._idle: list[Connection] = []
        self._begin()

    def run(self, work: Callable[[Connection], T], *, patient: bool = True) -> T:
        """Do some work on a connection, again where the connection dies; errors become those of a store.

        patient   whether to wait for a server that cannot be reached; one that starts is always waited for
        """
        until = time.monotonic() + self._busy_seconds
        while True:
            try:
                return self._once(work, until)
            except Lost as lost:
                if time.monotonic() >= until or not (patient or lost.passing):
                    kind = StoreBusy if lost.crowded else StoreError
                    raise kind(f"{self.address.shown} cannot be reached: {lost}") from None
            except _AGAIN as error:
                if time.monotonic() >= until:
                    raise self._named(error) from None
            except psycopg.Error as error:
                raise self._named(error) from None
            except UnicodeEncodeError as error:
                raise StoreError(
                    f"{self.address.shown} cannot keep this text, nothing was written: {error}"
                ) from None
            time.sleep(_PAUSE_SECONDS)

    def close(self) -> None:
        """Close those that are idle; those at work are closed when they are done."""
        self._closed = True
        self._own_process()
        self._forget()

    def _once(self, work: Callable[[Connection], T], until: float) -> T:
        if self._closed:
            raise StoreError(f"{self.address.shown} is closed: open it again")
        self._own_process()
        seats = self._seats
        if not seats.acquire(timeout=max(0.0, until - time.monotonic())):
            raise StoreBusy(
                f"all {self._most} connections to {self.address.shown} are at work: try again,"
                " or allow more with connections="
            )
        try:
            return self._with_connection(work)
        finally:
            seats.release()

    def _with_connection(self, work: Callable[[Connection], T]) -> T:
        connection = self._taken()
        keep = False
        try:
            found = work(connection)
            keep = True
        except psycopg.Error as error:
            keep = not connection.closed and not isinstance(error, _GONE)
            if keep:
                raise
            self._forget()
            raise Lost(self.address.redact(str(error))) from None
        except StoreError:
            keep = not connection.closed
            raise
        else:
            return found
        finally:
            self._give_back(connection, keep=keep)

    def _taken(self) -> Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        try:
            return self._connected()
        except psycopg.OperationalError as error:
            raise Lost(self.address.redact(str(error))) from None

    def _connected(self) -> Connection:
        given = conninfo_to_dict(self.address.server)
        conninfo = make_conninfo("", **{**_PARAMETERS, **given, "client_encoding": "utf8"})
        connection: Connection = psycopg.connect(conninfo, autocommit=True)
        try:
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            connection.prepare_threshold = None  # a plan that is made once is a poor one for a growing log
            connection.execute(
                "SELECT set_config('refold.scope', %s, false), set_config('synchronous_commit', %s, false),"
                " set_config('lock_timeout', %s, false),"
                " set_config('idle_in_transaction_session_timeout', %s, false)",
                [
                    self._scope,
                    self._commit,
                    str(max(1, int(self._busy_seconds * 1000))),
                    str(_IDLE_MILLISECONDS),
                ],
            )
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_back(self, connection: Connection, *, keep: bool) -> None:
        with self._lock:
            if keep and not self._closed and connection.info.transaction_status == _AT_REST:
                self._idle.append(connection)
                return
        connection.close()

    def _forget(self) -> None:
        """Drop all that are idle: when one died, the others most likely did too."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._seats = threading.BoundedSemaphore(self._most)
        self._idle = []

    def _own_process(self) -> None:
        """After a fork begin anew; locks of the parent's threads are never opened in the child."""
        if self._pid != os.getpid():
            _INHERITED.extend(self._idle)
            self._begin()

    def _named(self, error: psycopg.Error) -> StoreError:
        """An error of the server as one of a store."""
        line = self.address.redact(str(error))
        if isinstance(error, _BUSY):
            return StoreBusy(f"others held {self.address.shown} for too long: try again ({line})")
        if isinstance(error, errors.DiskFull):
            return StoreFull(
                f"the disk of {self.address.shown} is full, nothing was written: make room ({line})"
            )
        if isinstance(error, errors.CharacterNotInRepertoire):
            return StoreError(f"{self.address.shown} cannot keep this text, nothing was written: {line}")
        if isinstance(error, errors.InsufficientPrivilege):
            return StoreError(f"{self.address.shown} forbids this: grant the role its rights ({line})")
        return StoreError(f"{self.address.shown}: {line}")


_AT_REST: Final = psycopg.pq.TransactionStatus.IDLE
