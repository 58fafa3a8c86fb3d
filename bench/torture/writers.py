"""Eight processes on one store, on one session and on one each: nothing lost, nothing twice, in order.

Each process appends and tells what was acknowledged. Who is overtaken gets `Conflict` and tries again behind
the other; who waits too long gets `StoreBusy`, which comes when it was promised and leaves nothing half-done.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from bench.torture.ground import Child, Wrong, folder, message, percentile, tell, token_of

from refold.core.log.entries import SAID
from refold.errors import Conflict, StoreBusy
from refold.stores import Durability, Store, disk, open_store
from refold.stores.sqlite.driver import choose_driver

_WAIT: Final = 1.0
_SLACK: Final = 4.0
"""A busy machine wakes nobody in time."""


def write(
    address: str, durability: Durability, session: str, writer: int, appends: int
) -> Callable[[int], None]:
    """A process that appends, and tells about each append that was acknowledged."""

    def work(out: int) -> None:
        conflicts = busy = 0
        waits: list[float] = []
        with closing(open_store(address, durability=durability)) as store:
            done = 0
            while done < appends:
                begun = time.monotonic()
                try:
                    seq = _append(store, session, f"{writer}.{done}")
                except Conflict:
                    conflicts += 1
                except StoreBusy:
                    busy += 1
                else:
                    tell(out, "acked", f"{writer}.{done}", seq)
                    done += 1
                waits.append(time.monotonic() - begun)
        tell(out, "end", conflicts, busy, max(waits), percentile(waits, 0.99))

    return work


def _append(store: Store, session: str, token: str) -> int:
    head = store.head(session)
    last = None if head is None else next(store.read(session, head.place, kinds=SAID, newest=True), None)
    return store.append(session, [message(token, last)], expect=head).place.seq


def together(
    address: str, *, writers: int, appends: int, shared: bool, durability: Durability = "normal"
) -> dict[str, Any]:
    """Let writers write at once and look at what is there."""
    begun = time.monotonic()
    names = ["all" if shared else f"session {number}" for number in range(writers)]
    children = [Child(write(address, durability, name, number, appends)) for number, name in enumerate(names)]
    lines: list[list[Any]] = []
    codes = []
    for child, told in zip(children, _heard(children), strict=True):
        lines += told[0]
        codes.append(told[1])
        del child
    seconds = time.monotonic() - begun
    ends = [line for line in lines if line[0] == "end"]
    acked = [(line[1], line[2]) for line in lines if line[0] == "acked"]
    wrong = [f"writer {number} ended with {code}" for number, code in enumerate(codes) if code]
    wrong += [f"{line}" for line in lines if line[0] == "error"]
    with closing(open_store(address)) as store:
        wrong += _wrong(store, sorted(set(names)), acked)
    return {
        "acknowledged": len(acked),
        "conflicts": sum(line[1] for line in ends),
        "busy": sum(line[2] for line in ends),
        "longest_wait_seconds": round(max((line[3] for line in ends), default=0.0), 2),
        "p99_wait_seconds": round(max((line[4] for line in ends), default=0.0), 4),
        "appends_per_second": round(len(acked) / seconds),
        "found": wrong,
    }


def _heard(children: Sequence[Child]) -> Iterator[tuple[list[list[Any]], int]]:
    """What each told; all pipes are emptied at once, so that none of them waits for another."""
    import threading  # after the forks, which threads do not survive

    told: dict[int, tuple[list[list[Any]], int]] = {}

    def hear(number: int) -> None:
        told[number] = children[number].told()

    threads = [threading.Thread(target=hear, args=(number,)) for number in range(len(children))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    yield from (told[number] for number in range(len(children)))


def _wrong(store: Store, sessions: Sequence[str], acked: Sequence[tuple[str, int]]) -> Iterator[str]:
    yield from (f"check: {trouble.what}" for trouble in store.check())
    found: list[tuple[str, int]] = []
    for session in sessions:
        head = store.head(session)
        path = [] if head is None else list(store.read(session, head.place))
        found += [(token_of(one), number) for number, one in enumerate(path, 1)]
        if [one.said for one in path] != list(range(1, len(path) + 1)):
            yield f"{session} is not in order"
        own: dict[str, list[int]] = {}
        for one in path:
            writer, _, turn = token_of(one).partition(".")
            own.setdefault(writer, []).append(int(turn))
        if mixed := [writer for writer, turns in own.items() if turns != sorted(turns)]:
            yield f"what these writers said is not in order in {session}: {mixed}"
    if len({token for token, _ in found}) != len(found):
        yield "something is there twice"
    if lost := {token for token, _ in acked} - {token for token, _ in found}:
        yield f"lost: {sorted(lost)[:5]}"
    if sorted(found) != sorted(acked):
        yield "what is there, and where, is not what was acknowledged"
    if len(list(store.salvage())) != len(found):
        yield "there are entries beside the paths"


def held(kind: str, place: Path) -> dict[str, Any]:
    """Another process holds the lock for good: `StoreBusy` comes in time, and once it is gone all is well."""
    address = f"{kind}:{place}"
    options: dict[str, Any] = {"busy_seconds": _WAIT} if kind == "sqlite" else {}
    disk_wait, disk.WAIT_SECONDS = disk.WAIT_SECONDS, _WAIT  # type: ignore[misc]  # the seam for the store of files
    wrong: list[str] = []
    try:
        with closing(open_store(address, **options)) as store:
            head = store.append("held", [message("first")], expect=None)
            holder = Child(lambda out: _hold(kind, place, out))
            if holder.first_word() != b"\n":
                wrong.append("the holder did not get its lock")
            begun = time.monotonic()
            try:
                store.append("held", [message("second")], expect=head)
                wrong.append("an append went through a lock")
            except StoreBusy:
                pass
            waited = time.monotonic() - begun
            os.kill(holder.pid, signal.SIGKILL)
            holder.told(b"0")
            if not _WAIT * 0.9 <= waited <= _WAIT + _SLACK:
                wrong.append(f"waited {waited:.1f} s instead of {_WAIT}")
            if store.append("held", [message("second")], expect=head).place.seq != 2:
                wrong.append("the append that was refused left something")
    finally:
        disk.WAIT_SECONDS = disk_wait  # type: ignore[misc]
    return {"waited_seconds": round(waited, 2), "promised_seconds": _WAIT, "found": wrong}


def _hold(kind: str, place: Path, out: int) -> None:
    """Hold the lock of the store, or of each of its files."""
    if kind == "sqlite":
        raw = choose_driver().connect(str(place), "write")
        raw.execute("BEGIN IMMEDIATE")
    else:
        for path in place.glob("*.jsonl"):
            disk.lock(os.open(path, os.O_RDWR), path)
    os.write(out, b"\n")
    time.sleep(60)


def campaign(
    *,
    writers: int = 8,
    appends: int = 5_000,
    told: Callable[[str], None] = lambda _line: None,
) -> dict[str, Any]:
    """Every form on both kinds of store; on one session they are in each other's way, so fewer there."""
    wrong = Wrong()
    rows: dict[str, Any] = {}
    with folder() as place:
        for kind in ("sqlite", "jsonl"):
            for shared in (False, True):
                name = f"{kind}, {'one session' if shared else 'one session each'}"
                each = max(1, appends // 5) if shared else appends
                address = f"{kind}:{place / name.replace(' ', '-')}"
                row = together(address, writers=writers, appends=each, shared=shared)
                wrong.add(name, row.pop("found"))
                rows[name] = {"writers": writers, "appends_each": each, **row}
                told(f"{name}: {rows[name]}")
            row = held(kind, place / f"{kind}-held")
            wrong.add(f"{kind}, held", row.pop("found"))
            rows[f"{kind}, held by another"] = row
            told(f"{kind}, held: {row}")
    acknowledged = sum(row.get("acknowledged", 0) for row in rows.values())
    return {"acknowledged": acknowledged, "forms": rows, **wrong.as_json()}
