"""A circuit breaker that stops loops of compactions. Knows no clock: times are arguments.

    closed      compactions may start; it opens after `folds_without_turn` of them without a turn of the
                model between them, or `failures_per_hour` that failed in an hour
    open        none may start until the cool-down is over
    half-open   one may start: a fold closes the breaker, a failure opens it again for twice as long

An emergency fold after a context overflow is recorded and never counted: recovery must not wait. When the
breaker opens again within an hour after the last cool-down, the cool-down doubles as well. Folds that succeed
with turns between them are no loop, however many there are: a small window needs them.

    >>> breaker = record_event(record_event(Breaker(), "fold", 10.0), "fold", 20.0)
    >>> allows(breaker, 30.0)
    Allowed(yes=False, reason='2 compactions without a turn of the model between them', until=620.0)
    >>> print(allows(breaker, 30.0).explanation.partition(": ")[0])
    the circuit breaker is open until 1970-01-01 00:10:20 UTC
    >>> allows(breaker, 620.0).yes
    True

Clocks lie. An impossible time is replaced by the last one seen. After a jump backwards by more than the
cool-down the breaker is half-open, so nobody waits longer than two cool-downs.
"""

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, TypeAlias

from refold.arguments import Range, check_options
from refold.core.messages.quick_init import quick_init, quick_replace

BreakerEvent: TypeAlias = Literal["fold", "failed", "emergency", "turn"]
"""A fold; an attempt that failed; a fold after a context overflow; a turn that the model completed."""

