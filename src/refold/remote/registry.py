"""The sessions that other programs work with: opened by name in one store. Knows no protocol.

Calls of one session run in the order they came. While a compaction waits for a model, calls that only read do
not wait for it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from refold.clients import Client
from refold.config import settings as config
from refold.config.values import MOST_SESSIONS
from refold.core.log.entries import USAGE
from refold.errors import SessionNotFound, StoreError
from refold.policies import presets
from refold.session import aopen
from refold.session.async_session import AsyncSession
from refold.session.events import Event
from refold.stores import Store

_COMPACTING: Final = {
    "compaction_start": True,
    "compaction_end": False,
    "compaction_skipped": False,
    "compaction_failed": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """Options of every session that a call does not set."""

    policy: str | None = None
    model: str | None = None
    window: int | str | None = None
    ask: Client | None = None
    """Summariser of all sessions. A call cannot choose it, because an address may have a key behind it."""
    format: str | None = None
    settings: config.Settings = field(default_factory=config.Settings)
    """The user's configuration: windows, the threshold, what summaries may cost."""
    sessions: int = MOST_SESSIONS
    """Most sessions that are kept open."""


@dataclass(slots=True)
class OpenSession:
    """A session that is open."""

    session: AsyncSession
    policy: str
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    compacting: bool = False
    unsubscribe: list[Callable[[], None]] = field(default_factory=list)

    @property
    def is_busy(self) -> bool:
        """True while a call works with it, or while the store fails and some of it is only in memory."""
        return self.compacting or self.turn.locked() or self.session.unsaved > 0

    def listen(self, event: Event) -> None:
        """Note when a compaction begins and ends."""
        if event.kind in _COMPACTING:
            self.compacting = _COMPACTING[event.kind]

    async def close(self) -> None:
        """Stop listening and close the session."""
        for leave in self.unsubscribe:
            leave()
        await self.session.close()


def find_last_model(store: Store, name: str) -> str | None:
    """Return the model of the last request that a session has a report of; None if there is none."""
    if (head := store.head(name)) is None:
        return None
    reports = store.read(name, head.place, kinds=USAGE, newest=True)
    return next((entry.value.get("model") for entry in reports), None) or None


class SessionRegistry:
    """Open sessions of one store; `on_event` gets their events."""

    def __init__(self, store: Store, defaults: Defaults, on_event: Callable[[Event], None]) -> None:
        self.store = store
        self.defaults = defaults
        self._on_event = on_event
        self._sessions: dict[str, OpenSession] = {}
        """By name, least recently used first."""
        self._opening = asyncio.Lock()

    async def open(
        self,
        session_id: str,
        *,
        model: str | None = None,
        window: int | str | None = None,
        policy: str | None = None,
        format: str | None = None,  # noqa: A002  # the word users know
    ) -> None:
        """Open a session, or continue it with other settings."""
        async with self._opening:
            current = self._sessions.get(session_id)
            if current is None or policy is not None or format is not None:
                if current is not None:
                    await current.close()
                await self._add(session_id, model=model, window=window, policy=policy, wire=format)
            elif model is not None or window is not None:
                current.session.use(**({"model": model} if model is not None else {}), window=window)

    async def _add(
        self,
        name: str,
        *,
        model: str | None = None,
        window: int | str | None = None,
        policy: str | None = None,
        wire: str | None = None,
    ) -> OpenSession:
        """Open a session; closes those that were not used for longest, which stay in the store."""
        defaults = self.defaults
        chosen = policy or defaults.policy or "refold"
        made = presets.get(chosen, **defaults.settings.knobs_of(chosen))
        session = aopen(
            name,
            store=self.store,
            model=model or defaults.model or await asyncio.to_thread(find_last_model, self.store, name),
            window=window if window is not None else defaults.window,
            policy=config.apply_settings(made, defaults.settings),
            ask=defaults.ask,
            format=wire or defaults.format,
            **defaults.settings.caps,
        )
        added = self._sessions[name] = OpenSession(session, chosen)
        added.unsubscribe += [session.subscribe(added.listen), session.subscribe(self._on_event)]
        for other, opened in list(self._sessions.items()):
            if len(self._sessions) <= defaults.sessions:
                break
            if opened is not added and not opened.is_busy:
                del self._sessions[other]
                await opened.close()
        return added

    async def get(self, session_id: str) -> OpenSession:
        """Return a session, opened from the store if it is not open."""
        async with self._opening:
            current = self._sessions.get(session_id)
            if current is None:
                if await asyncio.to_thread(self.store.head, session_id) is None:
                    raise SessionNotFound(f"there is no session {session_id!r}: session/open begins one")
                current = await self._add(session_id)
            self._sessions[session_id] = self._sessions.pop(session_id)  # now the most recently used
        return current

    @asynccontextmanager
    async def writing(self, session_id: str) -> AsyncIterator[AsyncSession]:
        """Hold a session, behind the calls that came before."""
        current = await self.get(session_id)
        async with current.turn:
            try:
                yield current.session
            finally:
                current.compacting = False  # also if the call was cancelled, which sends no event

    @asynccontextmanager
    async def reading(self, session_id: str) -> AsyncIterator[AsyncSession]:
        """Hold a session for a call that only reads; does not wait while a compaction waits for a model."""
        current = await self.get(session_id)
        if current.compacting:
            yield current.session
            return
        async with current.turn:
            yield current.session

    async def names(self) -> list[str]:
        """List the sessions of the store, most recently changed first, and those that are only open."""
        stored = [info.name for info in await asyncio.to_thread(self.store.sessions)]
        return [*stored, *(name for name in self._sessions if name not in stored)]

    async def close(self) -> None:
        """Close all sessions; raises the first error if messages of some are lost with a store that fails."""
        lost: list[StoreError] = []
        while self._sessions:
            _, opened = self._sessions.popitem()
            try:
                await opened.close()
            except StoreError as error:
                lost.append(error)
        if lost:
            raise lost[0]
