"""One exchange: a caller's request goes to its upstream, and the answer comes back."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from refold.core.messages.quick_init import quick_replace
from refold.core.overflow.detect import is_vague
from refold.gateway.history.caller_summaries import Access, read_key
from refold.gateway.history.decoding import decode_body
from refold.gateway.history.hints import read_hints
from refold.gateway.history.refused import read_refusal
from refold.gateway.history.session_calls import HistoryRequest
from refold.gateway.history.tenants import Tenants, find_tenant
from refold.gateway.history.turns import Turn
from refold.gateway.history.usage import UsageReader, describe_usage
from refold.gateway.http.bodies import PassedBody, has_body, read_body
from refold.gateway.http.forwarding import LOST, Answer, Outgoing, UpstreamClient
from refold.gateway.http.headers import forward_request_headers
from refold.gateway.http.refusals import Refusal
from refold.gateway.http.routes import Route, asks_model, join_address
from refold.gateway.http.sent_keys import get_upstream_key, replace_key
from refold.gateway.metrics import Metrics, find_family
from refold.gateway.options import GatewayOptions
from refold.gateway.virtual_keys import PREFIX, VirtualKey
from refold.inspector.live.traffic import FOLD_CLAUSES, TrafficRow

if TYPE_CHECKING:
    from refold.gateway.history.conversations import Conversations

_FIRST_BAD_STATUS: Final = 300
_DECODED_AT_ONCE: Final = 2**20
"""Bytes of a compressed body and of its text, up to which decoding takes less time than other requests feel:
some milliseconds. What is larger is decoded in a thread."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all exchanges of a gateway use."""

    options: GatewayOptions
    client: UpstreamClient
    metrics: Metrics
    tenants: Tenants | None
    """None: no history is looked at."""
    on_usage: Callable[[], None] = lambda: None
    """Called when the usage of an answer is stored, so that pages that look on see it."""


