"""Measure how full a session's context is, from sums in memory, the provider's reports and the window.

Where system prompt, tools and files leave little room, a session warns once and folds less often.
"""

from dataclasses import dataclass, replace
from typing import Final

from refold.calls.conversation import Conversation, add_since
from refold.core.compaction.budget import CROWDED, Breakdown, Budget, count_as_reported, make_budget
from refold.core.models.windows import Window, choose_window
from refold.core.overflow import learned_windows
from refold.core.overflow.detect import OverflowInfo
from refold.core.tokens.calibration import LEAST_SHARE, Calibration
from refold.core.tokens.units import format_count
from refold.errors import warn_caller
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.events import ContextWarning
from refold.session.state.accounting import SentRequest, UsageReport
from refold.session.state.request_context import RequestContext
from refold.session.state.session_state import SessionState
from refold.session.state.thinking_prefixes import UNKNOWN

LEAST_GUESS: Final = 0.01
"""Share of a guess that stays: of a document known by name 300 tokens, as what is said beside it may be
estimated too high."""
FAR_OFF: Final = 1.25
"""A report of so many times the estimate says that new documents are larger than those before; what is said
beside them is off by less."""
LEAST_TURNS: Final = 4
"""Turns of the model between two folds where system prompt and tools leave little room. Fewer fold so often
that every second request is read anew at the full price; more keep less of the history at each fold."""


@dataclass(frozen=True, slots=True)
class ContextState:
    """The window and how full it is."""

    window: Window
    budget: Budget


def context_state(state: SessionState) -> SessionFlow[ContextState]:
    """Return how full the context is now."""
    window = yield from find_window(state)
    return ContextState(window, measure_context(state, window, state.request))


def warn_listeners(state: SessionState, budget: Budget, reason: str = "") -> None:
    """Warn listeners of a level, or of something else that needs a decision of people."""
    state.events.add(
        ContextWarning(
            session=state.name,
            at=state.now(),
            level=budget.level,
            used=budget.used,
            room=budget.room,
            reason=reason,
        )
    )


def find_window(state: SessionState) -> SessionFlow[Window]:
    """Return the window: the given one; else the policy's, unless a refusal taught a smaller one."""
    settings, learned = state.settings, state.accounting.learned_window
    if settings.window is not None:
        if (window := state.accounting.given_window) is None:
            window = choose_window(settings.policy.window, settings.model, settings.window)
            state.accounting.note_given_window(window)
        return window
    known = settings.policy.window(settings.model)
    if learned is None:
        key = learned_windows.note_key(settings.endpoint, settings.model or "")
        note: str | None = yield StoreCall(lambda: state.log.note(key))
        learned = learned_windows.read_note(note, state.now()) or 0
        state.accounting.note_window(learned)
    if 0 < learned < known.tokens:
        return known.resize(learned, "learned")
    return known


def measure_context(state: SessionState, window: Window, request: RequestContext) -> Budget:
    """Return how full the context is; this takes the same time however long the history is."""
    loaded, policy = state.loaded, state.settings.policy
    if loaded.sums.guessed:
        _, room = policy.find_room(window)
        counter, has_report = state.counter(), find_report(state) is not None
        loaded.count_guesses(counter if has_report else counter.bound_guesses(loaded.sums.guessed, room))
    breakdown, system = request.breakdown(loaded.counter, loaded.tokens), loaded.system_tokens
    used, source = _estimate_used(state, breakdown)
    reserve, room = policy.find_room(window, breakdown, system, used)
    return make_budget(
        breakdown,
        window=window.tokens,
        reserve=reserve,
        room=room,
        trigger=policy.trigger,
        levels=policy.levels,
        system_messages=system,
        messages=len(loaded.messages),
        characters=loaded.sums.characters,
        used=used,
        count_source=source,
        window_source=window.source,
    )


def _estimate_used(state: SessionState, breakdown: Breakdown) -> tuple[int | None, str]:
    """Return the reported size plus an estimate of what came since, scaled by the error of past estimates."""
    report, loaded, learns = find_report(state), state.loaded, state.settings.policy.learns
    if report is None:
        return None, loaded.counter.name
    if not report.holds:
        calibration = report.calibration if learns else Calibration()
        return calibration.tokens(breakdown.total), "usage+estimate"
    at, reply = report.messages, None
    if at is not None and at < len(loaded.messages) and loaded.messages[at].role == "assistant":
        reply = loaded.counter.tokens(loaded.sizes[at])
    since, scale = breakdown.total - report.estimate, report.calibration.scale if learns else None
    return add_since(report.usage, since, reply=reply, scale=scale), "usage+estimate"


def find_report(state: SessionState) -> UsageReport | None:
    """Return the last report that was believed, if it is one of the model in use."""
    report = state.accounting.report
    return None if report and report.model and report.model != (state.settings.model or "") else report


def current_request(state: SessionState, budget: Budget | None = None) -> SentRequest:
    """Return the view as it stands as a request, with its size."""
    loaded, view = state.loaded, state.position.view
    if budget is None:
        breakdown = state.request.breakdown(loaded.counter, loaded.tokens)
        used, _ = _estimate_used(state, breakdown)
    else:
        breakdown, used = budget.breakdown, budget.used
    return SentRequest(
        estimate=breakdown.total,
        expected=breakdown.total if used is None else used,
        messages=len(loaded.messages),
        fixed=breakdown.system + breakdown.tools,
        folds=tuple([fold.name for fold in view.folds if fold.standing]) if view.folds else (),
        said=view.said,
    )


