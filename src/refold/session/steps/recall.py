"""Fetch back what was said: by handle, by name, by words; on this branch and on those that were left."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from refold.core.log.entries import SAID, Entry
from refold.core.log.view import Folded, MessageRange
from refold.core.messages.message import Message
from refold.errors import RefoldError
from refold.formats.shared.exported import without
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.results import Hit
from refold.session.state.session_state import SessionState
from refold.session.steps.load import reload_if_stale

if TYPE_CHECKING:
    from refold.stores import Place

LEAST_NAME: Final = 6
"""Characters of a fold's name that name it where a handle might stand: `12` is a message."""
QUESTION: Final = 3
"""Words from which on a query is a question, and one of them is enough."""
CANDIDATES: Final = 100
BESIDE: Final = 0.35
"""What the score of a neighbour adds (measured on LoCoMo and LongMemEval: 0.2 to 0.5 differ little)."""
_WORD: Final = re.compile(r"[^\W_]+")
COMMON: Final = frozenset(
    "a an the and or but if of to in on at for with by from as is are was were be been being am do does "  # noqa: SIM905
    "did doing have has had having i me my mine we us our you your he him his she her it its they them their "
    "this that these those there here what which who whom whose when where why how will would can could "
    "should may might must shall not no nor so than then too very just about s t m ve re ll d".split()
)
"""Words that stand in every question and tell nothing about it; where a query has no others, they count."""
HANDLE: Final = re.compile(r"\[?#?(\d{1,15})(?:\s*[-–…]\s*#?(\d{1,15}))?\]?")
"""`#12`, `#12-#57`, `[#12-#57]`, `12-57`."""


def find_folds(state: SessionState, word: str) -> list[str]:
    """The folds whose names begin so."""
    plain = word.removeprefix("b2:")
    return [fold.name for fold in state.view.folds if fold.name.removeprefix("b2:").startswith(plain)]


def parse_handle(state: SessionState, handle: Any) -> MessageRange:
    """The messages that a handle names."""
    if isinstance(handle, Hit):
        handle = handle.handle
    if isinstance(handle, int) and not isinstance(handle, bool):
        first = last = handle if handle > 0 else state.view.said + 1 + handle
    else:
        found = HANDLE.fullmatch(str(handle).strip())
        if found is None:
            names = ", ".join(state.view.checkpoints) or "none on this branch"
            raise RefoldError(f"{handle!r} is no handle (#12, #12-#57) and no checkpoint ({names})")
        first, last = int(found[1]), int(found[2] or found[1])
    if not 1 <= first <= last <= state.view.said:
        there = f"there are #1 to #{state.view.said}" if state.view.said else "nothing was said yet"
        raise RefoldError(f"{handle!r} names no message: {there}")
    return MessageRange(first, last)


def original(state: SessionState, handle: Any) -> SessionFlow[list[Any]]:
    """What was said, word for word: `#12`, `#12-#57`, a hit, a fold's or an entry's name."""
    yield from reload_if_stale(state)
    word = handle.handle if isinstance(handle, Hit) else getattr(handle, "name", handle)
    long = isinstance(word, str) and len(word.removeprefix("b2:")) >= LEAST_NAME
    if long and (named := find_folds(state, word)):
        if len(named) > 1:
            raise RefoldError(f"several folds begin with {word!r}: `folds()` lists them")
        return (yield from _by_name(state, named[0]))
    if isinstance(word, str) and word.startswith("b2:"):
        return (yield from _by_name(state, word))
    run = parse_handle(state, word)
    return (yield from _said(state, [run]))


def _by_name(state: SessionState, name: str) -> SessionFlow[list[Any]]:
    fold = state.view.fold(name)
    if fold is not None:
        return (yield from _said(state, removed_runs(state, fold)))
    places: dict[str, Place] = yield StoreCall(lambda: state.store.find(state.name, [name]))
    if name not in places:
        raise RefoldError(f"there is no entry {name!r} in session {state.name!r}")
    newest: list[Entry] = yield StoreCall(
        lambda: [next(state.store.read(state.name, places[name], newest=True))]
    )
    return [state.given(newest[0])] if newest[0].kind == "said" else [newest[0].value]


