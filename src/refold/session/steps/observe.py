"""Take in a provider's answer: usage to build on, a refusal to recover from, a fold that did not help."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from refold.calls.build_task import CompactionOptions
from refold.core.compaction import circuit_breaker
from refold.core.compaction.bound_thinking import drop_bound, has_bound
from refold.core.compaction.budget import correct_by_refusal
from refold.core.compaction.edits import replace_message
from refold.core.messages.speakers import find_user_turns
from refold.core.models.prices import Spent
from refold.core.models.windows import Window
from refold.core.overflow import learned_windows
from refold.core.overflow.detect import OverflowInfo, find_block_refusal, is_thinking_refusal, overflow
from refold.core.overflow.error_text import collect_evidence
from refold.core.overflow.silent_truncation import cut_silently, implied_limit
from refold.core.tokens.calibration import (
    LARGEST_WINDOW,
    LEAST_SHARE,
    Calibration,
    Counted,
    confirms,
    is_absurd,
)
from refold.core.tokens.responses import Response, is_report, read_response
from refold.core.tokens.usage import Usage
from refold.errors import Overflow, StoreError, warn_caller
from refold.policies.default import add_floor
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.events import OverflowMet, Unfolded, UsageUpdate
from refold.session.results import Observed
from refold.session.state.accounting import Doubted, SentRequest, TrialFold, UsageReport
from refold.session.state.cached_prefix import conversation_price
from refold.session.state.session_state import SessionState
from refold.session.state.thinking_prefixes import binding_key
from refold.session.steps.append import begin_draft, commit, mark_entry
from refold.session.steps.compact import attempt_compaction
from refold.session.steps.context import (
    ContextState,
    context_state,
    current_request,
    find_report,
    find_window,
    learn_guess,
    learn_refused_guess,
    measure_context,
    note_request,
)
from refold.session.steps.install_fold import install_fold
from refold.session.steps.load import keep_memory, load, load_at_head, retry_on_conflict
from refold.session.steps.native.fold_blocks import adopt_answer, note_block
from refold.session.steps.native.refused_blocks import replace_refused

LEAST_LIMIT: Final = 512
"""A limit that is believed for one turn: no server is started with less. A lower number is no limit."""

_OF_BODY: Final = re.compile(r"\b413\b|(?:request|entity|payload|content|body)[ _]too[ _]large")
_OF_TOKENS: Final = re.compile(r"token|context|prompt|input")
"""Words of refusals: of the body, whose bytes are limited too, and of the model's window."""


def observe(
    state: SessionState,
    answer: Any,
    *,
    is_own: bool = False,
    request: SentRequest | None = None,
    response: Response | None = None,
) -> SessionFlow[Observed]:
    """Take in a response or an error, and return whether to send the turn again.

    is_own    True if an error is surely about this request, and does not quote that of another one
    request   the request that was answered; without it the last one that it can be
    response  the answer, if it was read already
    """
    if state.position.stale:
        yield from load(state)
    request = request and state.accounting.renew_request(request)
    overtaken = request is not None and request.overtaken  # to fold the view would help another branch
    response = response or read_response(answer)
    if response.finish == "overflow" and response.usage is not None and not overtaken:
        return (yield from _recover_ended(state, response, response.usage))
    refusal = None if overtaken or _has_answered(answer, response) else overflow(answer)
    if refusal is not None:
        sent = _find_request(state, refusal.requested).estimate
        is_own = is_own or state.loaded.sums.guessed > 0  # of documents only the provider knows the tokens
        if not is_own and not learned_windows.agrees_with_request(refusal, sent):
            names = f"it names {refusal.requested or refusal.limit:,} tokens, {sent:,} were sent"
            return Observed(reason=f"no refusal of this request: {names}")
        return (yield from _recover(state, refusal, teaches=not _may_mean_bytes(answer, refusal)))
    # the words of a model are no refusal, so an answer is looked at only if it is an error
    is_error = isinstance(answer, BaseException) or (isinstance(answer, dict | Mapping) and "error" in answer)
    if is_error and (why := (yield from _replace_refused(state, answer))):
        return _send_without_blocks(state, why)
    if isinstance(answer, BaseException):
        return Observed(reason=f"no refusal for size: {type(answer).__name__}")
    try:
        observed = yield from _record_answer(state, response, request)
    except StoreError as error:  # nothing is in memory either, so that a report has nothing to stand behind
        if not (yield StoreCall(partial(state.log.go_on_without, error))):
            raise
        return Observed(reason="the usage is not recorded", finish=response.finish)
    note_block(state, response)
    is_block = response.raw_finish == "compaction"
    fold = (yield from retry_on_conflict(state, lambda: adopt_answer(state, response))) if is_block else None
    return observed if fold is None else _resume_paused(state, response, observed, fold)


