"""Whether a compaction may start: a breaker that opens when they come too fast; knows no clock.

    closed      compactions may start; `folds_without_turn` of them without a turn of the model between them,
                or `per_hour` of them in an hour, open it
    open        none may start until the cool-down is over
    half-open   one may start: a fold closes the breaker, a failure opens it again for twice as long

An emergency fold after a refusal for size is recorded and never counted: recovery must not wait. Where the
breaker opens again within an hour after the last cool-down, that doubles as well, so that a history which
fills up at once every time is folded about as often as the limit allows.

    >>> breaker = replay([("fold", 10.0), ("fold", 20.0)])
    >>> allows(breaker, 30.0)
    Allowed(yes=False, reason='2 compactions without a turn of the model between them', until=620.0)
    >>> allows(breaker, 620.0).yes
    True

Clocks lie. A time that cannot be is taken as the last one seen. After a jump backwards by more than the
cool-down the breaker is half-open, so nobody waits longer than two cool-downs.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final, Literal, TypeAlias

Happening: TypeAlias = Literal["fold", "failed", "emergency", "turn"]
"""A fold; an attempt that became none; a fold after a refusal for size; a turn that the model completed."""

HOUR: Final = 3_600.0
_LATEST: Final = 4e10
"""Seconds: the year 3237. A later time is no time."""
_ROUNDING: Final = 0.001
"""Seconds: times are sums of floats."""
_KEPT: Final = 1_000
"""How many times are kept at most, whatever the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a breaker opens, and for how long; None for no limit."""

    folds_without_turn: int | None = 2
    per_hour: int | None = 6
    cooldown: float = 600.0
    longest_cooldown: float = 3_600.0
    """A provider that recovers is found out within this time."""
    turn_closes: bool = False
    """Whether a completed turn closes a breaker that folds without a turn have opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """What has happened, as far as it matters for the next compaction."""

    limits: Limits = Limits()
    attempts: tuple[float, ...] = ()
    """When attempts ended, in the last hour."""
    since_turn: int = 0
    """Attempts since the model last completed a turn."""
    opened: float | None = None
    """When it was opened; None while it is closed."""
    reason: str = ""
    cooldown: float = 0.0
    """How long it stays open, or stayed the last time."""
    last_opened: float | None = None
    emergencies: int = 0
    last_emergency: float | None = None
    seen: float = 0.0
    """The last time that was told."""

    def to_json(self) -> dict[str, Any]:
        """The state as JSON, without the limits."""
        return {
            "attempts": list(self.attempts),
            "since_turn": self.since_turn,
            "opened": self.opened,
            "reason": self.reason,
            "cooldown": self.cooldown,
            "last_opened": self.last_opened,
            "emergencies": self.emergencies,
            "last_emergency": self.last_emergency,
            "seen": self.seen,
        }

    @classmethod
    def from_json(cls, value: Any, limits: Limits | None = None) -> "Breaker":
        """The state back from JSON; what cannot be read is as if it had not happened."""
        found = value if isinstance(value, dict) else {}
        attempts = found.get("attempts")
        times = [_time(at) for at in attempts] if isinstance(attempts, list) else []
        cooldown = _time(found.get("cooldown"))
        reason = found.get("reason")
        return cls(
            limits=limits or Limits(),
            attempts=tuple(at for at in times if at is not None)[-_KEPT:],
            since_turn=_whole(found.get("since_turn")),
            opened=_time(found.get("opened")),
            reason=reason if isinstance(reason, str) else "",
            cooldown=cooldown or 0.0,
            last_opened=_time(found.get("last_opened")),
            emergencies=_whole(found.get("emergencies")),
            last_emergency=_time(found.get("last_emergency")),
            seen=_time(found.get("seen")) or 0.0,
        )


@dataclass(frozen=True, slots=True)
class Allowed:
    """Whether a compaction may start."""

    yes: bool
    reason: str = ""
    """Why not, or why only one may."""
    until: float | None = None
    """When to ask again."""


def replay(happenings: Iterable[tuple[Happening, float]], limits: Limits | None = None) -> Breaker:
    """The breaker after all that is in a log, oldest first."""
    start = Breaker(limits=limits or Limits())
    return reduce(lambda breaker, each: step(breaker, *each), happenings, start)


def step(breaker: Breaker, event: Happening, at: float) -> Breaker:
    """The breaker after one more happening."""
    at = _now(breaker, at)
    breaker = replace(breaker, seen=at)
    if event == "emergency":
        return replace(breaker, emergencies=breaker.emergencies + 1, last_emergency=at)
    if event == "turn":
        return _turned(breaker)
    half_open = _half_open(breaker, at)
    attempts = (*(old for old in breaker.attempts if abs(at - old) < HOUR), at)[-_KEPT:]
    breaker = replace(breaker, attempts=attempts, since_turn=breaker.since_turn + 1)
    if half_open and event == "fold":
        return replace(breaker, opened=None, reason="", since_turn=0)
    if half_open:
        return _open(breaker, at, "the attempt after the last cool-down failed", again=True)
    return breaker if breaker.opened is not None else _judged(breaker, at)


def allows(breaker: Breaker, at: float) -> Allowed:
    """Say whether a compaction may start now."""
    at = _now(breaker, at)
    if breaker.opened is None:
        return Allowed(True)
    if _half_open(breaker, at):
        return Allowed(True, f"one attempt after a cool-down: {breaker.reason}")
    return Allowed(False, breaker.reason, breaker.opened + breaker.cooldown)


_IDLE: Final = "compactions without a turn of the model between them"


def _turned(breaker: Breaker) -> Breaker:
    closes = breaker.limits.turn_closes and breaker.reason.endswith(_IDLE)
    breaker = replace(breaker, since_turn=0)
    return replace(breaker, opened=None, reason="") if closes else breaker


def _judged(breaker: Breaker, at: float) -> Breaker:
    limits, before = breaker.limits, breaker.last_opened
    again = before is not None and abs(at - before) < HOUR + breaker.cooldown
    if limits.folds_without_turn is not None and breaker.since_turn >= limits.folds_without_turn:
        return _open(breaker, at, f"{breaker.since_turn} {_IDLE}", again=again)
    if limits.per_hour is not None and len(breaker.attempts) >= limits.per_hour:
        return _open(breaker, at, f"{len(breaker.attempts)} compactions within an hour", again=again)
    return breaker


def _open(breaker: Breaker, at: float, reason: str, *, again: bool) -> Breaker:
    """Open it, for twice as long as the last time where it opens again."""
    limits = breaker.limits
    cooldown = min(2 * breaker.cooldown, limits.longest_cooldown) if again else limits.cooldown
    return replace(breaker, opened=at, reason=reason, cooldown=cooldown, last_opened=at)


def _half_open(breaker: Breaker, at: float) -> bool:
    """Whether the cool-down is over, or the clock was set back so far that nobody can tell."""
    return breaker.opened is not None and abs(at - breaker.opened) >= breaker.cooldown - _ROUNDING


def _now(breaker: Breaker, at: float) -> float:
    found = _time(at)
    return breaker.seen if found is None else found


def _time(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= _LATEST else None


def _whole(value: Any) -> int:
    return value if type(value) is int and 0 <= value <= 1_000_000_000 else 0
