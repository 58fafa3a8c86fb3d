"""Run stages, cheapest first, until the history fits. Knows no stage and calls no model.

A stage that proposes nothing is passed over; a proposal that does not make the history smaller is rejected.
The loop ends with the stages, so it cannot run for ever. The result has a report for every stage.
Afterwards tool pairs are repaired (a right cut needs no repair).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Final

from refold.core.compaction.bound_thinking import drop_behind_change
from refold.core.compaction.edits import (
    UNBOUND,
    Edit,
    Slot,
    apply_to_slots,
    compose_edits,
    match_slots,
    replace_message,
)
from refold.core.compaction.flow import Flow
from refold.core.compaction.model_calls import ModelCall, watch_calls
from refold.core.compaction.placeholders import settle_pointers
from refold.core.compaction.task import Stage, Step, Task
from refold.core.messages.message import Message
from refold.core.messages.normalize import normalize
from refold.core.messages.repair import MISSING, MissingTexts, Orphans
from refold.core.messages.short_repr import short_repr
from refold.core.messages.speakers import find_user_turns
from refold.core.models.spending_limits import total_spent
from refold.core.tokens.units import format_count

IN_VAIN: Final = "cutting the user's last message is not enough"
"""The reason in the report of a stage whose only edit was undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of one stage."""

    stage: str
    accepted: bool
    reason: str
    tokens_before: int
    tokens_after: int
    calls: tuple[ModelCall, ...] = ()
    facts: tuple[int, int, int] = (0, 0, 0)
    """Numbers of the facts in the messages that left: kept by the text, repaired, reachable by handle."""
    capped: bool = False
    """True if a spending limit kept a model from being asked."""
    turned_down: int = 0
    """The number of the last message of which a model's summary was turned down; 0 for none."""

    __repr__ = short_repr


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a pipeline."""

    messages: tuple[Message, ...]
    edits: tuple[Edit, ...] = ()
    reports: tuple[Report, ...] = ()
    tier: int = 0
    """Number of the last stage that was accepted, counted from 1; 0 for none."""
    tokens: int = 0
    repaired: int = 0
    """Number of messages that were repaired afterwards."""


@dataclass(slots=True)
class _Run:
    """The state of one run."""

    task: Task
    slots: list[Slot]
    first: tuple[Message, ...]
    """The messages before any change."""
    removed_by: dict[int, Edit] = field(default_factory=dict)
    """The edit that last touched each message of the first list."""
    reports: list[Report] = field(default_factory=list)
    tier: int = 0
    asked: bool = False
    """True if a stage that asks a model has run."""
    summarised: bool = False
    """True if a stage was accepted that tells of what left."""

    @property
    def is_done(self) -> bool:
        goal, most = self.task.goal, self.task.untold_above
        if self.summarised and self.task.tells and most is not None and self.task.tokens <= most:
            return True
        if goal is None or (self.task.force and self.task.model and self.reports and not self.tier):
            return self.tier > 0  # limits on arrival are not what somebody asked for
        return self.task.tokens <= goal

    def may_run(self, stage: Stage) -> bool:
        """True unless a stage would drop messages without a word although there is room for them.

        Where somebody wants a model to be asked and there is room, only a limit of costs lets others act.
        """
        task, most = self.task, self.task.untold_above
        if most is not None and task.tokens <= most and getattr(stage, "drops", False):
            return False
        if not task.only_model or not self.asked or getattr(stage, "asks", False):
            return True
        return any(report.capped for report in self.reports)

    def judge(self, number: int, stage: Stage, step: Step, calls: tuple[ModelCall, ...]) -> None:
        """Accept a proposal if it makes the history smaller, and report what became of it."""
        self.asked = self.asked or getattr(stage, "asks", False)
        before = after = self.task.tokens
        accepted, reason = False, step.note or "nothing to do"
        stands_for_all = getattr(stage, "stands_for_all", False)
        if any(self._takes_guarded(edit, stands_for_all=stands_for_all) for edit in step.edits):
            reason = "it would take what must stay"
        elif step.edits:
            removed_by = dict(self.removed_by)
            slots = apply_to_slots(self.slots, step.edits, self.task.counter.message, removed_by)
            after = self.task.counter.total([slot.size for slot in slots])
            accepted, reason = (True, step.note) if after < before else (False, "not smaller")
            if accepted:
                if getattr(stage, "keeps_summary", False):
                    slots = _guard_summaries(slots, step.edits)
                if self.task.binds_thinking:
                    slots, reason = self._drop_thinking(slots, removed_by, reason)
                    after = self.task.counter.total([slot.size for slot in slots])
                self.slots, self.removed_by, self.tier = slots, removed_by, max(self.tier, number)
                self.summarised = self.summarised or getattr(stage, "tells", False)
                self._update_task()
        self.reports.append(
            Report(
                stage=step.name or stage.name,
                accepted=accepted,
                reason=reason,
                tokens_before=before,
                tokens_after=after,
                calls=calls,
                facts=step.facts if accepted else (0, 0, 0),
                capped=step.capped,
                turned_down=step.turned_down if any(not call.failed for call in calls) else 0,
            )
        )

    def _drop_thinking(
        self, slots: list[Slot], removed_by: dict[int, Edit], reason: str
    ) -> tuple[list[Slot], str]:
        """Drop the thinking behind the first change, which the model would refuse; say how much that is."""
        messages = [slot.message for slot in slots]
        edits = [
            replace_message(messages, place, message, UNBOUND, "bound to what stood before it")
            for place, message in enumerate(drop_behind_change(self.first, messages))
            if message is not messages[place]
        ]
        if not edits:
            return slots, reason
        dropped = f"thinking of {format_count(len(edits), 'message')} behind it dropped"
        pinned = [slot.pinned for slot in slots]  # a pinned message loses nothing but this
        slots = apply_to_slots(slots, edits, self.task.counter.message, removed_by)
        slots = [slot._replace(pinned=stays) for slot, stays in zip(slots, pinned, strict=True)]
        return slots, f"{reason}; {dropped}" if reason else dropped

    def _takes_guarded(self, edit: Edit, *, stands_for_all: bool) -> bool:
        """True if a guarded message would leave without one in its place, or a pinned one would change.

        stands_for_all   True if what is put stands for guarded messages as well
        """
        taken = self.slots[edit.start : edit.end]
        is_rewrite = stands_for_all or len(taken) == len(edit.put) == 1
        return any(slot.pinned or (slot.guarded and not is_rewrite) for slot in taken)

    def _update_task(self) -> None:
        """Make the task of the next stage from the slots."""
        slots, goal = self.slots, self.task.goal
        messages = tuple(slot.message for slot in slots)
        turns = self.task.counter.tokens(self.task.measure_turns(messages))  # they are put in at the end
        self.task = replace(
            self.task,
            messages=messages,
            goal=None if goal is None else max(0, goal - turns),
            sizes=tuple(slot.size for slot in slots),
            protected=frozenset(index for index, slot in enumerate(slots) if slot.guarded),
            pinned=frozenset(index for index, slot in enumerate(slots) if slot.pinned),
            originals={index: slot.original for index, slot in enumerate(slots) if slot.original is not None},
            numbers=tuple(slot.number for slot in slots),
        )

    def restore_request(self, first: Task) -> None:
        """Put the user's last message back whole where a stage has cut it and nothing is won by that."""
        cut = {
            slot.original_place: place
            for place, slot in enumerate(self.slots)
            if slot.original is not None and slot.message.is_user_turn and not slot.message.is_summary
        }
        turns = find_user_turns(first.messages) if cut else []
        if not turns or turns[-1] not in cut:
            return
        at, place, task = turns[-1], cut[turns[-1]], self.task
        old = self.slots[place]
        whole = Slot(first.messages[at], first.sizes[at], at, old.guarded, number=old.number)
        slots = [*self.slots[:place], whole, *self.slots[place + 1 :]]
        restored = task.counter.total([slot.size for slot in slots])
        # A target that the caller names is come as near to as can be, also where it is missed.
        misses_goal = task.target is None and task.goal is not None and task.tokens > task.goal
        in_vain = misses_goal and restored <= task.fitting_tokens
        in_vain = in_vain or (task.refused and restored <= task.uncut_tokens)
        if task.tokens <= task.fitting_tokens and not in_vain:
            return
        self.slots = slots
        del self.removed_by[at]
        self._update_task()
        if not self.removed_by:  # no other message was touched, so nothing was done
            self.tier = 0
            self.reports = [
                replace(report, accepted=False, reason=IN_VAIN) if report.accepted else report
                for report in self.reports
            ]

    def finish(self, first: Task, orphans: Orphans, missing: MissingTexts) -> Result:
        """Repair the last history and express all changes as edits of the first."""
        messages = settle_pointers(self.task.messages) if self.tier else self.task.messages
        changed = messages is not self.task.messages
        links = None if changed else self.task.index.links
        texts = missing.choose(compacted=self.tier > 0)
        settled = normalize(messages, shape=first.shape, orphans=orphans, missing=texts, links=links)
        repair = Edit(0, 0, (), "repair")
        slots = [
            slot if new is slot.message else _rewrite_slot(slot, new, first.counter.message(new), repair)
            for slot, new in zip(self.slots, messages, strict=True)
        ]
        removed_by, made = dict(self.removed_by), settled.messages
        if settled.changed:
            slots = match_slots(slots, made, first.counter.message, repair)
        if first.binds_thinking:
            slots, _ = self._drop_thinking(slots, removed_by, "")
            made = [slot.message for slot in slots]
        kept = {slot.origin for slot in slots}
        lost = {index: repair for index in range(len(first.messages)) if index not in kept}
        return Result(
            messages=tuple(made),
            edits=compose_edits(first.messages, slots, lost | removed_by),
            reports=tuple(self.reports),
            tier=self.tier,
            tokens=first.counter.total([slot.size for slot in slots]),
            repaired=settled.changed,
        )


