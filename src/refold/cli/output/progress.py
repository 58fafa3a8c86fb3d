"""One line on standard error that tells how far long work is; on a terminal only, and gone afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from refold.cli.output.meter import strip
from refold.cli.output.plain import clean, shorten
from refold.cli.output.screen import Screen

LONG_BYTES: Final = 20_000_000
"""From this size on reading takes a noticeable part of a second; below it a bar would only flicker."""
_CLEAR: Final = "\r\x1b[2K"


@dataclass(frozen=True, slots=True)
class Progress:
    """Shows how far the work is, or does nothing at all."""

    screen: Screen
    shown: bool

    def show(self, doing: str, done: int = 0, whole: int = 0) -> None:
        """Draw the line anew; without `whole` nobody knows how much is left."""
        if not self.shown or self.screen.err is None:
            return
        text = shorten(clean(doing), self.screen.width - 42)
        if whole:
            text = f"{text}  {strip(done, whole, 30, self.screen):<30} {done / whole:4.0%}"
        self.screen.err.write(_CLEAR + text)
        self.screen.err.flush()

    def clear(self) -> None:
        """Leave no trace."""
        if self.shown and self.screen.err is not None:
            self.screen.err.write(_CLEAR)
            self.screen.err.flush()


@contextmanager
def progress(screen: Screen, *, long: bool) -> Iterator[Progress]:
    """Show progress while long work goes on."""
    shown = Progress(screen, long and screen.err_live)
    try:
        yield shown
    finally:
        shown.clear()
