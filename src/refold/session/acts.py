"""What people and programs do with a session: say, look, fold, unfold, rewind, mark."""

from collections.abc import Collection
from dataclasses import replace
from itertools import count
from typing import Any, Final

from refold.calls.compact import Wish
from refold.calls.outcome import Outcome
from refold.core.compaction.budget import Budget
from refold.core.compaction.policy import Policy
from refold.core.log.entries import KINDS, Entry, Kind
from refold.core.log.view import Run
from refold.core.messages.message import Message, Text
from refold.core.models.prices import Spent
from refold.errors import RefoldError
from refold.formats.shared import canonical
from refold.policies import presets
from refold.session.budgets import Around
from refold.session.deciding import attempt, latest_checkpoint, standing
from refold.session.effects import Do, Work
from refold.session.events import Unfolded
from refold.session.incoming import instruct, is_system, shape_of
from refold.session.keeper import Keeper, commit, mark
from refold.session.keeper import own as copied
from refold.session.keeper import say as said
from refold.session.loading import FOLDS, behind, fill, fresh, sure
from refold.session.recalling import HANDLE, folds_named, gone, run_of
from refold.session.values import FoldMade, Stats
from refold.stores import START, Place

CHECKPOINTS: Final[frozenset[Kind]] = frozenset({"checkpoint"})


def say(keeper: Keeper, message: Any) -> Work[str]:
    """Add what somebody said; text is the user's. Gives the handle of the (last) message."""

    def act() -> Work[None]:
        new = _items(keeper, message)
        system = 0
        wire = shape_of(keeper, new)
        if wire.name != keeper.wire.name:
            yield from fill(keeper, keeper.shelf.items[: keeper.shelf.fixed], wire)
        while keeper.view.said == 0 and system < len(new) and is_system(keeper.wire, new[system]):
            system += 1
        if system:
            yield from instruct(keeper, [*keeper.shelf.items[: keeper.shelf.fixed], *new[:system]])
        yield from said(keeper, new[system:])
        if keeper.held is None:  # nobody holds a list to compare with: a long talk needs little memory
            keeper.seen = None if keeper.view.said else []

    yield from sure(keeper, act)
    return f"#{keeper.view.said}"


def _items(keeper: Keeper, message: Any) -> list[Any]:
    if isinstance(message, str):
        own = keeper.wire.name == canonical.FORMAT.name
        plain = Message("user", (Text(message),))
        return [plain] if own else list(keeper.wire.render([plain]))
    if isinstance(message, Message):
        same = keeper.wire.name == canonical.FORMAT.name
        return [message] if same else list(keeper.wire.render([message]))
    items = message if isinstance(message, list | tuple) else [message]
    return [copied(item) for item in items]


def view(keeper: Keeper) -> Work[list[Any]]:
    """What the model sees, in the shape the conversation is in."""
    yield from fresh(keeper)
    return keeper.sent(anew=True)


def log(
    keeper: Keeper, *, kinds: Collection[Kind] | None = None, first: int = 0, last: int | None = None
) -> Work[list[Entry]]:
    """The entries of this branch, oldest first."""
    wrong = [kind for kind in kinds or () if kind not in KINDS]
    if wrong:
        raise RefoldError(f"there are no entries of kind {wrong[0]!r}; kinds are: {', '.join(KINDS)}")
    yield from fresh(keeper)
    if keeper.head is None:
        return []
    place = keeper.head.place
    found: list[Entry] = yield Do(
        lambda: list(keeper.store.read(keeper.name, place, kinds=kinds, first=first, last=last))
    )
    return found


def budget(keeper: Keeper, around: Around) -> Work[Budget]:
    """How full the context is."""
    yield from fresh(keeper)
    now = yield from standing(keeper, around)
    return now.budget


