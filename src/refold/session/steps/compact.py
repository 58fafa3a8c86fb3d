"""Prepare what is sent: take in, measure, mend, compact where it is time; give what the model is to see."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from refold.calls.compact import CompactionOptions, build_task, compaction_flow
from refold.calls.outcome import Outcome, Receipt
from refold.core.compaction import circuit_breaker
from refold.core.compaction.budget import Budget
from refold.core.compaction.pipeline import shrink
from refold.core.compaction.policy import Policy
from refold.core.log.view import ViewItem, MessageRange
from refold.core.models.windows import Window
from refold.session.drivers import SessionFlow
from refold.session.events import CompactionFailed, CompactionSkipped, CompactionStart, ContextWarning
from refold.session.results import Ready
from refold.session.state.session_state import SessionState, commit, mark_entry
from refold.session.steps.cached_prefix import find_cached_prefix, note_cache_misses
from refold.session.steps.context import RequestContext, find_window, measure_context, to_conversation
from refold.session.steps.install_fold import Attempt, install_fold, redact_receipt
from refold.session.steps.install_fold import record_fold as folded
from refold.session.steps.load import reload_if_stale, retry_on_conflict
from refold.session.steps.take_in import take_in

SOFT: Final = 0.70
"""From this share of the room on a fold may be prepared in the background."""
NEAR: Final = 0.82
"""Where it is due before that share of the room: from this share of the line at which it is due."""
WALL: Final = 0.95
"""From here on the caller waits for one that is being prepared."""


@dataclass(frozen=True, slots=True)
class ContextState:
    """The context as it stands."""

    window: Window
    budget: Budget
    around: RequestContext = field(default_factory=RequestContext)


def prepare(
    state: SessionState, messages: Sequence[Any] | None, around: RequestContext
) -> SessionFlow[Ready]:
    """Store what is new, compact where it is time, and give what to send."""
    as_said = yield from retry_on_conflict(state, lambda: _taken(state, messages))
    now = yield from context_state(state, around)
    _warn(state, now.budget)
    state.refused = False
    made = yield from compact_if_due(state, now, around)
    now = (yield from context_state(state, around)) if made.fold else now
    state.sent_estimate = now.budget.breakdown.total
    state.sent_messages = len(state.shelf.messages)
    whole = as_said and not state.view.standing and len(messages or ()) == len(state.shelf.items)
    sent = messages if whole and isinstance(messages, list) else state.sent()
    return Ready(
        messages=sent, budget=now.budget, outcome=replace(made.outcome, messages=sent), fold=made.fold
    )


def _taken(state: SessionState, messages: Sequence[Any] | None) -> SessionFlow[bool]:
    """Take in what the caller brings, and mend it where a provider would refuse it.

    Gives whether it is what was said, and no view of it.
    """
    said, as_said = state.view.said, False
    if messages is None:
        yield from reload_if_stale(state)
    else:
        as_said = yield from take_in(state, messages)
    new = state.view.said - said
    if new > 0 and any(message.role == "assistant" for message in state.shelf.messages[-new:]):
        state.breaker = circuit_breaker.step(state.breaker, "turn", state.now())
    if state.shelf.sound is None:
        yield from _mend(state)
    return as_said


def _mend(state: SessionState) -> SessionFlow[None]:
    """Make a fold of what has to be mended, so that it is mended once."""
    window = yield from find_window(state)
    conversation = to_conversation(state, window, measure_context(state, window, RequestContext()))
    policy = state.settings.policy
    task = build_task(conversation, CompactionOptions(), None)
    result = yield from shrink(task, (), orphans=policy.orphans, missing=policy.missing)
    if result.mended:
        yield from install_fold(state, tuple(state.shelf.atoms), result.edits, {"trigger": "repair"})


def context_state(state: SessionState, around: RequestContext) -> SessionFlow[ContextState]:
    """How full the context is now."""
    window = yield from find_window(state)
    return ContextState(window, measure_context(state, window, around), around)


def _warn(state: SessionState, budget: Budget) -> None:
    """Tell listeners when a level is reached, once."""
    if budget.level not in ("none", state.level):
        state.emit(
            ContextWarning(
                session=state.name, at=state.now(), level=budget.level, used=budget.used, room=budget.room
            )
        )
    state.level = budget.level


def compact_if_due(state: SessionState, now: ContextState, around: RequestContext) -> SessionFlow[Attempt]:
    """Compact if it is time to and the breaker lets us."""
    budget = now.budget
    if state.waiting is not None and budget.ratio >= WALL:
        made: Attempt | None = yield from state.waiting()
        now = yield from context_state(state, around)
        budget = now.budget
        if made is not None and made.fold is not None and not budget.should_compact:
            return made
    if not budget.should_compact:
        return Attempt(idle(state, now, _line(budget)))
    if state.waiting is not None and budget.ratio < WALL:
        return Attempt(idle(state, now, "a fold is being prepared in the background"))
    allowed = circuit_breaker.allows(state.breaker, state.now())
    if allowed.yes:
        return (yield from attempt(state, now, CompactionOptions(model=state.ask is not None), "threshold"))
    if budget.used > budget.room:
        return (yield from attempt(state, now, CompactionOptions(), "emergency"))
    state.emit(
        CompactionSkipped(session=state.name, at=state.now(), reason=allowed.reason, until=allowed.until)
    )
    return Attempt(idle(state, now, f"not now: {allowed.reason}"))


def _line(budget: Budget) -> str:
    if budget.trigger_tokens is None:
        return "compaction is switched off"
    return f"not yet: {budget.used:,} of {budget.trigger_tokens:,} tokens"


def attempt(
    state: SessionState,
    now: ContextState,
    wish: CompactionOptions,
    trigger: str,
    *,
    policy: Policy | None = None,
    fence: int | None = None,
) -> SessionFlow[Attempt]:
    """Run the policy's stages on the view, and install what comes of it if it still applies."""
    state.emit(CompactionStart(session=state.name, at=state.now(), trigger=trigger))
    conversation = to_conversation(state, now.window, now.budget)
    conversation = replace(conversation, policy=policy or conversation.policy)
    atoms = tuple(state.shelf.atoms)
    pins = (*wish.pins, *_pinned(state, atoms))
    said = state.view.said
    tip = state.tip
    checkpoint = latest_checkpoint(state) if state.view.checkpoints else None
    wish = replace(
        wish,
        pins=pins,
        ask_window=wish.ask_window or state.ask_window,
        ask_price=state.summariser.price,
        allowance=state.purse.left(state.settings.caps, state.now()),
        prefix=find_cached_prefix(state, now.budget.used, now.around) if wish.model else None,
        numbers=_numbers(state),
    )
    outcome = yield from compaction_flow(conversation, wish)
    outcome = replace(outcome, receipt=replace(outcome.receipt, trigger=trigger))
    capped = _told_caps(state, outcome)
    note_cache_misses(state, wish.prefix, outcome.receipt.calls)
    if capped and trigger == "background":  # what waits for a model may wait on
        return (yield from record_failed_attempt(state, outcome, trigger, capped))
    if not outcome.compacted:
        return (yield from record_failed_attempt(state, outcome, trigger, outcome.reason))
    if trigger != "forced" and not outcome.fits and not _worth(outcome):
        why = f"it would save too little; {outcome.reason}"
        return (yield from record_failed_attempt(state, outcome, trigger, why))
    facts = {
        "trigger": trigger,
        "policy": conversation.policy.name,
        "stages": list(outcome.stages),
        "before": outcome.tokens_before,
        "after": outcome.tokens_after,
        **since_checkpoint(checkpoint, conversation.policy.checkpoint, outcome),
    }
    since = (said, tip)
    made = yield from install_fold(
        state, atoms, outcome.edits, facts, receipt=outcome.receipt, since=since, fence=fence
    )
    if made.entry is None:
        return (yield from record_failed_attempt(state, outcome, trigger, made.reason))
    return folded(state, made.entry, outcome, now.budget.used)


