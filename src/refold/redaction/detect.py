"""Finds secrets in text, with the patterns of detect-secrets where the extra `refold[redact]` is installed.

Of the library come the patterns of single services, the words that name secrets, the measure of entropy and
the judgement of web tokens. Its patterns that can take more than linear time on hostile text are not run; a
bounded rule of ours stands for each. The service is never asked whether a secret is real. Why so, and what it
finds: `docs/decisions/0010-redaction.md`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from math import log2
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any, Final, NamedTuple

from refold.errors import RefoldError
from refold.redaction.secret_shapes import shapes

_SHORTEST: Final = 6
"""Characters; nothing shorter is taken for a secret."""
_RUN: Final = re.compile(r"[A-Za-z0-9_-]*+")
_ENTROPY_LIMIT: Final = 3.0
"""Bits a character of a key with a known prefix; lower finds keys made up for documents."""

LIBRARY: Final[dict[str, tuple[str, tuple[str, ...], tuple[int, ...] | None]]] = {
    "ArtifactoryDetector": ("artifactory", ("AKC", "AP"), None),
    "AWSKeyDetector": ("aws", ("A3T", "ABIA", "ACCA", "AKIA", "ASIA"), (0,)),
    "AzureStorageKeyDetector": ("azure_storage_key", ("AccountKey=",), None),
    "BasicAuthDetector": ("basic_auth", ("://",), None),
    "CloudantDetector": ("cloudant", (".cloudant.com",), (2, 3)),
    "DiscordBotTokenDetector": ("discord", (".",), None),
    "GitHubTokenDetector": ("github_token", ("gh",), None),
    "GitLabTokenDetector": ("gitlab_token", ("gl", "GR1348941"), None),
    "MailchimpDetector": ("mailchimp", ("-us",), None),
    "PypiTokenDetector": ("pypi_token", ("pypi-",), None),
    "SendGridDetector": ("sendgrid", ("SG.",), None),
    "SlackDetector": ("slack", ("xox", "XOX", "hooks.slack.com"), None),
    "SoftlayerDetector": ("softlayer", ("api.softlayer.com",), (1,)),
    "SquareOAuthDetector": ("square_oauth", ("sq0csp-",), None),
    "StripeDetector": ("stripe", ("k_live_",), None),
    "TelegramBotTokenDetector": ("telegram_token", (":",), None),
    "TwilioKeyDetector": ("twilio", ("AC", "SK"), None),
}
"""Module of each detector that is run whole, texts of which one must occur, and which of its patterns."""

OTHERWISE: Final = {
    "IPPublicDetector": "an address is no secret",
    "IbmCloudIamDetector": "blanks can make it slow; the rule for named values finds what it finds",
    "IbmCosHmacDetector": "the same",
    "JwtTokenDetector": "can be slow; the same shape is found in one pass and judged by the library",
    "NpmDetector": "can be slow; our own rule for npm stands for it",
    "OpenAIDetector": "can be slow; our own rule for keys that begin with sk- stands for it",
    "PrivateKeyDetector": "finds the first line only; the whole block must go",
}
"""Detectors of the library that are not run as they are, each with the reason."""

_VALUE_ONLY: Final = frozenset({"BasicAuthDetector", "CloudantDetector", "SoftlayerDetector"})
"""Detectors whose first group is the secret; of the others the whole match is."""

_PREFIXES: Final = (
    ("anthropic-key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{16,}"),
    ("api-key", "sk-", r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{20,}"),
    ("google-key", "AIza", r"AIza[A-Za-z0-9_-]{35}"),
    ("google-token", "ya29.", r"ya29\.[A-Za-z0-9_-]{20,}"),
    ("google-secret", "GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]{20,}"),
    ("huggingface-token", "hf_", r"hf_[A-Za-z0-9]{30,}"),
    ("groq-key", "gsk_", r"gsk_[A-Za-z0-9]{40,}"),
    ("xai-key", "xai-", r"xai-[A-Za-z0-9]{40,}"),
    ("replicate-token", "r8_", r"r8_[A-Za-z0-9]{36,}"),
    ("perplexity-key", "pplx-", r"pplx-[A-Za-z0-9]{40,}"),
    ("nvidia-key", "nvapi-", r"nvapi-[A-Za-z0-9_-]{40,}"),
    ("github-token", "github_pat_", r"github_pat_[A-Za-z0-9_]{40,}"),
    ("npm-token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    ("slack-token", "xox", r"xox[a-z]-[A-Za-z0-9-]{20,}"),
    ("slack-token", "xapp-", r"xapp-[0-9]-[A-Za-z0-9-]{20,}"),
    ("stripe-key", "k_test_", r"[rs]k_test_[A-Za-z0-9]{16,}"),
    ("stripe-secret", "whsec_", r"whsec_[A-Za-z0-9+/=]{32,}"),
    ("digitalocean-token", "_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    ("shopify-token", "shp", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    ("docker-token", "dckr_pat_", r"dckr_pat_[A-Za-z0-9_-]{27}"),
    ("vault-token", "hvs.", r"hvs\.[A-Za-z0-9_-]{24,}"),
    ("age-key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
)
"""Keys that say themselves what they are and that the library does not know: kind, text that must occur,
pattern. Each also has to look random."""

_LETTERS: Final = re.compile(
    r"(?<![A-Za-z0-9_])hf_(?=[a-z]{0,33}[A-Z])(?=[A-Z]{0,33}[a-z])[A-Za-z]{34}(?![A-Za-z0-9_])"
)
_LETTERS_LIMIT: Final = 4.0
"""A key of letters alone, which no other rule takes for random, has so many bits a character."""

_WORDS: Final = (
    *(f"{what}_?token" for what in ("access", "auth", "api", "bearer", "bot", "refresh", "session")),
    *(f"{what}_?key" for what in ("access", "secret", "signing", "encryption")),
    "passphrase",
)
"""Names of secrets besides the library's own."""
_ASSIGNED: Final = re.compile(
    r"\w{0,40}+(?:\\{0,8}[\"'`]\]?)?[ \t]{0,16}(?:=>|:=|={1,3}|!==?|:)[ \t]{0,16}@?(?:"
    r"(?P<quote>[\"'`])(?P<quoted>(?:(?!(?P=quote))[^\\\n]|\\[^\n]){6,200})(?P=quote)"
    r"|(?P<escaped>\\{1,8}[\"'])(?P<inside>[^\"'\\\n]{6,200})(?P=escaped)"
    r"|(?P<bare>[^\s\"'`,;<>(){}\[\]\\]{10,200}))"
)
"""What stands behind a name: `= "value"` and its like. Every repetition is bounded, so no place costs more
than another."""
_VARIABLE: Final = re.compile(r"[A-Za-z_]+[0-9]{0,3}[:.]?")
_ID_BEFORE: Final = re.compile(r"(?i)id\\{0,8}[\"']?\s{0,4}[:=]\s{0,4}\\{0,8}\Z")
_BEARER: Final = re.compile(r"(?i:\b(?:bearer|basic))[ \t]{1,4}([A-Za-z0-9._~+/=-]{16,})")
_AUTH_LINE: Final = re.compile(r"_(?:authToken|auth|password)=[ \t]{0,4}([A-Za-z0-9+/=_.-]{16,})")
_QUOTED: Final = re.compile(r"""(["'`])([A-Za-z0-9+/_=-]{24,200})\1""")
_PLACEHOLDER: Final = re.compile(
    r"(?i)your|example|placeholder|change_?me|dummy|sample|insert|replace|redacted|x{4}|\*{3}|\.{3}|%[sd]\b|%\w+%"
    r"|[<>{}$()\s]"
)
_DIGIT: Final = re.compile(r"[0-9]")
_LETTER: Final = re.compile(r"[^\W\d_]")
_PLACES: Final = ("/", "./", "http:", "https:")
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_DIGEST: Final = re.compile(r"sha(?:1|224|256|384|512)[-_:]")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_=-]*+")
_TOKEN_TAIL: Final = re.compile(r"[A-Za-z0-9_.+/=-]*+")
_BLOCK: Final = 16_384
"""Characters within which a private key has to end; longer than any in use."""
_BODY: Final = re.compile(r"-*(?:\s|\\+[nrt])*+(?:[A-Za-z0-9+/=]{16,}+(?:\s|\\+[nrt])*+)+")
_LINE: Final = re.compile(r"[A-Za-z0-9+/=]{32}")
_LAST_LINE: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}-{0,5}|Private-MAC:[ 0-9a-f]{0,100}|-----END")
_KINDS: Final = {
    ord(c): k for k, cs in (("a", ascii_lowercase), ("A", ascii_uppercase), ("0", digits)) for c in cs
}
_HEADER: Final = 12
"""Characters of the shortest first part of a web token, `{"alg":""}`, less some."""
_STARTS: Final = 16
"""How often a web token may seem to begin in one unbroken run before the rest of the run is passed over."""


