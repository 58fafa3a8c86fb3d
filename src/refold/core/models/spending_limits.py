"""Caps on the cost of summaries, for a session and for an hour, and how much is left; knows no clock.

    >>> caps = Caps(dollars=1.0, dollars_per_hour=0.5)
    >>> spent = Spent(calls=1, dollars=0.4)
    >>> left = remaining_allowance(caps, spent, [Bill(at=100.0, spent=spent)], 200.0)
    >>> round(left.dollars, 2), left.refusal(Spent(), Spent(calls=1, dollars=0.2))
    (0.1, 'the cap of $0.50 an hour would be passed: $0.40 is spent')

The cost of a call is estimated before it is made, for the longest answer it may give, so that no cap is
passed. A call without a known price costs no dollars until the cap is reached; its tokens are always known.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from refold.core.models.prices import MILLION, Spent
from refold.core.tokens.units import parse_tokens
from refold.errors import FormatError

HOUR: Final = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Limits on what the summariser's calls may take; None for no limit."""

    dollars: float | None = None
    """For the whole session."""
    dollars_per_hour: float | None = None
    tokens_per_hour: int | None = None
    """Read and written together."""

    @property
    def any(self) -> bool:
        """True if there is a cap."""
        return self != _NONE

    @property
    def named(self) -> dict[str, float]:
        """The caps that are set, by the names of their options."""
        values = zip(CAP_NAMES, (self.dollars, self.dollars_per_hour, self.tokens_per_hour), strict=True)
        return {name: value for name, value in values if value is not None}

    @property
    def in_dollars(self) -> bool:
        """True if there is a cap that needs prices."""
        return self.dollars is not None or self.dollars_per_hour is not None


_NONE: Final = Caps()
CAP_NAMES: Final = ("max_dollars", "max_dollars_per_hour", "max_summary_tokens_per_hour")
"""The options that set the caps, in the order of the fields."""


def parse_caps(values: Mapping[str, Any]) -> Caps:
    """Read caps by the names of their options; a name that is missing sets no cap.

    >>> parse_caps({"max_dollars": "2.50", "max_summary_tokens_per_hour": "200k"})
    Caps(dollars=2.5, dollars_per_hour=None, tokens_per_hour=200000)
    """
    read = [None if values.get(name) is None else parse_cap(name, values[name]) for name in CAP_NAMES]
    size = None if read[2] is None else int(read[2])
    return Caps(dollars=read[0], dollars_per_hour=read[1], tokens_per_hour=size)


def parse_cap(name: str, value: Any) -> float:
    """Read one cap: tokens or dollars, as a number or as text."""
    if name == CAP_NAMES[2]:
        try:
            return 0 if value == "0" or (value == 0 and type(value) is int) else parse_tokens(value)
        except FormatError as error:
            raise FormatError(str(error), path=name) from None
    amount = -1.0
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            amount = float(value.strip().removeprefix("$") if isinstance(value, str) else value)
    if not 0 <= amount < MILLION:
        raise FormatError("must be an amount of dollars, such as 2.50", path=name)
    return amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """Cost of one attempt to compact, and when it ended."""

    at: float
    spent: Spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The dollars and tokens that may still be spent; None for no limit."""

    dollars: float | None = None
    tokens: int | None = None
    dollars_cap: str = ""
    """The cap in words, with the part that is spent."""
    tokens_cap: str = ""
    until: float | None = None
    """Time from which more may be spent again; None if no cap of an hour is reached."""

    @property
    def spent_out(self) -> bool:
        """True if nothing is left."""
        return any(left is not None and left <= 0 for left in (self.dollars, self.tokens))

    def refusal(self, spent: Spent, next_one: Spent) -> str:
        """Return why the next calls may not be made, after `spent` was spent since; "" if they may."""
        dollars = (spent.dollars or 0.0) + (next_one.dollars or 0.0)
        if self.dollars is not None and (dollars > self.dollars or self.dollars <= 0):
            return self.dollars_cap
        tokens = spent.tokens + next_one.tokens
        if self.tokens is not None and (tokens > self.tokens or self.tokens <= 0):
            return self.tokens_cap
        return ""


def remaining_allowance(caps: Caps, total: Spent, bills: Sequence[Bill], at: float) -> Allowance:
    """Return what the caps leave after all that was spent in a session, and in its last hour."""
    recent = [bill for bill in bills if abs(at - bill.at) < HOUR]
    hour = total_spent(bill.spent for bill in recent)
    until = min((bill.at + HOUR for bill in recent), default=None)
    in_session = _left(caps.dollars, total.dollars)
    hourly = _left(caps.dollars_per_hour, hour.dollars)
    tokens = None if caps.tokens_per_hour is None else caps.tokens_per_hour - hour.tokens
    tokens_cap = f"the cap of {caps.tokens_per_hour or 0:,} tokens an hour {{}}: {hour.tokens:,} are spent"
    words = _words("a session", caps.dollars, total, in_session)
    dollars, passes = in_session, False
    if hourly is not None and (in_session is None or hourly < in_session):
        words, dollars, passes = _words("an hour", caps.dollars_per_hour, hour, hourly), hourly, True
    return Allowance(
        dollars=dollars,
        tokens=tokens,
        dollars_cap=words,
        tokens_cap=tokens_cap.format(_reached(tokens)),
        until=until if passes or (tokens is not None and dollars is None) else None,
    )


def total_spent(sums: Iterable[Spent]) -> Spent:
    """Add several sums up."""
    return reduce(Spent.plus, sums, Spent())


def _left(cap: float | None, spent: float | None) -> float | None:
    return None if cap is None else cap - (spent or 0.0)


def _words(time: str, cap: float | None, spent: Spent, left: float | None) -> str:
    return f"the cap of ${cap or 0:.2f} {time} {_reached(left)}: ${spent.dollars or 0:.2f} is spent"


def _reached(left: float | None) -> str:
    return "is reached" if left is not None and left <= 0 else "would be passed"
