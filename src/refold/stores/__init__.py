"""The contract that every store serves, and `open_store`, which opens one by its address.

    memory:                     gone with the process
    jsonl:DIR                   one file of JSON lines for each session
    sqlite:FILE                 the default
    postgresql://...            many processes and hosts on one database

This module knows the addresses of the stores and nothing of how they work.

A store keeps entries and one pointer for each session, the head. `append` is the only way to write: it adds
entries behind the head and moves the head, both or neither, and only if the head is still where the caller
saw it. The entries are durable when it returns: with `durability="full"` they survive a loss of power, with
`"normal"` they survive a kill of the process. Entries are never changed, and go only with their session.

A store has a *scope*: a tenant, who sees nothing of other tenants. Without one it is `default`.

A *place* is the position of an entry: its line (branch) and its number. Appending behind a place that already
has a successor begins a new line there; the old line stays. The path to a place is the row of entries that
lead to it from the first one. Several threads may use a store at once. Any text is a valid session name.

A store may also have `append_at_once`, with the arguments of `append`: it appends if that waits for nobody,
and returns None if it might wait. It is asked first, and in an event loop `append` runs in a thread.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, cast
from urllib.parse import parse_qsl

from refold.arguments import check_arguments
from refold.core.log.entries import Entry, Kind
from refold.core.messages.quick_init import quick_init
from refold.errors import FormatError, RefoldError, StoreError

Durability: TypeAlias = Literal["full", "normal"]


class Place(NamedTuple):
    """Position of an entry: its line (branch) and its number, which grows with every entry of the session."""

    line: int
    seq: int


START: Final = Place(0, 0)
"""The place before the first entry."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Current position of a session."""

    place: Place
    name: str
    """Name of the entry at this place; "" at the start."""
    said: int
    """Number of messages on the path to it."""
    version: int
    """Grows by one with every move, so that two heads with the same version are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """Summary of one session, for lists."""

    name: str
    said: int
    entries: int
    """Number of entries on all branches."""
    created: float
    changed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """One entry that a search found."""

    session: str
    entry: Entry
    place: Place
    score: float
    """Higher is better; comparable only within one search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One line of a session."""

    begins: Place
    """The place that it begins behind; `START` for the first one."""
    ends: Place
    """The place of its last entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """An entry with some name, in one of the sessions."""

    session: str
    place: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Temporary right to work on a session."""

    session: str
    holder: str
    fence: int
    """Grows with every new lease of the session; an append with an older fence is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """One thing that is damaged or inconsistent in a store."""

    session: str
    what: str
    """One line for people: the entry or row, and what is wrong with it."""
    seq: int | None = None


class Log(Protocol):
    """Entries and heads."""

    def sessions(self) -> list[SessionInfo]:
        """List all sessions, most recently changed first."""

    def head(self, session: str) -> Head | None:
        """Return the head of a session, or None if there is no such session."""

    def append(
        self,
        session: str,
        entries: Sequence[Entry],
        *,
        expect: Head | None,
        at: Place | None = None,
        fence: int | None = None,
    ) -> Head:
        """Add entries behind a place and move the head behind them, all or nothing; durable on return.

        expect   the head as the caller saw it, None for no session; raises `Conflict` if it moved
        at       place to append behind: the head by default, `START` for the beginning. Without entries
                 only the head moves there.
        fence    fence of the caller's lease; raises `Conflict` if a newer lease exists

        Raises `StoreFull` if the disk is full, `StoreBusy` if other processes held the store for too long,
        and `StoreUnsure` if the answer was lost: only its `settle` tells whether the entries are stored.
        """

    def read(
        self,
        session: str,
        place: Place,
        *,
        kinds: Collection[Kind] | None = None,
        first: int = 0,
        last: int | None = None,
        newest: bool = False,
    ) -> Iterator[Entry]:
        """Iterate over the entries on the path to a place, oldest first unless `newest`.

        kinds         only entries of these kinds
        first, last   only entries whose `said` lies in this range, both ends included

        Reads in pages, so that a long log needs little memory. Sees everything appended before the call.
        """

    def find(self, session: str, names: Sequence[str]) -> dict[str, Place]:
        """Find entries by name on all branches; names that do not exist are left out."""

    def find_marks(self, session: str, kind: Kind) -> list[tuple[Place, Entry]]:
        """Find the entries of a kind on all branches, in the order they were stored; not for messages."""

    def branches(self, session: str) -> list[Branch]:
        """List the lines of a session in the order in which they began; reads no entry."""

    def locate(self, names: Sequence[str], *, limit: int = 8) -> dict[str, list[Located]]:
        """Find messages by name in all sessions of this scope; names that do not exist are left out.

        Of the sessions that have a message those that stored it last come first, at most `limit`.
        Uses an index over all sessions and reads no log.
        """

    def delete(self, *sessions: str) -> dict[str, int]:
        """Remove sessions with everything that belongs to them; returns the bytes of those that were there.

        Each goes as a whole or not at all, is gone for good on return, and takes nothing of others with it,
        also where they share messages. Its notes, leases and place in the queue go as well. Who has it open
        gets `Conflict` or `StoreReplaced` from the next append.
        """


