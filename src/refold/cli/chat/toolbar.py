"""The line below the prompt: how full the window is, with what, in which session and with whom."""

from collections.abc import Callable

from refold.chat import looking
from refold.chat.desk import Desk
from refold.chat.showing import rough
from refold.cli.output.meter import COLOURS, bar
from refold.cli.output.screen import Screen

WIDE = 90
"""Columns from which on the bar is drawn in full."""


def toolbar(desk: Desk, screen: Screen) -> Callable[[int], str]:
    """The line as it stands now, for any number of columns; drawn again while the person types or resizes."""
    budget = looking.measured(desk)
    state, parts = looking.state(desk), looking.parts(desk)
    share = f"{budget.ratio:.0%}"
    told = f" of {rough(budget.room)} · {parts} · {state}"

    def line(columns: int) -> str:
        size = 24 if columns >= WIDE else 10
        if columns < size + 12:
            return screen.paint(screen.short(share, columns), COLOURS[budget.level])
        rest = screen.short(told, columns - size - len(share) - 2)
        return f"{bar(budget, size, screen)} {screen.paint(share, COLOURS[budget.level])} {rest}"

    return line
