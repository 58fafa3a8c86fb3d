"""What a provider's answer means: usage to build on, a refusal to recover from, a fold that did not help."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from math import floor
from typing import Any, Final

from refold.calls.compact import CompactionOptions
from refold.core.compaction import circuit_breaker
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
from refold.session.state.session_state import SessionState, UsageReport, commit, mark_entry
from refold.session.steps.cached_prefix import conversation_price
from refold.session.steps.compact import attempt, context_state
from refold.session.steps.context import RequestContext
from refold.session.steps.load import load, load_at_head, retry_on_conflict

RECOVERY: Final = 0.70
"""After a refusal the history is folded to this share of the room that was learned."""


def observe(state: SessionState, answer: Any, around: RequestContext) -> SessionFlow[Observed]:
    """Take in a response or an error; says whether to send the turn again."""
    if state.stale:
        yield from load(state)
    response = read_response(answer)
    if response.finish == "overflow" and response.usage is not None:
        read = response.usage.context + response.usage.output
        return (yield from _refused(state, OverflowInfo(None, read, None), around))
    refusal = overflow(answer)
    if refusal is not None:
        return (yield from _refused(state, refusal, around))
    if isinstance(answer, BaseException):
        return Observed(reason=f"no refusal for size: {type(answer).__name__}")
    return (yield from _answered(state, response, around))


def _answered(state: SessionState, response: Response, around: RequestContext) -> SessionFlow[Observed]:
    if response.completed:
        state.refused = False
        state.breaker = circuit_breaker.step(state.breaker, "turn", state.now())
    usage = response.usage
    if usage is None:
        now = yield from context_state(state, around)
        return Observed(reason="no usage was reported", finish=response.finish, budget=now.budget)
    cut = yield from _silently_cut(state, usage.context, around)
    if cut is not None:
        return cut
    estimate = state.sent_estimate or (yield from context_state(state, around)).budget.breakdown.total
    spent = Spent.of(usage, conversation_price(state, response.model))
    yield from retry_on_conflict(state, lambda: _reported(state, usage, estimate, spent))
    reverted = yield from _judged(state, usage.context)
    now = yield from context_state(state, around)
    state.emit(
        UsageUpdate(
            session=state.name,
            at=state.now(),
            tokens=now.budget.used,
            window=now.budget.window,
            ratio=now.budget.ratio,
            usage=usage,
        )
    )
    return Observed(
        reason="answered", usage=usage, finish=response.finish, budget=now.budget, reverted=reverted
    )


def _reported(state: SessionState, usage: Usage, estimate: int, spent: Spent) -> SessionFlow[None]:
    """Write down what was reported, with the sums by then; others may have reported as well."""
    totals = state.totals.plus(usage)
    own = state.purse.own.plus(spent)
    model = state.settings.model or ""
    value = {**asdict(usage), "estimate": estimate, "model": model}
    report = UsageReport(
        usage=usage, estimate=estimate, model=model, at=state.now(), messages=state.sent_messages
    ).behind(state.report)
    about = {"totals": asdict(totals), "spent": own.as_dict(), "grown": report.grown}
    about |= state.purse.running
    yield from commit(state, [mark_entry(state, "usage", value, about)])
    state.totals = totals
    state.purse = replace(state.purse, own=own)
    state.report = report


def _silently_cut(state: SessionState, context: int, around: RequestContext) -> SessionFlow[Observed | None]:
    """Recover where the provider read far less than it was sent, without a word."""
    sent = state.sent_estimate
    ratios = () if state.report is None else (state.report.ratio,)
    if sent is None or state.refused or not truncated_silently(sent, context, ratios=ratios):
        return None
    info = OverflowInfo(None, implied_limit(context), None)
    return (yield from _refused(state, info, around, told=False))


def _judged(state: SessionState, context: int) -> SessionFlow[str | None]:
    """Undo a fold after which the provider reports no less than before; its name where that was done."""
    trial, state.trial = state.trial, None
    if trial is None:
        return None
    fold, before, size = trial
    if context < before + max(0, state.shelf.tokens - size):  # what was said since counts for both
        return None
    reason = f"{context:,} tokens were reported after the fold and {before:,} before it"
    value = {"trigger": "threshold", "reason": reason, "counted": True}
    return (yield from retry_on_conflict(state, lambda: _reverted(state, fold, value)))


def _reverted(state: SessionState, fold: str, why: Mapping[str, Any]) -> SessionFlow[str | None]:
    """Undo a fold and say why, in one step; nothing where it does not stand in the view any more."""
    found = state.view.fold(fold)
    if found is None or not found.standing or state.view.covering(fold) is not None:
        return None
    vain = mark_entry(state, "attempt", why)
    undone = make_entry("unfold", {"fold": fold}, parent=vain.name, said=vain.said, at=vain.at)
    report = state.report
    yield from commit(state, [vain, undone])
    state.breaker = circuit_breaker.step(state.breaker, "failed", state.now())
    yield from load_at_head(state)
    state.report = None if report is None else replace(report, holds=False)
    state.emit(Unfolded(session=state.name, at=state.now(), fold=fold))
    return fold


def _refused(
    state: SessionState, info: OverflowInfo, around: RequestContext, *, told: bool = True
) -> SessionFlow[Observed]:
    """Learn the window and fold once without a model; a second refusal of one turn is an error.

    `told`: whether the provider named the limit; what was only inferred is forgotten sooner.
    """
    now = yield from context_state(state, around)
    sent = state.sent_estimate or now.budget.breakdown.total
    kept = learned_windows.learn_from_refusal(now.window.tokens, info, sent=sent, at=state.now())
    if kept is not None:
        kept = replace(kept, told=kept.told and told)
        settings = state.settings
        key, note = learned_windows.note_key(settings.endpoint, settings.model or ""), kept.note
        yield StoreCall(lambda: state.store.put_note(key, note))
        state.learned = kept.tokens
    if state.refused:
        _met(state, info, recovered=False)
        raise Overflow(info.provider, info.limit, info.requested)
    state.refused = True
    now = yield from context_state(state, around)
    budget = now.budget
    real = info.requested or max(budget.used, info.limit or 0)
    ratio = min(4.0, max(1.0, real / max(1, sent)))  # what is further off than that is no count
    target = floor(RECOVERY * budget.room / ratio)
    made = yield from attempt(state, now, CompactionOptions(target=target), "emergency")
    now = yield from context_state(state, around)
    state.sent_estimate = now.budget.breakdown.total
    _met(state, info, recovered=made.fold is not None)
    return Observed(
        send_again=made.fold is not None,
        messages=state.sent() if made.fold is not None else None,
        reason="refused for size; " + (made.reason or made.outcome.reason),
        budget=now.budget,
        outcome=made.outcome,
    )


def _met(state: SessionState, info: OverflowInfo, *, recovered: bool) -> None:
    state.emit(
        OverflowMet(
            session=state.name,
            at=state.now(),
            provider=info.provider,
            limit=info.limit,
            requested=info.requested,
            recovered=recovered,
        )
    )
