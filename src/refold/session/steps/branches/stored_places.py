"""Find places in the stored branches of a session: where messages were said, and where a branch ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from refold.core.log.entries import ROOT, SAID, hash_entry
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.position import MAX_LEFT_BRANCHES
from refold.session.state.session_state import SessionState
from refold.stores import START, Place

PAGE: Final = 500
"""Names that are looked up in the store at once: few calls, and no statement over SQLite's 999 parameters."""


@dataclass(frozen=True, slots=True)
class StoredPlace:
    """A place to continue from: the entry that stands there, and the last message before it."""

    place: Place
    name: str
    tip: str


def find_last_place(state: SessionState, said: int, end: Place) -> SessionFlow[StoredPlace]:
    """Return the last place on the path to `end` where `said` messages had been said."""
    if said == 0 or end == START:
        return StoredPlace(START, ROOT, ROOT)

    def read_base() -> StoredPlace:
        newest = next(state.log.read(state.name, end, first=said, last=said, newest=True))
        tip = next(state.log.read(state.name, end, kinds=SAID, first=said, last=said))
        return StoredPlace(state.log.find(state.name, [newest.name])[newest.name], newest.name, tip.name)

    base: StoredPlace = yield StoreCall(read_base)
    return base


def follow_names(
    state: SessionState, rest: Sequence[Any], said: int, base: StoredPlace, prefix: str
) -> SessionFlow[tuple[int, StoredPlace]]:
    """Return how many of these messages are stored behind a place under their names, and the last of them."""
    names: list[str] = []
    parent = base.tip
    for number, item in enumerate(rest, said + 1):
        parent = hash_entry(parent, "said", state.to_stored(item), number, prefix)
        names.append(parent)
    count = 0
    for start in range(0, len(names), PAGE):
        page = names[start : start + PAGE]
        places: dict[str, Place] = yield StoreCall(partial(state.log.find, state.name, page))
        for name in page:
            if name not in places:
                return count, base
            count, base = count + 1, StoredPlace(places[name], name, name)
    return count, base


def find_end(state: SessionState, place: Place) -> Place:
    """Return the last place on the line of a place."""
    ends = (one.ends for one in state.store.branches(state.name))
    return next((end for end in ends if end.line == place.line), place)


def find_end_behind(state: SessionState, base: StoredPlace, said: int) -> Place:
    """Return the end of the newest line on which that message is the last, or else of its own line.

    Marks begin a line of their own behind a message that others follow, such as a fold after a rewind.
    """
    ends = [one.ends for one in state.store.branches(state.name) if one.ends.seq >= base.place.seq]
    for end in sorted(ends, key=lambda place: -place.seq)[:MAX_LEFT_BRANCHES]:
        if next(state.log.read(state.name, end, newest=True)).said == said:
            tips = state.log.read(state.name, end, kinds=SAID, first=said, last=said)
            if [entry.name for entry in tips] == [base.tip]:
                return end
    return find_end(state, base.place)
