"""Text for a terminal: made safe, cut to a width, laid out in columns. Knows no screen and no colours."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import accumulate, pairwise
from textwrap import wrap
from typing import Final

ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, links, clipboard: all up to their end
    r"|\x1b[ -/]*[0-~]?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_SPACES: Final = re.compile(r"\s+")


def clean(text: str) -> str:
    r"""Any text as one printable line: no escape sequences, no control or direction characters.

    >>> clean("red \x1b[31malert\x1b[0m\nnext")
    'red alert next'
    """
    text = _SPACES.sub(" ", ESCAPES.sub("", text))
    return (text if text.isprintable() else "".join(filter(str.isprintable, text))).strip()


def printable_lines(text: str) -> list[str]:
    r"""Return the lines of any text, made printable, with their indentation.

    >>> printable_lines("if a:\n\tb \x1b[2Jc")
    ['if a:', '    b c']
    """
    lines = ESCAPES.sub("", text).expandtabs(4).splitlines()
    return [line if line.isprintable() else "".join(filter(str.isprintable, line)) for line in lines]


def width_of(text: str) -> int:
    """Columns that a clean text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def shorten(text: str, width: int, ellipsis: str = "…") -> str:
    """Return a clean text cut to `width` columns, with an ellipsis where it was cut.

    >>> shorten("a long story", 7)
    'a long…'
    """
    if width_of(text) <= width:
        return text
    left = max(0, width - len(ellipsis))
    if text.isascii():  # nearly all texts are, and a sum over every character is slow
        return text[:left].rstrip() + ellipsis
    fitting = sum(end <= left for end in accumulate(map(_columns_of, text)))
    return text[:fitting].rstrip() + ellipsis


def wrap_words(text: str, width: int, indent: str = "") -> list[str]:
    """Return a text in lines of at most `width` characters; a longer word, such as an address, stays whole.

    >>> wrap_words("open http://127.0.0.1/x", 12)
    ['open', 'http://127.0.0.1/x']
    """
    lines = wrap(text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
    return lines or [""]


def _columns_of(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def align_columns(rows: Sequence[Sequence[str]], align: str, *, padded: bool = False) -> list[str]:
    """Rows as lines with aligned columns; `align` has one letter per column: l or r.

    With `padded` all lines have the same width, so that the caller can add something behind them.

    >>> align_columns([["a", "10"], ["bcd", "9"]], "lr")
    ['a    10', 'bcd   9']
    """
    widths = [max(width_of(row[at]) for row in rows) for at in range(len(align))] if rows else []
    lines = []
    for row in rows:
        cells = []
        for text, width, side in zip(row, widths, align, strict=True):
            space = " " * (width - width_of(text))  # str.ljust counts characters, not columns
            cells.append(space + text if side == "r" else text + space)
        line = "  ".join(cells)
        lines.append(line if padded else line.rstrip())
    return lines


def split_columns(rows: Sequence[Sequence[str]], room: int, last_width: int) -> list[tuple[int, int]]:
    """Return the columns of each line of a row, as first and end: what does not fit goes on below.

    A column without a title stays beside the one before it; the last one needs at most `last_width`.

    >>> split_columns([["name", "size", "", "title"], ["a", "1,000", "->", "long words"]], 16, 5)
    [(0, 3), (3, 4)]
    """
    count = len(rows[0]) if rows else 0
    widths = [max(width_of(row[at]) for row in rows) for at in range(count)]
    widths[-1:] = [min(width, last_width) for width in widths[-1:]]
    titled = [at for at in range(count) if at == 0 or rows[0][at]]
    starts, used = [0], 0
    for at, end in pairwise([*titled, count]):
        needed = sum(widths[at:end]) + 2 * (end - at)
        if at and used + needed - 2 > room:
            starts.append(at)
            used = 2
        used += needed
    return list(pairwise([*starts, count])) if count else []


def drop_empty_columns(rows: Sequence[Sequence[str]], align: str) -> tuple[list[list[str]], str]:
    """Return the rows without columns that are empty or have a dash in every row under the title.

    >>> drop_empty_columns([["policy", "cost", "size"], ["a", "-", "10"]], "lrr")
    ([['policy', 'size'], ['a', '10']], 'lr')
    """
    filled = [at for at in range(len(align)) if any(row[at] not in ("", "-") for row in rows[1:])]
    return [[row[at] for at in filled] for row in rows], "".join(align[at] for at in filled)
