"""SIGKILL at chosen steps: before a summary is committed, before a commit is answered, in a migration."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from bench.torture.ground import Child, Wrong, folder, token_of
from bench.torture.migrations import every_statement

import refold
from refold.core.log.entries import Entry
from refold.errors import Conflict
from refold.session.session import Session
from refold.stores import Durability, Head, Store, open_store

SESSION: Final = "tortured"
When: TypeAlias = Literal["before", "after"]
_LEASE_SECONDS: Final = 0.3
_TURNS: Final = 60
_SUMMARY: Final = (
    "The user asked for many small things and the assistant answered every one of them; all of them were done"
    " in order, nothing is open, and the next question can be answered without what was said before."
)


def history() -> list[dict[str, Any]]:
    """A conversation that is too long for its window."""
    return [
        {"role": "user" if turn % 2 == 0 else "assistant", "content": f"t.{turn} {'some words ' * 25}"}
        for turn in range(_TURNS)
    ]


def _session(store: Store, *, small: bool = True) -> Session:
    window = 4_000 if small else 1_000_000
    return refold.open(SESSION, store=store, window=window, ask=lambda _question: _SUMMARY)


def _dies(store: Store, when: When, applies: Callable[[Sequence[Entry]], bool]) -> None:
    """Let the process die before or after an append."""
    append = store.append

    def deadly(session: str, entries: Sequence[Entry], **options: Any) -> Head:
        doomed = applies(entries)
        if doomed and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        head = append(session, entries, **options)
        if doomed:
            os.kill(os.getpid(), signal.SIGKILL)
        return head

    store.append = deadly  # type: ignore[method-assign]  # the seam where it can die


def _is_fold(entries: Sequence[Entry]) -> bool:
    return any(one.kind == "fold" for one in entries)


def _is_said(entries: Sequence[Entry]) -> bool:
    return any(one.kind == "said" for one in entries)


def _killed(address: str, durability: Durability, work: Callable[[Store], None]) -> list[str]:
    def run(_out: int) -> None:
        work(open_store(address, durability=durability))

    lines, code = Child(run).told()
    return [] if code == -signal.SIGKILL else [f"the process ended by itself ({code}): {lines}"]


def fold_not_committed(address: str, durability: Durability) -> list[str]:
    """A02: killed with the summary in hand: nothing changed, the job is taken again and makes one fold."""
    with closing(open_store(address)) as store:
        with _session(store, small=False) as session:
            session.prepare(history())
        before = store.head(SESSION)
        store.offer(SESSION)

    def work(store: Store) -> None:
        store.take(holder="the dead", seconds=_LEASE_SECONDS)
        _dies(store, "before", _is_fold)
        _session(store).prepare()

    wrong = _killed(address, durability, work)
    with closing(open_store(address)) as store:
        if store.head(SESSION) != before:
            wrong.append("the session changed though nothing was committed")
        time.sleep(_LEASE_SECONDS + 0.05)
        lease = store.take(holder="the living", seconds=30)
        if lease is None or lease.fence < 2:
            return [*wrong, f"the job cannot be taken again: {lease}"]
        try:
            store.append(SESSION, [], expect=store.head(SESSION), fence=lease.fence - 1)
            wrong.append("the lease of the dead still counts")
        except Conflict:
            pass
        wrong += _one_fold(_session(store))
        wrong += [trouble.what for trouble in store.check()]
    return wrong


def fold_not_answered(address: str, durability: Durability) -> list[str]:
    """A03: killed when the fold was committed: who asks again gets that fold and no second one."""

    def work(store: Store) -> None:
        _dies(store, "after", _is_fold)
        _session(store).prepare(history())

    wrong = _killed(address, durability, work)
    with closing(open_store(address)) as store:
        session = _session(store)
        wrong += _one_fold(session)
        wrong += _all_said(session)
        wrong += [trouble.what for trouble in store.check()]
    return wrong


def messages_not_answered(address: str, durability: Durability, when: When) -> list[str]:
    """A03: killed around the commit of what was said: who sends it again adds only what is missing."""

    def work(store: Store) -> None:
        session = _session(store, small=False)
        session.prepare(history()[:30])
        _dies(store, when, _is_said)
        session.prepare(history())

    wrong = _killed(address, durability, work)
    with closing(open_store(address)) as store:
        session = _session(store, small=False)
        known = len(session.log(kinds={"said"}))
        if known != (30 if when == "before" else _TURNS):
            wrong.append(f"{known} messages are there")
        for _ in range(2):
            session.prepare(history())
            wrong += _all_said(session)
        wrong += [trouble.what for trouble in store.check()]
    return wrong


def _one_fold(session: Session) -> list[str]:
    """Ask again, twice; there is one fold afterwards."""
    for _ in range(2):
        session.prepare(history())
    folds = len(session.log(kinds={"fold"}))
    return [] if folds == 1 else [f"there are {folds} folds"]


def _all_said(session: Session) -> list[str]:
    found = [token_of(one) for one in session.log(kinds={"said"})]
    return [] if found == [f"t.{turn}" for turn in range(_TURNS)] else [f"what was said is not: {found}"]


def campaign(*, rounds: int = 5) -> dict[str, Any]:
    """Every failpoint on every store, so many times; and a migration, killed before each statement."""
    points: dict[str, Callable[[str, Durability], list[str]]] = {
        "summary made, fold not committed": fold_not_committed,
        "fold committed, not answered": fold_not_answered,
        "message not committed": lambda address, how: messages_not_answered(address, how, "before"),
        "message committed, not answered": lambda address, how: messages_not_answered(address, how, "after"),
    }
    wrong, kills = Wrong(), 0
    durabilities: tuple[Durability, ...] = ("normal", "full")
    with folder() as place:
        for number in range(rounds):
            for index, (point, run) in enumerate(points.items()):
                for kind in ("sqlite", "jsonl"):
                    for durability in durabilities:
                        address = f"{kind}:{place / f'{kind}-{durability}-{index}-{number}'}"
                        wrong.add(f"{kind} {durability}, {point}", run(address, durability))
                        kills += 1
        statements, found = every_statement(Path(place) / "migrated.db")
        wrong.add("migration", found)
    return {
        "points": [*points, "migration, before each statement"],
        "kills": kills + statements,
        "statements": statements,
        **wrong.as_json(),
    }