def removed_runs(state: SessionState, fold: Folded) -> list[MessageRange]:
    """The messages that a fold took and did not put back."""
    done: list[MessageRange] = []
    for change in fold.changes:
        kept = sorted(change.kept, key=lambda run: run.first)
        for piece in change.took:
            done += [part for run in state.view.originals(piece) for part in without(run, kept)]
    return done


def _said(state: SessionState, runs: Sequence[MessageRange]) -> SessionFlow[list[Any]]:
    if state.head is None:
        return []
    place = state.head.place

    def look() -> list[Any]:
        return [
            state.given(one)
            for run in runs
            for one in state.store.read(state.name, place, kinds=SAID, first=run.first, last=run.last)
        ]

    found: list[Any] = yield StoreCall(look)
    return found


def recall(state: SessionState, query: str, *, limit: int = 10) -> SessionFlow[list[Hit]]:
    """What was ever said about something, folded or not, best first."""
    if not isinstance(query, str) or not isinstance(limit, int):
        raise RefoldError("recall takes words to look for, and a whole number as its limit")
    yield from reload_if_stale(state)
    if state.head is None or limit < 1:
        return []
    done: list[Hit] = yield StoreCall(lambda: _searched(state, query, limit))
    return done


def _searched(state: SessionState, query: str, limit: int) -> list[Hit]:
    """Hits for a few words as the store has them; for a question those beside other hits come further up.

    Who answers a question in a talk often repeats none of its words.
    """
    words = search_words(query)
    wanted = " ".join(words) or query
    found = [(one, one.score) for one in state.store.search(wanted, session=state.name, limit=limit)]
    if len(words) < QUESTION:
        return [_hit(state, one.entry, score) for one, score in found]
    near = state.store.search(wanted, session=state.name, limit=CANDIDATES, some=True)
    scores = {one.entry.name: one.score for one in near}
    numbers: dict[int, float] = {}
    for one in near:
        numbers[one.entry.said] = max(numbers.get(one.entry.said, 0.0), one.score)
    ranked = [(one.entry, scores[one.entry.name] + BESIDE * _beside(numbers, one.entry.said)) for one in near]
    ranked += [(entry, BESIDE * _beside(numbers, entry.said)) for entry in _neighbours(state, numbers, limit)]
    best = sorted(ranked, key=lambda pair: (-pair[1], pair[0].said))[:limit]
    return [_hit(state, entry, score) for entry, score in best]


def search_words(query: str) -> list[str]:
    """The words of a query that tell something, each once.

    >>> asked("When did we move the database?")
    ['move', 'database']
    """
    words = dict.fromkeys(_WORD.findall(query.lower()))
    return [word for word in words if word not in COMMON]


def _beside(numbers: Mapping[int, float], number: int) -> float:
    """The score of the better neighbour; an answer follows its question more often than it leads."""
    return max(numbers.get(number - 1, 0.0), 0.9 * numbers.get(number + 1, 0.0))


def _neighbours(state: SessionState, numbers: Mapping[int, float], limit: int) -> list[Entry]:
    """Messages of this branch that stand beside the best hits and are none themselves."""
    best = sorted(numbers, key=lambda number: -numbers[number])[:limit]
    beside = {number + step for number in best for step in (-1, 1)} - set(numbers)
    if state.head is None:
        return []
    place = state.head.place
    return [
        entry
        for number in sorted(beside)
        if 1 <= number <= state.view.said
        for entry in state.store.read(state.name, place, kinds=SAID, first=number, last=number)
    ]


def _hit(state: SessionState, entry: Entry, score: float) -> Hit:
    number = entry.said
    here = (
        state.head is not None
        and number <= state.view.said
        and any(
            one.name == entry.name
            for one in state.store.read(state.name, state.head.place, kinds=SAID, first=number, last=number)
        )
    )
    return Hit(
        handle=f"#{number}" if here else entry.name,
        number=number,
        role=_role(state, entry),
        text=entry.text,
        score=score,
        folded=not here or not state.view.shown(number),
    )


def _role(state: SessionState, entry: Entry) -> str:
    item = state.given(entry)
    messages = [item] if isinstance(item, Message) else state.wire.parse([item])
    return messages[0].role
