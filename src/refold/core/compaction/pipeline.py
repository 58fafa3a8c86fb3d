"""Runs stages, cheapest first, until the history fits; knows no stage and calls nobody.

A stage that proposes nothing is passed over; one whose proposal does not make the history smaller is
turned down; the loop ends with the stages, so it cannot run for ever. The result says of every stage what
became of it. Afterwards pairs are mended (a right cut needs none).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat, takewhile
from typing import Final

from refold.core.compaction.edits import Edit, Slot, apply_to_slots, compose, rearrange
from refold.core.compaction.flow import Flow
from refold.core.compaction.model_calls import Call, watched
from refold.core.compaction.placeholders import true_pointers
from refold.core.compaction.task import Stage, Step, Task
from refold.core.messages.message import Document, File, Image, Message, Thinking, ToolCall, ToolResult
from refold.core.messages.normalize import settle
from refold.core.messages.repair import UNAVAILABLE, Orphans
from refold.core.models.prices import Spent
from refold.core.models.spending_limits import together

_LEFT: Final[dict[type, int]] = {Thinking: 0, ToolResult: 8, Image: 8, Document: 8, File: 8, ToolCall: 60}
"""Tokens a message still has at the least when such a part of it was thinned out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What became of one stage."""

    stage: str
    accepted: bool
    reason: str
    tokens_before: int
    tokens_after: int
    calls: tuple[Call, ...] = ()
    facts: tuple[int, int, int] = (0, 0, 0)
    """Of the facts in what left: how many the text kept, were repaired, are reachable by handle."""
    capped: bool = False
    """Whether a cap on what may be spent kept a model from being asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a pipeline did."""

    messages: tuple[Message, ...]
    edits: tuple[Edit, ...] = ()
    reports: tuple[Report, ...] = ()
    tier: int = 0
    """Number of the last stage that was accepted, counted from 1; 0 for none."""
    tokens: int = 0
    mended: int = 0
    """How many messages had to be mended afterwards."""


@dataclass(slots=True)
class _Work:
    """The state of one run."""

    task: Task
    places: list[Slot]
    gone: dict[int, Edit] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)
    tier: int = 0

    @property
    def spent(self) -> Spent:
        return together(call.spent for report in self.reports for call in report.calls)

    @property
    def done(self) -> bool:
        goal = self.task.goal
        return self.tier > 0 if goal is None else self.task.tokens <= goal


def shrink(
    task: Task,
    stages: Sequence[Stage],
    *,
    direct: bool = False,
    orphans: Orphans = "call",
    missing: str = UNAVAILABLE,
) -> Flow[Result]:
    """Run stages until the history is within its goal, or one has succeeded where there is no goal.

    `direct`: the first stages, as far as they only thin out (`thins`: every message's words and place stay),
    do not run where all of them together could not reach the goal and nobody summarises what they leave.
    """
    places = [
        Slot(message, size, index, index in task.protected, None, index in task.pinned, None, None, number)
        for index, (message, size, number) in enumerate(
            zip(task.messages, task.sizes, task.numbers or repeat(None), strict=bool(task.numbers))
        )
    ]
    work = _Work(task, places)
    thinning = _thinning(stages) if direct and not task.model else 0
    words = _least(task) if thinning and task.goal is not None else 0
    for number, stage in enumerate(stages, 1):
        if work.done:
            break
        if number <= thinning and task.goal is not None and words > task.goal:
            _judge(work, number, stage, Step(note=f"{words:,} tokens would be left at least"), ())
            continue
        calls: list[Call] = []
        step = yield from watched(stage(work.task), task, calls, work.spent)
        _judge(work, number, stage, step, tuple(calls))
    return _settled(work, task, orphans, missing)


def _thinning(stages: Sequence[Stage]) -> int:
    """How many of the first stages only thin out."""
    return sum(1 for _ in takewhile(lambda stage: getattr(stage, "thins", False), stages))


def _least(task: Task) -> int:
    """Tokens that are left at the least when everything but words is thinned out."""
    most = {kind: tokens * task.counter.divisor for kind, tokens in _LEFT.items()}
    left = 0
    for message, size in zip(task.messages, task.sizes, strict=True):
        least = size if message.parts else 0
        for part in message.parts:
            least = min(least, most.get(type(part), size))
        left += least
    return task.counter.tokens(left)


def _judge(work: _Work, number: int, stage: Stage, step: Step, calls: tuple[Call, ...]) -> None:
    """Accept a proposal if it makes the history smaller."""
    before = after = work.task.tokens
    accepted, reason = False, step.note or "nothing to do"
    if _takes_guarded(work.places, step.edits):
        reason = "it would take what must stay"
    elif step.edits:
        gone = dict(work.gone)
        places = apply_to_slots(work.places, step.edits, work.task.counter.message, gone)
        after = work.task.counter.total([slot.size for slot in places])
        accepted, reason = (True, step.note) if after < before else (False, "not smaller")
        if accepted:
            work.task = _task(work.task, places)
            work.places, work.gone, work.tier = places, gone, number
    work.reports.append(
        Report(
            stage=stage.name,
            accepted=accepted,
            reason=reason,
            tokens_before=before,
            tokens_after=after,
            calls=calls,
            facts=step.facts if accepted else (0, 0, 0),
            capped=step.capped,
        )
    )


def _takes_guarded(places: Sequence[Slot], edits: Sequence[Edit]) -> bool:
    """Whether a guarded message would leave without one in its place, or a pinned one would change."""
    for edit in edits:
        taken = places[edit.start : edit.end]
        swapped = len(taken) == len(edit.put) == 1
        if any(slot.pinned or (slot.guarded and not swapped) for slot in taken):
            return True
    return False


def _task(task: Task, places: Sequence[Slot]) -> Task:
    return replace(
        task,
        messages=tuple(slot.message for slot in places),
        sizes=tuple(slot.size for slot in places),
        protected=frozenset(index for index, slot in enumerate(places) if slot.guarded),
        pinned=frozenset(index for index, slot in enumerate(places) if slot.pinned),
        came={index: slot.came for index, slot in enumerate(places) if slot.came is not None},
        numbers=tuple(slot.number for slot in places),
    )


def _settled(work: _Work, first: Task, orphans: Orphans, missing: str) -> Result:
    told = true_pointers(work.task.messages) if work.tier else work.task.messages
    links = work.task.index.links if told is work.task.messages else None
    settled = settle(told, shape=first.shape, orphans=orphans, missing=missing, links=links)
    places, by = work.places, Edit(0, 0, (), "repair")
    if settled.changed or told is not work.task.messages:
        places = rearrange(places, settled.messages, first.counter.message, by)
    kept = {slot.origin for slot in places}
    gone = {index: by for index in range(len(first.messages)) if index not in kept} | work.gone
    return Result(
        messages=tuple(settled.messages),
        edits=compose(first.messages, places, gone),
        reports=tuple(work.reports),
        tier=work.tier,
        tokens=first.counter.total([slot.size for slot in places]),
        mended=settled.changed,
    )
