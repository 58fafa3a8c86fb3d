"""Prepare what is sent: take in, measure, mend, compact where it is time; give what the model is to see."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from refold.calls.compact import Wish, compaction, task_of
from refold.calls.outcome import Outcome, Receipt
from refold.core.compaction import circuit_breaker
from refold.core.compaction.budget import Budget
from refold.core.compaction.pipeline import shrink
from refold.core.compaction.policy import Policy
from refold.core.log.view import Piece, Run
from refold.core.models.windows import Window
from refold.session.budgets import Around, budget_of, told, window_of
from refold.session.effects import Work
from refold.session.events import CompactionFailed, CompactionSkipped, CompactionStart, ContextWarning
from refold.session.folding import Made, clean, install
from refold.session.folding import told as folded
from refold.session.incoming import take_in
from refold.session.keeper import Keeper, commit, mark
from refold.session.loading import fresh, sure
from refold.session.prefixing import noted, prefix_of
from refold.session.values import Ready

SOFT: Final = 0.70
"""From this share of the room on a fold may be prepared in the background."""
NEAR: Final = 0.82
"""Where it is due before that share of the room: from this share of the line at which it is due."""
WALL: Final = 0.95
"""From here on the caller waits for one that is being prepared."""


@dataclass(frozen=True, slots=True)
class Now:
    """The context as it stands."""

    window: Window
    budget: Budget
    around: Around = field(default_factory=Around)


def prepare(keeper: Keeper, messages: Sequence[Any] | None, around: Around) -> Work[Ready]:
    """Store what is new, compact where it is time, and give what to send."""
    as_said = yield from sure(keeper, lambda: _taken(keeper, messages))
    now = yield from standing(keeper, around)
    _warn(keeper, now.budget)
    keeper.refused = False
    made = yield from _as_due(keeper, now, around)
    now = (yield from standing(keeper, around)) if made.fold else now
    keeper.sent_estimate = now.budget.breakdown.total
    keeper.sent_messages = len(keeper.shelf.messages)
    whole = as_said and not keeper.view.standing and len(messages or ()) == len(keeper.shelf.items)
    sent = messages if whole and isinstance(messages, list) else keeper.sent()
    return Ready(
        messages=sent, budget=now.budget, outcome=replace(made.outcome, messages=sent), fold=made.fold
    )


def _taken(keeper: Keeper, messages: Sequence[Any] | None) -> Work[bool]:
    """Take in what the caller brings, and mend it where a provider would refuse it.

    Gives whether it is what was said, and no view of it.
    """
    said, as_said = keeper.view.said, False
    if messages is None:
        yield from fresh(keeper)
    else:
        as_said = yield from take_in(keeper, messages)
    new = keeper.view.said - said
    if new > 0 and any(message.role == "assistant" for message in keeper.shelf.messages[-new:]):
        keeper.breaker = circuit_breaker.step(keeper.breaker, "turn", keeper.now())
    if keeper.shelf.sound is None:
        yield from _mend(keeper)
    return as_said


def _mend(keeper: Keeper) -> Work[None]:
    """Make a fold of what has to be mended, so that it is mended once."""
    window = yield from window_of(keeper)
    conversation = told(keeper, window, budget_of(keeper, window, Around()))
    policy = keeper.settings.policy
    task = task_of(conversation, Wish(), None)
    result = yield from shrink(task, (), orphans=policy.orphans, missing=policy.missing)
    if result.mended:
        yield from install(keeper, tuple(keeper.shelf.atoms), result.edits, {"trigger": "repair"})


def standing(keeper: Keeper, around: Around) -> Work[Now]:
    """How full the context is now."""
    window = yield from window_of(keeper)
    return Now(window, budget_of(keeper, window, around), around)


def _warn(keeper: Keeper, budget: Budget) -> None:
    """Tell listeners when a level is reached, once."""
    if budget.level not in ("none", keeper.level):
        keeper.emit(
            ContextWarning(
                session=keeper.name, at=keeper.now(), level=budget.level, used=budget.used, room=budget.room
            )
        )
    keeper.level = budget.level


def _as_due(keeper: Keeper, now: Now, around: Around) -> Work[Made]:
    """Compact if it is time to and the breaker lets us."""
    budget = now.budget
    if keeper.waiting is not None and budget.ratio >= WALL:
        made: Made | None = yield from keeper.waiting()
        now = yield from standing(keeper, around)
        budget = now.budget
        if made is not None and made.fold is not None and not budget.should_compact:
            return made
    if not budget.should_compact:
        return Made(idle(keeper, now, _line(budget)))
    if keeper.waiting is not None and budget.ratio < WALL:
        return Made(idle(keeper, now, "a fold is being prepared in the background"))
    allowed = circuit_breaker.allows(keeper.breaker, keeper.now())
    if allowed.yes:
        return (yield from attempt(keeper, now, Wish(model=keeper.ask is not None), "threshold"))
    if budget.used > budget.room:
        return (yield from attempt(keeper, now, Wish(), "emergency"))
    keeper.emit(
        CompactionSkipped(session=keeper.name, at=keeper.now(), reason=allowed.reason, until=allowed.until)
    )
    return Made(idle(keeper, now, f"not now: {allowed.reason}"))


def _line(budget: Budget) -> str:
    if budget.trigger_tokens is None:
        return "compaction is switched off"
    return f"not yet: {budget.used:,} of {budget.trigger_tokens:,} tokens"


def attempt(
    keeper: Keeper,
    now: Now,
    wish: Wish,
    trigger: str,
    *,
    policy: Policy | None = None,
    fence: int | None = None,
) -> Work[Made]:
    """Run the policy's stages on the view, and install what comes of it if it still applies."""
    keeper.emit(CompactionStart(session=keeper.name, at=keeper.now(), trigger=trigger))
    conversation = told(keeper, now.window, now.budget)
    conversation = replace(conversation, policy=policy or conversation.policy)
    atoms = tuple(keeper.shelf.atoms)
    pins = (*wish.pins, *_pinned(keeper, atoms))
    said = keeper.view.said
    tip = keeper.tip
    checkpoint = latest_checkpoint(keeper) if keeper.view.checkpoints else None
    wish = replace(
        wish,
        pins=pins,
        ask_window=wish.ask_window or keeper.ask_window,
        ask_price=keeper.summariser.price,
        allowance=keeper.purse.left(keeper.settings.caps, keeper.now()),
        prefix=prefix_of(keeper, now.budget.used, now.around) if wish.model else None,
        numbers=_numbers(keeper),
    )
    outcome = yield from compaction(conversation, wish)
    outcome = replace(outcome, receipt=replace(outcome.receipt, trigger=trigger))
    capped = _told_caps(keeper, outcome)
    noted(keeper, wish.prefix, outcome.receipt.calls)
    if capped and trigger == "background":  # what waits for a model may wait on
        return (yield from _in_vain(keeper, outcome, trigger, capped))
    if not outcome.compacted:
        return (yield from _in_vain(keeper, outcome, trigger, outcome.reason))
    if trigger != "forced" and not outcome.fits and not _worth(outcome):
        why = f"it would save too little; {outcome.reason}"
        return (yield from _in_vain(keeper, outcome, trigger, why))
    facts = {
        "trigger": trigger,
        "policy": conversation.policy.name,
        "stages": list(outcome.stages),
        "before": outcome.tokens_before,
        "after": outcome.tokens_after,
        **since_checkpoint(checkpoint, conversation.policy.checkpoint, outcome),
    }
    since = (said, tip)
    made = yield from install(
        keeper, atoms, outcome.edits, facts, receipt=outcome.receipt, since=since, fence=fence
    )
    if made.entry is None:
        return (yield from _in_vain(keeper, outcome, trigger, made.reason))
    return folded(keeper, made.entry, outcome, now.budget.used)


