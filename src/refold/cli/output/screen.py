"""The screen: what the two outputs of this process can show, and every way the program prints on them."""

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Final, Literal, TextIO, TypeAlias

from refold.cli.exit_status import Refused
from refold.cli.output.activity import Activity
from refold.cli.output.encoding import dumps
from refold.cli.output.text import (
    ESCAPES,
    align_columns,
    clean,
    printable_lines,
    shorten,
    split_columns,
    width_of,
    wrap_words,
)

Style: TypeAlias = Literal["bold", "dim", "red", "green", "yellow", "cyan", "plain"]
_CODES: Final[Mapping[Style, str]] = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "plain": "",
}
_OWN_CODES: Final = re.compile(r"(\x1b\[(?:[012]|3[1236])m)")
_SPELLING: Final = str.maketrans({"…": "...", "→": "->", "←": "<-", "−": "-", "·": "|", "▲": "^"})
"""The signs of our own output, for terminals that show ASCII only."""
NARROWEST: Final = 40
"""Columns. On a narrower terminal lines wrap, because nothing useful fits."""
USUAL: Final = 80
"""Columns, also of a pipe for which nobody says another number: what another program reads is not folded."""
WIDEST: Final = 110
"""Columns. In a longer line the eye loses its place."""
LAST_WIDTH: Final = 20
"""Columns that the last column of a table keeps, however narrow the screen is."""
SET_IN: Final = 2
"""Columns by which the further lines of a row or a long line stand to the right."""
UNCUT: Final = 10_000
"""Columns for text that another program reads: a long cell is not cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """The two outputs of the program."""

    out: TextIO | None
    err: TextIO | None
    live: bool = False
    """True if standard output is a terminal."""
    colour: bool = False
    """True if standard output shows colours."""
    moves: bool = False
    """True if standard output is a terminal where a line can be drawn again."""
    err_live: bool = False
    """True if standard error is a terminal, where a line can be drawn again."""
    err_colour: bool = False
    """True if standard error shows colours."""
    fancy: bool = False
    """True if bars, arrows and dots beyond ASCII can be shown."""
    letters: bool = False
    """True if letters of other languages can be shown, even where `fancy` is false."""
    width: int = 80
    activity: Activity = field(default_factory=Activity, compare=False, repr=False)
    """The line about work that takes long; it makes way for everything else."""

    def line(self, text: str = "") -> None:
        """Print one line of the result; on a narrow screen a long one goes on below, set in."""
        text = fold_line(self.readable(_make_safe(text)), self.width)
        with self.activity.make_way(for_good=self.live):
            _write(self.out, f"{text}\n")

    def note(self, text: str) -> None:
        """Print one line on standard error; where that cannot be written, the work goes on without it."""
        text = self.readable(_make_safe(text))
        self.prompt(f"{fold_line(text, self.width) if self.err_live else text}\n")

    def prompt(self, text: str) -> None:
        """Print text on standard error, without an end of the line; the same if it cannot be written."""
        if self.err is None:
            return
        try:
            with self.activity.make_way():
                _write(self.err, text)
                self.err.flush()
        except OSError:
            discard(self.err)

    def error(self, text: str) -> None:
        """Print an error as one line; where that cannot be written, the status alone tells it."""
        self.note(_paint(f"refold: {clean(text)}", "red", shown=self.err_colour))

    def data(self, text: str) -> None:
        """Print text for another program, always as UTF-8."""
        if self.out is None:
            raise Refused("standard output is closed: name a file with -o, or leave it open")
        self.activity.erase(for_good=self.live)
        self.out.flush()
        raw = getattr(self.out, "buffer", None)
        if raw is None:
            self.out.write(text)
        else:
            raw.write(text.encode("utf-8"))

    def json(self, value: Any) -> None:
        """Print one JSON value for another program."""
        self.data(dumps(value) + "\n")

    def table(
        self, rows: Sequence[Sequence[str]], align: str, *, indent: str = "", head: bool = True
    ) -> None:
        """Print rows in columns, the first one as a bold head; see `layout`."""
        for number, lines in enumerate(self.layout(rows, align, margin=len(indent))):
            for text in lines:
                self.line(indent + (self.paint(text, "bold") if head and number == 0 else text))

    def layout(self, rows: Sequence[Sequence[str]], align: str, *, margin: int = 0) -> list[list[str]]:
        """Return the lines of each row: several, set in, on a terminal too narrow for all columns.

        A last column of words goes on below itself; a capital L in `align` cuts it to what is left.
        """
        room = self.width - margin if self.live else UNCUT
        laid: list[list[str]] = [[] for _ in rows]
        for start, end in split_columns(rows, room, LAST_WIDTH):
            letters, set_in = align[start:end], " " * SET_IN if start else ""
            is_last = end == len(align) and letters[-1] != "r"
            cells = [row[start : end - is_last] for row in rows]
            fronts = align_columns(cells, letters[: end - start - is_last], padded=is_last)
            fronts = [f"{set_in}{line}{'  ' if is_last and line else ''}" for line in fronts]
            left = max(LAST_WIDTH, room - width_of(fronts[0]))
            for lines, front, row in zip(laid, fronts, rows, strict=True):
                words = row[-1] if is_last else ""
                first, *more = [self.short(words, left)] if letters[-1] == "L" else wrap_words(words, left)
                lines.append(f"{front}{first}".rstrip())
                lines += [" " * width_of(front) + piece for piece in more]
        return [[line for line in lines if line] for lines in laid]

    def headline(self, name: str, facts: Sequence[str]) -> None:
        """Print a name and facts about it, in one line if they fit; a long path is the name of its file."""
        about = " · ".join(facts)
        is_narrow = self.width < min(20, width_of(PurePath(name).name)) + 2 + len(about)
        room = self.width if is_narrow else self.width - len(about) - 2
        name = PurePath(name).name if len(name) > room else name
        title = self.paint(self.short(name, room), "bold")
        for line in [title, *self.wrap(about)] if is_narrow else [f"{title}  {about}"]:
            self.line(line)

    def wrap(self, text: str, margin: int = 0) -> list[str]:
        """Return a text in lines that fit beside a margin of so many columns."""
        return wrap_words(text, max(LAST_WIDTH, self.width - margin))

    def paint(self, text: str, style: Style) -> str:
        """Colour a text for standard output if it shows colours."""
        return _paint(text, style, shown=self.colour)

    def tint(self, text: str, style: Style) -> str:
        """Colour a text for standard error if it shows colours."""
        return _paint(text, style, shown=self.err_colour)

    def short(self, text: str, width: int) -> str:
        """Any text as one safe line of at most `width` columns."""
        return shorten(self.readable(clean(text)), width, "…" if self.fancy else "...")

    def readable(self, text: str) -> str:
        """Return the text in characters that this screen shows."""
        if self.fancy or text.isascii():
            return text
        text = text.translate(_SPELLING)
        return text if self.letters else text.encode("ascii", "backslashreplace").decode("ascii")

    def flush(self) -> None:
        """Write out what both streams still hold."""
        for stream in (self.out, self.err):
            if stream is not None:
                stream.flush()


def find_screen(*, colour: bool = True, variables: Mapping[str, str] | None = None) -> Screen:
    """Return the screen of this process; `colour=False` forbids colours."""
    env = os.environ if variables is None else variables
    dumb = env.get("TERM", "") == "dumb"
    painted = colour and not dumb and not env.get("NO_COLOR", "")
    out_live, err_live = _is_terminal(sys.stdout), _is_terminal(sys.stderr)
    encoding = getattr(sys.stdout or sys.stderr, "encoding", None) or ""
    # Python sets LC_CTYPE=C.UTF-8 for itself where the locale is C, so that value says nothing of the person.
    ctype = env.get("LC_CTYPE")
    locale = env.get("LC_ALL") or (ctype if ctype != "C.UTF-8" else None) or env.get("LANG") or "UTF-8"
    return Screen(
        out=sys.stdout,
        err=sys.stderr,
        live=out_live,
        moves=out_live and not dumb,
        colour=painted and out_live,
        err_live=err_live and not dumb,
        err_colour=painted and err_live,
        fancy=not dumb and encoding.lower().startswith("utf") and locale not in {"C", "POSIX"},
        letters=encoding.lower().startswith("utf"),
        width=terminal_width(),
        activity=Activity(sys.stderr, redraws=err_live and not dumb),
    )


def fold_line(text: str, width: int) -> str:
    """Return a line in several, set in, if it is longer than a narrow screen."""
    plain = ESCAPES.sub("", text)
    if width >= USUAL or width_of(plain) <= width or "\n" in text:
        return text
    set_in = " " * (len(plain) - len(plain.lstrip()) + SET_IN)
    return "\n".join(wrap_words(text, width, set_in))


def terminal_width() -> int:
    """Columns of the terminal now, within the limits of what is readable."""
    return max(NARROWEST, min(WIDEST, shutil.get_terminal_size((80, 24)).columns))


def discard(stream: TextIO | None) -> None:
    """Send the rest of an output nowhere, so that the interpreter's own last flush does not complain."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # type: ignore[union-attr]


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # the stream is closed already
        return False


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:
        raise Refused("standard output is closed: leave it open, or write to a file")
    try:
        stream.write(text)
    except UnicodeEncodeError:  # half a character from a conversation, or a terminal with an old encoding
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _make_safe(line: str) -> str:
    """Return a line in which nothing but our own colours moves the terminal, whatever names stand in it."""
    if line.isprintable():
        return line
    pieces = enumerate(_OWN_CODES.split(line))
    return "".join(piece if at % 2 else "".join(printable_lines(piece)) for at, piece in pieces)


def _paint(text: str, style: Style, *, shown: bool) -> str:
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if shown and text and _CODES[style] else text
