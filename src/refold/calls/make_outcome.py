"""Make the outcome of a compaction from the result of its stages: sizes, whether it fits, and why."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from refold.calls.conversation import Conversation
from refold.calls.outcome import Outcome, Receipt
from refold.core.compaction.budget import Budget, count_as_reported
from refold.core.compaction.guards import find_guarded
from refold.core.compaction.pipeline import Report, Result
from refold.core.compaction.policy import Policy
from refold.core.messages.quick_init import quick_replace
from refold.core.tokens.units import format_count

_PART_NAMES: Final = {
    "system": "the system prompt",
    "tools": "the tool definitions",
    "prompt": "the prompt",
    "files": "the attached files",
}


def make_outcome(
    conversation: Conversation,
    result: Result,
    reason: str,
    *,
    trigger: str,
    goal: int | None = None,
    least: int | None = None,
    most: int | None = None,
) -> Outcome:
    """Make the outcome.

    goal    tokens that the history may have; None if there is no target
    least   tokens that it should keep; None if the target names no lower end
    most    tokens that the whole context may have, as they are reported; None if nobody named a target
    """
    budget, fixed = conversation.budget, conversation.budget.breakdown.fixed
    accepted = tuple(dict.fromkeys(report.stage for report in result.reports if report.accepted))
    touched = bool(accepted) or result.repaired > 0
    used = conversation.calibration.tokens(result.tokens + fixed) if touched else budget.used
    fits, before = used <= budget.room, budget.breakdown.history
    met_target = _meets_target(result.tokens, before, goal, least) and (most is None or used <= most)
    if result.repaired:
        reason = f"{reason}; mended {format_count(result.repaired, 'message')}"
    idle = make_idle_outcome(conversation.policy, budget, reason)
    receipt = replace(idle.receipt, trigger=trigger, goal_tokens=goal, fits=fits, met_target=met_target)
    return replace(
        idle,
        messages=conversation.wire.render(result.messages) if touched else list(conversation.items),
        compacted=bool(accepted),
        fits=fits,
        met_target=met_target,
        stages=accepted,
        tier=result.tier,
        messages_after=len(result.messages),
        tokens_after=used,
        used_after=used,
        edits=result.edits,
        summary=_find_summary(result),
        history=conversation.messages,
        breakdown=replace(budget.breakdown, history=result.tokens, unlisted=used - fixed - result.tokens),
        receipt=replace(receipt, stages=result.reports, mended=result.repaired),
    )


def make_idle_outcome(policy: Policy, budget: Budget, reason: str) -> Outcome:
    """Make the outcome of a context that nothing was done to; it has no messages."""
    parts, fits = budget.breakdown, budget.used <= budget.room
    return Outcome(
        messages=[],
        compacted=False,
        fits=fits,
        reason=reason,
        level=budget.level,
        messages_before=budget.messages,
        messages_after=budget.messages,
        tokens_before=budget.used,
        tokens_after=budget.used,
        used_after=budget.used,
        breakdown=parts,
        budget=budget,
        receipt=Receipt(
            policy=policy.name,
            trigger="none",
            window=budget.window,
            window_source=budget.window_source,
            count_source=budget.count_source,
            estimated_tokens=parts.total,
            reported_tokens=budget.used if budget.count_source == "usage+estimate" else None,
            fits=fits,
            reason=reason,
        ),
    )


def resize_outcome(outcome: Outcome, before: Budget, after: Budget) -> Outcome:
    """Return an outcome with the sizes of a request: a fold may have been made for an earlier view of it."""
    goal, fits = outcome.receipt.goal_tokens, after.used <= after.room
    return quick_replace(
        outcome,
        fits=fits,
        met_target=outcome.met_target and (goal is None or after.breakdown.history <= goal),
        level=before.level,
        messages_before=before.messages,
        messages_after=after.messages,
        tokens_before=before.used,
        tokens_after=after.used,
        used_after=after.used,
        breakdown=after.breakdown,
        budget=before,
    )


def undo_outcome(outcome: Outcome, messages: list[Any]) -> Outcome:
    """Return the outcome of a compaction that was not put in place; `messages` is what stands instead."""
    return replace(
        outcome,
        messages=messages,
        compacted=False,
        stages=(),
        tier=0,
        edits=(),
        summary=None,
        messages_after=outcome.messages_before,
        tokens_after=outcome.tokens_before,
        used_after=outcome.budget.used,
        fits=outcome.budget.used <= outcome.budget.room,
        met_target=outcome.receipt.goal_tokens is None,
    )


def _find_summary(result: Result) -> str | None:
    """Return the text of the first summary that was put in, as it was written."""
    for edit in result.edits:
        for message in edit.put:
            if message.is_summary and message.meta.get("kind") != "ack":
                return str(message.meta.get("text", message.text))
    return None


def _meets_target(tokens: int, before: int, goal: int | None, least: int | None) -> bool:
    if goal is None:
        return True
    return tokens <= goal and (least is None or tokens >= min(least, before))


def explain_result(
    conversation: Conversation, result: Result, goal: int | None, least: int | None, most: int | None
) -> str:
    """Return in one line what the stages achieved; `goal`, `least` and `most` as in `make_outcome`."""
    before, fixed = conversation.budget.breakdown.history, conversation.budget.breakdown.fixed
    accepted = [report for report in result.reports if report.accepted]
    nothing = f"nothing to compact: {_stage_reasons(result.reports) or 'no stage'}"
    if goal is not None and result.tokens > goal:
        used = conversation.calibration.tokens(result.tokens + fixed)
        # The caller's own number; the goal is what the fixed parts leave of it.
        size, target = (used, most) if most is not None and used > most else (result.tokens, goal)
        over = f"{size - target:,} tokens over the target of {target:,}"
        failed = _stage_reasons([report for report in result.reports if report.calls and not report.accepted])
        still = f"{failed}; still {over} after every stage" if failed else f"still {over} after every stage"
        return still if accepted else f"{over}; {nothing}"
    if not accepted:
        return nothing
    # A stage that asked in vain is named, too: another one stands in for the model.
    achieved = _stage_reasons([report for report in result.reports if report.accepted or report.calls])
    if _meets_target(result.tokens, before, goal, least):
        return achieved
    return f"{achieved}; {result.tokens:,} tokens of history are left where {least:,} should stay"


def join_reasons(reason: str, result: Result) -> str:
    """Add what accepted stages did to the reason why nothing else was done."""
    accepted = [report for report in result.reports if report.accepted]
    return f"{reason}; {_stage_reasons(accepted)}" if accepted else reason


def _stage_reasons(reports: Sequence[Report]) -> str:
    return "; ".join(f"{report.stage}: {report.reason}" for report in reports)


def explain_hopeless(conversation: Conversation) -> str:
    """Return why no compaction can make the context fit, and what would; "" if one can.

    A system prompt among the messages counts as a fixed part where the policy never removes it.
    """
    budget, policy = conversation.budget, conversation.policy
    guards = policy.guards & {"system"}
    kept = find_guarded(conversation.messages, conversation.sizes, guards, index=conversation.index)
    system = conversation.counter.tokens(sum(conversation.sizes[index] for index in kept))
    parts, stays = budget.breakdown, budget.breakdown.fixed + system
    # Where a provider counts less than we do, there is more room.
    fixed = count_as_reported(stays, parts.total, budget.used, stays)
    if fixed < budget.room or (fixed == budget.room and len(kept) == len(conversation.messages)):
        return ""
    sizes = {name: getattr(parts, name) for name in _PART_NAMES}
    sizes["system"] += system
    largest = max(sizes, key=lambda name: sizes[name])
    what = f"system prompt, tools, prompt and files alone have {fixed:,} tokens for a room of {budget.room:,}"
    part = f"{_PART_NAMES[largest]} ({sizes[largest]:,} tokens)"
    return f"{what}; shorten the largest part, {part}, or use a larger window"
