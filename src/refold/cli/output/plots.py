"""Numbers as a small picture of columns: blocks on a terminal that shows them, ASCII elsewhere."""

from collections.abc import Sequence
from typing import Final

from refold.cli.output.screen import Screen

_FANCY: Final = " ▁▂▃▄▅▆▇█"
_ASCII: Final = " .:#"
"""From an empty cell to a full one."""


def columns_of(values: Sequence[float], width: int) -> list[float]:
    """As many values as there are columns; where there are more, each column shows the largest of its own.

    >>> columns_of([1, 5, 2, 3], 2)
    [5, 3]
    """
    count = len(values)
    if count <= width:
        return list(values)
    return [max(values[at * count // width : (at + 1) * count // width]) for at in range(width)]


def chart(values: Sequence[float], top: float, height: int, screen: Screen) -> list[str]:
    """Draw columns of a height in lines, the highest line first; what is there at all is seen."""
    ink = _FANCY if screen.fancy else _ASCII
    steps = len(ink) - 1
    levels = [0 if value <= 0 else max(1, round(value / top * height * steps)) for value in values]
    return [
        "".join(ink[min(steps, max(0, level - row * steps))] for level in levels).rstrip()
        for row in range(height - 1, -1, -1)
    ]


def marks(places: Sequence[int], count: int, width: int, screen: Screen) -> str:
    """A line with a mark under each place, of so many places in all."""
    drawn = [" "] * min(count, width)
    for place in places:
        drawn[place if count <= width else place * width // count] = "▴" if screen.fancy else "^"
    return "".join(drawn).rstrip()
