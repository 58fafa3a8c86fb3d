"""A store that fails at random between and inside the calls of a session, and a checker.

A caller talks to a session: with a list of its own or by `say`, in threads' or an event loop's form, alone or
beside another process. The store works, or it fails in one of the ways that stores fail: every write, every
call, a write that is stored and reported as failed, a write whose answer is lost. At the end the store works
again and every session is asked once. Then:

    every message that a call took is stored once, and stands in the order in which it was said
    a message whose `say` raised is stored at most once; under a key that was tried again, exactly once
    nothing waits any more, nothing is damaged, and a new session sees what the old one sees
    `prepare` and `observe` never raised once there was something to go on from
"""

import asyncio
import random
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.processes import map_in_processes, split_in_batches
from bench.torture.ground import Wrong, dice, emptied, folder

import refold
from refold.errors import RefoldError, RefoldWarning, StoreError, StoreFull, StoreUnsure
from refold.session import aopen
from refold.stores import Store, open_store

SESSION: Final = "tortured"
MODES: Final = ("works", "no write", "nothing", "lands and fails", "answer lost", "request lost", "any")
_WRITES: Final = frozenset({"append", "put_note", "offer", "claim", "release"})
_ACTS: Final = 40
_FILES: Final = 10
"""One of so many cases is on a file, the others in memory."""
_BATCH: Final = 10
"""Cases that a process takes at a time."""
_WORDS: Final = "alpha beta gamma delta " * 12


class Failing:
    """A store that fails as its mode says."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        self.store = store
        self.mode = "works"
        self._chance = chance

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.store, name)
        return (lambda *args, **options: self._call(name, value, args, options)) if callable(value) else value

    def _call(self, name: str, call: Callable[..., Any], args: Any, options: Any) -> Any:
        mode = self.mode if self.mode != "any" else self._chance.choice(MODES[:-1])
        if mode == "nothing" or (mode == "no write" and name in _WRITES):
            raise self._chance.choice((StoreFull("no room"), StoreError("read-only")))
        if name != "append" or mode in ("works", "no write"):
            return call(*args, **options)
        head = None if mode == "request lost" else call(*args, **options)
        if mode == "lands and fails":
            raise StoreError("the disk did not confirm a write")
        raise StoreUnsure("may or may not be stored", settle=lambda: self._settle(head))

    def _settle(self, head: Any) -> Any:
        if self.mode != "works" and self._chance.random() < 0.5:
            raise StoreError("away")
        return head


@dataclass(slots=True)
class Case:
    """One talk: what was said, and what was found wrong with it."""

    chance: random.Random
    store: Failing
    call: Callable[[Any], Any]
    """Runs a call of a session, or waits for it in an event loop."""
    open: Callable[[], Any]
    session: Any = None
    said: list[str] = field(default_factory=list)
    """Tokens that a call took, in order."""
    unsure: list[str] = field(default_factory=list)
    """Tokens whose `say` raised."""
    others: list[str] = field(default_factory=list)
    """Tokens that another process said."""
    messages: list[dict[str, Any]] = field(default_factory=list)
    """The caller's own list."""
    everything: list[str] = field(default_factory=list)
    """Tokens of all lists that this process was given, also of those that were edited later."""
    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def token(self) -> str:
        """Return a word that nobody said before."""
        self.done["messages"] += 1
        return f"m{self.done['messages']}"

    def message(self, role: str) -> dict[str, Any]:
        """Return a message of the caller's list."""
        return {"role": role, "content": f"{self.token()} {_WORDS}"}

    def surely(self, what: str, call: Callable[[], Any]) -> Any:
        """Make a call that must not raise."""
        try:
            return self.call(call())
        except StoreError as error:
            self.wrong.append(f"{what} raised {type(error).__name__}: {error}")
            return None


def _observe(case: Case) -> None:
    case.surely(
        "observe",
        lambda: case.session.observe({"usage": {"prompt_tokens": 900, "completion_tokens": 5}}),
    )


def talk_by_list(case: Case) -> None:
    """Talk with a list that grows, and is edited now and then."""
    for _ in range(_ACTS):
        case.store.mode = case.chance.choice(MODES) if case.chance.random() < 0.5 else case.store.mode
        act = case.chance.random()
        if act < 0.08 and len(case.messages) > 4:
            keep = case.chance.randrange(2, len(case.messages))
            case.messages = [*case.messages[:keep], case.message("user")]
        elif act < 0.14:
            # The process died, and what only it had; its caller has the list.
            case.session, case.everything = case.open(), []
        elif act < 0.20:
            with suppress(RefoldError):  # also while nothing was said
                case.call(case.session.pin("#1"))
            continue
        else:
            case.messages += [case.message("assistant"), case.message("user")]
        case.everything += [_token(message) for message in case.messages]
        case.surely("prepare", lambda: case.session.prepare(case.messages))
        if case.chance.random() < 0.6:
            _observe(case)
    case.said = [_token(message) for message in case.messages]


