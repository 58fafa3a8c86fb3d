"""Time limits of a request; knows seconds, not clocks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from refold.arguments import Argument, Seconds

OPTIONS: Final = ("total_seconds", "connect_seconds", "first_seconds", "idle_seconds")
TOTAL_SECONDS: Final = 60.0
"""For one question. Chosen, not measured: too short gives up on a busy provider, too long holds the user who
waits for the fold. A local model on a slow machine needs more and has its own default."""
CONNECT_SECONDS: Final = 10.0
"""For a connection. A server across the world needs less than one second; after ten it is down."""
RETRY_AFTER_SECONDS: Final = 20.0
"""The longest wait that a provider may ask for before a second attempt. Beyond it the next client or the
next stage is faster (decision 0011, Retries)."""
REST_SECONDS: Final = 30.0
"""Seconds for which a client that ran out of time is not asked again. One summary has many questions, and
without a rest each would wait until its deadline; too long would pass over a provider that has recovered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Seconds after which a request is given up, each counted from the moment before."""

    total: float = TOTAL_SECONDS
    """The whole request, retries included."""
    connect: float = CONNECT_SECONDS
    first: float = TOTAL_SECONDS
    """Until the first byte: a model reads the whole prompt before it writes."""
    idle: float = TOTAL_SECONDS / 2
    """Between two pieces of the answer."""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Make deadlines from options; those that are missing follow from the total."""
        for name, value in options.items():
            Argument(name, Seconds, None).check(value)
        total = float(options.get("total_seconds", TOTAL_SECONDS))
        return cls(
            total=total,
            connect=min(total, float(options.get("connect_seconds", CONNECT_SECONDS))),
            first=min(total, float(options.get("first_seconds", total))),
            idle=min(total, float(options.get("idle_seconds", total / 2))),
        )
