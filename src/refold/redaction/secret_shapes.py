"""Secrets known by what stands around them: in addresses, cookies, command lines, prose; card numbers.

Rules of our own beside those of detect-secrets; no library. Every repetition is bounded, so that no text
makes them slow. A word that is only the name of a secret ("password is stored in a vault") is none, nor is a
place-holder; ids, commits and digests have no such words around them.
"""

import re
from collections import Counter
from collections.abc import Iterator
from math import log2
from typing import Final, NamedTuple


class Shape(NamedTuple):
    """Where a secret stands in a text."""

    start: int
    end: int
    kind: str


_MADE_UP: Final = re.compile(
    r"(?i)^(?:pass(?:word|wd)?|secret|token|user(?:name)?|changeme|example|your\b.*|x{3,}|\*{3,}|\.{3,}|none|null"
    r"|redacted.*)$|[<>{}$]|%\(|(?-i:%[sd])(?![A-Za-z0-9])|\.\.\.|\[redacted"
)
"""What stands where a secret would: a place-holder, a variable, what was redacted already."""
_ADDRESS: Final = re.compile(
    r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/@:\"'<>]{0,100}:([^\s/@\"'<>]{3,200})@"
)
_PROSE: Final = re.compile(
    r"(?i)\b(?:pass(?:word|phrase|code)|pass phrase|passwort|kennwort|mot de passe|contraseña|senha)\b"
    r"[^\n:=\"'`“]{0,40}?\s(?:is|was|are|ist|war|est|es|é)[ \t]{1,4}\\{0,8}[\"'`“]?([^\s\"'`“”\\<>]{6,100})"
)
_OPTION: Final = re.compile(r"(?<!\S)(?:-u|--user)[ =]{1,2}[\"']?[^\s:\"']{1,64}:([^\s\"'@\\<>]{4,100})")
_NETRC: Final = re.compile(r"\blogin[ \t]{1,8}\S{1,100}\s{1,8}password[ \t]{1,8}([^\s\"'\\<>]{4,100})")
_PHRASE: Final = re.compile(
    r"(?i)pass_?phrase[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']?((?:[A-Za-z]{3,20}-){2,9}[A-Za-z]{3,20})"
)
_COOKIE: Final = re.compile(r"(?i)\bcookie[\"']?[:=][ \t]{0,4}([^\n]{8,4000})")
_PAIR: Final = re.compile(r"[\w.-]{1,64}=([A-Za-z0-9%+/=_.~-]{16,1000})")
_TOKEN: Final = re.compile(
    r"(?i)(?<![A-Za-z0-9])(?:token|secret|credentials?)[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']?"
    r"([A-Za-z0-9+/=_-]{24,400})"
)
_PREFIXED: Final = (
    ("aws-access-key", re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])")),
    ("google-key", re.compile(r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])")),
    ("gitlab-token", re.compile(r"(?<![A-Za-z0-9])gl(?:pat|dt|rt|ptt|cbt)-[A-Za-z0-9_-]{20,64}")),
)
_AWS: Final = re.compile(
    r"(?i)secret_?(?:access_?)?key[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']?([A-Za-z0-9+/]{40})(?![A-Za-z0-9+/])"
)
"""Also one that begins like a path."""
_CARD: Final = re.compile(
    r"(?<![\d.-])(?:[3-6]\d{3}([ -])\d{4}\1\d{4}\1\d{4}|3[47]\d{2}([ -])\d{6}\2\d{5}|[3-6]\d{12,18})"
    r"(?![\d.-]|\w)"
)
_ISSUED: Final = re.compile(r"4|5[1-5]|2[2-7]|3[47]|6(?:011|5)")
_PAYS: Final = re.compile(r"(?i)card|visa|master|amex|credit|debit|payment|karte|carte|tarjeta|\bpan\b")
_NEAR: Final = 80
"""Characters before a bare number in which a word must say that it pays."""
_RANDOM: Final = 3.0
"""Bits a character from which on a value is no word."""
_LETTERS: Final = 4.2
"""The same for one of letters alone; long names in camel case have less."""
_SAID: Final = (
    (
        _PROSE,
        (
            "password",
            "passphrase",
            "pass phrase",
            "passcode",
            "passwort",
            "kennwort",
            "mot de",
            "contrase",
            "senha",
        ),
    ),
    (_OPTION, ("-u", "--user")),
    (_NETRC, ("login",)),
)
"""Patterns, and texts of which one must occur in small letters; saves time."""
_NAMES: Final = ("token", "secret", "credential")
_TRAILING: Final = ".,;:!?)]}\"'`”"


def shapes(text: str) -> Iterator[Shape]:
    """The secrets of these shapes in a text, in no order."""
    small = text.lower()
    yield from _addresses(text)
    yield from _said(text, small)
    for kind, pattern in _PREFIXED:
        for found in pattern.finditer(text):
            yield Shape(*found.span(), kind)
    for found in _COOKIE.finditer(text) if "cookie" in small else ():
        for pair in _PAIR.finditer(text, *found.span(1)):
            if _is_random(pair[1]):
                yield Shape(*pair.span(1), "cookie")
    for found in _TOKEN.finditer(text) if any(word in small for word in _NAMES) else ():
        if _is_random(found[1]) and not found[1].islower() and not _MADE_UP.search(found[1]):
            yield Shape(*found.span(1), "named-secret")
    for found in _AWS.finditer(text) if "secret" in small else ():
        if _is_random(found[1]):
            yield Shape(*found.span(1), "aws-secret")
    yield from _cards(text)


def _addresses(text: str) -> Iterator[Shape]:
    if "://" not in text:
        return
    for found in _ADDRESS.finditer(text):
        if not _MADE_UP.search(found[1]):
            yield Shape(*found.span(1), "basic-auth-credentials")


def _said(text: str, small: str) -> Iterator[Shape]:
    for pattern, hints in _SAID:
        for found in pattern.finditer(text) if any(hint in small for hint in hints) else ():
            start, end = found.span(1)
            while end > start and text[end - 1] in _TRAILING and pattern is _PROSE:
                end -= 1
            value = text[start:end]
            if len(value) >= 4 and _is_mixed(value) and not _MADE_UP.search(value):
                yield Shape(start, end, "password")
    for found in _PHRASE.finditer(text) if "phrase" in small else ():
        yield Shape(*found.span(1), "password")


def _cards(text: str) -> Iterator[Shape]:
    for found in _CARD.finditer(text):
        digits = [int(digit) for digit in found[0] if digit.isdigit()]
        if not _ISSUED.match(found[0]) or not checks(digits):
            continue
        if found[1] or found[2] or _PAYS.search(text, max(0, found.start() - _NEAR), found.start()):
            yield Shape(*found.span(), "card-number")


def checks(digits: list[int]) -> bool:
    """Whether the last of these digits is the check digit of the others, as on every card (Luhn).

    >>> checks([4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    True
    """
    return sum(sum(divmod(digit * (1 + at % 2), 10)) for at, digit in enumerate(reversed(digits))) % 10 == 0


def _is_mixed(value: str) -> bool:
    return any(letter.isdigit() for letter in value) and any(letter.isalpha() for letter in value)


def _is_random(value: str) -> bool:
    value = value[:200]
    bits = -sum(n / len(value) * log2(n / len(value)) for n in Counter(value).values())
    return bits >= (_RANDOM if _is_mixed(value) else _LETTERS)
