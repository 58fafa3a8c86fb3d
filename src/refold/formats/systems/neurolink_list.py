"""A session as NeuroLink's tagged list: every message in it once, where tags say which are hidden.

In front stands one hidden item with what tags cannot say (`refold`); with it `from_tagged` gives back the
very same session. Where the tags were changed since, they hold; a list without that item is read by its tags
alone.
The functions over such lists are here under the document's names as well.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from refold.core.log.entries import to_text
from refold.core.log.view import Piece, Put, Run
from refold.errors import FormatError
from refold.formats.shared import exported as form
from refold.formats.shared.exported import Exported, ExportedFold
from refold.formats.systems.neurolink_reading import read
from refold.formats.systems.neurolink_tags import (
    CONDENSED,
    FIELDS,
    IS_SUMMARY,
    MARKER,
    TRUNCATED,
    WHOLE,
    Kind,
    get_effective_history,
    message_of,
    parent,
    remove_condensation_tags,
    remove_truncation_tags,
    stands_for,
    tag_for_condensation,
    tag_for_truncation,
)

_TRUNCATING: Final = frozenset({"slide", "truncate"})
"""A fold made by these alone is a truncation, every other one a condensation."""
_LEDGER: Final = "refold"
"""The parent that hides the item in front, and the key of what it holds."""


getEffectiveHistory = get_effective_history  # noqa: N816  # the document's name
tagForCondensation = tag_for_condensation  # noqa: N816  # the document's name
tagForTruncation = tag_for_truncation  # noqa: N816  # the document's name
removeCondensationTags = remove_condensation_tags  # noqa: N816  # the document's name
removeTruncationTags = remove_truncation_tags  # noqa: N816  # the document's name


def to_tagged(exported: Exported) -> list[dict[str, Any]]:
    """Give a session as one tagged list, every message in it once."""
    form.check(exported)
    nodes = _Nodes(exported)
    for fold in exported.folds:
        if fold.standing:
            nodes.fold(fold)
    front = {"role": "system", "content": "", CONDENSED.parent: _LEDGER, _LEDGER: form.to_json(exported)}
    return [front, *nodes.items()]


class _Nodes:
    """The messages of a session in the order of the list, as a chain, and what hides each."""

    def __init__(self, exported: Exported) -> None:
        self.exported = exported
        self.folds = {fold.name: fold for fold in exported.folds}
        self.parents: dict[Piece, str] = {}
        self.ranks: dict[Put, tuple[int, int]] = {}
        order: list[Piece | None] = [None, *(Run(n, n) for n in range(1, len(exported.said) + 1)), None]
        self.behind: dict[Piece | None, Piece | None] = dict(pairwise(order))
        self.before: dict[Piece | None, Piece | None] = {two: one for one, two in pairwise(order)}

    def fold(self, fold: ExportedFold) -> None:
        """Hide what a fold took and place what it put."""
        for change in fold.changes:
            taken = [single for piece in change.took for single in self._singles(piece)]
            seen = [single for single in taken if single in self.behind and single not in self.parents]
            if seen:
                self._place(change.put, min(seen, key=self._rank))
                kept = {single for run in change.kept for single in self._singles(run)}
                self.parents.update(dict.fromkeys((s for s in seen if s not in kept), fold.name))

    def items(self) -> list[dict[str, Any]]:
        """The items of the list."""
        done = []
        node = self.behind[None]
        while node is not None:
            done.append(self._item(node))
            node = self.behind[node]
        return done

    def _place(self, put: Sequence[Piece], first: Piece) -> None:
        """Link the fold's own messages before the first it took, or behind what it put back before them."""
        at = self.before[first]
        number, level = self._rank(first)
        rank = (number, level - 1)
        for piece in put:
            if isinstance(piece, Run):
                at, rank = Run(piece.last, piece.last), (piece.last, 1)
            else:
                self.ranks[piece] = rank
                following = self.behind[at]
                self.behind[at], self.behind[piece] = piece, following
                self.before[following], self.before[piece] = piece, at
                at = piece

    def _rank(self, piece: Piece) -> tuple[int, int]:
        """Where a message stands in the list, as against others that one change takes."""
        return (piece.first, 0) if isinstance(piece, Run) else self.ranks[piece]

    def _singles(self, piece: Piece) -> list[Piece]:
        """The messages of a piece, one by one; what an unfolded fold put stands for what it took."""
        done: list[Piece] = []
        waiting = [piece]
        while waiting:
            found = waiting.pop()
            if isinstance(found, Run):
                done += [Run(number, number) for number in range(found.first, found.last + 1)]
            elif self.folds[found.fold].standing:
                done.append(found)
            else:
                waiting += reversed(self._taken_for(found))
        return done

    def _taken_for(self, put: Put) -> list[Piece]:
        """What one message of a fold stands for: a change's first for all it took, others for nothing."""
        for change in self.folds[put.fold].changes:
            own = [piece for piece in change.put if isinstance(piece, Put)]
            if own[:1] == [put]:
                kept = sorted(change.kept, key=lambda run: run.first)
                split = (form.without(p, kept) if isinstance(p, Run) else [p] for p in change.took)
                return [piece for found in split for piece in found]
        return []

    def _item(self, node: Piece) -> dict[str, Any]:
        tags: dict[str, Any] = {}
        if isinstance(node, Put):
            kind = _kind(self.folds[node.fold])
            tags[kind.id] = node.fold
            tags |= {"metadata": {IS_SUMMARY: True}} if kind is CONDENSED else {MARKER: True}
        if (above := self.parents.get(node)) is not None:
            tags[_kind(self.folds[above]).parent] = above
        return _with_tags(self.exported.messages(node)[0], tags)


