"""The view: what the model sees, computed from the log and never stored as truth.

A view is a row of pieces: runs of messages by number, and what folds put in their place. To say something
lengthens the last run; a fold replaces pieces by others; an unfolded fold is skipped, and what it took is
there again, or covered by the later folds that covered what it had put. What a fold puts back never moves.
So a view costs what its folds cost, however long the log is, and holds no message itself.

    project(entries) == reduce(step, entries, View())
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final, TypeAlias

from refold.core.log.entries import Entry
from refold.errors import LogCorrupt


@dataclass(frozen=True, slots=True)
class Run:
    """Messages by number, the first to the last of them."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Put:
    """A message that a fold put in the place of others."""

    fold: str
    place: int
    """Its place among all messages that the fold put."""


Piece: TypeAlias = Run | Put


@dataclass(frozen=True, slots=True)
class Change:
    """Pieces that leave, and what stands where the first of them stood."""

    took: tuple[Piece, ...]
    put: tuple[Piece, ...]
    """Messages of the fold's own, and those of what it took that are put back, in the order they had."""

    @property
    def kept(self) -> tuple[Run, ...]:
        """The messages it took and put back as they were said."""
        return tuple(piece for piece in self.put if isinstance(piece, Run))


@dataclass(frozen=True, slots=True)
class Folded:
    """A fold as the view knows it."""

    name: str
    changes: tuple[Change, ...]
    said: int
    """How many messages had been said."""
    standing: bool = True
    heads: Mapping[int, Change] = field(init=False, compare=False, repr=False)
    """The change of each message that is the first of the fold's own in its change."""

    def __post_init__(self) -> None:
        heads = {}
        for change in self.changes:
            own = next((p for p in change.put if isinstance(p, Put) and p.fold == self.name), None)
            if own is not None:
                heads[own.place] = change
        object.__setattr__(self, "heads", heads)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the model sees, without the messages themselves."""

    said: int = 0
    """How many messages have been said on this branch."""
    pieces: tuple[Piece, ...] = ()
    folds: tuple[Folded, ...] = ()
    """Every fold of this branch, oldest first, also those that were unfolded."""
    pins: frozenset[int] = frozenset()
    checkpoints: Mapping[str, int] = field(default_factory=dict)
    """How many messages stand before each."""
    system: str = ""
    """Name of the entry with the system messages."""

    @property
    def standing(self) -> tuple[Folded, ...]:
        """The folds that hold, oldest first."""
        return tuple(fold for fold in self.folds if fold.standing)

    def fold(self, name: str) -> Folded | None:
        """The fold of this name."""
        return next((fold for fold in self.folds if fold.name == name), None)

    def shown(self, number: int) -> bool:
        """Whether a message is seen as it was said."""
        return any(isinstance(piece, Run) and piece.first <= number <= piece.last for piece in self.pieces)

    def originals(self, piece: Piece) -> tuple[Run, ...]:
        """The messages that a piece stands for, as they were said."""
        return _runs(_behind(piece, {fold.name: fold for fold in self.folds}))

    def covering(self, name: str) -> Folded | None:
        """The standing fold that took what this one put, also through an unfolded one, if one did."""
        skipped = {fold.name: fold for fold in self.folds if not fold.standing and fold.name != name}
        for fold in self.standing:
            taken = (piece for change in fold.changes for piece in _expanded(_gone(change), skipped))
            if any(isinstance(piece, Put) and piece.fold == name for piece in taken):
                return fold
        return None


def project(entries: Iterable[Entry]) -> View:
    """The view of a log."""
    return reduce(step, entries, View())


def step(view: View, entry: Entry) -> View:
    """The view after one more entry."""
    if entry.kind == "said":
        return _said(view, entry)
    try:
        return _marked(view, entry)
    except (KeyError, TypeError, ValueError, RecursionError):
        raise LogCorrupt(f"{entry.kind} {entry.name} cannot be read", entry=entry.name) from None


def _marked(view: View, entry: Entry) -> View:
    value = entry.value
    if entry.kind == "fold":
        fold = Folded(entry.name, changes_of(entry.name, value), entry.said)
        folds = (*view.folds, fold)
        return replace(view, folds=folds, pieces=_applied(view.pieces, fold, _skipped(folds)))
    if entry.kind == "unfold":
        undone = value["fold"]
        folds = tuple(replace(f, standing=False) if f.name == undone else f for f in view.folds)
        return replace(view, folds=folds, pieces=_anew(view.said, folds))
    if entry.kind == "checkpoint":
        return replace(view, checkpoints={**view.checkpoints, value["name"]: value["said"]})
    if entry.kind == "pin":
        pin = {value["said"]}
        return replace(view, pins=view.pins | pin if value["pinned"] else view.pins - pin)
    if entry.kind == "system":
        return replace(view, system=entry.name)
    return view


def changes_to_json(changes: Sequence[Change]) -> list[dict[str, list[str]]]:
    """Changes as a fold's body holds them: `12-57`, `b2:.../0`, and `+0` for the fold's own messages."""
    return [
        {"took": [_word(p) for p in change.took], "put": [_word(p) for p in change.put]} for change in changes
    ]


def changes_of(name: str, value: Mapping[str, Any]) -> tuple[Change, ...]:
    """The changes of a fold's body."""
    try:
        return tuple(
            Change(
                tuple(_piece(word, None) for word in change["took"]),
                tuple(_piece(word, name) for word in change["put"]),
            )
            for change in value["changes"]
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise LogCorrupt(f"fold {name} cannot be read", entry=name) from None


OWN: Final = ""
"""The fold of a piece whose fold has no name yet."""


def _word(piece: Piece) -> str:
    if isinstance(piece, Run):
        return f"{piece.first}-{piece.last}"
    return f"{piece.fold}/{piece.place}" if piece.fold else f"+{piece.place}"


def _piece(word: str, own: str | None) -> Piece:
    """The piece of a word; `own` is the fold whose messages `+0` means, None where there are none yet."""
    if word.startswith("+"):
        if own is None:
            raise ValueError(word)
        return Put(own, int(word[1:]))
    fold, slash, place = word.rpartition("/")
    if slash:
        return Put(fold, int(place))
    first, _, last = word.partition("-")
    run = Run(int(first), int(last))
    if not 1 <= run.first <= run.last:
        raise ValueError(word)
    return run


def _said(view: View, entry: Entry) -> View:
    if entry.said != view.said + 1:
        raise LogCorrupt(f"message #{entry.said} stands where #{view.said + 1} is due", entry=entry.name)
    return grown(view, entry.said)


def grown(view: View, said: int) -> View:
    """The view after messages up to this number; nothing where they are there already."""
    if said <= view.said:
        return view
    last = view.pieces[-1] if view.pieces else None
    if isinstance(last, Run) and last.last == view.said:
        pieces = (*view.pieces[:-1], Run(last.first, said))
    else:
        pieces = (*view.pieces, Run(view.said + 1, said))
    return replace(view, said=said, pieces=pieces)


def project_marks(marks: Iterable[Entry], said: int) -> View:
    """The view of a log of which only the marks are at hand, and how many messages were said in all."""
    view = View()
    for mark in marks:
        view = step(grown(view, mark.said), mark)
    return grown(view, said)


def _anew(said: int, folds: Sequence[Folded]) -> tuple[Piece, ...]:
    """The pieces after all standing folds, from the messages on."""
    pieces: tuple[Piece, ...] = (Run(1, said),) if said else ()
    skipped = _skipped(folds)
    for fold in folds:
        if fold.standing:
            pieces = _applied(pieces, fold, skipped)
    return pieces


def _skipped(folds: Sequence[Folded]) -> dict[str, Folded]:
    return {fold.name: fold for fold in folds if not fold.standing}


def _applied(pieces: Sequence[Piece], fold: Folded, skipped: Mapping[str, Folded]) -> tuple[Piece, ...]:
    """The pieces after one fold; one pass, whatever the number of its changes."""
    takes: list[tuple[int, int | None]] = []
    runs: list[tuple[int, int, int]] = []
    puts: dict[Put, int] = {}
    for number, change in enumerate(fold.changes):
        for piece, back in _apart(change):
            for part in _expanded([piece], skipped):
                if isinstance(part, Run):
                    runs.append((part.first, part.last, len(takes)))
                else:
                    puts[part] = len(takes)
            takes.append((number, back))
    runs.sort()
    parts = [(part, None if take is None else takes[take]) for part, take in _split(pieces, runs, puts)]
    return _written(parts, fold, takes)


def _written(
    parts: Sequence[tuple[Piece, tuple[int, int | None] | None]],
    fold: Folded,
    takes: Iterable[tuple[int, int | None]],
) -> tuple[Piece, ...]:
    """The parts that stay, and what each change puts, around what it puts back."""
    backs: list[set[int]] = [set() for _ in fold.changes]
    for number, back in takes:
        backs[number] |= set() if back is None else {back}
    own = [
        [(place, piece) for place, piece in enumerate(change.put) if place not in stay][::-1]
        for change, stay in zip(fold.changes, backs, strict=True)
    ]
    last = {taken[0]: index for index, (_, taken) in enumerate(parts) if taken is not None}
    done: list[Piece] = []

    def put(number: int, limit: int) -> None:
        while own[number] and own[number][-1][0] < limit:
            _add(done, own[number].pop()[1])

    for index, (part, taken) in enumerate(parts):
        if taken is None:
            _add(done, part)
            continue
        number, back = taken
        end = len(fold.changes[number].put)
        put(number, min(backs[number], default=end) if back is None else back)
        if back is not None:
            _add(done, part)
        if last[number] == index:
            put(number, end)
    return tuple(done)


def _apart(change: Change) -> Iterator[tuple[Piece, int | None]]:
    """What a change took, cut where it is put back, with the place in what is put, None where it left."""
    runs = sorted((p.first, p.last, place) for place, p in enumerate(change.put) if isinstance(p, Run))
    return _split(change.took, runs, {p: place for place, p in enumerate(change.put) if isinstance(p, Put)})


def _gone(change: Change) -> list[Piece]:
    """What a change took and did not put back."""
    return [piece for piece, back in _apart(change) if back is None]


def _split(
    pieces: Sequence[Piece], runs: Sequence[tuple[int, int, int]], puts: Mapping[Put, int]
) -> Iterator[tuple[Piece, int | None]]:
    """The pieces, cut where changes begin and end, each with the change that takes it."""
    for piece in pieces:
        if isinstance(piece, Put):
            yield piece, puts.get(piece)
            continue
        at = piece.first
        index = max(0, bisect_left(runs, (at, 0, 0)) - 1)
        while index < len(runs) and runs[index][0] <= piece.last:
            first, last, number = runs[index]
            first, last = max(first, at), min(last, piece.last)
            if first <= last:
                if at < first:
                    yield Run(at, first - 1), None
                yield Run(first, last), number
                at = last + 1
            index += 1
        if at <= piece.last:
            yield Run(at, piece.last), None


def _add(done: list[Piece], piece: Piece) -> None:
    """Add a piece; runs that meet become one."""
    if isinstance(piece, Run) and done and isinstance(last := done[-1], Run) and last.last + 1 == piece.first:
        done[-1] = Run(last.first, piece.last)
    else:
        done.append(piece)


def _expanded(pieces: Iterable[Piece], skipped: Mapping[str, Folded]) -> Iterator[Piece]:
    """The pieces, with what skipped folds put replaced by what they took."""
    waiting = list(pieces)[::-1]
    while waiting:
        piece = waiting.pop()
        if isinstance(piece, Put) and piece.fold in skipped:
            waiting += reversed(_taken_for(piece, skipped[piece.fold]))
        else:
            yield piece


def _behind(piece: Piece, folds: Mapping[str, Folded]) -> Iterator[Run]:
    for found in _expanded([piece], folds):
        if isinstance(found, Run):
            yield found


def _taken_for(piece: Put, fold: Folded) -> list[Piece]:
    """What one message of a fold stands for: the first of a change for all that left, others for nothing."""
    change = fold.heads.get(piece.place)
    return [] if change is None else _gone(change)


def _runs(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Runs in order, joined where they meet."""
    done: list[Piece] = []
    for run in sorted(runs, key=lambda run: run.first):
        _add(done, run)
    return tuple(run for run in done if isinstance(run, Run))