def latest_checkpoint(keeper: Keeper) -> str:
    """The name of the last checkpoint on the way; a name that is used again moves."""
    places = keeper.view.checkpoints
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


def _pinned(keeper: Keeper, atoms: Sequence[Piece | None]) -> list[int]:
    """Places of the messages that stay: system messages and pins."""
    pins = keeper.view.pins
    return [
        index
        for index, atom in enumerate(atoms)
        if atom is None or (isinstance(atom, Run) and pins and atom.first in pins)
    ]


def _numbers(keeper: Keeper) -> tuple[tuple[int, int] | None, ...]:
    """The numbers of the messages that each message of the view stands for."""
    found: list[tuple[int, int] | None] = []
    for atom in keeper.shelf.atoms:
        if isinstance(atom, Run):
            found.append((atom.first, atom.last))
            continue
        runs = () if atom is None else keeper.view.originals(atom)
        found.append((runs[0].first, runs[-1].last) if runs else None)
    return tuple(found)


def _told_caps(keeper: Keeper, outcome: Outcome) -> str:
    """Tell listeners once that a cap keeps models from being asked; gives why, or ""."""
    why = next((report.reason for report in outcome.receipt.stages if report.capped), "")
    if why and not keeper.purse.warned:
        budget = outcome.budget
        keeper.emit(
            ContextWarning(
                session=keeper.name,
                at=keeper.now(),
                level=budget.level,
                used=budget.used,
                room=budget.room,
                reason=why,
            )
        )
    if why or outcome.receipt.calls:
        keeper.purse = replace(keeper.purse, warned=bool(why))
    return why


def _in_vain(keeper: Keeper, outcome: Outcome, trigger: str, reason: str) -> Work[Made]:
    """Write down an attempt that came to nothing, and tell listeners."""
    counted = trigger == "threshold"
    failed = any(not report.accepted and report.calls for report in outcome.receipt.stages)
    receipt = clean(keeper, outcome.receipt)
    value = {"trigger": trigger, "reason": reason, "counted": counted}

    def act() -> Work[None]:
        about = {"receipt": receipt.as_dict(), **keeper.purse.beside(receipt.spent)}
        yield from commit(keeper, [mark(keeper, "attempt", value, about)])

    yield from sure(keeper, act)
    keeper.purse = keeper.purse.paid(receipt.spent, keeper.now())
    if counted:
        keeper.breaker = circuit_breaker.step(keeper.breaker, "failed", keeper.now())
    kind = CompactionFailed if failed or outcome.compacted else CompactionSkipped
    extra = {"receipt": receipt} if kind is CompactionFailed else {}
    keeper.emit(kind(session=keeper.name, at=keeper.now(), reason=reason, **extra))  # type: ignore[arg-type]
    undone = replace(
        outcome,
        messages=keeper.sent(),
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
    return Made(undone if outcome.compacted else outcome, None, reason)


def idle(keeper: Keeper, now: Now, reason: str) -> Outcome:
    """The outcome where nothing was attempted."""
    budget, policy = now.budget, keeper.settings.policy
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
