"""The store of plain files: one file of JSON rows for each session, which other tools can read.

The file of a session is named by a hash of the session's name, so any text is a valid name. Beside the
sessions are `notes.jsonl`, `leases.jsonl` and `names.jsonl`. Every append is one write that ends with a row
for the head. Writers lock the file, readers do not. Only an index of offsets is kept in memory.
"""

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Any, Final
from urllib.parse import quote

from refold.core.log.entries import Entry, Kind
from refold.errors import SessionNotFound, StoreError
from refold.stores import (
    DEFAULT_SCOPE,
    Branch,
    Defect,
    Durability,
    Head,
    Lease,
    Located,
    Place,
    SearchHit,
    SessionInfo,
    check_scope,
    name_notes,
    refuse_missing_folder,
    refuse_options,
)
from refold.stores.disk import map_errors, sync_folder
from refold.stores.jsonl.key_file import KeyFile
from refold.stores.jsonl.name_file import NameFile
from refold.stores.jsonl.scan import FileSearch, find_defects, salvage_file
from refold.stores.jsonl.session_file import SessionFile, peek_info
from refold.stores.lease_table import LeaseRecord, LeaseTable
from refold.stores.text import name_hash

_MOST_INDEXES: Final = 256
"""Sessions whose index stays in memory, about 40 bytes for each entry; others are read again when needed."""
_SUFFIX: Final = ".jsonl"


def open_store(
    rest: str,
    *,
    durability: Durability = "normal",
    now: Callable[[], float] = time.time,
    scope: str = DEFAULT_SCOPE,
    **options: Any,
) -> "JsonlStore":
    """Open a folder of logs; creates it if there is none.

    scope   tenant, who has a folder of its own in the folder `scopes`
    """
    refuse_options("jsonl", options)
    if not rest or "\0" in rest:
        raise StoreError("jsonl: needs a folder: write jsonl:DIR")
    folder = Path(rest).expanduser()
    with map_errors(folder):
        if folder.is_file():
            raise StoreError(f"{folder} is a file, not a folder: write jsonl:DIR")
        if not folder.is_dir():
            refuse_missing_folder(folder.absolute().parent)
            folder.mkdir(mode=0o700, exist_ok=True)
            sync_folder(folder.parent)
        address = f"jsonl:{folder}"
        if check_scope(scope) != DEFAULT_SCOPE:
            address = f"{address}?scope={quote(scope)}"
            for name in ("scopes", name_hash(scope).hex()):
                folder = folder / name
                folder.mkdir(mode=0o700, exist_ok=True)
                sync_folder(folder.parent)
    return JsonlStore(folder, address, sync=durability == "full", now=now)


