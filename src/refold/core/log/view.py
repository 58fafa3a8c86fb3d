"""The view: what the model sees, computed from the log and never stored as the truth.

A view is a sequence of items: ranges of messages by number, and messages that folds put in their place. A
new message lengthens the last range. A fold replaces items by others. An undone fold is skipped: the items
it removed are there again, or are covered by the later folds that removed its replacements. An item that a
fold puts back never moves. A view costs what its folds cost, however long the log is, and holds no message.

    project(entries) == reduce(step, entries, View())
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final, TypeAlias

from refold.core.log.entries import Entry
from refold.core.messages.quick_init import quick_init, quick_replace
from refold.errors import LogCorrupt


@quick_init
@dataclass(frozen=True, slots=True)
class MessageRange:
    """Messages by number, from the first to the last, both included."""

    first: int
    last: int


@quick_init
@dataclass(frozen=True, slots=True)
class Replacement:
    """A message that a fold put in the place of others."""

    fold: str
    place: int
    """Its place among all messages that the fold inserted."""


ViewItem: TypeAlias = MessageRange | Replacement


@dataclass(frozen=True, slots=True)
class Change:
    """Items that leave the view, and the items that stand where the first of them stood."""

    removed: tuple[ViewItem, ...]
    inserted: tuple[ViewItem, ...]
    """The fold's own messages, and the removed items that are put back, in their old order."""

    @property
    def kept(self) -> tuple[MessageRange, ...]:
        """The messages that are removed and put back unchanged."""
        return tuple(item for item in self.inserted if isinstance(item, MessageRange))

    def split(self) -> Iterator[tuple[ViewItem, int | None]]:
        """Yield the removed items in parts, each with its place in `inserted`, or None if it is gone."""
        back = self.inserted
        ranges = sorted(
            (item.first, item.last, place)
            for place, item in enumerate(back)
            if isinstance(item, MessageRange)
        )
        own = {item: place for place, item in enumerate(back) if isinstance(item, Replacement)}
        return _split_items(self.removed, ranges, own)

    def gone(self) -> list[ViewItem]:
        """Return the removed items that are not put back."""
        return [item for item, back in self.split() if back is None]


@dataclass(frozen=True, slots=True)
class Folded:
    """A fold as the view knows it."""

    name: str
    changes: tuple[Change, ...]
    said: int
    """Number of messages that had been said when the fold was made."""
    standing: bool = True
    heads: Mapping[int, list[ViewItem]] = field(init=False, compare=False, repr=False)
    """What is gone in each change, by the first of the fold's own messages in it."""
    untold: Mapping[int, list[ViewItem]] = field(init=False, compare=False, repr=False)
    """What is gone where nothing was put, by the message that tells it: a summary of several runs stands in
    place of the last one. Beside it a fold has shortened messages, each in place of one."""

    def __post_init__(self) -> None:
        heads: dict[int, list[ViewItem]] = {}
        behind: dict[int, list[ViewItem]] = {}
        untold: list[ViewItem] = []
        for change in self.changes:
            own = (p for p in change.inserted if isinstance(p, Replacement) and p.fold == self.name)
            if (first := next(own, None)) is not None:
                heads[first.place] = behind[first.place] = change.gone()
            elif not change.inserted:
                untold += change.removed
                behind = {}
        most = max(behind, key=lambda place: count_messages(behind[place]), default=None)
        object.__setattr__(self, "heads", heads)
        object.__setattr__(self, "untold", {} if most is None or not untold else {most: untold})


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The items that the model sees, without the messages themselves, and the marks of a branch."""

    said: int = 0
    """Number of messages said on this branch."""
    items: tuple[ViewItem, ...] = ()
    folds: tuple[Folded, ...] = ()
    """Every fold of this branch, oldest first, undone ones included."""
    pins: frozenset[int] = frozenset()
    checkpoints: Mapping[str, int] = field(default_factory=dict)
    """Number of messages before each checkpoint, by its name."""
    system: str = ""
    """Name of the entry with the system messages."""

    @property
    def standing(self) -> tuple[Folded, ...]:
        """The folds that are not undone, oldest first."""
        return tuple([fold for fold in self.folds if fold.standing]) if self.folds else ()

    def fold(self, name: str) -> Folded | None:
        """Return the fold of this name."""
        return next((fold for fold in self.folds if fold.name == name), None)

    def shown(self, number: int) -> bool:
        """True if the model sees this message as it was said."""
        return _has_message(self.items, number)

    def was_unfolded(self, number: int) -> bool:
        """True if a fold that had hidden this message as it was said was undone."""
        undone = (fold for fold in self.folds if not fold.standing)
        return any(_has_message(change.removed, number) for fold in undone for change in fold.changes)

    def originals(self, item: ViewItem) -> tuple[MessageRange, ...]:
        """Return the messages that an item stands for, as they were said."""
        ranges = expand_items([item], {fold.name: fold for fold in self.folds}, elsewhere=True)
        joined: list[ViewItem] = []
        for stretch in sorted((r for r in ranges if isinstance(r, MessageRange)), key=lambda r: r.first):
            append_item(joined, stretch)
        return tuple(stretch for stretch in joined if isinstance(stretch, MessageRange))

    def covering(self, name: str) -> Folded | None:
        """Return the standing fold that removed this fold's messages, also through an undone fold."""
        undone = {fold.name: fold for fold in self.folds if not fold.standing and fold.name != name}
        for fold in self.standing:
            gone = (item for change in fold.changes for item in expand_items(change.gone(), undone))
            if any(isinstance(item, Replacement) and item.fold == name for item in gone):
                return fold
        return None


