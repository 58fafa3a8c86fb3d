"""Finds lines that give instructions to the model that reads them, so that they are quoted, never followed.

Letters are compared as a reader sees them: invisible characters are left out, wide letters and letters of
other scripts that look Latin are read as Latin ones. The patterns stand in `data/injections.toml`.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from refold.core.facts.words import read_toml


@dataclass(frozen=True, slots=True)
class InstructionPattern:
    """One way to address a model; the fields are explained in `data/injections.toml`."""

    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    before: int = 1
    after: int = 2

    def find_spans(self, text: str, low: str) -> Iterator[tuple[int, int]]:
        """Yield the places of matches; `low` is the text in small letters, each in its place."""
        for anchor in self.anchors:
            at = low.find(anchor)
            while at >= 0:
                limit = at + len(anchor) + self.after
                match = self.pattern.search(text, max(0, at - self.before), limit)
                if match:
                    yield match.span()
                at = low.find(anchor, at + 1)


@cache
def instruction_patterns() -> tuple[InstructionPattern, ...]:
    """Return the patterns, read and compiled once."""
    return tuple(
        InstructionPattern(
            tuple(entry["anchors"]),
            re.compile(entry["pattern"], re.IGNORECASE | re.MULTILINE),
            entry.get("before", 1),
            entry.get("after", 2),
        )
        for entry in read_toml("injections.toml")["instruction"]
    )


@cache
def _list_anchors(*, ascii_only: bool) -> list[tuple[str, int]]:
    """List the anchors of all patterns, each with the number of its pattern."""
    pairs = [(each, at) for at, order in enumerate(instruction_patterns()) for each in order.anchors]
    return [pair for pair in pairs if pair[0].isascii() or not ascii_only]


_INVISIBLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\U000e0000-\U000e007f]"
)
"""Characters without a width: between letters they hide a word from a search and not from a model."""
_LOOKALIKES: Final = str.maketrans(
    "аеосрхіјѕԁһӏАЕОСРХІЈЅВНКМТαορυνικΑΒΕΗΙΚΜΝΟΡΤΧ", "aeocpxijsdhlAEOCPXIJSBHKMTaopuvikABEHIKMNOPTX"
)
"""Cyrillic and Greek letters that look like Latin ones."""
_MIXED_SCRIPTS: Final = re.compile(r"[\u0370-\u04ff](?:(?<=[A-Za-z].)|(?=[A-Za-z]))")
"""It begins with the rarer letters: such a pattern is found several times as fast."""


def as_displayed(text: str) -> str:
    """Return a text as a reader sees it.

    >>> as_displayed("al\u200bways")
    'always'
    """
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
    # Only inside a word of mixed scripts: real Russian and Greek must stay what they are.
    return text.translate(_LOOKALIKES) if _MIXED_SCRIPTS.search(text) else text


def find_instructions(text: str, most: int) -> list[str]:
    """Find the first lines of a text that give the model instructions."""
    text = as_displayed(text)
    lines: list[str] = []
    end = -1
    for start, stop in sorted(_find_spans(text)):
        if start > end:
            end = text.find("\n", stop)
            end = len(text) if end < 0 else end
            lines.append(text[text.rfind("\n", 0, start) + 1 : end].strip())
            if len(lines) == most:
                break
    return lines


def is_instruction(line: str) -> bool:
    """True if a line gives the model instructions."""
    return any(True for _ in _find_spans(as_displayed(line)))


def may_instruct(lines: str) -> bool:
    """False if no line of a text gives the model instructions; a fast check of many lines at once."""
    low = lines.lower()
    return not lines.isascii() or any(anchor in low for anchor, _ in _list_anchors(ascii_only=True))


def _find_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield where a text addresses a model."""
    low = text.lower()
    if len(low) != len(text):  # a letter that is longer in small letters shifts all places behind it
        for order in instruction_patterns():
            yield from (match.span() for match in order.pattern.finditer(text))
        return
    # Most texts have no anchor at all, so that is found out before anything else is done.
    numbers = [number for anchor, number in _list_anchors(ascii_only=low.isascii()) if anchor in low]
    for number in dict.fromkeys(numbers):
        yield from instruction_patterns()[number].find_spans(text, low)