class Exchange:
    """A request on its way."""

    def __init__(self, request: web.BaseRequest, route: Route, around: Surroundings, row: TrafficRow) -> None:
        self.request, self.route, self.around, self.row = request, route, around, row
        self._since = asyncio.get_running_loop().time()
        self._answers: list[Answer] = []
        self._tenant = ""
        self._histories: Conversations | None = None
        """The conversations of its tenant, once they are needed."""
        self._virtual: VirtualKey | None = None
        """What its key stands for, if that is one of the operator's own."""
        self.model = ""
        """The family of the model, once it is known."""

    async def run(self) -> web.StreamResponse:
        """Pass the request on, and its answer back."""
        self._virtual = self._find_virtual_key()
        try:
            return await (self._pass_history() if self.route.wire else self._pass_other())
        finally:
            for answer in self._answers:
                answer.close()
            if self.is_lost:
                self.row.explain(LOST[1])
            if self._histories is not None and self.around.tenants is not None:
                self.around.tenants.leave(self._tenant)

    @property
    def is_lost(self) -> bool:
        """True if the upstream was lost before the end of its answer."""
        return bool(self._answers) and self._answers[-1].lost

    def _find_virtual_key(self) -> VirtualKey | None:
        tenants = self.around.tenants
        found = None if tenants is None else tenants.find_virtual_key(self.request.headers)
        has_own = tenants is not None and bool(tenants.options.virtual_keys)
        if has_own and any(value.startswith(PREFIX) for value in self.request.query.values()):
            raise Refusal(401, "key", "a virtual key is sent in a header, not in the address")
        if found is not None:
            if not asks_model(self.request.method, self.route):
                raise Refusal(403, "key", "this key is for models, not for what an account stores")
            get_upstream_key(found, self.route.upstream)  # refuses the request before anything is kept of it
        return found

    @property
    def _endpoint(self) -> str:
        """The address of the upstream."""
        upstream = self.route.upstream
        own = None if self._virtual is None else self._virtual.upstreams.get(upstream)
        return own or self.around.options.upstream(upstream)

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
        return await answer.pass_on(request, {}, self._count_piece)

    def _count_piece(self, piece: bytes) -> None:
        self.row.sizes.bytes_out += len(piece)

    async def _pass_history(self) -> web.StreamResponse:
        """Pass on a request with a history, and its answer back."""
        answer, turn = await self._exchange_history()
        # a stream may last for minutes: the bodies of thousands of requests must not wait with it
        return await self._pass_answer(
            answer, quick_replace(turn, body=None, split=None, late=None, undo=None)
        )

    async def _exchange_history(self) -> tuple[Answer, Turn]:
        """Send a request with a history; one that is refused for its size is folded and sent once more."""
        body = await read_body(self.request, self.around.options)
        self.row.sizes.bytes_in = len(body)
        self.row.times.end_phase("read")
        turn = await self._prepare(body)
        self.model = find_family(turn.model) if turn.model else ""
        self._note_turn(turn)
        answer = await self._send(self._make_outgoing(turn.body or body, is_text=turn.body is not None))
        refusal = await _read_refusal(answer, turn)
        return (answer, turn) if refusal is None else await self._send_again(answer, turn, refusal)

    async def _send_again(self, answer: Answer, turn: Turn, refusal: Any) -> tuple[Answer, Turn]:
        """Fold harder and send once more; what is refused then goes to the caller in the upstream's words."""
        histories = self._histories
        harder = None if histories is None else await histories.recover(turn, self.route.wire, refusal)
        self.row.times.end_phase("fold")
        if harder is None and is_vague(refusal):
            self.row.explain("refused without a word on its size, which is no larger than usual")
            return answer, turn
        if harder is None or harder.body is None:
            self.row.explain("refused for its size, and no smaller view was found")
            return answer, replace(turn, fold="failed")
        answer.close()
        self.row.explain("refused for its size: folded harder and sent once more")
        is_taken = False
        try:
            outgoing = self._make_outgoing(harder.body, is_text=True)
            outgoing.headers.popall("Idempotency-Key", None)  # it stands for the body that was refused
            again = await self._send(outgoing)
            is_refused = await _read_refusal(again, harder) is not None
            is_taken = not is_refused and (harder.undo is None or again.status < _FIRST_BAD_STATUS)
        finally:  # a caller may have left
            if histories is not None and harder.undo is not None and not is_taken:
                histories.take_back(harder)
        return again, harder if is_taken else replace(harder, fold="failed")

    async def _prepare(self, body: bytes) -> Turn:
        """Return what becomes of the history in a body."""
        tenants, route, headers = self.around.tenants, self.route, self.request.headers
        if tenants is None:
            self.row.explain("histories are not kept here")
            return Turn(fold="bypassed")
        hints = read_hints(headers, route.wire)
        text = await self._decode(body, headers.get("Content-Encoding", ""))
        if text is None:
            self.row.explain("its body cannot be decoded")
            return Turn(fold="none")
        endpoint = self._endpoint
        betas = headers.get("anthropic-beta", "")
        tenant = find_tenant(headers, tenants.options, self._virtual)
        if tenant is None:
            self.row.explain("it names no tenant, so that its history is not kept")
            return Turn(fold="bypassed;tenant")
        self._tenant, self._histories = tenant, tenants.enter(tenant)
        self.row.tenant, self.row.client = tenant, self.row.client or hints.client.partition(":")[0]
        pays = tenants.options.ask is None and bool(tenants.options.summary_model)
        access = self._find_access(endpoint) if pays else None
        history = HistoryRequest(route.wire, text, hints, endpoint, betas, route.counts, access, self.row)
        return await self._histories.prepare(history)

    async def _decode(self, body: bytes, encoding: str) -> bytes | None:
        """Return a body as it was before it was compressed; None if it cannot be read here."""
        if not encoding:
            return body
        most = self.around.options.max_body
        if len(body) <= _DECODED_AT_ONCE:
            with suppress(Refusal):  # a small body may hold a large text
                return decode_body(body, encoding, min(most, _DECODED_AT_ONCE))
        return await asyncio.to_thread(decode_body, body, encoding, most)

    def _find_access(self, endpoint: str) -> Access | None:
        """Return the way to the upstream for summaries that its caller pays for."""
        if self._virtual is not None:
            key: str | None = get_upstream_key(self._virtual, self.route.upstream)
        else:
            key = read_key(self.request.headers, self.route.wire)
        return Access(endpoint, key, self.around.options.allow_internal) if key else None

    def _note_turn(self, turn: Turn) -> None:
        """Note in the traffic what became of a history."""
        row = self.row
        row.fold, row.sizes.tokens, row.model = turn.fold, turn.tokens, turn.model
        row.session = None if turn.conversation is None else turn.conversation.name
        if clause := FOLD_CLAUSES.get(turn.fold):
            row.explain(clause)
        row.times.end_phase("fold")

    def _make_outgoing(self, body: bytes | None, *, is_text: bool = False) -> Outgoing:
        """Return the request for the upstream.

        is_text   True if the body is plain text, although it may have come compressed
        """
        request, route = self.request, self.route
        _, mark, query = request.raw_path.partition("?")
        address = join_address(self._endpoint, route) + mark + query
        headers = forward_request_headers(request.raw_headers, reads_answer=bool(route.wire))
        if self._virtual is not None:
            replace_key(headers, self._virtual, route.upstream)
        if self.around.tenants is not None:
            self.around.tenants.remove_virtual_keys(headers)
        if is_text:
            headers.popall("Content-Encoding", None)
        return Outgoing(request.method, address, f"upstream_{route.upstream}", headers, body)

    async def _send(self, outgoing: Outgoing) -> Answer:
        self.row.sizes.bytes_sent = len(outgoing.body) if isinstance(outgoing.body, bytes) else 0
        upstream = await self.around.client.send(outgoing, self.around.options)
        self.row.statuses.append(upstream.status)
        self.row.times.end_phase("first_byte")
        seconds = asyncio.get_running_loop().time() - self._since
        metrics = self.around.metrics
        metrics.find(metrics.first_byte, self.route.wire or "other").observe(seconds)
        answer = Answer(upstream, self.around.options, self.route.wire)
        self._answers.append(answer)
        return answer

    async def _pass_answer(self, answer: Answer, turn: Turn) -> web.StreamResponse:
        """Pass the answer on, and have its usage recorded however it ends."""
        self.around.metrics.note_turn(self.route.wire, turn)
        self.row.fold, self.row.sizes.tokens = turn.fold, turn.tokens
        reader, sizes = UsageReader(is_stream=answer.is_stream), self.row.sizes
        histories, is_good = self._histories, answer.status < _FIRST_BAD_STATUS

        def look(piece: bytes) -> None:
            sizes.bytes_out += len(piece)
            reader.feed(piece)

        try:
            return await answer.pass_on(self.request, turn.headers, look)
        finally:
            if histories is not None and is_good:
                found = reader.finish()
                sizes.usage = describe_usage(found)
                refusals = () if turn.fold == "failed" else reader.refusals
                turn = replace(turn, fold="failed") if refusals else turn
                # what came too late to be answered by a smaller request helps the next one
                for report in (found, *refusals):
                    histories.observe(turn, self.route.wire, report, self.around.on_usage)


async def _read_refusal(answer: Answer, turn: Turn) -> Any | None:
    """Return a refusal that can be recovered; the history must be that of a session."""
    if turn.conversation is None and turn.late is None:
        return None
    beside = 0 if turn.split is None else turn.split.bytes_beside
    return await read_refusal(answer, is_folded=turn.body is not None, beside=beside)
