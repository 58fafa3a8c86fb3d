"""Bodies of requests: read within limits, or passed on piece by piece."""

import asyncio
from collections.abc import AsyncIterator

from aiohttp import web

from refold.gateway.http.refusals import Refusal
from refold.gateway.options import GatewayOptions


async def read_body(request: web.BaseRequest, options: GatewayOptions) -> bytes:
    """Read a whole body in time; a longer one than allowed is refused before it is read."""
    _refuse_long(request, options)
    await _continue(request)
    if request.content.is_eof() and request.content_length is not None:  # it came with the headers
        return request.content.read_nowait()
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(options.body_seconds):
            async for piece in request.content.iter_any():
                size += len(piece)
                if size > options.max_body:
                    raise _too_large(options)
                pieces.append(piece)
    except TimeoutError:
        raise Refusal(408, "body-deadline", "the body did not arrive in time") from None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class PassedBody:
    """A body that is passed on as it comes. If it is refused on the way, `refusal` says why."""

    def __init__(self, request: web.BaseRequest, options: GatewayOptions) -> None:
        _refuse_long(request, options)
        self._request, self._options = request, options
        self.refusal: Refusal | None = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the pieces; each must come in time, and all together must not be too long."""
        size, options = 0, self._options
        await _continue(self._request)
        while True:
            try:
                async with asyncio.timeout(options.body_seconds):
                    piece = await self._request.content.readany()
            except TimeoutError:
                self.refusal = Refusal(408, "body-deadline", "the body did not arrive in time")
                raise self.refusal from None
            if not piece:
                return
            size += len(piece)
            if size > options.max_body:
                self.refusal = _too_large(options)
                raise self.refusal
            yield piece


def has_body(request: web.BaseRequest) -> bool:
    """True if the request has a body, perhaps an empty one."""
    return "Content-Length" in request.headers or "Transfer-Encoding" in request.headers


def _refuse_long(request: web.BaseRequest, options: GatewayOptions) -> None:
    if (request.content_length or 0) > options.max_body:
        raise _too_large(options)


async def _continue(request: web.BaseRequest) -> None:
    """Tell a caller that waits before it sends its body, such as curl, to go on."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the answer itself has not begun


def _too_large(options: GatewayOptions) -> Refusal:
    return Refusal(413, "body-size", f"the body is larger than {options.max_body:,} bytes")
