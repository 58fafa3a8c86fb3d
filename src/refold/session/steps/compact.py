"""Compact the view of a session if it is due, and record every attempt in the log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from refold.calls.build_task import CompactionOptions
from refold.calls.compact import compaction_flow
from refold.calls.make_outcome import make_idle_outcome, undo_outcome
from refold.calls.outcome import Outcome, Receipt
from refold.core.compaction import circuit_breaker
from refold.core.compaction.budget import Budget
from refold.core.compaction.policy import Policy
from refold.core.log.normal_form import split_cache_marks
from refold.core.log.view import MessageRange, Replacement, ViewItem
from refold.core.messages.message import Message
from refold.errors import Conflict, StoreError
from refold.formats.shared.summaries import recognise_summary
from refold.formats.systems.file_forms import IN_LOG
from refold.session.drivers import SessionFlow
from refold.session.events import CompactionFailed, CompactionSkipped, CompactionStart
from refold.session.state.block_makers import can_ask, find_maker
from refold.session.state.cached_prefix import LEAST_HIT, find_cached_prefix
from refold.session.state.fold_leases import FoldLease, claim_lease, shares_folds, wait_for_lease, work_under
from refold.session.state.loaded_view import unmark_said
from refold.session.state.session_state import SessionState
from refold.session.steps.append import commit, mark_entry
from refold.session.steps.context import (
    ContextState,
    context_state,
    explain_wait,
    is_crowded,
    measure_next_turns,
    to_conversation,
    warn_listeners,
    warn_of_crowding,
)
from refold.session.steps.install_fold import Attempt, MadeFor, install_fold, record_fold, redact_receipt
from refold.session.steps.load import check_head, retry_on_conflict
from refold.session.steps.recall import HANDLE, read_said
from refold.session.steps.shared_folds import take_over_folds
from refold.stages.native import Native

WAIT_FRACTION: Final = 0.95
"""Share of the room from which the caller waits for a fold that is being prepared. Lower makes callers wait
who have room left; higher risks a refusal, because an estimate may be some percent too low."""
OTHER_FOLDS: Final = "another process prepares a fold"
OTHER_FOLDED: Final = "another process has changed the view just now"
LEAST_SAVED: Final = 0.05
"""Share of its tokens that the history must lose in a fold that misses the target: a fold moves the prefix,
so that the provider reads the whole context again at the full price. Lower folds more often for less."""


def compact_if_due(state: SessionState, context: ContextState, why_not: str) -> SessionFlow[Attempt]:
    """Compact if it is due and the circuit breaker allows it; not for a reason that is given."""
    if why_not:
        return Attempt(make_idle_outcome(state.settings.policy, context.budget, why_not))
    settled, context = yield from _settle_without_stages(state, context)
    if settled is not None:
        return settled
    budget = context.budget
    spare = measure_next_turns(state) if is_crowded(state, budget) else 0
    allowed = circuit_breaker.allows(state.accounting.breaker, state.now())
    if allowed.yes:
        options, lease = yield from _claim_fold(state, budget, spare)
        if options is None:
            return Attempt(make_idle_outcome(state.settings.policy, budget, OTHER_FOLDS))
        if lease is None:
            return (yield from attempt_compaction(state, context, options, "threshold"))
        return (yield from work_under(lease, _fold_if_newest(state, context, options, lease)))
    why = allowed.explanation
    if budget.used > budget.room:
        why_no_model = f"no model is asked: {why}"
        options = CompactionOptions(why_no_model=why_no_model, spare=spare)
        return (yield from attempt_compaction(state, context, options, "emergency", remark=why_no_model))
    idle = make_idle_outcome(state.settings.policy, budget, f"not now: {why}")
    return (
        yield from record_failed_attempt(
            state, idle, "threshold", idle.reason, counted=False, until=allowed.until
        )
    )


def _settle_without_stages(
    state: SessionState, context: ContextState
) -> SessionFlow[tuple[Attempt | None, ContextState]]:
    """Return an attempt if nothing is due, or if a fold that exists already is enough; and the context."""
    crowded = is_crowded(state, context.budget)
    if crowded:
        warn_of_crowding(state, context.budget)
    if state.pending_fold is not None and context.budget.ratio >= WAIT_FRACTION:
        prepared: Attempt | None = yield from state.pending_fold()
        context = yield from context_state(state)
        if prepared is not None and prepared.fold is not None and not context.budget.should_compact:
            return prepared, context
    if why := _explain_idle(state, context.budget, crowded=crowded):
        return Attempt(make_idle_outcome(state.settings.policy, context.budget, why)), context
    taken_over = yield from take_over_folds(state, context.budget)
    if taken_over is not None:
        context = yield from context_state(state)
    return (None if context.budget.should_compact else taken_over), context


def _claim_fold(
    state: SessionState, budget: Budget, spare: int
) -> SessionFlow[tuple[CompactionOptions | None, FoldLease | None]]:
    """Return how to fold, and the right to; None where another process folds: one would pay in vain."""
    options = CompactionOptions(model=state.summariser.ask is not None, spare=spare)
    if not shares_folds(state):
        return options, None
    try:
        lease = yield from claim_lease(state)
        if lease is None and budget.ratio >= WAIT_FRACTION:
            lease = yield from wait_for_lease(state)
    except StoreError:  # then nobody else folds either
        return options, None
    if lease is not None:
        return options, lease
    if budget.ratio < WAIT_FRACTION:
        return None, None
    return CompactionOptions(why_no_model=f"no model is asked: {OTHER_FOLDS}", spare=spare), None


def _fold_if_newest(
    state: SessionState, context: ContextState, options: CompactionOptions, lease: FoldLease
) -> SessionFlow[Attempt]:
    """Fold the view, unless another process has changed it before it gave the lease away."""
    try:
        yield from check_head(state)
    except Conflict:
        state.position.fall_behind()
        idle = make_idle_outcome(state.settings.policy, context.budget, OTHER_FOLDED)
        return Attempt(idle, overtaken=True)
    except StoreError:  # a fold is only stored behind the head that was seen
        pass
    return (yield from attempt_compaction(state, context, options, "threshold", lease=lease))


def _explain_idle(state: SessionState, budget: Budget, *, crowded: bool) -> str:
    """Return why no fold is due now; "" if one is."""
    if not budget.should_compact:
        line = budget.trigger_tokens
        return (
            "compaction is switched off" if line is None else f"not yet: {budget.used:,} of {line:,} tokens"
        )
    if state.pending_fold is not None and budget.ratio < WAIT_FRACTION:
        return "a fold is being prepared in the background"
    wait = explain_wait(state, budget) if crowded else ""
    return f"not now: {wait}" if wait else ""


def attempt_compaction(
    state: SessionState,
    context: ContextState,
    options: CompactionOptions,
    trigger: str,
    *,
    policy: Policy | None = None,
    lease: FoldLease | None = None,
    remark: str = "",
    asks_provider: bool = True,
) -> SessionFlow[Attempt]:
    """Run the policy's stages on the view, and install the fold if it still applies.

    asks_provider   False if the provider is not to compact; a list that it refused for its size is too long
    """
    began, policy = state.now(), policy or state.settings.policy
    state.events.add(CompactionStart(session=state.name, at=began, trigger=trigger))
    conversation = to_conversation(state, context.window, context.budget, refused=options.refused)
    stages = _add_native_stage(state, policy) if asks_provider and trigger != "emergency" else policy
    conversation = replace(conversation, policy=stages)
    # Read now: while a model answers, other operations may change the state.
    begun = _Begun(
        trigger=trigger,
        policy=policy,
        view_items=tuple(state.loaded.view_items),
        since=MadeFor(state.view, state.position.tip),
        checkpoint=latest_checkpoint(state) if policy.begins_at_checkpoint else None,
        used=context.budget.used,
        began=began,
        lease=lease,
    )
    options = yield from complete_options(state, context, options)
    try:
        outcome = yield from compaction_flow(conversation, options)
    except BaseException as error:
        if not isinstance(error, Exception | GeneratorExit):  # Ctrl-C, or a task that was cancelled
            idle = make_idle_outcome(policy, context.budget, f"interrupted by {type(error).__name__}")
            yield from record_failed_attempt(state, idle, trigger, idle.reason, counted=False)
        raise
    _note_questions(state, options, outcome.receipt)
    try:
        return (yield from _record_outcome(state, begun, outcome := _add_remark(outcome, trigger, remark)))
    except StoreError:  # the answers are paid for; the next entry records it
        state.accounting.add_spending(outcome.receipt.spent, state.now())
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """An attempt as it was begun: what it was made for."""

    trigger: str
    policy: Policy
    view_items: tuple[ViewItem | None, ...]
    since: MadeFor
    checkpoint: str | None
    """The one that moves; under most policies it is a place to go back to, and stays."""
    used: int
    began: float
    lease: FoldLease | None


def _record_outcome(state: SessionState, begun: _Begun, outcome: Outcome) -> SessionFlow[Attempt]:
    """Append the fold of an outcome to the log, or why there is none."""
    if failure := _find_failure(outcome, begun.trigger, _warn_of_cap(state, outcome)):
        return (yield from record_failed_attempt(state, outcome, begun.trigger, failure))
    facts, place, edits = _describe_fold(outcome, begun.policy), begun.policy.checkpoint, outcome.edits
    # The checkpoint moves behind a fold of the messages since it; the fold may include a summary before it.
    if begun.checkpoint is not None and place is not None and any(e.start <= place < e.end for e in edits):
        facts["checkpoint"] = begun.checkpoint
    installed = yield from install_fold(
        state,
        begun.view_items,
        edits,
        facts,
        receipt=outcome.receipt,
        since=begun.since,
        lease=begun.lease,
        began=begun.began,
    )
    if installed.entry is None:
        return (yield from record_failed_attempt(state, outcome, begun.trigger, installed.reason))
    return record_fold(state, installed.entry, facts, outcome, begun.used)


def _add_remark(outcome: Outcome, trigger: str, remark: str) -> Outcome:
    """Return an outcome with a remark in its reason: log, receipt, event and caller get the same words."""
    reason = outcome.reason if remark in outcome.reason else f"{outcome.reason}; {remark}"
    receipt = replace(outcome.receipt, trigger=trigger, reason=reason)
    return replace(outcome, reason=reason, receipt=receipt)


def _add_native_stage(state: SessionState, policy: Policy) -> Policy:
    """Return a policy that has the provider compact by itself first, where it can be asked."""
    if not can_ask(state):
        return policy
    request = state.request
    maker, model = find_maker(state), state.settings.model or ""
    stage = Native(maker=maker, model=model, system=request.system, tools=request.tools)
    return replace(policy, stages=(stage, *policy.stages))


def _note_questions(state: SessionState, options: CompactionOptions, receipt: Receipt) -> None:
    """Note what the questions of an attempt have shown: windows, misses of the cache, what was in vain."""
    state.accounting.note_questions(receipt.calls)
    if turned_down := max((report.turned_down for report in receipt.stages), default=0):
        state.accounting.note_turned_down(turned_down)
    for call in receipt.calls:
        if options.prefix is not None and call.prefixed and not call.estimated:
            missed = call.cache_read < options.prefix.cached * LEAST_HIT
            state.accounting.note_cache_miss(missed=missed)


def _describe_fold(outcome: Outcome, policy: Policy) -> dict[str, Any]:
    """Return what the log says of a fold; it is unanswered if a model was asked and no summary was taken."""
    asked = [report.accepted for report in outcome.receipt.stages if report.calls]
    facts: dict[str, Any] = {
        "trigger": outcome.receipt.trigger,
        "policy": policy.name,
        "stages": list(outcome.stages),
        "before": outcome.tokens_before,
        "after": outcome.tokens_after,
    }
    return facts | ({"unanswered": True} if asked and not any(asked) else {})


def _find_failure(outcome: Outcome, trigger: str, cap: str) -> str:
    """Return why an outcome must not become a fold; "" if it may.

    cap   why no model may be asked; a fold in the background can wait until one may
    """
    if cap and trigger == "background":
        return cap
    if not outcome.compacted:
        return outcome.reason
    # 256 tokens are about one long message; in a tiny window a fiftieth of it is enough.
    least = max(LEAST_SAVED * outcome.tokens_before, min(256, outcome.budget.window / 50))
    budget = outcome.budget
    # A fold that brings the context into the room, or into the window at least, is made for any saving.
    helps = outcome.fits and (outcome.met_target or budget.used > budget.room)
    helps = helps or outcome.used_after <= budget.window < budget.used
    if trigger != "forced" and not helps and outcome.tokens_saved < least:
        return f"it would save too little; {outcome.reason}"
    return ""


def complete_options(
    state: SessionState, context: ContextState, options: CompactionOptions
) -> SessionFlow[CompactionOptions]:
    """Add what the session knows: pins, numbers, messages that were cut, prices, caps, prefix."""
    view, pins = state.view, list(options.pins)
    numbers: list[tuple[int, int] | None] = []
    originals = {
        index: view.originals(item)
        for index, item in enumerate(state.loaded.view_items)
        if isinstance(item, Replacement)
    }
    for index, item in enumerate(state.loaded.view_items):
        if item is None or (isinstance(item, MessageRange) and item.first in view.pins):
            pins.append(index)  # system messages stay as well
        if isinstance(item, Replacement):
            numbers.append(_find_numbers(state, originals[index], state.loaded.messages[index]))
        else:
            numbers.append(None if item is None else (item.first, item.last))
    asks_behind = options.model and not options.refused  # a refused prefix can only be refused again
    windows = (options.ask_window or state.summariser.window, state.accounting.ask_window)
    return replace(
        options,
        pins=tuple(pins),
        ask_window=min((window for window in windows if window), default=None),
        ask_price=state.summariser.price,
        allowance=state.accounting.spending.allowance_left(state.settings.caps, state.now()),
        turned_down=state.accounting.turned_down if state.accounting.turned_down <= view.said else 0,
        prefix=find_cached_prefix(state, context.budget.used) if asks_behind else None,
        numbers=tuple(numbers),
        uncut=(yield from _read_uncut(state, originals)),
        archive=state.settings.history or ("" if state.log.store.address == "memory:" else IN_LOG),
    )


def _read_uncut(
    state: SessionState, originals: Mapping[int, Sequence[MessageRange]]
) -> SessionFlow[dict[int, Message]]:
    """Read the messages that earlier folds have cut, by number; a store that fails costs only this.

    originals   the messages that items of the view stand for, by the places of these
    """
    loaded = state.loaded
    places: dict[int, int] = {}
    for index, stretches in originals.items():
        is_one = len(stretches) == 1 and stretches[0].first == stretches[0].last
        if is_one and not loaded.messages[index].is_summary:
            places[stretches[0].first] = index
    # The last folds have read most of them; where a message is read with its neighbours, it is read anew.
    known = {number: loaded.found.get((_read_uncut, number)) for number in places}
    uncut = {number: message for number, message in known.items() if message is not None}
    missing = {number: index for number, index in places.items() if number not in uncut}
    if not missing:
        return uncut
    try:
        items = yield from read_said(state, [MessageRange(number, number) for number in missing])
    except StoreError:
        return {}
    said = [split_cache_marks(item)[0] for item in items]
    read = loaded.wire.parse(said)
    if loaded.is_positional(read):  # others before them tell their ids
        whole = list(loaded.items)
        for index, item in zip(missing.values(), said, strict=True):
            whole[index] = item  # where they stood then; now they stand elsewhere
        parsed = loaded.wire.parse(whole)
        read = tuple(parsed[index] for index in missing.values())
    for number, message in zip(missing, read, strict=True):
        uncut[number] = unmark_said(message)
        if not loaded.is_positional([message]):
            loaded.found.put((_read_uncut, number), uncut[number], lasts=True)
    return uncut


def _find_numbers(
    state: SessionState, originals: Sequence[MessageRange], message: Message
) -> tuple[int, int] | None:
    """Return the numbers of the first and the last message that a fold's message stands for.

    A summary of several ranges stands in place of the last one in the log; its header names them all.
    """
    ranges = [(stretch.first, stretch.last) for stretch in originals]
    header = recognise_summary(message.role, message.text) or {}
    match = HANDLE.fullmatch(str(header.get("covers", "")))
    claim = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    ranges += [claim] if 1 <= claim[0] <= claim[1] <= state.view.said else []
    return (min(first for first, _ in ranges), max(last for _, last in ranges)) if ranges else None


def latest_checkpoint(state: SessionState) -> str | None:
    """Return the name of the last checkpoint on this branch; a name that is used again has moved."""
    places = state.view.checkpoints
    return max(list(places)[::-1], key=lambda name: places[name]) if places else None


def _warn_of_cap(state: SessionState, outcome: Outcome) -> str:
    """Warn listeners once that a cap forbids to ask a model; returns why, or ""."""
    why = next((report.reason for report in outcome.receipt.stages if report.capped), "")
    if why and not state.accounting.spending.warned:
        warn_listeners(state, outcome.budget, why)
    if why or outcome.receipt.calls:
        state.accounting.note_cap_warning(warned=bool(why))
    return why


def record_failed_attempt(
    state: SessionState,
    outcome: Outcome,
    trigger: str,
    reason: str,
    *,
    counted: bool = True,
    until: float | None = None,
) -> SessionFlow[Attempt]:
    """Append an attempt that failed to the log, and tell listeners: everybody gets the same reason.

    counted   False if the circuit breaker does not count it, though a full context was its trigger
    until     when it may be attempted again, if that is known
    """
    receipt = replace(outcome.receipt, reason=reason, trigger=trigger, session=state.name)
    outcome = replace(outcome, reason=reason, receipt=receipt)
    counted = counted and trigger == "threshold"
    failed = any(not report.accepted and report.calls for report in outcome.receipt.stages)
    receipt = redact_receipt(state, outcome.receipt)
    value = {"trigger": trigger, "reason": receipt.reason, "counted": counted}

    def act() -> SessionFlow[None]:
        about = {"receipt": receipt.as_dict(), **state.accounting.spending.record_attempt(receipt.spent)}
        yield from commit(state, [mark_entry(state, "attempt", value, about)])

    yield from retry_on_conflict(state, act)
    at = state.now()
    state.accounting.add_spending(receipt.spent, at)
    if counted:
        state.accounting.record_breaker_event("failed", at)
    if failed or outcome.compacted:
        state.events.add(CompactionFailed(session=state.name, at=at, reason=receipt.reason, receipt=receipt))
    else:
        state.events.add(CompactionSkipped(session=state.name, at=at, reason=receipt.reason, until=until))
    if outcome.compacted:
        outcome = undo_outcome(outcome, state.send_view())
    return Attempt(outcome, None, reason)
