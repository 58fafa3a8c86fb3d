"""An answer as Markdown while it comes: complete blocks are printed once, the last one is drawn in place."""

import os
import re
import threading
import time
from collections.abc import Callable
from typing import ClassVar, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.segment import Segment, Segments
from rich.text import Text

from refold.cli.output.screen import WIDEST

SECONDS: Final = 0.08
"""Between two drawings: an eye sees no steps at 12 a second, and drawing more often is work for nothing."""
_FENCE: Final = re.compile(r" {0,3}(```+|~~~+)(.*)")


class Blocks:
    r"""A text that is still coming, split into complete blocks and a rest; each line is looked at once.

    A block ends at an empty line that is followed by text at the margin, but not inside a fence.

    >>> text = Blocks()
    >>> text.add("One.\n\nTwo.\n\n```\na\n\nb"), text.rest
    ('One.\n\nTwo.\n\n', '```\na\n\nb')
    """

    def __init__(self) -> None:
        self.rest = ""
        self.fence = ""
        """The opening of the fence that is still open at the end of the rest."""
        self._at = 0
        self._after_blank = False

    def add(self, text: str) -> str:
        """Add text; returns the blocks that are complete now."""
        self.rest += text
        cut = 0
        while (end := self.rest.find("\n", self._at)) >= 0:
            cut = self._at if self._begins_block() else cut
            line = self.rest[self._at : end]
            fence = _FENCE.fullmatch(line)
            if fence and not self.fence:
                self.fence = fence[1]
            elif fence and fence[1].startswith(self.fence) and not fence[2].strip():
                self.fence = ""
            self._after_blank = not line.strip()
            self._at = end + 1
        if self._begins_block():
            cut, self._after_blank = self._at, False
        whole, self.rest = self.rest[:cut], self.rest[cut:]
        self._at -= cut
        return whole

    def _begins_block(self) -> bool:
        """True if a block begins with the line at the current place."""
        return self._after_blank and not self.fence and bool(self.rest[self._at : self._at + 1].strip())

    def last_lines(self, count: int) -> str:
        """Return the last lines of the rest, as Markdown of their own."""
        parts = self.rest.rsplit("\n", count)
        if len(parts) <= count:
            return self.rest
        opening = parts[0].lstrip().partition("\n")[0]
        return "\n".join([opening, *parts[1:]] if self.fence and _FENCE.fullmatch(opening) else parts[1:])


class _Heading(Heading):
    """A heading at the left margin, like all text of an answer."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("bold")
        yield self.text


class _Markdown(Markdown):
    """Markdown with our headings."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": _Heading}


