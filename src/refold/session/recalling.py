"""Fetch back what was said: by handle, by name, by words; on this branch and on those that were left."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from refold.core.log import SAID, Entry
from refold.core.messages import Message
from refold.core.view import Folded, Run
from refold.errors import RefoldError
from refold.formats.exported import without
from refold.session.effects import Do, Work
from refold.session.keeper import Keeper
from refold.session.loading import fresh
from refold.session.values import Hit

if TYPE_CHECKING:
    from refold.stores import Place

LEAST_NAME: Final = 6
"""Characters of a fold's name that name it where a handle might stand: `12` is a message."""
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
        raise RefoldError(f"{handle!r} names no message: there are #1 to #{keeper.view.said}")
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
    place = keeper.head.place

    def look() -> list[Hit]:
        hits = []
        for found in keeper.store.search(query, session=keeper.name, limit=limit):
            number = found.entry.said
            here = number <= keeper.view.said and any(
                one.name == found.entry.name
                for one in keeper.store.read(keeper.name, place, kinds=SAID, first=number, last=number)
            )
            hits.append(
                Hit(
                    handle=f"#{number}" if here else found.entry.name,
                    number=number,
                    role=_role(keeper, found.entry),
                    text=found.entry.text,
                    score=found.score,
                    folded=not here or not keeper.view.shown(number),
                )
            )
        return hits

    done: list[Hit] = yield Do(look)
    return done


def _role(keeper: Keeper, entry: Entry) -> str:
    item = keeper.given(entry)
    messages = [item] if isinstance(item, Message) else keeper.wire.parse([item])
    return messages[0].role
