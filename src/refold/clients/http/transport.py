"""Carry out an exchange over HTTP inside deadlines, with one or two retries; knows no wire.

Each request has a connection of its own, so that a client holds nothing that threads, event loops or forked
processes could share. There is one driver, for an event loop; a thread waits for a loop of its own (see
`sync_bridge`). Decision 0011 has the measurements.
"""

import logging
import time
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from refold.clients.http.deadlines import RETRY_AFTER_SECONDS, Deadlines
from refold.clients.http.exchange import Exchange, fail, step
from refold.clients.http.failures import Failure, read_retry_after
from refold.clients.http.wire import Head, Request, Target
from refold.errors import RefoldError, install_hint

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")
ATTEMPTS: Final = 2
"""One retry (decision 0011): it covers a dropped connection. A provider that fails twice is down, and the
next client of a chain is faster than a third attempt."""
CHAT_ATTEMPTS: Final = 3
"""A turn of a conversation has no next client to go to, only a person who would have to ask again."""
_TRANSIENT_ERRORS: Final = ("ReadError", "WriteError", "RemoteProtocolError", "CloseError")


def import_library(name: str) -> ModuleType:
    """Import the HTTP library; raise an error that names the extra if it is missing."""
    try:
        import httpx2
        import stamina  # noqa: F401  # missed now, and not in the middle of a question
    except ModuleNotFoundError as error:
        extra = "local" if name == "local" else "clients"
        raise RefoldError(f"{name} needs {error.name}: {install_hint(extra)}") from None
    # Programs that set up no logging would print every retry; programs that do still get it.
    logger = logging.getLogger("stamina")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return httpx2


class Transport:
    """Sends requests to one target."""

    def __init__(self, name: str, target: Target, deadlines: Deadlines) -> None:
        self._name = name
        self._target = target
        self._deadlines = deadlines
        self._tls: ssl.SSLContext | bool | None = None

    async def run(self, begin: Callable[[], Exchange[T]], attempts: int = ATTEMPTS) -> T:
        """Carry an exchange out, and again while the failure is transient; raise `Failure`."""
        from stamina import retry_context

        ends = time.monotonic() + self._deadlines.total

        def should_retry(error: Exception) -> bool | float:
            """Return True to try again, False to give up, or the seconds to wait before another attempt."""
            if not isinstance(error, Failure) or not error.is_transient:
                return False
            left = ends - time.monotonic()
            if error.retry_after is None:
                return left > 1  # less than a second is too short for any answer
            return error.retry_after if error.retry_after <= min(RETRY_AFTER_SECONDS, left) else False

        # The waits are short, because a user waits; the jitter keeps parallel questions apart.
        retries = retry_context(
            should_retry, attempts=attempts, timeout=None, wait_initial=0.2, wait_jitter=0.3
        )
        async for attempt in retries:
            with attempt:
                return await self._attempt(begin(), ends)
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, exchange: Exchange[T], ends: float) -> T:
        http = import_library(self._name)
        if self._tls is None:  # reading the certificates takes a few hundredths of a second
            self._tls = http.create_ssl_context() if self._target.base.startswith("https:") else False
        host = urlsplit(self._target.base).hostname or ""
        is_local = host in ("localhost", "::1") or host.startswith("127.")
        settings = {
            "timeout": http.Timeout(None, connect=self._deadlines.connect),
            "verify": self._tls,
            "trust_env": not is_local,  # an address on this machine is never meant for a proxy
        }
        output: Request | T | None = step(exchange, None)
        try:
            async with http.AsyncClient(**settings) as client:
                while isinstance(output, Request):
                    output = await self._send(client, output, exchange, ends)
        except Failure as failure:
            failure.redact(self._target.key)  # before anybody logs it
            raise
        assert output is not None  # noqa: S101  # a response ends in an answer, a request or an error
        return output

    async def _send(
        self, client: Any, request: Request, exchange: Exchange[T], ends: float
    ) -> Request | T | None:
        """Send a request and pass its response to the exchange; return what the exchange gives last."""
        import asyncio

        def left(seconds: float) -> float:
            return max(0.0, min(seconds, ends - time.monotonic()))

        loop = asyncio.get_running_loop()
        output: Request | T | None = None
        has_begun = False
        try:
            async with asyncio.timeout(left(self._deadlines.first)) as clock:
                sending = client.stream("POST", request.url, content=request.body, headers=request.headers)
                async with sending as response:
                    has_begun = True
                    head = Head(
                        status=response.status_code,
                        content_type=response.headers.get("content-type", ""),
                        retry_after=read_retry_after(response.headers, time.time()),
                    )
                    output = step(exchange, head)
                    async for chunk in response.aiter_bytes():
                        clock.reschedule(loop.time() + left(self._deadlines.idle))
                        output = step(exchange, chunk) if chunk and output is None else output
                        if output is not None:
                            return output
                    return step(exchange, b"")
        except TimeoutError:
            failure = self._explain_timeout(ends, has_begun=has_begun)
        except Failure:
            raise
        except Exception as error:  # noqa: BLE001  # the text of the library's errors may quote a header
            failure = _explain_network_error(error, has_begun=has_begun)
        return output if output is not None else fail(exchange, failure)

    def _explain_timeout(self, ends: float, *, has_begun: bool) -> Failure:
        deadlines = self._deadlines
        if time.monotonic() >= ends - 0.01:  # clocks of the loop and of the system differ a little
            reason = f"did not answer within {deadlines.total:g} seconds"
        elif has_begun:
            reason = f"stopped in the middle and said nothing for {deadlines.idle:g} seconds"
        else:
            reason = f"said nothing for {deadlines.first:g} seconds"
        return Failure(reason, is_timeout=True)


def _explain_network_error(error: Exception, *, has_begun: bool) -> Failure:
    """Explain an error of the library by its kind; its text may hold anything, also the key."""
    kind = type(error).__name__
    if kind == "ConnectError" and "CERTIFICATE_VERIFY_FAILED" in str(error):
        reason = "shows a certificate that this machine does not trust"
        return Failure(reason, cause=ConnectionError(reason))
    if kind in ("ConnectTimeout", "ConnectError"):
        reason = "cannot be reached: is it running, and is the address right?"
        is_timeout = kind == "ConnectTimeout"
        return Failure(reason, is_transient=True, is_timeout=is_timeout, cause=ConnectionError(reason))
    # Once the answer has begun, a retry would show its beginning twice.
    if has_begun:
        return Failure(f"broke off in the middle ({kind})", cause=ConnectionError(kind))
    reason = f"broke off without an answer ({kind})"
    return Failure(reason, is_transient=kind in _TRANSIENT_ERRORS, cause=ConnectionError(kind))
