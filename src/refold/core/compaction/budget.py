"""When to compact: window, reserve, room, used tokens and levels. Knows nothing of how to shrink."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Final, Literal, TypeAlias

from refold.core.messages.quick_init import quick_init, quick_replace

Level: TypeAlias = Literal["none", "notice", "warning", "critical"]

HALF_FULL: Final = 0.5
"""Share of the room from which on the fixed part moves the trigger: the target moves with that part, and else
few turns would fill the gap. With 54 % fixed in a window of 64k, 42 of 143 recorded turns folded, now 22."""
CROWDED: Final = 0.70
"""Share of the room from which on system prompt, tools and files leave too little: by the usual fractions the
target would lie above the trigger from two thirds on, and every turn would fold. Lower warns people who have
room; higher lets them fold at every second turn."""

ANSWER_SHARE: Final = 2 / 3
"""The most that an answer has of what the fixed part leaves of the window. Without it a fixed part of three
quarters of a window leaves no room, and nothing is folded before the provider refuses. Lower would change
sessions that have room (this one begins at 83 % fixed); higher cuts the user's newest message sooner."""
BESIDE_REQUEST: Final = 0.25
"""Share of a goal that is left beside the user's last message: a quarter holds the rules and a short tail."""
ROOMY: Final = 0.8
"""The user's last message is cut only where the history would not fit into this share of the room otherwise:
a request that was cut is worse than a history that is a little over its goal."""
RECOVERY_SHARE: Final = 0.70
"""Share of what a provider takes to which the history is folded after a refusal, and of what was refused.
Lower folds more than needed; higher risks a second refusal, which is an error: sizes are estimated."""
UNSTATED_SHARE: Final = 0.70
"""Share of what can be folded that a provider is taken to accept if it has refused without a number. With the
share above about half is left: there is one attempt, so a fold that is too small costs more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """The part of a window that is left free for the answer.

    >>> Reserve(fraction=0.35, most=64_000).tokens(200_000)
    64000
    """

    fraction: float = 0.0
    most: int | None = None

    by_model: bool = False
    """Never leave more free than the model's longest answer."""

    by_fixed: bool = False
    """Never leave more free than `ANSWER_SHARE` of what the fixed part leaves."""

    def tokens(
        self, window: int, asked: int | None = None, longest: int | None = None, fixed: int = 0
    ) -> int:
        """Return the tokens to leave free; a number that the caller asked for wins."""
        if asked is not None:
            return max(0, min(asked, window - 1))
        free = window - math.floor(window * (1 - self.fraction))
        for limit in (self.most, longest if self.by_model else None):
            if limit is not None and limit < free:
                free = limit
        if self.by_fixed and free > (most := math.floor((window - fixed) * ANSWER_SHARE)) >= 0:
            return most
        return free


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """The share of the room from which on a level holds; None where the policy has no such level."""

    notice: float | None = 0.60
    warning: float | None = 0.80
    critical: float | None = 0.90

    def of(self, ratio: float) -> Level:
        """Return the level at this share."""
        if self.critical is not None and ratio >= self.critical:
            return "critical"
        if self.warning is not None and ratio >= self.warning:
            return "warning"
        if self.notice is not None and ratio >= self.notice:
            return "notice"
        return "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When compaction starts by itself: at a share of the room, at a cap, or at the smaller of both."""

    fraction: float | None = None
    cap: int | None = None
    history: int | None = None
    """Tokens of history at which it starts too, however large the window: every turn pays for all of it."""
    of_free: bool = False
    """True for a share of what the fixed part leaves of the room, where that part takes most of it."""
    whole: bool = False
    """True to round the number of tokens down."""
    on_call: bool = False
    """True if compaction never starts by itself, but runs whenever it is called."""
    enabled: bool = True

    def line(self, room: int, fixed: int = 0, stays: int = 0) -> float | None:
        """Return the tokens at which compaction starts, None for never.

        fixed   tokens that are no history
        stays   the same with system messages in the history, as the provider counts them
        """
        if not self.enabled:
            return None
        share = None if self.fraction is None else room * self.fraction
        if self.fraction is not None and self.of_free and room * HALF_FULL < stays < room:
            share = stays + (room - stays) * self.fraction
        if share is not None and self.whole:
            share = math.floor(share)
        history = None if self.history is None else fixed + self.history
        line = share
        for other in (self.cap, history):
            if other is not None and (line is None or other < line):
                line = other
        return line


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The size that the history may have after compaction.

    `max(floor((base * fraction - fixed - spare) / margin), floor(base * least))`, where base is the room or
    the window and `fixed` is what is not history: system prompt, tools, prompt, files.
    """

    fraction: float = 1.0
    of_window: bool = False
    of_free: bool = False
    """True for a share of what the fixed part leaves of the base, False for a share of all of it."""
    spare: int = 0
    margin: float = 1.0
    least: float = 0.0
    cap: int | None = None
    """The base is never taken as larger than this."""
    most: int | None = None
    """Tokens of history to aim at in a large room: it is folded before it is full, so a deep fold pays."""
    most_from: int = 0
    """Tokens of a large room; a smaller one is folded because it is full, and keeps its share."""
    below: bool = False
    """True to stay under the number: at the trigger's own number compaction would start again."""

    def history(self, window: int, room: int, fixed: int) -> int:
        """Return the tokens that the history may have; never negative."""
        base = window if self.of_window else room
        base = base if self.cap is None else min(base, self.cap)
        share = (base - fixed) * self.fraction if self.of_free else base * self.fraction - fixed
        wanted = (share - self.spare) / self.margin
        wanted = math.ceil(wanted) - 1 if self.below else math.floor(wanted)
        if self.most is not None and room > self.most_from:
            wanted = min(wanted, self.most)
        return max(wanted, math.floor(base * self.least), 0)


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Tokens of each part of the context."""

    system: int = 0
    history: int = 0
    prompt: int = 0
    tools: int = 0
    files: int = 0
    unlisted: int = 0
    """Tokens that the provider counts beside our estimate of the parts: parts that we were not told of, and
    what the estimate is off; negative if it counts less."""

    @property
    def total(self) -> int:
        """Tokens of all parts by our own count, without those that are unlisted."""
        return self.history + self.system + self.prompt + self.tools + self.files

    @property
    def fixed(self) -> int:
        """Tokens of the parts that compaction cannot shrink."""
        return self.system + self.prompt + self.tools + self.files

    @property
    def standing(self) -> int:
        """Tokens of the parts that every request has."""
        return self.system + self.tools + self.files

    def with_unlisted(self, unlisted: int) -> "Breakdown":
        """Return the parts with so many tokens that are unlisted."""
        return quick_replace(self, unlisted=unlisted)

    def as_dict(self) -> dict[str, int]:
        """Return the parts by name; they add up to the used tokens. Without a report none is unlisted."""
        parts = asdict(self)
        return parts if self.unlisted else {name: size for name, size in parts.items() if name != "unlisted"}


NO_PARTS: Final = Breakdown()


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Window, used tokens and level of a context, and whether to compact."""

    window: int
    reserve: int
    room: int
    used: int
    ratio: float
    level: Level
    should_compact: bool
    breakdown: Breakdown
    messages: int
    characters: int
    count_source: str
    """Source of the token counts: `estimate`, `given`, `usage+estimate`, a system's name."""
    window_source: str
    """Source of the window: `given`, `table`, `prefix`, `provider default`, `fallback`, ..."""
    trigger_tokens: int | None = None
    """Tokens at which compaction starts by itself; None for never."""

    def _repr_html_(self) -> str:
        """Show the meter and what fills the context."""
        from refold.core.compaction import notebook  # only a notebook asks for HTML

        parts = [(name, size) for name, size in self.breakdown.as_dict().items() if size]
        return notebook.card(
            "Budget: time to compact" if self.should_compact else "Budget",
            notebook.meter(self.used, self.room, self.level),
            notebook.line(f"window {self.window:,} ({self.window_source}), counted by {self.count_source}"),
            notebook.table(("part", "tokens"), parts),
        )


