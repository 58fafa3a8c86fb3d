"""Find places where text can be cut without damage, and repair its encoding; knows no limit and no message.

A cut does damage between CR and LF, inside what a reader takes for one character (combining marks, joined
emoji, flags, Hangul syllables), and inside an ANSI escape sequence.
"""

import re
from typing import Final
from unicodedata import category, combining

WORD_CHARS: Final = 24
"""A cut goes this far for a gap between words."""
LONGEST_NUMBER: Final = 40
"""Characters of a number that is never split; longer runs of digits are data."""
LONGEST_ESCAPE: Final = 4_096
"""Characters of an escape sequence that is still recognised (a link can be long); longer may be split."""

_ESCAPE: Final = re.compile(
    r"\x1b(?:\[[0-?]{0,256}[ -/]{0,16}[@-~]"  # colours, cursor
    rf"|[\]PX^_][^\x07\x1b]{{0,{LONGEST_ESCAPE}}}(?:\x07|\x1b\\)"  # titles, links, device strings
    r"|[ -/]{0,4}[0-~])"  # all others
)
_CONTROL: Final = re.compile(r"\x1b\[[0-?]{0,256}[ -/]{0,16}[@-~]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Colours and cursor movements, and all control characters but tabs and ends of lines."""
_ZWJ: Final = "\u200d"
_EXTENDING: Final = frozenset("\u200c\u200d\u0e33\u0eb3\uff9e\uff9f")
"""Joiners and letters that belong to the character before them though they are no combining marks."""
_PREPENDED: Final = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd\U000111c2"
    "\U000111c3\U0001193f\U00011941\U00011a84\U00011a85\U00011a86\U00011a87\U00011a88\U00011a89\U00011d46"
)
"""Signs that belong to the character behind them (Unicode UAX 29, class Prepend)."""
_FLAG_LETTERS: Final = "".join(map(chr, range(0x1F1E6, 0x1F200)))
_VIRAMA: Final = 9
"""Combining class of the signs that bind two consonants into one (Unicode UAX 44)."""


def boundary_before(text: str, at: int) -> int:
    """Return the last place at or before `at` where a cut does no damage."""
    at = min(at, len(text))
    while at > 0:
        while 0 < at < len(text) and _is_joined(text, at):
            at -= 1
        escape = _find_escape(text, at)
        if escape is None:
            return at
        at = escape[0]
    return 0


def boundary_after(text: str, at: int) -> int:
    """Return the first place at or after `at` where a cut does no damage."""
    at = max(at, 0)
    while at < len(text):
        while 0 < at < len(text) and _is_joined(text, at):
            at += 1
        escape = _find_escape(text, at)
        if escape is None:
            return at
        at = escape[1]
    return len(text)


def word_before(text: str, at: int) -> int:
    """Return a place at or before `at` where a word ends, if one is near; else one that splits no number."""
    gap = max(text.rfind(mark, max(0, at - WORD_CHARS), at + 1) for mark in " \n\t")
    return boundary_before(text, gap if gap > 0 else at - measure_number(text, at)[0])


def word_after(text: str, at: int) -> int:
    """Return a place at or after `at` where a word begins, if one is near; else one that splits no number."""
    gaps = [gap for mark in " \n\t" if (gap := text.find(mark, at, at + WORD_CHARS)) >= 0]
    return boundary_after(text, min(gaps) + 1 if gaps else at + measure_number(text, at)[1])


def measure_number(text: str, at: int) -> tuple[int, int]:
    """Return the characters of a number that lies on both sides of `at`, before and behind it."""
    above, below = text[max(0, at - LONGEST_NUMBER) : at], text[at : at + LONGEST_NUMBER]
    for digits in ("0123456789.,", "0123456789"):  # a list such as 1,2,3 may be split behind a comma
        head, tail = len(above) - len(above.rstrip(digits)), len(below) - len(below.lstrip(digits))
        if head and tail and head + tail < LONGEST_NUMBER:
            return head, tail
    return 0, 0


def well_formed(text: str) -> str:
    """Return the text as valid UTF-8: surrogate halves joined, lone ones replaced; never more bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def clean_text(text: str) -> str:
    r"""Return a text that every log, terminal and request can carry.

    >>> clean_text("red \x1b[31malert\x00 \ud800")
    'red alert �'
    """
    return _CONTROL.sub("", well_formed(text).replace("\r\n", "\n").replace("\r", "\n"))


def _is_joined(text: str, at: int) -> bool:
    """True if the characters on both sides of `at` make one; in doubt yes, which only keeps less."""
    left, right = text[at - 1], text[at]
    if left < " ":
        return left == "\r" and right == "\n"
    if left < "\x7f" and right < "\x7f":
        return False
    if _extends(right):
        return True
    if left == _ZWJ or left in _PREPENDED:
        return right >= " "
    if combining(left) == _VIRAMA:
        return category(right) == "Lo"
    if left in _FLAG_LETTERS and right in _FLAG_LETTERS:  # two make a flag, the third begins another
        return (at - len(text[:at].rstrip(_FLAG_LETTERS))) % 2 == 1
    if "\ud800" <= left <= "\udbff":
        return "\udc00" <= right <= "\udfff"
    # Two Hangul letters share a syllable: a lead binds forwards, a vowel or tail backwards.
    leads = "\u1100" <= left <= "\u115f" or "\ua960" <= left <= "\ua97c"
    follows = "\u1160" <= right <= "\u11ff" or "\ud7b0" <= right <= "\ud7fb"
    return (leads and _is_hangul(right)) or (follows and _is_hangul(left))


def _extends(char: str) -> bool:
    """True if a character belongs to the one before it."""
    if category(char) in ("Mn", "Mc", "Me") or char in _EXTENDING:
        return True
    # skin tones, and the letters of subdivision flags
    return "\U0001f3fb" <= char <= "\U0001f3ff" or "\U000e0020" <= char <= "\U000e007f"


def _is_hangul(char: str) -> bool:
    return "\u1100" <= char <= "\u11ff" or "\ua960" <= char <= "\ua97c" or "\uac00" <= char <= "\ud7fb"


def _find_escape(text: str, at: int) -> tuple[int, int] | None:
    """Return the span of the escape sequence that lies on both sides of `at`."""
    low = max(0, at - LONGEST_ESCAPE)
    if text.find("\x1b", low, at) < 0:
        return None
    for match in _ESCAPE.finditer(text, low, min(len(text), at + LONGEST_ESCAPE)):
        if match.start() >= at:
            break
        if match.end() > at:
            return match.span()
    return None
