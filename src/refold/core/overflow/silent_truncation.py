"""Decide from two reports of usage whether a provider cuts requests without an error.

Servers that run a model in a small window (Ollama with its `num_ctx`) leave out what does not fit and answer
as if nothing had happened. The only trace is in the reports: far less than was sent, the same round number
though the requests grow. One report proves nothing: a server that reports only what was not in its cache
reports little as well.
"""

from typing import Final

from refold.core.tokens.calibration import LEAST_SHARE, Counted
from refold.core.tokens.usage import MAX_REPORTED_TOKENS

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
_LEAST_GROWTH: Final = 4 * _EXACT
"""Tokens that were sent more in the second request: a report of all of it would show them."""


def cut_silently(first: Counted, second: Counted) -> bool:
    """True if two requests, one behind the other, were cut at the same round window.

    A report of what was not in a cache is as large as what is new, and a report of everything grows with it.

    >>> cut_silently(Counted(50_000, 16_386), Counted(50_500, 16_386))
    True
    >>> cut_silently(Counted(50_000, 4_000), Counted(54_000, 4_000))
    False
    """
    grown = second.estimate - first.estimate
    limit = implied_limit(second.reported)
    return (
        limit is not None
        and limit == implied_limit(first.reported)
        and all(counted.reported < LEAST_SHARE * counted.estimate for counted in (first, second))
        and _LEAST_GROWTH <= grown <= second.reported / 2
        and second.reported - first.reported < grown / 4
    )


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
