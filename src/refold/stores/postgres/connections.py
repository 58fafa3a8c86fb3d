"""Addresses of PostgreSQL servers, and connections to them: a few at a time, errors in plain words.

A connection that dies is dropped and the work runs again on a new one, for at most `busy_seconds`. Work that
must not be done twice finds out by itself what became of the first time (`append`). Written by hand, because
`psycopg_pool` hides why a connection fails (docs/decisions/0021-libraries.md). No error shows a password.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlencode

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from refold.errors import RefoldError, StoreBusy, StoreError, StoreFull
from refold.stores import Durability

T = TypeVar("T")
Connection: TypeAlias = psycopg.Connection[Any]

OWN: Final = frozenset({"scope", "durability", "busy_seconds", "connections"})
"""Options of the query that are for this store and not for the server."""
_SECRET: Final = frozenset({"password", "sslpassword", "oauth_client_secret"})
_SCHEME: Final = re.compile(r"postgres(?:ql)?://")

_HOST: Final = r"(?:\[[^\]@]*\]|[^:@,\[\]]*)(?::[0-9]*)?"
_HOSTS: Final = re.compile(f"{_HOST}(?:,{_HOST})*")
"""Anything else is a password that was not quoted; an error must not show it as the name of a host."""
_COMMIT: Final[dict[Durability, str]] = {"normal": "local", "full": "on"}
"""Setting `synchronous_commit`. Both wait for the server's own disk, so that a crash of the server loses
nothing that was acknowledged; `on` also waits for synchronous standbys. `off` would lose the last commits."""
_PAUSE_SECONDS: Final = 0.05
"""Pause between two attempts; a server that restarts needs some tenths of a second."""
_IDLE_MILLISECONDS: Final = 30_000
"""A process that stops in the middle of a transaction holds its locks no longer than that."""
_PARAMETERS: Final[dict[str, str | int]] = {
    "connect_timeout": 10,
    "application_name": "refold",
    "keepalives_idle": 30,
}
"""Defaults for what the address leaves out. libpq alone would wait for ever for a host that does not answer,
and would notice a dead connection after two hours."""
_GONE: Final = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.IdleInTransactionSessionTimeout,
)
_TRANSIENT: Final = (errors.DeadlockDetected, errors.SerializationFailure)
_BUSY: Final = (errors.LockNotAvailable, *_TRANSIENT)
_IDLE: Final = psycopg.pq.TransactionStatus.IDLE
_INHERITED: Final[list[Connection]] = []
"""Connections of a parent process. Kept, because dropping one here would end it for the parent."""


@dataclass(frozen=True, slots=True)
class Address:
    """Parts of an address."""

    server: str
    """With secrets, for the server's library."""
    shown: str
    """Without secrets, for people."""
    options: Mapping[str, str]
    secrets: tuple[str, ...]

    def redact(self, message: str) -> str:
        """Make a message one line without any secret of this address."""
        line = " ".join(message.split())
        for secret in self.secrets:
            line = line.replace(secret, "***")
        return line


def parse_address(address: str) -> Address:
    """Parse an address.

    >>> parse_address("postgresql://me:pw@db/chats?sslmode=require&scope=a").shown
    'postgresql://me@db/chats?sslmode=require&scope=a'
    """
    start = _SCHEME.match(address)
    if start is None:
        raise RefoldError(
            "this is not the address of a PostgreSQL store: write postgresql://USER@HOST/DATABASE"
        )
    rest = address[start.end() :]
    user, at, place = rest.partition("@") if "@" in rest.partition("/")[0] else ("", "", rest)
    place, _, query = place.partition("?")
    if not _HOSTS.fullmatch(place.partition("/")[0]):
        raise RefoldError(
            "this address of a PostgreSQL store cannot be read: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
            " with %40 for an @ and %2F for a / in the password"
        )
    name, _, password = user.partition(":")
    pairs = parse_qsl(query, keep_blank_values=True)
    base = f"postgresql://{user}{at}{place}"
    public = f"postgresql://{name}{'@' if name else ''}{place}"
    secrets = [password, unquote(password), *(value for key, value in pairs if key in _SECRET)]
    return Address(
        server=_with(base, [(key, value) for key, value in pairs if key not in OWN]),
        shown=_with(public, [(key, value) for key, value in pairs if key not in _SECRET]),
        options={key: value for key, value in pairs if key in OWN},
        secrets=tuple(secret for secret in secrets if secret),
    )


def _with(base: str, pairs: list[tuple[str, str]]) -> str:
    return f"{base}?{urlencode(pairs, quote_via=quote)}" if pairs else base


