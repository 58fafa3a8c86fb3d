"""Named places in the log: set one, list those of every branch, and go back to one.

A pin belongs to its message: it goes along wherever the session goes, as long as the message is there.
"""

from collections.abc import Iterable
from itertools import count
from typing import Any, Final

from refold.core.log.entries import SAID, Entry, Kind, is_name
from refold.errors import RefoldError
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.results import Checkpoint, Rewound
from refold.session.state.session_state import SessionState
from refold.session.steps.append import Draft, commit, mark_entry, read_draft
from refold.session.steps.branches.carried_marks import carry_spending
from refold.session.steps.edit_summary import keep_in_view
from refold.session.steps.load import load_at_head, read_attempts, reload_if_stale, retry_on_conflict
from refold.session.steps.prepare import repair_view
from refold.session.steps.recall import HANDLE, parse_handle
from refold.stores import START, Place

CHECKPOINTS: Final[frozenset[Kind]] = frozenset({"checkpoint"})


def checkpoint(state: SessionState, name: str) -> SessionFlow[str]:
    """Mark this place by a name; a name that was used before on this branch moves here."""
    chosen = str(name) if name else ""
    bare = chosen.strip()
    if chosen and (bare in {"", "start"} or is_name(chosen) or HANDLE.fullmatch(bare)):
        raise RefoldError(
            f"{chosen!r} names a message, an entry, the start or nothing: give the checkpoint another name"
        )

    def act() -> SessionFlow[str]:
        word = str(state.to_stored(chosen)) if chosen else ""
        if not word:
            here = len(state.view.checkpoints)
            marks: list[tuple[Place, Entry]] = yield StoreCall(lambda: _find_marks(state))
            taken = {entry.value["name"] for _, entry in marks}
            word = next(free for n in count(here + 1) if (free := f"checkpoint-{n}") not in taken)
        yield from commit(state, [mark_entry(state, "checkpoint", {"name": word, "said": state.view.said})])
        return word

    return (yield from retry_on_conflict(state, act))


def checkpoints(state: SessionState) -> SessionFlow[list[Checkpoint]]:
    """Return the checkpoints of every branch, in the order in which they were set."""
    yield from reload_if_stale(state)
    listed: list[Checkpoint] = yield StoreCall(lambda: _list_checkpoints(state))
    return listed


def _find_marks(state: SessionState) -> list[tuple[Place, Entry]]:
    return [] if state.head is None else state.store.find_marks(state.name, "checkpoint")


def _list_checkpoints(state: SessionState) -> list[Checkpoint]:
    """Return the newest checkpoint of each name on every branch that has one."""
    marks = _find_marks(state)
    if not marks or state.head is None:
        return []
    here, passed = _newest_of_names(_read_checkpoints(state, state.head.place))
    standing = set(here)
    for place, entry in reversed(marks):
        if entry.name not in passed:  # it ends a branch of its own, as far as checkpoints go
            newest, on_way = _newest_of_names(_read_checkpoints(state, place))
            standing |= newest
            passed |= on_way
    copies: set[tuple[str, str]] = set()
    listed = []
    # Checkpoints that a new branch took along stand at the same message: those of this branch win.
    for place, entry in sorted(marks, key=lambda mark: mark[1].name not in here):
        if entry.name not in standing:
            continue
        name, said = str(entry.value["name"]), entry.said  # one that a fold moved may stand behind newer ones
        copy = (name, _name_message(state, place, said))
        if copy in copies:
            continue
        copies.add(copy)
        on_branch = entry.name in here
        found = Checkpoint(name=name, handle=f"#{said}", said=said, entry=entry.name, on_branch=on_branch)
        listed.append((place, found))
    return [checkpoint for _, checkpoint in sorted(listed, key=lambda each: each[0].seq)]


def _read_checkpoints(state: SessionState, place: Place) -> Iterable[Entry]:
    return state.log.read(state.name, place, kinds=CHECKPOINTS)


def _newest_of_names(path: Iterable[Entry]) -> tuple[set[str], set[str]]:
    """Return the entries that are the newest of their name on a path, and all entries on it, by name."""
    newest: dict[str, str] = {}
    passed: set[str] = set()
    for entry in path:
        newest[entry.value["name"]] = entry.name
        passed.add(entry.name)
    return set(newest.values()), passed