def _recover_ended(state: SessionState, response: Response, usage: Usage) -> SessionFlow[Observed]:
    """Recover from an answer that ended where the window does, as from a refusal."""
    read = usage.input + usage.output
    ended = _find_request(state, read)
    # A report that leaves cached tokens out is no limit.
    whole = read >= LEAST_SHARE * ended.expected
    yield from _record_cost(state, response, usage, ended)
    return (yield from _recover(state, OverflowInfo(None, read if whole else None, None), stated=False))


def find_said(answer: Any, response: Response) -> Any:
    """Return what an answer says, in the shape that `say` takes; None where it says nothing.

    A response that nobody can read is no empty one: its words would be lost without a warning.
    """
    is_error = isinstance(answer, BaseException) or (isinstance(answer, Mapping) and "error" in answer)
    if answer is not None and response == Response() and not is_error:
        warn_caller("no answer was found in the response: append it with say(...)")
    return list(response.message) if isinstance(response.message, tuple) else response.message


def _has_answered(answer: Any, response: Response) -> bool:
    """True if a model has answered, so that the words need not be searched for a refusal."""
    if response.finish in {"stop", "tool_calls"} and response.completed:
        return (answer.get("error") if isinstance(answer, dict) else getattr(answer, "error", None)) is None
    return response.usage is not None and is_report(answer)


def _replace_refused(state: SessionState, error: Any) -> SessionFlow[str]:
    """Take blocks out of the view that their own provider has refused; returns why, "" if there are none."""
    if code := find_block_refusal(error):
        instead = yield from retry_on_conflict(state, lambda: replace_refused(state, code))
        return f"{code}: sent again {instead}" if instead else ""
    if not is_thinking_refusal(error):
        return ""
    dropped = yield from retry_on_conflict(state, lambda: _drop_refused_thinking(state))
    return "thinking is bound to what stood before it: sent again without it" if dropped else ""


def _drop_refused_thinking(state: SessionState) -> SessionFlow[bool]:
    """Take all thinking out of the view; return False if it shows none.

    Where a model is known to bind thinking, a view shows none that would be refused, unless the caller has
    brought along what was made elsewhere. A fold takes that out, so that no other process sends it again.
    """
    if not any(map(has_bound, state.loaded.messages)):
        return False
    yield from _learn_binding(state)
    state.caller.thinking.note_sent("")  # no answer is made behind what was refused
    state.bind_view()
    messages = state.loaded.messages
    edits = [
        replace_message(messages, place, drop_bound(message), "thinking", "refused by the provider")
        for place, message in enumerate(messages)
        if has_bound(message)
    ]
    if edits:
        yield from install_fold(state, tuple(state.loaded.view_items), edits, {"trigger": "repair"})
    return True


def _learn_binding(state: SessionState) -> SessionFlow[None]:
    """Remember that the model binds thinking, for other sessions of the store, too."""
    endpoint, model = state.settings.endpoint, state.settings.model or ""
    if not state.caller.thinking.applies_to(model):
        state.caller.thinking.learn(model)
        yield StoreCall(lambda: state.log.put_note(binding_key(endpoint, model), f"{state.now():.0f}"))


def _send_without_blocks(state: SessionState, reason: str) -> Observed:
    """Return the view to send again after the provider has refused blocks of its own."""
    note_request(state)
    origins = state.caller.trace_view(state.loaded)
    return Observed(send_again=True, messages=state.send_view(), origins=origins, reason=reason)


def _resume_paused(state: SessionState, response: Response, observed: Observed, fold: str) -> Observed:
    """Return the turn to send again if the provider has paused it to compact by itself.

    A block with a signature, and the item of an endpoint, were asked for: they are the answer.
    """
    message = response.message
    blocks = message["content"] if isinstance(message, dict) else ()
    observed = replace(observed, fold=fold, reason="the provider has compacted")
    if not blocks or any(block.get("signature") for block in blocks):
        return observed
    note_request(state)
    reason = "the provider has compacted and paused: the turn goes on behind its block"
    return replace(observed, send_again=True, messages=state.send_view(), reason=reason)