def compact(
    keeper: Keeper,
    around: Around,
    *,
    strategy: str | Policy | None = None,
    keep: int | None = None,
    focus: str = "",
    target: int | None = None,
) -> Work[Outcome]:
    """Fold now, whether or not it is time to."""
    yield from fresh(keeper)
    now = yield from standing(keeper, around)
    policy = keeper.settings.policy if strategy is None else presets.get(strategy)
    count = len(keeper.shelf.items)
    recent = tuple(range(max(keeper.shelf.fixed, count - keep), count)) if keep else ()
    checkpoint = _latest_checkpoint(keeper)
    if checkpoint is not None:
        policy = replace(policy, checkpoint=checkpoint)
    wish = Wish(force=True, focus=focus, target=target, pins=recent, model=keeper.ask is not None)
    made = yield from attempt(keeper, now, wish, "forced", policy=policy)
    return made.outcome


def _latest_checkpoint(keeper: Keeper) -> int | None:
    """Where in the view the current thread begins."""
    if not keeper.view.checkpoints:
        return None
    at = keeper.view.checkpoints[latest_checkpoint(keeper)]
    for index, atom in enumerate(keeper.shelf.atoms):
        if isinstance(atom, Run) and atom.first > at:
            return index
    return len(keeper.shelf.atoms)


def checkpoint(keeper: Keeper, name: str = "") -> Work[str]:
    """Mark this place by a name; a name that was used moves here."""
    named = str(name) if name else ""
    if named and (not named.strip() or named.startswith("b2:") or HANDLE.fullmatch(named.strip())):
        raise RefoldError(
            f"{named!r} names a message or an entry, or nothing: give the checkpoint another name"
        )

    def act() -> Work[str]:
        word = str(keeper.stored(named)) if named else _unnamed(keeper)
        value = {"name": word, "said": keeper.view.said}
        yield from commit(keeper, [mark(keeper, "checkpoint", value)])
        return word

    return (yield from sure(keeper, act))


def pin(keeper: Keeper, handle: Any = -1, *, pinned: bool = True) -> Work[str]:
    """Keep a message in every view; the last one by default."""

    def act() -> Work[str]:
        yield from fresh(keeper)
        run = run_of(keeper, keeper.view.said if handle == -1 else handle)
        if run.first != run.last:
            raise RefoldError(f"{handle!r} names several messages: pin one, such as #{run.first}")
        if pinned and not keeper.view.shown(run.first):
            raise RefoldError(f"#{run.first} is folded away: unfold it before you pin it")
        if (run.first in keeper.view.pins) != pinned:
            yield from commit(keeper, [mark(keeper, "pin", {"said": run.first, "pinned": pinned})])
        return f"#{run.first}"

    return (yield from sure(keeper, act))


def unfold(keeper: Keeper, fold: str | FoldMade | None = None) -> Work[str | None]:
    """Undo a fold, the latest by default; its name, or None where there is none."""

    def act() -> Work[str | None]:
        yield from fresh(keeper)
        standing_folds = [one for one in keeper.shortened() if one.standing]
        if fold is None and not standing_folds:
            return None
        word = getattr(fold, "name", fold)
        name = standing_folds[-1].name if word is None else _fold_named(keeper, str(word))
        found = keeper.view.fold(name)
        if found is not None and not found.standing:
            return name
        seen = keeper.seen
        yield from commit(keeper, [mark(keeper, "unfold", {"fold": name})])
        keeper.emit(Unfolded(session=keeper.name, at=keeper.now(), fold=name))
        yield from behind(keeper)
        keeper.seen = seen  # what the caller holds is the same as before
        return name

    return (yield from sure(keeper, act))


def _fold_named(keeper: Keeper, word: str) -> str:
    """The fold of a name, or of the beginning of one."""
    found = folds_named(keeper, word)
    if len(found) != 1:
        what = "several folds begin with" if found else "no fold of this branch is named"
        raise RefoldError(f"{what} {word!r}: `folds()` lists them")
    return found[0]


