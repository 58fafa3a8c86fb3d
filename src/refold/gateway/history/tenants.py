"""Tenants: whose sessions a request may see. Each has conversations and a scope of the store of its own.

A tenant is named by a keyed hash of the caller's key, so that nothing that is stored, logged or counted tells
the key, and nobody who reads the store can find out which key it was.
"""

import asyncio
import hmac
import logging
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from multidict import CIMultiDict

from refold.errors import describe_fault
from refold.gateway.history.caller_summaries import check_summary_models
from refold.gateway.history.conversations import Conversations
from refold.gateway.history.known_prefix import KnownPrefixes
from refold.gateway.history.memo import MessageMemo
from refold.gateway.history.session_calls import Surroundings
from refold.gateway.history.watched_store import StoreBreaker
from refold.gateway.http.sent_keys import Headers, find_sent_keys, find_virtual_key, remove_virtual_keys
from refold.gateway.options import HistoryOptions
from refold.gateway.virtual_keys import VirtualKey, read_keys
from refold.session.session import Session

_LOGGER: Final = logging.getLogger("refold.gateway")
SINGLE: Final = ""
"""The tenant of a gateway for one user: the scope that the store's address names."""
_HEADER_MARK: Final = b"header\0"
"""Before the value of a tenant header, so that no key can name the same tenant: a header has no zero byte."""
_VIRTUAL_MARK: Final = b"tenant\0"
"""The same before the tenant of a virtual key."""
_TENANT_BYTES: Final = 16
_THREADS: Final = 16
"""Threads for session calls. Most take a millisecond; one that waits for a summary takes seconds."""
_MOST_OPEN: Final = 32
"""Tenants that stay open while they send nothing: with two connections each, a PostgreSQL server's usual 100
are enough. Others are opened again when they come back."""


def find_tenant(headers: Headers, options: HistoryOptions, virtual: VirtualKey | None) -> str | None:
    """Return the tenant of a request; None if it names none, so that its history may not be kept.

    virtual   what its key stands for, if that is one of the operator's own
    """
    if options.tenancy == "single":
        return SINGLE
    if virtual is not None:
        return _hash(options, _VIRTUAL_MARK + virtual.tenant.encode())
    if options.tenant_header and (named := _join(headers.getall(options.tenant_header, []))):
        return _hash(options, _HEADER_MARK + named)
    named = _join(find_sent_keys(headers))
    return _hash(options, named) if named else None


def _join(values: list[str]) -> bytes:
    """Return the values as one; a header has no line breaks, so that no two lists look the same."""
    return "\n".join(value for value in values if value).encode("utf-8", "surrogateescape")


def _hash(options: HistoryOptions, text: bytes) -> str:
    return hmac.digest(options.tenant_secret.encode(), text, "sha256")[:_TENANT_BYTES].hex()


@dataclass(slots=True)
class _Tenant:
    conversations: Conversations
    requests: int = 0
    """Requests that use it now."""


class Tenants:
    """The conversations of every tenant over one store; those who send nothing are closed by and by."""

    def __init__(self, options: HistoryOptions) -> None:
        if options.ask is None:
            check_summary_models(options.summary_model)
        self.options = options
        self._virtual_keys = read_keys(options.virtual_keys)
        pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="refold-gateway")
        self._around = Surroundings(pool, MessageMemo(), KnownPrefixes(), StoreBreaker())
        self._single = Conversations(options, self._around, SINGLE)
        self._open: OrderedDict[str, _Tenant] = OrderedDict()
        self._closing: set[asyncio.Task[Any]] = set()

    async def is_ready(self) -> bool:
        """Return whether the store answers; if it does not, histories go on unmodified until it does."""
        is_ready = await self._single.is_ready()
        self._store_waiting()
        return is_ready

    def read_virtual_keys(self) -> None:
        """Read the file of virtual keys again: one that is no longer in it is refused from now on."""
        self._virtual_keys = read_keys(self.options.virtual_keys)

    def find_virtual_key(self, headers: Headers) -> VirtualKey | None:
        """Return the virtual key of a request; None for a provider's own key."""
        if not self.options.virtual_keys:  # a file that has become empty refuses every one
            return None
        return find_virtual_key(headers, self._virtual_keys, self.options.tenant_secret)

    def remove_virtual_keys(self, headers: CIMultiDict[str]) -> None:
        """Take virtual keys out of headers that go upstream, wherever they stand."""
        remove_virtual_keys(headers, self._virtual_keys, self.options.tenant_secret)

    def enter(self, tenant: str) -> Conversations:
        """Return a tenant's conversations, which stay open until `leave`."""
        if tenant == SINGLE:
            return self._single
        known = self._open.get(tenant)
        if known is None:
            made = Conversations(self.options, self._around, tenant)
            known = self._open[tenant] = _Tenant(made)
            self._single.note_tenant(tenant)
        known.requests += 1
        self._open.move_to_end(tenant)
        self._close_unused()
        return known.conversations

    def find_live(self, tenant: str, name: str) -> Session | None:
        """Return an open session of a tenant; None if there is none. May be called from any thread."""
        if tenant == SINGLE:
            return self._single.find_live(name)
        known = self._open.get(tenant)
        return None if known is None else known.conversations.find_live(name)

    def count_unsaved(self) -> int:
        """Return how many messages of all tenants wait in memory."""
        return sum(conversations.count_unsaved() for conversations in self._list())

    def leave(self, tenant: str) -> None:
        """End what `enter` began."""
        known = self._open.get(tenant)
        if known is not None:  # the single one is always open; when the gateway is closed, all are gone
            known.requests -= 1
        self._store_waiting()

    def _store_waiting(self) -> None:
        """Store what waits in memory once the store answers again."""
        breaker = self._around.breaker
        if breaker.has_returned:
            breaker.has_returned = False
            _LOGGER.warning("the store answers again; messages that wait in memory: %d", self.count_unsaved())
            for conversations in self._list():
                conversations.store_waiting()

    def _list(self) -> list[Conversations]:
        return [self._single, *(tenant.conversations for tenant in self._open.values())]

    async def close(self) -> None:
        """Wait for what runs, and close the sessions and the stores."""
        rest = self._list()
        self._open.clear()
        await asyncio.gather(*self._closing, *(_close(one) for one in rest))
        self._around.pool.shutdown(wait=False, cancel_futures=True)

    def _close_unused(self) -> None:
        """Close the tenants who have sent nothing for longest; not while the store owes them an append."""
        if len(self._open) <= _MOST_OPEN or self._around.breaker.is_open:
            return
        unused = [name for name, tenant in self._open.items() if tenant.requests == 0]
        for name in unused[: len(self._open) - _MOST_OPEN]:
            task = asyncio.ensure_future(_close(self._open.pop(name).conversations))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


async def _close(conversations: Conversations) -> None:
    try:
        await conversations.close()
    except Exception as error:  # noqa: BLE001  # the others must be closed as well
        _LOGGER.warning("the store of a tenant was not closed: %s", describe_fault(error))