class Secret(NamedTuple):
    """Where a secret stands in a text."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class _Library:
    """What is used of the library."""

    rules: tuple[tuple[str, tuple[str, ...], re.Pattern[str], int], ...]
    """Kind, texts of which one must occur, pattern, group."""
    names: tuple[str, ...]
    """Words in the names of secrets, in small letters."""
    private: tuple[str, ...]
    entropy: Callable[[str], float]
    limit: float
    is_token: Callable[[str], bool]
    is_sequential: Callable[[str], bool]


def find(text: str) -> list[Secret]:
    """The secrets in a text, in order, none overlapping another."""
    if len(text) < _SHORTEST:
        return []
    library = load()
    found = [*_blocks(text, library), *_tokens(text, library), *_known(text, library), *_own(text)]
    found += [*_named(text, library), *_random(text, library)]
    found += [Secret(*shape) for shape in shapes(text)]
    return _merged(found)


def is_secret_name(name: str) -> bool:
    """Whether a value of this name is a secret, if it looks like one."""
    small = _small(name)
    return any(word in small for word in load().names)


def is_secret_value(value: str) -> bool:
    """Whether a value that has such a name looks like a secret."""
    return "\n" not in value and len(value) <= 4_096 and _plausible(value, quoted=True)


@cache
def load() -> _Library:
    """Load the library; dear, so only when it is needed."""
    try:
        plugins = {name: _plugin(module, name) for name, (module, _, _) in LIBRARY.items()}
        private = _plugin("private_key", "PrivateKeyDetector")
        entropy = _plugin("high_entropy_strings", "Base64HighEntropyString")()
        token = _plugin("jwt", "JwtTokenDetector")
        words = import_module("detect_secrets.plugins.keyword").DENYLIST
        heuristic = import_module("detect_secrets.filters.heuristic")
    except ImportError:
        raise RefoldError("redaction needs detect-secrets: pip install 'refold[redact]'") from None
    names = {word.replace("_?", between) for word in (*words, *_WORDS) for between in ("", "_", "-")}
    return _Library(
        rules=tuple(_rules(plugins)),
        names=tuple(sorted(names)),
        private=tuple(pattern.pattern for pattern in private.denylist),
        entropy=entropy.calculate_shannon_entropy,
        limit=entropy.entropy_limit,
        is_token=token.is_formally_valid,
        is_sequential=heuristic.is_sequential_string,
    )


def _plugin(module: str, name: str) -> Any:
    return getattr(import_module(f"detect_secrets.plugins.{module}"), name)


def _rules(plugins: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...], re.Pattern[str], int]]:
    for name, plugin in plugins.items():
        _, texts, chosen = LIBRARY[name]
        kind = re.sub(r"[^a-z0-9]+", "-", plugin.secret_type.lower()).strip("-")
        for number, pattern in enumerate(plugin.denylist):
            if chosen is None or number in chosen:
                yield kind, texts, pattern, 1 if name in _VALUE_ONLY else 0


def _known(text: str, library: _Library) -> Iterator[Secret]:
    for kind, texts, pattern, group in library.rules:
        if any(known in text for known in texts):
            at = 0
            while match := pattern.search(text, at):
                start, end = match.span(group)
                if group == 0:
                    start, end = _trimmed(text, start, end)
                    end = max(end, _RUN.match(text, end).end())  # type: ignore[union-attr]
                if group or _DIGIT.search(text, start, end):
                    yield Secret(start, end, kind)
                at = max(end, match.end())


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """A match without the blanks and marks that a pattern takes along at its ends."""
    while start < end and text[start] in ' \t\r\n=:"':
        start += 1
    while end > start and text[end - 1] in ' \t\r\n"':
        end -= 1
    return start, end


@cache
def _prefixes() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    return tuple((kind, text, re.compile(pattern)) for kind, text, pattern in _PREFIXES)


def _own(text: str) -> Iterator[Secret]:
    for kind, known, pattern in _prefixes():
        if known in text:
            at = 0
            while match := pattern.search(text, at):
                at = _RUN.match(text, match.end()).end()  # type: ignore[union-attr]
                if _looks_random(match[0]):
                    yield Secret(match.start(), at, kind)
    for match in _LETTERS.finditer(text) if "hf_" in text else ():
        if _bits(match[0]) >= _LETTERS_LIMIT:
            yield Secret(*match.span(), "huggingface-token")
    yield from _authorised(text)


def _authorised(text: str) -> Iterator[Secret]:
    for pattern in (_BEARER, _AUTH_LINE):
        for match in pattern.finditer(text):
            if _looks_random(match[1]) and not _DOTTED.fullmatch(match[1]):
                yield Secret(*match.span(1), "authorization")


def _named(text: str, library: _Library) -> Iterator[Secret]:
    small = _small(text)
    for name in library.names:
        at = small.find(name)
        while at >= 0:
            after = at + len(name)
            if match := _ASSIGNED.match(text, after):
                group = match.lastgroup or "bare"
                value = match[group]
                if _plausible(value, quoted=group != "bare") and not library.is_sequential(value):
                    yield Secret(*match.span(group), "named-secret")
                    after = match.end()
            at = small.find(name, after)


def _small(text: str) -> str:
    """The text in small letters, each in its place: this is the one capital that becomes two characters."""
    return text.replace("\u0130", "i").lower()


def _random(text: str, library: _Library) -> Iterator[Secret]:
    for match in _QUOTED.finditer(text):
        value = match[2]
        if (
            _changes(value) < 0.4
            or _DIGEST.match(value)
            or _ID_BEFORE.search(text[max(0, match.start() - 30) : match.start()])
        ):
            continue
        if library.entropy(value) > library.limit:
            yield Secret(*match.span(2), "high-entropy")


def _blocks(text: str, library: _Library) -> Iterator[Secret]:
    """Private keys, from their first line to their last."""
    for first in library.private:
        last = "Private-MAC:" if first.startswith("PuTTY") else "-----END"
        at = text.find(first)
        end = at
        while at >= 0:
            after = at + len(first)
            if 0 <= end < after:
                end = text.find(last, after)
            stop = _block_end(text, after, end)
            if stop:
                while at > 0 and text[at - 1] == "-":
                    at -= 1
                yield Secret(at, stop, "private-key")
            at = text.find(first, stop or after)


def _block_end(text: str, after: int, end: int) -> int:
    """Where a key ends whose first line ends here; 0 where no key follows."""
    if after <= end <= after + _BLOCK and _LINE.search(text, after, end):
        return _LAST_LINE.match(text, end).end()  # type: ignore[union-attr]
    body = _BODY.match(text, after, after + _BLOCK)
    return body.end() if body else 0


def _tokens(text: str, library: _Library) -> Iterator[Secret]:
    """Web tokens: three runs with dots between, the first two of which are JSON."""
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
    """Whether a value has letters and digits and is more than one pattern again and again."""
    mixed = _DIGIT.search(value) and _LETTER.search(value)
    return bool(mixed) and _bits(value[:200]) >= _ENTROPY_LIMIT


def _bits(value: str) -> float:
    """Shannon entropy, in bits a character."""
    return -sum(n / len(value) * log2(n / len(value)) for n in Counter(value).values())


def _plausible(value: str, *, quoted: bool) -> bool:
    """Whether a value that has the name of a secret is one, and no text, name or place-holder."""
    if len(value) < _SHORTEST or not (_DIGIT.search(value) and _LETTER.search(value)):
        return False
    if _PLACEHOLDER.search(value) or _DOTTED.fullmatch(value) or value.startswith(_PLACES):
        return False
    return quoted or (_bits(value) >= _ENTROPY_LIMIT and not _VARIABLE.fullmatch(value))


def _changes(value: str) -> float:
    """How often the kind of character changes, a character: in words and paths seldom, in keys always."""
    kinds = value.translate(_KINDS)
    if not {"a", "A", "0"} <= set(kinds):
        return 0.0
    return sum(one != two for one, two in pairwise(kinds)) / len(kinds)


def _merged(found: list[Secret]) -> list[Secret]:
    """The secrets in order, those that overlap made one, by the name of the first rule that found it."""
    done: list[Secret] = []
    for _, secret in sorted(enumerate(found), key=lambda pair: (pair[1].start, pair[0])):
        last = done[-1] if done else None
        if last is None or secret.start >= last.end:
            done.append(secret)
        elif secret.end > last.end:
            done[-1] = last._replace(end=secret.end)
    return done
