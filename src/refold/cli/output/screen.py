"""Where the program's words go: standard output and error, and what each of them can show."""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TextIO, TypeAlias

from refold.cli.exit_status import Refused
from refold.cli.output.plain import clean, shorten

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
_SPELT: Final = str.maketrans({"…": "...", "→": "->", "←": "<-", "−": "-", "·": "|", "▲": "^"})
"""Our own typography for terminals that know ASCII only."""
NARROWEST: Final = 50
"""Columns below which lines are left to wrap: nothing useful fits."""
WIDEST: Final = 110
"""Columns above which an eye loses the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """The two outputs of the program."""

    out: TextIO | None
    err: TextIO | None
    live: bool = False
    """Whether standard output is a terminal."""
    colour: bool = False
    """Whether it shows colours."""
    err_live: bool = False
    """Whether standard error is a terminal, on which a line may be drawn again."""
    err_colour: bool = False
    fancy: bool = False
    """Whether bars and our own typography beyond ASCII can be seen."""
    letters: bool = False
    """Whether what people wrote beyond ASCII can be, although our typography cannot."""
    width: int = 80

    def line(self, text: str = "") -> None:
        """Print one line for people."""
        _write(self.out, self.readable(text))

    def note(self, text: str) -> None:
        """Print one line beside the result."""
        if self.err is not None:
            _write(self.err, self.readable(text))

    def error(self, text: str) -> None:
        """Print what went wrong, in one line."""
        self.note(_painted(f"refold: {clean(text)}", "red", shown=self.err_colour))

    def data(self, text: str) -> None:
        """Print text that another program reads; it is UTF-8 wherever we are."""
        if self.out is None:
            raise Refused("standard output is closed: name a file with -o, or leave it open")
        self.out.flush()
        raw = getattr(self.out, "buffer", None)
        if raw is None:
            self.out.write(text)
        else:
            raw.write(text.encode("utf-8"))

    def paint(self, text: str, style: Style) -> str:
        """Colour a text for standard output, where colours are shown."""
        return _painted(text, style, shown=self.colour)

    def tint(self, text: str, style: Style) -> str:
        """Colour a text for standard error, where colours are shown."""
        return _painted(text, style, shown=self.err_colour)

    def short(self, text: str, width: int) -> str:
        """Make one safe line of any text, in at most so many columns."""
        return shorten(self.readable(clean(text)), width, "…" if self.fancy else "...")

    def readable(self, text: str) -> str:
        """The text as it can be seen here."""
        return text if self.fancy or text.isascii() else spelt(text, letters=self.letters)

    def flush(self) -> None:
        """Let everything out."""
        for stream in (self.out, self.err):
            if stream is not None:
                stream.flush()


def find(*, colour: bool = True, variables: Mapping[str, str] | None = None) -> Screen:
    """Look at the outputs of this process; `colour=False` forbids colours."""
    env = os.environ if variables is None else variables
    dumb = env.get("TERM", "") == "dumb"
    painted = colour and not dumb and not env.get("NO_COLOR", "")
    out_live, err_live = _live(sys.stdout), _live(sys.stderr)
    columns = shutil.get_terminal_size((80, 24)).columns
    shown = sys.stdout or sys.stderr
    return Screen(
        out=sys.stdout,
        err=sys.stderr,
        live=out_live,
        colour=painted and out_live,
        err_live=err_live and not dumb,
        err_colour=painted and err_live,
        fancy=not dumb and _is_utf(shown) and _takes_unicode(env),
        letters=_is_utf(shown),
        width=max(NARROWEST, min(WIDEST, columns)),
    )


def _live(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # a stream that is closed already
        return False


def _is_utf(stream: TextIO | None) -> bool:
    return (getattr(stream, "encoding", None) or "").lower().startswith("utf")


def _takes_unicode(env: Mapping[str, str]) -> bool:
    """Tell by the locale; Python itself writes UTF-8 even where that is C."""
    locale = env.get("LC_ALL") or _own(env.get("LC_CTYPE")) or env.get("LANG") or "UTF-8"
    return locale not in {"C", "POSIX"}


def _own(value: str | None) -> str | None:
    """What a person set; Python sets C.UTF-8 for itself where the locale is C."""
    return None if value == "C.UTF-8" else value


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:
        raise Refused("standard output is closed: leave it open, or write to a file")
    try:
        stream.write(f"{text}\n")
    except UnicodeEncodeError:  # half a character from a conversation, or a terminal of another time
        encoding = stream.encoding or "ascii"
        stream.write(f"{text}\n".encode(encoding, "backslashreplace").decode(encoding))


def _painted(text: str, style: Style, *, shown: bool) -> str:
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if shown and text and _CODES[style] else text


def spelt(text: str, *, letters: bool = False) -> str:
    """Text for a terminal that knows ASCII only; or, with `letters`, all that people write."""
    text = text.translate(_SPELT)
    return text if letters else text.encode("ascii", "backslashreplace").decode("ascii")