def latest_checkpoint(state: SessionState) -> str:
    """The name of the last checkpoint on the way; a name that is used again moves."""
    places = state.view.checkpoints
    return max(list(places)[::-1], key=lambda name: places[name])


def since_checkpoint(name: str | None, place: int | None, outcome: Outcome) -> dict[str, str]:
    """The checkpoint that moves behind the fold, where the fold takes what stands behind it.

    A summary in front of the checkpoint may be taken along.
    """
    if name is None or place is None or not any(edit.start <= place < edit.end for edit in outcome.edits):
        return {}
    return {"checkpoint": name}


def _worth(outcome: Outcome) -> bool:
    """Whether a fold that does not reach its target saves enough to move the prefix for it."""
    least = max(0.05 * outcome.tokens_before, min(256, outcome.budget.window / 50))
    return outcome.tokens_saved >= least


def _pinned(state: SessionState, atoms: Sequence[ViewItem | None]) -> list[int]:
    """Places of the messages that stay: system messages and pins."""
    pins = state.view.pins
    return [
        index
        for index, atom in enumerate(atoms)
        if atom is None or (isinstance(atom, MessageRange) and pins and atom.first in pins)
    ]


def _numbers(state: SessionState) -> tuple[tuple[int, int] | None, ...]:
    """The numbers of the messages that each message of the view stands for."""
    found: list[tuple[int, int] | None] = []
    for atom in state.shelf.atoms:
        if isinstance(atom, MessageRange):
            found.append((atom.first, atom.last))
            continue
        runs = () if atom is None else state.view.originals(atom)
        found.append((runs[0].first, runs[-1].last) if runs else None)
    return tuple(found)