def project(entries: Iterable[Entry]) -> View:
    """Return the view of a log."""
    return reduce(step, entries, View())


def project_marks(marks: Iterable[Entry], said: int) -> View:
    """Return the view of a log from its marks alone, and the number of messages said in all."""
    view = View()
    for mark in marks:
        view = step(extend_view(view, mark.said), mark)
    return extend_view(view, said)


def read_body(entry: Entry) -> Any:
    """Decode the body of an entry; raises `LogCorrupt` if it cannot be read."""
    try:
        return entry.value
    except (ValueError, RecursionError):
        raise LogCorrupt(f"{entry.kind} {entry.name} cannot be read", entry=entry.name) from None


def step(view: View, entry: Entry, value: Any = None) -> View:
    """Return the view after one more entry; `value` is its body, if that was decoded already."""
    if entry.kind == "said":
        if entry.said != view.said + 1:
            raise LogCorrupt(f"message #{entry.said} stands where #{view.said + 1} is due", entry=entry.name)
        return extend_view(view, entry.said)
    try:
        return _apply_mark(view, entry, read_body(entry) if value is None else value)
    except (KeyError, TypeError, ValueError, RecursionError):
        raise LogCorrupt(f"{entry.kind} {entry.name} cannot be read", entry=entry.name) from None


def _apply_mark(view: View, entry: Entry, value: Any) -> View:
    if entry.kind == "fold":
        fold = Folded(entry.name, read_changes(entry.name, value), entry.said)
        folds = (*view.folds, fold)
        return replace(view, folds=folds, items=_apply_fold(view.items, fold, _undone(folds)))
    if entry.kind == "unfold":
        name = value["fold"]
        folds = tuple(replace(f, standing=False) if f.name == name else f for f in view.folds)
        # Later folds may name messages of the undone one, so the items are computed again from the start.
        items: tuple[ViewItem, ...] = (MessageRange(1, view.said),) if view.said else ()
        undone = _undone(folds)
        for fold in folds:
            items = _apply_fold(items, fold, undone) if fold.standing else items
        return replace(view, folds=folds, items=items)
    if entry.kind == "checkpoint":
        return replace(view, checkpoints={**view.checkpoints, value["name"]: value["said"]})
    if entry.kind == "pin":
        pin = {value["said"]}
        return replace(view, pins=view.pins | pin if value["pinned"] else view.pins - pin)
    if entry.kind == "system":
        return replace(view, system=entry.name)
    return view


def extend_view(view: View, said: int) -> View:
    """Return the view with all messages up to this number; the same view if they are there already."""
    if said <= view.said:
        return view
    items, last = view.items, view.items[-1] if view.items else None
    first = view.said + 1
    if isinstance(last, MessageRange) and last.last == view.said:  # ranges that meet become one
        items, first = items[:-1], last.first
    return quick_replace(view, said=said, items=(*items, MessageRange(first, said)))


# -- changes as JSON: the keys and words here are part of the log format ------------------------------------

OWN: Final = ""
"""The fold of a replacement whose fold has no name yet."""


def changes_to_json(changes: Sequence[Change]) -> list[dict[str, list[str]]]:
    """Write changes as a fold's body holds them: `12-57`, `b2:.../0`, `+0` for the fold's own messages."""
    return [
        {"took": [write_word(p) for p in change.removed], "put": [write_word(p) for p in change.inserted]}
        for change in changes
    ]