class Search(Protocol):
    """Full-text search over every message."""

    def search(
        self, query: str, *, session: str | None = None, limit: int = 10, some: bool = False
    ) -> list[SearchHit]:
        """Return the best hits on all branches, best first. Any text is a valid query; "" finds nothing.

        A hit has every word of the query or, if no entry has, most of them. With `some` one word is enough,
        and rare words weigh more.
        """


class Notes(Protocol):
    """Small values that belong to the whole store, such as learned context windows."""

    def note(self, key: str) -> str | None:
        """Return the value that was noted last for a key, or None."""

    def put_note(self, key: str, value: str) -> None:
        """Set the value of a key; durable on return."""

    def notes(self, start: str) -> dict[str, str]:
        """Return the notes whose keys start so."""


class Leases(Protocol):
    """Leases, which let one worker at a time work on a session, and the queue of sessions that need work."""

    def claim(self, session: str, *, holder: str, seconds: float) -> Lease | None:
        """Lease a session, or renew the lease of the same holder; None while another holder has it."""

    def release(self, lease: Lease) -> None:
        """End a lease; does nothing if the session has a newer lease."""

    def offer(self, session: str) -> None:
        """Add a session to the queue of those that need work, unless it is in there."""

    def take(self, *, holder: str, seconds: float) -> Lease | None:
        """Remove the oldest session from the queue and lease it; None if the queue is empty.

        A session whose lease expires before it is released goes back to its place in the queue.
        """


class Store(Log, Search, Notes, Leases, Protocol):
    """The whole contract."""

    @property
    def address(self) -> str:
        """Address that opens this store again, without secrets."""

    def check(self) -> Iterator[Defect]:
        """Examine everything that is stored and yield each defect."""

    def salvage(self) -> Iterator[tuple[str, Place, Entry]]:
        """Yield every readable entry with its session and place, in the order it was stored."""

    def close(self) -> None:
        """Close files and connections; may be called twice."""


JOB_NOTE: Final = "job:"
"""Beginning of the key of the note that tells a worker what it has to know of a session."""
SESSION_NOTE: Final = "session:"
"""Beginning of the key under which a gateway notes what it knows of a session."""
DEFAULT_SCOPE: Final = "default"
"""The scope of a store that names none. Not empty, because a setting of PostgreSQL that was never made reads
as empty."""
_LONGEST_SCOPE: Final = 500
"""Characters. In PostgreSQL the scope is part of every index, whose rows have room for 2,704 bytes."""
BUILT_IN: Final = {
    "memory": "refold.stores.memory",
    "jsonl": "refold.stores.jsonl.store",
    "sqlite": "refold.stores.sqlite.store",
    "postgresql": "refold.stores.postgres.store",
    "postgres": "refold.stores.postgres.store",
}
"""Module of each scheme. Imported on use: PostgreSQL needs an extra, and the others cost time to load."""


