"""Compare a provider's counts with our estimates: which report is believed, and what it says of other sizes.

A report may leave tokens out: some servers report only what was not in their cache, others cut a request and
report the rest. Such a report says less than was sent, and a context that is taken as too small is refused.
"""

from dataclasses import dataclass
from typing import Final

LEAST_SHARE: Final = 0.6
"""A report below this share of the expected size is no count of all that was sent.

Estimates are 14 to 18 % off on average; content that is nearly all digits or base64 may be 35 % off
(docs/decisions/0003). Higher would doubt a bad estimate's true report, and the context would be taken as
larger than it is until the next report confirms it. Lower would believe reports that leave tokens out.
"""
MOST_OVER_WINDOW: Final = 10.0
"""A report over this many windows, and as many times what was expected, is no count of one request; sums over
a whole run look like that. Lower would ignore a true report about a window that was set too small."""
LARGEST_WINDOW: Final = 10_000_000
"""Tokens that no request has, unless somebody gave a larger window; such a report is ignored as a whole."""
LEAST_RATIO, MOST_RATIO = 0.25, 4.0
"""Bounds of a learned ratio. A count that is further off has parts that are not in the history, such as tools
that the session was not told of, and new messages do not grow by it."""
_STEADY: Final = 0.4
"""Share by which the growth of two low reports may differ from their ratio, if they confirm each other."""
_SAME: Final = 0.15
"""Share by which our estimate of new messages may be off if their count is recognised in a report. Higher
would doubt more true reports; what is then taken as used is too high by this share at most."""
_COMPARABLE: Final = 0.25
"""Share of a request that an earlier one must have had, if its ratio is to hold for this one."""
_MORE_THAN_NEW: Final = 1.5
"""A report over this many times what is new counts more than that, though the estimate may be a third off."""


@dataclass(frozen=True, slots=True)
class Counted:
    """One request: our estimate, and what the provider reported for it, in tokens."""

    estimate: int
    reported: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How a provider counts, as the reports that were believed have shown; before the first, as we count.

    >>> Calibration(ratio=1.25, scale=1.0, last=Counted(20_000, 25_000)).tokens(5_000)
    10000
    """

    ratio: float = 1.0
    """Reported tokens for one estimated token, in the whole of the last request."""
    scale: float = 1.0
    """Reported tokens for one estimated token, in new messages."""
    last: Counted = Counted(0, 0)

    def tokens(self, estimate: int) -> int:
        """Return what the provider would report for a request of this estimated size.

        What it counts beside our estimate may lie in the messages or in parts that stay, such as tools that
        we do not know of. Of a smaller request the larger reading is taken, because a context that is too
        large is refused; in a larger one new messages count as new ones did before.
        """
        new = estimate - self.last.estimate
        grown = self.last.reported + new * self.scale
        is_larger = new > 0 and self.last.reported
        return max(0, round(grown if is_larger else max(estimate * self.ratio, grown)))

    def believes(self, counted: Counted, *, extends: bool) -> bool:
        """True if a report can be a count of everything that was sent.

        extends   True if the request has all of the last one and new messages behind it
        """
        if not extends or counted.estimate < self.last.estimate:
            # A ratio that was learned from a far smaller request may be that of its system prompt.
            known = self.last.estimate >= _COMPARABLE * counted.estimate
            ratio = self.ratio if known else min(1.0, self.ratio)
            return counted.reported >= LEAST_SHARE * ratio * counted.estimate
        grown = counted.estimate - self.last.estimate
        if counted.reported < self.last.reported + LEAST_SHARE * grown * min(1.0, self.scale):
            return False
        # A long message behind short ones: is it a count of all, or of the new one only?
        new = grown * self.scale
        is_new = abs(counted.reported - new) <= _SAME * new
        return not is_new or counted.reported >= new + self.last.reported / 2


def confirms(first: Counted, second: Counted) -> bool:
    """True if two low reports grew as a count of everything does: by their ratio, to more than what is new.

    A report of what is not in a cache is as large as what is new, whatever was sent before.

    >>> confirms(Counted(20_000, 10_000), Counted(22_000, 11_000))
    True
    >>> confirms(Counted(20_000, 10_000), Counted(22_000, 12_000)), confirms(Counted(8, 2), Counted(12, 4))
    (False, False)
    """
    new, grown = second.estimate - first.estimate, second.reported - first.reported
    if new <= 0 or second.reported < _MORE_THAN_NEW * new:
        return False
    ratio = second.reported / second.estimate
    return ratio >= LEAST_RATIO and abs(grown / new - ratio) <= _STEADY * ratio


def is_absurd(reported: int, *, expected: int, window: int) -> bool:
    """True if a report is far more than one request can have."""
    return reported > MOST_OVER_WINDOW * expected and reported > MOST_OVER_WINDOW * window


def clamp_ratio(ratio: float) -> float:
    """Return the ratio within its bounds."""
    return ratio if LEAST_RATIO <= ratio <= MOST_RATIO else min(MOST_RATIO, max(LEAST_RATIO, ratio))
