"""An answer as Markdown while it comes: whole blocks are printed once, the last one is drawn in place."""

import os
import re
import threading
import time
from typing import ClassVar, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.segment import Segment, Segments
from rich.text import Text

from refold.cli.output.screen import WIDEST

SECONDS: Final = 0.08
"""Between two drawings: as smooth as an eye wants, and no work for more."""
_FENCE: Final = re.compile(r" {0,3}(```+|~~~+)(.*)")


class Blocks:
    r"""A text that is still coming, in whole blocks and a rest; each line is looked at once.

    A block ends at an empty line behind which something stands at the margin; not inside a fence.

    >>> text = Blocks()
    >>> text.add("One.\n\nTwo.\n\n```\na\n\nb"), text.rest
    ('One.\n\nTwo.\n\n', '```\na\n\nb')
    """

    def __init__(self) -> None:
        self.rest = ""
        self.fence = ""
        """How the fence begins inside of which the rest ends."""
        self._at = 0
        self._blank = False

    def add(self, text: str) -> str:
        """Take some more; gives what is whole now."""
        self.rest += text
        cut = 0
        while (end := self.rest.find("\n", self._at)) >= 0:
            cut = self._at if self._begins() else cut
            line = self.rest[self._at : end]
            self._look(line)
            self._blank = not line.strip()
            self._at = end + 1
        if self._begins():
            cut, self._blank = self._at, False
        whole, self.rest = self.rest[:cut], self.rest[cut:]
        self._at -= cut
        return whole

    def _begins(self) -> bool:
        """Whether a block begins with this line."""
        return self._blank and not self.fence and bool(self.rest[self._at : self._at + 1].strip())

    def _look(self, line: str) -> None:
        found = _FENCE.fullmatch(line)
        if found and not self.fence:
            self.fence = found[1]
        elif found and found[1].startswith(self.fence) and not found[2].strip():
            self.fence = ""

    def end(self, lines: int) -> str:
        """The last lines of the rest, as Markdown of their own."""
        parts = self.rest.rsplit("\n", lines)
        if len(parts) <= lines:
            return self.rest
        opening = parts[0].lstrip().partition("\n")[0]
        return "\n".join([opening, *parts[1:]] if self.fence and _FENCE.fullmatch(opening) else parts[1:])


class _Heading(Heading):
    """A heading at the margin, as all text of an answer."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("bold")
        yield self.text


class _Markdown(Markdown):
    """Markdown for an answer among others."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
    }


class Region:
    """The last lines of a terminal, which are drawn again in place; each drawing is one write."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._widths: list[int] = []
        """Columns of the lines that stand there."""
        self._columns = 0

    @property
    def height(self) -> int:
        """How many lines it may have: what scrolls away cannot be drawn again."""
        return max(3, self._console.height - 4)

    def draw(self, inner: Markdown | Text) -> None:
        """Show this in place of what stands there; only its end where it is too high."""
        lines = self._lines(inner)[-self.height :]
        self._write(lines, hide=True)
        self._widths = [Segment.get_line_length(line) for line in lines]

    def print(self, inner: Markdown | Text, *, apart: bool) -> None:
        """Leave this in place of what stands there; `apart`: under an empty line."""
        self._write([[], *self._lines(inner)] if apart else self._lines(inner))
        self._widths = []

    def clear(self) -> None:
        """Leave nothing."""
        if self._widths:
            self._write([])
        self._widths = []

    def _lines(self, inner: Markdown | Text) -> list[list[Segment]]:
        options = self._console.options.update_width(min(self._console.width, WIDEST))
        lines = [_unpadded(line) for line in self._console.render_lines(inner, options, pad=False)]
        while lines and _empty(lines[0]):
            del lines[0]
        while lines and _empty(lines[-1]):
            del lines[-1]
        return lines

    def _write(self, lines: list[list[Segment]], *, hide: bool = False) -> None:
        """Go back over what stands there and write over it, so that nothing is empty in between."""
        with self._console.capture() as captured:
            for line in lines:
                self._console.print(
                    Segments([*line, Segment("\x1b[K"), Segment.line()]), end="", soft_wrap=True
                )
        up = f"\x1b[{rows}A" if (rows := self._rows()) else ""
        cursor = "\x1b[?25l" if hide else "\x1b[?25h"
        columns, self._columns = self._columns, self._console.width
        wiped = (
            "\x1b[J" if columns != self._columns else ""
        )  # a terminal remembers which lines it had wrapped
        self._console.file.write(f"{cursor}\r{up}{wiped}{captured.get()}\x1b[J")
        self._console.file.flush()

    def _rows(self) -> int:
        """Rows that the lines take now: a terminal that became narrower has wrapped them, but for xterm."""
        columns = max(1, self._console.width)
        if "XTERM_VERSION" in os.environ:
            return len(self._widths)
        return sum(max(1, -(-width // columns)) for width in self._widths)


def _unpadded(line: list[Segment]) -> list[Segment]:
    """A line without the blanks at its end: they would wrap where the terminal becomes narrower."""
    kept = list(line)
    while kept and (kept[-1].style is None or kept[-1].style.bgcolor is None):
        last = kept.pop()
        if text := last.text.rstrip():
            return [*kept, Segment(text, last.style, last.control)]
    return kept


def _empty(line: list[Segment]) -> bool:
    return not any(segment.text.strip() for segment in line)


class Answer:
    """One answer on the screen; drawn by whoever brings words, or a little later."""

    def __init__(self, console: Console) -> None:
        self._region = Region(console)
        self._text = Blocks()
        self._thought = ""
        self._printed = False
        self._next = 0.0
        """When it may be drawn again: soon, but not so often that drawing takes most of the time."""
        self._later: threading.Timer | None = None
        self._lock = threading.RLock()

    def wait(self) -> None:
        """See that something is awaited."""
        with self._lock:
            self._draw()

    def think(self, text: str) -> None:
        """See some of what the model thinks; it is gone when it answers."""
        with self._lock:
            self._thought = (self._thought + text)[-2_000:]
            self._soon()

    def add(self, text: str) -> None:
        """See some words."""
        with self._lock:
            if whole := self._text.add(text):
                self._print(whole)
            self._soon()

    def end(self) -> None:
        """Print what is left."""
        with self._lock:
            if self._later is not None:
                self._later.cancel()
                self._later = None
            if self._text.rest.strip():
                self._print(self._text.rest)
            self._region.clear()
            self._text, self._thought = Blocks(), ""

    def _print(self, text: str) -> None:
        self._region.print(_Markdown(text), apart=self._printed)
        self._printed = True

    def _soon(self) -> None:
        """Draw now, or when it is time to."""
        left = self._next - time.monotonic()
        if left <= 0:
            self._draw()
        elif self._later is None:
            self._later = threading.Timer(left, self._late)
            self._later.daemon = True
            self._later.start()

    def _late(self) -> None:
        with self._lock:
            if self._later is threading.current_thread():
                self._later = None
                self._draw()

    def _draw(self) -> None:
        begun = time.monotonic()
        if self._text.rest.strip():
            self._region.draw(_Markdown(self._text.end(self._region.height)))
        else:
            thought = " ".join(self._thought.split())[-300:]
            self._region.draw(Text(f"… {thought}".rstrip(), style="dim"))
        ended = time.monotonic()
        self._next = ended + max(SECONDS, 2 * (ended - begun))
