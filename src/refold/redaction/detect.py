"""Finds secrets in text, with the patterns of detect-secrets, which the extra `refold[redact]` installs.

The library brings the patterns of single services, the words that name secrets, the measure of entropy and
the check of web tokens. Its patterns that can take more than linear time on hostile text are not run; a
bounded rule of ours replaces each. No service is asked whether a secret is real. Why so, and what it finds:
`docs/decisions/0010-redaction.md`. The tables are data: `data/secrets.toml`.
"""

import re
from binascii import a2b_base64
from bisect import bisect, bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from itertools import accumulate, groupby, pairwise
from pkgutil import get_data
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any, Final, NamedTuple

from refold.errors import RefoldError, install_hint
from refold.patterns import read_pattern
from refold.redaction.secret_shapes import (
    RANDOM_BITS,
    SHORTEST_DATA,
    Glance,
    Secret,
    entropy,
    find_runs,
    find_shapes,
    mark_characters,
)

_read: Final = partial(read_pattern, __package__)
_SHORTEST: Final = 6
"""Characters; nothing shorter is taken for a secret. Shorter words with a digit are mostly names (`v1.2`)."""
_RUN: Final = re.compile(r"[A-Za-z0-9_-]*+")
_REST: Final = _read("rest")
"""The rest of a key that a narrow screen broke, alone in the next line; a commit or an id has no capitals."""

_LETTERS: Final = _read("letters")
_LETTERS_LIMIT: Final = 4.0
"""Entropy of a key of letters alone, which no other rule takes for random, in bits a character."""

_ASSIGNED: Final = _read("assigned")
"""An assignment behind a name, such as `= "value"`, but not of a name: `secretName`. Every repetition is
bounded, so that no text is slow."""
_VARIABLE: Final = re.compile(r"[A-Za-z_]+[0-9]{0,3}[:.]?")
_ID_BEFORE: Final = re.compile(r"(?i)id\\{0,8}[\"']?\s{0,4}[:=]\s{0,4}\\{0,8}\Z")
_BEARER: Final = re.compile(r"(?i:\b(?:bearer|basic))[ \t]{1,4}([A-Za-z0-9._~+/=-]{16,})")
_AUTH_LINE: Final = re.compile(r"_(?:authToken|auth|password)=[ \t]{0,4}([A-Za-z0-9+/=_.-]{16,})")
_QUOTED: Final = re.compile(r"""(["'`])([A-Za-z0-9+/_=-]{24,200})\1""")
_PLACEHOLDER: Final = _read("placeholder")
_DIGIT: Final = re.compile(r"[0-9]")
_LETTER: Final = re.compile(r"[^\W\d_]")
_CODED: Final = re.compile(r"(?<![A-Za-z0-9+/])((?:[A-Za-z0-9+/]{4}){6,}+)[A-Za-z0-9+/]{0,3}={0,2}")
_PLACES: Final = ("/", "./", "http:", "https:")
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_DIGEST: Final = re.compile(r"sha(?:1|224|256|384|512)[-_:]")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_=-]*+")
_TOKEN_TAIL: Final = re.compile(r"[A-Za-z0-9_.+/=-]*+")
_BLOCK: Final = 16_384
"""Characters within which a private key has to end; an RSA key of 16,384 bits has about 12,600."""
_BETWEEN: Final = r"(?:\s|\\+[nrt]|[0-9]{1,6}[→:|\t]|[>|])*+"
"""What stands between the lines of a key; programs that show a file write the number of each line."""
_BODY: Final = re.compile(rf"-*{_BETWEEN}(?:[A-Za-z0-9+/=]{{16,}}+{_BETWEEN})+")
_DATA: Final = 32
"""Characters of data in one line by which a key is told from words: half of the 64 that PEM writes."""
_LINE: Final = re.compile(rf"[A-Za-z0-9+/=]{{{_DATA}}}")
_LAST_LINE: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}-{0,5}|Private-MAC:[ 0-9a-f]{0,100}|-----END")
_KINDS: Final = {
    ord(c): k for k, cs in (("a", ascii_lowercase), ("A", ascii_uppercase), ("0", digits)) for c in cs
}
_HEADER: Final = 12
"""Characters of the first part of a web token at least: `{"alg":""}` in base 64 has 14."""
_IN_BASE64: Final = mark_characters("[A-Za-z0-9+/]")
_ENDS: Final = ("key", "token", "secret", "pass")
"""Ends of most names of secrets: one search finds all names with an end."""
_NAME: Final = 32
"""Characters of the longest name of a secret."""
_STARTS: Final = 16
"""Seeming starts of web tokens in one unbroken run before the rest of the run is skipped; without
it `eyJeyJeyJ...` takes quadratic time."""