class JsonlStore:
    """Sessions in files of a folder."""

    def __init__(self, folder: Path, address: str, *, sync: bool, now: Callable[[], float]) -> None:
        self.address = address
        self._folder = folder
        self._sync = sync
        self._now = now
        self._process = os.getpid()
        self._open = True
        self._reset()

    def _reset(self) -> None:
        self._lock = RLock()
        self._files: OrderedDict[Path, SessionFile] = OrderedDict()
        self._notes = KeyFile(self._folder / "notes.jsonl", sync=self._sync)
        self._lease_file = KeyFile(self._folder / "leases.jsonl", sync=self._sync)
        self._lease_table = LeaseTable(
            lambda session, record: self._lease_file.put(session, asdict(record)), self._now
        )
        self._search = FileSearch()
        self._names = NameFile(self._folder / "names.jsonl")

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        # After a fork, another thread of the parent may have held the lock: a child begins with its own.
        if self._process != os.getpid():
            self._process = os.getpid()
            self._reset()
        with self._lock:
            self._require_open()
            yield

    def _require_open(self) -> None:
        if not self._open:
            raise StoreError(f"the store {self.address} is closed: open it again")

    def _file(self, session: str) -> SessionFile:
        return self._file_at(self._folder / f"{name_hash(session).hex()}{_SUFFIX}")

    def _file_at(self, path: Path) -> SessionFile:
        file = self._files.pop(path, None) or SessionFile(path)
        self._files[path] = file
        if len(self._files) > _MOST_INDEXES:
            self._files.popitem(last=False)
        return file

    def _paths(self) -> list[Path]:
        """List the files of all sessions."""
        with map_errors(self._folder):
            return sorted(self._folder.glob("?" * 40 + _SUFFIX))

    # -- the log -----------------------------------------------------------------------------------------

    def sessions(self) -> list[SessionInfo]:
        """List all sessions, most recently changed first."""
        infos = []
        with self._hold_lock():
            for path in self._paths():
                info = peek_info(path)
                if info is None:  # the last row is long or not whole: read the file
                    file = self._file_at(path)
                    info = file.info() if file.refresh() else None
                if info is not None:
                    infos.append(info)
        return sorted(infos, key=lambda info: -info.changed)

    def head(self, session: str) -> Head | None:
        """Return the head of a session, or None if there is no such session."""
        with self._hold_lock():
            file = self._file(session)
            return file.require_sure_head() if file.refresh() else None

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
        # With a fence the leases stay locked, so that no newer lease is given before the append is done.
        with self._hold_lock(), nullcontext() if fence is None else self._leases() as leases:
            if leases is not None:
                leases.check_fence(session, fence)
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
        """Iterate over the entries on the path to a place, oldest first unless `newest`."""
        with self._hold_lock():
            file = self._file(session)
            if not file.refresh() or file.head is None:
                raise SessionNotFound(f"there is no session {session!r}")
            extents = file.walk(place, kinds=kinds, first=first, last=last, newest=newest)
        return file.entries(extents, self._require_open)

    def find(self, session: str, names: Sequence[str]) -> dict[str, Place]:
        """Find entries by name on all branches."""
        with self._hold_lock():
            file = self._file(session)
            return file.find(names) if file.refresh() else {}

    def find_marks(self, session: str, kind: Kind) -> list[tuple[Place, Entry]]:
        """Find the entries of a kind on all branches, in the order they were stored."""
        with self._hold_lock():
            file = self._file(session)
            found = file.index.find_kind(kind) if file.refresh() else []
        entries = file.entries(iter([extent for _, extent in found]), self._require_open)
        return list(zip((place for place, _ in found), entries, strict=True))

    def branches(self, session: str) -> list[Branch]:
        """List the lines of a session in the order in which they began."""
        with self._hold_lock():
            file = self._file(session)
            return file.index.list_branches() if file.refresh() else []

    def locate(self, names: Sequence[str], *, limit: int = 8) -> dict[str, list[Located]]:
        """Find messages by name in all sessions; reads only what was added to their files since."""
        with self._hold_lock():
            self._names.follow(self._paths())
            located = {name: list(islice(self._locate(name), limit)) for name in names}
        return {name: sessions for name, sessions in located.items() if sessions}

    def _locate(self, name: str) -> Iterator[Located]:
        for stem in self._names.find(name):
            file = self._file_at(self._folder / f"{stem}{_SUFFIX}")
            places = file.find([name]) if file.refresh() else {}
            if places and file.session is not None:
                yield Located(session=file.session, place=places[name])

    def delete(self, *sessions: str) -> dict[str, int]:
        """Remove sessions with everything that belongs to them; their files go last."""
        with self._hold_lock():
            self._lease_file.remove(sessions)
            self._notes.remove(note for session in sessions for note in name_notes(session))
            sizes = {session: self._file(session).delete() for session in dict.fromkeys(sessions)}
            self._names.drop_missing(self._paths())
        return {session: size for session, size in sizes.items() if size is not None}

    # -- search, notes, leases ---------------------------------------------------------------------------

    def search(
        self, query: str, *, session: str | None = None, limit: int = 10, some: bool = False
    ) -> list[SearchHit]:
        """Return the best hits, best first; the first search reads every file once."""
        with self._hold_lock():
            only = None if session is None else self._file(session).path
            return self._search.search(query, self._paths(), only=only, limit=limit, some=some)

    def note(self, key: str) -> str | None:
        """Return the value that was noted last for a key, or None."""
        with self._hold_lock():
            self._notes.refresh()
            return self._notes.values.get(key)

    def put_note(self, key: str, value: str) -> None:
        """Set the value of a key; durable on return."""
        with self._hold_lock(), self._notes.hold_lock():
            self._notes.put(key, value)

    def notes(self, start: str) -> dict[str, str]:
        """Return the notes whose keys start so."""
        with self._hold_lock():
            self._notes.refresh()
            return {key: value for key, value in self._notes.values.items() if key.startswith(start)}

    @contextmanager
    def _leases(self) -> Iterator[LeaseTable]:
        """Lock the file of leases and load what is in there."""
        with self._lease_file.hold_lock():
            records = {name: LeaseRecord(**value) for name, value in self._lease_file.values.items()}
            self._lease_table.load(records)
            yield self._lease_table

    def claim(self, session: str, *, holder: str, seconds: float) -> Lease | None:
        """Lease a session, or renew the lease of the same holder; None while another holder has it."""
        with self._hold_lock(), self._leases() as leases:
            return leases.claim(session, holder=holder, seconds=seconds)

    def release(self, lease: Lease) -> None:
        """End a lease."""
        with self._hold_lock(), self._leases() as leases:
            leases.release(lease)

    def offer(self, session: str) -> None:
        """Add a session to the queue of those that need work, unless it is in there."""
        with self._hold_lock(), self._leases() as leases:
            leases.offer(session)

    def take(self, *, holder: str, seconds: float) -> Lease | None:
        """Remove the oldest session from the queue and lease it."""
        with self._hold_lock(), self._leases() as leases:
            return leases.take(holder=holder, seconds=seconds)

    # -- the whole store ----------------------------------------------------------------------------------

    def check(self) -> Iterator[Defect]:
        """Read every row of every file and yield those that are not as they were written."""
        with self._hold_lock():
            paths = self._paths()
        for path in paths:
            yield from find_defects(path)
        for file in (self._notes, self._lease_file):
            for what in file.find_defects():
                yield Defect(session="", what=what)

    def salvage(self) -> Iterator[tuple[str, Place, Entry]]:
        """Yield every entry that can still be read, session by session."""
        with self._hold_lock():
            paths = self._paths()
        for path in paths:
            yield from salvage_file(path)

    def close(self) -> None:
        """Forget everything; no file is open between calls."""
        self._open = False
        self._reset()
