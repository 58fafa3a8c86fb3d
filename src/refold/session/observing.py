"""What a provider's answer means: usage to build on, a refusal to recover from, a fold that did not help."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from math import floor
from typing import Any, Final

from refold.calls.compact import Wish
from refold.core.compaction import circuit_breaker
from refold.core.log.entries import entry
from refold.core.models.prices import Spent
from refold.core.overflow import learned_windows
from refold.core.overflow.detect import OverflowInfo, overflow
from refold.core.overflow.silent_truncation import implied_limit, truncated_silently
from refold.core.tokens.responses import Response, read_response
from refold.core.tokens.usage import Usage
from refold.errors import Overflow
from refold.session.budgets import Around
from refold.session.deciding import attempt, standing
from refold.session.effects import Do, Work
from refold.session.events import OverflowMet, Unfolded, UsageUpdate
from refold.session.keeper import Keeper, Reported, commit, mark
from refold.session.loading import behind, load, sure
from refold.session.prefixing import price_of_talk
from refold.session.values import Observed

RECOVERY: Final = 0.70
"""After a refusal the history is folded to this share of the room that was learned."""


def observe(keeper: Keeper, answer: Any, around: Around) -> Work[Observed]:
    """Take in a response or an error; says whether to send the turn again."""
    if keeper.stale:
        yield from load(keeper)
    response = read_response(answer)
    if response.finish == "overflow" and response.usage is not None:
        read = response.usage.context + response.usage.output
        return (yield from _refused(keeper, OverflowInfo(None, read, None), around))
    refusal = overflow(answer)
    if refusal is not None:
        return (yield from _refused(keeper, refusal, around))
    if isinstance(answer, BaseException):
        return Observed(reason=f"no refusal for size: {type(answer).__name__}")
    return (yield from _answered(keeper, response, around))


def _answered(keeper: Keeper, response: Response, around: Around) -> Work[Observed]:
    if response.completed:
        keeper.refused = False
        keeper.breaker = circuit_breaker.step(keeper.breaker, "turn", keeper.now())
    usage = response.usage
    if usage is None:
        now = yield from standing(keeper, around)
        return Observed(reason="no usage was reported", finish=response.finish, budget=now.budget)
    cut = yield from _silently_cut(keeper, usage.context, around)
    if cut is not None:
        return cut
    estimate = keeper.sent_estimate or (yield from standing(keeper, around)).budget.breakdown.total
    spent = Spent.of(usage, price_of_talk(keeper, response.model))
    yield from sure(keeper, lambda: _reported(keeper, usage, estimate, spent))
    reverted = yield from _judged(keeper, usage.context)
    now = yield from standing(keeper, around)
    keeper.emit(
        UsageUpdate(
            session=keeper.name,
            at=keeper.now(),
            tokens=now.budget.used,
            window=now.budget.window,
            ratio=now.budget.ratio,
            usage=usage,
        )
    )
    return Observed(
        reason="answered", usage=usage, finish=response.finish, budget=now.budget, reverted=reverted
    )


def _reported(keeper: Keeper, usage: Usage, estimate: int, spent: Spent) -> Work[None]:
    """Write down what was reported, with the sums by then; others may have reported as well."""
    totals = keeper.totals.plus(usage)
    own = keeper.purse.own.plus(spent)
    model = keeper.settings.model or ""
    value = {**asdict(usage), "estimate": estimate, "model": model}
    report = Reported(
        usage=usage, estimate=estimate, model=model, at=keeper.now(), messages=keeper.sent_messages
    ).behind(keeper.report)
    about = {"totals": asdict(totals), "spent": own.as_dict(), "grown": report.grown}
    about |= keeper.purse.running
    yield from commit(keeper, [mark(keeper, "usage", value, about)])
    keeper.totals = totals
    keeper.purse = replace(keeper.purse, own=own)
    keeper.report = report


def _silently_cut(keeper: Keeper, context: int, around: Around) -> Work[Observed | None]:
    """Recover where the provider read far less than it was sent, without a word."""
    sent = keeper.sent_estimate
    ratios = () if keeper.report is None else (keeper.report.ratio,)
    if sent is None or keeper.refused or not truncated_silently(sent, context, ratios=ratios):
        return None
    info = OverflowInfo(None, implied_limit(context), None)
    return (yield from _refused(keeper, info, around, told=False))


def _judged(keeper: Keeper, context: int) -> Work[str | None]:
    """Undo a fold after which the provider reports no less than before; its name where that was done."""
    trial, keeper.trial = keeper.trial, None
    if trial is None:
        return None
    fold, before, size = trial
    if context < before + max(0, keeper.shelf.tokens - size):  # what was said since counts for both
        return None
    reason = f"{context:,} tokens were reported after the fold and {before:,} before it"
    value = {"trigger": "threshold", "reason": reason, "counted": True}
    return (yield from sure(keeper, lambda: _reverted(keeper, fold, value)))


def _reverted(keeper: Keeper, fold: str, why: Mapping[str, Any]) -> Work[str | None]:
    """Undo a fold and say why, in one step; nothing where it does not stand in the view any more."""
    found = keeper.view.fold(fold)
    if found is None or not found.standing or keeper.view.covering(fold) is not None:
        return None
    vain = mark(keeper, "attempt", why)
    undone = entry("unfold", {"fold": fold}, parent=vain.name, said=vain.said, at=vain.at)
    report = keeper.report
    yield from commit(keeper, [vain, undone])
    keeper.breaker = circuit_breaker.step(keeper.breaker, "failed", keeper.now())
    yield from behind(keeper)
    keeper.report = None if report is None else replace(report, holds=False)
    keeper.emit(Unfolded(session=keeper.name, at=keeper.now(), fold=fold))
    return fold


def _refused(keeper: Keeper, info: OverflowInfo, around: Around, *, told: bool = True) -> Work[Observed]:
    """Learn the window and fold once without a model; a second refusal of one turn is an error.

    `told`: whether the provider named the limit; what was only inferred is forgotten sooner.
    """
    now = yield from standing(keeper, around)
    sent = keeper.sent_estimate or now.budget.breakdown.total
    kept = learned_windows.learned(now.window.tokens, info, sent=sent, at=keeper.now())
    if kept is not None:
        kept = replace(kept, told=kept.told and told)
        settings = keeper.settings
        key, note = learned_windows.key(settings.endpoint, settings.model or ""), kept.note
        yield Do(lambda: keeper.store.put_note(key, note))
        keeper.learned = kept.tokens
    if keeper.refused:
        _met(keeper, info, recovered=False)
        raise Overflow(info.provider, info.limit, info.requested)
    keeper.refused = True
    now = yield from standing(keeper, around)
    budget = now.budget
    real = info.requested or max(budget.used, info.limit or 0)
    ratio = min(4.0, max(1.0, real / max(1, sent)))  # what is further off than that is no count
    target = floor(RECOVERY * budget.room / ratio)
    made = yield from attempt(keeper, now, Wish(target=target), "emergency")
    now = yield from standing(keeper, around)
    keeper.sent_estimate = now.budget.breakdown.total
    _met(keeper, info, recovered=made.fold is not None)
    return Observed(
        send_again=made.fold is not None,
        messages=keeper.sent() if made.fold is not None else None,
        reason="refused for size; " + (made.reason or made.outcome.reason),
        budget=now.budget,
        outcome=made.outcome,
    )


def _met(keeper: Keeper, info: OverflowInfo, *, recovered: bool) -> None:
    keeper.emit(
        OverflowMet(
            session=keeper.name,
            at=keeper.now(),
            provider=info.provider,
            limit=info.limit,
            requested=info.requested,
            recovered=recovered,
        )
    )