_CHANGES: Final = 0.4
"""Changes of kind in a random value, a character, at the least; random base 64 has about 0.64."""


class _Rule(NamedTuple):
    """One pattern that finds secrets of one kind."""

    kind: str
    hints: tuple[str, ...]
    """Texts of which one must occur."""
    pattern: re.Pattern[str]
    near: tuple[str, ...] = ()
    """Texts of which one must be near; none if a match is a long run of characters of which keys consist."""
    group: int = 0


@dataclass(frozen=True, slots=True)
class _Library:
    """The parts of detect-secrets that are used, and our own rules for keys."""

    rules: tuple[_Rule, ...]
    keys: tuple[_Rule, ...]
    names: dict[str, tuple[str, ...]]
    """Words in the names of secrets, in lower case, by their ends, such as `key`."""
    hints: tuple[str, ...]
    """Those of the rules that look for long runs."""
    has_name: re.Pattern[str]
    private: tuple[str, ...]
    """First lines of private keys."""
    entropy: Callable[[str], float]
    limit: float
    is_token: Callable[[str], bool]
    is_sequential: Callable[[str], bool]


def find_secrets(text: str) -> list[Secret]:
    """List the secrets in a text, in order, none overlapping another."""
    look = Glance(text)
    if len(text) < _SHORTEST or not (look.has_clue or look.runs or look.has_data):
        return []
    secrets = [*_find_plain(look)]
    in_base64 = find_runs(text.encode("ascii", "replace"), _IN_BASE64, SHORTEST_DATA)
    coded = [match for at, _ in in_base64 if (match := _CODED.match(text, at))]
    # Pictures, digests and keys are nearly never ASCII.
    coded = [match for match in coded if a2b_base64(match[1][:24]).isascii()]
    runs = [(match, plain) for match in coded if (plain := a2b_base64(match[1])).isascii()]
    joints = [*accumulate((len(plain) + 1 for _, plain in runs), initial=0)]
    # One search for all of them: a search for each is slow, and a key may go on in the next line.
    joined = Glance(b"\n".join(plain for _, plain in runs).decode())
    for found in _find_plain(joined) if runs else ():
        inside = range(bisect(joints, found.start) - 1, bisect_left(joints, found.end))
        secrets += [Secret(*runs[at][0].span(), "base64") for at in inside]
    # Secrets that overlap become one, of the kind of the first rule that found it.
    merged: list[Secret] = []
    for _, secret in sorted(enumerate(secrets), key=lambda pair: (pair[1].start, pair[0])):
        last = merged[-1] if merged else None
        if last is None or secret.start >= last.end:
            merged.append(secret)
        elif secret.end > last.end:
            merged[-1] = last._replace(end=secret.end)
    return merged


def _find_plain(look: Glance) -> Iterator[Secret]:
    """Find the secrets of a text that are not in base64."""
    library = load_library()
    if "private key" in look.words or "putty" in look.words:
        yield from _find_private_keys(look.text, library)
    if "eyJ" in look.plain:
        yield from _find_web_tokens(look.text, library)
    yield from _find_by_library(look, library)
    yield from _find_keys(look, library)
    yield from _find_named(look, library)
    if look.has_data:
        yield from _find_random(look.text, library)
    yield from find_shapes(look)


def is_secret_name(name: str) -> bool:
    """Return True if a value of this name is a secret, provided that it looks like one."""
    lower = _lower(name)
    return not lower.endswith("name") and load_library().has_name.search(lower) is not None


def is_secret_value(value: str) -> bool:
    """Return True if a value that has such a name looks like a secret."""
    return "\n" not in value and len(value) <= 4_096 and _is_plausible(value, quoted=True)


@cache
def load_tables() -> dict[str, Any]:
    """Read the tables of detectors, keys and names."""
    import tomllib  # slow to import, and only redaction needs it

    return tomllib.loads((get_data(__package__, "data/secrets.toml") or b"").decode())


