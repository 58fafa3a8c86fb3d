"""`Gateway`: listens, answers its own paths, and hands other requests to an exchange with an upstream."""

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final, Self, cast

from aiohttp import web

import refold
from refold.errors import describe_fault
from refold.gateway.exchange import Exchange, Surroundings
from refold.gateway.history.tenants import Tenants, find_tenant
from refold.gateway.http.admission import TOKEN_HEADER, admit
from refold.gateway.http.forwarding import LOST, UpstreamClient
from refold.gateway.http.refusals import Refusal
from refold.gateway.http.routes import find_route
from refold.gateway.metrics import CONTENT_TYPE, Metrics
from refold.gateway.options import (
    GatewayOptions,
    HistoryOptions,
    check_histories,
    check_options,
    make_inspector_options,
)
from refold.inspector.http.paths import is_inspector_path
from refold.inspector.inspector import Inspector
from refold.inspector.live.traffic import Traffic, TrafficRow
from refold.inspector.options import NO_NAMES
from refold.inspector.server import Connection, make_tls_context
from refold.session.opening import find_store

_LOGGER: Final = logging.getLogger("refold.gateway")
_PROBES: Final = ("/healthz", "/readyz")
_LINK: Final = "/inspect/link"
"""Where a tenant gets the address of its own page, by the key with which it calls a model."""
_PAGES: Final = (
    "/healthz, /readyz: whether it can serve | /metrics: its numbers | /inspect: sessions and traffic\n"
)
_OWN_PATHS: Final = (*_PROBES, "/metrics", _LINK)
_FIXED: Final = ("host", "port", "inspect_token", "behind_proxy", "tls_certificate", "tls_key")
"""Options that hold as long as the gateway runs."""
_RETRY_SECONDS: Final = "1"
_ENDING_SECONDS: Final = 1.0
"""Seconds that a cancelled request gets to close its upstream."""


