"""Measure how full a session's context is, from sums in memory, the provider's reports and the window."""

from dataclasses import dataclass

from refold.calls.conversation import Conversation, add_since
from refold.core.compaction.budget import Breakdown, Budget, make_budget
from refold.core.models.windows import Window
from refold.core.overflow import learned_windows
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.events import ContextWarning
from refold.session.state.request_context import RequestContext
from refold.session.state.session_state import SessionState


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
        return Window(settings.window, None, "given")
    known = settings.policy.window(settings.model)
    if learned is None:
        key = learned_windows.note_key(settings.endpoint, settings.model or "")
        note: str | None = yield StoreCall(lambda: state.store.note(key))
        learned = learned_windows.read_note(note, state.now()) or 0
        state.accounting.note_window(learned)
    if 0 < learned < known.tokens:
        return Window(learned, known.output_tokens, "learned")
    return known


def measure_context(state: SessionState, window: Window, request: RequestContext) -> Budget:
    """Return how full the context is; this takes the same time however long the history is."""
    loaded, policy = state.loaded, state.settings.policy
    breakdown = request.breakdown(loaded.counter, loaded.tokens)
    reserve = policy.reserve.tokens(window.tokens, policy.output, window.output_tokens)
    used, source = _estimate_used(state, breakdown)
    return make_budget(
        breakdown,
        window=window.tokens,
        reserve=reserve,
        room=window.usable(reserve),
        trigger=policy.trigger,
        levels=policy.levels,
        system_messages=loaded.system_tokens,
        messages=len(loaded.messages),
        characters=loaded.characters,
        used=used,
        count_source=source,
        window_source=window.source,
    )


def _estimate_used(state: SessionState, breakdown: Breakdown) -> tuple[int | None, str]:
    """Return the reported size plus an estimate of what came since, scaled by the error of past estimates."""
    report, loaded, learns = state.accounting.report, state.loaded, state.settings.policy.learns
    if report is None or (report.model and report.model != (state.settings.model or "")):
        return None, loaded.counter.name
    if not report.holds:
        return round(breakdown.total * (report.ratio if learns else 1.0)), "usage+estimate"
    at, reply = report.messages, None
    if at is not None and at < len(loaded.messages) and loaded.messages[at].role == "assistant":
        reply = loaded.counter.tokens(loaded.sizes[at])
    since, scale = breakdown.total - report.estimate, report.scale if learns else None
    return add_since(report.usage, since, reply=reply, scale=scale), "usage+estimate"


def to_conversation(state: SessionState, window: Window, budget: Budget) -> Conversation:
    """Return the view as a conversation that was read and measured."""
    loaded, report = state.loaded, state.accounting.report
    # A fold makes the report void, but what it taught of the provider's count stays.
    learned = report is not None and budget.count_source == "usage+estimate" and state.settings.policy.learns
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
        scale=report.ratio if report is not None and learned else 1.0,
    )
