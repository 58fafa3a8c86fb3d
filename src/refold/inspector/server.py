"""`InspectorServer`: the inspector alone, to look at a store without traffic."""

import asyncio
import logging
import ssl
from typing import Self

from aiohttp import web

from refold.errors import RefoldError
from refold.inspector.http.answers import answer_text
from refold.inspector.http.paths import is_inspector_path
from refold.inspector.inspector import Inspector
from refold.inspector.options import InspectorOptions
from refold.inspector.scopes import FindLive, find_none

_MAX_HEADER = 2**14
_ENDING_SECONDS = 1.0
"""Seconds that open streams get to end."""


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
        self._server = web.Server(
            self._handle,
            access_log=None,
            logger=make_silent_logger(),
            max_line_size=_MAX_HEADER,
            max_field_size=_MAX_HEADER,
            handler_cancellation=True,  # a page that leaves ends its stream of events
        )
        options = self.options
        context = make_tls_context(options.certificate, options.certificate_key)
        self._listener = await asyncio.get_running_loop().create_server(
            self._server, options.host.strip("[]"), options.port, ssl=context
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
        if is_inspector_path(request.raw_path.partition("?")[0]):
            return await self.inspector.handle(request)
        return self.inspector.door.check_host(request) or answer_text("not found\n", status=404)


def make_tls_context(certificate: str, key: str) -> ssl.SSLContext | None:
    """Return how to speak TLS; None without a certificate."""
    if not certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise RefoldError(f"the certificate {certificate} cannot be used: {error}") from None
    return context


def make_silent_logger() -> logging.Logger:
    """Return a logger for the HTTP library: its lines about bad requests may hold parts of headers."""
    logger = logging.Logger("refold.inspector.http")  # noqa: LOG001  # one that nobody else can configure
    logger.disabled = True
    return logger
