"""`Sessions`: many conversations by key over one store, each opened when it is asked for."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from refold.arguments import check_options
from refold.errors import RefoldError
from refold.policies import presets
from refold.redaction.redact import SecretMemory
from refold.session import aopen
from refold.session import open as open_session
from refold.session.async_session import AsyncSession
from refold.session.find_session import SessionMatch, find_session
from refold.session.opening import find_store
from refold.session.session import Session
from refold.stores import Store

MAX_OPEN: Final = 256
"""Sessions that stay open by default. An open one holds its view in memory, a few megabytes at most; one that
was closed is read from the store again."""
S = TypeVar("S", Session, AsyncSession)


class Sessions:
    """Sessions by key over one store. The least recently used ones are closed; several threads may use it.

    >>> sessions = Sessions(store="memory:", window="8k")
    >>> sessions.get("ann").say("hi"), sessions.get("ann") is sessions.get("ann")
    ('#1', True)
    """

    def __init__(
        self,
        *,
        store: str | os.PathLike[str] | Store | None = None,
        options: Callable[[Any], Mapping[str, Any]] | None = None,
        max_open: int = MAX_OPEN,
        **defaults: Any,
    ) -> None:
        """Open the store, and no session yet.

        store      an address, a path or an open store, as for `open`
        options    gives the options of one session by its key, such as its model or its policy
        max_open   sessions that stay open
        defaults   the options of every session, as for `open`
        """
        if isinstance(max_open, bool) or not isinstance(max_open, int) or max_open < 1:
            raise RefoldError(f"max_open is {max_open!r}: it must be a number from 1 on")
        check_options(open_session, defaults)
        presets.get(defaults.get("policy") or "refold")
        self._owns_store = store is None or isinstance(store, str | os.PathLike)
        self.store = find_store(store, defaults.pop("durability", None))
        self._options, self._defaults, self._max_open = options, defaults, max_open
        self._lock = threading.RLock()  # `options` may ask for another session
        self._open: OrderedDict[Hashable, Session] = OrderedDict()
        self._open_async: OrderedDict[Hashable, AsyncSession] = OrderedDict()

    def get(self, key: str | int) -> Session:
        """Return the session of a key; it is created when something is said in it.

        The session's name is the key as text.
        """
        session, unused = self._find(self._open, str(key), key, open_session)
        if unused is not None:
            unused.close()
        return session

    async def aget(self, key: str | int) -> AsyncSession:
        """Return the session of a key for an event loop."""
        from asyncio import get_running_loop  # expensive to import; whoever is here has imported it already

        place = (get_running_loop(), str(key))  # a session's lock belongs to one event loop
        session, unused = self._find(self._open_async, place, key, aopen)
        if unused is not None:
            await unused.close()
        return session

    def _find(
        self, known: "OrderedDict[Hashable, S]", place: Hashable, key: str | int, make: Callable[..., S]
    ) -> tuple[S, S | None]:
        """Return the session of a key, and one that is to be closed.

        place   under which it is known: by its name, because 1 and "1" are one conversation of the store
        """
        if isinstance(key, bool) or not isinstance(key, str | int) or not str(key).strip():
            raise RefoldError(f"{key!r} is no key of a session: use a text that is not empty, or a number")
        with self._lock:
            if place not in known:
                options = {**self._defaults, **(self._options(key) if self._options is not None else {})}
                known[place] = make(str(key), store=self.store, **options)
            known.move_to_end(place)
            unused = known.popitem(last=False)[1] if len(known) > self._max_open else None
            return known[place], unused

    def find(
        self,
        messages: Sequence[Any],
        *,
        format: str | None = None,  # noqa: A002  # the word users know
        hint: str | None = None,
    ) -> SessionMatch | None:
        """Return the session to which a list belongs, by its messages; None if it begins a conversation.

        format   the format of the list, if it shall not be recognised
        hint     a session that is preferred, such as one that a header names
        """
        redact = SecretMemory() if self._defaults.get("redaction") == "storage" else None
        format = format or self._defaults.get("format")  # noqa: A001  # the word users know
        return find_session(self.store, messages, format=format, hint=hint, redact=redact)

    async def afind(
        self,
        messages: Sequence[Any],
        *,
        format: str | None = None,  # noqa: A002  # the word users know
        hint: str | None = None,
    ) -> SessionMatch | None:
        """Do as `find`, in a thread: a store may have to wait."""
        from asyncio import to_thread  # expensive to import; whoever is here has imported it already

        return await to_thread(self.find, messages, format=format, hint=hint)

    def close(self) -> None:
        """Close the sessions that were got by `get`, and the store if this object opened it."""
        with self._lock:
            sessions, self._open = list(self._open.values()), OrderedDict()
        try:
            for session in sessions:
                session.close()
        finally:
            if self._owns_store:
                self.store.close()

    async def aclose(self) -> None:
        """Close the sessions of the event loop, then do as `close`."""
        with self._lock:
            sessions, self._open_async = list(self._open_async.values()), OrderedDict()
        try:
            for session in sessions:
                await session.close()
        finally:
            self.close()

    def __len__(self) -> int:
        return len(self._open) + len(self._open_async)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