def _record_answer(
    state: SessionState, response: Response, request: SentRequest | None
) -> SessionFlow[Observed]:
    """Record a response: that the model took its turn, and the usage, if one request can have it."""
    accounting, usage = state.accounting, response.usage
    if response.unbound:
        yield from _learn_binding(state)
    if response.completed:
        accounting.note_refusal(refused=False)
        accounting.record_breaker_event("turn", state.now())
    window = yield from find_window(state)
    ignored = response.impossible and f"ignored a number in a report of usage: {response.impossible}"
    request = request or _find_request(state, None if usage is None else usage.input)
    if usage is not None and usage.input > LARGEST_WINDOW and usage.input > window.tokens:
        ignored = f"ignored a report of {usage.input:,} tokens for a request of about {request.expected:,}"
        usage = None
    if ignored:
        warn_caller(ignored)
    if usage is None:
        reason = ignored or "no usage was reported"
        budget = measure_context(state, window, state.request)
        return Observed(reason=reason, finish=response.finish, budget=budget)
    return (yield from _record_usage(state, response, usage, request, window))


def _record_usage(
    state: SessionState, response: Response, usage: Usage, request: SentRequest, window: Window
) -> SessionFlow[Observed]:
    """Record the usage of a request, and undo the last fold if it did not help."""
    accounting = state.accounting
    absurd = is_absurd(usage.input, expected=request.expected, window=window.tokens)
    compacted = response.compacted
    is_size = not absurd and not compacted
    believed = is_size and _is_believed(state, request, usage.input)
    if is_size and (learned := learn_guess(state, request, usage.input, believed=believed)):
        request, believed = learned, True
    doubted, expected = accounting.doubted, request.expected
    is_odd = not believed and not compacted and not request.overtaken
    cut = is_odd and doubted and cut_silently(doubted.counted, Counted(expected, usage.input))
    if cut and not accounting.refused:
        info = OverflowInfo(None, implied_limit(usage.input), None)
        yield from _record_cost(state, response, usage, request)
        return (yield from _recover(state, info, stated=False))
    yield from _record_cost(state, response, usage, request, window, believed=believed, is_odd=is_odd)
    reverted, trial = None, accounting.end_trial(request)
    # A fold did not help if no less is reported after it than before; what was said since counts for both.
    said_since = 0 if trial is None else max(0, state.loaded.tokens - trial.history_after)
    helped = trial is None or absurd or usage.input < trial.used_before + said_since
    # While the store fails, what the fold hid may not be there to be shown again.
    if trial is not None and not helped and state.log.failure is None:
        reverted = yield from retry_on_conflict(state, lambda: _undo_trial(state, trial, usage.input))
    budget = measure_context(state, window, state.request)
    if believed and usage.input > budget.window:
        _report_overflow(state, OverflowInfo(None, budget.window, usage.input), recovered=False)
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
    reason = "answered"
    if is_odd:
        sizes = f"{usage.input:,} tokens were reported and about {expected:,} were sent"
        why = "that is no count of one request" if absurd else "not all of it was counted"
        reason = f"answered; {sizes}: {why}, so the estimate stays"
    return Observed(reason=reason, usage=usage, finish=response.finish, budget=budget, reverted=reverted)


def _find_request(state: SessionState, reported: int | None) -> SentRequest:
    """Return the request that an answer belongs to; the view as it stands if no list was given out."""
    return state.accounting.find_request(reported) or current_request(state)


def _is_believed(state: SessionState, request: SentRequest, reported: int) -> bool:
    """True if a report can be a count of the whole request."""
    report, doubted = find_report(state), state.accounting.doubted
    if request.overtaken and report is not None and report.holds:
        return False  # that one is about what the view shows now
    counted = Counted(request.estimate, reported)
    if doubted is not None:
        last = Counted(doubted.estimate, doubted.reported)
        if confirms(doubted.counted, Counted(request.expected, reported)):
            return True
        # What was counted beside another system prompt or other tools may be what is named now. A report
        # that leaves cached tokens out leaves the tools out the second time.
        is_named = report is not None and report.fixed not in (None, doubted.fixed)
        is_named = is_named and doubted.fixed == request.fixed
        is_whole = is_named and Calibration().believes(last, extends=False)
        if is_whole and Calibration(last=last).believes(counted, extends=True):
            return True
    calibration = Calibration() if report is None else report.calibration
    extends = report is not None and report.holds and request.holds
    return calibration.believes(counted, extends=extends)