@check_arguments
def open_store(
    address: str | os.PathLike[str],
    *,
    durability: Durability | None = None,
    busy_seconds: float | str | None = None,
    connections: int | None = None,
    driver: str | None = None,
    now: Callable[[], float] | None = None,
    scope: str | None = None,
) -> Store:
    """Open the store at an address; `sqlite:FILE?durability=full` sets an option in the address.

    A path (an object, or text with a separator such as `./talks.db`) is the file of a SQLite store. Other
    schemes come from the entry-point group `refold.stores`; their options go into the address.

    durability     "normal" survives a kill of the process, "full" also a loss of power
    busy_seconds   how long to wait for others (sqlite, postgresql)
    connections    most connections at a time (postgresql)
    driver         "apsw" or "sqlite3" (sqlite)
    now            clock, for tests
    scope          tenant, who sees nothing of other tenants; in a file or folder of its own (sqlite, jsonl)
    """
    is_path = not isinstance(address, str) or is_bare_path(address)
    scheme, colon, rest = ("sqlite", ":", os.fspath(address)) if is_path else str(address).partition(":")
    if not colon:
        how = f"sqlite:{address}" if "." in scheme else "sqlite:FILE, jsonl:DIR, postgresql://... or memory:"
        raise RefoldError(f"{address!r} is not the address of a store: write {how}")
    arguments = {
        "durability": durability,
        "busy_seconds": busy_seconds,
        "connections": connections,
        "driver": driver,
        "now": now,
        "scope": scope,
    }
    options: dict[str, Any] = {key: value for key, value in arguments.items() if value is not None}
    if scheme in ("postgresql", "postgres"):
        rest = str(address)  # the server's library reads the rest of the query
    elif not is_path:
        rest, _, query = rest.partition("?")
        options = dict(parse_qsl(query, keep_blank_values=True)) | options
    if options.get("durability", "normal") not in ("full", "normal"):
        raise RefoldError(f"durability is full or normal, not {options['durability']!r}")
    store: Store = _find_opener(scheme)(rest, **options)
    return store


def name_notes(session: str) -> list[str]:
    """Return the keys of the notes that belong to a session, and go with it."""
    return [f"{JOB_NOTE}{session}", f"{SESSION_NOTE}{session}"]


def is_bare_path(address: str) -> bool:
    """True for text that has a separator and no scheme before it; one letter before a colon is a drive."""
    scheme, colon, rest = address.partition(":")
    if not colon or "/" in scheme or os.sep in scheme:
        return "/" in address or os.sep in address
    return len(scheme) == 1 and rest.startswith(("/", "\\"))


def _find_opener(scheme: str) -> Callable[..., Any]:
    """Return the function that opens stores of a scheme, built in or from a plug-in."""
    if scheme in BUILT_IN:
        return cast("Callable[..., Any]", import_module(BUILT_IN[scheme]).open_store)
    from importlib.metadata import entry_points  # slow to import, and only unknown schemes need it

    plug_ins = {point.name: point for point in entry_points(group="refold.stores")}
    if scheme not in plug_ins:
        known = ", ".join(sorted({*BUILT_IN, *plug_ins}))
        raise FormatError(f"there is no store {scheme!r}; known stores: {known}", path="store")
    return cast("Callable[..., Any]", plug_ins[scheme].load())


def check_scope(scope: str) -> str:
    """Return the name of a tenant; raises an error if it is none."""
    if not 0 < len(scope) <= _LONGEST_SCOPE or not scope.isprintable():
        raise RefoldError(f"a scope has 1 to {_LONGEST_SCOPE} printable characters, not {scope[:40]!r}")
    return scope


def refuse_options(scheme: str, options: Mapping[str, Any]) -> None:
    """Raise an error for options that a store does not have."""
    if options:
        unknown = ", ".join(sorted(options))
        raise StoreError(f"the store {scheme}: has no option {unknown}: leave it out of the address")


def refuse_missing_folder(folder: Path) -> None:
    """Raise an error if the folder in which a store would be made does not exist: it may be mistyped."""
    try:
        folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"there is no folder {folder}: check the address, or create the folder") from None
    except (OSError, ValueError):
        return  # the store says why it cannot be used
