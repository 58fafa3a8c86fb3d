"""Send a request to its upstream and pass the answer on, byte for byte; knows no history and no session."""

import asyncio
import logging
import os
import re
from collections import deque
from collections.abc import AsyncIterable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from refold.gateway.http.headers import forward_response_headers
from refold.gateway.http.idle_timer import IdleTimer
from refold.gateway.http.refusals import Refusal, write_error_event
from refold.gateway.http.upstream_addresses import CheckedResolver, InternalAddress
from refold.gateway.options import GatewayOptions

_ADDED_HEADERS: Final = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
"""Headers that the client library would add where the caller sent none."""
_KEPT_SECONDS: Final = 15.0
"""Seconds that an unused connection to an upstream is kept. A server that closes one in the very moment in
which it is used again costs the caller an error, since a request is never sent twice."""
_HEADER_SECONDS: Final = 2.0
"""Seconds that headers wait for the first piece: an upstream that is lost by then is a 502."""
_UNDRAINED_BYTES: Final = 32 * 1024
"""Bytes of a whole answer for which a write never waits: the library waits for a caller from 64 kB on."""
_EVENT_BYTES: Final = 64 * 1024
"""Bytes of an event that wait for its end; a longer one goes on in pieces."""
_EVENT_END: Final = b"\n\n"
_WHOLE_EVENTS: Final = re.compile(rb"(?s:.*)(?:\n\n|\n\r\n|\r\r)(?::[^\n]*\n)*")
"""All events up to the last one that is at its end; the comments behind it keep a caller awake."""
_LOGGER: Final = logging.getLogger("refold.gateway")
_NO_CONNECTION: Final = (
    (aiohttp.ConnectionTimeoutError, "it does not answer"),
    (aiohttp.ClientConnectorCertificateError, "its certificate is not trusted"),
    (aiohttp.ClientSSLError, "it does not speak TLS"),
    (aiohttp.ClientConnectorDNSError, "its name is not found"),
)
"""Why there is no connection; otherwise the system says it."""
LOST: Final = ("upstream-lost", "the upstream was lost before the end of its answer")


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request as it goes upstream."""

    method: str
    address: str
    setting: str
    """The setting that names the upstream."""
    headers: CIMultiDict[str]
    body: bytes | AsyncIterable[bytes] | None = None


class UpstreamClient:
    """The connections to the upstreams. It follows no redirect, keeps no cookie, reads no proxy setting."""

    def __init__(self) -> None:
        self._resolver = CheckedResolver()
        self._unreached: set[str] = set()
        """Upstreams that could not be reached the last time: the log has one line for each."""
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT_SECONDS, resolver=self._resolver)
        self._client = aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_ADDED_HEADERS,
            read_bufsize=2**17,
            max_line_size=2**16,
            max_field_size=2**16,
        )

    async def send(self, outgoing: Outgoing, options: GatewayOptions) -> aiohttp.ClientResponse:
        """Send a request and return the answer as soon as its headers are there."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=options.connect_seconds)
        self._resolver.allowed = options.allow_internal
        address = URL(outgoing.address, encoded=True)
        upstream = f"{address.scheme}://{address.raw_authority}"  # path and query may hold a key
        try:
            async with asyncio.timeout(options.first_byte_seconds):
                response = await self._client.request(
                    outgoing.method,
                    address,
                    headers=outgoing.headers,
                    data=outgoing.body,
                    allow_redirects=False,
                    timeout=timeout,
                )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            cause = getattr(error, "os_error", None)
            if isinstance(cause, InternalAddress):
                text = f"the name of {upstream} leads to an address of the own network: see allow_internal"
                raise Refusal(502, "upstream-address", text) from None
            said = os.strerror(getattr(cause, "errno", None) or 0)
            why = next((words for kind, words in _NO_CONNECTION if isinstance(error, kind)), said)
            text = (
                f"the upstream {upstream} cannot be reached ({why}): check that it runs, that this machine"
                f" may reach it, and the address in {outgoing.setting}"
            )
            if upstream not in self._unreached:
                _LOGGER.warning("%s", text)
                self._unreached.add(upstream)
            raise Refusal(502, "connect", text) from None
        except TimeoutError:
            text = f"the upstream {upstream} did not answer in time: see first_byte_seconds"
            raise Refusal(504, "first-byte-deadline", text) from None
        except (aiohttp.ClientError, OSError):
            text = f"the upstream {upstream} closed the connection without an answer"
            raise Refusal(502, "upstream", text) from None
        self._unreached.discard(upstream)
        return response

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()
        await self._resolver.close()


class _WholeResponse(web.StreamResponse):
    """An answer that is there as a whole, so that its headers wait for its body: one packet, not two."""

    _send_headers_immediately = False


