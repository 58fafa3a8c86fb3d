"""The servers of bench/gateway.py, each run as a process: an upstream, and the thinnest proxy there can be.

    python bench/gateway_servers.py upstream
    python bench/gateway_servers.py floor ADDRESS

Each prints its port. The upstream answers `/chat/completions`: with JSON, or with 500 events where the body
asks for a stream. A model named `open` sends one event and then waits until somebody asks for `/end`.
"""

import asyncio
import json
import sys
from typing import Final

import aiohttp
from aiohttp import web

CHUNKS: Final = 500
_PAUSE_SECONDS: Final = 0.005
"""Between two events, so that each is read by itself, as a model's are."""
_HOP: Final = frozenset({"host", "content-length", "transfer-encoding", "connection"})
_DELTA: Final = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}
_EVENT: Final = (
    b"data: "
    + json.dumps(
        {**_DELTA, "choices": [{"index": 0, "delta": {"content": "word word word "}, "finish_reason": None}]}
    ).encode()
)
_LAST: Final = (
    b"data: "
    + json.dumps(
        {
            **_DELTA,
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 50, "completion_tokens": 5, "total_tokens": 55},
        }
    ).encode()
)
_ANSWER: Final = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-4o",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Done."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 50, "completion_tokens": 5, "total_tokens": 55},
}


class Upstream:
    """A provider that costs as little as it can."""

    def __init__(self) -> None:
        self._end = asyncio.Event()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        if request.path == "/end":
            self._end.set()
            return web.Response()
        body = await request.content.read()
        head, tail = body[:300], body[-300:]
        stays_open = b'"open"' in head
        if b'"stream": true' not in head + tail and b'"stream":true' not in head + tail:
            return web.json_response(_ANSWER)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for _ in range(1 if stays_open else CHUNKS):
            await response.write(_EVENT + b"\n\n")
            await asyncio.sleep(_PAUSE_SECONDS)
        if stays_open:
            await self._end.wait()
        await response.write(_LAST + b"\n\ndata: [DONE]\n\n")
        return response


class Floor:
    """Passes bytes on and knows nothing."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._client: aiohttp.ClientSession | None = None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Pass one request on."""
        if self._client is None:
            connector = aiohttp.TCPConnector(limit=0)
            self._client = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        body = await request.content.read()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        address = self._address + request.path_qs
        async with self._client.request(request.method, address, headers=headers, data=body) as upstream:
            kept = {name: value for name, value in upstream.headers.items() if name.lower() not in _HOP}
            response = web.StreamResponse(status=upstream.status, headers=kept)
            await response.prepare(request)
            async for piece in upstream.content.iter_any():
                await response.write(piece)
        return response


async def main() -> None:
    """Serve until the process is ended."""
    server = Upstream() if sys.argv[1] == "upstream" else Floor(sys.argv[2])
    listener = await asyncio.get_running_loop().create_server(
        web.Server(server.handle, access_log=None), "127.0.0.1", 0, backlog=4096
    )
    print(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]} ", flush=True)
    await listener.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
