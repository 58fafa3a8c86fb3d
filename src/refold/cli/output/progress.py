"""One line on standard error that shows how far long work is; only on a terminal, and removed afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from refold.cli.output.activity import CLEAR_LINE
from refold.cli.output.meter import strip
from refold.cli.output.screen import Screen
from refold.cli.output.text import clean, shorten

LONG_BYTES: Final = 20_000_000
"""Files above this size take a noticeable part of a second to read; below it a bar would only flicker."""
_BESIDE: Final = 17
"""Columns beside words and bar: the share, and the seconds that are written behind them up to 9,999."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The line of progress, or nothing at all."""

    screen: Screen
    shown: bool

    def show(self, doing: str, done: int = 0, total: int = 0) -> None:
        """Draw the line again; without `total` it has no bar, because the end is unknown."""
        text = clean(doing)
        if not self.screen.activity.redraws:
            text += f" {done / total:.0%}" if total else ""
        else:
            size = min(30, self.screen.width * 3 // 8)
            text = shorten(text, self.screen.width - size - _BESIDE)
            if total:
                text = f"{text}  {strip(done, total, size, self.screen):<{size}} {done / total:4.0%}"
        self.screen.activity.doing = text
        self._draw(text)

    def clear(self) -> None:
        """Erase the line."""
        self.screen.activity.doing = ""
        self._draw("")

    def _draw(self, text: str) -> None:
        if self.shown:
            self.screen.prompt(CLEAR_LINE + text)


@contextmanager
def progress(screen: Screen, *, long: bool = True) -> Iterator[Progress]:
    """Show progress while work runs: at once if it is long, and from a second on in any case."""
    shown = Progress(screen, long and screen.err_live)
    try:
        yield shown
    finally:
        shown.clear()