class Answer:
    """An upstream's answer that is passed on; what was read of it already goes first."""

    def __init__(self, upstream: aiohttp.ClientResponse, options: GatewayOptions, wire: str) -> None:
        self.upstream, self.wire = upstream, wire
        self.held: list[bytes] = []
        self.lost = False
        """True if the upstream was lost before the end."""
        self._end = _EVENT_END
        """The end of what was passed on of a stream; exactly this one if no event is cut there."""
        self._since = asyncio.get_running_loop().time()
        self._idle_timer = IdleTimer(options.idle_seconds)

    @property
    def is_stream(self) -> bool:
        """True for a stream of events that can be read."""
        kind = self.upstream.headers.get("Content-Type", "").lower()
        return kind.startswith("text/event-stream") and self.encoding in ("", "identity")

    @property
    def encoding(self) -> str:
        """How the answer is compressed, although nobody asked for that."""
        return self.upstream.headers.get("Content-Encoding", "").strip().lower()

    async def read(self) -> bytes:
        """Return the next piece; empty at the end, and where the upstream is lost or silent for too long."""
        content = self.upstream.content
        try:
            if content.is_eof():  # all of it is here, so that nothing is waited for
                return content.read_nowait()
            self._idle_timer.begin(self._end_reading)
            return await content.readany()
        except (TimeoutError, aiohttp.ClientError, OSError):
            self.lost = True
            return b""
        finally:
            self._idle_timer.end()

    def _end_reading(self) -> None:
        self.upstream.content.set_exception(TimeoutError("the upstream is silent"))

    @property
    def status(self) -> int:
        """The upstream's status."""
        return self.upstream.status

    async def hold(self, *, seconds: float, max_bytes: int, look: Callable[[bytes], bool]) -> bytes:
        """Hold pieces back until `look` is true of one, a bound is reached or the answer ends."""
        size = 0
        try:
            async with asyncio.timeout(seconds):
                while size < max_bytes and (piece := await self.read()):
                    self.held.append(piece)
                    size += len(piece)
                    if look(piece):
                        break
        except TimeoutError:
            pass  # the caller has waited long enough for the first piece
        return b"".join(self.held)

    async def pass_on(
        self, request: web.BaseRequest, own_headers: dict[str, str], look: Callable[[bytes], None]
    ) -> web.StreamResponse:
        """Write the answer to the caller as it comes; `look` is given each piece behind its back."""
        if not self.held and not self.upstream.content.is_eof():
            seconds = self._since + _HEADER_SECONDS - asyncio.get_running_loop().time()
            await self.hold(seconds=seconds, max_bytes=1, look=lambda _piece: True)
        if self.lost and not self.held:
            raise Refusal(502, *LOST)
        headers = forward_response_headers(self.upstream.raw_headers)
        headers.update(own_headers)
        make = _WholeResponse if self.upstream.content.is_eof() else web.StreamResponse
        response = make(status=self.upstream.status, reason=self.upstream.reason, headers=headers)
        await response.prepare(request)
        await self._write_pieces(request, response, look)
        if self.lost:
            await self._end_lost(request, response)
        else:
            await response.write_eof()
        return response

    async def _write_pieces(
        self, request: web.BaseRequest, response: web.StreamResponse, look: Callable[[bytes], None]
    ) -> None:
        """Write every piece; a caller who reads nothing for too long is left."""
        transport, timer, content = request.transport, self._idle_timer, self.upstream.content
        leave = self._end_reading if transport is None else transport.abort
        held, rest, is_stream = deque(self.held), b"", self.is_stream
        self.held.clear()
        try:
            while piece := held.popleft() if held else await self.read():
                look(piece)
                if is_stream and not rest and piece.endswith(_EVENT_END):  # as nearly every piece does
                    self._end = _EVENT_END
                elif is_stream:
                    # half an event tells a reader nothing, and an error event cannot follow it
                    tail = (self._end + rest[-3:])[-3:]
                    found = _WHOLE_EVENTS.match(tail + piece)
                    cut = 0 if found is None else max(0, len(rest) - len(tail) + found.end())
                    piece = rest + piece
                    if len(piece) - cut >= _EVENT_BYTES:
                        cut, self._end = len(piece), piece[-3:]
                    elif cut:
                        self._end = _EVENT_END
                    piece, rest = piece[:cut], piece[cut:]
                if piece:
                    if is_stream or held or len(piece) > _UNDRAINED_BYTES or not content.at_eof():
                        timer.begin(leave)
                    await response.write(piece)
            if rest and not self.lost:
                await response.write(rest)
        finally:
            timer.end()

    async def _end_lost(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Tell a reader of whole events that the rest is lost; else the connection breaks."""
        # a length that the upstream named has no room for one event more
        if self.is_stream and self._end == _EVENT_END and "Content-Length" not in self.upstream.headers:
            await response.write(write_error_event(self.wire, *LOST))
            await response.write_eof()
        elif request.transport is not None:
            request.transport.abort()
            with suppress(ConnectionError):
                await response.write_eof()

    def close(self) -> None:
        """Close the connection if the answer is not at its end."""
        self._idle_timer.close()
        self.upstream.close()