def _record_cost(
    state: SessionState,
    response: Response,
    usage: Usage,
    request: SentRequest,
    window: Window | None = None,
    *,
    believed: bool = False,
    is_odd: bool = False,
) -> SessionFlow[None]:
    """Record what an answer cost, also if it was cut short by the window or is no size to build on."""
    spent = Spent.of(response.cost or usage, conversation_price(state, response.model, window))
    append = partial(_append_usage, state, usage, request, spent, believed=believed, is_odd=is_odd)
    yield from retry_on_conflict(state, append)


def record_reports(state: SessionState, reports: Sequence[Usage], sent: int | None) -> SessionFlow[None]:
    """Record what a provider reported in a conversation that was imported: all costs, and the last size.

    sent   messages of the view that the last request had; None if the view has changed since
    """
    accounting, loaded, price = state.accounting, state.loaded, conversation_price(state)
    *earlier, last = reports
    for cost in earlier:
        own = accounting.spending.own.plus(Spent.of(cost, price))
        accounting.add_doubted_usage(None, own)
    estimate = last.context if sent is None else loaded.counter.total(loaded.sizes[:sent])
    request = replace(current_request(state), estimate=estimate, messages=sent or 0, holds=sent is not None)
    size = replace(last, cache_read=0, cache_write=0)  # no cache holds it any more
    yield from _append_usage(state, size, request, Spent.of(last, price), believed=True, is_odd=False)


def _append_usage(
    state: SessionState,
    usage: Usage,
    request: SentRequest,
    spent: Spent,
    *,
    believed: bool,
    is_odd: bool,
) -> SessionFlow[None]:
    """Append a report with the sums by then; they are added up here, because others may have reported too.

    spent      what all passes took
    believed   True if it is taken as the size of the request, and not for its cost only
    is_odd     True if it should be the size of the request, and the next report may confirm it
    """
    accounting, model = state.accounting, state.settings.model or ""
    own = accounting.spending.own.plus(spent)
    value = {**usage.as_dict(), "estimate": request.estimate, "model": model}
    sums = own.as_dict()
    totals = {name: sums[name] for name in ("input", "output", "cache_read", "cache_write")}
    about = {"totals": {"requests": own.calls, **totals}, "spent": sums, **accounting.spending.recorded_sum}
    if not believed:
        doubted = accounting.doubted if request.overtaken else None
        if is_odd:
            doubted = Doubted(usage.input, request.estimate, request.expected, request.fixed)
        about |= {"believed": False} | ({"doubted": doubted} if doubted else {})
        yield from commit(state, [mark_entry(state, "usage", value, about)])
        accounting.add_doubted_usage(doubted, own)
        return
    report = UsageReport(
        usage=usage,
        estimate=request.estimate,
        model=model,
        at=state.now(),
        messages=request.messages,
        fixed=request.fixed,
        holds=request.holds,
        guess=state.loaded.counter.guess,
    ).after(accounting.report)
    about |= {"grown": report.grown, "messages": request.messages, "fixed": request.fixed}
    if not report.holds:
        about["stands"] = False
    about |= {"guess": report.guess} if report.guess != 1.0 else {}
    yield from commit(state, [mark_entry(state, "usage", value, about)])
    accounting.add_usage(report, own)


def _undo_trial(state: SessionState, trial: TrialFold, context: int) -> SessionFlow[str | None]:
    """Undo a fold and record why, in one write; None if it does not stand in the view any more."""
    name, accounting = trial.fold, state.accounting
    fold = state.view.fold(name)
    if fold is None or not fold.standing or state.view.covering(name) is not None:
        return None
    reason = f"{context:,} tokens were reported after the fold and {trial.used_before:,} before it"
    value = {"trigger": "threshold", "reason": reason, "counted": True}
    draft, report = begin_draft(state), accounting.report
    draft.add("attempt", value)
    draft.add("unfold", {"fold": name})
    yield from commit(state, draft.marks)
    accounting.record_breaker_event("failed", state.now())
    yield from keep_memory(state, load_at_head(state, view_known=True))
    # The report in memory knows more than the log: how many messages the request had.
    accounting.replace_report(None if report is None else replace(report, holds=False))
    state.events.add(Unfolded(session=state.name, at=state.now(), fold=name))
    return name