class ConnectionLost(Exception):
    """The connection died; the work may or may not have been done."""

    @property
    def is_crowded(self) -> bool:
        """True if others have all connections; libpq has no code for it, only the text."""
        return any(words in str(self) for words in ("too many c", "connection slots are reserved"))

    @property
    def is_password_refused(self) -> bool:
        """True if the server is there and refuses the password, or has got none; libpq has only the text."""
        return any(words in str(self) for words in ("password authentication failed", "no password supplied"))

    @property
    def is_transient(self) -> bool:
        """True if the server is there and only starts, stops, or has no free connection."""
        return self.is_crowded or "the database system is" in str(self)


class Connections:
    """At most `most` connections of this process to one server, all with one scope."""

    def __init__(
        self, address: Address, *, scope: str, durability: Durability, busy_seconds: float, most: int
    ) -> None:
        self.address = address
        self._scope = scope
        self._commit = _COMMIT[durability]
        self._busy_seconds = busy_seconds
        self._most = most
        self._closed = False
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._seats = threading.BoundedSemaphore(self._most)
        self._idle: list[Connection] = []

    def run(self, work: Callable[[Connection], T], *, patient: bool = True) -> T:
        """Run work on a connection, again if the connection dies; raises errors of a store.

        patient   wait for a server that cannot be reached; one that is starting is always waited for
        """
        until = time.monotonic() + self._busy_seconds
        while True:
            try:
                return self._run_once(work, until)
            except ConnectionLost as lost:
                if time.monotonic() >= until or not (patient or lost.is_transient):
                    kind = StoreBusy if lost.is_crowded else StoreError
                    what = "refused the password" if lost.is_password_refused else "cannot be reached"
                    raise kind(f"{self.address.shown} {what}: {lost}") from None
            except _TRANSIENT as error:
                if time.monotonic() >= until:
                    raise self._to_store_error(error) from None
            except psycopg.Error as error:
                raise self._to_store_error(error) from None
            except UnicodeEncodeError as error:
                raise StoreError(
                    f"{self.address.shown} cannot store this text, nothing was written: {error}"
                ) from None
            time.sleep(_PAUSE_SECONDS)

    def close(self) -> None:
        """Close idle connections now and the others when their work is done."""
        self._closed = True
        self._reset_after_fork()
        self._drop_idle()

    def _run_once(self, work: Callable[[Connection], T], until: float) -> T:
        if self._closed:
            raise StoreError(f"{self.address.shown} is closed: open it again")
        self._reset_after_fork()
        seats = self._seats  # the same ones to the end, also if the work forks
        if not seats.acquire(timeout=max(0.0, until - time.monotonic())):
            raise StoreBusy(
                f"all {self._most} connections to {self.address.shown} are in use: try again,"
                " or allow more with connections="
            )
        try:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                try:
                    connection = self._connect()
                except psycopg.OperationalError as error:
                    raise ConnectionLost(self.address.redact(str(error))) from None
            return self._run_on(connection, work)
        finally:
            seats.release()

    def _run_on(self, connection: Connection, work: Callable[[Connection], T]) -> T:
        """Run work on a connection and keep the connection for the next if it is still good."""
        keep = False
        try:
            result = work(connection)
            keep = True
        except psycopg.Error as error:
            keep = not connection.closed and not isinstance(error, _GONE)
            if keep:
                raise
            self._drop_idle()
            raise ConnectionLost(self.address.redact(str(error))) from None
        except StoreError:
            keep = not connection.closed
            raise
        else:
            return result
        finally:
            with self._lock:
                keep = keep and not self._closed and connection.info.transaction_status == _IDLE
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()

    @property
    def parameters(self) -> str:
        """What the server's library needs for a connection, secrets included."""
        parameters = {**_PARAMETERS, **conninfo_to_dict(self.address.server), "client_encoding": "utf8"}
        return make_conninfo("", **parameters)

    def _connect(self) -> Connection:
        connection: Connection = psycopg.connect(self.parameters, autocommit=True)
        try:
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            connection.prepare_threshold = None  # a plan made once is a poor one for a growing log
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

    def _drop_idle(self) -> None:
        """Close all idle connections: when one died, the others most likely did too."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _reset_after_fork(self) -> None:
        """Begin with new locks in a child process, because a thread of the parent may hold the old ones."""
        if self._process != os.getpid():
            _INHERITED.extend(self._idle)
            self._reset()

    def _to_store_error(self, error: psycopg.Error) -> StoreError:
        line = self.address.redact(str(error))
        if isinstance(error, _BUSY):
            return StoreBusy(f"other connections held {self.address.shown} for too long: try again ({line})")
        if isinstance(error, errors.DiskFull):
            return StoreFull(
                f"the disk of {self.address.shown} is full, nothing was written: make room ({line})"
            )
        if isinstance(error, errors.CharacterNotInRepertoire):
            return StoreError(f"{self.address.shown} cannot store this text, nothing was written: {line}")
        if isinstance(error, errors.InsufficientPrivilege):
            return StoreError(f"{self.address.shown} denies this: grant the role its rights ({line})")
        return StoreError(f"{self.address.shown}: {line}")
