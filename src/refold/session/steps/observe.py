"""Take in a provider's answer: usage to build on, a refusal to recover from, a fold that did not help."""

from dataclasses import asdict, replace
from math import floor
from typing import Any, Final

from refold.calls.compact import CompactionOptions
from refold.core.log.entries import make_entry
from refold.core.models.prices import Spent
from refold.core.overflow import learned_windows
from refold.core.overflow.detect import OverflowInfo, overflow
from refold.core.overflow.silent_truncation import implied_limit, truncated_silently
from refold.core.tokens.responses import Response, read_response
from refold.core.tokens.usage import Usage
from refold.errors import Overflow
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.events import OverflowMet, Unfolded, UsageUpdate
from refold.session.results import Observed
from refold.session.state.accounting import TrialFold, UsageReport
from refold.session.state.session_state import SessionState
from refold.session.steps.append import commit, mark_entry
from refold.session.steps.cached_prefix import conversation_price
from refold.session.steps.compact import attempt_compaction
from refold.session.steps.context import context_state, measure_context
from refold.session.steps.load import load, load_at_head, retry_on_conflict

RECOVERY_FRACTION: Final = 0.70
"""Share of the learned room to which the history is folded after a refusal. Lower folds more than needed;
higher risks a second refusal, which is an error, because the size is only estimated."""
_MOST_UNDERCOUNTED: Final = 4.0
"""Factor by which an estimate may be below the provider's number; a larger number is no count."""


def observe(state: SessionState, answer: Any) -> SessionFlow[Observed]:
    """Take in a response or an error, and return whether to send the turn again."""
    if state.position.stale:
        yield from load(state)
    response = read_response(answer)
    if response.finish == "overflow" and response.usage is not None:
        read = response.usage.context + response.usage.output
        return (yield from _recover(state, OverflowInfo(None, read, None)))
    refusal = overflow(answer)
    if refusal is not None:
        return (yield from _recover(state, refusal))
    if isinstance(answer, BaseException):
        return Observed(reason=f"no refusal for size: {type(answer).__name__}")
    return (yield from _record_answer(state, response))


def _record_answer(state: SessionState, response: Response) -> SessionFlow[Observed]:
    """Record the usage of a response, and undo the last fold if it did not help."""
    accounting, usage = state.accounting, response.usage
    if response.completed:
        accounting.note_refusal(refused=False)
        accounting.record_breaker_event("turn", state.now())
    if usage is None:
        budget = (yield from context_state(state)).budget
        return Observed(reason="no usage was reported", finish=response.finish, budget=budget)
    sent = accounting.sent_estimate
    ratios = () if accounting.report is None else (accounting.report.ratio,)
    if sent and not accounting.refused and truncated_silently(sent, usage.context, ratios=ratios):
        info = OverflowInfo(None, implied_limit(usage.context), None)
        return (yield from _recover(state, info, stated=False))
    estimate = sent or (yield from context_state(state)).budget.breakdown.total
    spent = Spent.of(usage, conversation_price(state, response.model))
    yield from retry_on_conflict(state, lambda: _append_usage(state, usage, estimate, spent))
    reverted, trial = None, accounting.end_trial()
    # A fold did not help if no less is reported after it than before; what was said since counts for both.
    said_since = 0 if trial is None else max(0, state.loaded.tokens - trial.history_after)
    if trial is not None and usage.context >= trial.used_before + said_since:
        reverted = yield from retry_on_conflict(state, lambda: _undo_trial(state, trial, usage.context))
    budget = (yield from context_state(state)).budget
    state.events.add(
        UsageUpdate(
            session=state.name,
            at=state.now(),
            tokens=budget.used,
            window=budget.window,
            ratio=budget.ratio,
            usage=usage,
        )
    )
    return Observed(reason="answered", usage=usage, finish=response.finish, budget=budget, reverted=reverted)