BREAKER: Final = "the circuit breaker"
"""Stands at the start of every explanation why a compaction may not start."""
HOUR: Final = 3_600.0
_LATEST: Final = 4e10
"""Seconds: the year 3237. A later time is an error of the clock."""
_ROUNDING: Final = 0.001
"""Seconds: times are sums of floats."""
_KEPT: Final = 1_000
"""Times that are kept at most, whatever the limit; bounds the stored state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a breaker opens, and for how long; None for no limit.

    Two folds in a row without an answer mean that folding does not help. Six failures an hour are one every
    ten minutes, the cool-down: what fails so often does not recover by being tried.
    """

    folds_without_turn: Annotated[int, Range(0)] | None = 2
    failures_per_hour: Annotated[int, Range(0)] | None = 6
    per_hour: Annotated[int, Range(0)] | None = None
    """Attempts in an hour, successful ones too: for callers who want to fold less often than they need to."""
    cooldown: Annotated[float, Range(0)] = 600.0
    longest_cooldown: Annotated[float, Range(0)] = 3_600.0
    """A provider that recovers is noticed within this time."""
    turn_closes: bool = False
    """True if a completed turn closes a breaker that folds without a turn have opened."""

    def __post_init__(self) -> None:
        check_options(Limits, {each.name: getattr(self, each.name) for each in fields(self)})


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """The state of a circuit breaker."""

    limits: Limits = Limits()
    attempts: tuple[float, ...] = ()
    """The times at which attempts ended, in the last hour."""
    failures: tuple[float, ...] = ()
    """The times among them at which one failed."""
    since_turn: int = 0
    """Attempts since the model last completed a turn."""
    opened: float | None = None
    """The time it was opened; None while it is closed."""
    reason: str = ""
    cooldown: float = 0.0
    """Seconds it stays open, or stayed open the last time."""
    last_opened: float | None = None
    emergencies: int = 0
    last_emergency: float | None = None
    seen: float = 0.0
    """The last valid time."""

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON, without the limits."""
        state = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "limits"}
        return state | {"attempts": list(self.attempts), "failures": list(self.failures)}

    @classmethod
    def from_json(cls, value: Any, limits: Limits | None = None) -> "Breaker":
        """Read the state from JSON; fields that cannot be read are left at their defaults."""
        state = value if isinstance(value, dict) else {}
        cooldown = _read_time(state.get("cooldown"))
        reason = state.get("reason")
        return cls(
            limits=limits or Limits(),
            attempts=_read_times(state.get("attempts")),
            failures=_read_times(state.get("failures")),
            since_turn=_read_count(state.get("since_turn")),
            opened=_read_time(state.get("opened")),
            reason=reason if isinstance(reason, str) else "",
            cooldown=cooldown or 0.0,
            last_opened=_read_time(state.get("last_opened")),
            emergencies=_read_count(state.get("emergencies")),
            last_emergency=_read_time(state.get("last_emergency")),
            seen=_read_time(state.get("seen")) or 0.0,
        )


@dataclass(frozen=True, slots=True)
class Allowed:
    """The answer to whether a compaction may start."""

    yes: bool
    reason: str = ""
    """The reason why it may not, or why only one may."""
    until: float | None = None
    """The time to ask again."""

    @property
    def explanation(self) -> str:
        """The reason in words for people, with the time."""
        if self.until is None:
            return self.reason
        until = datetime.fromtimestamp(self.until, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"{BREAKER} is open until {until}: {self.reason}"


def record_event(breaker: Breaker, event: BreakerEvent, at: float, began: float | None = None) -> Breaker:
    """Return the breaker after one more event.

    began   when an attempt began, if that is known: one that began before the last one ended did not follow
            it, because a model wrote its summary meanwhile
    """
    at = _valid_time(breaker, at)
    if event == "turn" and not breaker.reason:  # in every turn of a session
        return quick_replace(breaker, seen=at, since_turn=0)
    breaker = replace(breaker, seen=at)
    if event == "emergency":
        return replace(breaker, emergencies=breaker.emergencies + 1, last_emergency=at)
    if event == "turn":
        closes = breaker.limits.turn_closes and breaker.reason.endswith(_WITHOUT_TURN)
        breaker = replace(breaker, since_turn=0)
        return replace(breaker, opened=None, reason="") if closes else breaker
    half_open = _half_open(breaker, at)
    follows = began is None or not breaker.attempts or began >= breaker.attempts[-1]
    failures = _keep_recent(breaker.failures, at)
    breaker = replace(
        breaker,
        attempts=(*_keep_recent(breaker.attempts, at), at)[-_KEPT:],
        failures=(*failures, at)[-_KEPT:] if event == "failed" else failures,
        since_turn=breaker.since_turn + (follows or event == "failed"),
    )
    if half_open and event == "fold":
        return replace(breaker, opened=None, reason="", since_turn=0)
    if half_open:
        return _open(breaker, at, "the attempt after the last cool-down failed", again=True)
    return breaker if breaker.opened is not None else _open_if_too_fast(breaker, at)


def allows(breaker: Breaker, at: float) -> Allowed:
    """Decide whether a compaction may start now."""
    at = _valid_time(breaker, at)
    if breaker.opened is None:
        return Allowed(True)
    if _half_open(breaker, at):
        return Allowed(True, f"one attempt after a cool-down: {breaker.reason}")
    return Allowed(False, breaker.reason, breaker.opened + breaker.cooldown)


_WITHOUT_TURN: Final = "compactions without a turn of the model between them"


def _open_if_too_fast(breaker: Breaker, at: float) -> Breaker:
    limits, before = breaker.limits, breaker.last_opened
    again = before is not None and abs(at - before) < HOUR + breaker.cooldown
    if limits.folds_without_turn is not None and breaker.since_turn >= limits.folds_without_turn:
        return _open(breaker, at, f"{breaker.since_turn} {_WITHOUT_TURN}", again=again)
    if limits.failures_per_hour is not None and len(breaker.failures) >= limits.failures_per_hour:
        return _open(breaker, at, f"{len(breaker.failures)} compactions failed within an hour", again=again)
    if limits.per_hour is not None and len(breaker.attempts) >= limits.per_hour:
        return _open(breaker, at, f"{len(breaker.attempts)} compactions within an hour", again=again)
    return breaker


def _open(breaker: Breaker, at: float, reason: str, *, again: bool) -> Breaker:
    """Open the breaker, for twice as long as the last time if it opens again."""
    limits = breaker.limits
    cooldown = min(2 * breaker.cooldown, limits.longest_cooldown) if again else limits.cooldown
    return replace(breaker, opened=at, reason=reason, cooldown=cooldown, last_opened=at)


def _half_open(breaker: Breaker, at: float) -> bool:
    """True if the cool-down is over, or if the clock was set back so far that it is unknown."""
    return breaker.opened is not None and abs(at - breaker.opened) >= breaker.cooldown - _ROUNDING


def _valid_time(breaker: Breaker, at: float) -> float:
    time = at if type(at) is float and 0 <= at <= _LATEST else _read_time(at)
    return breaker.seen if time is None else time


def _keep_recent(times: tuple[float, ...], at: float) -> tuple[float, ...]:
    return tuple(old for old in times if abs(at - old) < HOUR)


def _read_times(value: Any) -> tuple[float, ...]:
    times = [_read_time(at) for at in value] if isinstance(value, list) else []
    return tuple(at for at in times if at is not None)[-_KEPT:]


def _read_time(value: Any) -> float | None:
    if type(value) is not float and (isinstance(value, bool) or not isinstance(value, int | float)):
        return None
    return float(value) if 0 <= value <= _LATEST else None


def _read_count(value: Any) -> int:
    return value if type(value) is int and 0 <= value <= 1_000_000_000 else 0