def talk_by_say(case: Case) -> None:
    """Say one message after another, beside another process."""
    other = case.open()
    case.call(case.session.say(case.message("user")["content"]))
    case.said.append("m1")
    for _ in range(_ACTS):
        case.store.mode = case.chance.choice(MODES) if case.chance.random() < 0.5 else case.store.mode
        act = case.chance.random()
        if act < 0.35:
            _say(case, durable=False)
        elif act < 0.55:
            _say(case, durable=True)
        elif act < 0.65:
            _say_until_stored(case)
        elif act < 0.75 and case.store.mode == "works":
            token = case.token()
            case.call(other.say(f"{token} {_WORDS}"))
            case.others.append(token)
        elif act < 0.9:
            with suppress(StoreError):  # nobody knows what was said last if the store cannot be asked
                case.call(case.session.prepare())
        else:
            with suppress(StoreError):
                _ = case.call(case.session.observe({"usage": {"prompt_tokens": 900, "completion_tokens": 5}}))


def _say(case: Case, *, durable: bool) -> None:
    token = case.token()
    try:
        case.call(case.session.say(f"{token} {_WORDS}", durable=durable))
    except StoreError:
        case.unsure.append(token)
    else:
        case.said.append(token)


def _say_until_stored(case: Case) -> None:
    """Say something under a key, again and again, until it is stored."""
    token = case.token()
    for tries in range(20):
        case.store.mode = "works" if tries == 19 else case.store.mode
        with suppress(StoreError):
            case.call(case.session.say(f"{token} {_WORDS}", key=token))
            case.said.append(token)
            return


def _token(message: dict[str, Any]) -> str:
    return str(message["content"]).split(" ", 1)[0]


def check(case: Case) -> None:
    """Let the store work again, and compare it with what was said."""
    case.store.mode = "works"
    view = case.surely("view", case.session.view)
    if case.session.unsaved:
        case.wrong.append(f"{case.session.unsaved} entries still wait")
    entries = [(place, entry) for _, place, entry in case.store.store.salvage() if entry.kind == "said"]
    counts = Counter(_token(entry.value) for _, entry in entries)
    twice = [token for token, count in counts.items() if count > 1]
    lost = sorted({*case.said, *case.everything, *case.others} - set(counts))
    for name, tokens in (("twice", twice), ("lost", lost)):
        if tokens:
            case.wrong.append(f"{name}: {tokens[:5]}")
    branch = [_token(entry.value) for entry in case.call(case.session.log(kinds=["said"]))]
    expected = set(case.said)
    if [token for token in branch if token in expected] != case.said:
        case.wrong.append(f"the order is {branch}, not {case.said}")
    if case.messages and branch != case.said:
        case.wrong.append(f"the branch is {branch}, not {case.said}")
    if view != case.call(case.open().view()):
        case.wrong.append("a new session sees something else")
    case.wrong += [str(defect) for defect in case.store.store.check()]


def case_of(seed: int, number: int, place: Path) -> Case:
    """One case: everything in it depends on the seed and the number."""
    chance = dice("outages", seed, number)
    kind = chance.choice(("sqlite", "jsonl")) if chance.randrange(_FILES) == 0 else "memory"
    address = "memory:" if kind == "memory" else f"{kind}:{place / 'store'}"
    emptied(place)
    with closing(open_store(address)) as store, asyncio.Runner() as runner:
        failing = Failing(store, chance)
        in_loop = chance.random() < 0.3
        opener = aopen if in_loop else refold.open

        def wait(call: Any) -> Any:
            async def waited() -> Any:
                return await call

            return runner.run(waited()) if in_loop else call

        case = Case(chance, failing, wait, lambda: opener(SESSION, store=failing, window=3_000))
        case.session = case.open()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RefoldWarning)
            (talk_by_list if chance.random() < 0.5 else talk_by_say)(case)
            check(case)
        case.done[f"on_{kind}"] += 1
        case.done["in_an_event_loop"] += in_loop
    return case


def campaign(*, seed: int, count: int, jobs: int = 1) -> dict[str, Any]:
    """So many talks, shared among some processes."""
    wrong, totals = Wrong(), Counter[str]()

    def work(numbers: range) -> list[tuple[int, Counter[str], list[str]]]:
        with folder(in_memory=True) as place:
            return [(number, *_tried(seed, number, place / "case")) for number in numbers]

    for batch in map_in_processes(work, split_in_batches(count, _BATCH), jobs):
        for number, done, found in batch:
            totals += done
            wrong.add(f"seed={seed} case={number}", found)
    return {"talks": count, **dict(sorted(totals.items())), **wrong.as_json()}


def _tried(seed: int, number: int, place: Path) -> tuple[Counter[str], list[str]]:
    try:
        case = case_of(seed, number, place)
    except Exception as error:  # noqa: BLE001  # whatever it is, the session cannot be used
        return Counter(), [f"cannot be used: {type(error).__name__}: {error}"]
    return case.done, case.wrong
