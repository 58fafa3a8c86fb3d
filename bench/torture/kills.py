"""SIGKILL at random moments of a process that appends, folds, unfolds, notes and migrates.

The process tells each act before it begins and after it returned. After each kill the store is opened again:
every acknowledged message is there once and in order, nothing is there that was not begun, hashes and parents
hold, the view can be computed, and the session goes on. `failpoints` kills at the steps that matter most.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from bench.processes import map_in_processes, split_in_batches
from bench.torture.ground import Child, Wrong, dice, folder, percentile, tell, token_of
from bench.torture.migrations import migration_kill

import refold
from refold.core.log.entries import Entry
from refold.core.log.view import project
from refold.session.session import Session
from refold.stores import Durability, Store, open_store

SESSION: Final = "tortured"
_KILLS_OF_A_STORE: Final = 20
"""Then a new one is begun, so that looking at everything stays quick."""
_MIGRATIONS: Final = 10
"""Of so many kills on SQLite one is of a migration."""
_ACTS: Final = (
    *["say"] * 10,
    *["compact", "prepare", "unfold", "checkpoint", "note"] * 2,
)
_LONGEST_LIFE: Final = 0.15


@dataclass(slots=True)
class Story:
    """What the processes told so far about one store."""

    begun: list[str] = field(default_factory=list)
    """Tokens of messages, in order."""
    acked: set[str] = field(default_factory=set)
    heads: list[str] = field(default_factory=list)
    """Names of the head after each acknowledged act."""
    notes: set[str | None] = field(default_factory=lambda: {None})
    """What the note may say."""

    def hear(self, lines: list[list[Any]]) -> str:
        """Take in what a process told; gives the act that it was killed in."""
        during = "open"
        for kind, act, token, *more in lines:
            during = act if kind == "begin" else "between"
            if act == "say" and kind == "begin":
                self.begun.append(token)
            elif act == "say":
                self.acked.add(token)
            elif act == "note":
                self.notes = {*self.notes, token} if kind == "begin" else {token}
            if kind == "done" and more[0]:
                self.heads.append(more[0])
        return during


# -- the process that is killed ----------------------------------------------------------------------------


def live(address: str, durability: Durability, seed: Any, life: int) -> Callable[[int], None]:
    """Act until killed."""

    def work(out: int) -> None:
        chance = dice(seed, life)
        # so that the file of notes is also written anew now and then
        with patch("refold.stores.jsonl.key_file._SPARE", 3):
            session = _opened(address, durability)
            for turn in count():
                act, token = chance.choice(_ACTS), f"{life}.{turn}"
                tell(out, "begin", act, token)
                _act(session, act, token, chance.choice((20, 200, 2_000, 20_000)))
                head = session.state.store.head(SESSION)
                tell(out, "done", act, token, head.name if head else "")

    return work


def _opened(store: str | Store, durability: Durability | None = None) -> Session:
    return refold.open(SESSION, store=store, durability=durability, window=8_000)


def _act(session: Session, act: str, token: str, size: int) -> None:
    if act == "say":
        role = "user" if int(token.rpartition(".")[2]) % 2 else "assistant"
        session.say({"role": role, "content": f"{token} {'word ' * (size // 5)}"})
    elif act == "compact":
        session.compact(strategy="truncate")
    elif act == "prepare":
        session.prepare()
    elif act == "unfold":
        session.unfold()
    elif act == "checkpoint":
        session.checkpoint(token)
    else:
        session.state.store.put_note("last", token)


# -- the look afterwards -----------------------------------------------------------------------------------


def look(address: str, story: Story, *, say: str) -> list[str]:
    """Everything that is wrong in the store; says something there, if all is well."""
    wrong: list[str] = []
    with closing(open_store(address)) as store:
        wrong += [f"check: {trouble.what}" for trouble in store.check()]
        session = _opened(store)
        entries = session.log()
        wrong += messages_wrong(entries, story)
        wrong += _names_wrong(entries, [one for _, _, one in store.salvage()], story)
        if project(entries).items != session.state.view.items:
            wrong.append("the view is not what its log says")
        if store.note("last") not in story.notes:
            wrong.append(f"the note says {store.note('last')!r}, not one of {sorted(map(str, story.notes))}")
        if not wrong:
            story.begun.append(say)
            session.say(say)
            story.acked.add(say)
            session.prepare()
            story.notes = {store.note("last")}
    return wrong


def messages_wrong(entries: list[Entry], story: Story) -> Iterator[str]:
    """What is wrong with the messages on the path."""
    tokens = [token_of(one) for one in entries if one.kind == "said"]
    there = set(tokens)
    if lost := [token for token in story.begun if token in story.acked and token not in there]:
        yield f"acknowledged and lost: {lost[:5]}"
    if twice := [token for token, times in Counter(tokens).items() if times > 1]:
        yield f"there twice: {twice[:5]}"
    if tokens != [token for token in story.begun if token in there]:
        yield "not in the order they were said"


def _names_wrong(entries: list[Entry], everything: list[Entry], story: Story) -> Iterator[str]:
    """What is wrong with the entries and the heads that were acknowledged."""
    if len(everything) != len(entries):
        yield f"{len(everything)} entries are stored and {len(entries)} are on the only path"
    if bad := [one.name for one in entries if not one.sound]:
        yield f"no longer what their names say: {bad[:3]}"
    at = {one.name: index for index, one in enumerate(entries)}
    if lost := [name for name in story.heads if name not in at]:
        yield f"an acknowledged head is lost: {lost[:3]}"
        return
    places = [at[name] for name in story.heads]
    if places != sorted(places):
        yield "acknowledged heads are not in order"


# -- the campaign ------------------------------------------------------------------------------------------


@contextmanager
def _timed(into: list[float]) -> Iterator[None]:
    begun = time.monotonic()
    yield
    into.append(time.monotonic() - begun)


@dataclass(slots=True)
class _Found:
    """What some kills on one store found."""

    wrong: list[tuple[str, list[str]]] = field(default_factory=list)
    during: Counter[str] = field(default_factory=Counter)
    acts: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)


def campaign(*, seed: int, sqlite: int = 700, jsonl: int = 300, jobs: int = 1) -> dict[str, Any]:
    """Kill so many times on each kind of store; stores are shared among some processes."""
    wrong, during, acts, seconds = Wrong(), Counter[str](), Counter[str](), list[float]()
    numbers = {"sqlite": sqlite, "jsonl": jsonl}
    stores = [
        (kind, kills) for kind in numbers for kills in split_in_batches(numbers[kind], _KILLS_OF_A_STORE)
    ]
    for found in map_in_processes(lambda store: _kill_often(seed, *store), stores, jobs):
        during += found.during
        acts += found.acts
        seconds += found.seconds
        for where, what in found.wrong:
            wrong.add(where, what)
    return {
        **{f"kills_{kind}": kills for kind, kills in numbers.items()},
        "kills": sum(numbers.values()),
        "acknowledged": dict(sorted(acts.items())),
        "killed_during": dict(sorted(during.items())),
        "seconds_per_kill_p50": round(percentile(seconds, 0.5), 3),
        "seconds_per_kill_p99": round(percentile(seconds, 0.99), 3),
        **wrong.as_json(),
    }


def _kill_often(seed: int, kind: str, kills: range) -> _Found:
    """Kill the processes of one store one after another."""
    result, story, store = _Found(), Story(), kills.start
    with folder() as place:
        for number in kills:
            with _timed(result.seconds):
                if kind == "sqlite" and number % _MIGRATIONS == _MIGRATIONS - 1:
                    wrong, what = migration_kill(place / "migrated.db", seed, number)
                    result.during[what] += 1
                else:
                    wrong = _kill(place / f"{kind}-{store}", kind, (seed, number), story, result)
                    if wrong:
                        story, store = Story(), number + 1
            result.wrong.append((f"{kind} seed={seed} kill={number}", wrong))
    return result


def _kill(path: Path, kind: str, case: tuple[int, int], story: Story, result: _Found) -> list[str]:
    """Kill a process that works, and look at what it left."""
    seed, number = case
    chance = dice(seed, kind, number)
    # every third store promises more than to outlive its process; the promise at hand is the same
    durability: Durability = "full" if (number // _KILLS_OF_A_STORE) % 3 == 2 else "normal"
    address = f"{kind}:{path}"
    child = Child(live(address, durability, (seed, kind), number))
    begun = b"" if chance.random() < 0.1 else child.first_word()  # a tenth while it opens
    time.sleep(chance.uniform(0, _LONGEST_LIFE))
    child.kill()
    lines, code = child.told(begun)
    if code != -9:
        return [f"the process ended by itself: {lines[-1:]}"]
    result.during[story.hear(lines)] += 1
    result.acts.update(line[1] for line in lines if line[0] == "done")
    return look(address, story, say=f"{number}.after")