class Region:
    """The last lines of a terminal, which are drawn again in place; each drawing is one write."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._widths: list[int] = []
        """Columns of the lines on the screen."""
        self._columns = 0

    @property
    def height(self) -> int:
        """Lines that it may have: a line that scrolled away cannot be drawn again."""
        return max(3, self._console.height - 5)

    def draw(self, inner: Markdown | Text, below: str = "") -> None:
        """Draw this in place of the old lines, if it is too high only its end, and one line below it."""
        lines = self._render(inner)[-self.height :]
        lines += self._render(Text.from_ansi(below, no_wrap=True, overflow="crop")) if below else []
        self._write(lines, hide_cursor=True)
        self._widths = [Segment.get_line_length(line) for line in lines]

    def print(self, inner: Markdown | Text, *, apart: bool) -> None:
        """Print this in place of the old lines, to stay; with `apart` below an empty line."""
        self._write([[], *self._render(inner)] if apart else self._render(inner))
        self._widths = []

    def clear(self) -> None:
        """Erase the lines."""
        if self._widths:
            self._write([])
        self._widths = []

    def _render(self, inner: Markdown | Text) -> list[list[Segment]]:
        """Return the lines of the text, without blank lines around it and blanks behind each line."""
        options = self._console.options.update_width(min(self._console.width, WIDEST))
        lines = [_strip_blanks(line) for line in self._console.render_lines(inner, options, pad=False)]
        texts = [at for at, line in enumerate(lines) if any(segment.text.strip() for segment in line)]
        return lines[texts[0] : texts[-1] + 1] if texts else []

    def _write(self, lines: list[list[Segment]], *, hide_cursor: bool = False) -> None:
        """Move up over the old lines and overwrite them, so that nothing flickers."""
        with self._console.capture() as captured:
            for line in lines:
                segments = Segments([*line, Segment("\x1b[K"), Segment.line()])
                self._console.print(segments, end="", soft_wrap=True)
        width = max(1, self._console.width)
        rows = sum(max(1, -(-columns // width)) for columns in self._widths)
        if "XTERM_VERSION" in os.environ:  # a narrower terminal wraps the old lines, but xterm does not
            rows = len(self._widths)
        up = f"\x1b[{rows}A" if rows else ""
        cursor = "\x1b[?25l" if hide_cursor else "\x1b[?25h"
        # A terminal remembers which lines it wrapped: after a resize they are erased first.
        erase = "\x1b[J" if self._columns != self._console.width else ""
        self._columns = self._console.width
        self._console.file.write(f"{cursor}\r{up}{erase}{captured.get()}\x1b[J")
        self._console.file.flush()


def _strip_blanks(line: list[Segment]) -> list[Segment]:
    """Return a line without the blanks at its end, which would wrap if the terminal became narrower."""
    stripped = list(line)
    while stripped and (stripped[-1].style is None or stripped[-1].style.bgcolor is None):
        last = stripped.pop()
        if text := last.text.rstrip():
            return [*stripped, Segment(text, last.style, last.control)]
    return stripped


class Answer:
    """One answer on the screen, drawn when text arrives or a little later.

    meter   makes the line below it while it comes, from the text that came since the last drawing
    """

    def __init__(self, console: Console, meter: Callable[[str], str] | None = None) -> None:
        self._region = Region(console)
        self._meter = meter
        self._fresh = ""
        """The text that the meter has not counted yet."""
        self._text = Blocks()
        self._reasoning = ""
        self._printed = False
        self._next = 0.0
        """The earliest time of the next drawing, so that drawing never takes most of the time."""
        self._timer: threading.Timer | None = None
        self._lock = threading.RLock()

    def wait(self) -> None:
        """Show that an answer is awaited."""
        with self._lock:
            self._draw()

    def think(self, text: str) -> None:
        """Show the end of the reasoning; it disappears when the answer comes."""
        with self._lock:
            self._reasoning = (self._reasoning + text)[-2_000:]
            self._fresh += text
            self._draw_soon()

    def add(self, text: str) -> None:
        """Show more of the answer."""
        with self._lock:
            self._fresh += text
            if complete := self._text.add(text):
                self._print(complete)
            self._draw_soon()

    def end(self) -> None:
        """Print the rest of the answer."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._text.rest.strip():
                self._print(self._text.rest)
            self._region.clear()
            self._text, self._reasoning = Blocks(), ""

    def _print(self, text: str) -> None:
        self._region.print(_Markdown(text), apart=self._printed)
        self._printed = True

    def _draw_soon(self) -> None:
        """Draw now if enough time has passed, else by a timer."""
        left = self._next - time.monotonic()
        if left <= 0:
            self._draw()
        elif self._timer is None:
            self._timer = threading.Timer(left, self._draw_late)
            self._timer.daemon = True
            self._timer.start()

    def _draw_late(self) -> None:
        with self._lock:
            if self._timer is threading.current_thread():
                self._timer = None
                self._draw()

    def _draw(self) -> None:
        begun = time.monotonic()
        fresh, self._fresh = self._fresh, ""
        meter = self._meter(fresh) if self._meter is not None else ""
        if self._text.rest.strip():
            self._region.draw(_Markdown(self._text.last_lines(self._region.height)), meter)
        else:
            reasoning = " ".join(self._reasoning.split())[-300:]
            self._region.draw(Text(f"… {reasoning}".rstrip(), style="dim"), meter)
        ended = time.monotonic()
        self._next = ended + max(SECONDS, 2 * (ended - begun))
