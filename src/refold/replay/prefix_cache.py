"""Simulate a provider's prefix cache: how much of a request it has read before."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

MAX_REQUESTS: Final = 8
"""Requests that are remembered; each fold begins a new one."""
DEFAULT_SECONDS: Final = 300.0
"""Seconds that an entry lives without being read: Anthropic's default, the shortest of the providers."""


@dataclass(slots=True)
class CachedRequest:
    """A request in the cache: the names of its messages, and when it was last used."""

    names: list[Hashable]
    used: float


@dataclass(frozen=True, slots=True)
class CacheHit:
    """The number of messages of a request that the cache has."""

    messages: int
    cold: bool = False
    """True if more would be there without the time limit."""


@dataclass(slots=True)
class PrefixCache:
    """The requests that a provider may still have in its cache."""

    seconds: float = DEFAULT_SECONDS
    lines: list[CachedRequest] = field(default_factory=list)

    def read(self, names: Sequence[Hashable], now: float, *, grown: bool = False) -> CacheHit:
        """Look a request up, and remember it.

        `grown` says that it begins with all of the last one, which saves the comparison.
        """
        last = self.lines[-1] if self.lines else None
        if grown and last is not None and now - last.used <= self.seconds:
            known = len(last.names)
            last.names += names[known:]
            last.used = now
            return CacheHit(known)
        lengths = [(common_prefix_length(line.names, names), line) for line in self.lines]
        warm = [(length, line) for length, line in lengths if now - line.used <= self.seconds]
        known = max((length for length, _ in warm), default=0)
        for length, line in warm:
            if known and length == known:
                line.used = now
        self.lines = [
            *(line for line in self.lines if now - line.used <= self.seconds),
            CachedRequest([*names], now),
        ]
        del self.lines[:-MAX_REQUESTS]
        return CacheHit(known, cold=max((length for length, _ in lengths), default=0) > known)


def common_prefix_length(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Return the length of the common beginning of two lists.

    >>> common_prefix_length("fold", "foal")
    2
    """
    most = min(len(one), len(other))
    low = 0
    step = 64
    while low < most and one[low : low + step] == other[low : low + step] and low + step <= most:
        low += step
    while low < most and one[low] == other[low]:
        low += 1
    return low
