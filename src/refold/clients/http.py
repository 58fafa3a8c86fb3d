"""A model behind HTTP: sends what an exchange yields and hands over what comes, inside deadlines.

Each question has a connection of its own, so that a client holds nothing that threads, event loops or forked
processes could share. One driver, for an event loop; a thread waits for a loop of its own (see `apart`).
"""

import logging
import time
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from refold.clients import apart
from refold.clients.deadlines import REST, RETRY, Deadlines
from refold.clients.exchange import Exchange, ask, broken, step
from refold.clients.troubles import Trouble
from refold.clients.waiting import wait_of
from refold.clients.wires import Head, Request, Target, Wire
from refold.core.compaction.flow import Answer, Ask
from refold.errors import AnswerFailed, RefoldError

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")
GRACE: Final = 5.0
"""Seconds that closing a connection may take before a waiting thread leaves it alone."""
ATTEMPTS: Final = 2


def library(name: str) -> ModuleType:
    """The HTTP library; an error that names the extra where it is not there."""
    try:
        import httpx2
        import stamina  # noqa: F401  # asked for here, so that it is missed now and not in the middle
    except ModuleNotFoundError as error:
        extra = "local" if name == "local" else "clients"
        raise RefoldError(f"{name} needs {error.name}: pip install 'refold[{extra}]'") from None
    _quiet("stamina")
    return httpx2


def _quiet(name: str) -> None:
    """Keep a library's log off the screens of programs that set up no logging; others get it as before."""
    logger = logging.getLogger(name)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