def _kind(fold: ExportedFold) -> Kind:
    return TRUNCATED if fold.stages and _TRUNCATING.issuperset(fold.stages) else CONDENSED


def _with_tags(message: Any, tags: dict[str, Any]) -> dict[str, Any]:
    """A message with tags; one that has such fields of its own is carried whole beside them."""
    own = message if isinstance(message, dict) else {}
    mine = FIELDS | {WHOLE} | tags.keys()
    if own is message and not mine & own.keys():
        return {**own, **tags}
    return {**{key: value for key, value in own.items() if key not in mine}, **tags, WHOLE: {"item": message}}


def from_tagged(items: Sequence[Any]) -> Exported:
    """Read a tagged list, ours or NeuroLink's own."""
    ledger, found = _ledger(items)
    if ledger is None:
        return read(found)
    if isinstance(version := ledger.get("refold"), int) and version > form.VERSION:
        raise FormatError(f"was written by a newer version (form {version}): upgrade refold", path="[0]")
    said = [message_of(item) for item in found if stands_for(item) is None]
    for heeding in (False, True):
        try:
            value = _as_tags_say(ledger, found) if heeding else ledger
            exported = form.from_json(value, said, where="[0]")
        except FormatError:
            break
        if to_text(to_tagged(exported)[1:]) == to_text(found):
            return exported
    plain = read(found)
    return replace(plain, session=str(ledger.get("session", "")), format=str(ledger.get("format", "")))


def _ledger(items: Sequence[Any]) -> tuple[dict[str, Any] | None, list[Any]]:
    front = items[0] if items and isinstance(items[0], dict) else {}
    ledger = front.get(_LEDGER)
    if front.get(CONDENSED.parent) == _LEDGER and isinstance(ledger, dict):
        return ledger, list(items[1:])
    return None, list(items)


def _as_tags_say(ledger: dict[str, Any], found: Sequence[Any]) -> dict[str, Any]:
    """The ledger, where only those folds stand that tags still speak of."""
    names = {tag[1] for item in found for tag in (parent(item), stands_for(item)) if tag}
    return {**ledger, "folds": [{**fold, "standing": fold["name"] in names} for fold in ledger["folds"]]}
