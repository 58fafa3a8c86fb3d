"""`Sessions`: many conversations over one store, each opened by its key or found by its messages.

The name of a message stands for it and for everything before it, so that one name that is known tells how
much a list shares with a session. Two conversations may begin alike: a thousand people who say "hi" have a
thousand sessions. So a session is only found if the list shares an answer with it, or goes on where it ends,
or if the caller names it as a hint.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from refold import formats
from refold.arguments import check_arguments, check_options
from refold.calls.conversation import choose_format
from refold.core.log.entries import AS_WRITTEN, ROOT, SAID, SYSTEM, hash_entry
from refold.core.messages.message import Message
from refold.core.messages.plain_values import to_plain_messages
from refold.errors import FormatError, RefoldError
from refold.formats.shared import canonical
from refold.policies import presets
from refold.redaction.redact import SecretMemory
from refold.session import aopen
from refold.session import open as open_session
from refold.session.async_session import AsyncSession
from refold.session.events import Listener
from refold.session.opening import find_store
from refold.session.session import Session
from refold.session.steps.read_entries import system_items
from refold.session.steps.take_in import is_system
from refold.stores import Store

MAX_OPEN: Final = 256
"""Sessions that stay open by default. An open one holds its view in memory, a few megabytes at most; one that
was closed is read from the store again."""
_NEWEST_NAMES: Final = 64
"""Names that are looked up first, the newest: a client that goes on adds fewer messages in one turn."""
_LEAST_COVERED: Final = 2
"""Messages that a session must have to be found by its end alone, without an answer in it."""
S = TypeVar("S", Session, AsyncSession)
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class SessionMatch:
    """The session to which a list belongs."""

    name: str
    shared: int
    """How many messages of the list it has, counted behind the system messages in front."""


class Sessions:
    """Sessions by key over one store. The least recently used ones are closed; several threads may use it.

    >>> sessions = Sessions(store="memory:", window="8k")
    >>> sessions.get("ann").say("hi"), sessions.get("ann") is sessions.get("ann")
    ('#1', True)
    """

    @check_arguments
    def __init__(
        self,
        *,
        store: str | os.PathLike[str] | Store | None = None,
        options: Callable[[Any], Mapping[str, Any]] | None = None,
        max_open: int = MAX_OPEN,
        on_event: Listener | None = None,
        **defaults: Any,
    ) -> None:
        """Open the store, and no session yet.

        store      an address, a path or an open store, as for `open`
        options    gives the options of one session by its key, such as its model or its policy
        max_open   sessions that stay open
        on_event   called with every event of every session
        defaults   the options of every session, as for `open`
        """
        if max_open < 1:
            raise RefoldError(f"max_open is {max_open!r}: it must be a number from 1 on")
        check_options(open_session, defaults)
        presets.get(defaults.get("policy") or "refold")
        self._owns_store = store is None or isinstance(store, str | os.PathLike)
        self.store = find_store(store, defaults.pop("durability", None))
        self._options, self._defaults, self._max_open = options, defaults, max_open
        self._on_event = on_event
        self._lock = threading.RLock()  # `options` may ask for another session
        self._open: OrderedDict[Hashable, Session] = OrderedDict()
        self._open_async: OrderedDict[tuple[Hashable, str], AsyncSession] = OrderedDict()

    def get(self, key: str | int) -> Session:
        """Return the session of a key; it is created when something is said in it.

        The session's name is the key as text.
        """
        session, unused = self._find(self._open, str(key), key, open_session)
        if unused is not None:
            unused.close()
        return session

    def _get_at_once(self, name: str) -> Session | None:
        """Return the session of a name in an event loop; None if it would be opened, or waited for."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            if name in self._open:
                self._open.move_to_end(name)
            return self._open.get(name)
        finally:
            self._lock.release()

    async def aget(self, key: str | int) -> AsyncSession:
        """Return the session of a key for an event loop."""
        from asyncio import get_running_loop  # expensive to import; whoever is here has imported it already

        place = (get_running_loop(), str(key))  # a session's lock belongs to one event loop
        session, unused = self._find(self._open_async, place, key, aopen)
        if unused is not None:
            await unused.close()
        return session

    def _find(
        self, known: "OrderedDict[K, S]", place: K, key: str | int, make: Callable[..., S]
    ) -> tuple[S, S | None]:
        """Return the session of a key, and one that is to be closed.

        place   under which it is known: by its name, because 1 and "1" are one conversation of the store
        """
        name = _check_key(key)
        with self._lock:
            if place not in known:
                options = {**self._defaults, **((self._options and self._options(key)) or {})}
                known[place] = make(name, store=self.store, **options)
                if self._on_event is not None:
                    known[place].subscribe(self._on_event)
            known.move_to_end(place)
            if len(known) <= self._max_open:
                return known[place], None
            # While the store fails, those whose messages wait in memory stay longer.
            stored = (at for at, one in known.items() if not one.unsaved and at != place)
            oldest = next(iter(known)) if len(known) > 2 * self._max_open else None
            unused = next(stored, oldest)
            return known[place], None if unused is None else known.pop(unused)

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

    def names(self) -> list[str]:
        """Return the names of all sessions in the store, the newest change first; opens none of them."""
        return [info.name for info in self.store.sessions()]

    async def anames(self) -> list[str]:
        """Do as `names`, in a thread."""
        from asyncio import to_thread

        return await to_thread(self.names)

    def delete(self, key: str | int) -> bool:
        """Delete the session of a key for good, with everything that was said; False if there is none.

        What waits in memory goes with it. Whoever still holds the session gets `StoreReplaced` when it
        writes; `get` begins a new one.
        """
        name = _check_key(key)
        was_there = bool(self.store.delete(name))
        with self._lock:  # behind the store, so that nobody opens the old one again in between
            self._open.pop(name, None)
            for place in [place for place in self._open_async if place[1] == name]:
                del self._open_async[place]
        return was_there

    async def adelete(self, key: str | int) -> bool:
        """Do as `delete`, in a thread."""
        from asyncio import to_thread

        return await to_thread(self.delete, key)

    def close(self) -> None:
        """Close the sessions that were got by `get`, and the store if this object opened it."""
        with self._lock:
            sessions, self._open = list(self._open.values()), OrderedDict()
        with ExitStack() as closing:  # one that cannot store what waits must not keep the others from it
            if self._owns_store:
                closing.callback(self.store.close)
            for session in sessions:
                closing.callback(session.close)

    async def aclose(self) -> None:
        """Close the sessions of the event loop, then do as `close`."""
        with self._lock:
            sessions, self._open_async = list(self._open_async.values()), OrderedDict()
        async with AsyncExitStack() as closing:
            closing.callback(self.close)
            for session in sessions:
                closing.push_async_callback(session.close)

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