@cache
def load_library() -> _Library:
    """Load detect-secrets; it takes 0.2 s, so only when it is needed."""
    tables = load_tables()
    try:
        plugins = {name: _plugin(row["module"], name) for name, row in tables["detectors"].items()}
        private = _plugin("private_key", "PrivateKeyDetector")
        measure = _plugin("high_entropy_strings", "Base64HighEntropyString")()
        token = _plugin("jwt", "JwtTokenDetector")
        words = import_module("detect_secrets.plugins.keyword").DENYLIST
        heuristic = import_module("detect_secrets.filters.heuristic")
    except ImportError:
        raise RefoldError(f"redaction needs detect-secrets: {install_hint('redact')}") from None
    rules = []
    for name, row in tables["detectors"].items():
        kind = re.sub(r"[^a-z0-9]+", "-", plugins[name].secret_type.lower()).strip("-")
        for number, pattern in enumerate(plugins[name].denylist):
            if number in row.get("patterns", (number,)):
                near = tuple(row.get("near", ()))
                rules.append(_Rule(kind, tuple(row["hints"]), pattern, near, row.get("group", 0)))
    keys = [
        _Rule(row["kind"], (row["hint"],), re.compile(row["pattern"]), tuple(row.get("near", ())))
        for row in tables["keys"]
    ]
    names = {word.replace("_?", between) for word in (*words, *tables["names"]) for between in ("", "_", "-")}
    return _Library(
        rules=tuple(rules),
        keys=tuple(keys),
        names={end: tuple(names) for end, names in groupby(sorted(names, key=_find_end), _find_end)},
        hints=tuple({hint for rule in (*rules, *keys) if not rule.near for hint in rule.hints}),
        has_name=re.compile("|".join(map(re.escape, names))),
        private=(*(pattern.pattern for pattern in private.denylist), *tables["private"]),
        entropy=measure.calculate_shannon_entropy,
        limit=measure.entropy_limit,
        is_token=token.is_formally_valid,
        is_sequential=heuristic.is_sequential_string,
    )


def _find_end(name: str) -> str:
    """Return the word with which a name ends, by which it is looked for."""
    return next((end for end in _ENDS if name.endswith(end)), name)


def _choose_rules(rules: Iterable[_Rule], look: Glance, library: _Library) -> Iterator[_Rule]:
    """Yield the rules that may find something."""
    hints = {hint for hint in library.hints if hint in look.runs} if look.runs else set()
    for rule in rules if hints or look.words else ():
        if rule.near:
            may_match = any(near in look.words for near in rule.near)
        else:
            may_match = not hints.isdisjoint(rule.hints) and rule.pattern.search(look.runs) is not None
        if may_match and any(hint in look.text for hint in rule.hints):
            yield rule


def _plugin(module: str, name: str) -> Any:
    return getattr(import_module(f"detect_secrets.plugins.{module}"), name)


def _find_by_library(look: Glance, library: _Library) -> Iterator[Secret]:
    text = look.text
    for rule in _choose_rules(library.rules, look, library):
        at = 0
        while match := rule.pattern.search(text, at):
            start, end = match.span(rule.group)
            if rule.group == 0:
                # Some patterns take blanks and marks along at their ends, others stop inside a key.
                while start < end and text[start] in ' \t\r\n=:"':
                    start += 1
                while end > start and text[end - 1] in ' \t\r\n"':
                    end -= 1
                end = max(end, _RUN.match(text, end).end())  # type: ignore[union-attr]
            if rule.group or _DIGIT.search(text, start, end):
                yield Secret(start, end, rule.kind)
            at = max(end, match.end())


def _find_keys(look: Glance, library: _Library) -> Iterator[Secret]:
    text = look.text
    for rule in _choose_rules(library.keys, look, library):
        at = 0
        while match := rule.pattern.search(text, at):
            at = _RUN.match(text, match.end()).end()  # type: ignore[union-attr]
            rest = _REST.match(text, at)
            if _looks_random(match[0]):
                is_next = rest and rule.pattern.match(text, rest.start(1))  # another key
                at = rest.end() if rest and not is_next and _looks_random(rest[1]) else at
                yield Secret(match.start(), at, rule.kind)
    for match in _LETTERS.finditer(text) if "hf_" in look.runs else ():
        if entropy(match[0]) >= _LETTERS_LIMIT:
            yield Secret(*match.span(), "huggingface-token")
    for pattern, hints in ((_BEARER, ("bearer", "basic")), (_AUTH_LINE, ("_auth", "_password="))):
        for match in pattern.finditer(text) if any(hint in look.words for hint in hints) else ():
            if _looks_random(match[1]) and not _DOTTED.fullmatch(match[1]):
                yield Secret(*match.span(1), "authorization")


