"""Turns and compactions on one conversation, in as many orders as there are seeds, and a checker.

Talkers, folders, unfolders and others use one `AsyncSession`, or two on one store, at the same time. The
model and every call of the store take a random number of steps, and some flows are cancelled in the middle.
Everything depends on the seed alone, so that each case can be had again. Afterwards:

    what was acknowledged is stored once, and what each flow said stands in the order it said it
    no summary stands for a message that its model had not seen
    a new session reads the same view from the log as the old ones hold, and a provider would take it
    no lock was left behind: every session still answers
"""

import asyncio
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from bench.torture.ground import Child, Wrong, dice, emptied, folder, tell

import refold
from refold.core.compaction.flow import Ask
from refold.core.log.entries import Entry
from refold.core.log.view import Folded, MessageRange, Replacement, View, ViewItem, project
from refold.core.messages.message import Message
from refold.errors import RefoldError
from refold.session import aopen
from refold.session.async_session import AsyncSession
from refold.session.steps.read_entries import fold_messages
from refold.stores import Store, open_store

SESSION: Final = "tortured"
_TOKEN: Final = re.compile(r"\bm\d+x\d+\b")
_COVERS: Final = re.compile(r'covers="#(\d+)(?:-#(\d+))?"')
_FACTS: Final = re.compile(r"<facts>.*</facts>", re.DOTALL)
"""What code put behind a summary that lacked it; it is carried on as data, and no model is shown it."""
_SAW: Final = "Everything that was asked was done. Seen were: "
_SLOW_STORE: Final = 3
_SLOW_MODEL: Final = 40
_PATIENCE: Final = 60.0
"""Seconds until those who wait for each other are given up."""
_FILES: Final = 20
"""One of so many cases is on a file, the others in memory."""


@dataclass(slots=True)
class Case:
    """One interleaving: who was told what."""

    chance: random.Random
    sessions: list[AsyncSession] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    acked: set[str] = field(default_factory=set)
    done: Counter[str] = field(default_factory=Counter)
    answers: list[str] = field(default_factory=list)
    """What the model said, whole."""
    views: list[list[Any]] = field(default_factory=list)
    """What each session shows at the end."""
    wrong: list[str] = field(default_factory=list)

    def session(self) -> AsyncSession:
        """Any of the sessions."""
        return self.chance.choice(self.sessions)

    async def pause(self, most: int) -> None:
        """Let others go first, a few times."""
        for _ in range(self.chance.randrange(most)):
            await asyncio.sleep(0)

    async def model(self, question: Ask) -> str:
        """A model that tells what it has seen."""
        seen = sorted(set(_TOKEN.findall(question.text)))
        await self.pause(_SLOW_MODEL)
        if self.chance.random() < 0.05:
            raise ConnectionError("the model is away")
        self.answers.append(_SAW + " ".join(seen))
        return self.answers[-1]


@contextmanager
def _scheduled(case: Case) -> Iterator[None]:
    """Let calls of the store take steps of the loop instead of threads."""

    async def steps(what: Callable[..., Any], *args: Any) -> Any:
        await case.pause(_SLOW_STORE)
        result = what(*args)
        await case.pause(_SLOW_STORE)
        return result

    with patch.object(asyncio, "to_thread", steps):
        yield


# -- the flows ---------------------------------------------------------------------------------------------


async def _say(case: Case, session: AsyncSession, token: str, role: str = "user") -> None:
    case.begun.append(token)
    await session.say({"role": role, "content": f"{token} {'and so it goes ' * 30}"})
    case.acked.add(token)


async def _talk(case: Case, flow: int) -> None:
    session = case.session()
    for turn in range(case.chance.randint(2, 6)):
        await _say(case, session, f"m{flow}x{turn}", "assistant" if turn % 2 else "user")
        if case.chance.random() < 0.4:
            await session.prepare()
            case.done["prepare"] += 1
        if case.chance.random() < 0.2:
            await session.observe({"usage": {"prompt_tokens": case.chance.randrange(100, 3_000)}})
            case.done["observe"] += 1
        await case.pause(10)


async def _fold(case: Case, _flow: int) -> None:
    session = case.session()
    for _ in range(case.chance.randint(1, 2)):
        strategy = case.chance.choice((None, None, "truncate"))
        outcome = await session.compact(strategy=strategy)
        case.done["compact"] += outcome.compacted
        await case.pause(10)


async def _undo(case: Case, _flow: int) -> None:
    await case.pause(30)
    undone = await case.session().unfold()
    case.done["unfold"] += undone is not None


