"""The dry run: what a compaction would do, what it would cost, and when it would pay; asks nobody."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from refold.arguments import check_arguments
from refold.calls.build_task import CompactionOptions
from refold.calls.compact import compaction_flow, parse_call
from refold.calls.conversation import Conversation, Count, MeasureOptions, Tokens
from refold.calls.outcome import Leaving, Outcome, Plan, Staying
from refold.calls.savings import EXPECTED_SHARE, find_saving
from refold.calls.target import TargetSize
from refold.core.compaction.flow import Answer, Ask, run
from refold.core.compaction.guards import explain_guarded
from refold.core.compaction.policy import Policy
from refold.core.messages.text_cutting import first_line
from refold.core.models.prices import (
    MILLION,
    break_even,
    cache_prices,
    choose_price,
    find_price,
    fold_cost,
    request_cost,
    sends_bill,
)
from refold.core.models.spending_limits import total_spent
from refold.core.models.window_table import Price
from refold.core.models.windows import find_known
from refold.core.tokens.usage import Usage
from refold.stages.clip import Clip


@check_arguments
def plan(
    messages: Sequence[Any],
    *,
    with_model: bool = True,
    summariser: str | None = None,
    ask_window: int | None = None,
    model: str | None = None,
    window: Tokens | None = None,
    system: Any = None,
    tools: Sequence[Any] | None = None,
    prompt: str | None = None,
    files: Sequence[Any] | None = None,
    policy: str | Policy = "refold",
    count: Count = None,
    usage: Any = None,
    format: str | None = None,  # noqa: A002  # the word users know
    force: bool = False,
    focus: str = "",
    target: TargetSize | None = None,
    pins: Any = None,
    must_fit: bool = False,  # noqa: ARG001  # so that the options of `compact` can be passed on as they are
) -> Plan:
    """Show what `compact` would do with the same options, and what it would cost; asks nobody.

    `with_model=False` plans for a call without `ask`. `summariser` names the model that would be asked and
    whose price and window count then; the conversation's own by default. `ask_window` is what it takes in
    one question, if that is less. `must_fit` is accepted and does nothing.
    """
    measure = MeasureOptions(model, window, system, tools, prompt, files, policy, count, usage, format)
    ask = expected_answer if with_model else None
    call = parse_call(messages, measure, ask=ask, force=force, focus=focus, target=target, pins=pins)
    known = find_known(call.conversation.policy.window, summariser)
    windows = [] if known is None else [known.usable()]
    smallest = min([*windows, *filter(None, [ask_window])], default=None)
    options = replace(call.options, ask_window=smallest)
    return make_plan(call.conversation, options, model=model, summariser=summariser)


def make_plan(
    conversation: Conversation, options: CompactionOptions, *, model: str | None, summariser: str | None
) -> Plan:
    """Make the plan of a compaction of a measured conversation; `model` and `summariser` tell the prices."""
    outcome = dry_run(conversation, options)
    # A window that was given and a system's own table know no price; the table of true numbers may.
    price = conversation.window.price or find_price(model)
    fallback = price if sends_bill(summariser or "") else Price(input=0.0, output=0.0)
    summariser_price = choose_price(conversation.policy.window, summariser) or fallback
    bill = _bill(conversation, outcome, price, summariser_price)
    saving = find_saving(outcome.budget, price, summariser=summariser_price if options.model else None)
    return replace(_plan(conversation, outcome, bill, options.pins), thrifty=saving)


def dry_run(conversation: Conversation, options: CompactionOptions) -> Outcome:
    """Run a compaction without a model: a stand-in answers its questions, and no file is written."""
    own = conversation.policy
    stages = (replace(stage, save_to=None) if isinstance(stage, Clip) else stage for stage in own.stages)
    conversation = replace(conversation, policy=replace(own, stages=tuple(stages)))
    return run(compaction_flow(conversation, options), expected_answer)


def expected_answer(ask: Ask) -> Answer:
    """Return a stand-in as long as a summary is expected to be; it holds no facts."""
    from refold.core.summaries.acceptance import make_stand_in  # slow to import, and few plan

    return Answer(text=make_stand_in(int(len(ask) * EXPECTED_SHARE), ask.max_tokens))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bill:
    """Costs and savings of a compaction in US dollars; None where no price is known."""

    uncached_tokens: int = 0
    """Tokens a provider reads anew because the prefix moved."""
    now: float | None = None
    in_cache: float | None = None
    turn_before: float | None = None
    turn_after: float | None = None
    break_even: float | None = None
    break_even_in_cache: float | None = None


def _bill(
    conversation: Conversation, outcome: Outcome, price: Price | None, summariser_price: Price | None
) -> _Bill:
    if not outcome.compacted:
        return _Bill()
    first = min(edit.start for edit in outcome.edits)
    uncached = outcome.breakdown.history - conversation.counter.total(conversation.sizes[:first])
    if price is None or summariser_price is None:
        return _Bill(uncached_tokens=uncached)
    spent = total_spent(call.spent for call in outcome.receipt.calls)
    questions = request_cost(Usage(input=spent.input, output=spent.output), summariser_price)
    read, write = cache_prices(price)
    now = questions + uncached * (write - read) / MILLION
    saved = outcome.tokens_saved
    before, after = outcome.tokens_before, outcome.tokens_after
    bill = _Bill(
        uncached_tokens=uncached,
        now=now,
        turn_before=before * read / MILLION,
        turn_after=after * read / MILLION,
        break_even=break_even(now, price, saved=saved),
    )
    if not spent.calls or price.cache_read is None:
        return bill
    tail = max(0, uncached - spent.output)
    in_cache = fold_cost(price, context=before, summary=spent.output, tail=tail, cached=True)
    return replace(bill, in_cache=in_cache, break_even_in_cache=break_even(in_cache, price, saved=saved))


def _plan(conversation: Conversation, outcome: Outcome, bill: _Bill, pins: Sequence[Any]) -> Plan:
    saved_per_turn = None
    if bill.turn_before is not None and bill.turn_after is not None:
        saved_per_turn = bill.turn_before - bill.turn_after
    return Plan(
        would_compact=outcome.compacted,
        reason=outcome.reason,
        fits=outcome.fits,
        met_target=outcome.met_target,
        budget=outcome.budget,
        stages=outcome.stages,
        leaves=_leaving(conversation, outcome),
        refuses=_staying(conversation, outcome, pins),
        messages_before=outcome.messages_before,
        messages_after=outcome.messages_after,
        tokens_before=outcome.tokens_before,
        tokens_after=outcome.tokens_after,
        cache_tokens_lost=bill.uncached_tokens,
        model_calls=len(outcome.receipt.calls),
        model_tokens=sum(call.prompt_tokens + call.answer_tokens for call in outcome.receipt.calls),
        money_now=bill.now,
        money_per_turn=saved_per_turn,
        break_even_turns=bill.break_even,
        turn_before=bill.turn_before,
        turn_after=bill.turn_after,
        money_in_cache=bill.in_cache,
        break_even_in_cache=bill.break_even_in_cache,
    )


def _leaving(conversation: Conversation, outcome: Outcome) -> tuple[Leaving, ...]:
    counter, messages = conversation.counter, conversation.messages
    return tuple(
        Leaving(
            index=index,
            role=messages[index].role,
            tokens=counter.tokens(conversation.sizes[index]),
            stage=edit.stage,
            why=edit.why,
            preview=first_line(counter.visible(messages[index]), 80),
        )
        for edit in outcome.edits
        for index in range(edit.start, edit.end)
    )


def _staying(conversation: Conversation, outcome: Outcome, pins: Sequence[Any]) -> tuple[Staying, ...]:
    """List the messages that stay although a compaction happens, and why."""
    if not outcome.edits:
        return ()
    removed = {index for edit in outcome.edits for index in range(edit.start, edit.end)}
    why = explain_guarded(conversation.messages, conversation.policy.guards, pins, conversation.items)
    return tuple(
        Staying(
            index=index,
            role=message.role,
            tokens=conversation.counter.tokens(conversation.sizes[index]),
            why=why.get(index, "recent"),
        )
        for index, message in enumerate(conversation.messages)
        if index not in removed
    )
