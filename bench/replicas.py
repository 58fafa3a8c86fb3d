"""Many processes on one PostgreSQL store while processes and the server are killed: what is kept.

Run it as `python bench/replicas.py [--seconds N] [--workers N] [--json FILE]`. Workers append messages and,
under a lease, folds to shared sessions, and write down how each append ended. After an error they repeat the
call, as programs do. Now and then a worker is killed with SIGKILL and the server with SIGQUIT; it starts
again at once, and at times only after longer than the store waits. At the end the store is compared with what
was written down: what was acknowledged is there once, at its place, word for word and in order; what was
refused is not there; what nobody heard of is there at most once; and all hashes and parents hold.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from postgres_server import Server, cluster  # noqa: E402  # it stands beside the tests
from refold.core.log.entries import Entry, make_entry  # noqa: E402  # after the path is set
from refold.errors import Conflict, StoreError, StoreUnsure  # noqa: E402
from refold.session import open as open_session  # noqa: E402
from refold.session.session import Session  # noqa: E402
from refold.stores import Head, Store, open_store  # noqa: E402

_FOLD_SHARE: Final = 0.2
_LEASE_SECONDS: Final = 2.0
_PATIENCE: Final = 8
_LONG_EVERY: Final = 3
_WINDOW: Final = 1_000_000
"""So large that no session folds by itself."""


# -- a worker ----------------------------------------------------------------------------------------------


def work(address: str, number: int, sessions: int, journal: Path) -> None:
    """Append until killed; every end of an append is one line in the journal."""
    chance = random.Random()  # noqa: S311  # which session comes next is no secret
    store = _opened(address)
    opened: dict[str, Session] = {}
    with journal.open("ab", buffering=0) as file:
        for turn in count(1):
            session = f"session {chance.randrange(sessions)}"
            token = f"{number}.{os.getpid()}.{turn}"
            if chance.random() < _FOLD_SHARE:
                lines = _fold_to_the_end(store, session, token)
            else:
                if session not in opened:
                    opened[session] = open_session(session, store=store, window=_WINDOW)
                lines = _say_to_the_end(opened[session], token)
            for line in lines:
                file.write(json.dumps(line).encode() + b"\n")


def _opened(address: str) -> Store:
    """The store; a server that restarts refuses connections for a moment."""
    while True:
        try:
            return open_store(address)
        except StoreError:
            time.sleep(0.1)


def _say_to_the_end(session: Session, token: str) -> Iterator[list[Any]]:
    """Say something, and repeat the call after every error."""
    while True:
        try:
            session.say(token)
            break
        except StoreError as error:
            yield ["unknown", session.name, token, str(error)]
    head = session.state.head
    if head is None:
        raise RuntimeError("a session that has spoken has a head")
    yield ["acked", session.name, token, *head.place, time.time()]
    with suppress(StoreError):  # the next message offers it again
        session.state.store.offer(session.name)


def _fold_to_the_end(store: Store, session: str, token: str) -> Iterator[list[Any]]:
    """Fold a session that waits, and ask what became of it where the answer was lost."""
    act: Callable[[], Head | None] = partial(_fold, store, token)
    while True:
        try:
            head = act()
        except Conflict:
            yield ["refused", session, token]
            return
        except StoreUnsure as error:
            act = error.settle
            yield ["unknown", session, token, str(error)]
        except StoreError as error:
            yield ["unknown", session, token, str(error)]
        else:
            if head is not None:
                yield ["acked", session, token, *head.place, time.time()]
            return


def _fold(store: Store, token: str) -> Head | None:
    lease = store.take(holder=token, seconds=_LEASE_SECONDS)
    head = store.head(lease.session) if lease else None
    if lease is None or head is None:
        return None
    fold = make_entry("fold", {"changes": [], "token": token}, parent=head.name, said=head.said)
    try:
        return store.append(lease.session, [fold], expect=head, fence=lease.fence)
    finally:
        with suppress(StoreError):  # it runs out by itself
            store.release(lease)


# -- the campaign ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Team:
    """The workers that run."""

    address: str
    sessions: int
    folder: Path
    running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    kills: int = 0

    def start(self, number: int) -> None:
        """Start a worker."""
        words = [str(number), str(self.sessions), str(self.folder / f"{number}.jsonl")]
        self.running[number] = subprocess.Popen([sys.executable, __file__, "--work", self.address, *words])

    def kill(self, number: int) -> None:
        """Kill a worker without a farewell."""
        worker = self.running.pop(number)
        if worker.poll() is not None:
            raise RuntimeError(f"worker {number} ended by itself")
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        self.kills += 1


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how hard."""

    seconds: float
    workers: int
    sessions: int
    kill_every: float
    restart_every: float
    down_seconds: float
    """How long the server is away at every `_LONG_EVERY`th restart."""
    least: int
    """Appends that have to be acknowledged; a slow machine gets `_PATIENCE` times the seconds for them."""


def campaign(plan: Plan) -> dict[str, Any]:
    """Let workers work while they and the server are killed, and look at what is left."""
    with tempfile.TemporaryDirectory() as folder, cluster(durable=True) as server:
        open_store(server.url).close()
        team = Team(server.url, plan.sessions, Path(folder))
        for number in range(plan.workers):
            team.start(number)
        begun = time.monotonic()
        try:
            restarts = _disturb(team, server, plan)
        finally:
            seconds, kills = time.monotonic() - begun, team.kills
            for number in list(team.running):
                team.kill(number)
        lines = list(_lines(Path(folder)))
        counts = {"workers": plan.workers, "kills": kills, "restarts": len(restarts)}
        return {
            "seconds": round(seconds, 1),
            **counts,
            **judge(server.url, lines),
            **_pauses(lines, restarts),
        }