class Gateway:
    """One gateway in one event loop.

    async with Gateway(GatewayOptions(port=0)) as gateway:
        print(gateway.address)
    """

    def __init__(
        self, options: GatewayOptions | None = None, histories: HistoryOptions | None = None
    ) -> None:
        """Check the options; nothing is opened yet.

        histories   how histories are kept and folded; without it every request goes on as it came
        """
        self.options = options or GatewayOptions()
        self._history_options = histories
        self._tenants: Tenants | None = None
        check_options(self.options)
        if histories is not None:
            check_histories(histories)
        self.metrics = Metrics()
        self.metrics.open.set_function(lambda: self._open)
        self.traffic = Traffic()
        self.inspector: Inspector | None = None
        """The page /inspect; None while it is not served."""
        self._started: Inspector | None = None
        self.draining = False
        self._open = 0
        self._idle: asyncio.Event | None = None

    async def start(self) -> None:
        """Open the store and begin to listen; what fails leaves nothing open."""
        self._idle = asyncio.Event()
        self._idle.set()
        async with AsyncExitStack() as opened:
            if self._history_options is not None:
                histories = self._history_options = self._open_memory(self._history_options, opened)
                self._tenants = Tenants(histories)
                self.metrics.unsaved.set_function(self._tenants.count_unsaved)
                opened.push_async_callback(self._tenants.close)
                await self._tenants.is_ready()
            self._client = UpstreamClient()
            opened.push_async_callback(self._client.close)
            # a caller who leaves must not keep a model thinking
            self._server = web.Server(self._handle, handler_cancellation=True)
            context = make_tls_context(self.options.tls_certificate, self.options.tls_key)
            self._listener = await asyncio.get_running_loop().create_server(
                lambda: Connection(
                    self._server,
                    lambda: self.options.header_seconds,
                    lambda why: Refusal(400, "request", why).to_response("openai"),
                ),
                self.options.host.strip("[]"),
                self.options.port,
                ssl=context,
            )
            if self._tenants is not None and self.options.inspects:
                self.inspector = self._started = self._start_inspector(self._tenants)
                opened.push_async_callback(self.inspector.close)
            opened.push_async_callback(self._stop_listening)
            self._opened = opened.pop_all()

    def _open_memory(self, histories: HistoryOptions, opened: AsyncExitStack) -> HistoryOptions:
        """Return the options with a store in memory open, since nobody else can open the same one."""
        if histories.store != "memory:" or histories.tenancy != "single":
            return histories
        store = find_store(histories.store, None)
        opened.callback(store.close)
        return replace(histories, store=store)

    def _start_inspector(self, tenants: Tenants) -> Inspector:
        options = make_inspector_options(self.options, tenants.options)
        inspector = Inspector(options, traffic=self.traffic, find_live=tenants.find_live)
        inspector.start(int(self._listener.sockets[0].getsockname()[1]))
        return inspector

    @property
    def inspector_url(self) -> str:
        """The first address of the page /inspect, with its token; "" if it is not served."""
        return "" if self.inspector is None else self.inspector.url

    @property
    def address(self) -> str:
        """The address at which the gateway is reached."""
        host, port = self._listener.sockets[0].getsockname()[:2]
        scheme = "https" if self.options.tls_certificate else "http"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    def use(self, options: GatewayOptions) -> str:
        """Take other options for the requests to come; returns what of them needs a restart, or ""."""
        check_options(options)
        if self._tenants is not None:
            check_histories(self._tenants.options)
            self._tenants.read_virtual_keys()
        before, self.options = self.options, options
        fixed = [name for name in _FIXED if getattr(before, name) != getattr(options, name)]
        if self._started is not None:
            self._started.use(read_only=options.inspect_read_only, allow_hosts=options.allow_hosts)
            self.inspector = self._started if options.inspects else None
            if self.inspector is None:
                self._started.hub.close()
        elif self._tenants is not None and options.inspects:
            fixed.append("inspect")
        return f"these need a restart: {', '.join(fixed)}" if fixed else ""

    async def drain(self) -> None:
        """Refuse new requests, and let those that are open end in time."""
        self.draining = True
        if self._idle is not None:
            try:
                async with asyncio.timeout(self.options.drain_seconds):
                    await self._idle.wait()
            except TimeoutError:
                _LOGGER.warning("%d requests did not end in time and are closed", self._open)

    async def close(self) -> None:
        """Close everything at once; `drain` lets requests end before."""
        self.draining = True
        await self._opened.aclose()

    async def _stop_listening(self) -> None:
        self._listener.close()
        if self.inspector is not None:
            self.inspector.hub.close()
        self._server.pre_shutdown()
        await self._server.shutdown(_ENDING_SECONDS if self._open else 0)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- requests ------------------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; whatever goes wrong becomes an answer in the shape of its wire."""
        cast("Connection", request.protocol).begin_answer()
        path = request.raw_path.partition("?")[0]
        if self.inspector is not None and is_inspector_path(path) and path != _LINK:
            return await self.inspector.handle(request)
        route = find_route(request.method, path, request.headers)
        around = Surroundings(self.options, self._client, self.metrics, self._tenants, self._note_usage)
        exchange = Exchange(request, route, around, self._begin_row(request, path))
        self._begin()
        outcome, response = "client-gone", None
        try:
            response = await self._answer(exchange, path)
            outcome = LOST[0] if exchange.is_lost else f"{response.status // 100}xx"
        except Refusal as refusal:
            outcome = refusal.code
            response = refusal.to_response(route.upstream)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001  # a caller gets an answer in the shape of its wire
            outcome = "fault"
            _LOGGER.error("a request failed by a fault of the gateway: %s", describe_fault(error))  # noqa: TRY400  # an error's message may quote a text
            fault = Refusal(500, "fault", "a fault of the gateway; its log has the place")
            response = fault.to_response(route.upstream)
        finally:
            self._end()
            metrics, wire = self.metrics, route.wire or "other"
            metrics.find(metrics.requests, wire, exchange.model, outcome).inc()
            self._end_row(exchange.row, None if response is None else response.status, outcome)
        return response

    def _begin_row(self, request: web.BaseRequest, path: str) -> TrafficRow:
        """Begin the row of a request in the traffic; questions about this gateway have none there."""
        if path in _OWN_PATHS or (path == "/" and request.method in ("GET", "HEAD")):
            return TrafficRow()
        return self.traffic.begin(request.method, path, request.headers)

    def _end_row(self, row: TrafficRow, status: int | None, outcome: str) -> None:
        if row.begun.id:
            self.traffic.end(row, status, outcome)

    def _note_usage(self) -> None:
        if self.inspector is not None:
            self.inspector.note_session()

    def _begin(self) -> None:
        self._open += 1
        if self._idle is not None:
            self._idle.clear()

    def _end(self) -> None:
        self._open -= 1
        if self._open == 0 and self._idle is not None:
            self._idle.set()

    async def _answer(self, exchange: Exchange, path: str) -> web.StreamResponse:
        options, request = exchange.around.options, exchange.request
        # Probes tell nobody anything, and have no token. Claude Code sends HEAD / before its first request.
        is_probe = path in _PROBES or (request.method == "HEAD" and path == "/")
        admit(request, options, is_probe=is_probe)
        own = await self._answer_own_path(request, path)
        if own is not None:
            return own
        if path == _LINK and request.method == "GET" and self.inspector is not None:
            return self._answer_link(request)
        if is_inspector_path(path):
            why = "[serve] inspect, and beyond this machine REFOLD_SERVE_INSPECT_TOKEN"
            raise Refusal(404, "inspect", f"the inspector is not served here: {why}")
        if self.draining:
            raise Refusal(503, "draining", "the gateway is being stopped", Retry_After=_RETRY_SECONDS)
        if self._open > options.max_requests:
            raise Refusal(503, "busy", "too many requests at once", Retry_After=_RETRY_SECONDS)
        if options.strict_paths and not exchange.route.known:
            raise Refusal(404, "path", "none of the interfaces has this path")
        if request.headers.get("Upgrade", "").lower() == "websocket":
            # Codex tries a WebSocket first: after 426 it goes on over HTTP, after 404 it tries 7 times.
            raise Refusal(426, "websocket", "the gateway speaks HTTP; send the request without an upgrade")
        return await exchange.run()

    async def _answer_own_path(self, request: web.BaseRequest, path: str) -> web.Response | None:
        if request.method not in ("GET", "HEAD"):
            return None
        if path == "/":
            scheme = "https" if self.options.behind_proxy else self.address.partition(":")[0]
            _, *lines = describe_address(f"{scheme}://{request.host}").split(" | ")
            about = f"refold {refold.__version__}, a gateway for clients of OpenAI and Anthropic"
            return web.Response(text="\n".join([about, *lines, _PAGES]))
        if path == "/healthz":
            return web.Response(text="ok\n")
        if path == "/readyz":
            trouble = await self._find_trouble()
            return web.Response(text=f"{trouble or 'ok'}\n", status=503 if trouble else 200)
        if path == "/metrics":
            return web.Response(body=self.metrics.write(), headers={"Content-Type": CONTENT_TYPE})
        return None

    def _answer_link(self, request: web.BaseRequest) -> web.Response:
        """Return the address of the inspector for the tenant whose key came."""
        tenants, inspector = self._tenants, self.inspector
        if tenants is None or inspector is None or tenants.options.tenancy == "single":
            raise Refusal(404, "inspect", "there are no pages of tenants here: the server prints its address")
        virtual = tenants.find_virtual_key(request.headers)
        tenant = find_tenant(request.headers, tenants.options, virtual)
        if tenant is None:
            raise Refusal(401, "inspect", "send the key with which you call a model")
        headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        return web.Response(text=f"{inspector.make_url(tenant)}\n", headers=headers)

    async def _find_trouble(self) -> str:
        """Return why no requests should be sent here; "" if they may."""
        if self.draining:
            return "draining"
        is_ready = self._tenants is None or await self._tenants.is_ready()
        return "" if is_ready else "the store does not answer"


def describe_address(address: str, options: GatewayOptions | None = None) -> str:
    """Return the line that says where a gateway listens and how to point programs at it.

    options   of a gateway that has begun to listen at this address
    """
    beyond = ""
    if options is not None and options.host in NO_NAMES:  # a server listens there, and nobody calls it so
        scheme, port = address.partition(":")[0], address.rpartition(":")[2]
        local = "[::1]" if ":" in options.host else "127.0.0.1"  # on :: nothing is heard of the other
        address = f"{scheme}://{local}:{port}"
        beyond = f" | from other machines: this machine's name in place of {local}"
    if options is not None and options.token:
        beyond += f" | each request sends REFOLD_SERVE_TOKEN in the header {TOKEN_HEADER}"
    return (
        f"refold serve: {address}"
        f" | Claude Code: ANTHROPIC_BASE_URL={address} claude"
        f" | Codex: codex -c openai_base_url={address}/v1"
        f" | SDKs: base_url={address}/v1 (OpenAI), {address} (Anthropic){beyond}"
    )