def _may_mean_bytes(error: Any, info: OverflowInfo) -> bool:
    """True if a refusal may be about bytes, as Anthropic's 413 is: screenshots have many, and few tokens."""
    if (info.limit, info.requested) != (None, None):
        return False
    evidence = collect_evidence(error)
    text = "\n".join(text for facts in evidence for text in facts.texts).lower()
    is_413 = any(413 in facts.statuses for facts in evidence)
    return (is_413 or _OF_BODY.search(text) is not None) and _OF_TOKENS.search(text) is None


def _recover(
    state: SessionState, info: OverflowInfo, *, stated: bool = True, teaches: bool = True
) -> SessionFlow[Observed]:
    """Learn the window and fold below what was sent; a second refusal of one turn is an error.

    stated    True if the provider named the limit; an inferred one holds in this session only
    teaches   False if the refusal may be about something else than tokens
    """
    accounting, settings = state.accounting, state.settings
    sent = learn_refused_guess(state, info) or _find_request(state, info.requested).estimate
    known = yield from context_state(state)
    learned = learned_windows.learn_from_refusal(known.window.tokens, info, sent=sent, at=state.now())
    if teaches and learned is not None and learned_windows.agrees_with_request(info, sent):
        if stated and learned.stated:  # a guess is for this session only
            key = learned_windows.note_key(settings.endpoint, settings.model or "")
            yield StoreCall(partial(state.log.put_note, key, learned.note))
        accounting.note_window(learned.tokens)
    if accounting.refused:
        _report_overflow(state, info, recovered=False)
        raise Overflow(info.provider, info.limit, info.requested)
    accounting.note_refusal(refused=True)
    state.caller.thinking.note_sent("")  # no answer is made behind what was refused
    # The policy's own stages run first, with the floor behind them that reaches every size without a model.
    policy, options = add_floor(settings.policy), CompactionOptions(refused=True)
    if state.summariser.ask is not None:
        allowed = circuit_breaker.allows(accounting.breaker, state.now())
        why = "no model is asked" + (" after a refusal" if allowed.yes else f": {allowed.explanation}")
        options = replace(options, model=policy.refused_asks and allowed.yes, why_no_model=why)
    for _ in range(2):  # a store that came back may bring a longer view, whose fold may still be too large
        context = _judge_refusal(state, known, info, sent)
        attempt = yield from attempt_compaction(state, context, options, "emergency", policy=policy)
        size = measure_context(state, known.window, state.request).breakdown.total
        if (folded := attempt.fold is not None and size < sent) or attempt.fold is None:
            break
    budget = (yield from context_state(state)).budget
    note_request(state)
    _report_overflow(state, info, recovered=folded)
    return Observed(
        send_again=folded,
        messages=state.send_view() if folded else None,
        origins=state.caller.trace_view(state.loaded) if folded else (),
        reason="refused for size; " + (attempt.reason or attempt.outcome.reason),
        budget=budget,
        outcome=attempt.outcome,
    )


def _judge_refusal(state: SessionState, known: ContextState, info: OverflowInfo, sent: int) -> ContextState:
    """Return the context as a refusal proves it, for this turn: its size and the window.

    sent   the size of the refused request, by our own count
    """
    if not learned_windows.agrees_with_request(info, sent):  # it is true, yet of another way to count
        info = learned_windows.scale_to_request(info, sent)
    limit = None if info.limit is None or info.limit < LEAST_LIMIT else info.limit
    # A limit above the known window is believed too: the size that was refused is counted against it.
    window = known.window if limit is None else replace(known.window, tokens=limit)
    refused = info.requested or max(known.budget.used, limit or 0)
    loaded = state.loaded
    last = sum(loaded.sizes[place] for place in find_user_turns(loaded.messages)[-1:])
    budget = correct_by_refusal(
        measure_context(state, window, state.request),
        ratio=refused / max(1, sent),
        stated=limit is not None,
        system=loaded.system_tokens,
        request=loaded.counter.tokens(last),
    )
    return ContextState(window, replace(budget, window=min(known.window.tokens, window.tokens)))


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
