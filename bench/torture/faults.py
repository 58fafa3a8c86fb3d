"""EIO, ENOSPC and EINTR from the n-th system call of each kind, by strace, while a store is at work.

A process opens a store and appends; strace, attached to it, lets one system call fail. The process tells
every act through a socket, so that strace's own log shows in which act the call failed and how that ended:

    an act that failed raised a StoreError (StoreFull where nothing was written), and could be done again
    an act that ended well in spite of the fault did not need the call, or made it again where it was only
    interrupted ("absorbed", listed by call)
    afterwards everything acknowledged is there once and in order, and nothing is damaged
"""

import ctypes
import os
import re
import shutil
import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from bench.torture.ground import Wrong, emptied, folder, forked, message, token_of

from refold.errors import StoreError, StoreFull
from refold.stores import Durability, Store, open_store

if TYPE_CHECKING:
    from refold.core.log.entries import Entry

SESSION: Final = "tortured"
_TURNS: Final = 210
_AFTER: Final = 6
"""So many acts follow the one that failed."""
_PTRACER: Final = 0x59616D61
_ANYBODY: Final = ctypes.c_ulong(-1)
_CALLS: Final = {
    "sqlite": ("pwrite64", "fdatasync", "fsync", "openat", "ftruncate", "fallocate", "unlink", "unlinkat"),
    "jsonl": (
        *("write", "fdatasync", "fsync", "openat", "ftruncate", "link", "linkat"),
        *("rename", "renameat", "unlink", "unlinkat"),
    ),
}
_DATA: Final = frozenset(
    {"write", "pwrite64", "fdatasync", "fsync", "ftruncate", "link", "linkat", "rename", "renameat"}
)
"""Calls that an acknowledged append rests upon."""
_RENAMED: Final = " after rename"
_SPARE: Final = ("-shm", ".new", _RENAMED)
"""What nothing rests upon: shared memory, a copy that was to take the place of a longer file, and the sync of
its name: the old file is as good, and the next write makes sure of the name."""
_INTERRUPTED: Final = 40
_TOLD: Final = re.compile(r'sendto\([^"]*"(\w+) (\w+) (\d+) ?([^"]*)"')
_INJECTED: Final = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\(INJECTED\)$")


# -- the process whose calls fail --------------------------------------------------------------------------


class Worker:
    """Acts on a store, tells about each act, and tries again what failed."""

    def __init__(self, address: str, durability: Durability, out: socket.socket) -> None:
        self._address = address
        self._durability = durability
        self._out = out
        self._store: Store | None = None
        self._last: Entry | None = None
        self._left = _TURNS

    def run(self) -> None:
        """Open, append and note until enough was done."""
        self._surely("open", 0, self._open)
        turn = 0
        while self._left > 0:
            turn += 1
            self._left -= 1
            if turn % 10 == 0:
                self._surely("note", turn, lambda turn=turn: self._there.put_note("n", str(turn)))  # type: ignore[misc]
            else:
                self._surely("append", turn, lambda turn=turn: self._append(turn))  # type: ignore[misc]
        with suppress(StoreError):
            self._there.close()

    @property
    def _there(self) -> Store:
        if self._store is None:
            raise RuntimeError("not open")
        return self._store

    def _open(self) -> None:
        self._store = open_store(self._address, durability=self._durability)

    def _append(self, turn: int) -> None:
        made = message(f"t.{turn}", self._last, padding=(turn * 37) % 900)
        if not self._there.find(SESSION, [made.name]):  # a try that was told to have failed may have landed
            self._there.append(SESSION, [made], expect=self._there.head(SESSION))
        self._last = made

    def _surely(self, act: str, turn: int, do: Callable[[], None]) -> None:
        for _ in range(3):
            self._tell(f"begin {act} {turn}")
            try:
                do()
            except StoreError as error:
                self._tell(f"failed {act} {turn} {type(error).__name__}")
                self._left = min(self._left, _AFTER)
                if isinstance(error, StoreFull) and act == "append" and self._landed(turn):
                    self._tell(f"wrong {act} {turn} StoreFull, and yet it was written")
            except Exception as error:  # noqa: BLE001  # that it is not typed is what is looked for
                self._tell(f"untyped {act} {turn} {type(error).__name__} {error}")
            else:
                self._tell(f"ok {act} {turn}")
                return
        self._tell(f"wrong {act} {turn} failed three times though the fault was gone")
        os._exit(1)

    def _landed(self, turn: int) -> bool:
        made = message(f"t.{turn}", self._last, padding=(turn * 37) % 900)
        return bool(self._there.find(SESSION, [made.name]))

    def _tell(self, line: str) -> None:
        self._out.send(line.replace('"', "'").encode())