async def _mark(case: Case, flow: int) -> None:
    session = case.session()
    await session.checkpoint(f"c{flow}")
    await session.pin(1)
    await case.pause(30)
    await session.unpin(1)
    case.done["checkpoint"] += 1


async def _rewind(case: Case, _flow: int) -> None:
    await case.pause(30)
    await case.session().rewind(f"#{case.chance.randint(1, 8)}")
    case.done["rewind"] += 1


_FLOWS: Final[tuple[tuple[Callable[[Case, int], Awaitable[None]], int], ...]] = (
    (_talk, 6),
    (_fold, 5),
    (_undo, 1),
    (_mark, 1),
    (_rewind, 2),
)


async def _run(case: Case, flow: Callable[[Case, int], Awaitable[None]], number: int) -> None:
    """A flow; that something is refused in words is no fault."""
    await case.pause(20)
    try:
        await flow(case, number)
    except RefoldError as error:
        case.done[f"refused: {type(error).__name__}"] += 1


async def _interleaved(case: Case) -> None:
    chance = case.chance
    for turn in range(chance.randint(0, 16)):
        await _say(case, case.sessions[0], f"m0x{turn}", "assistant" if turn % 2 else "user")
    chosen = [_talk, _fold, *chance.choices(*zip(*_FLOWS, strict=True), k=chance.randint(0, 3))]
    tasks = [asyncio.create_task(_run(case, flow, number)) for number, flow in enumerate(chosen, 1)]
    if chance.random() < 0.3:
        await case.pause(120)
        chance.choice(tasks).cancel()
        case.done["cancelled"] += 1
    for ended in await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), _PATIENCE):
        if isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError):
            case.wrong.append(f"{type(ended).__name__}: {ended}")
    for number, session in enumerate(case.sessions):
        await asyncio.wait_for(_say(case, session, f"m99x{number}"), _PATIENCE)
        await asyncio.wait_for(session.close(), _PATIENCE)
    for session in case.sessions:
        case.views.append(await asyncio.wait_for(session.view(), _PATIENCE))


# -- the checker -------------------------------------------------------------------------------------------


def looked_at(case: Case, store: Store) -> Iterator[str]:
    """Everything that is wrong afterwards."""
    yield from (f"check: {trouble.what}" for trouble in store.check())
    stored = [one for _, _, one in store.salvage()]
    yield from _said_wrong(case, [_token(one) for one in stored if one.kind == "said"])
    with refold.open(SESSION, store=store, window=3_000) as fresh:
        path, shown = fresh.log(), fresh.view()
    yield from _folds_wrong(path, case.answers)
    view = project(path)
    if any(held != shown for held in case.views):
        yield "a session holds another view than the log has"
    taken = [piece for fold in view.folds for change in fold.changes for piece in change.removed]
    kept = {number for piece in (*taken, *view.items) for number in _numbers(view, piece)}
    if kept != set(range(1, view.said + 1)):
        yield "a message is neither in the view nor in a fold"
    seen = [
        number for piece in view.items if isinstance(piece, MessageRange) for number in _numbers(view, piece)
    ]
    if seen != sorted(set(seen)):
        yield f"the view shows messages twice or out of order: {seen}"
    wire = fresh.state.wire
    if problems := {one.rule for one in wire.check(wire.parse(shown))} - {"open-call"}:
        yield f"a provider would refuse the view: {sorted(problems)}"


def _numbers(view: View, piece: ViewItem) -> list[int]:
    return [number for run in view.originals(piece) for number in range(run.first, run.last + 1)]


def _token(one: Entry) -> str:
    return str(one.value["content"]).partition(" ")[0]


def _said_wrong(case: Case, stored: list[str]) -> Iterator[str]:
    times = Counter(stored)
    if lost := case.acked - times.keys():
        yield f"acknowledged and lost: {sorted(lost)}"
    if twice := [token for token, count in times.items() if count > 1]:
        yield f"stored twice: {twice}"
    if strange := times.keys() - set(case.begun):
        yield f"never said: {sorted(strange)}"
    flows: dict[str, list[int]] = {}
    for token in stored:
        flow, _, turn = token.partition("x")
        flows.setdefault(flow, []).append(int(turn))
    if mixed := [flow for flow, turns in flows.items() if turns != sorted(turns)]:
        yield f"not in the order they were said: {mixed}"


