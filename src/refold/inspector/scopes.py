"""The stores and sessions that an inspector shows: one scope for each tenant; all calls are for threads."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from refold.core.compaction.policy import Policy
from refold.core.log.entries import SAID, Entry
from refold.inspector.options import InspectorOptions
from refold.inspector.stored import StoredSession, read_stored
from refold.session.many import Sessions
from refold.session.opening import find_store
from refold.session.session import Session
from refold.stores import Store

if TYPE_CHECKING:
    from refold.core.models.prices import Spent
    from refold.core.models.windows import Window

FindLive: TypeAlias = Callable[[str, str], Session | None]
"""Returns the open session of a gateway by tenant and name; None if it has none."""


def find_none(_tenant: str, _name: str) -> Session | None:
    """Find no session: this process has none open."""
    return None


TENANT_NOTE: Final = "tenant:"
"""Beginning of the keys under which a gateway notes its tenants, in the store of those who name none."""
_MOST_OPEN: Final = 32
"""Sessions that stay open; each holds its view in memory."""
_MOST_KNOWN: Final = 2_000
"""Sessions whose marks are remembered, so that a list of them is not read again and again."""
_MOST_SCOPES: Final = 16


class Scope:
    """What one tenant sees."""

    def __init__(self, tenant: str, store: Store, options: InspectorOptions, find_live: FindLive) -> None:
        self.tenant, self.store, self.options = tenant, store, options
        self._find_live = find_live
        self._lock = threading.Lock()
        self._known: OrderedDict[str, StoredSession] = OrderedDict()
        self._windows: dict[tuple[str, str], Window] = {}
        self.costs: dict[str, tuple[tuple[int, float], float, dict[int, Spent]]] = {}
        """For each session its size and time when its costs were read, since when, and what it spent then."""
        self._sessions = Sessions(
            store=store, options=self._find_options, max_open=_MOST_OPEN, ask=options.ask, **options.caps
        )

    def read(self, name: str) -> StoredSession:
        """Return a session as its log records it; read again only if its head has moved."""
        head = self.store.head(name)
        with self._lock:
            known = self._known.get(name)
        if known is not None and known.head == head:
            return known
        stored = read_stored(self.store, name)
        with self._lock:
            self._known[name] = stored
            self._known.move_to_end(name)
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return stored

    def read_message(self, stored: StoredSession, number: int) -> Entry | None:
        """Return a message of a session's own branch; None if there is none of this number."""
        place = stored.head.place
        return next(iter(self.store.read(stored.name, place, kinds=SAID, first=number, last=number)), None)

    def find_entry(self, stored: StoredSession, name: str) -> Entry | None:
        """Return an entry of any branch by its name."""
        place = self.store.find(stored.name, [name]).get(name)
        return None if place is None else next(iter(self.store.read(stored.name, place, newest=True)), None)

    def open(self, name: str) -> Session:
        """Return a session that exists: the gateway's own if it is open there, for it knows more."""
        live = self._find_live(self.tenant, name)
        if live is not None:
            return live
        options = self._find_options(name)
        session = self._sessions.get(name)
        if session.model != options["model"]:
            session.use(model=options["model"], window=options["window"])
        return session

    def make_policy(self, stored: StoredSession) -> Policy:
        """Return the policy of a session: that of the gateway, or else the one of this inspector."""
        return self.options.make_policy(stored.note.policy or self.options.policy)

    def find_window(self, stored: StoredSession) -> tuple[int, int]:
        """Return the window of a session and the room in it, as far as its log and its model tell."""
        policy = self.make_policy(stored)
        key = (policy.name, stored.model)
        if key not in self._windows:  # a model that nobody knows is warned of once
            self._windows[key] = policy.window(stored.model or None)
        window, given = self._windows[key], self.options.window or stored.note.window
        window = window.resize(given, "given") if given else window
        return window.tokens, max(1, policy.find_room(window)[1])

    def _find_options(self, name: Any) -> dict[str, Any]:
        stored = self.read(str(name))
        return {
            "model": stored.model or None,
            "window": self.options.window or stored.note.window,
            "endpoint": stored.note.endpoint,
            "policy": self.make_policy(stored),
            "format": stored.wire,
        }

    def close(self) -> None:
        """Close the sessions."""
        self._sessions.close()


class Scopes:
    """The scopes of all tenants over one store."""

    def __init__(self, options: InspectorOptions, find_live: FindLive = find_none) -> None:
        self._options, self._find_live = options, find_live
        self._lock = threading.Lock()
        self._scopes: OrderedDict[str, Scope] = OrderedDict()
        self._users: Counter[str] = Counter()
        """How many requests use the scope of a tenant now."""

    @contextmanager
    def use(self, tenant: str) -> Iterator[Scope]:
        """Use the scope of a tenant; its store is opened when it is needed, and not closed meanwhile."""
        with self._lock:
            scope = self._scopes.get(tenant)
            if scope is None:
                store = find_store(self._options.store, None, scope=tenant or None)
                scope = self._scopes[tenant] = Scope(tenant, store, self._options, self._find_live)
            self._scopes.move_to_end(tenant)
            self._users[tenant] += 1
        try:
            yield scope
        finally:
            with self._lock:
                self._users[tenant] -= 1
            self._close_unused()

    def _close_unused(self) -> None:
        """Close the scopes that nobody has used for longest, if there are many."""
        with self._lock:
            idle = [tenant for tenant in self._scopes if not self._users[tenant]]
            surplus = max(0, len(self._scopes) - _MOST_SCOPES)
            unused = [self._scopes.pop(tenant) for tenant in idle[:surplus]]
        for scope in unused:
            self._close(scope)

    def list_tenants(self) -> list[str]:
        """Return the tenants of the store, as the gateways on it have noted them."""
        with self.use("") as scope:
            return sorted(key.removeprefix(TENANT_NOTE) for key in scope.store.notes(TENANT_NOTE))

    def close(self) -> None:
        """Close the sessions, and the stores that were opened here."""
        with self._lock:
            scopes, self._scopes = list(self._scopes.values()), OrderedDict()
        for scope in scopes:
            self._close(scope)

    def _close(self, scope: Scope) -> None:
        scope.close()
        if scope.store is not self._options.store:
            scope.store.close()
