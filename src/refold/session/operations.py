"""What people and programs do with a session: say, look, fold, unfold, rewind, mark."""

from collections.abc import Collection
from dataclasses import replace
from itertools import count
from typing import Any, Final

from refold.calls.compact import CompactionOptions
from refold.calls.outcome import Outcome
from refold.core.compaction.budget import Budget
from refold.core.compaction.policy import Policy
from refold.core.log.entries import KINDS, Entry, Kind
from refold.core.log.view import MessageRange
from refold.core.messages.message import Message, Text
from refold.core.models.prices import Spent
from refold.errors import RefoldError
from refold.formats.shared import canonical
from refold.policies import presets
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.events import Unfolded
from refold.session.results import FoldMade, Stats
from refold.session.state.session_state import SessionState, commit, mark_entry
from refold.session.state.session_state import append_messages as said
from refold.session.state.session_state import copy_item as copied
from refold.session.steps.compact import attempt, context_state, latest_checkpoint
from refold.session.steps.context import RequestContext
from refold.session.steps.load import FOLDS, fill_view, load_at_head, reload_if_stale, retry_on_conflict
from refold.session.steps.recall import HANDLE, find_folds, parse_handle, removed_runs
from refold.session.steps.take_in import instruct, is_system, shape_of
from refold.stores import START, Place

CHECKPOINTS: Final[frozenset[Kind]] = frozenset({"checkpoint"})


def say(state: SessionState, message: Any) -> SessionFlow[str]:
    """Add what somebody said; text is the user's. Gives the handle of the (last) message."""

    def act() -> SessionFlow[None]:
        new = _items(state, message)
        system = 0
        wire = shape_of(state, new)
        if wire.name != state.wire.name:
            yield from fill_view(state, state.shelf.items[: state.shelf.fixed], wire)
        while state.view.said == 0 and system < len(new) and is_system(state.wire, new[system]):
            system += 1
        if system:
            yield from instruct(state, [*state.shelf.items[: state.shelf.fixed], *new[:system]])
        yield from said(state, new[system:])
        if state.held is None:  # nobody holds a list to compare with: a long talk needs little memory
            state.seen = None if state.view.said else []

    yield from retry_on_conflict(state, act)
    return f"#{state.view.said}"


def _items(state: SessionState, message: Any) -> list[Any]:
    if isinstance(message, str):
        own = state.wire.name == canonical.FORMAT.name
        plain = Message("user", (Text(message),))
        return [plain] if own else list(state.wire.render([plain]))
    if isinstance(message, Message):
        same = state.wire.name == canonical.FORMAT.name
        return [message] if same else list(state.wire.render([message]))
    items = message if isinstance(message, list | tuple) else [message]
    return [copied(item) for item in items]


def view(state: SessionState) -> SessionFlow[list[Any]]:
    """What the model sees, in the shape the conversation is in."""
    yield from reload_if_stale(state)
    return state.sent(anew=True)


def log(
    state: SessionState, *, kinds: Collection[Kind] | None = None, first: int = 0, last: int | None = None
) -> SessionFlow[list[Entry]]:
    """The entries of this branch, oldest first."""
    wrong = [kind for kind in kinds or () if kind not in KINDS]
    if wrong:
        raise RefoldError(f"there are no entries of kind {wrong[0]!r}; kinds are: {', '.join(KINDS)}")
    yield from reload_if_stale(state)
    if state.head is None:
        return []
    place = state.head.place
    found: list[Entry] = yield StoreCall(
        lambda: list(state.store.read(state.name, place, kinds=kinds, first=first, last=last))
    )
    return found


def budget(state: SessionState, around: RequestContext) -> SessionFlow[Budget]:
    """How full the context is."""
    yield from reload_if_stale(state)
    now = yield from context_state(state, around)
    return now.budget


