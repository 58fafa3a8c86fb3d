"""The way to a place: which stretch of which line lies on it."""

from collections.abc import Mapping
from typing import TypeAlias

from refold.stores import START, Place

Stretch: TypeAlias = tuple[int, int, int]
"""A line, and the entries of it that count: those with `after < seq <= through`."""


def stretches(place: Place, parents: Mapping[int, Place]) -> list[Stretch]:
    """The stretches that make the path to a place, oldest first; none for the start.

    parents   for each line the place of the entry that it begins behind; for line 0 that is the start

    `KeyError` where a line is not known, `ValueError` where a line does not begin before the place.
    """
    path: list[Stretch] = []
    while place != START:
        begins = parents[place.line]
        if begins.seq >= place.seq or (begins.line >= place.line and begins != START):
            raise ValueError(f"line {place.line} begins at {tuple(begins)}, not before {tuple(place)}")
        path.append((place.line, begins.seq, place.seq))
        place = begins
    return path[::-1]
