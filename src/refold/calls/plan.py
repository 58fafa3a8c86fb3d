"""The dry run: what a compaction would do, what it would cost, and when it would pay; asks nobody."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Unpack

from refold.calls.compact import Wishes, compaction, understood
from refold.calls.measure import Conversation
from refold.calls.outcome import Leaving, Outcome, Plan, Staying
from refold.core.compaction.flow import Answer, Ask, run
from refold.core.compaction.guards import reasons
from refold.core.messages.text_cutting import first_line
from refold.core.models.prices import MILLION, break_even, cache_prices, cost, fold_cost, price_of
from refold.core.models.spending_limits import together
from refold.core.models.windows import Price
from refold.core.summaries.acceptance import stand_in
from refold.core.tokens.usage import Usage
from refold.stages.clip import Clip

EXPECTED_SHARE: Final = 0.12
"""How long a summary is taken to be, as a share of what is summarised; real ones are 5 to 15 per cent."""


def plan(
    messages: Sequence[Any],
    *,
    with_model: bool = True,
    summariser: str | None = None,
    **wishes: Unpack[Wishes],
) -> Plan:
    """Tell what `compact` would do with the same options, and what it would cost; asks nobody.

    `with_model=False` plans for a call without `ask`. `summariser` names the model that would be asked, whose
    price counts then; the conversation's own by default.
    """
    understanding = understood(messages, expected if with_model else None, wishes)
    told = _dry(understanding.conversation)
    outcome = run(compaction(told, understanding.wish), understanding.answerer)
    bill = _bill(told, outcome, _price(told, wishes.get("model")), price_of(summariser))
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
        money_per_turn=None if bill.turns is None else bill.turns[0] - bill.turns[1],
        break_even_turns=bill.break_even,
        turn_before=bill.turns and bill.turns[0],
        turn_after=bill.turns and bill.turns[1],
        money_in_cache=bill.in_cache,
        break_even_in_cache=bill.break_even_in_cache,
    )


def _dry(told: Conversation) -> Conversation:
    """The conversation under a policy that stores nothing."""
    stages = (replace(one, save_to=None) if isinstance(one, Clip) else one for one in told.policy.stages)
    return replace(told, policy=replace(told.policy, stages=tuple(stages)))


def expected(ask: Ask) -> Answer:
    """A stand-in as long as a summary is expected to be; it holds no facts."""
    return Answer(text=stand_in(int(len(ask) * EXPECTED_SHARE), ask.max_tokens))


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
    in_cache: float | None = None
    turns: tuple[float, float] | None = None
    """What reading the context costs in a turn, before and after."""
    break_even: float | None = None
    break_even_in_cache: float | None = None


def _price(told: Conversation, model: str | None) -> Price | None:
    """The price of the model; a window that was given and a system's own table know none, the house does."""
    return told.window.price or price_of(model)


def _bill(told: Conversation, outcome: Outcome, price: Price | None, asked: Price | None) -> _Bill:
    if not outcome.compacted:
        return _Bill()
    first = min(edit.start for edit in outcome.edits)
    anew = outcome.breakdown.history - told.counter.total(told.sizes[:first])
    if price is None:
        return _Bill(anew=anew)
    spent = together(call.spent for call in outcome.receipt.calls)
    questions = cost(Usage(input=spent.input, output=spent.output), asked or price)
    held, write = cache_prices(price)
    now = questions + anew * (write - held) / MILLION
    saved = outcome.tokens_saved
    before, after = outcome.budget.breakdown.total, outcome.breakdown.total
    bill = _Bill(
        anew=anew,
        now=now,
        turns=(before * held / MILLION, after * held / MILLION),
        break_even=break_even(now, price, saved=saved),
    )
    if not spent.calls or price.cache_read is None:
        return bill
    tail = max(0, anew - spent.output)
    inside = fold_cost(price, context=before, summary=spent.output, tail=tail, cached=True)
    return replace(bill, in_cache=inside, break_even_in_cache=break_even(inside, price, saved=saved))
