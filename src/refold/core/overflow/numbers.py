"""The numbers in a refusal for size: the limit, and what was asked for; knows no provider.

Where a message tells the input and the wished output apart (`A + M > B`), what was refused is their sum.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_NUMBER: Final = r"[0-9][0-9,_]{0,15}k?"
_LARGEST: Final = 1_000_000_000
"""No request has more tokens than this; what is larger is a request id, a time or a joke."""

BOTH: Final = (
    r"<input> \+ <output> > <limit>",
    r"<requested> tokens? ?> ?<limit>",
    r"prompt length is <limit> but the request contains <requested>",
    r"too large: <output>\. this model's [a-z ]{1,30} is <limit> tokens and your request has <input>",
    r"is <limit> tokens\. however, you requested <output> output tokens and [a-z ]{1,50} <input>",
    r"\(<requested>(?: tokens)?\) exceed(?:s|ed)? [^()]{0,80}\(<limit>(?: tokens)?\)",
    r"\(<requested> tokens\) is longer than [^()]{0,60}\(<limit> tokens\)",
    r"\(length <requested>\) is longer than the maximum model length of <limit>",
    r"contains <requested> tokens[^.]{0,60}too large for model with <limit>",
    r"token limit: <limit> \(requested: <requested>\)",
    r"token count of <requested> exceeds the limit of <limit>",
    r"<requested> tokens?,? (?:which )?exceeds? (?:the )?(?:[a-z]{1,12} )?limit of <limit>",
    r"must be <= <limit>\. given: <input> `?inputs`? tokens and <output>",
    r"less than <limit> tokens\. given: <requested>",
    r"cannot exceed <limit> - received <requested>",
    r"limit exceeded by <over> tokens.{0,120}limit for this model is <limit>",
    r"max input tokens: <limit>, request input token count: <requested>",
    r"input tokens <requested> cannot exceed the total tokens limit <limit>",
    r"current length is <requested> while limit is <limit>",
    r"prompt is too long: <requested>, model maximum context length: <limit>",
    r"token count is <requested> but [^.]{0,60}up to <limit>",
    r"requested tokens ?\(<requested>\) exceed context window of <limit>",
    r"n_keep: <requested> ?>= ?n_ctx: <limit>",
    r"prompt has <requested> tokens, but the configured context size is <limit>",
    r"input length (?:of )?<requested> (?:tokens )?exceeds [^.0-9]{0,50}<limit>",
    r"(?:tokens?|prompt|input|context|allowed)[^.0-9]{0,20} <requested> (?:>|exceeds) <limit>",
)
"""Shapes that tell both numbers, the most telling first."""

LIMIT: Final = (
    r"max(?:imum)? (?:allowed )?(?:context|prompt|input|model) (?:length|tokens)(?: is| of|:)? \(?<limit>",
    r"context (?:window|length|size|limit)(?: is| of|:)?(?: only)? \(?<limit> ?tokens",
    r"(?:configured|token|tokens|context|model) limit(?: is| of|:) <limit>",
    r"exceeds? the (?:[a-z]{1,12} )?limit of <limit>",
    r"tokens allowed \(?<limit>",
    r"input length should be \[[0-9]{1,3}, <limit>\]",
    r"max size: <limit> tokens",
    r"limit is <limit> tokens",
    r"max tokens of <limit> exceeded",
    r"> <limit> maximum",
)
REQUESTED: Final = (
    r"total of (?:at least )?<requested> tokens",
    r"(?:requested|resulted in|contains|has|received|got)(?: [a-z ]{2,9})? <requested> (?:input )?tokens",
    r"requested: <requested>",
    r"input token count(?: is| of|:)? \(?<requested>",
)
"""Shapes that tell one number, for messages that tell them apart or only one of them."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a refusal says about sizes, in tokens."""

    limit: int | None = None
    requested: int | None = None


def sizes(text: str) -> Sizes:
    """Read the limit and the size that was refused from a text in lower case.

    >>> sizes("prompt is too long: 213,462 tokens > 200,000 maximum")
    Sizes(limit=200000, requested=213462)
    """
    for pattern in _compiled(BOTH):
        if match := pattern.search(text):
            return sane(_told(match.groupdict()))
    limit = next((_number(match["limit"]) for each in _compiled(LIMIT) if (match := each.search(text))), None)
    asked = (match["requested"] for each in _compiled(REQUESTED) if (match := each.search(text)))
    return sane(Sizes(limit, next(map(_number, asked), None)))


def sane(told: Sizes) -> Sizes:
    """Drop numbers that no request has, and a request that does not exceed its limit: it was misread."""
    limit, requested = (
        size if size and 0 < size <= _LARGEST else None for size in (told.limit, told.requested)
    )
    return Sizes(limit, None if limit and requested and requested <= limit else requested)


def _told(found: dict[str, str | None]) -> Sizes:
    told = {key: _number(value) for key, value in found.items() if value}
    limit = told["limit"]
    if "over" in told:
        return Sizes(limit, limit + told["over"])
    return Sizes(limit, told["input"] + told["output"] if "output" in told else told["requested"])


def _number(text: str) -> int:
    digits = text.rstrip("k").replace(",", "").replace("_", "")
    return int(digits) * (1_000 if text.endswith("k") else 1)


@lru_cache(maxsize=8)
def _compiled(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(re.sub(r"<(\w+)>", rf"(?P<\1>{_NUMBER})", each)) for each in patterns)
