"""`InspectorServer`: the inspector alone, to look at a store without traffic."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Final, Self, cast

from aiohttp import EMPTY_PAYLOAD, web

from refold.errors import FormatError
from refold.inspector.http.answers import answer_text
from refold.inspector.http.paths import is_inspector_path
from refold.inspector.inspector import Inspector
from refold.inspector.options import MAX_HEADER_BYTES, InspectorOptions
from refold.inspector.scopes import FindLive, find_none

_KEPT_SECONDS: Final = 75.0
"""Seconds that an unused connection of a caller is kept; a load balancer keeps its own for a minute."""
_ENDING_SECONDS: Final = 1.0
"""Seconds that open streams get to end."""
_TOO_SLOW: Final = (
    b"HTTP/1.1 408 Request Timeout\r\nx-refold-error: header-deadline\r\n"
    b"Connection: close\r\nContent-Length: 0\r\n\r\n"
)
_SILENT: Final = logging.Logger("refold.inspector.http")  # noqa: LOG001  # one that nobody else can configure
"""For the HTTP library, whose lines about bad requests may hold parts of headers."""
_SILENT.disabled = True


class InspectorServer:
    """One inspector in one event loop.

    async with InspectorServer(InspectorOptions(store="sqlite:talks.db", port=0)) as server:
        print(server.url)
    """

    def __init__(self, options: InspectorOptions, *, find_live: FindLive = find_none) -> None:
        """Check the options; nothing is opened yet.

        find_live   returns an open session by tenant and name, where the same process has one
        """
        self.options = options
        self.inspector = Inspector(options, find_live=find_live)

    async def start(self) -> None:
        """Begin to listen."""
        # a page that leaves ends its stream of events
        self._server, options = web.Server(self._handle, handler_cancellation=True), self.options
        context = make_tls_context(options.certificate, options.certificate_key)
        self._listener = await asyncio.get_running_loop().create_server(
            lambda: Connection(
                self._server, lambda: options.header_seconds, lambda why: answer_text(f"{why}\n", status=400)
            ),
            options.host.strip("[]"),
            options.port,
            ssl=context,
        )
        self.inspector.start(self.port)

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self._listener.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """The first address, with the token."""
        return self.inspector.url

    @property
    def store_address(self) -> str:
        """The address of the store that it shows."""
        return self.inspector.store_address

    async def close(self) -> None:
        """Close everything."""
        self._listener.close()
        self.inspector.hub.close()
        self._server.pre_shutdown()
        await self._server.shutdown(_ENDING_SECONDS)
        await self.inspector.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        cast("Connection", request.protocol).begin_answer()
        if is_inspector_path(request.raw_path.partition("?")[0]):
            return await self.inspector.handle(request)
        return self.inspector.access.check_host(request) or answer_text("not found\n", status=404)


def make_tls_context(certificate: str, key: str) -> ssl.SSLContext | None:
    """Return how to speak TLS; None without a certificate."""
    if not certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise FormatError(f"{certificate} cannot be used: {error}", path="tls_certificate") from None
    return context


class Connection(web.RequestHandler):
    """A connection of a caller; it is closed if the headers of a request do not come in time."""

    __slots__ = ("_body", "_deadline", "_find_seconds", "_has_begun", "_is_answering", "_refuse")

    def __init__(
        self, server: web.Server, find_seconds: Callable[[], float], refuse: Callable[[str], web.Response]
    ) -> None:
        """Begin the deadline for headers; `refuse` returns the answer to what is no HTTP."""
        loop = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type]  # the library takes it for no log
            logger=_SILENT,
            keepalive_timeout=_KEPT_SECONDS,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            auto_decompress=False,
            lingering_time=0.5,
            read_bufsize=2**17,
        )
        self._find_seconds, self._refuse, self._is_answering = find_seconds, refuse, False
        self._body, self._has_begun = EMPTY_PAYLOAD, False
        self._deadline: asyncio.TimerHandle | None = loop.call_later(find_seconds(), self._close_late)

    def data_received(self, data: bytes) -> None:
        """Begin the deadline behind an answer, unless all headers came at once, as nearly always they do.

        That of the first request runs already.
        """
        # The rest of a body that nobody read and an empty line begin no request: a client that keeps the
        # connection would read a 408 as the answer to its next one.
        begins = not self._is_answering and self._body.is_eof() and bool(data.strip())
        super().data_received(data)
        self._has_begun = self._has_begun or begins
        if begins and self._deadline is None and not self._messages:
            self._deadline = self._loop.call_later(self._find_seconds(), self._close_late)

    def _close_late(self) -> None:
        """Close the connection, and say why if a request has begun and no answer is being written."""
        if self._has_begun and self._waiter is not None and self.transport is not None:
            self.transport.write(_TOO_SLOW)
        self.force_close()

    def begin_answer(self) -> None:
        """End the deadline: the headers are there."""
        self._is_answering = True
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> Coroutine[Any, Any, tuple[web.StreamResponse, bool]]:
        """Send what is left of an answer; what comes now is the next request."""
        self._is_answering, self._body = False, request.content
        return super().finish_response(request, resp, start_time)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the deadline with the connection."""
        self.begin_answer()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no HTTP. The library would quote the line, which may hold a key."""
        if status != 400:
            return super().handle_error(request, status, exc, message)
        why = f"the request is no correct HTTP, or a header is larger than {MAX_HEADER_BYTES:,} bytes"
        return self._refuse(why)