def _append_usage(state: SessionState, usage: Usage, estimate: int, spent: Spent) -> SessionFlow[None]:
    """Append a report with the sums by then; they are added up here, because others may have reported too."""
    accounting, model = state.accounting, state.settings.model or ""
    totals = accounting.totals.plus(usage)
    own = accounting.spending.own.plus(spent)
    value = {**asdict(usage), "estimate": estimate, "model": model}
    report = UsageReport(
        usage=usage, estimate=estimate, model=model, at=state.now(), messages=accounting.sent_messages
    ).after(accounting.report)
    about = {"totals": asdict(totals), "spent": own.as_dict(), "grown": report.grown}
    about |= accounting.spending.recorded_sum
    yield from commit(state, [mark_entry(state, "usage", value, about)])
    accounting.add_usage(report, totals, own)


def _undo_trial(state: SessionState, trial: TrialFold, context: int) -> SessionFlow[str | None]:
    """Undo a fold and record why, in one write; None if it does not stand in the view any more."""
    name, accounting = trial.fold, state.accounting
    fold = state.view.fold(name)
    if fold is None or not fold.standing or state.view.covering(name) is not None:
        return None
    reason = f"{context:,} tokens were reported after the fold and {trial.used_before:,} before it"
    value = {"trigger": "threshold", "reason": reason, "counted": True}
    failure = mark_entry(state, "attempt", value)
    undone = make_entry("unfold", {"fold": name}, parent=failure.name, said=failure.said, at=failure.at)
    report = accounting.report
    yield from commit(state, [failure, undone])
    accounting.record_breaker_event("failed", state.now())
    yield from load_at_head(state)
    # The report in memory knows more than the log: how many messages the request had.
    accounting.replace_report(None if report is None else replace(report, holds=False), accounting.totals)
    state.events.add(Unfolded(session=state.name, at=state.now(), fold=name))
    return name


def _recover(state: SessionState, info: OverflowInfo, *, stated: bool = True) -> SessionFlow[Observed]:
    """Learn the window and fold once without a model; a second refusal of one turn is an error.

    stated   True if the provider named the limit; an inferred limit is forgotten sooner
    """
    accounting, settings = state.accounting, state.settings
    context = yield from context_state(state)
    sent = accounting.sent_estimate or context.budget.breakdown.total
    learned = learned_windows.learn_from_refusal(context.window.tokens, info, sent=sent, at=state.now())
    if learned is not None:
        note = replace(learned, stated=learned.stated and stated).note
        key = learned_windows.note_key(settings.endpoint, settings.model or "")
        yield StoreCall(lambda: state.store.put_note(key, note))
        accounting.note_window(learned.tokens)
    if accounting.refused:
        _report_overflow(state, info, recovered=False)
        raise Overflow(info.provider, info.limit, info.requested)
    accounting.note_refusal(refused=True)
    context = yield from context_state(state)
    real = info.requested or max(context.budget.used, info.limit or 0)
    ratio = min(_MOST_UNDERCOUNTED, max(1.0, real / max(1, sent)))
    room = context.budget.room
    if learned is not None:  # a window that the caller gave stays, but this turn has to fit the true one
        limit = replace(context.window, tokens=min(context.window.tokens, learned.tokens))
        room = measure_context(state, limit, state.request).room
    options = CompactionOptions(
        target=floor(RECOVERY_FRACTION * room / ratio),
        why_no_model="no model is asked after a refusal",
    )
    attempt = yield from attempt_compaction(state, context, options, "emergency")
    budget = (yield from context_state(state)).budget
    accounting.note_request(budget.breakdown.total)
    folded = attempt.fold is not None
    _report_overflow(state, info, recovered=folded)
    return Observed(
        send_again=folded,
        messages=state.send_view() if folded else None,
        reason="refused for size; " + (attempt.reason or attempt.outcome.reason),
        budget=budget,
        outcome=attempt.outcome,
    )


def _report_overflow(state: SessionState, info: OverflowInfo, *, recovered: bool) -> None:
    state.events.add(
        OverflowMet(
            session=state.name,
            at=state.now(),
            provider=info.provider,
            limit=info.limit,
            requested=info.requested,
            recovered=recovered,
        )
    )
