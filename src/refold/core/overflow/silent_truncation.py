"""Whether a provider cut a request without a word, told by how little it says it has read.

Servers that run a model in a small window (Ollama with its `num_ctx`) leave out what does not fit and answer
as if nothing had happened. The only trace is the report: far less than was sent, and a round number.
"""

from collections.abc import Sequence
from typing import Final

from refold.core.tokens.usage import MOST

SHARE: Final = 0.6
"""Less than this share of what was expected to be read is far less.

Estimates are 14 to 18 % off on average; content that is nearly all digits or base64 may be 35 % off. Higher
would take a bad estimate for truncation and fold for nothing; lower misses a history just over the window,
which the next turns bring further over it.
"""
_STEPS: Final = (1_024, 5_000)
"""Windows are set to multiples of these."""
_EXACT: Final = 16
"""How far from a round window a report may be when the text was cut in the middle.

Ollama cuts to `num_ctx`, newer ones to half of it and 2 or 3 tokens: 2,050 of 4,096; 16,386 of 32,768.
"""
_UNDER: Final = 0.06
"""How far under a power of two it may be when whole messages were left out until the rest did fit."""
_LEAST: Final = 2_048
"""The smallest window a server has by default (old Ollama)."""
_RATIO: Final = (0.25, 4.0)
"""No count is further from the estimate than that; what is further is no calibration."""


def truncated_silently(sent_tokens: int, reported_tokens: int, *, ratios: Sequence[float] = ()) -> bool:
    """Say whether a provider read far less than it was sent, and as much as a round window holds.

    ratios   reported / estimated tokens of earlier requests of the same model; the lowest one counts

    Both signs are needed: a server that reports only what it did not find in its cache reports little too.
    A number by chance lies near a round window in one case of eight.

    >>> [truncated_silently(sent, 16_386) for sent in (50_000, 20_000)], truncated_silently(50_000, 17_000)
    ([True, False], False)
    """
    low, high = _RATIO
    ratio = min((ratio for ratio in ratios if low <= ratio <= high), default=1.0)
    return 0 < reported_tokens < SHARE * ratio * sent_tokens and implied_limit(reported_tokens) is not None


def implied_limit(reported_tokens: int) -> int | None:
    """The round window at which a request seems to have been cut; None where the number is not near one.

    Where half a window was left, that half is given: more was never seen to be read.

    >>> implied_limit(16_386), implied_limit(3_980), implied_limit(10_000), implied_limit(5_500)
    (16384, 4096, 10000, None)
    """
    if not _LEAST * (1 - _UNDER) <= reported_tokens <= MOST:
        return None
    for step in _STEPS:
        near = (reported_tokens + step // 2) // step * step
        if abs(reported_tokens - near) <= _EXACT:
            return near
    power = 1 << (reported_tokens - 1).bit_length()
    return power if reported_tokens >= power * (1 - _UNDER) else None