def rewind(keeper: Keeper, to: Any) -> Work[int]:
    """Move the head back to a message, an entry or a checkpoint; what came after stays on its own branch."""

    def act() -> Work[tuple[int, dict[str, Any]]]:
        yield from fresh(keeper)
        place = yield from _place(keeper, to)
        before, keeper.purse = keeper.purse, keeper.purse.emptied()
        try:
            yield from commit(keeper, [], at=place)
            yield from behind(keeper)
        finally:
            there, keeper.purse = keeper.purse, keeper.purse.with_all_of(before)
        return keeper.view.said, before.lacking(there)

    number, about = yield from sure(keeper, act)
    if about:  # money is spent on every branch
        value = {"trigger": "rewind", "reason": "spent before", "counted": False}
        yield from sure(keeper, lambda: commit(keeper, [mark(keeper, "attempt", value, about)]))
    return number


def _unnamed(keeper: Keeper) -> str:
    """A name that no checkpoint has yet."""
    known = keeper.view.checkpoints
    return next(word for n in count(len(known) + 1) if (word := f"checkpoint-{n}") not in known)


def _place(keeper: Keeper, to: Any) -> Work[Place]:
    if to in (0, "#0") or (to == "start" and to not in keeper.view.checkpoints):
        return START
    place = START if keeper.head is None else keeper.head.place
    name = ""
    if isinstance(to, str) and to in keeper.view.checkpoints:
        marks: list[Entry] = yield Do(
            lambda: list(keeper.store.read(keeper.name, place, kinds=CHECKPOINTS, newest=True))
        )
        name = next(one.name for one in marks if one.value["name"] == to)
    elif isinstance(to, str) and to.startswith("b2:"):
        name = to
    else:
        run = run_of(keeper, to)
        found: list[Entry] = yield Do(
            lambda: [next(keeper.store.read(keeper.name, place, first=run.last, last=run.last, newest=True))]
        )
        name = found[0].name  # the message, or the last mark that stands right behind it
    places: dict[str, Place] = yield Do(lambda: keeper.store.find(keeper.name, [name]))
    if name not in places:
        raise RefoldError(f"there is no entry {to!r} in session {keeper.name!r}")
    return places[name]


def folds(keeper: Keeper) -> Work[list[FoldMade]]:
    """Every fold of this branch, oldest first."""
    entries = yield from log(keeper, kinds=FOLDS)
    done = []
    for entry in entries:
        value = entry.value
        known = keeper.view.fold(entry.name)
        if value.get("trigger") == "repair" or known is None:
            continue
        runs = gone(keeper, known)
        covering = keeper.view.covering(entry.name)
        done.append(
            FoldMade(
                name=entry.name,
                handle=f"#{min(r.first for r in runs)}-#{max(r.last for r in runs)}" if runs else "",
                stages=tuple(value.get("stages", ())),
                tokens_before=keeper.saved[entry.name][0],
                tokens_after=keeper.saved[entry.name][1],
                at=entry.at,
                standing=known.standing,
                covered_by=None if covering is None else covering.name,
                receipt=entry.beside.get("receipt", {}),
                spent=Spent.read(entry.beside.get("spent")),
            )
        )
    return done


def stats(keeper: Keeper, around: Around) -> Work[Stats]:
    """What fills the context now, against what all requests cost together."""
    now = yield from budget(keeper, around)
    made = keeper.shortened()
    return Stats(
        session=keeper.name,
        said=keeper.view.said,
        messages=len(keeper.shelf.items),
        current_context_tokens=now.used,
        window=now.window,
        room=now.room,
        ratio=now.ratio,
        level=now.level,
        should_compact=now.should_compact,
        folds=sum(fold.standing for fold in made),
        unfolded=sum(not fold.standing for fold in made),
        tokens_saved=sum(
            keeper.saved[fold.name][0] - keeper.saved[fold.name][1] for fold in made if fold.standing
        ),
        totals=keeper.totals,
        spent=keeper.purse.own,
        summaries=keeper.purse.summaries,
    )
