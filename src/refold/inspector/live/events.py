"""Events that tell open pages what to fetch again: ids and counts, never a text.

Each event has a number. A page that was cut off names the last one it has, and gets those that it missed. A
page that does not read is dropped, not waited for: its browser comes back by itself.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, Final, TypeAlias

from aiohttp import web

from refold.inspector.http.answers import HEADERS, ApiError

MOST_LISTENERS: Final = 50
_KEPT: Final = 1_000
"""Events that a page can miss and still get."""
_WAITING: Final = 200
"""Events that may wait for one page before it is dropped."""
HEARTBEAT: Final = 15.0
"""Seconds without an event after which a comment is sent: proxies close what is silent for a minute."""
_TRAFFIC_SECONDS: Final = 0.25
"""Seconds between two events about traffic."""
_BASE_SECONDS: Final = 2.0
"""Seconds that a page waits for the first look at the store before it is greeted."""
_WRITE_SECONDS: Final = 10.0
"""Seconds that a page may take to read what it was sent."""
CountTraffic: TypeAlias = Callable[[], dict[str, Any]]
"""Returns the counts of an event about traffic."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event."""

    number: int
    kind: str
    data: dict[str, Any]
    tenant: str | None = None
    """Whom it concerns; None: everybody who may see traffic."""

    def write(self, epoch: str) -> bytes:
        """Return the event as it goes over the wire."""
        return f"id: {epoch}-{self.number}\nevent: {self.kind}\ndata: {json.dumps(self.data)}\n\n".encode()


@dataclass(eq=False, slots=True)
class _Listener:
    tenant: str | None
    """Whose events it gets; None: all of them."""
    queue: "asyncio.Queue[Event | None]" = field(default_factory=lambda: asyncio.Queue(_WAITING))

    def takes(self, event: Event) -> bool:
        """True if an event is for this page."""
        return self.tenant is None or event.tenant == self.tenant


class EventHub:
    """Hands events to the pages that listen; lives in one event loop."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self._epoch = token_hex(4)  # numbers of a former process mean nothing
        self._events: deque[Event] = deque(maxlen=_KEPT)
        self._number = 0
        self._listeners: set[_Listener] = set()
        self._changed = asyncio.Event()
        self.has_base = asyncio.Event()
        """Set while it is known to what changes compare: what a page fetches after that it is told of."""
        self._traffic_timer: asyncio.TimerHandle | None = None
        self.describe_traffic: CountTraffic = dict

    @property
    def listeners(self) -> int:
        """Number of pages that listen."""
        return len(self._listeners)

    def set_mode(self, mode: str) -> None:
        """Note how changes of other processes are noticed, and tell the pages if that is new."""
        if mode != self.mode:
            self.mode = mode
            for listener in list(self._listeners):
                self._put(listener, Event(self._number, "live", {"live": mode}))

    async def wait_for_listener(self) -> None:
        """Wait until a page listens."""
        while not self._listeners:
            self._changed.clear()
            await self._changed.wait()

    def publish(self, kind: str, data: dict[str, Any], tenant: str | None = None) -> None:
        """Tell the pages that something has changed."""
        self._number += 1
        event = Event(self._number, kind, data, tenant)
        self._events.append(event)
        for listener in [each for each in self._listeners if each.takes(event)]:
            self._put(listener, event)

    def _put(self, listener: _Listener, event: Event) -> None:
        try:
            listener.queue.put_nowait(event)
        except asyncio.QueueFull:
            self._drop(listener)

    def note_traffic(self) -> None:
        """Tell the pages that requests began or ended, a few times a second at most."""
        if self._traffic_timer is None and self._listeners:
            loop = asyncio.get_running_loop()
            self._traffic_timer = loop.call_later(_TRAFFIC_SECONDS, self._publish_traffic)

    def _publish_traffic(self) -> None:
        self._traffic_timer = None
        self.publish("traffic", self.describe_traffic())

    def close(self) -> None:
        """End all streams."""
        if self._traffic_timer is not None:
            self._traffic_timer.cancel()
        for listener in list(self._listeners):
            self._drop(listener)

    def _drop(self, listener: _Listener) -> None:
        self._listeners.discard(listener)
        while not listener.queue.empty():
            listener.queue.get_nowait()
        listener.queue.put_nowait(None)

    async def stream(self, request: web.BaseRequest, tenant: str | None) -> web.StreamResponse:
        """Send events to a page until it leaves."""
        if len(self._listeners) >= MOST_LISTENERS:
            raise ApiError(
                "busy", f"{MOST_LISTENERS} pages listen already: close one", **{"Retry-After": "5"}
            )
        headers = {**HEADERS, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(headers=headers)
        listener = _Listener(tenant)
        missed = self._find_missed(request.headers.get("Last-Event-ID", ""))
        self._listeners.add(listener)
        self._changed.set()
        try:
            await response.prepare(request)
            with suppress(TimeoutError):  # a store that does not answer keeps no page waiting
                async with asyncio.timeout(_BASE_SECONDS):
                    await self.has_base.wait()
            await self._send(request, response, self._greet())
            for event in missed:
                if listener.takes(event) or event.kind == "reset":
                    await self._send(request, response, event.write(self._epoch))
            await self._send_all(request, response, listener)
        finally:
            self._listeners.discard(listener)
        with suppress(ConnectionError):
            await response.write_eof()
        return response

    def _greet(self) -> bytes:
        """Return the first event; its number is the newest, so that a page knows where it begins."""
        data = {"live": self.mode, "now": time.time()}
        return Event(self._number, "hello", data).write(self._epoch)

    def _find_missed(self, last: str) -> list[Event]:
        """Return the events since the last one that a page has; `reset` if they are gone."""
        if not last:
            return []
        epoch, _, number = last.rpartition("-")
        oldest = self._events[0].number if self._events else self._number + 1
        if epoch != self._epoch or not number.isdecimal() or int(number) < oldest - 1:
            return [Event(self._number, "reset", {})]
        return [event for event in self._events if event.number > int(number)]

    async def _send_all(
        self, request: web.BaseRequest, response: web.StreamResponse, listener: _Listener
    ) -> None:
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT):
                    event = await listener.queue.get()
            except TimeoutError:
                await self._send(request, response, b":\n\n")
                continue
            if event is None:
                return
            await self._send(request, response, event.write(self._epoch))

    async def _send(self, request: web.BaseRequest, response: web.StreamResponse, piece: bytes) -> None:
        """Send a piece; a page that does not read it in time is left."""
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                await response.write(piece)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError("the page does not read its events") from None
