"""One exchange: a caller's request goes to its upstream, and the answer comes back."""

import asyncio
from dataclasses import dataclass, replace

from aiohttp import web

from refold.gateway.bodies import PassedBody, has_body, read_body
from refold.gateway.forwarding import Answer, Outgoing, UpstreamClient
from refold.gateway.headers import forward_request_headers
from refold.gateway.history.conversations import Conversations
from refold.gateway.history.decoding import decode_body
from refold.gateway.history.hints import read_hints
from refold.gateway.history.session_calls import HistoryRequest
from refold.gateway.history.turns import Turn
from refold.gateway.history.usage import UsageReader
from refold.gateway.metrics import Metrics, find_family
from refold.gateway.options import GatewayOptions
from refold.gateway.refusals import Refusal
from refold.gateway.routes import Route, join_address


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all exchanges of a gateway use."""

    options: GatewayOptions
    client: UpstreamClient
    metrics: Metrics
    histories: Conversations | None
    """None: no history is looked at."""


class Exchange:
    """A request on its way."""

    def __init__(self, request: web.BaseRequest, route: Route, around: Surroundings) -> None:
        self.request, self.route, self.around = request, route, around
        self._since = asyncio.get_running_loop().time()
        self.model = ""
        """The family of the model, once it is known."""

    async def run(self) -> web.StreamResponse:
        """Pass the request on, and its answer back."""
        if not self.route.wire:
            return await self._pass_other()
        body = await read_body(self.request, self.around.options)
        turn = await self._prepare(body)
        self.model = find_family(turn.model) if turn.model else ""
        outgoing = self._make_outgoing(body if turn.body is None else turn.body)
        if turn.body is not None:
            outgoing.headers.popall("Content-Encoding", None)  # it came compressed and goes on as text
        return await self._pass_answer(await self._send(outgoing), turn)

    async def _pass_other(self) -> web.StreamResponse:
        """Pass on what has no history, body and all, as it comes."""
        request = self.request
        body = PassedBody(request, self.around.options) if has_body(request) else None
        outgoing = replace(self._make_outgoing(None), body=body)
        if body is not None and request.content_length is not None:
            outgoing.headers["Content-Length"] = str(request.content_length)
        try:
            answer = await self._send(outgoing)
        except Refusal:
            if body is not None and body.refusal is not None:
                raise body.refusal from None
            raise
        try:
            return await answer.pass_on(request, {}, lambda _piece: None)
        finally:
            answer.close()

    async def _prepare(self, body: bytes) -> Turn:
        """Return what becomes of the history in a body."""
        histories, route, headers = self.around.histories, self.route, self.request.headers
        if histories is None:
            return Turn(fold="bypassed")
        hints = read_hints(headers, route.wire)
        text = decode_body(body, headers.get("Content-Encoding", ""), self.around.options.max_body)
        if text is None:
            return Turn(fold="none")
        endpoint = self.around.options.upstream(route.upstream)
        betas = headers.get("anthropic-beta", "")
        turn = await histories.prepare(
            HistoryRequest(route.wire, text, hints, endpoint, betas, counts=route.counts)
        )
        self.around.metrics.note_turn(route.wire, turn)
        return turn

    def _make_outgoing(self, body: bytes | None) -> Outgoing:
        request, route = self.request, self.route
        _, mark, query = request.raw_path.partition("?")
        address = join_address(self.around.options.upstream(route.upstream), route) + mark + query
        headers = forward_request_headers(request.raw_headers, reads_answer=bool(route.wire))
        return Outgoing(request.method, address, headers, body)

    async def _send(self, outgoing: Outgoing) -> Answer:
        upstream = await self.around.client.send(outgoing, self.around.options)
        seconds = asyncio.get_running_loop().time() - self._since
        self.around.metrics.first_byte.labels(self.route.wire or "other").observe(seconds)
        return Answer(upstream, self.around.options, self.route.wire)

    async def _pass_answer(self, answer: Answer, turn: Turn) -> web.StreamResponse:
        """Pass the answer on, and have its usage recorded however it ends."""
        reader = UsageReader(is_stream=answer.is_stream)
        histories, is_good = self.around.histories, answer.upstream.status < 300
        try:
            return await answer.pass_on(self.request, turn.headers, reader.feed)
        finally:
            answer.close()
            if histories is not None and is_good:
                histories.observe(turn, self.route.wire, reader.finish())
