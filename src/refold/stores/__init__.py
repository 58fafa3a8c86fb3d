"""Where logs rest: the contract that every store serves, and how one is opened by its address.

    memory:                     gone with the process
    jsonl:DIR                   one file of JSON lines for each session
    sqlite:FILE                 the default
    postgresql://...            many processes and hosts on one database

A store keeps entries and one pointer for each session, the head. `append` is the only way in: it adds
entries behind the head and moves the head, both or neither, and only if the head is still where the caller
saw it. When it returns, the entries are there for good: with `durability="full"` also after a loss of power,
with `"normal"` after the process is killed. Entries are never changed and never removed.

A *place* says where an entry stands. Appending behind a place that already has something behind it begins a
new branch there; the old one stays. The path to a place are the entries on the way to it from the first one.
Stores may be used by several threads at once. Session names are data: any text.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from refold.core.log.entries import Entry, Kind
from refold.errors import RefoldError

GROUP: Final = "refold.stores"
Durability: TypeAlias = Literal["full", "normal"]


class Place(NamedTuple):
    """Where an entry stands: the line it is on, and its number, which only grows in a session."""

    line: int
    seq: int


START: Final = Place(0, 0)
"""The place before the first entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Where a session is."""

    place: Place
    name: str
    """Name of the entry that stands there; "" for none."""
    said: int
    """How many messages have been said on the way there."""
    version: int
    """Grows with every move; two heads with one version are one head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """A session in a list of sessions."""

    name: str
    said: int
    entries: int
    """On all branches."""
    created: float
    changed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One hit of a search."""

    session: str
    entry: Entry
    place: Place
    score: float
    """Higher is better; only good for comparing hits of one search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to work on a session for a while."""

    session: str
    holder: str
    fence: int
    """Grows with every lease of the session; an append with an older one is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something in a store that is not as it should be."""

    session: str
    what: str
    """One line for people: which entry or line, and what is wrong with it."""
    seq: int | None = None


class Log(Protocol):
    """Entries and the head."""

    def sessions(self) -> list[Info]:
        """All sessions, the one that changed last first."""
        ...

    def head(self, session: str) -> Head | None:
        """Where a session is; None where there is none of this name."""
        ...

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

        expect   the head as the caller saw it, None where there was no session; `Conflict` where it moved
        at       where to go on; the head by default; `START` for the very beginning. With no entries the
                 head only moves there.
        fence    of the caller's lease; `Conflict` where a younger lease was given since

        `StoreFull` where the disk is, `StoreBusy` where others held the store for too long.
        """
        ...

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
        """Entries on the path to a place, oldest first, or newest first.

        first, last   only those whose `said` lies between, both included
        kinds         only those
        Reads in pages, so that a long log needs little memory. What was appended before the call is there.
        """
        ...

    def find(self, session: str, names: Sequence[str]) -> dict[str, Place]:
        """Where entries of these names stand, on whatever branch; those that are not there are left out."""
        ...


class Search(Protocol):
    """Full text over everything ever said."""

    def search(
        self, query: str, *, session: str | None = None, limit: int = 10, some: bool = False
    ) -> list[Found]:
        """The best hits, best first, on all branches; any text is a valid query, an empty one finds nothing.

        Hits have every word of the query, or, where nothing has, most of them; with `some`, words that are
        rare weigh more and one is enough.
        """
        ...


class Notes(Protocol):
    """Small facts of the store as a whole, e.g. windows that were learned."""

    def note(self, key: str) -> str | None:
        """What was noted last."""
        ...

    def put_note(self, key: str, value: str) -> None:
        """Note something; durable on return."""
        ...


class Leases(Protocol):
    """Who works on what: one at a time, for a while."""

    def claim(self, session: str, *, holder: str, seconds: float) -> Lease | None:
        """The right to work on a session; None while somebody else has it. A holder may renew its own."""
        ...

    def release(self, lease: Lease) -> None:
        """Give it back; nothing happens where somebody else has it by now."""
        ...

    def offer(self, session: str) -> None:
        """Put a session among those that wait for work; once, however often it is offered."""
        ...

    def take(self, *, holder: str, seconds: float) -> Lease | None:
        """Claim a session that waits for work, the oldest first, and take it from those that wait.

        One whose lease ran out before it was released waits again.
        """
        ...


class Store(Log, Search, Notes, Leases, Protocol):
    """All of it."""

    @property
    def address(self) -> str:
        """How it was opened, without secrets."""
        ...

    def check(self) -> Iterator[Trouble]:
        """Look at everything that is stored; gives what is wrong."""
        ...

    def salvage(self) -> Iterator[tuple[str, Place, Entry]]:
        """Everything that can still be read, with its session and place, in the order it was stored."""
        ...

    def close(self) -> None:
        """Let go of files and connections; may be called twice."""
        ...


_BUILT_IN: Final = {
    "memory": "refold.stores.memory.store:open_store",
    "jsonl": "refold.stores.jsonl.store:open_store",
    "sqlite": "refold.stores.sqlite.store:open_store",
    "postgresql": "refold.stores.postgres.store:open_store",
    "postgres": "refold.stores.postgres.store:open_store",
}


def open_store(address: str, *, durability: Durability | None = None, **options: Any) -> Store:
    """Open the store at an address; other schemes come from the entry-point group `refold.stores`."""
    from refold.stores.addresses import opened  # keeps the contract's page short

    return opened(address, _BUILT_IN, durability=durability, **options)


def refuse(scheme: str, known: Collection[str]) -> RefoldError:
    """The error for an address that nobody serves."""
    return RefoldError(f"there is no store {scheme!r}; known are: {', '.join(sorted(known))}")
