"""Text that is safe and fits on a terminal: nothing in it moves the cursor, and its width is known."""

import re
import unicodedata
from itertools import accumulate
from typing import Final

_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # titles, links, clipboard: all up to their end
    r"|\x1b[ -/]*[0-~]?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_SPACES: Final = re.compile(r"\s+")


def clean(text: str) -> str:
    r"""Make one printable line of any text: no escape sequences, no control or direction characters.

    >>> clean("red \x1b[31malert\x1b[0m\nnext")
    'red alert next'
    """
    text = _SPACES.sub(" ", _ESCAPES.sub("", text))
    return (text if text.isprintable() else "".join(filter(str.isprintable, text))).strip()


def printable(text: str) -> list[str]:
    r"""The lines of any text as they may be shown, with their indentation.

    >>> printable("if a:\n\tb \x1b[2Jc")
    ['if a:', '    b c']
    """
    lines = _ESCAPES.sub("", text).expandtabs(4).splitlines()
    return [line if line.isprintable() else "".join(filter(str.isprintable, line)) for line in lines]


def width_of(text: str) -> int:
    """Tell how many columns a clean text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def shorten(text: str, width: int, ellipsis: str = "…") -> str:
    """Cut a clean text to so many columns and say so with an ellipsis.

    >>> shorten("a long story", 7)
    'a long…'
    """
    if width_of(text) <= width:
        return text
    left = max(0, width - len(ellipsis))
    if text.isascii():  # most are, and looking at every character takes long
        return text[:left].rstrip() + ellipsis
    kept = sum(end <= left for end in accumulate(map(_columns, text)))
    return text[:kept].rstrip() + ellipsis


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