def make_budget(
    breakdown: Breakdown,
    *,
    window: int,
    reserve: int,
    room: int | None = None,
    trigger: Trigger,
    levels: Levels,
    system_messages: int = 0,
    messages: int = 0,
    characters: int = 0,
    used: int | None = None,
    count_source: str = "estimate",
    window_source: str = "given",
) -> Budget:
    """Make the budget: compare the used tokens with the room.

    system_messages   tokens of the system messages that lead the history
    """
    room = max(1, window - reserve if room is None else room)
    fixed = breakdown.fixed
    total = fixed + breakdown.history
    used = total if used is None else used
    ratio = used / room
    stays = count_as_reported(fixed + system_messages, total, used, room)
    line = trigger.line(room, fixed, stays)
    return Budget(
        window=window,
        reserve=reserve,
        room=room,
        used=used,
        ratio=ratio,
        level=levels.of(ratio),
        should_compact=line is not None and used >= line,
        breakdown=breakdown if used == total else breakdown.with_unlisted(used - total),
        messages=messages,
        characters=characters,
        count_source=count_source,
        window_source=window_source,
        trigger_tokens=None if line is None else math.ceil(line),
    )


def count_as_reported(tokens: int, total: int, used: int | None, most: int) -> int:
    """Return what fixed parts have where the provider counts `used` tokens and we count `total`.

    A surplus need not lie in them: if that would fill `most`, they are taken as we count them.
    """
    counted = tokens * used // total if used and total else tokens
    return counted if counted < most else tokens


