"""A loss of power at any moment: what may be on the disk then, opened and compared with what was promised.

Short random histories are recorded write by write and sync by sync. From each recording images are rebuilt of
what a disk may hold at a moment (`disks` says how), opened by an ordinary store and looked through:

    durability=full     everything acknowledged is there, whole appends only, nothing is damaged
    durability=normal   what is there is how the store once stood: SQLite as a whole, each file of the other

The store of files may refuse a file in which later sectors arrived and earlier ones did not, where nothing
was synced in between: it cannot tell that from damage. It has to say so, and what was acknowledged as durable
can be salvaged; such images are counted as refused.
"""

import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from unittest.mock import patch

import apsw
from bench.processes import map_in_processes
from bench.torture.disks import LOSSES, Event, Loss, Recording
from bench.torture.ground import Wrong, dice, emptied, folder, message
from bench.torture.recorders import VFS, RecordingVFS, recorded_calls

from refold.errors import LogCorrupt, StoreError
from refold.stores import Durability, Store, open_store
from refold.stores.sqlite.connection import Connection
from refold.stores.sqlite.driver import choose_driver
from refold.stores.sqlite.store import SQLiteStore

if TYPE_CHECKING:
    from refold.core.log.entries import Entry

Kind: TypeAlias = Literal["wal", "journal", "jsonl"]
State: TypeAlias = dict[str, Any]
"""How each part of a store stands: sessions by name, and the notes."""
_NAME: Final = "store"
_SESSIONS: Final = ("one", "two")
_OLD: Final = (3, 40, 0)
"""A library that gets a rollback journal instead of a write-ahead log."""
_IMAGES_OF_A_RECORDING: Final = 50


def opened(kind: Kind, place: Path, durability: Durability, *, vfs: str | None = None) -> Store:
    """The store in a folder."""
    if kind == "jsonl":
        return open_store(f"jsonl:{place}", durability=durability)
    plain = choose_driver("apsw")
    if vfs is not None:
        plain = replace(plain, connect=lambda path, _access: apsw.Connection(path, vfs=vfs))
    if kind == "journal":
        plain = replace(plain, version=_OLD)
    path = str(place / _NAME)
    with warnings.catch_warnings(action="ignore"):
        connection = Connection(path, driver=plain, durability=durability, busy_seconds=1)
    return SQLiteStore(connection, lambda: 1.0, f"sqlite:{path}")


def state(store: Store) -> State:
    """How a store stands."""
    found: State = {"notes": store.note("n")}
    for name in _SESSIONS:
        head = store.head(name)
        path = () if head is None else tuple(one.name for one in store.read(name, head.place))
        found[name] = head and (head.version, head.place, path)
    return found


# -- recording ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Recorded:
    """A short history: what it did to the disk, and how the store stood after each change."""

    kind: Kind
    durability: Durability
    events: Recording
    states: list[State]


@contextmanager
def _watched(kind: Kind, place: Path, recording: Recording) -> Iterator[str | None]:
    if kind == "jsonl":
        with recorded_calls(place, recording):
            yield None
        return
    vfs = RecordingVFS(recording)
    try:
        yield VFS
    finally:
        vfs.unregister()


def record(kind: Kind, durability: Durability, place: Path, chance: random.Random) -> Recorded:
    """Let a store live for a while, and note everything."""
    recording, states = Recording(), list[State]()
    carry = chance.choice((60_000, 300_000, 16_000_000))
    with (
        patch("refold.stores.sqlite.connection._CHECKPOINT_BYTES", carry),
        patch("refold.stores.jsonl.key_file._SPARE", 3),
        _watched(kind, place, recording) as vfs,
    ):
        store = opened(kind, place, durability, vfs=vfs)
        states.append(state(store))
        for turn in range(chance.randint(8, 40)):
            if chance.random() < 0.06:
                store.close()
                store = opened(kind, place, durability, vfs=vfs)
            _change(store, f"t.{turn}", chance)
            now = state(store)
            if now != states[-1]:
                states.append(now)
                recording.add(Event("mark", at=len(states) - 1))
        if chance.random() < 0.5:
            store.close()
        ended = len(recording.events)
    with suppress(StoreError):
        store.close()
    del recording.events[ended:]
    return Recorded(kind, durability, recording, states)


def _change(store: Store, token: str, chance: random.Random) -> None:
    """One change of some kind; the rarer ones leave no trace in the state but write."""
    act = chance.random()
    session = chance.choice(_SESSIONS)
    if act < 0.1:
        store.put_note("n", token)
    elif act < 0.15:
        store.search("lorem")
    elif act < 0.2 and (lease := store.claim(session, holder=token, seconds=5)):
        store.release(lease)
    else:
        _append(store, session, token, chance)


def _append(store: Store, session: str, token: str, chance: random.Random) -> None:
    head = store.head(session)
    path: list[Entry] = [] if head is None else list(store.read(session, head.place))
    at = None
    if path and chance.random() < 0.1:  # a branch
        path = path[: chance.randint(1, len(path))]
        at = store.find(session, [path[-1].name])[path[-1].name]
    entries: list[Entry] = []
    for number in range(chance.randint(1, 4)):
        before = entries[-1] if entries else path[-1] if path else None
        entries.append(message(f"{token}.{number}", before, padding=chance.choice((10, 100, 600, 3_000))))
    store.append(session, entries, expect=head, at=at)


