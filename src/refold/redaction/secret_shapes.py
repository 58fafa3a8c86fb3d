"""Secrets that the text around them gives away: in addresses, cookies, command lines, prose; card numbers.

Rules of our own beside those of detect-secrets; uses no library. Every repetition is bounded, so that no text
makes them slow. The name of a secret alone ("password is stored in a vault") is no secret, nor is a
placeholder. Ids, commits and digests have no such words around them.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from math import log2
from typing import Final, NamedTuple

from refold.patterns import read_pattern


class Secret(NamedTuple):
    """The place of a secret in a text, and its kind."""

    start: int
    end: int
    kind: str


_read: Final = partial(read_pattern, __package__)
_MADE_UP: Final = _read("made_up")
"""Not a secret, although it is where one would be: a placeholder, a variable, what was redacted already."""
_ADDRESS: Final = _read("address")
_PROSE: Final = _read("prose")
_OPTION: Final = re.compile(r"(?<!\S)(?:-u|--user)[ =]{1,2}[\"']?[^\s:\"']{1,64}:([^\s\"'@\\<>]{4,100})")
_NAMED_OPTION: Final = _read("named_option")
_LOGIN: Final = _read("login")
_VARIABLE: Final = _read("variable")
"""A variable of the environment: no code stands there, so that also a short or regular value is a secret."""
_SETTING: Final = _read("setting")
"""A password without a digit, where only settings stand: in a variable of the environment, or in a file of
settings at the beginning of a line. Indented, a bare `PASSWORD:` may be code, and so may `password=word;`."""
_JSON_PASSWORD: Final = _read("json_password")
"""The same in JSON, where a mark tells it from a name; `Kennwort*` is a label, `#login-field` a selector."""
_PGPASS: Final = _read("pgpass")
"""A line of PostgreSQL's file of passwords: host, port, database, user; `app.log:5432:12:30:45.1` is none."""
_HASH: Final = _read("hash")
"""The hash of a password: whoever has it tries words until one fits."""
_HASH_HINTS: Final = ("$1$", "$2", "$5$", "$6$", "$y$", "$a", "pbkdf2", "crypt", "scram-", "{s", "{md5}")
_LINE: Final = _read("line")
_ELEMENT: Final = _read("element")
_SIGNATURE: Final = re.compile(r"[?&](?:sig|X-(?:Amz|Goog)-Signature)=([A-Za-z0-9%+/_-]{32,600})")
_NETRC: Final = re.compile(r"\blogin[ \t]{1,8}\S{1,100}\s{1,8}password[ \t]{1,8}([^\s\"'\\<>]{4,100})")
_PHRASE: Final = _read("phrase")
_COOKIE: Final = re.compile(r"(?i)\bcookie[\"']?[:=][ \t]{0,4}([^\n]{8,4000})")
_PAIR: Final = re.compile(r"[\w.-]{1,64}=([A-Za-z0-9%+/=_.~-]{16,1000})")
_TOKEN: Final = _read("token")
_PREFIXED: Final = (
    ("aws-access-key", re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])")),
    ("google-key", re.compile(r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])")),
    ("gitlab-token", re.compile(r"(?<![A-Za-z0-9])gl(?:pat|dt|rt|ptt|cbt)-[A-Za-z0-9_-]{20,64}")),
)
_AWS: Final = _read("aws")
"""Amazon's secret keys have 40 characters; they may begin with a slash, as a path does."""
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
_PROSE_HINTS: Final = (
    *("password", "passphrase", "pass phrase", "passcode", "passwort", "kennwort"),
    *("mot de", "contrase", "senha"),
)
_SAID: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = (
    (_PROSE, _PROSE_HINTS),
    (_OPTION, ("-u", "--user")),
    (_NETRC, ("login",)),
    (_NAMED_OPTION, ("--",)),
    (_LOGIN, ("sshpass", "mysql", "docker")),
    (_VARIABLE, ("password=", "passwd=", "pass=", "secret=", "token=")),
    (_LINE, ("password:", "passwd:")),
    (_ELEMENT, ("</",)),
    (_SIGNATURE, ("sig=", "signature=")),
)
"""Patterns, each with texts of which one must occur in lower case; that is quicker than the pattern."""
_WITHOUT_DIGIT: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = (
    (_SETTING, ("password", "passwd")),
    (_JSON_PASSWORD, ("password", "passwd")),
    (_PGPASS, (":54", ":6432:", ":6543:", ":*:")),
)
"""The same for passwords that need no digit."""
_NO_PASSWORD: Final = _read("no_password")
"""A name or a description in place of a password."""
_NAMES: Final = ("token", "secret", "credential")
_TRAILING: Final = ".,;:!?)]}\"'`”"


def find_shapes(text: str) -> Iterator[Secret]:
    """Yield the secrets of these shapes in a text, in no order."""
    lower = text.lower()
    for match in _ADDRESS.finditer(text) if "://" in text else ():
        if not _MADE_UP.search(match[1]):
            yield Secret(*match.span(1), "basic-auth-credentials")
    yield from _find_passwords(text, lower)
    for kind, pattern in _PREFIXED:
        for match in pattern.finditer(text):
            yield Secret(*match.span(), kind)
    yield from _find_tokens(text, lower)
    yield from _find_cards(text)


def _find_tokens(text: str, lower: str) -> Iterator[Secret]:
    """Yield random values behind the names of cookies, tokens and keys."""
    for match in _COOKIE.finditer(text) if "cookie" in lower else ():
        for pair in _PAIR.finditer(text, *match.span(1)):
            if is_random(pair[1]):
                yield Secret(*pair.span(1), "cookie")
    for match in _TOKEN.finditer(text) if any(word in lower for word in _NAMES) else ():
        if is_random(match[1]) and not match[1].islower() and not _MADE_UP.search(match[1]):
            yield Secret(*match.span(1), "named-secret")
    for match in _AWS.finditer(text) if "secret" in lower else ():
        if is_random(match[1]):
            yield Secret(*match.span(1), "aws-secret")


def _find_passwords(text: str, lower: str) -> Iterator[Secret]:
    for pattern, hints in _SAID:
        for match in pattern.finditer(text) if any(hint in lower for hint in hints) else ():
            start, end = match.span(1)
            while end > start and text[end - 1] in _TRAILING and pattern is _PROSE:
                end -= 1
            value = text[start:end]
            if len(value) >= 4 and _is_mixed(value) and not _MADE_UP.search(value):
                yield Secret(start, end, "password")
    for pattern, hints in _WITHOUT_DIGIT:
        for match in pattern.finditer(text) if any(hint in lower for hint in hints) else ():
            if not _NO_PASSWORD.search(match[1]) and not _MADE_UP.search(match[1]):
                yield Secret(*match.span(1), "password")
    for match in _PHRASE.finditer(text) if "phrase" in lower else ():
        yield Secret(*match.span(1), "password")
    for match in _HASH.finditer(text) if any(hint in lower for hint in _HASH_HINTS) else ():
        yield Secret(*match.span(), "password-hash")


def _find_cards(text: str) -> Iterator[Secret]:
    for match in _CARD.finditer(text):
        digits = [int(digit) for digit in match[0] if digit.isdigit()]
        if not _ISSUED.match(match[0]) or not passes_luhn(digits):
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
