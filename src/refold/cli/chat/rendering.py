"""What a chat shows, as lines of this screen; nothing in them moves the cursor."""

from collections.abc import Iterator
from textwrap import wrap

from refold.chat.showing import Gauge, Shown, Table
from refold.cli.output.meter import bar
from refold.cli.output.plain import clean, printable, width_of
from refold.cli.output.screen import Screen
from refold.cli.output.tables import columns

_LAST = 24
"""Columns that the last column of a table has at least, however narrow the screen is."""


def lines(shown: Shown, screen: Screen) -> Iterator[str]:
    """The lines of one thing."""
    if isinstance(shown, Gauge):
        told = f"{shown.budget.ratio:.0%} of the room"
        yield f"{bar(shown.budget, min(60, screen.width - len(told) - 2), screen)}  {told}"
    elif isinstance(shown, Table):
        yield from _table(shown, screen)
    else:
        for line in printable(shown.text) or [""]:
            for piece in _wrapped(line, screen):
                yield screen.paint(piece, shown.style)


def _wrapped(line: str, screen: Screen) -> list[str]:
    """A line as the lines it takes on a terminal, under its own margin."""
    if not screen.live or width_of(line) <= screen.width:
        return [line]
    margin = " " * (len(line) - len(line.lstrip()))
    return wrap(line, screen.width, subsequent_indent=margin, break_on_hyphens=False) or [""]


def _table(table: Table, screen: Screen) -> Iterator[str]:
    rows = [[clean(cell) for cell in row] for row in table.rows]
    front = [max(width_of(row[at]) for row in rows) + 2 for at in range(len(table.align) - 1)]
    room = max(_LAST, screen.width - sum(front)) if screen.live else 10_000
    laid = columns([[*row[:-1], screen.short(row[-1], room)] for row in rows], table.align)
    for number, line in enumerate(laid):
        yield screen.paint(line, "bold") if table.header and number == 0 else line


def safe(text: str) -> str:
    r"""Text of a model as it may be shown: line breaks stay, nothing else that moves the cursor.

    >>> safe("red \x1b[31malert\n\tnext")
    'red [31malert\n\tnext'
    """
    if text.isprintable():
        return text
    return "".join(char for char in text if char.isprintable() or char in "\n\t")
