"""How long a question may take; knows seconds, not clocks."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, Self

from refold.errors import RefoldError

TOTAL: Final = 60.0
"""Seconds for a question: users wait for it. A local model on a slow machine wants more."""
CONNECT: Final = 10.0
"""Seconds until a connection stands; a server that takes longer is not there."""
MOST: Final = 86_400.0
RETRY: Final = 20.0
"""The longest wait that a provider may ask for before one more attempt; for more, somebody else is asked."""
REST: Final = 30.0
"""Seconds for which somebody who let time run out is not asked again: a summary has many questions, and each
would wait as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Seconds after which one gives up, each from the moment before."""

    total: float = TOTAL
    """For all of it, retries included."""
    connect: float = CONNECT
    first: float = TOTAL
    """Until the first byte of the answer: a model reads the question for so long."""
    idle: float = TOTAL / 2
    """Between two pieces of the answer."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """From options; what is not given follows from the total."""
        for name, value in given.items():
            number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
            if not number or not 0 < value <= MOST:
                raise RefoldError(f"{name} takes seconds from above 0 to {MOST:,.0f}, not {value!r}")
        total = float(given.get("total_seconds", TOTAL))
        return cls(
            total=total,
            connect=min(total, float(given.get("connect_seconds", CONNECT))),
            first=min(total, float(given.get("first_seconds", total))),
            idle=min(total, float(given.get("idle_seconds", total / 2))),
        )
