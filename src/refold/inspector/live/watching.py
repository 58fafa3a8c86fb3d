"""Looks whether sessions have changed while pages listen: other processes write to the same store."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from refold.errors import StoreError, describe_fault
from refold.inspector.live.events import EventHub
from refold.stores import SessionInfo

_LOGGER: Final = logging.getLogger("refold.inspector")
SECONDS: Final = 2.0
"""Seconds between two looks: people wait that long, and a list of 10,000 sessions takes a few per cent."""
ReadInfos = Callable[[], Awaitable[dict[str, list[SessionInfo]]]]
"""Returns the sessions of each tenant."""


class Watcher:
    """Compares the sessions of a store with what they were, and tells the pages of those that changed."""

    def __init__(self, hub: EventHub, read: ReadInfos) -> None:
        self._hub, self._read = hub, read
        self._known: dict[tuple[str, str], tuple[int, float]] | None = None
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Look every two seconds while a page listens, for ever."""
        while True:
            await self._hub.wait_for_listener()
            await self.look()
            with suppress(TimeoutError):
                async with asyncio.timeout(SECONDS):
                    await self._woken.wait()
            self._woken.clear()
            if not self._hub.listeners:
                self._known = None  # whoever comes next fetches everything anyway

    def wake(self) -> None:
        """Look at once: this process has written."""
        self._woken.set()

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

    def _tell(self, infos: dict[str, list[SessionInfo]]) -> None:
        known = self._known or {}
        for tenant, listed in infos.items():
            for info in listed:
                if known.get((tenant, info.name)) != (info.entries, info.changed):
                    data = {"name": info.name, "tenant": tenant, "said": info.said, "changed": info.changed}
                    self._hub.publish("session", data, tenant)
