"""A provider's prefix cache: what of a request it has read before, as long as it remembers."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

KEPT: Final = 8
"""How many requests that share little with each other are remembered; a fold makes one more."""
MINUTES: Final = 300.0
"""Seconds a cache lives without being read, unless told otherwise: Anthropic's default, and the shortest."""


@dataclass(slots=True)
class Line:
    """A request that was read: the names of its messages, and when it was used last."""

    names: list[Hashable]
    used: float


@dataclass(frozen=True, slots=True)
class Hit:
    """How many messages of a request are in the cache."""

    messages: int
    cold: bool = False
    """Whether more of them would be if it had not run out of time."""


@dataclass(slots=True)
class Cache:
    """What was sent, so far as a provider may remember it; a message is known by its name."""

    seconds: float = MINUTES
    lines: list[Line] = field(default_factory=list)

    def read(self, names: Sequence[Hashable], now: float, *, grown: bool = False) -> Hit:
        """Look a request up, and remember it.

        `grown` says that it begins with all of the last one, which saves the comparison.
        """
        last = self.lines[-1] if self.lines else None
        if grown and last is not None and now - last.used <= self.seconds:
            known = len(last.names)
            last.names += names[known:]
            last.used = now
            return Hit(known)
        found = [(common(line.names, names), line) for line in self.lines]
        warm = [(length, line) for length, line in found if now - line.used <= self.seconds]
        known = max((length for length, _ in warm), default=0)
        for length, line in warm:
            if known and length == known:
                line.used = now
        self.lines = [*(line for line in self.lines if now - line.used <= self.seconds), Line([*names], now)]
        del self.lines[:-KEPT]
        return Hit(known, cold=max((length for length, _ in found), default=0) > known)


def common(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """How long the common beginning of two lists is.

    >>> common("fold", "foal")
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