def count_fitting_tokens(budget: Budget, system: int = 0) -> int:
    """Count the tokens of history that fit into the room; fewer where a provider counts more than we do.

    system   tokens of system messages in the history
    """
    parts, stays = budget.breakdown, budget.breakdown.fixed + system
    scale = min(1.0, parts.total / budget.used) if budget.used else 1.0
    fitting = max(0, math.floor(budget.room * scale) - parts.fixed)
    if fitting > system or budget.room <= stays:
        return fitting
    # The surplus need not lie in what stays: if that would fill the room, it is taken as we count it.
    return system + math.floor((budget.room - stays) * (parts.total - stays) / (budget.used - stays))


def correct_by_refusal(
    budget: Budget, *, ratio: float, stated: bool, system: int = 0, request: int = 0
) -> Budget:
    """Return the budget that a refusal for size proves: what was sent is larger than the room.

    ratio     tokens of the provider for one of ours, as far as the refusal tells; no estimate is lowered
    stated    True if the window of the budget is the provider's own word
    system    tokens of system messages in the history
    request   tokens of the user's last message
    """
    total, stays, ratio = budget.breakdown.total, budget.breakdown.fixed + system, max(1.0, ratio)
    room = budget.room
    if not stated:
        room = max(1, min(room, math.floor(ratio * (stays + (total - stays) * UNSTATED_SHARE))))
    elif stays + request >= room:  # a shorter answer is better than none, or than half of the request
        room = budget.window
    used = round(total * ratio)
    breakdown = replace(budget.breakdown, unlisted=used - total)
    return replace(budget, room=room, used=used, ratio=used / room, breakdown=breakdown)


def find_recovery_goal(budget: Budget, *, system: int, request: int) -> int:
    """Return the tokens to which the history is folded after a refusal, always less than it has.

    budget    as the refusal proves it
    system    tokens of system messages in the history
    request   tokens of the user's last message, which stays whole where it fits
    """
    history, fitting = budget.breakdown.history, count_fitting_tokens(budget, system)
    goal = system + max(0, math.floor((min(fitting, history) - system) * RECOVERY_SHARE))
    beside = math.floor((goal - system) * BESIDE_REQUEST)
    goal = max(goal, min(system + request + beside, math.floor(fitting * ROOMY)))
    return max(0, min(goal, history - 1))
