"""What fills the window now, the largest messages, and what a fold would do; asks no model."""

from typing import Any, Final

from refold.calls.plain_data import to_data
from refold.calls.token_kinds import count_by_kind
from refold.core.compaction.budget import Budget
from refold.core.log.view import Replacement
from refold.inspector.http.answers import ApiError
from refold.inspector.scopes import Scope
from refold.inspector.stored import StoredSession
from refold.inspector.views.plan_page import describe_plan, name_place
from refold.inspector.views.session_page import MOST_LOADED, count_seen
from refold.inspector.views.shown import describe_row, find_redactor
from refold.session import operations
from refold.session.drivers import SessionFlow
from refold.session.state.session_state import SessionState
from refold.session.steps.context import context_state, find_report, to_conversation
from refold.session.steps.load import reload_if_stale

BIGGEST: Final = 20
"""Messages that are listed as the largest: about one screen."""


def show_window(scope: Scope, name: str, *, plans: bool) -> dict[str, Any]:
    """Return what fills the window; with `plans` also what a fold would do."""
    stored = scope.read(name)
    if count_seen(stored) > MOST_LOADED:
        raise ApiError("refused", f"the view has {count_seen(stored):,} messages: no window holds so many")
    return scope.open(name).run_flow(_read_window(scope, stored, scope.open(name).state, plans=plans))


def _read_window(
    scope: Scope, stored: StoredSession, state: SessionState, *, plans: bool
) -> SessionFlow[dict[str, Any]]:
    """Read everything while no other operation of the session runs."""
    yield from reload_if_stale(state)
    if state.head is not None and state.head != stored.head:
        stored = scope.read(stored.name)
    context = yield from context_state(state)
    conversation = to_conversation(state, context.window, context.budget)
    plan = None
    if plans:
        plan = describe_plan((yield from operations.plan(state, None)), state.loaded.view_items, stored)
    return {
        "budget": to_data(context.budget),
        "kinds": count_by_kind(conversation),
        "parts": _list_parts(state, stored, context.budget),
        "biggest": _list_biggest(state, stored, context.budget),
        "plan": plan,
    }


def _list_parts(state: SessionState, stored: StoredSession, budget: Budget) -> list[dict[str, Any]]:
    """Return what the room holds, part by part, and what is free of it."""
    loaded, parts = state.loaded, budget.breakdown
    folds: dict[str, int] = {}
    for item, size in zip(loaded.view_items, loaded.sizes, strict=True):
        if isinstance(item, Replacement):
            folds[item.fold] = folds.get(item.fold, 0) + size
    described: list[dict[str, Any]] = [
        {"part": "system", "tokens": parts.system + loaded.system_tokens},
        {"part": "tools", "tokens": parts.tools},
        {"part": "prompt", "tokens": parts.prompt},
        {"part": "files", "tokens": parts.files},
    ]
    left = parts.history - loaded.system_tokens
    for name, units in folds.items():
        tokens = min(left, loaded.counter.tokens(units))
        left -= tokens
        described.append({"part": stored.labels.get(name, "repair"), "tokens": tokens, "fold": name})
    # where the provider counts less than we do, what is said counts less
    described += [
        {"part": "messages", "tokens": max(0, left + min(0, parts.unlisted))},
        {"part": "unlisted", "tokens": max(0, parts.unlisted)},
        {"part": "free", "tokens": max(0, budget.room - budget.used)},
    ]
    return [part for part in described if part["tokens"] or part["part"] in ("messages", "free")]


def _list_biggest(state: SessionState, stored: StoredSession, budget: Budget) -> list[dict[str, Any]]:
    """Return the largest messages of the view, with their age and whether the provider had them cached."""
    loaded, redact = state.loaded, find_redactor(show=False)
    places = range(loaded.fixed, len(loaded.messages))
    turns = _count_turns_behind(state)
    cached = _find_cached(state)
    described = []
    for place in sorted(places, key=lambda at: (-loaded.sizes[at], at))[:BIGGEST]:
        tokens = loaded.counter.tokens(loaded.sizes[place])
        described.append(
            {
                **name_place(loaded.view_items[place], stored),
                **describe_row(loaded.messages[place], loaded.counter, redact),
                "tokens": tokens,
                "share": tokens / max(1, budget.room),
                "age": turns[place],
                "cached": None if cached is None else place < cached,
            }
        )
    return described


def _count_turns_behind(state: SessionState) -> list[int]:
    """Return for each message how many answers stand behind it."""
    behind, turns = [], 0
    for message in reversed(state.loaded.messages):
        behind.append(turns)
        turns += message.role == "assistant"
    return behind[::-1]


def _find_cached(state: SessionState) -> int | None:
    """Return how many messages the provider read from its cache last; None if no report tells."""
    report, loaded = find_report(state), state.loaded
    if report is None or not report.holds:
        return None
    fixed = state.request.breakdown(loaded.counter, 0).total
    left = report.usage.cache_read / report.ratio - fixed
    for place, size in enumerate(loaded.sizes):
        left -= loaded.counter.tokens(size)
        if left < 0:
            return place
    return len(loaded.sizes)