def _disturb(team: Team, server: Server, plan: Plan) -> list[tuple[float, float]]:
    """Kill and restart until the plan is fulfilled; gives when each restart began and ended."""
    begun = time.monotonic()
    next_kill, next_restart = begun + plan.kill_every, begun + plan.restart_every
    restarts = []
    while _goes_on(team, plan, time.monotonic() - begun):
        if time.monotonic() >= next_kill:
            number = random.choice(list(team.running))  # noqa: S311  # no secret
            team.kill(number)
            team.start(number)
            next_kill = time.monotonic() + plan.kill_every
        if time.monotonic() >= next_restart:
            down = time.time()
            server.stop()
            if len(restarts) % _LONG_EVERY == 0:
                time.sleep(plan.down_seconds)
            server.start()
            restarts.append((down, time.time()))
            next_restart = time.monotonic() + plan.restart_every
        time.sleep(0.05)
    return restarts


def _goes_on(team: Team, plan: Plan, passed: float) -> bool:
    if passed < plan.seconds:
        return True
    acked = sum(line[0] == "acked" for line in _lines(team.folder))
    return acked < plan.least and passed < _PATIENCE * plan.seconds


def _pauses(lines: list[list[Any]], restarts: list[tuple[float, float]]) -> dict[str, float]:
    """How long the server was away, and how long after it was back the next append was acknowledged."""
    times = sorted(line[5] for line in lines if line[0] == "acked")
    after = [next((at - up for at in times if at > up), None) for _, up in restarts]
    return {
        "longest_server_restart_seconds": round(max((up - down for down, up in restarts), default=0.0), 2),
        "longest_recovery_seconds": round(max((one for one in after if one is not None), default=0.0), 2),
        "longest_gap_seconds": round(max((b - a for a, b in pairwise(times)), default=0.0), 2),
    }


def _lines(folder: Path) -> Iterator[list[Any]]:
    """What the workers wrote down; a kill can cut the last line of a journal, which then says nothing."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue


def judge(address: str, lines: list[list[Any]]) -> dict[str, Any]:
    """Compare the store with what was written down."""
    ends: dict[str, list[list[Any]]] = defaultdict(list)
    for line in lines:
        ends[line[0]].append(line)
    with closing(open_store(address)) as store:
        stored: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
        for session, place, one in store.salvage():
            stored[_read_token(one)].append((session, *place))
        troubles = [trouble.what for trouble in store.check()]
    acked = {line[2]: (line[3], line[4]) for line in ends["acked"]}
    return {
        "acknowledged": len(acked),
        "refused": len(ends["refused"]),
        "unknown": len(ends["unknown"]),
        "stored": sum(map(len, stored.values())),
        "lost": sum([place[1:] for place in stored[token]] != [at] for token, at in acked.items()),
        "twice": sum(len(places) > 1 for places in stored.values()),
        "refused_but_stored": sum(bool(stored.get(line[2])) for line in ends["refused"]),
        "out_of_order": _out_of_order(stored, ends["acked"]),
        "branches": sum(place[1] != 0 for places in stored.values() for place in places),
        "troubles": troubles,
        "errors": dict(Counter(line[3][:120] for line in ends["unknown"])),
    }


def _read_token(one: Entry) -> str:
    """The token of an entry whose body is word for word what a worker wrote; else the body."""
    value = one.value
    token = str(value.get("content") if one.kind == "said" else value.get("token"))
    written = {"role": "user", "content": token} if one.kind == "said" else {"changes": [], "token": token}
    return token if value == written else one.body


def _out_of_order(stored: dict[str, list[tuple[str, int, int]]], acked: list[list[Any]]) -> int:
    """How often a worker's later append stands before its earlier one in a session."""
    last: dict[tuple[str, str], int] = {}
    wrong = 0
    for line in acked:
        for session, _, seq in stored.get(line[2], []):
            worker = (line[2].rpartition(".")[0], session)
            wrong += seq < last.get(worker, 0)
            last[worker] = seq
    return wrong


def main() -> None:
    """Run a campaign, or a worker of one."""
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--kill-every", type=float, default=3.0, help="seconds between kills of a worker")
    parser.add_argument(
        "--restart-every", type=float, default=10.0, help="seconds between kills of the server"
    )
    parser.add_argument(
        "--down-seconds",
        type=float,
        default=8.0,
        help="how long the server is away at times; the store waits for 5",
    )
    parser.add_argument("--least", type=int, default=1, help="go on until so many appends are acknowledged")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = campaign(
        Plan(
            seconds=options.seconds,
            workers=options.workers,
            sessions=options.sessions,
            kill_every=options.kill_every,
            restart_every=options.restart_every,
            down_seconds=options.down_seconds,
            least=options.least,
        )
    )
    text = json.dumps(found, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")
    wrong = [
        found[key] for key in ("lost", "twice", "refused_but_stored", "out_of_order", "branches", "troubles")
    ]
    sys.exit(1 if any(wrong) or found["acknowledged"] < options.least else 0)


if __name__ == "__main__":
    main()