def compact(
    state: SessionState,
    around: RequestContext,
    *,
    strategy: str | Policy | None = None,
    keep: int | None = None,
    focus: str = "",
    target: int | None = None,
) -> SessionFlow[Outcome]:
    """Fold now, whether or not it is time to."""
    yield from reload_if_stale(state)
    now = yield from context_state(state, around)
    policy = state.settings.policy if strategy is None else presets.get(strategy)
    count = len(state.shelf.items)
    recent = tuple(range(max(state.shelf.fixed, count - keep), count)) if keep else ()
    checkpoint = _latest_checkpoint(state)
    if checkpoint is not None:
        policy = replace(policy, checkpoint=checkpoint)
    wish = CompactionOptions(force=True, focus=focus, target=target, pins=recent, model=state.ask is not None)
    made = yield from attempt(state, now, wish, "forced", policy=policy)
    return made.outcome


def _latest_checkpoint(state: SessionState) -> int | None:
    """Where in the view the current thread begins."""
    if not state.view.checkpoints:
        return None
    at = state.view.checkpoints[latest_checkpoint(state)]
    for index, atom in enumerate(state.shelf.atoms):
        if isinstance(atom, MessageRange) and atom.first > at:
            return index
    return len(state.shelf.atoms)


def checkpoint(state: SessionState, name: str = "") -> SessionFlow[str]:
    """Mark this place by a name; a name that was used moves here."""
    named = str(name) if name else ""
    if named and (not named.strip() or named.startswith("b2:") or HANDLE.fullmatch(named.strip())):
        raise RefoldError(
            f"{named!r} names a message or an entry, or nothing: give the checkpoint another name"
        )

    def act() -> SessionFlow[str]:
        word = str(state.stored(named)) if named else _unnamed(state)
        value = {"name": word, "said": state.view.said}
        yield from commit(state, [mark_entry(state, "checkpoint", value)])
        return word

    return (yield from retry_on_conflict(state, act))


def pin(state: SessionState, handle: Any = -1, *, pinned: bool = True) -> SessionFlow[str]:
    """Keep a message in every view; the last one by default."""

    def act() -> SessionFlow[str]:
        yield from reload_if_stale(state)
        run = parse_handle(state, state.view.said if handle == -1 else handle)
        if run.first != run.last:
            raise RefoldError(f"{handle!r} names several messages: pin one, such as #{run.first}")
        if pinned and not state.view.shown(run.first):
            raise RefoldError(f"#{run.first} is folded away: unfold it before you pin it")
        if (run.first in state.view.pins) != pinned:
            yield from commit(state, [mark_entry(state, "pin", {"said": run.first, "pinned": pinned})])
        return f"#{run.first}"

    return (yield from retry_on_conflict(state, act))


def unfold(state: SessionState, fold: str | FoldMade | None = None) -> SessionFlow[str | None]:
    """Undo a fold, the latest by default; its name, or None where there is none."""

    def act() -> SessionFlow[str | None]:
        yield from reload_if_stale(state)
        standing_folds = [one for one in state.shortened() if one.standing]
        if fold is None and not standing_folds:
            return None
        word = getattr(fold, "name", fold)
        name = standing_folds[-1].name if word is None else _fold_named(state, str(word))
        found = state.view.fold(name)
        if found is not None and not found.standing:
            return name
        seen = state.seen
        yield from commit(state, [mark_entry(state, "unfold", {"fold": name})])
        state.emit(Unfolded(session=state.name, at=state.now(), fold=name))
        yield from load_at_head(state)
        state.seen = seen  # what the caller holds is the same as before
        return name

    return (yield from retry_on_conflict(state, act))


def _fold_named(state: SessionState, word: str) -> str:
    """The fold of a name, or of the beginning of one."""
    found = find_folds(state, word)
    if len(found) != 1:
        what = "several folds begin with" if found else "no fold of this branch is named"
        raise RefoldError(f"{what} {word!r}: `folds()` lists them")
    return found[0]


