"""Reads a list by NeuroLink's tags alone: which messages were said, which folds hid them; loses no item.

The view of what is read is the effective history of the list, whatever the tags say. A summary or marker that
stands apart from everything it hides, hides nothing, hides itself, or goes round in a circle with others is
read as a message that was said. Where an item has parents of both kinds the condensation counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import accumulate
from typing import Any

from refold.core.log.view import Change, Piece, Put, Run
from refold.formats.shared.exported import Exported, ExportedFold
from refold.formats.systems.neurolink_tags import Tag, message_of, parent, stands_for


def read(items: Sequence[Any]) -> Exported:
    """The session that the tags of a list tell."""
    return _Tagged(items).read()


class _Tagged:
    """A list as its tags describe it: the fold that put an item, and the fold that hides it."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items
        self.hidden = [parent(item) for item in items]
        self.put = [stands_for(item) for item in items]
        self.put = [None if put == hidden else put for put, hidden in zip(self.put, self.hidden, strict=True)]
        self.seen = [0, *accumulate(hidden is None for hidden in self.hidden)]
        """How many items before each place are not hidden."""
        self.places: dict[Tag, list[int]] = {}
        """Where the items of each fold are, those it put and those it hides."""
        for index, tags in enumerate(zip(self.hidden, self.put, strict=True)):
            for tag in tags:
                if tag is not None:
                    self.places.setdefault(tag, []).append(index)

    def read(self) -> Exported:
        """The session."""
        groups = {tag: self._groups(tag, places) for tag, places in self.places.items()}
        order = [tag for tag in self._order() if groups[tag]]
        names = dict(zip(order, _unique(tag[1] for tag in order), strict=True))
        pieces = self._pieces(names)
        folds: dict[str, ExportedFold] = {}
        for tag, name in names.items():
            changes = tuple(self._change(tag, group, pieces) for group in groups[tag])
            taken = [piece for change in changes for piece in change.took]
            folds[name] = ExportedFold(
                name=name,
                changes=changes,
                put=tuple(message_of(self.items[i]) for i in self.places[tag] if self.put[i] == tag),
                said=max(piece.last if isinstance(piece, Run) else folds[piece.fold].said for piece in taken),
                stages=tag[0].stages,
            )
        said = tuple(
            message_of(self.items[index], said=True) for index, put in enumerate(self.put) if put is None
        )
        return Exported(said=said, folds=tuple(folds.values()))

    def _groups(self, tag: Tag, places: Sequence[int]) -> list[list[int]]:
        """The items of a fold, parted where something between them is seen; without what is no fold's."""
        groups: list[list[int]] = []
        for index in places:
            if groups and self.seen[index] == self.seen[groups[-1][-1] + 1]:
                groups[-1].append(index)
            else:
                groups.append([index])
        for group in groups:
            if not any(self.hidden[index] == tag for index in group):
                for index in group:
                    self.put[index] = None
        return [group for group in groups if any(self.hidden[index] == tag for index in group)]

    def _order(self) -> list[Tag]:
        """The folds, each behind those whose messages it hides; circles are cut."""
        waits = dict.fromkeys(self.places, 0)
        above: dict[Tag, list[Tag]] = {tag: [] for tag in self.places}
        for put, hidden in zip(self.put, self.hidden, strict=True):
            if put is not None and hidden is not None:
                waits[hidden] += 1
                above[put].append(hidden)
        rank = {tag: rank for rank, tag in enumerate(self.places)}
        tags = list(self.places)
        ready = [rank[tag] for tag in tags if not waits[tag]]
        done: list[Tag] = []
        while ready:
            tag = tags[heappop(ready)]
            done.append(tag)
            for later in above[tag]:
                waits[later] -= 1
                if not waits[later]:
                    heappush(ready, rank[later])
        circling = set(tags) - set(done)
        self.put = [
            None if put in circling and hidden is not None else put
            for put, hidden in zip(self.put, self.hidden, strict=True)
        ]
        return done + [tag for tag in tags if tag in circling]

    def _pieces(self, names: Mapping[Tag, str]) -> list[Piece]:
        """Each item as the piece it is."""
        pieces: list[Piece] = []
        places = dict.fromkeys(names, 0)
        number = 0
        for put in self.put:
            if put is None:
                number += 1
                pieces.append(Run(number, number))
            else:
                pieces.append(Put(names[put], places[put]))
                places[put] += 1
        return pieces

    def _change(self, tag: Tag, group: Sequence[int], pieces: Sequence[Piece]) -> Change:
        took: list[Piece] = []
        for index in group:
            if self.hidden[index] == tag:
                piece = pieces[index]
                last = took[-1] if took else None
                if isinstance(piece, Run) and isinstance(last, Run) and last.last + 1 == piece.first:
                    took[-1] = Run(last.first, piece.last)
                else:
                    took.append(piece)
        return Change(tuple(took), tuple(pieces[index] for index in group if self.put[index] == tag))


def _unique(names: Iterable[str]) -> list[str]:
    """The names, with something behind those that stood before."""
    taken: dict[str, None] = {}
    for name in names:
        free = name
        while free in taken:
            free += "~"
        taken[free] = None
    return list(taken)
