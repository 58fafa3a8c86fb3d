"""Fetch back what was said: by handle, by name, by words; on this branch and on those that were left."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from refold.core.log.entries import SAID, Entry
from refold.core.log.view import Folded, Run
from refold.core.messages.message import Message
from refold.errors import RefoldError
from refold.formats.shared.exported import without
from refold.session.effects import Do, Work
from refold.session.keeper import Keeper
from refold.session.loading import fresh
from refold.session.values import Hit

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


def folds_named(keeper: Keeper, word: str) -> list[str]:
    """The folds whose names begin so."""
    plain = word.removeprefix("b2:")
    return [fold.name for fold in keeper.view.folds if fold.name.removeprefix("b2:").startswith(plain)]


def run_of(keeper: Keeper, handle: Any) -> Run:
    """The messages that a handle names."""
    if isinstance(handle, Hit):
        handle = handle.handle
    if isinstance(handle, int) and not isinstance(handle, bool):
        first = last = handle if handle > 0 else keeper.view.said + 1 + handle
    else:
        found = HANDLE.fullmatch(str(handle).strip())
        if found is None:
            names = ", ".join(keeper.view.checkpoints) or "none on this branch"
            raise RefoldError(f"{handle!r} is no handle (#12, #12-#57) and no checkpoint ({names})")
        first, last = int(found[1]), int(found[2] or found[1])
    if not 1 <= first <= last <= keeper.view.said:
        there = f"there are #1 to #{keeper.view.said}" if keeper.view.said else "nothing was said yet"
        raise RefoldError(f"{handle!r} names no message: {there}")
    return Run(first, last)


def original(keeper: Keeper, handle: Any) -> Work[list[Any]]:
    """What was said, word for word: `#12`, `#12-#57`, a hit, a fold's or an entry's name."""
    yield from fresh(keeper)
    word = handle.handle if isinstance(handle, Hit) else getattr(handle, "name", handle)
    long = isinstance(word, str) and len(word.removeprefix("b2:")) >= LEAST_NAME
    if long and (named := folds_named(keeper, word)):
        if len(named) > 1:
            raise RefoldError(f"several folds begin with {word!r}: `folds()` lists them")
        return (yield from _by_name(keeper, named[0]))
    if isinstance(word, str) and word.startswith("b2:"):
        return (yield from _by_name(keeper, word))
    run = run_of(keeper, word)
    return (yield from _said(keeper, [run]))


def _by_name(keeper: Keeper, name: str) -> Work[list[Any]]:
    fold = keeper.view.fold(name)
    if fold is not None:
        return (yield from _said(keeper, gone(keeper, fold)))
    places: dict[str, Place] = yield Do(lambda: keeper.store.find(keeper.name, [name]))
    if name not in places:
        raise RefoldError(f"there is no entry {name!r} in session {keeper.name!r}")
    newest: list[Entry] = yield Do(lambda: [next(keeper.store.read(keeper.name, places[name], newest=True))])
    return [keeper.given(newest[0])] if newest[0].kind == "said" else [newest[0].value]


def gone(keeper: Keeper, fold: Folded) -> list[Run]:
    """The messages that a fold took and did not put back."""
    done: list[Run] = []
    for change in fold.changes:
        kept = sorted(change.kept, key=lambda run: run.first)
        for piece in change.took:
            done += [part for run in keeper.view.originals(piece) for part in without(run, kept)]
    return done


def _said(keeper: Keeper, runs: Sequence[Run]) -> Work[list[Any]]:
    if keeper.head is None:
        return []
    place = keeper.head.place

    def look() -> list[Any]:
        return [
            keeper.given(one)
            for run in runs
            for one in keeper.store.read(keeper.name, place, kinds=SAID, first=run.first, last=run.last)
        ]

    found: list[Any] = yield Do(look)
    return found


def recall(keeper: Keeper, query: str, *, limit: int = 10) -> Work[list[Hit]]:
    """What was ever said about something, folded or not, best first."""
    if not isinstance(query, str) or not isinstance(limit, int):
        raise RefoldError("recall takes words to look for, and a whole number as its limit")
    yield from fresh(keeper)
    if keeper.head is None or limit < 1:
        return []
    done: list[Hit] = yield Do(lambda: _searched(keeper, query, limit))
    return done


def _searched(keeper: Keeper, query: str, limit: int) -> list[Hit]:
    """Hits for a few words as the store has them; for a question those beside other hits come further up.

    Who answers a question in a talk often repeats none of its words.
    """
    words = asked(query)
    wanted = " ".join(words) or query
    found = [(one, one.score) for one in keeper.store.search(wanted, session=keeper.name, limit=limit)]
    if len(words) < QUESTION:
        return [_hit(keeper, one.entry, score) for one, score in found]
    near = keeper.store.search(wanted, session=keeper.name, limit=CANDIDATES, some=True)
    scores = {one.entry.name: one.score for one in near}
    numbers: dict[int, float] = {}
    for one in near:
        numbers[one.entry.said] = max(numbers.get(one.entry.said, 0.0), one.score)
    ranked = [(one.entry, scores[one.entry.name] + BESIDE * _beside(numbers, one.entry.said)) for one in near]
    ranked += [
        (entry, BESIDE * _beside(numbers, entry.said)) for entry in _neighbours(keeper, numbers, limit)
    ]
    best = sorted(ranked, key=lambda pair: (-pair[1], pair[0].said))[:limit]
    return [_hit(keeper, entry, score) for entry, score in best]


def asked(query: str) -> list[str]:
    """The words of a query that tell something, each once.

    >>> asked("When did we move the database?")
    ['move', 'database']
    """
    words = dict.fromkeys(_WORD.findall(query.lower()))
    return [word for word in words if word not in COMMON]


def _beside(numbers: Mapping[int, float], number: int) -> float:
    """The score of the better neighbour; an answer follows its question more often than it leads."""
    return max(numbers.get(number - 1, 0.0), 0.9 * numbers.get(number + 1, 0.0))


def _neighbours(keeper: Keeper, numbers: Mapping[int, float], limit: int) -> list[Entry]:
    """Messages of this branch that stand beside the best hits and are none themselves."""
    best = sorted(numbers, key=lambda number: -numbers[number])[:limit]
    beside = {number + step for number in best for step in (-1, 1)} - set(numbers)
    if keeper.head is None:
        return []
    place = keeper.head.place
    return [
        entry
        for number in sorted(beside)
        if 1 <= number <= keeper.view.said
        for entry in keeper.store.read(keeper.name, place, kinds=SAID, first=number, last=number)
    ]


def _hit(keeper: Keeper, entry: Entry, score: float) -> Hit:
    number = entry.said
    here = (
        keeper.head is not None
        and number <= keeper.view.said
        and any(
            one.name == entry.name
            for one in keeper.store.read(
                keeper.name, keeper.head.place, kinds=SAID, first=number, last=number
            )
        )
    )
    return Hit(
        handle=f"#{number}" if here else entry.name,
        number=number,
        role=_role(keeper, entry),
        text=entry.text,
        score=score,
        folded=not here or not keeper.view.shown(number),
    )


def _role(keeper: Keeper, entry: Entry) -> str:
    item = keeper.given(entry)
    messages = [item] if isinstance(item, Message) else keeper.wire.parse([item])
    return messages[0].role
