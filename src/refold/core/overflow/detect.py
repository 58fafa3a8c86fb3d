"""Whether an error is a refusal for size, who refused, and which numbers it told; never raises.

    >>> overflow("prompt is too long: 213462 tokens > 200000 maximum")
    OverflowInfo(provider='anthropic', limit=200000, requested=213462)
    >>> overflow("Rate limit reached: 40000 tokens per minute") is None
    True

Numbers are given as told. What is *learned* from them must lie in `LEARNABLE`: an error text can be forged.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from refold.core.models.model_names import canonical
from refold.core.overflow.error_text import Evidence, gather
from refold.core.overflow.numbers import Sizes, sane, sizes
from refold.core.overflow.patterns import (
    BARE,
    BYTES,
    ELSE,
    LOOSE,
    NO_BODY,
    RATE,
    SURE,
    TOO_LARGE,
    WEIGHT,
    Sign,
)
from refold.core.overflow.providers import IMITATED, host, refuser
from refold.errors import AnswerFailed, Overflow

LEARNABLE: Final = range(4_096, 10_000_001)
"""Windows that may be believed on a provider's word; no model in use has less, none has more."""


@dataclass(frozen=True, slots=True)
class OverflowInfo:
    """A refusal for size: who refused, at which limit, and what was asked for; None where it is not told."""

    provider: str | None
    limit: int | None
    requested: int | None

    @property
    def learnable(self) -> int | None:
        """The limit, where it may be believed."""
        return self.limit if self.limit in LEARNABLE else None


def overflow(error: object, *, provider: str | None = None) -> OverflowInfo | None:
    """Say whether an error is a refusal for size.

    Takes exceptions (with causes, groups, bodies and responses), texts, bytes, dicts, lists, event streams
    and finish reasons. `provider` is who was asked, where the caller knows it.
    """
    if type(error) is OverflowInfo:
        return error
    if type(error) is AnswerFailed and type(error.cause) is Overflow:  # a talker has read the refusal
        error = error.cause
    if type(error) is Overflow:
        return OverflowInfo(error.provider, error.limit, error.requested)
    asked = canonical(provider) if provider else None
    told = gather(error)
    refusals = [refusal for each in told if (refusal := _refusal(each, asked))]
    if not refusals:
        return None
    signs, texts = [each.sign for each in refusals if each.sign], [each.text for each in refusals]
    best = max((each.sizes for each in refusals), key=lambda size: bool(size.limit) + bool(size.requested))
    return OverflowInfo(asked or refuser(told, signs, texts), best.limit, best.requested)


def usage_overflow(input_tokens: int, window: int) -> bool:
    """Say whether a finished answer was given on more input than fits: the provider cut it in silence.

    Input counts with what was read from a cache. Exactly full is not over.
    """
    return input_tokens > window


@dataclass(frozen=True, slots=True)
class _Refusal:
    text: str
    sizes: Sizes
    sign: Sign | None = None


_NAMED: Final = Sign(None, r"context(?:window|length|limit)?(?:exceed|overflow)", "ContextOverflowError")
_EMPTY: Final = Sign("cerebras", NO_BODY, "400 status code (no body)")
_CAPITAL: Final = Sign("bedrock", r"Input is too long", "Input is too long")
"""The document of NeuroLink tells two providers apart by one capital letter; nothing else does."""

_FILLER: Final = r"\b(?:(?:api|provider|request|llm|model|http|server) )?(?:error|failed|failure)\b(?: code)?"
_ANSWERED: Final = (
    r"https?://[^\s'\"]{1,300}|\b(?:bad request|error code|client error|status code|for url)\b"
    r"|for more information check|[^a-z]"
)


def _refusal(evidence: Evidence, asked: str | None) -> _Refusal | None:
    text = _plain("\n".join(evidence.texts))
    if sign := _sure(text, evidence) or _loose(text, evidence):
        return _Refusal(text, _sizes(text, evidence), sign)
    if _without_body(text, evidence, asked):
        return _Refusal(text, Sizes(), _EMPTY)
    if "model_context_window_exceeded" in evidence.finishes or _bare(text) or _too_large(text, evidence):
        return _Refusal(text, _sizes(text, evidence))
    return None


def _sure(text: str, evidence: Evidence) -> Sign | None:
    found = [
        sign for sign, pattern in _compiled(SURE) if (match := pattern.search(text)) and _meant(text, match)
    ]
    if found:
        return next((sign for sign in found if sign.provider and sign.provider not in IMITATED), found[0])
    return _NAMED if _pattern(_NAMED.pattern).search("\n".join(evidence.kinds).lower()) else None


def _meant(text: str, match: re.Match[str]) -> bool:
    return not _pattern(f"{RATE}|{WEIGHT}").search(_sentence(text, match))


def _loose(text: str, evidence: Evidence) -> Sign | None:
    if evidence.statuses & {401, 402, 403, 429} or _pattern(ELSE).search(text):
        return None
    found = next((sign for sign, pattern in _compiled(LOOSE) if pattern.search(text)), None)
    if found is None or _names_an_id(text):
        return None
    capital = found.pattern == "input is too long" and any(
        _CAPITAL.pattern in each for each in evidence.texts
    )
    return _CAPITAL if capital else found


def _names_an_id(text: str) -> bool:
    """Whether the string that is too long is a name or an id, not a conversation."""
    match = _pattern(r"string with maximum length ([0-9]{1,12})").search(text)
    return match is not None and int(match[1]) < 10_000


def _bare(text: str) -> bool:
    if len(text) > 120 or _pattern(RATE).search(text):
        return False
    words = _pattern(r"\b(?:exceeded|400|413|500)\b|[^a-z_ ]").sub(" ", _pattern(_FILLER).sub("", text))
    return " ".join(words.split()) in BARE


def _too_large(text: str, evidence: Evidence) -> bool:
    told = 413 in evidence.statuses or _pattern(TOO_LARGE).search(text) is not None
    return told and not _pattern(f"{RATE}|{BYTES}").search(text)


def _without_body(text: str, evidence: Evidence, asked: str | None) -> bool:
    silent = evidence.empty or (bool(evidence.kinds) and not text)
    empty = 400 in evidence.statuses and silent and not _pattern(_ANSWERED).sub("", text)
    if not empty and not _pattern(NO_BODY).search(text):
        return False
    who = asked or host([evidence], [text])
    nobody_is_named = who is None and not evidence.places and "://" not in text
    return who == "cerebras" or nobody_is_named


def _sizes(text: str, evidence: Evidence) -> Sizes:
    fields = evidence.numbers
    return sane(Sizes(fields["n_ctx"], fields.get("n_prompt_tokens"))) if "n_ctx" in fields else sizes(text)


def _plain(text: str) -> str:
    for written, meant in (("\\u003e", ">"), ("&gt;", ">"), ("\u2019", "'"), ("\\n", " "), ('\\"', '"')):
        text = text.replace(written, meant)
    return re.sub(r"[ \t\r\f\v]+", " ", text).strip().lower()


def _sentence(text: str, match: re.Match[str]) -> str:
    end = _pattern(r"[.;](?= |$)|\n")
    before = end.split(text[max(0, match.start() - 200) : match.start()])[-1]
    return before + match[0] + end.split(text[match.end() : match.end() + 200], maxsplit=1)[0]


@lru_cache(maxsize=64)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@lru_cache(maxsize=4)
def _compiled(signs: tuple[Sign, ...]) -> tuple[tuple[Sign, re.Pattern[str]], ...]:
    return tuple((sign, re.compile(sign.pattern)) for sign in signs)
