"""Words of a sentence: which carry content, which stand for time, numbers and names. Knows no message.

The word lists and patterns of this room are data files. They are read on first use, because most programs
that import refold never look for facts.
"""

import re
from collections.abc import Sequence
from functools import cache
from pkgutil import get_data
from typing import Any, Final

from refold.patterns import read_pattern

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_NAME: Final = re.compile(r"\w+")


def make_letters(others: str) -> bytes:
    """Return a table by which letters, digits and these signs stay what they are, and all else is a blank.

    To split a text of ASCII so takes a third of the time of `re`.
    """
    return bytes(code if chr(code).isalnum() or chr(code) in others else 32 for code in range(256))


def number_signs(*kinds: str) -> bytes:
    """Return a table that gives each sign of these kinds the number of its kind, from 1 on, and others 0."""
    table = bytearray(256)
    for number, kind in enumerate(kinds, 1):
        for sign in kind:
            table[ord(sign)] = number
    return bytes(table)


_WORDS, _NAMES = make_letters("'"), make_letters("_")
"""What each letter of ASCII is in words, which may have an apostrophe, and in names, which may have an
underscore."""
_ODD_APOSTROPHE: Final = re.compile(r"'(?:(?![a-z\d])|(?<![a-z\d]')|[a-z\d]*')")
"""One that does not stand inside a word, and the first of two."""
_OTHER_LETTERS: Final = re.compile("[^\0-\xb4\xb6-\xff\u2010-\u2027]")
"""What is neither Latin-1 nor a usual dash, quote or dot; the sign for micro has two spellings."""
_CJK_RUN: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_CAPITALISED: Final = re.compile(r" (?<=[\w,;:'’\"(-] )[\"'(]?([A-Z][\w'’-]+)")
"""It begins with a space: such a pattern is found faster than one that looks back."""
_ASSIGNMENT: Final = read_pattern(__package__, "assignment", re.IGNORECASE)


def read_data(name: str, room: str = "facts") -> str:
    """Read a data file of a room of the core."""
    return (get_data(f"refold.core.{room}", f"data/{name}") or b"").decode()


def read_toml(name: str, room: str = "facts") -> dict[str, Any]:
    """Read a TOML file of a room of the core."""
    import tomllib

    return tomllib.loads(read_data(name, room))


@cache
def word_lists() -> dict[str, frozenset[str]]:
    """Return the lists of `data/words.toml` by name, read once; the reason for each stands there."""
    return {name: frozenset(words.split()) for name, words in read_toml("words.toml").items()}


@cache
def common_words() -> frozenset[str]:
    """Return the plain words of English conversation, read once."""
    lines = read_data("common_words.txt").split("\n")
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


@cache
def read_patterns(room: str) -> dict[str, Any]:
    """Read the patterns of a room of the core, once."""
    return read_toml("patterns.toml", room)


@cache
def compile_patterns(
    template: str, *names: str, room: str = "facts", flags: int = re.IGNORECASE
) -> re.Pattern[str]:
    """Compile lists of a room's `data/patterns.toml` into one pattern; each `{}` takes one list."""
    patterns = read_patterns(room)
    return re.compile(template.format(*("|".join(patterns[name]) for name in names)), flags)


def has_pattern(sentence: str, template: str, *names: str) -> bool:
    """True if a sentence has one of these patterns, in small letters or capitals."""
    # To ignore case takes `re` twice as long as to read small letters, as which the patterns are written.
    # For other letters the two may differ.
    is_plain = sentence.isascii() or not _OTHER_LETTERS.search(sentence)
    pattern = compile_patterns(template, *names, flags=0 if is_plain else re.IGNORECASE)
    find = pattern.match if template[0] == "^" else pattern.search  # `search` tries the beginning everywhere
    return find(sentence.lower() if is_plain else sentence) is not None


def assigned_name(sentence: str) -> str:
    """Return the name that a sentence sets a value for, in lower case; "" if it sets none.

    >>> assigned_name("My booking code is QX7T2P.")
    'booking code'
    """
    assignment = _ASSIGNMENT.fullmatch(sentence[:120])
    return assignment[1].lower() if assignment else ""


def split_words(sentence: str) -> list[str]:
    """Split a sentence into words, in small letters."""
    low = sentence.lower().replace("’", "'")
    is_plain = low.isascii() and not _ODD_APOSTROPHE.search(low)
    return low.encode().translate(_WORDS).decode().split() if is_plain else _WORD.findall(low)


def split_names(text: str) -> list[str]:
    """Split a text into words and names in code, in small letters."""
    low = text.lower()
    return low.encode().translate(_NAMES).decode().split() if low.isascii() else _NAME.findall(low)


def content_words(sentence: str, words: Sequence[str] | None = None) -> list[str]:
    """Return the content words of a text, each once; pairs of letters for scripts without spaces.

    `words`: its words, where they are known.
    """
    stop = word_lists()["stop"]
    words = [
        word
        for word in (split_words(sentence) if words is None else words)
        if word not in stop and (len(word) > 2 or word[0].isdigit())
    ]
    for run in () if sentence.isascii() else _CJK_RUN.findall(sentence):
        words += [run[at : at + 2] for at in range(len(run) - 1)]
    return list(dict.fromkeys(words))


def capitalised_words(sentence: str) -> list[str]:
    """Return the words with a capital that does not begin the sentence."""
    return _CAPITALISED.findall(sentence)


def shorten_sentence(sentence: str) -> str:
    """Drop the lead-in, the articles and the hedges of a sentence; the other words stay as they were.

    >>> shorten_sentence("By the way, I just added 25 new postcards to my collection.")
    'added 25 new postcards to my collection'
    """
    lead = compile_patterns(r"(?:(?:{})\b[,.!:]? *){{1,4}}", "brief_lead")
    short = lead.sub("", sentence, count=1) if lead.match(sentence) else sentence
    # As in `has_pattern`, small letters are read in less than half of the time; a single "A" is a name.
    is_plain = short.isascii() and "A " not in short
    filler = compile_patterns(r"(?<!\w)(?:{}) ", "filler", flags=0 if is_plain else re.IGNORECASE)
    kept, start = list[str](), 0
    for word in filler.finditer(short.lower() if is_plain else short):
        kept.append(short[start : word.start()])
        start = word.end()
    return ("".join(kept) + short[start:]).strip().rstrip(".") or sentence