def _name_message(state: SessionState, place: Place, number: int) -> str:
    """Return the name of a message on the path to a place; "" if there is none."""
    entries = state.log.read(state.name, place, kinds=SAID, first=number, last=number)
    return next((entry.name for entry in entries), "")


# -- going back ----------------------------------------------------------------------------------------------


def rewind(state: SessionState, to: Any) -> SessionFlow[Rewound]:
    """Go back to a message, an entry or a checkpoint; what came after stays on its own branch.

    A fold that was undone after that place stands again: this is the way to have it back. The result says so.
    """

    def act() -> SessionFlow[tuple[Rewound, bool]]:
        yield from reload_if_stale(state)
        undone = {fold.name for fold in state.view.folds if not fold.standing}
        place = yield from _find_place(state, to)
        draft = yield from read_draft(state, place)
        yield StoreCall(lambda: _carry_pins(state, draft))
        hidden = [number for number in sorted(draft.view.pins) if not draft.view.shown(number)]
        yield from keep_in_view(state, hidden, draft)
        yield from carry_spending(state, draft, lambda: read_attempts(state, place), "rewind")
        yield from commit(state, draft.marks, at=place)
        yield from load_at_head(state)
        again = tuple(fold.name for fold in state.view.standing if fold.name in undone)
        return Rewound(state.view.said, again), bool(hidden)

    rewound, has_shown_more = yield from retry_on_conflict(state, act)
    if has_shown_more:  # a message may stand beside one of the same role
        yield from retry_on_conflict(state, lambda: repair_view(state))
    return rewound


def _find_place(state: SessionState, to: Any) -> SessionFlow[Place]:
    """Return the place of a message, an entry or a checkpoint in the log."""
    if to in (0, "#0", "start") and to is not False:
        return START
    head = START if state.head is None else state.head.place
    if isinstance(to, Checkpoint):
        name = to.entry
    elif isinstance(to, str) and is_name(to):
        name = to
    elif isinstance(to, str) and (to in state.view.checkpoints or not HANDLE.fullmatch(to.strip())):
        known: list[Checkpoint] = yield StoreCall(lambda: _list_checkpoints(state))
        name = _choose_checkpoint(known, to)
    else:
        last = parse_handle(state, to).last
        newest: Entry = yield StoreCall(
            lambda: next(state.log.read(state.name, head, first=last, last=last, newest=True))
        )
        name = newest.name  # the message, or the last mark right behind it
    places: dict[str, Place] = yield StoreCall(lambda: state.log.find(state.name, [name]))
    if name not in places:
        raise RefoldError(f"there is no entry {name!r} in session {state.name!r}: `log()` lists its entries")
    return places[name]


def _choose_checkpoint(known: list[Checkpoint], name: str) -> str:
    """Return the entry of a checkpoint: that of this branch, else the only one on other branches."""
    named = [checkpoint for checkpoint in known if checkpoint.name == name]
    chosen = [checkpoint for checkpoint in named if checkpoint.on_branch] or named
    if len(chosen) == 1:
        return chosen[0].entry
    if chosen:
        places = " and ".join(f"{checkpoint.handle} ({checkpoint.entry})" for checkpoint in chosen)
        raise RefoldError(f"{name!r} stands on {len(chosen)} branches, at {places}: name the entry")
    names = ", ".join(dict.fromkeys(repr(checkpoint.name) for checkpoint in known)) or "none"
    raise RefoldError(f"{name!r} is no checkpoint of this session, which has {names}; a message is #12")


def _carry_pins(state: SessionState, draft: Draft) -> None:
    """Add marks that pin behind a place what is pinned now, as far as those messages are there."""
    if draft.place == START or state.head is None:
        return
    pins, head = state.view.pins, state.head.place
    for number in sorted(draft.view.pins ^ pins):
        name = _name_message(state, draft.place, number)
        if name and name == _name_message(state, head, number):
            draft.add("pin", {"said": number, "pinned": number in pins})
