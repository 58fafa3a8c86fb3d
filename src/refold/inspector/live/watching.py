"""Looks whether sessions have changed while pages listen: other processes write to the same store.

Where the store sends notices, it looks when one comes; else every two seconds.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Final

from refold.errors import RefoldError, StoreError, describe_fault
from refold.inspector.live.events import EventHub
from refold.stores import SessionInfo

_LOGGER: Final = logging.getLogger("refold.inspector")
SECONDS: Final = 2.0
"""Seconds between two looks: people wait that long, and a list of 10,000 sessions takes a few per cent."""
_NOTICED_SECONDS: Final = 60.0
"""Seconds between two looks where notices come: one that was lost is made up for by then."""
_LEAST_SECONDS: Final = 0.2
"""Seconds between two looks at the least: a busy store changes a hundred times a second."""
_RETRY_SECONDS: Final = 30.0
"""Seconds after which a store that sends no notices is asked again: its server may have been restarted."""
ReadInfos = Callable[[], Awaitable[dict[str, list[SessionInfo]]]]
"""Returns the sessions of each tenant."""
FindNotices = Callable[[], Awaitable[Callable[[], AsyncGenerator[None, None]] | None]]
"""Returns how to wait for notices of the store; None if it sends none."""


class Watcher:
    """Compares the sessions of a store with what they were, and tells the pages of those that changed."""

    def __init__(self, hub: EventHub, read: ReadInfos, find_notices: FindNotices) -> None:
        self._hub, self._read, self._find_notices = hub, read, find_notices
        self._known: dict[tuple[str, str], tuple[int, float]] | None = None
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Look again and again while a page listens, for ever."""
        listening = asyncio.create_task(self._listen())
        try:
            while True:
                await self._hub.wait_for_listener()
                await self.look()
                await asyncio.sleep(_LEAST_SECONDS)
                with suppress(TimeoutError):
                    async with asyncio.timeout(SECONDS if self._hub.mode == "poll" else _NOTICED_SECONDS):
                        await self._woken.wait()
                self._woken.clear()
                if not self._hub.listeners:
                    self._known = None  # whoever comes next fetches everything anyway
                    self._hub.has_base.clear()
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    def wake(self) -> None:
        """Look at once: this process has written, or another one says that it has."""
        self._woken.set()

    async def _listen(self) -> None:
        """Wait for notices of the store while a page listens; where none come, looks are frequent again."""
        while True:
            await self._hub.wait_for_listener()
            try:
                notices = await self._find_notices()
                if notices is None:
                    return
                async with aclosing(notices()) as coming:
                    async for _ in coming:
                        self._hub.set_mode("notify")
                        self.wake()
                        if not self._hub.listeners:
                            break
            except RefoldError as error:
                _LOGGER.warning("the store is looked at every two seconds (%s)", error)
                self._hub.set_mode("poll")
                self.wake()
                await asyncio.sleep(_RETRY_SECONDS)
            finally:
                self._hub.set_mode("poll")

    async def look(self) -> None:
        """Look once."""
        try:
            infos = await self._read()
        except StoreError as error:
            _LOGGER.warning("the store does not answer (%s)", describe_fault(error))
            return
        if self._known is not None:
            self._tell(infos)
        self._known = {
            (tenant, info.name): (info.entries, info.changed)
            for tenant, listed in infos.items()
            for info in listed
        }
        self._hub.has_base.set()

    def _tell(self, infos: dict[str, list[SessionInfo]]) -> None:
        known = self._known or {}
        for tenant, listed in infos.items():
            for info in listed:
                if known.get((tenant, info.name)) != (info.entries, info.changed):
                    data = {"name": info.name, "tenant": tenant, "said": info.said, "changed": info.changed}
                    self._hub.publish("session", data, tenant)