def learn_guess(
    state: SessionState, request: SentRequest, reported: int, *, believed: bool
) -> SentRequest | None:
    """Learn from a report what documents take that nobody can read; None if it tells nothing of them.

    Returns the request by that size: a guess is no count, and must not stand against one. The first report
    tells it, and later ones that are far off: if they are lower, only where all of the last one is in them.
    """
    loaded = state.loaded
    guessed = loaded.sums.guessed if state.settings.policy.learns else 0
    if not guessed:
        return None
    others, report = request.estimate - round(guessed * loaded.counter.guess), find_report(state)
    if reported < LEAST_SHARE * others:
        return None
    if report is not None:
        extends = report.holds and request.holds and reported >= report.usage.input
        is_news = reported > FAR_OFF * request.estimate if believed else extends
        if not is_news:
            return None
    learned = min(1.0, max(LEAST_GUESS, (reported - others) / guessed))
    loaded.count_guesses(replace(loaded.counter, guess=learned))
    estimate = others + round(guessed * learned)
    return replace(request, estimate=estimate, expected=estimate)


def learn_refused_guess(state: SessionState, info: OverflowInfo) -> int:
    """Learn from a refusal that names a size what documents take that nobody can read.

    Returns the size of the view by that; 0 if the refusal tells nothing of them.
    """
    accounting, report = state.accounting, find_report(state)
    if info.requested is None or report is None:
        return 0
    learned = learn_guess(state, current_request(state), info.requested, believed=True)
    if learned is None:
        return 0
    guess = state.loaded.counter.guess
    accounting.replace_report(replace(report, guess=guess, holds=False))
    return learned.estimate


def note_request(state: SessionState, budget: Budget | None = None) -> None:
    """Note that the view is given out as a request: its size, and what thinking in the answer is bound to.

    budget   how full the context is, if that was just measured
    """
    state.accounting.note_request(current_request(state, budget))
    thinking = state.caller.thinking
    # an answer of a model that binds nothing is nobody's whose thinking is bound
    thinking.note_sent(state.loaded.bound.prefix or (UNKNOWN if thinking.has_begun else ""))


def to_conversation(
    state: SessionState, window: Window, budget: Budget, *, refused: bool = False
) -> Conversation:
    """Return the view as a conversation that was read and measured.

    refused   True if a refusal for size has told how the provider counts, and the budget has its numbers
    """
    loaded, report = state.loaded, find_report(state)
    # A fold makes the report void, but what it taught of the provider's count stays.
    calibration = report.calibration if report and state.settings.policy.learns else Calibration()
    if refused:
        ratio = budget.used / max(1, budget.breakdown.total)
        calibration = Calibration(ratio=ratio, scale=ratio)
    return Conversation(
        wire=loaded.wire,
        items=tuple(loaded.items),
        messages=tuple(loaded.messages),
        sizes=tuple(loaded.sizes),
        policy=state.settings.policy,
        counter=loaded.counter,
        window=window,
        budget=budget,
        sound=loaded.sound is not None,
        calibration=calibration,
        binds_thinking=loaded.bound.thinking is not None,
        bounds_guesses=report is None and not refused,
        found=loaded.found,
    )


# -- crowded sessions ---------------------------------------------------------------------------------------


def is_crowded(state: SessionState, budget: Budget) -> bool:
    """True if system prompt, tools and files take so much of the room that little else fits."""
    return find_fixed_tokens(state, budget) > CROWDED * budget.room


def find_fixed_tokens(state: SessionState, budget: Budget) -> int:
    """Return the tokens of system prompt, tools and files, system messages in the history included.

    They are counted as the provider does, as far as it has told.
    """
    parts, used = budget.breakdown, budget.used
    return count_as_reported(parts.standing + state.loaded.system_tokens, parts.total, used, budget.window)


def warn_of_crowding(state: SessionState, budget: Budget) -> None:
    """Tell the caller and the listeners, once in a session, that little of the conversation fits."""
    if state.accounting.crowded:
        return
    fixed = find_fixed_tokens(state, budget)
    text = (
        f"system prompt, tools and files take {fixed:,} of the {budget.room:,} tokens that fit"
        f" ({fixed / budget.room:.0%}), so that little of the conversation stays:"
        " use a larger window, fewer tools or a shorter system prompt"
    )
    state.accounting.note_crowding()
    warn_listeners(state, budget, text)
    warn_caller(text)


def explain_wait(state: SessionState, budget: Budget) -> str:
    """Return why the next fold of a crowded session has to wait; "" if it may be made."""
    # A policy that leaves no room for the answer cannot wait until the room is full.
    if not budget.used <= budget.room < budget.window:
        return ""
    folds = state.shortening_folds()
    if not folds:
        return ""
    new = min(state.view.said - folds[-1].said, len(state.loaded.messages))
    since = state.loaded.messages[-new:] if new > 0 else ()
    turns = sum(message.role == "assistant" for message in since)
    if turns >= LEAST_TURNS:
        return ""
    return f"the last fold was {format_count(turns, 'turn')} ago, and the context still fits"


def measure_next_turns(state: SessionState) -> int:
    """Return the tokens of the newest turns, as many as should fit behind the next fold."""
    loaded, turns, units = state.loaded, 0, 0
    for place in range(len(loaded.messages) - 1, loaded.fixed - 1, -1):
        units += loaded.sizes[place]
        turns += loaded.messages[place].role == "assistant"
        if turns == LEAST_TURNS:
            break
    return loaded.counter.tokens(units * LEAST_TURNS // turns) if turns else 0