def rewind(state: SessionState, to: Any) -> SessionFlow[int]:
    """Move the head back to a message, an entry or a checkpoint; what came after stays on its own branch."""

    def act() -> SessionFlow[tuple[int, dict[str, Any]]]:
        yield from reload_if_stale(state)
        place = yield from _place(state, to)
        before, state.purse = state.purse, state.purse.emptied()
        try:
            yield from commit(state, [], at=place)
            yield from load_at_head(state)
        finally:
            there, state.purse = state.purse, state.purse.with_all_of(before)
        return state.view.said, before.lacking(there)

    number, about = yield from retry_on_conflict(state, act)
    if about:  # money is spent on every branch
        value = {"trigger": "rewind", "reason": "spent before", "counted": False}
        yield from retry_on_conflict(
            state, lambda: commit(state, [mark_entry(state, "attempt", value, about)])
        )
    return number


def _unnamed(state: SessionState) -> str:
    """A name that no checkpoint has yet."""
    known = state.view.checkpoints
    return next(word for n in count(len(known) + 1) if (word := f"checkpoint-{n}") not in known)


def _place(state: SessionState, to: Any) -> SessionFlow[Place]:
    if to in (0, "#0") or (to == "start" and to not in state.view.checkpoints):
        return START
    place = START if state.head is None else state.head.place
    name = ""
    if isinstance(to, str) and to in state.view.checkpoints:
        marks: list[Entry] = yield StoreCall(
            lambda: list(state.store.read(state.name, place, kinds=CHECKPOINTS, newest=True))
        )
        name = next(one.name for one in marks if one.value["name"] == to)
    elif isinstance(to, str) and to.startswith("b2:"):
        name = to
    else:
        run = parse_handle(state, to)
        found: list[Entry] = yield StoreCall(
            lambda: [next(state.store.read(state.name, place, first=run.last, last=run.last, newest=True))]
        )
        name = found[0].name  # the message, or the last mark that stands right behind it
    places: dict[str, Place] = yield StoreCall(lambda: state.store.find(state.name, [name]))
    if name not in places:
        raise RefoldError(f"there is no entry {to!r} in session {state.name!r}")
    return places[name]


def folds(state: SessionState) -> SessionFlow[list[FoldMade]]:
    """Every fold of this branch, oldest first."""
    entries = yield from log(state, kinds=FOLDS)
    done = []
    for entry in entries:
        value = entry.value
        known = state.view.fold(entry.name)
        if value.get("trigger") == "repair" or known is None:
            continue
        runs = removed_runs(state, known)
        covering = state.view.covering(entry.name)
        done.append(
            FoldMade(
                name=entry.name,
                handle=f"#{min(r.first for r in runs)}-#{max(r.last for r in runs)}" if runs else "",
                stages=tuple(value.get("stages", ())),
                tokens_before=state.saved[entry.name][0],
                tokens_after=state.saved[entry.name][1],
                at=entry.at,
                standing=known.standing,
                covered_by=None if covering is None else covering.name,
                receipt=entry.beside.get("receipt", {}),
                spent=Spent.read(entry.beside.get("spent")),
            )
        )
    return done


def stats(state: SessionState, around: RequestContext) -> SessionFlow[Stats]:
    """What fills the context now, against what all requests cost together."""
    now = yield from budget(state, around)
    made = state.shortened()
    return Stats(
        session=state.name,
        said=state.view.said,
        messages=len(state.shelf.items),
        current_context_tokens=now.used,
        window=now.window,
        room=now.room,
        ratio=now.ratio,
        level=now.level,
        should_compact=now.should_compact,
        folds=sum(fold.standing for fold in made),
        unfolded=sum(not fold.standing for fold in made),
        tokens_saved=sum(
            state.saved[fold.name][0] - state.saved[fold.name][1] for fold in made if fold.standing
        ),
        totals=state.totals,
        spent=state.purse.own,
        summaries=state.purse.summaries,
    )