def _child(address: str, durability: Durability, go: int, out: socket.socket) -> None:
    """The process: waits until it is watched, then works."""
    code = 1
    try:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PTRACER, _ANYBODY, 0, 0, 0)
        os.read(go, 1)
        Worker(address, durability, out).run()
        code = 0
    finally:
        os._exit(code)


# -- one fault ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fault:
    """One call that fails."""

    call: str
    error: str
    number: int


@dataclass(frozen=True, slots=True)
class Run:
    """What strace saw of a process: what it told, and in which act the call failed."""

    told: list[tuple[str, str, int, str]]
    hit: str = ""
    """What the call that failed was about; "" where no call failed."""
    act: str = ""
    ended: str = ""
    """How the act ended: ok, failed, untyped."""


def can_trace() -> bool:
    """Whether strace is there and may look at other processes."""
    if shutil.which("strace") is None:
        return False
    with folder(in_memory=True) as place:
        run = traced(
            f"jsonl:{place / 'store'}", "full", Fault("write", "EIO", 1), place / "log", patient=False
        )
    return run is not None and bool(run.hit)


def traced(
    address: str, durability: Durability, fault: Fault, log: Path, *, patient: bool = True
) -> Run | None:
    """Let a process work on a store with this fault; None where it could not be watched."""
    go, start = os.pipe()
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    pid = forked()
    if pid == 0:
        _child(address, durability, go, theirs)
    calls = ",".join(sorted({fault.call, "sendto", "?rename", "?renameat"}))
    inject = f"inject={fault.call}:error={fault.error}:when={fault.number}"
    words = ["strace", "-f", "-y", "-s", "400", "-o", str(log), "-e", f"trace={calls}", "-e", inject]
    with subprocess.Popen([*words, "-p", str(pid)], stderr=subprocess.PIPE, text=True) as tracer:
        first = tracer.stderr.readline() if tracer.stderr else ""
        os.write(start, b"!")
        os.waitpid(pid, 0)
    for end in (ours, theirs):
        end.close()
    os.close(go)
    os.close(start)
    if "attached" not in first:
        if patient:
            raise RuntimeError(f"strace does not work here: {first}")
        return None
    return _parsed(log.read_text(errors="replace"))


def _parsed(log: str) -> Run:
    told: list[tuple[str, str, int, str]] = []
    hit = act = ended = after = ""
    for line in log.splitlines():
        if injected := _INJECTED.match(line):
            hit = f"{injected[1]} {_path(injected[2])}{after}"
            act = told[-1][1] if told and told[-1][0] == "begin" else "close"
        elif re.search(r"\brename(?:at2?)?\(", line):  # some machines have renameat alone
            after = _RENAMED
        elif found := _TOLD.search(line):
            after = ""
            told.append((found[1], found[2], int(found[3]), found[4]))
            if act and not ended:
                ended = found[1]
    return Run(told, hit, act, ended)


def _path(arguments: str) -> str:
    """What sort of file a call was about."""
    named = re.search(r'[<"](/[^>"]*)[>"]', re.sub(r"AT_FDCWD<[^>]*>", "", arguments))
    name = Path(named[1]).name if named else "?"
    name = re.sub(r"[0-9a-f]{40}", "HASH", name)
    return re.sub(r"\.\d+\.[0-9a-f]+\.new$", ".new", name)


