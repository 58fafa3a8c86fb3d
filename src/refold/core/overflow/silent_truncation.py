"""Decide from the reported usage whether a provider cut a request without an error.

Servers that run a model in a small window (Ollama with its `num_ctx`) leave out what does not fit and answer
as if nothing had happened. The only trace is the report: far less than was sent, and a round number.
"""

from collections.abc import Sequence
from typing import Final

from refold.core.tokens.usage import MAX_REPORTED_TOKENS

SHARE: Final = 0.6
"""A report below this share of the expected size is far less.

Estimates are 14 to 18 % off on average; content that is nearly all digits or base64 may be 35 % off
(docs/decisions/0003). Higher would take a bad estimate for truncation and compact for nothing. Lower misses
a history just over the window, which the next turns bring further over it.
"""
_STEPS: Final = (1_024, 5_000)
"""Windows are configured as multiples of these."""
_EXACT: Final = 16
"""Distance in tokens from a round window if the text was cut in the middle.

Ollama cuts to `num_ctx`, newer ones to half of it and 2 or 3 tokens: 2,050 of 4,096; 16,386 of 32,768.
"""
_UNDER: Final = 0.06
"""Share below a power of two if whole messages were left out until the rest did fit."""
_LEAST: Final = 2_048
"""The smallest default window of a server (old Ollama)."""
_RATIO: Final = (0.25, 4.0)
"""No true count is further from the estimate; a ratio outside is ignored."""


def truncated_silently(sent_tokens: int, reported_tokens: int, *, ratios: Sequence[float] = ()) -> bool:
    """True if a provider read far less than it was sent, and as much as a round window holds.

    ratios   reported / estimated tokens of earlier requests to the same model; the lowest one counts

    Both signs are needed: a server that reports only uncached tokens reports little as well. A number lies
    near a round window by chance in one case of eight.

    >>> [truncated_silently(sent, 16_386) for sent in (50_000, 20_000)], truncated_silently(50_000, 17_000)
    ([True, False], False)
    """
    low, high = _RATIO
    ratio = min((ratio for ratio in ratios if low <= ratio <= high), default=1.0)
    return 0 < reported_tokens < SHARE * ratio * sent_tokens and implied_limit(reported_tokens) is not None


def implied_limit(reported_tokens: int) -> int | None:
    """Return the round window at which a request seems to have been cut; None if none is near.

    If a server kept half a window, that half is returned: it was never seen to read more.

    >>> implied_limit(16_386), implied_limit(3_980), implied_limit(10_000), implied_limit(5_500)
    (16384, 4096, 10000, None)
    """
    if not _LEAST * (1 - _UNDER) <= reported_tokens <= MAX_REPORTED_TOKENS:
        return None
    for step in _STEPS:
        near = (reported_tokens + step // 2) // step * step
        if abs(reported_tokens - near) <= _EXACT:
            return near
    power = 1 << (reported_tokens - 1).bit_length()
    return power if reported_tokens >= power * (1 - _UNDER) else None