def _folds_wrong(path: list[Entry], whole: list[str]) -> Iterator[str]:
    """Summaries that stand for what their model had not seen, as it was said or as a fold told it.

    whole   what the model answered: of a summary that is too long for its room, the end is cut off
    """
    said = {one.said: _token(one) for one in path if one.kind == "said"}
    folds = [one for one in path if one.kind == "fold"]
    texts = {one.name: [_text(put) for put in fold_messages(one)] for one in folds}
    answers = {one.name: [str(put.meta.get("text", "")) for put in fold_messages(one)] for one in folds}
    asked = {one.name for one in folds if "summarize" in one.value.get("stages", ())}
    view = project(path)
    for fold in view.folds:
        for place, own in enumerate(texts[fold.name] if fold.name in asked else ()):
            answered = answers[fold.name][place]  # whole, also where the view shows less of it
            if _SAW not in answered:
                continue
            told = {answered}
            if answered.endswith("…"):  # of answers that begin alike, any may be the one that was cut
                told = {each for each in whole if each.startswith(answered[:-1])}
            covered, taken = _covered(own), set[str]()
            for piece in _taken_by(fold, place):
                numbers = covered.intersection(_numbers(view, piece))
                if isinstance(piece, Replacement) and numbers:
                    # An earlier summary may also speak of messages behind it, which stay.
                    heard = set(_TOKEN.findall(_FACTS.sub("", texts[piece.fold][piece.place])))
                    taken |= heard & {said.get(number, "") for number in covered}
                elif isinstance(piece, MessageRange):
                    taken.update(said.get(number, f"#{number}, which nobody said") for number in numbers)
            if not covered:
                yield f"fold {fold.name[:12]} does not say what it covers"
            if unseen := min((taken - set(_TOKEN.findall(own + each)) for each in told), key=len):
                yield f"fold {fold.name[:12]} stands for {sorted(unseen)}, which its model had not seen"


def _taken_by(fold: Folded, place: int) -> Iterator[ViewItem]:
    """What left for the summary at this place among the fold's messages.

    Other stages of the same fold have put messages of their own, each in the place of what it stands for: a
    digest, or a message or an earlier summary that was cut.
    """
    for change in fold.changes:
        own = [one.place for one in change.inserted if isinstance(one, Replacement) and one.fold == fold.name]
        if not own or place in own:
            yield from change.gone()


def _covered(summary: str) -> set[int]:
    return {
        number
        for first, last in _COVERS.findall(summary)
        for number in range(int(first), int(last or first) + 1)
    }


def _text(message: Message) -> str:
    return " ".join(getattr(part, "text", "") for part in message.parts)


# -- the campaign ------------------------------------------------------------------------------------------


def case_of(seed: Any, number: int, place: Path) -> tuple[Case, list[str]]:
    """Run and judge one interleaving."""
    case = Case(dice(seed, number))
    address = "memory:"
    if number % _FILES == _FILES - 1:
        address = f"{case.chance.choice(('sqlite', 'jsonl'))}:{emptied(place) / 'store'}"
    store = open_store(address)
    try:
        background = case.chance.random() < 0.4
        case.sessions = [
            aopen(SESSION, store=store, window=3_000, ask=case.model, background=background)
            for _ in range(case.chance.choice((1, 2)))
        ]
        try:
            with _scheduled(case):
                asyncio.run(_interleaved(case))
            case.wrong += looked_at(case, store)
        except Exception as error:  # noqa: BLE001  # whatever it is, the session cannot be used
            case.wrong.append(f"cannot be used: {type(error).__name__}: {error}")
        return case, case.wrong
    finally:
        store.close()


def campaign(*, seed: int, count: int = 10_000, jobs: int = 1) -> dict[str, Any]:
    """So many interleavings, shared among some processes."""
    children = [Child(_share(seed, range(job, count, jobs))) for job in range(jobs)]
    wrong, done, totals = Wrong(), Counter[str](), Counter[str]()
    for child in children:
        lines, code = child.told()
        for kind, *words in lines:
            if kind == "wrong":
                wrong.add(words[0], words[1])
            elif kind == "end":
                done.update(words[0])
                totals.update(words[1])
            else:
                wrong.add("a process", [f"{kind}: {words}"])
        if code:
            wrong.add("a process", [f"ended with {code}"])
    return {**totals, "acts": dict(sorted(done.items())), **wrong.as_json()}


def _share(seed: int, numbers: range) -> Callable[[int], None]:
    """A process that runs some of them."""

    def work(out: int) -> None:
        done, totals = Counter[str](), Counter[str]()
        with folder(in_memory=True) as place:
            for number in numbers:
                case, found = case_of(seed, number, place / "case")
                if found:
                    tell(out, "wrong", f"seed={seed} case={number}", found)
                done += case.done
                totals["interleavings"] += 1
                totals[f"on_{'one_session' if len(case.sessions) == 1 else 'two_sessions'}"] += 1
                totals["acknowledged"] += len(case.acked)
        tell(out, "end", done, totals)

    return work
