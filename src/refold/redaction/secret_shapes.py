"""Secrets that the text around them gives away: in addresses, cookies, command lines, prose; card numbers.

Rules of our own beside those of detect-secrets; uses no library. Every repetition is bounded, so that no text
makes them slow. The name of a secret alone ("password is stored in a vault") is no secret, nor is a
placeholder. Ids, commits and digests have no such words around them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, cached_property, partial
from math import log2
from string import digits
from typing import Final, NamedTuple

from refold.patterns import read_alternatives, read_pattern


class Secret(NamedTuple):
    """The place of a secret in a text, and its kind."""

    start: int
    end: int
    kind: str


_read: Final = partial(read_pattern, __package__)
_ALIKE: Final = (("\u0130", "i"), ("\u0131", "i"), ("\u017f", "s"), ("\u212a", "k"))
"""Letters that a pattern without case takes for one of ASCII."""
_OTHER_DIGIT: Final = re.compile(r"[^\D0-9]")
_CLUE: Final = _read("clue")
"""Some of every secret but those that are nothing but a long run."""
_SHORT: Final = 400
"""Characters up to which one search for all clues is faster than one for each."""
_STEMS: Final = tuple(map(re.compile, read_alternatives(__package__, "stems")))
"""The hints below have one of these in it or near. A pattern for each first letter, which is found fast."""
_BEFORE, _BEHIND = 40, 20
"""Characters before and behind a stem among which its hints stand."""
SHORTEST_DATA: Final = 24
"""Characters of the shortest run of base 64 that may be a secret."""
_LONG_RUN: Final = 20
"""Characters of the shortest key that is nothing but a run of letters, digits and marks."""
_TELLING: Final = re.compile(r"[0-9]|A[KSBC][ICS][AC]|AIza|gl[a-z]{2,3}-|hf_")
"""What such a key has; names of files and functions mostly have not."""
_NUMBERS: Final = (
    13 * b"0",
    b"-".join(4 * [b"0000"]),
    b" ".join(4 * [b"0000"]),
    b"0 000000 0",
    b"0-000000-0",
)
"""Digits as the numbers of cards have them, written as zeros."""
_MADE_UP: Final = _read("made_up")
"""Not a secret, although it is where one would be: a placeholder, a variable, what was redacted already."""
_ADDRESS: Final = _read("address")
_ADDRESS_END: Final = _read("address_end")
_PAIR: Final = re.compile(r"[\w.-]{1,64}=([A-Za-z0-9%+/=_.~-]{16,1000})")
_PREFIXED: Final = (
    ("aws-access-key", re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])")),
    ("google-key", re.compile(r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])")),
    ("gitlab-token", re.compile(r"(?<![A-Za-z0-9])gl(?:pat|dt|rt|ptt|cbt)-[A-Za-z0-9_-]{20,64}")),
)
_CARD: Final = _read("card")
_ISSUED: Final = re.compile(r"4|5[1-5]|2[2-7]|3[47]|6(?:011|5)")
_PAYS: Final = re.compile(r"(?i)card|visa|master|amex|credit|debit|payment|karte|carte|tarjeta|\bpan\b")
_NEAR: Final = 80
"""Characters before a bare number in which a word must say that it is a card: one line of text. Wider takes
order numbers that pass the check digit for cards."""
RANDOM_BITS: Final = 3.0
"""Entropy in bits a character from which a value with letters and digits is taken for random. Lower finds
keys that were made up for documents (decision 10)."""
_LETTERS_BITS: Final = 4.2
"""The same for letters alone; long names in camel case have less."""
_NO_PASSWORD: Final = _read("no_password")
"""A name or a description in place of a password."""
_SAID: Final = [
    "prose",
    "option",
    "netrc",
    "named_option",
    "login",
    "variable",
    "line",
    "element",
    "signature",
]
_WITHOUT_DIGIT: Final = ("setting", "json_password", "pgpass")
"""Passwords that need no digit."""
_BESIDE: Final = {"netrc": "login", "named_option": "--", "element": "</"}
"""What must occur besides one of the hints."""
_TRAILING: Final = ".,;:!?)]}\"'`”"


class Glance:
    """A text, and what tells that a pattern is not in it; to try the pattern takes 30 times as long."""

    def __init__(self, text: str) -> None:
        self.text = plain = text
        if not text.isascii():
            for letter, alike in _ALIKE:
                plain = plain.replace(letter, alike)
            plain = _OTHER_DIGIT.sub("0", plain).encode("ascii", "replace").decode()
        self.plain = plain
        """The text in ASCII, each character at its place."""
        self.raw = plain.encode()
        self.lower = plain.lower()
        self.has_clue = len(text) > _SHORT or _CLUE.search(self.lower) is not None

    @cached_property
    def words(self) -> str:
        """What stands around the words near secrets, in lower case."""
        if not self.has_clue:
            return ""
        places = [match.start() for stem in _STEMS for match in stem.finditer(self.lower)]
        return " ".join({self.lower[max(0, at - _BEFORE) : at + _BEHIND] for at in places})

    @cached_property
    def runs(self) -> str:
        """The long runs of characters of which keys consist."""
        runs = find_runs(self.raw, _IN_KEYS, _LONG_RUN)
        return " ".join([self.text[at:end] for at, end in runs if _TELLING.search(self.plain, at, end)])

    @cached_property
    def has_data(self) -> bool:
        """True if there is a run of base 64, of either kind, as long as a secret without a prefix."""
        return any(True for _ in find_runs(self.raw, _IN_DATA, SHORTEST_DATA))

    def find(self, name: str) -> Iterable[re.Match[str]]:
        """Find the pattern of this name, if one of its hints occurs."""
        pattern, hints, beside = read_hints(name)
        if beside not in self.lower or not any(hint in self.words for hint in hints):
            return ()
        if not self.text.isascii():  # the hint may have had a letter that is only alike
            lower = self.text.lower()
            if not any(hint in lower for hint in ((beside,) if beside else hints)):
                return ()
        return pattern.finditer(self.text)


@cache
def read_hints(name: str) -> tuple[re.Pattern[str], list[str], str]:
    """Return a pattern, texts of which one must occur in lower case, and one that must occur besides."""
    hints = [hint.replace(r"\x20", " ") for hint in read_alternatives(__package__, f"{name}_hints")]
    return _read(name), hints, _BESIDE.get(name, "")


def find_runs(text: bytes, table: bytes, size: int) -> Iterator[tuple[int, int]]:
    """Find runs of at least so many characters; the table turns them into x, and all others into blanks."""
    mask, least = text.translate(table) if len(text) >= size else b"", b"x" * size
    at = mask.find(least)
    while at >= 0:
        end = mask.find(b" ", at) % (len(mask) + 1)
        yield at, end
        at = mask.find(least, end)


def mark_characters(characters: str) -> bytes:
    """Return a table for `find_runs` that marks these characters, as written in a set of a pattern."""
    return bytes(ord("x" if re.match(characters, chr(code)) else " ") for code in range(256))


_IN_KEYS: Final = mark_characters("[A-Za-z0-9_.:-]")
_IN_DATA: Final = mark_characters("[A-Za-z0-9+/_=-]")
_AS_ZERO: Final = bytes(ord("0") if chr(code) in digits else code for code in range(256))


def find_shapes(look: Glance) -> Iterator[Secret]:
    """Yield the secrets of these shapes in a text, in no order."""
    for match in _ADDRESS.finditer(look.text) if _ADDRESS_END.search(look.text) else ():
        if not _MADE_UP.search(match[1]):
            yield Secret(*match.span(1), "basic-auth-credentials")
    if look.has_clue:
        yield from _find_passwords(look)
    for kind, pattern in _PREFIXED if look.runs else ():
        for match in pattern.finditer(look.text) if pattern.search(look.runs) else ():
            yield Secret(*match.span(), kind)
    if look.has_clue:
        yield from _find_tokens(look)
        yield from _find_cards(look)


def _find_tokens(look: Glance) -> Iterator[Secret]:
    """Yield random values behind the names of cookies, tokens and keys."""
    for match in look.find("cookie"):
        for pair in _PAIR.finditer(look.text, *match.span(1)):
            if is_random(pair[1]):
                yield Secret(*pair.span(1), "cookie")
    for match in look.find("token") if look.has_data else ():
        if is_random(match[1]) and not match[1].islower() and not _MADE_UP.search(match[1]):
            yield Secret(*match.span(1), "named-secret")
    for match in look.find("aws") if look.has_data else ():
        if is_random(match[1]):
            yield Secret(*match.span(1), "aws-secret")


def _find_passwords(look: Glance) -> Iterator[Secret]:
    for name in _SAID:
        for match in look.find(name):
            start, end = match.span(1)
            while end > start and look.text[end - 1] in _TRAILING and name == "prose":
                end -= 1
            value = look.text[start:end]
            if len(value) >= 4 and _is_mixed(value) and not _MADE_UP.search(value):
                yield Secret(start, end, "password")
    for name in _WITHOUT_DIGIT:
        for match in look.find(name):
            if not _NO_PASSWORD.search(match[1]) and not _MADE_UP.search(match[1]):
                yield Secret(*match.span(1), "password")
    for match in look.find("phrase"):
        yield Secret(*match.span(1), "password")
    for match in look.find("hash"):
        yield Secret(*match.span(), "password-hash")


def _find_cards(look: Glance) -> Iterator[Secret]:
    text, numbers = look.text, look.raw.translate(_AS_ZERO)
    for match in _CARD.finditer(text) if any(number in numbers for number in _NUMBERS) else ():
        digits_of_card = [int(digit) for digit in match[0] if digit.isdigit()]
        if not _ISSUED.match(match[0]) or not passes_luhn(digits_of_card):
            continue
        # One digit run in ten passes the check digit, so a bare number needs a word beside it.
        if match[1] or match[2] or _PAYS.search(text, max(0, match.start() - _NEAR), match.start()):
            yield Secret(*match.span(), "card-number")


def passes_luhn(digits: list[int]) -> bool:
    """Return True if the last digit is the check digit of the others, as on every card (Luhn).

    >>> passes_luhn([4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    True
    """
    return sum(sum(divmod(digit * (1 + at % 2), 10)) for at, digit in enumerate(reversed(digits))) % 10 == 0


def _is_mixed(value: str) -> bool:
    return any(letter.isdigit() for letter in value) and any(letter.isalpha() for letter in value)


def is_random(value: str) -> bool:
    """Return True if a value has the entropy of a key; one of letters alone needs more."""
    value = value[:200]
    return entropy(value) >= (RANDOM_BITS if _is_mixed(value) else _LETTERS_BITS)


def entropy(value: str) -> float:
    """Return the Shannon entropy, in bits a character."""
    return -sum(n / len(value) * log2(n / len(value)) for n in Counter(value).values())
