"""One exchange: a caller's request goes to its upstream, and the answer comes back."""

import asyncio

from aiohttp import web

from refold.gateway.bodies import PassedBody, has_body, read_body
from refold.gateway.forwarding import Answer, Outgoing, UpstreamClient
from refold.gateway.headers import forward_request_headers
from refold.gateway.metrics import Metrics
from refold.gateway.options import GatewayOptions
from refold.gateway.refusals import Refusal
from refold.gateway.routes import Route, join_address


class Exchange:
    """A request on its way."""

    def __init__(
        self,
        request: web.BaseRequest,
        route: Route,
        options: GatewayOptions,
        client: UpstreamClient,
        metrics: Metrics,
    ) -> None:
        self._request, self._route, self._options = request, route, options
        self._client, self._metrics = client, metrics
        self._since = asyncio.get_running_loop().time()

    async def run(self) -> web.StreamResponse:
        """Pass the request on, and its answer back."""
        if self._route.wire:
            return await self._pass_history(await read_body(self._request, self._options))
        return await self._pass_other()

    async def _pass_other(self) -> web.StreamResponse:
        """Pass on what has no history, body and all, as it comes."""
        request = self._request
        body = PassedBody(request, self._options) if has_body(request) else None
        outgoing = self._make_outgoing(None)
        if body is not None and request.content_length is not None:
            outgoing.headers["Content-Length"] = str(request.content_length)
        try:
            answer = await self._send(Outgoing(outgoing.method, outgoing.address, outgoing.headers, body))
        except Refusal:
            if body is not None and body.refusal is not None:
                raise body.refusal from None
            raise
        return await self._pass_answer(answer)

    async def _pass_history(self, body: bytes) -> web.StreamResponse:
        """Pass on a request that holds a history."""
        return await self._pass_answer(await self._send(self._make_outgoing(body)))

    def _make_outgoing(self, body: bytes | None) -> Outgoing:
        request, route = self._request, self._route
        _, mark, query = request.raw_path.partition("?")
        address = join_address(self._options.upstream(route.upstream), route) + mark + query
        headers = forward_request_headers(request.raw_headers, reads_answer=bool(route.wire))
        return Outgoing(request.method, address, headers, body)

    async def _send(self, outgoing: Outgoing) -> Answer:
        upstream = await self._client.send(outgoing, self._options)
        seconds = asyncio.get_running_loop().time() - self._since
        self._metrics.first_byte.labels(self._route.wire or "other").observe(seconds)
        return Answer(upstream, self._options, self._route.wire)

    async def _pass_answer(self, answer: Answer) -> web.StreamResponse:
        try:
            return await answer.pass_on(self._request, {}, lambda _piece: None)
        finally:
            answer.close()