def wrong_in(run: Run, address: str, *, again: bool = False) -> list[str]:
    """What is wrong with a run and with what it left; `again`: the call may have been made again."""
    wrong = [
        f"{what} {act} {turn}: {more}" for what, act, turn, more in run.told if what in ("wrong", "untyped")
    ]
    call, _, name = run.hit.partition(" ")
    needed = call in _DATA and not name.endswith(_SPARE) and not again
    if run.act in ("append", "note") and run.ended == "ok" and needed:
        wrong.append(f"silent: {run.hit} failed in {run.act}, which was acknowledged")
    acked = [f"t.{turn}" for what, act, turn, _ in run.told if (what, act) == ("ok", "append")]
    notes = [str(turn) for what, act, turn, _ in run.told if (what, act) == ("ok", "note")]
    with closing(open_store(address)) as store:
        wrong += [f"check: {trouble.what}" for trouble in store.check()]
        head = store.head(SESSION)
        found = [] if head is None else [token_of(one) for one in store.read(SESSION, head.place)]
        if found != acked:
            wrong.append(f"acknowledged {len(acked)}, found {len(found)}: {found[-3:]}")
        if len(list(store.salvage())) != len(found):
            wrong.append("there is more than one path")
        if store.note("n") != (notes[-1] if notes else None):
            wrong.append(f"the note says {store.note('n')}, not {notes[-1:]}")
    return wrong


# -- the campaign ------------------------------------------------------------------------------------------


def campaign(
    *,
    most: int = 200,
    errors: Sequence[str] = ("EIO", "ENOSPC", "EINTR"),
    calls: dict[str, Sequence[str]] | None = None,
    told: Callable[[str], None] = lambda _line: None,
) -> dict[str, Any]:
    """Let each of the first `most` calls of every kind fail once, as far as there are so many."""
    wrong = Wrong()
    counts: dict[str, dict[str, int]] = {}
    ends: Counter[str] = Counter()
    absorbed: Counter[str] = Counter()
    with (
        folder(in_memory=True) as place,
        patch("refold.stores.sqlite.connection._CHECKPOINT_BYTES", 200_000),
        patch("refold.stores.jsonl.key_file._SPARE", 3),
    ):
        _warm_up(emptied(place / "warm"))
        for kind, names in (calls or _CALLS).items():
            for call in names:
                for error in errors:
                    faults = (Fault(call, error, number) for number in range(1, _most(error, most) + 1))
                    tried = _sweep(place, kind, faults, (wrong, ends, absorbed))
                    if tried:
                        counts.setdefault(f"{kind} {call}", {})[error] = tried
                    told(f"{kind} {call} {error}: {tried} faults, {wrong.count} wrong so far")
    return {
        "injected": sum(sum(row.values()) for row in counts.values()),
        "by_call": counts,
        "ended": dict(sorted(ends.items())),
        "absorbed": dict(sorted(absorbed.items())),
        **wrong.as_json(),
    }


def _most(error: str, most: int) -> int:
    """How many calls fail; one that is only interrupted is made again, which a few show."""
    return min(most, _INTERRUPTED) if error == "EINTR" else most


def _sweep(
    place: Path, kind: str, faults: Iterator[Fault], into: tuple[Wrong, Counter[str], Counter[str]]
) -> int:
    """The first, the second, ... call fails; how many did."""
    wrong, ends, absorbed = into
    tried = 0
    for fault in faults:
        address = f"{kind}:{emptied(place / 'store') / 'here'}"
        run = traced(address, "full", fault, place / "log")
        if run is None or not run.hit:
            break
        tried, again = fault.number, fault.error == "EINTR"
        raised = next((more for what, _, _, more in run.told if what == "failed"), "")
        ends[f"{fault.error} {raised or ('absorbed' if run.ended in ('ok', '') else run.ended)}"] += 1
        if run.ended in ("ok", ""):
            absorbed[f"{kind} {run.hit} in {run.act}"] += 1
        wrong.add(f"{kind} {fault.call} {fault.error} n={fault.number}", wrong_in(run, address, again=again))
    return tried


def _warm_up(place: Path) -> None:
    """Load everything that is loaded late, so that only the store's own calls can fail."""
    for kind in _CALLS:
        with closing(open_store(f"{kind}:{place / kind}", durability="full")) as store:
            store.append(SESSION, [message("t.0")], expect=None)
            store.put_note("n", "0")
            list(store.check())
            with suppress(StoreError):
                store.append(SESSION, [], expect=None)
            with suppress(StoreError):
                open_store("jsonl:/proc/none/none")