def _rewrite_slot(slot: Slot, message: Message, size: int, by: Edit) -> Slot:
    """Return the slot of a pointer with other words; it stays the work of the stage that put the pointer."""
    return slot._replace(
        message=message,
        size=size,
        origin=None,
        original=slot.original or slot.message,
        original_place=slot.first_place,
        edit=slot.edit or by,
    )


def _guard_summaries(slots: Sequence[Slot], edits: Sequence[Edit]) -> list[Slot]:
    """Guard the summaries of these edits: later stages may shorten them, but none takes them out again."""
    fresh = {id(edit) for edit in edits}
    return [
        slot._replace(guarded=True) if slot.message.is_summary and id(slot.edit) in fresh else slot
        for slot in slots
    ]


def shrink(
    task: Task, stages: Sequence[Stage], *, orphans: Orphans = "call", missing: MissingTexts = MISSING
) -> Flow[Result]:
    """Run stages until the history is within its goal, or one has succeeded where there is no goal."""
    slots = [
        Slot(message, size, index, index in task.protected, None, index in task.pinned, None, None, number)
        for index, (message, size, number) in enumerate(
            zip(task.messages, task.sizes, task.numbers or repeat(None), strict=bool(task.numbers))
        )
    ]
    if not any(getattr(stage, "tells", False) for stage in stages):
        task = replace(task, untold_above=None)  # who only drops has nothing better to offer
    run = _Run(task, slots, task.messages)
    for number, stage in _order_stages(task, stages):
        if run.is_done:
            break
        if not run.may_run(stage):
            continue
        calls: list[ModelCall] = []
        spent = total_spent(call.spent for report in run.reports for call in report.calls)
        step = yield from watch_calls(stage(run.task), task, calls, spent)
        run.judge(number, stage, step, tuple(calls))
    run.restore_request(task)
    return run.finish(task, orphans, missing)


def _order_stages(task: Task, stages: Sequence[Stage]) -> list[tuple[int, Stage]]:
    """Number the stages and put them in order: a model that somebody wants to be asked is asked first.

    Stages that limit messages on their arrival run before all others, as number 0: no run ends with them.
    """
    arrival = [(0, stage) for stage in select_arrival(stages)]
    numbered = [each for each in enumerate(stages, 1) if not getattr(each[1], "on_arrival", False)]
    first = task.tells and task.model
    asking = [each for each in numbered if first and getattr(each[1], "asks", False)]
    return arrival + asking + [each for each in numbered if each not in asking]


def select_arrival(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages that limit each message on its arrival, whether or not it is time to compact."""
    return tuple([stage for stage in stages if getattr(stage, "on_arrival", False)])
