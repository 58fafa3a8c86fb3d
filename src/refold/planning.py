"""The dry run: what a compaction would do, what it would cost, and when it would pay; asks nobody."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Unpack

from refold.compacting import Wishes, compaction, understood
from refold.core.flow import Answer, Ask, run
from refold.core.guards import reasons
from refold.core.names import read
from refold.core.texts import first_line
from refold.core.windows import Price, house
from refold.measuring import Conversation
from refold.outcome import Leaving, Outcome, Plan, Staying
from refold.stages.clip import Clip

EXPECTED_SHARE: Final = 0.12
"""How long a summary is taken to be, as a share of what is summarised; real ones are 5 to 15 per cent."""
WORD: Final = "summary "


def plan(messages: Sequence[Any], *, with_model: bool = True, **wishes: Unpack[Wishes]) -> Plan:
    """Tell what `compact` would do with the same options, and what it would cost; asks nobody.

    `with_model=False` plans for a call without `ask`.
    """
    understanding = understood(messages, _expected if with_model else None, wishes)
    told = _dry(understanding.conversation)
    outcome = run(compaction(told, understanding.wish), understanding.answerer)
    bill = _bill(told, outcome, _price(told, wishes.get("model")))
    return Plan(
        would_compact=outcome.compacted,
        reason=outcome.reason,
        fits=outcome.fits,
        budget=outcome.budget,
        stages=outcome.stages,
        leaves=tuple(_leaves(told, outcome)),
        refuses=tuple(_refuses(told, outcome, understanding.wish.pins)),
        messages_before=outcome.messages_before,
        messages_after=outcome.messages_after,
        tokens_before=outcome.tokens_before,
        tokens_after=outcome.tokens_after,
        cache_tokens_lost=bill.anew,
        model_calls=len(outcome.receipt.calls),
        model_tokens=sum(call.prompt_tokens + call.answer_tokens for call in outcome.receipt.calls),
        money_now=bill.now,
        money_per_turn=bill.per_turn,
        break_even_turns=bill.break_even,
    )


def _dry(told: Conversation) -> Conversation:
    """The conversation under a policy that stores nothing."""
    stages = (replace(one, save_to=None) if isinstance(one, Clip) else one for one in told.policy.stages)
    return replace(told, policy=replace(told.policy, stages=tuple(stages)))


def _expected(ask: Ask) -> Answer:
    """A stand-in as long as a summary is expected to be."""
    words = max(8, int(len(ask) * EXPECTED_SHARE / len(WORD)))
    if ask.max_tokens is not None:
        words = min(words, ask.max_tokens)
    return Answer(text=WORD * words)


def _leaves(told: Conversation, outcome: Outcome) -> list[Leaving]:
    return [
        Leaving(
            index=index,
            role=told.messages[index].role,
            tokens=told.counter.tokens(told.sizes[index]),
            stage=edit.stage,
            why=edit.why,
            preview=first_line(told.counter.visible(told.messages[index]), 80),
        )
        for edit in outcome.edits
        for index in range(edit.start, edit.end)
    ]


def _refuses(told: Conversation, outcome: Outcome, pins: Sequence[Any]) -> list[Staying]:
    """What stays among what leaves, and why."""
    if not outcome.edits:
        return []
    gone = {index for edit in outcome.edits for index in range(edit.start, edit.end)}
    why = reasons(told.messages, told.policy.guards, pins, told.given)
    return [
        Staying(
            index=index,
            role=told.messages[index].role,
            tokens=told.counter.tokens(told.sizes[index]),
            why=why.get(index, "recent"),
        )
        for index in range(len(told.messages))
        if index not in gone
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bill:
    """What it costs and saves."""

    anew: int = 0
    """Tokens a provider reads anew because the prefix moved."""
    now: float | None = None
    per_turn: float | None = None
    break_even: float | None = None


def _price(told: Conversation, model: str | None) -> Price | None:
    """The price of the model; a window that was given and a system's own table know none, the house does."""
    if told.window.price is not None or not model:
        return told.window.price
    found = house().find(read(model))
    return None if found is None else found.price


def _bill(told: Conversation, outcome: Outcome, price: Price | None) -> _Bill:
    if not outcome.compacted:
        return _Bill()
    first = min(edit.start for edit in outcome.edits)
    anew = outcome.breakdown.history - told.counter.total(told.sizes[:first])
    if price is None:
        return _Bill(anew=anew)
    cached, write = _cache_prices(price)
    calls = outcome.receipt.calls
    asked = sum(call.prompt_tokens for call in calls) * price.input
    answered = sum(call.answer_tokens for call in calls) * price.output
    now = (asked + answered + anew * max(0.0, write - cached)) / 1e6
    saved = outcome.tokens_saved * cached / 1e6
    return _Bill(anew=anew, now=now, per_turn=saved, break_even=now / saved if saved > 0 else None)


def _cache_prices(price: Price) -> tuple[float, float]:
    """The prices of a token that is read from the cache and of one that is written to it."""
    read = price.input if price.cache_read is None else price.cache_read
    return read, price.input if price.cache_write is None else price.cache_write