class HttpClient:
    """Somebody who answers over HTTP."""

    def __init__(
        self, *, name: str, wire: Wire, target: Target, deadlines: Deadlines, window: int | None
    ) -> None:
        self.name = name
        self.window = window
        self.deadlines = deadlines
        self._wire = wire
        self.target = target
        self._rest: tuple[float, str] = (0.0, "")
        self._tls: ssl.SSLContext | bool | None = None

    @property
    def model(self) -> str:
        """The model that is asked."""
        return self.target.model

    @property
    def provider(self) -> str:
        """Who serves it; empty where only an address is known."""
        return self.target.provider or ""

    @property
    def format(self) -> str:
        """The shape of its messages."""
        return self._wire.name

    def __repr__(self) -> str:
        return f"<client {self.name}>"

    def ask(self, question: Ask) -> Answer:
        """Ask and wait for the answer."""
        answered = apart.wait(lambda: self.aask(question), self.deadlines.total + GRACE)
        if answered is None:
            raise self._failed(Trouble(f"did not answer within {self.deadlines.total:g} seconds", late=True))
        return answered

    async def aask(self, question: Ask) -> Answer:
        """Ask inside an event loop."""
        trouble = self._resting()
        if trouble is None:
            try:
                return await self.exchanged(lambda: ask(self._wire, self.target, question))
            except Trouble as met:
                trouble = met
        raise self._failed(trouble)  # outside, so that no error of the library hangs on it

    def close(self) -> None:
        """Nothing is held between questions."""

    async def exchanged(self, begin: Callable[[], Exchange[T]]) -> T:
        """Carry an exchange out, and once more where the failure may pass; raises `Trouble`."""
        from stamina import retry_context

        ends = time.monotonic() + self.deadlines.total

        def passing(error: Exception) -> bool | float:
            """Whether to ask again, or after how many seconds."""
            if not isinstance(error, Trouble) or not error.passing:
                return False
            if error.wait is None:
                return ends - time.monotonic() > 1
            return error.wait if error.wait <= min(RETRY, ends - time.monotonic()) else False

        retries = retry_context(passing, attempts=ATTEMPTS, timeout=None, wait_initial=0.2, wait_jitter=0.3)
        async for attempt in retries:
            with attempt:
                return await self._attempt(begin, ends)
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, begin: Callable[[], Exchange[T]], ends: float) -> T:
        http = library(self.name)
        exchange = begin()
        got: Request | T | None = step(exchange, None)
        try:
            async with http.AsyncClient(**self._settings(http)) as client:
                while isinstance(got, Request):
                    got = await self._sent(client, got, exchange, ends)
        except Trouble as trouble:  # before anybody logs it
            trouble.clean(self.target.key)
            raise
        assert got is not None  # noqa: S101  # a response ends in an answer, a request or an error
        return got

    async def _sent(
        self, client: Any, request: Request, exchange: Exchange[T], ends: float
    ) -> Request | T | None:
        """Send a request and hand its response over; gives what comes behind it."""
        import asyncio

        loop = asyncio.get_running_loop()
        got: Request | T | None = None
        begun = False
        try:
            async with asyncio.timeout(self._left(ends, self.deadlines.first)) as clock:
                sending = client.stream("POST", request.url, content=request.body, headers=request.headers)
                async with sending as response:
                    begun = True
                    got = step(exchange, _head(response))
                    async for chunk in response.aiter_bytes():
                        clock.reschedule(loop.time() + self._left(ends, self.deadlines.idle))
                        got = step(exchange, chunk) if chunk and got is None else got
                        if got is not None:
                            return got
                    return step(exchange, b"")
        except TimeoutError:
            trouble = self._late(ends, begun=begun)
        except Trouble:
            raise
        except Exception as error:  # noqa: BLE001  # whatever the library raises may quote a header
            trouble = _broken(error, begun=begun)
        return got if got is not None else broken(exchange, trouble)

    def _settings(self, http: ModuleType) -> dict[str, Any]:
        if self._tls is None:
            secure = self.target.base.startswith("https:")
            self._tls = http.create_ssl_context() if secure else False
        timeout = http.Timeout(None, connect=self.deadlines.connect)
        # an address on this machine is never meant for a proxy
        return {"timeout": timeout, "verify": self._tls, "trust_env": not _here(self.target.base)}

    def _left(self, ends: float, most: float) -> float:
        return max(0.0, min(most, ends - time.monotonic()))

    def _late(self, ends: float, *, begun: bool) -> Trouble:
        if time.monotonic() >= ends - 0.01:
            return Trouble(f"did not answer within {self.deadlines.total:g} seconds", late=True)
        if begun:
            return Trouble(
                f"stopped in the middle and said nothing for {self.deadlines.idle:g} seconds", late=True
            )
        return Trouble(f"said nothing for {self.deadlines.first:g} seconds", late=True)

    def _resting(self) -> Trouble | None:
        until, why = self._rest
        return Trouble(f"{why}; it is not asked again so soon") if time.monotonic() < until else None

    def _failed(self, trouble: Trouble) -> AnswerFailed:
        """The error that leaves the room."""
        if trouble.late:
            self._rest = (time.monotonic() + REST, trouble.why)
        provider = self.target.provider or self.name
        return AnswerFailed(f"{self.name} {trouble.why}", provider=provider, cause=trouble.cause)


def _head(response: Any) -> Head:
    return Head(
        status=response.status_code,
        content_type=response.headers.get("content-type", ""),
        wait=wait_of(response.headers, time.time()),
    )


def _broken(error: Exception, *, begun: bool) -> Trouble:
    """What an error of the library means; only its kind is told, its text may hold anything."""
    kind = type(error).__name__
    if kind == "ConnectError" and "CERTIFICATE_VERIFY_FAILED" in str(error):
        why = "shows a certificate that this machine does not trust"
        return Trouble(why, cause=ConnectionError(why))
    if kind in ("ConnectTimeout", "ConnectError"):
        why = "cannot be reached: is it running, and is the address right?"
        return Trouble(why, passing=True, late=kind == "ConnectTimeout", cause=ConnectionError(why))
    if begun:
        return Trouble(f"broke off in the middle ({kind})", cause=ConnectionError(kind))
    passing = kind in ("ReadError", "WriteError", "RemoteProtocolError", "CloseError")
    return Trouble(f"broke off without an answer ({kind})", passing=passing, cause=ConnectionError(kind))


def _here(base: str) -> bool:
    from urllib.parse import urlsplit

    host = urlsplit(base).hostname or ""
    return host == "localhost" or host.startswith("127.") or host == "::1"
