"""The sessions that other programs work with: opened by name in one store, each act as plain data.

What stands here is the same for every protocol. Acts of one session happen in the order they came; a fold
lets the others go on meanwhile, as a session does anyhow.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from refold.clients import Client
from refold.config import settings as config
from refold.config.values import MOST_SESSIONS
from refold.core.compaction.policy import Policy
from refold.core.tokens.units import tokens
from refold.errors import SessionNotFound
from refold.policies import presets
from refold.remote.plain import plain, record
from refold.session import aopen
from refold.session.events import Event
from refold.session.facade import AsyncSession
from refold.stores import Store

_FOLDING: Final = {
    "compaction_start": True,
    "compaction_end": False,
    "compaction_skipped": False,
    "compaction_failed": False,
}
_KEEP_KNOBS: Final = {"opal": "keep_recent", "refold": "keep_tokens"}
"""Policies that take what stays as a number of tokens, and what they call it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """How sessions are opened where nothing else is said."""

    policy: str | None = None
    model: str | None = None
    window: int | str | None = None
    ask: Client | None = None
    """Who summarises, for all of them."""
    format: str | None = None
    settings: config.Settings = field(default_factory=config.Settings)
    """What a user set for every call: windows, the line to compact at, what summaries may cost."""
    sessions: int = MOST_SESSIONS
    """How many are kept open."""


@dataclass(slots=True)
class Held:
    """A session that is open."""

    session: AsyncSession
    policy: str
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    folding: bool = False
    leaves: list[Callable[[], None]] = field(default_factory=list)
    """What ends the listening."""

    @property
    def busy(self) -> bool:
        """Whether somebody works with it."""
        return self.folding or self.turn.locked()

    def listen(self, event: Event) -> None:
        """Notice when a fold begins and ends."""
        if event.kind in _FOLDING:
            self.folding = _FOLDING[event.kind]

    @asynccontextmanager
    async def acting(self) -> AsyncIterator[AsyncSession]:
        """One's turn, behind those who came before."""
        async with self.turn:
            try:
                yield self.session
            finally:
                self.folding = False  # also where it was cancelled

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[AsyncSession]:
        """One's turn; nobody who only looks waits for a fold that waits for a model."""
        if self.folding:
            yield self.session
            return
        async with self.turn:
            yield self.session


