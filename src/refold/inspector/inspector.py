"""`Inspector`: answers every request below `/inspect`, in the process of a gateway or alone."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from aiohttp import web

from refold import __version__
from refold.errors import Conflict, RefoldError, SessionNotFound, StoreError, describe_fault
from refold.inspector.api import READS, WRITES, Asked, answer_read, answer_write, choose_scope, match_route
from refold.inspector.http.access import AccessControl, Visitor, find_origin
from refold.inspector.http.answers import ApiError, answer_json, answer_text
from refold.inspector.http.assets import find_assets
from refold.inspector.http.paths import Address, read_address
from refold.inspector.live.events import EventHub
from refold.inspector.live.traffic import KEPT, Traffic
from refold.inspector.live.watching import Watcher
from refold.inspector.options import InspectorOptions, check_inspector
from refold.inspector.scopes import FindLive, Scopes, find_none
from refold.inspector.views.entries import PAGE
from refold.inspector.views.plan_page import list_policies
from refold.inspector.views.shown import can_redact, find_redactor
from refold.stores import SessionInfo

T = TypeVar("T")
_LOGGER: Final = logging.getLogger("refold.inspector")
_THREADS: Final = 4
"""Reads of the store at the same time: the page asks for three things at once."""
_NO_ENTRY: Final = (
    "unauthorized: this address is old or wrong; open the one that the server printed last, or that"
    " /inspect/link gives for your key\n"
)
_WRITERS: Final = 2
"""Writes at the same time, in threads of their own: a fold waits for a model, and reads must not wait."""
_MOST_BODY: Final = 64 * 1024
_BODY_SECONDS: Final = 10.0
_ROWS: Final = 200
_OWN_READS: Final = (("api", "about"), ("api", "traffic"), ("api", "events"))
"""What is answered in the event loop."""


class Inspector:
    """The page, its data and its events; lives in one event loop."""

    def __init__(
        self, options: InspectorOptions, *, traffic: Traffic | None = None, find_live: FindLive = find_none
    ) -> None:
        """Check the options; nothing is opened yet.

        traffic     the requests of the gateway that this belongs to
        find_live   returns the gateway's own session of a tenant and a name
        """
        check_inspector(options)
        self.options, self.traffic = options, traffic
        self._scopes = Scopes(options, find_live)
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="refold-inspector")
        self._writers = ThreadPoolExecutor(_WRITERS, thread_name_prefix="refold-inspector-write")
        self._watching: asyncio.Task[None] | None = None

    def start(self, port: int) -> None:
        """Begin, now that the port is known."""
        self.access = AccessControl(self.options, port)
        self.origin = find_origin(self.options, port)
        self.hub = EventHub("poll")
        self._watcher = Watcher(self.hub, self._read_infos, self._find_notices)
        self._watching = asyncio.get_running_loop().create_task(self._watcher.run())
        if self.traffic is not None:
            self.traffic.on_change = self.hub.note_traffic
            self.hub.describe_traffic = self._describe_traffic

    def use(self, *, read_only: bool, allow_hosts: tuple[str, ...]) -> None:
        """Take other options for the requests to come."""
        self.options = self.access.options = replace(
            self.options, read_only=read_only, allow_hosts=allow_hosts
        )
        self.origin = find_origin(self.options, self.access.port)

    @property
    def url(self) -> str:
        """The first address, with the operator's token."""
        return f"{self.origin}/inspect?token={self.access.token}"

    def make_url(self, tenant: str) -> str:
        """Return the first address of a tenant's own page."""
        return f"{self.origin}/inspect?token={self.access.make_token(tenant)}"

    @property
    def store_address(self) -> str:
        """The address of the store that it shows to who names no tenant."""
        with self._scopes.use("") as scope:
            return scope.store.address

    async def close(self) -> None:
        """End all streams and close the stores."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
            self.hub.close()
        await self._work(self._scopes.close)
        for pool in (self._pool, self._writers):
            pool.shutdown(wait=False, cancel_futures=True)

    def note_session(self) -> None:
        """Tell the pages soon that a session has changed."""
        self._watcher.wake()

    # -- requests ------------------------------------------------------------------------------------------

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request; the header Host is looked at before anything else."""
        refused = self.access.check_host(request)
        if refused is not None:
            return refused
        try:
            return await self._answer(request)
        except ApiError as error:
            return error.to_response()
        except (SessionNotFound, Conflict) as error:
            code = "not-found" if isinstance(error, SessionNotFound) else "conflict"
            return ApiError(code, str(error)).to_response()
        except StoreError as error:
            return ApiError("busy", f"the store does not answer: {error}").to_response()
        except RefoldError as error:
            text, _ = find_redactor(show=False)(str(error))  # it may name every checkpoint
            return ApiError("refused", text).to_response()
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001  # a page gets an answer that it can show
            _LOGGER.error("the inspector failed: %s", describe_fault(error))  # noqa: TRY400  # it may quote a text
            return ApiError("fault", "a fault of the inspector; the server's log has the place").to_response()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        address = read_address(request)
        if not address.parts and (opened := self.access.exchange(request)) is not None:
            return opened
        visitor = self.access.find_visitor(request)
        if visitor is None:
            return answer_text(_NO_ENTRY, status=401)
        if request.method == "POST":
            return await self._write(request, address, visitor)
        if request.method != "GET":
            raise ApiError("method", "the inspector takes GET and POST", Allow="GET, POST")
        if match_route(address.parts, WRITES) is not None:
            raise ApiError("method", "this is a write: send it by POST", Allow="POST")
        if address.parts[:1] != ("api",):
            return self._answer_static(address)
        self.access.check_read(request)
        if address.parts in _OWN_READS:
            return await self._answer_own(request, address, visitor)
        return await self._read(address, visitor)

    def _answer_static(self, address: Address) -> web.Response:
        if address.parts in ((), ("",)):
            return find_assets().answer_page()
        if address.parts[0] == "assets" and len(address.parts) > 2:
            return find_assets().answer_file(address.parts[1], "/".join(address.parts[2:]))
        raise ApiError("not-found", "there is nothing at this address")

    async def _answer_own(
        self, request: web.BaseRequest, address: Address, visitor: Visitor
    ) -> web.StreamResponse:
        seen = None if visitor.is_operator else visitor.tenant
        match address.parts[1]:
            case "about":
                return answer_json(await self._work(self._describe, visitor))
            case "events":
                return await self.hub.stream(request, seen)
        if self.traffic is None:
            raise ApiError("not-found", "there is no gateway here, so that there is no traffic")
        after, limit = address.read_number("after", 0, 10**15), address.read_number("limit", _ROWS, KEPT)
        return answer_json(self.traffic.list_rows(seen, after, max(1, limit)))

    async def _read(self, address: Address, visitor: Visitor) -> web.Response:
        if match_route(address.parts, READS) is None:
            raise ApiError("not-found", "there is nothing at this address")

        def read() -> web.Response:
            with self._choose_scope(address, visitor) as asked:
                return answer_read(asked)

        self._log_look(address, visitor)
        return await self._work(read)

    async def _write(self, request: web.BaseRequest, address: Address, visitor: Visitor) -> web.Response:
        if match_route(address.parts, WRITES) is None:
            is_read = match_route(address.parts, READS) is not None or address.parts in _OWN_READS
            if is_read:
                raise ApiError("method", "this is read: fetch it by GET", Allow="GET")
            raise ApiError("not-found", "there is nothing at this address")
        self.access.check_write(request)
        body = await _read_body(request)
        self._log_look(address, visitor)

        def write() -> web.Response:
            with self._choose_scope(address, visitor) as asked:
                return answer_write(asked, body)

        response = await asyncio.get_running_loop().run_in_executor(self._writers, write)
        self.note_session()
        return response

    def _choose_scope(self, address: Address, visitor: Visitor) -> AbstractContextManager[Asked]:
        return choose_scope(self._scopes, address, visitor.tenant, is_operator=visitor.is_operator)

    def _log_look(self, address: Address, visitor: Visitor) -> None:
        """Every look of the operator at what belongs to others is in the log; so is every write."""
        if visitor.is_operator:
            tenant = address.query.get("tenant", "")
            _LOGGER.info("the operator looked at /%s of tenant %r", "/".join(address.parts), tenant[:80])

    def _describe(self, visitor: Visitor) -> dict[str, Any]:
        options = self.options
        tenants = self._scopes.list_tenants() if visitor.is_operator else []
        with self._scopes.use(visitor.tenant) as scope:
            store = scope.store.address
        return {
            "version": __version__,
            "store": store,
            "address": self.origin,
            "read_only": options.read_only,
            "gateway": self.traffic is not None,
            "tenant": visitor.tenant,
            "operator": visitor.is_operator,
            "tenants": tenants,
            "summariser": options.ask is not None,
            "redaction": can_redact(),
            "page": PAGE,
            "policies": list_policies(),
            "live": self.hub.mode,
            "now": time.time(),
        }

    def _describe_traffic(self) -> dict[str, Any]:
        traffic = self.traffic
        return {} if traffic is None else {"last": traffic.last, "open": traffic.open}

    async def _read_infos(self) -> dict[str, list[SessionInfo]]:
        def read() -> dict[str, list[SessionInfo]]:
            infos = {}
            for tenant in ("", *self._scopes.list_tenants()):
                with self._scopes.use(tenant) as scope:
                    infos[tenant] = scope.store.sessions()
            return infos

        return await self._work(read)

    async def _find_notices(self) -> Callable[[], AsyncGenerator[None, None]] | None:
        """Return how to wait for notices of the store; None if it sends none."""

        def find_store() -> Any:
            with self._scopes.use("") as scope:
                return scope.store

        async def list_scopes() -> list[str]:
            return ["", *await self._work(self._scopes.list_tenants)]

        watch = getattr(await self._work(find_store), "watch", None)
        return None if watch is None else partial(watch, list_scopes)

    async def _work(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *arguments)


async def _read_body(request: web.BaseRequest) -> bytes:
    """Return the body of a write; a long one and one that does not come are refused."""
    body = b""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for piece in request.content.iter_any():
                body += piece
                if len(body) > _MOST_BODY:
                    raise ApiError("too-large", f"a write has at most {_MOST_BODY:,} bytes")
    except TimeoutError:
        raise ApiError("bad-request", "the body did not come in time") from None
    return body
