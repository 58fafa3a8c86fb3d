"""Paths through the branches of a session, as pure functions: no file, no database.

A line is a row of entries without a branch in between. The path to a place consists of stretches: a part of
line 0, then a part of a line that begins there, and so on.
"""

from collections.abc import Mapping
from typing import TypeAlias

from refold.core.log.entries import ROOT, Entry
from refold.errors import Conflict
from refold.stores import START, Head, Place

Stretch: TypeAlias = tuple[int, int, int]
"""A line and a range of its entries: those with `after < seq <= through`."""


def split_path(place: Place, parents: Mapping[int, Place]) -> list[Stretch]:
    """Split the path to a place into stretches, oldest first; [] for the start.

    parents   for each line the place that it begins behind; the start for line 0

    Raises `KeyError` for an unknown line and `ValueError` for a line that does not begin before the place.
    """
    path: list[Stretch] = []
    while place != START:
        begins = parents[place.line]
        # A damaged store may hold lines that begin behind each other; without this check the loop never ends.
        if begins.seq >= place.seq or (begins.line >= place.line and begins != START):
            raise ValueError(f"line {place.line} begins at {tuple(begins)}, not before {tuple(place)}")
        path.append((place.line, begins.seq, place.seq))
        place = begins
    return path[::-1]


def require_head(expect: Head | None, current: Head | None) -> None:
    """Raise `Conflict` if the head is not where the caller saw it, or of a later session so named."""
    if expect != current:
        raise Conflict(expect.name if expect else None, current.name if current else None)


class ParentCheck:
    """Check that each entry stands behind its parent, fed with the entries in the order they were stored."""

    def __init__(self) -> None:
        self._seen: dict[Place, tuple[str, str | None]] = {START: (ROOT, ROOT)}
        """For each place the name of its entry and of the last message; None for an unknown message."""

    def __contains__(self, place: Place) -> bool:
        return place in self._seen

    def add(self, entry: Entry, place: Place, behind: Place) -> str:
        """Take in the next entry and describe what is wrong with its parent; "" if nothing is known."""
        name, message = self._seen.get(behind, (None, None))
        self._seen[place] = (entry.name, entry.name if entry.kind == "said" else message)
        # A message is chained to the message before it, whatever was folded in between.
        expected = message if entry.kind == "said" else name
        if expected is None or expected == entry.parent:
            return ""
        return f"entry {entry.name} follows {expected or 'the start'} and not its parent"