def _find_named(look: Glance, library: _Library) -> Iterator[Secret]:
    """Yield values that a name gives away, such as `password = "..."`."""
    text, done = look.text, dict[str, int]()
    for end, names in library.names.items():
        ascii_end = end.encode("ascii", "replace").decode()
        at = look.lower.find(ascii_end) if ascii_end in look.words else -1
        while at >= 0:
            after = at + len(end)
            at = look.lower.find(ascii_end, after)
            is_name = len(names) == 1 or look.lower.endswith(names, 0, after)
            if not (is_name and (match := _ASSIGNED.match(text, after))):
                continue
            before, group = _lower(text[max(0, after - _NAME) : after]), match.lastgroup or "bare"
            new = [name for name in names if before.endswith(name) and after - len(name) >= done.get(name, 0)]
            value = match[group]
            if new and _is_plausible(value, quoted=group != "bare") and not library.is_sequential(value):
                yield Secret(*match.span(group), "named-secret")
                done.update(dict.fromkeys(new, match.end()))


def _lower(text: str) -> str:
    # This is the one capital that becomes two characters; every other keeps its place.
    return text.replace("\u0130", "i").lower()


def _find_random(text: str, library: _Library) -> Iterator[Secret]:
    """Yield random values between quotation marks; digests and ids are random too and stay."""
    for match in _QUOTED.finditer(text):
        value = match[2]
        if _DIGEST.match(value) or _ID_BEFORE.search(text[max(0, match.start() - 30) : match.start()]):
            continue
        # In words and paths the kind of character changes seldom, in keys nearly always.
        kinds = value.translate(_KINDS)
        changes = sum(one != two for one, two in pairwise(kinds)) / len(kinds)
        if changes < _CHANGES or not {"a", "A", "0"} <= set(kinds):
            continue
        if library.entropy(value) > library.limit:
            yield Secret(*match.span(2), "high-entropy")


def _find_private_keys(text: str, library: _Library) -> Iterator[Secret]:
    """Yield private keys, from their first line to their last."""
    for first in library.private:
        last = "Private-MAC:" if first.startswith("PuTTY") else "-----END"
        at = text.find(first)
        end = line = at
        while at >= 0:
            after = at + len(first)
            if 0 <= end < after:
                end = text.find(last, after)
            if 0 <= line < after:
                line = next((match.start() for match in _LINE.finditer(text, after)), -1)
            stop = _find_key_end(text, after, end, line)
            if stop:
                while at > 0 and text[at - 1] == "-":
                    at -= 1
                yield Secret(at, stop, "private-key")
            at = text.find(first, stop or after)


def _find_key_end(text: str, after: int, end: int, line: int) -> int:
    """Return where a key ends whose first line ends at `after`; 0 if no key follows.

    end, line   the next last line of a key and the next line of data; -1 if there is none
    """
    if after <= line <= end - _DATA and end <= after + _BLOCK:
        return _LAST_LINE.match(text, end).end()  # type: ignore[union-attr]
    body = _BODY.match(text, after, after + _BLOCK)
    return body.end() if body else 0


def _find_web_tokens(text: str, library: _Library) -> Iterator[Secret]:
    """Yield web tokens: three runs with dots between, the first two of which are JSON."""
    at = text.find("eyJ")
    run = tries = 0
    while at >= 0:
        if at >= run:
            tries = 0
            run = _TOKEN.match(text, at).end()  # type: ignore[union-attr]
        tries += 1
        second = _TOKEN.match(text, run + 1).end() if text[run : run + 1] == "." else 0  # type: ignore[union-attr]
        if second and run - at >= _HEADER and library.is_token(text[at:second]):
            end = _TOKEN_TAIL.match(text, second).end()  # type: ignore[union-attr]
            yield Secret(at, end, "json-web-token")
            at = text.find("eyJ", end)
        else:
            at = text.find("eyJ", at + 3 if second and tries < _STARTS else max(run, at + 3))


def _looks_random(value: str) -> bool:
    """Return True if a value has letters and digits and is more than one pattern again and again."""
    is_mixed = _DIGIT.search(value) and _LETTER.search(value)
    return bool(is_mixed) and entropy(value[:200]) >= RANDOM_BITS


def _is_plausible(value: str, *, quoted: bool) -> bool:
    """Return True if a value that has the name of a secret is one, and no text, name or placeholder."""
    if len(value) < _SHORTEST or not (_DIGIT.search(value) and _LETTER.search(value)):
        return False
    if _PLACEHOLDER.search(value) or _DOTTED.fullmatch(value) or value.startswith(_PLACES):
        return False
    return quoted or (entropy(value) >= RANDOM_BITS and not _VARIABLE.fullmatch(value))