# -- looking at images -------------------------------------------------------------------------------------


def judged(recorded: Recorded, place: Path, mark: int, *, go_on: bool) -> tuple[list[str], str, int]:
    """Look at an image: what is wrong, what was found (whole, less, refused), how many changes are lost."""
    states = recorded.states
    try:
        with closing(opened(recorded.kind, place, recorded.durability)) as store:
            if troubles := [trouble.what for trouble in store.check()]:
                return _refused(recorded, place, mark, troubles)
            found = state(store)
            depth = _depth(recorded, found, mark)
            if depth is None:
                return ["the store never stood like this"], "wrong", 0
            if go_on:
                _append(store, "one", "after", dice("after"))
                if list(store.check()):
                    return ["damaged by going on"], "wrong", 0
    except LogCorrupt as error:
        return _refused(recorded, place, mark, [str(error)])
    except StoreError as error:
        return [f"cannot be used: {error}"], "wrong", 0
    lost = max(0, mark - depth)
    if recorded.durability == "full" and lost:
        return [f"{lost} acknowledged changes are lost of {mark} in {len(states)}"], "wrong", lost
    return [], "less" if lost else "whole", lost


def _depth(recorded: Recorded, found: State, mark: int) -> int | None:
    """After how many changes the store stood like this; at most the one in flight may be there besides."""
    possible = recorded.states[: mark + 2]
    if recorded.kind != "jsonl" or recorded.durability == "full":
        return next((index for index in range(len(possible) - 1, -1, -1) if possible[index] == found), None)
    depths = []
    for part, stood in found.items():
        fitting = [index for index, one in enumerate(possible) if one[part] == stood]
        if not fitting:
            return None
        depths.append(fitting[-1])
    return min(depths)


def _refused(
    recorded: Recorded, place: Path, mark: int, troubles: Sequence[str]
) -> tuple[list[str], str, int]:
    """A store that says it is damaged; what it promised to keep can still be salvaged."""
    if recorded.kind != "jsonl":
        return [f"damaged: {what}" for what in troubles], "wrong", 0
    if recorded.durability == "full":
        with closing(opened(recorded.kind, place, recorded.durability)) as store:
            left = {one.name for _, _, one in store.salvage()}
        stood = [recorded.states[mark][name] for name in _SESSIONS]
        if any(set(session[2]) - left for session in stood if session):
            return ["acknowledged, and cannot even be salvaged"], "wrong", 0
    return [], "refused", 0


# -- the campaign ------------------------------------------------------------------------------------------

FORMS: Final[tuple[tuple[Kind, Durability], ...]] = (
    ("wal", "full"),
    ("wal", "normal"),
    ("journal", "full"),
    ("journal", "normal"),
    ("jsonl", "full"),
    ("jsonl", "normal"),
)


def campaign(
    *, seed: int, images: int = 12_000, told: Callable[[str], None] = lambda _line: None, jobs: int = 1
) -> dict[str, Any]:
    """Rebuild so many images in all, and look at each; recordings are shared among some processes."""
    wrong = Wrong()
    rows: dict[str, Counter[str]] = {" ".join(form): Counter() for form in FORMS}
    most = dict.fromkeys(rows, 0)
    recordings = -(-images // len(FORMS) // _IMAGES_OF_A_RECORDING)
    items = [(form, number) for form in FORMS for number in range(recordings)]

    def work(item: tuple[tuple[Kind, Durability], int]) -> list[tuple[list[str], str, int]]:
        (kind, durability), number = item
        with folder(in_memory=True) as place:
            return list(_images(place, kind, durability, (seed, f"{kind} {durability}", number)))

    for (form, number), found in zip(items, map_in_processes(work, items, jobs), strict=True):
        name = " ".join(form)
        for faults, what, lost in found:
            wrong.add(f"{name} seed={seed} recording={number}", faults)
            rows[name][what] += 1
            most[name] = max(most[name], lost)
        if number == recordings - 1:
            told(f"{name}: {dict(sorted(rows[name].items()))}, at most {most[name]} changes lost")
    by_form = {
        name: {**dict(sorted(row.items())), "most_changes_lost": most[name]} for name, row in rows.items()
    }
    refused = sum(row.get("refused", 0) for row in rows.values())
    return {
        "images": sum(row.total() for row in rows.values()),
        "refused": refused,
        "by_form": by_form,
        **wrong.as_json(),
    }


def _images(
    place: Path, kind: Kind, durability: Durability, seed: Any
) -> Iterator[tuple[list[str], str, int]]:
    chance = dice(*seed)
    recorded = record(kind, durability, emptied(place / "recorded"), chance)
    events = recorded.events.events
    moments = sorted(chance.choices(range(1, len(events) + 1), k=_IMAGES_OF_A_RECORDING))
    for index, at in enumerate(recorded.events.moments(moments)):
        disk = at()
        loss: Loss = chance.choice(LOSSES)
        disk.image(emptied(place / "image"), loss, chance)
        faults, what, lost = judged(recorded, place / "image", disk.mark, go_on=index % 5 == 0)
        if what == "refused" and loss != "any order":
            faults, what = [*faults, f"refused, though sectors arrived in order ({loss})"], "wrong"
        detail = f"event={moments[index]} loss={loss}"
        yield [f"{detail}: {fault}" for fault in faults], what, lost