class Desk:
    """Open sessions of one store; `tell` hears what happens in them."""

    def __init__(self, store: Store, defaults: Defaults, tell: Callable[[Event], None]) -> None:
        self.store = store
        self.defaults = defaults
        self._tell = tell
        self._held: dict[str, Held] = {}
        self._opening = asyncio.Lock()

    async def open(
        self,
        session_id: str,
        *,
        model: str | None = None,
        window: int | str | None = None,
        policy: str | None = None,
        format: str | None = None,  # noqa: A002  # the word users know
    ) -> dict[str, Any]:
        """Open a session, or go on with it under other settings; gives its state."""
        async with self._opening:
            held = self._held.get(session_id)
            if held is None or policy is not None or format is not None:
                if held is not None:
                    await self._close(held)
                await self._hold(session_id, self._opened(session_id, model, window, policy, format))
            elif model is not None or window is not None:
                held.session.use(**({"model": model} if model is not None else {}), window=window)
        return await self.state(session_id)

    def _opened(
        self,
        name: str,
        model: str | None,
        window: int | str | None,
        policy: str | None,
        wire: str | None,
    ) -> Held:
        chosen = policy or self.defaults.policy or "refold"
        session = aopen(
            name,
            store=self.store,
            model=model or self.defaults.model,
            window=window if window is not None else self.defaults.window,
            policy=config.tuned(presets.get(chosen), self.defaults.settings),
            ask=self.defaults.ask,
            format=wire or self.defaults.format,
            **self.defaults.settings.caps,
        )
        held = Held(session, chosen)
        held.leaves += [session.subscribe(held.listen), session.subscribe(self._tell)]
        return held

    async def held(self, session_id: str) -> Held:
        """The session of this name, opened if it is in the store."""
        async with self._opening:
            held = self._held.get(session_id)
            if held is None:
                if await asyncio.to_thread(self.store.head, session_id) is None:
                    raise SessionNotFound(f"there is no session {session_id!r}: session/open begins one")
                held = await self._hold(session_id, self._opened(session_id, None, None, None, None))
            self._held[session_id] = self._held.pop(session_id)  # the one that was used last stands last
        return held

    async def _hold(self, name: str, held: Held) -> Held:
        """Keep a session open; those that were not used for longest are let go, they rest in the store."""
        self._held[name] = held
        for other, each in list(self._held.items()):
            if len(self._held) <= self.defaults.sessions:
                break
            if each is not held and not each.busy:
                del self._held[other]
                await self._close(each)
        return held

    async def names(self) -> list[str]:
        """The sessions of the store, the one that changed last first, and those that are only open."""
        stored = [info.name for info in await asyncio.to_thread(self.store.sessions)]
        return [*stored, *(name for name in self._held if name not in stored)]

    async def close(self) -> None:
        """Let go of all sessions."""
        for held in self._held.values():
            await self._close(held)
        self._held.clear()

    async def _close(self, held: Held) -> None:
        for leave in held.leaves:
            leave()
        await held.session.close()

    # -- acts --------------------------------------------------------------------------------------------

    async def state(self, session_id: str) -> dict[str, Any]:
        """How the session stands, for a status line."""
        held = await self.held(session_id)
        async with held.looking() as session:
            stats, budget = await session.stats(), await session.budget()
        totals = stats.totals
        return {
            "session_id": session_id,
            "status": "compacting" if held.folding else "idle",
            "model": held.session.model,
            "policy": held.policy,
            "context_window": budget.window,
            "window_source": budget.window_source,
            "current_context_tokens": stats.current_context_tokens,
            "total_tokens": totals.input + totals.output,
            "room": stats.room,
            "ratio": stats.ratio,
            "level": stats.level,
            "should_compact": stats.should_compact,
            "message_count": stats.messages,
            "said": stats.said,
            "folds": stats.folds,
        }

    async def stats(self, session_id: str) -> dict[str, Any]:
        """What fills the context now, against what all requests cost together."""
        held = await self.held(session_id)
        async with held.looking() as session:
            stats, budget = await session.stats(), await session.budget()
        totals = stats.totals
        return {
            "session_id": session_id,
            **stats.as_dict(),
            "context_window": budget.window,
            "total_tokens": totals.input + totals.output,
            "breakdown": plain(budget.breakdown),
        }

    async def compact(
        self,
        session_id: str,
        *,
        keep_recent: int | str | None = None,
        strategy: str | None = None,
        focus: str = "",
        target: int | str | None = None,
    ) -> dict[str, Any]:
        """Fold now; `keep_recent` is how many tokens of the newest messages stay as they are."""
        held = await self.held(session_id)
        async with held.turn:  # behind what was said before, and not in front of what comes
            chosen, keep = self._kept(held, strategy, None if keep_recent is None else tokens(keep_recent))
        try:
            outcome = await held.session.compact(chosen, keep=keep, focus=focus, target=target)
        finally:
            held.folding = False  # also where it was cancelled
        told = {
            name: getattr(outcome, name)
            for name in (
                *("compacted", "fits", "reason", "stages", "tier", "level", "summary"),
                *("messages_before", "messages_after", "tokens_before", "tokens_after", "tokens_saved"),
            )
        }
        folds = await held.session.folds() if outcome.compacted else []
        return record(
            session_id=session_id,
            **told,
            fold=folds[-1].name if folds else None,
            files=outcome.files,
            receipt=outcome.receipt.as_dict(),
        )

    def _kept(
        self, held: Held, strategy: str | None, kept: int | None
    ) -> tuple[str | Policy | None, int | None]:
        """The policy that keeps so many tokens, or how many messages make them up."""
        if kept is None:
            return strategy, None
        name = strategy or held.policy
        if name in _KEEP_KNOBS:
            turned = presets.get(name, **{_KEEP_KNOBS[name]: kept})
            return config.tuned(turned, self.defaults.settings), None
        shelf = held.session.keeper.shelf
        count, size = 0, 0
        for each in reversed(shelf.sizes[shelf.fixed :]):
            size += each
            if shelf.counter.tokens(size) > kept:
                break
            count += 1
        return strategy, count