def _check_key(key: str | int) -> str:
    """Return the name of the session of a key; raises an error if it is none."""
    if isinstance(key, bool) or not isinstance(key, str | int) or not str(key).strip():
        raise RefoldError(f"{key!r} is no key of a session: use a text that is not empty, or a number")
    return str(key)


def find_session(
    store: Store,
    messages: Sequence[Any],
    *,
    format: str | None = None,  # noqa: A002  # the word users know
    hint: str | None = None,
    redact: Callable[[Any], Any] | None = None,
    names: Sequence[str] | None = None,
) -> SessionMatch | None:
    """Return the session that shares most with a list; None if the list begins a conversation.

    hint     a session that the caller believes it is; it is preferred, and needs to share no answer
    redact   removes secrets, as the sessions do before they store a message
    names    names of the messages behind the system messages, where they are known
    """
    items = to_plain_messages(messages)
    wire = choose_format(items, format)
    start = next((at for at, item in enumerate(items) if not is_system(wire, item)), len(items))
    body = items[start:]
    for prefix in ("", AS_WRITTEN) if names is None else ("",):  # logs of the first version have other names
        chain = names or _name_messages(body, prefix, redact)
        if shared := _count_known(store, chain):
            parsed = wire.parse(body[:shared])
            sessions = [found.session for found in store.locate([chain[shared - 1]])[chain[shared - 1]]]
            # a session reads plain messages in its own format
            own = wire if format else formats.detect_or_none(items)
            sessions = [each for each in sessions if own is None or _can_read(store, each, own)]
            if hint not in sessions:  # then one with the same system messages, then the youngest
                sessions = [session for session in sessions if _may_go_on(store, session, parsed)]
                alike = (session for session in sessions if _read_system(store, session) == items[:start])
                hint = next(alike, sessions[0]) if sessions else None
            return None if hint is None else SessionMatch(hint, shared)
    return None


def _name_messages(body: Sequence[Any], prefix: str, redact: Callable[[Any], Any] | None) -> list[str]:
    names = [ROOT]
    for number, item in enumerate(body, 1):
        value = canonical.to_json(item) if isinstance(item, Message) else item
        value = value if redact is None else redact(value)
        names.append(hash_entry(names[-1], "said", value, number, prefix))
    return names[1:]


def _count_known(store: Store, names: Sequence[str]) -> int:
    """Return how many messages some session has: of a known one all before it are known."""
    start = max(0, len(names) - _NEWEST_NAMES)
    known = store.locate(names[start:], limit=1)
    if known:
        return next(at for at in range(len(names), start, -1) if names[at - 1] in known)
    low, high = 0, start  # `low` messages are known, `high` + 1 are not
    while low < high:
        middle = (low + high + 1) // 2
        if store.locate([names[middle - 1]], limit=1):
            low = middle
        else:
            high = middle - 1
    return low


def _may_go_on(store: Store, session: str, shared: Sequence[Message]) -> bool:
    """True if the shared messages tell more than how conversations begin."""
    if any(message.role == "assistant" for message in shared):
        return True
    head = store.head(session)
    return head is not None and _LEAST_COVERED <= len(shared) == head.said


def _can_read(store: Store, session: str, wire: formats.Format) -> bool:
    """True if the messages of a session can be read in this format: else it would refuse the list."""
    head = store.head(session)
    newest = iter(()) if head is None else store.read(session, head.place, kinds=SAID, newest=True)
    last = next(newest, None)
    if last is None or last.beside.get("format", formats.DEFAULT) == wire.name:
        return True
    try:
        return bool(wire.parse([last.value, *(entry.value for entry in newest)][::-1]))
    except FormatError:
        return False


def _read_system(store: Store, session: str) -> list[Any]:
    """Return the system messages of a session."""
    head = store.head(session)
    entries = iter(()) if head is None else store.read(session, head.place, kinds=SYSTEM, newest=True)
    entry = next(entries, None)
    return [] if entry is None else system_items(entry)
