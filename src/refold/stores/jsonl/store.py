"""The store of plain files: one file of JSON rows for each session, made for reading with other tools.

A session's file is named by a hash of the session's name, so any text is a name. Beside them stand
`notes.jsonl` and `leases.jsonl`. Every append is one write that ends with a row saying where the head is;
writers lock the file, readers do not. Only an index of offsets is held in memory.
"""

import hashlib
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, Final

from refold.core.log.entries import Entry, Kind
from refold.errors import SessionNotFound, StoreError
from refold.stores import Durability, Found, Head, Info, Lease, Place, Trouble
from refold.stores.addresses import no_more
from refold.stores.disk import errors_of, sync_folder
from refold.stores.jsonl.check import salvaged, troubles
from refold.stores.jsonl.key_file import Ledger
from refold.stores.jsonl.search import FileWords
from refold.stores.jsonl.session_file import SessionFile, peek
from refold.stores.lease_table import Desk, Record

_KNOWN: Final = 256
"""Sessions whose index is kept in memory."""
_SUFFIX: Final = ".jsonl"
_HASH_BYTES: Final = 20


def open_store(
    rest: str,
    *,
    durability: Durability = "normal",
    now: Callable[[], float] = time.time,
    **options: Any,
) -> "JsonlStore":
    """Open a folder of logs; makes it where there is none."""
    no_more("jsonl", options)
    if not rest or "\0" in rest:
        raise StoreError("jsonl: needs a folder: write jsonl:DIR")
    folder = Path(rest).expanduser()
    with errors_of(folder):
        if folder.is_file():
            raise StoreError(f"{folder} is a file, not a folder: write jsonl:DIR")
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_folder(folder.parent)
    return JsonlStore(folder, sync=durability == "full", now=now)


class JsonlStore:
    """Sessions in files of a folder."""

    def __init__(self, folder: Path, *, sync: bool, now: Callable[[], float]) -> None:
        self.address = f"jsonl:{folder}"
        self._folder = folder
        self._sync = sync
        self._now = now
        self._process = os.getpid()
        self._open = True
        self._begin()

    def _begin(self) -> None:
        self._lock = RLock()
        self._files: OrderedDict[Path, SessionFile] = OrderedDict()
        self._notes = Ledger(self._folder / "notes.jsonl", sync=self._sync)
        self._leases = Ledger(self._folder / "leases.jsonl", sync=self._sync)
        self._desk = Desk(lambda session, record: self._leases.put(session, record.to_json()), self._now)
        self._words = FileWords()

    @contextmanager
    def _using(self) -> Iterator[None]:
        if self._process != os.getpid():  # a child's locks and caches are its own
            self._process = os.getpid()
            self._begin()
        with self._lock:
            self._alive()
            yield

    def _alive(self) -> None:
        if not self._open:
            raise StoreError(f"the store {self.address} is closed: open it again")

    def _file(self, session: str) -> SessionFile:
        hashed = hashlib.blake2b(session.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES)
        return self._file_at(self._folder / f"{hashed.hexdigest()}{_SUFFIX}")

    def _file_at(self, path: Path) -> SessionFile:
        file = self._files.pop(path, None) or SessionFile(path)
        self._files[path] = file
        if len(self._files) > _KNOWN:
            self._files.popitem(last=False)
        return file

    def _paths(self) -> list[Path]:
        """The files of all sessions."""
        with errors_of(self._folder):
            return sorted(self._folder.glob("?" * 2 * _HASH_BYTES + _SUFFIX))

    # -- the log -----------------------------------------------------------------------------------------

    def sessions(self) -> list[Info]:
        """All sessions, the one that changed last first."""
        with self._using():
            found = [info for path in self._paths() if (info := self._info(path))]
        return sorted(found, key=lambda info: -info.changed)

    def _info(self, path: Path) -> Info | None:
        if info := peek(path):
            return info
        file = self._file_at(path)
        return file.info() if file.refresh() else None

    def head(self, session: str) -> Head | None:
        """Where a session is."""
        with self._using():
            file = self._file(session)
            return file.sure_head() if file.refresh() else None

    def append(
        self,
        session: str,
        entries: Sequence[Entry],
        *,
        expect: Head | None,
        at: Place | None = None,
        fence: int | None = None,
    ) -> Head:
        """Add entries behind a place and move the head behind them, all or nothing; durable on return."""
        with self._using():
            if fence is None:
                return self._append(session, entries, expect, at)
            with self._at_desk():
                self._desk.check(session, fence)
                return self._append(session, entries, expect, at)

    def _append(self, session: str, entries: Sequence[Entry], expect: Head | None, at: Place | None) -> Head:
        file = self._file(session)
        return file.append(session, entries, expect=expect, at=at, now=self._now(), sync=self._sync)

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
        """Entries on the path to a place, oldest first, or newest first."""
        with self._using():
            file = self._file(session)
            if not file.refresh() or file.head is None:
                raise SessionNotFound(f"there is no session {session!r}")
            spots = file.walk(place, kinds=kinds, first=first, last=last, newest=newest)
        return file.entries(spots, self._alive)

    def find(self, session: str, names: Sequence[str]) -> dict[str, Place]:
        """Where entries of these names stand."""
        with self._using():
            file = self._file(session)
            return file.find(names) if file.refresh() else {}

    # -- search, notes, leases ---------------------------------------------------------------------------

    def search(
        self, query: str, *, session: str | None = None, limit: int = 10, some: bool = False
    ) -> list[Found]:
        """The best hits, best first; the first search reads everything once."""
        with self._using():
            only = None if session is None else self._file(session).path
            return self._words.search(query, self._paths(), only=only, limit=limit, some=some)

    def note(self, key: str) -> str | None:
        """What was noted last."""
        with self._using():
            self._notes.refresh()
            return self._notes.facts.get(key)

    def put_note(self, key: str, value: str) -> None:
        """Note something; durable on return."""
        with self._using(), self._notes.held():
            self._notes.put(key, value)

    @contextmanager
    def _at_desk(self) -> Iterator[Desk]:
        with self._leases.held():
            self._desk.load({session: Record(**fact) for session, fact in self._leases.facts.items()})
            yield self._desk

    def claim(self, session: str, *, holder: str, seconds: float) -> Lease | None:
        """The right to work on a session; None while somebody else has it."""
        with self._using(), self._at_desk() as desk:
            return desk.claim(session, holder=holder, seconds=seconds)

    def release(self, lease: Lease) -> None:
        """Give it back."""
        with self._using(), self._at_desk() as desk:
            desk.release(lease)

    def offer(self, session: str) -> None:
        """Put a session among those that wait for work."""
        with self._using(), self._at_desk() as desk:
            desk.offer(session)

    def take(self, *, holder: str, seconds: float) -> Lease | None:
        """Claim a session that waits for work, the oldest first."""
        with self._using(), self._at_desk() as desk:
            return desk.take(holder=holder, seconds=seconds)

    # -- all of it ---------------------------------------------------------------------------------------

    def check(self) -> Iterator[Trouble]:
        """Read every row of every file; gives those that are not as they were written."""
        with self._using():
            paths = self._paths()
        for path in paths:
            yield from troubles(path)
        for ledger in (self._notes, self._leases):
            for what in ledger.troubles():
                yield Trouble(session="", what=what)

    def salvage(self) -> Iterator[tuple[str, Place, Entry]]:
        """Every entry that can still be read, session by session."""
        with self._using():
            paths = self._paths()
        for path in paths:
            yield from salvaged(path)

    def close(self) -> None:
        """Let go of everything; no file is open between calls."""
        self._open = False
        self._begin()