def _told_caps(state: SessionState, outcome: Outcome) -> str:
    """Tell listeners once that a cap keeps models from being asked; gives why, or ""."""
    why = next((report.reason for report in outcome.receipt.stages if report.capped), "")
    if why and not state.purse.warned:
        budget = outcome.budget
        state.emit(
            ContextWarning(
                session=state.name,
                at=state.now(),
                level=budget.level,
                used=budget.used,
                room=budget.room,
                reason=why,
            )
        )
    if why or outcome.receipt.calls:
        state.purse = replace(state.purse, warned=bool(why))
    return why


def record_failed_attempt(
    state: SessionState, outcome: Outcome, trigger: str, reason: str
) -> SessionFlow[Attempt]:
    """Write down an attempt that came to nothing, and tell listeners."""
    counted = trigger == "threshold"
    failed = any(not report.accepted and report.calls for report in outcome.receipt.stages)
    receipt = redact_receipt(state, outcome.receipt)
    value = {"trigger": trigger, "reason": reason, "counted": counted}

    def act() -> SessionFlow[None]:
        about = {"receipt": receipt.as_dict(), **state.purse.beside(receipt.spent)}
        yield from commit(state, [mark_entry(state, "attempt", value, about)])

    yield from retry_on_conflict(state, act)
    state.purse = state.purse.paid(receipt.spent, state.now())
    if counted:
        state.breaker = circuit_breaker.step(state.breaker, "failed", state.now())
    kind = CompactionFailed if failed or outcome.compacted else CompactionSkipped
    extra = {"receipt": receipt} if kind is CompactionFailed else {}
    state.emit(kind(session=state.name, at=state.now(), reason=reason, **extra))  # type: ignore[arg-type]
    undone = replace(
        outcome,
        messages=state.sent(),
        compacted=False,
        reason=reason,
        stages=(),
        tier=0,
        edits=(),
        summary=None,
        messages_after=outcome.messages_before,
        tokens_after=outcome.tokens_before,
        fits=outcome.budget.used <= outcome.budget.room,
    )
    return Attempt(undone if outcome.compacted else outcome, None, reason)


def idle(state: SessionState, now: ContextState, reason: str) -> Outcome:
    """The outcome where nothing was attempted."""
    budget, policy = now.budget, state.settings.policy
    parts = budget.breakdown
    tokens = parts.total if policy.tokens_of_all else parts.history
    return Outcome(
        messages=[],  # whoever prepares knows what is sent
        compacted=False,
        fits=budget.used <= budget.room,
        reason=reason,
        level=budget.level,
        messages_before=budget.messages,
        messages_after=budget.messages,
        tokens_before=tokens,
        tokens_after=tokens,
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
            reason=reason,
        ),
    )