def read_changes(name: str, value: Mapping[str, Any]) -> tuple[Change, ...]:
    """Read the changes of a fold's body."""
    try:
        return tuple(
            Change(
                tuple(read_word(word, None) for word in change["took"]),
                tuple(read_word(word, name) for word in change["put"]),
            )
            for change in value["changes"]
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise LogCorrupt(f"fold {name} cannot be read", entry=name) from None


def rename_folds(
    changes: Sequence[Mapping[str, Sequence[str]]], names: Mapping[str, str]
) -> list[dict[str, list[str]]]:
    """Return changes as a fold's body holds them, with other names for the folds that they mention.

    names   what is now "" is nowhere any more, and a change of nothing else leaves with it
    """

    def rename(words: Sequence[str]) -> list[str]:
        parts = [word.rpartition("/") for word in words]
        return [names.get(name, name) + slash + place for name, slash, place in parts if names.get(name, "-")]

    renamed = [{side: rename(words) for side, words in change.items()} for change in changes]
    return [change for change in renamed if change["took"]]


def write_word(item: ViewItem) -> str:
    """Write one item as a fold's body holds it."""
    if isinstance(item, MessageRange):
        return f"{item.first}-{item.last}"
    return f"{item.fold}/{item.place}" if item.fold else f"+{item.place}"


def read_word(word: str, own: str | None = OWN) -> ViewItem:
    """Read one item; `own` is the fold whose messages `+0` means, None where there are none yet."""
    if word.startswith("+"):
        if own is None:
            raise ValueError(word)
        return Replacement(own, int(word[1:]))
    fold, slash, place = word.rpartition("/")
    if slash:
        return Replacement(fold, int(place))
    first, _, last = word.partition("-")
    item = MessageRange(int(first), int(last))
    if not 1 <= item.first <= item.last:
        raise ValueError(word)
    return item


# -- applying folds -----------------------------------------------------------------------------------------


def _undone(folds: Sequence[Folded]) -> dict[str, Folded]:
    return {fold.name: fold for fold in folds if not fold.standing}


def _apply_fold(
    items: Sequence[ViewItem], fold: Folded, undone: Mapping[str, Folded]
) -> tuple[ViewItem, ...]:
    """Return the items after one fold; one pass, whatever the number of its changes."""
    claims: list[tuple[int, int | None]] = []  # number of the change, and where it puts the part back
    ranges: list[tuple[int, int, int]] = []
    replacements: dict[Replacement, int] = {}
    for number, change in enumerate(fold.changes):
        for item, back in change.split():
            for part in expand_items([item], undone) if undone else (item,):
                if isinstance(part, MessageRange):
                    ranges.append((part.first, part.last, len(claims)))
                else:
                    replacements[part] = len(claims)
            claims.append((number, back))
    ranges.sort()
    parts = [
        (part, None if claim is None else claims[claim])
        for part, claim in _split_items(items, ranges, replacements)
    ]
    return _write_items(parts, fold, claims)


def _write_items(
    parts: Sequence[tuple[ViewItem, tuple[int, int | None] | None]],
    fold: Folded,
    claims: Iterable[tuple[int, int | None]],
) -> tuple[ViewItem, ...]:
    """Return the parts that stay, and the own messages of each change around the parts it puts back."""
    backs: list[set[int]] = [set() for _ in fold.changes]
    for number, back in claims:
        backs[number] |= set() if back is None else {back}
    own = [
        [(place, item) for place, item in enumerate(change.inserted) if place not in put_back][::-1]
        for change, put_back in zip(fold.changes, backs, strict=True)
    ]
    last = {claim[0]: index for index, (_, claim) in enumerate(parts) if claim is not None}
    done: list[ViewItem] = []

    def insert_own(number: int, limit: int) -> None:
        while own[number] and own[number][-1][0] < limit:
            append_item(done, own[number].pop()[1])

    for index, (part, claim) in enumerate(parts):
        if claim is None:
            append_item(done, part)
            continue
        number, back = claim
        end = len(fold.changes[number].inserted)
        insert_own(number, min(backs[number], default=end) if back is None else back)
        if back is not None:
            append_item(done, part)
        if last[number] == index:
            insert_own(number, end)
    return tuple(done)


def _split_items(
    items: Sequence[ViewItem], ranges: Sequence[tuple[int, int, int]], replacements: Mapping[Replacement, int]
) -> Iterator[tuple[ViewItem, int | None]]:
    """Yield the items, split where the sorted `ranges` begin and end, each with the number of its range."""
    for item in items:
        if isinstance(item, Replacement):
            yield item, replacements.get(item)
            continue
        at = item.first
        index = max(0, bisect_left(ranges, (at, 0, 0)) - 1)
        while index < len(ranges) and ranges[index][0] <= item.last:
            first, last, number = ranges[index]
            first, last = max(first, at), min(last, item.last)
            if first <= last:
                if at < first:
                    yield MessageRange(at, first - 1), None
                yield MessageRange(first, last), number
                at = last + 1
            index += 1
        if at <= item.last:
            yield MessageRange(at, item.last), None


def _has_message(items: Iterable[ViewItem], number: int) -> bool:
    return any(isinstance(item, MessageRange) and item.first <= number <= item.last for item in items)


def count_messages(items: Iterable[ViewItem]) -> int:
    """Return how many messages stand there."""
    return sum(item.last - item.first + 1 if isinstance(item, MessageRange) else 1 for item in items)


def append_item(items: list[ViewItem], item: ViewItem) -> None:
    """Append an item; ranges that meet become one."""
    last = items[-1] if items else None
    if isinstance(item, MessageRange) and isinstance(last, MessageRange) and last.last + 1 == item.first:
        items[-1] = MessageRange(last.first, item.last)
    else:
        items.append(item)


def expand_items(
    items: Iterable[ViewItem], folds: Mapping[str, Folded], *, elsewhere: bool = False
) -> Iterator[ViewItem]:
    """Yield the items, with the messages of these folds replaced by what they stand for.

    elsewhere   also what they stand for that was not in their place
    """
    waiting = list(items)[::-1]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Replacement) and item.fold in folds:
            # The first own message of a change stands for all that is gone, the others for nothing.
            waiting += reversed(folds[item.fold].heads.get(item.place, ()))
            if elsewhere and folds[item.fold].standing:
                waiting += folds[item.fold].untold.get(item.place, ())
        else:
            yield item
