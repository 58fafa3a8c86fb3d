"""The calls that shorten plain data: compact and acompact; validate and repair beside them.

Plain data in, plain data out: read, judge, run the policy's stages, settle, write back in the same shape.
The pipeline is a generator; `compact` and `acompact` differ only in who drives it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor
from typing import Any, Final, Unpack

from refold import formats
from refold.core.budget import Breakdown
from refold.core.flow import Answerer, Flow, arun, run
from refold.core.guards import guarded
from refold.core.messages import Message
from refold.core.pipeline import Report, Result, shrink
from refold.core.settle import settle
from refold.core.shapes import Problem
from refold.core.task import Numbers, Task
from refold.core.units import tokens
from refold.core.windows import lookup
from refold.errors import DoesNotFit, FormatError, RefoldError, WindowUnknown
from refold.measuring import Conversation, Options, Tokens, read, refuse_unknown, wire_for
from refold.outcome import Outcome, Receipt, Repaired

LEAST_ASK_WINDOW: Final = 8_192
"""The window assumed of a summariser that does not tell its own, at least: no model in use has less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the caller wants of one compaction."""

    force: bool = False
    focus: str = ""
    target: int | None = None
    pins: tuple[Any, ...] = ()
    model: bool = False
    ask_window: int | None = None
    numbers: Numbers = ()
    """The numbers that handles name each message by; its place where there are none."""


class Wishes(Options, total=False):
    """What a compaction takes besides what every call takes."""

    force: bool
    """Compact now, whether or not it is time to."""
    focus: str
    """What a summary is to look at."""
    target: Tokens | None
    """How large the context may be afterwards; the policy's own number by default."""
    pins: Any
    """Messages that stay: positions, the messages themselves, or their ids."""
    must_fit: bool
    """Raise `DoesNotFit` where the outcome would say `fits=False`."""


def compact(
    messages: Sequence[Any], *, ask: Answerer | str | None = None, **wishes: Unpack[Wishes]
) -> Outcome:
    """Shorten a conversation if it is time to, or if forced; without `ask` no model is needed.

    `ask` is a callable from an `Ask` (a str, with `system`, `max_tokens` and `purpose` beside it) to the
    answer's text. If it fails the next stage is tried. Options as for `measure`, and

    force      compact now, whether or not it is time to
    target     how large the whole context may be afterwards: 12000 or "12k"
    focus      what a summary is to look at
    pins       messages that stay: positions such as 0 or -1, the messages themselves, or their ids
    must_fit   raise `DoesNotFit` where the outcome would say `fits=False`

    >>> outcome = compact([{"role": "user", "content": "hi"}], window="8k")
    >>> outcome.compacted, outcome.fits, outcome.messages
    (False, True, [{'role': 'user', 'content': 'hi'}])
    """
    it = understood(messages, ask, wishes)
    return _checked(run(compaction(it.conversation, it.wish), it.answerer), wishes)


async def acompact(
    messages: Sequence[Any], *, ask: Answerer | str | None = None, **wishes: Unpack[Wishes]
) -> Outcome:
    """Do what `compact` does, in an event loop: `ask` may be asynchronous, parts are asked in parallel."""
    it = understood(messages, ask, wishes)
    return _checked(await arun(compaction(it.conversation, it.wish), it.answerer), wishes)


def validate(messages: Sequence[Any], format: str | None = None) -> list[Problem]:  # noqa: A002  # the word users know
    """Tell why a provider would not take this history; an empty list where it would.

    `format` is "openai", "responses", "anthropic" or "gemini"; recognised by shape where absent.
    """
    try:
        wire = wire_for(messages, format)
        parsed = wire.parse(messages)
    except FormatError as error:
        if format is not None:
            formats.get(format)
        return [Problem(None, "format", str(error))]
    return wire.check(parsed)


def repair(messages: Sequence[Any], format: str | None = None) -> Repaired:  # noqa: A002  # the word users know
    """Give every dead call a result and every stray result a call; open calls are kept."""
    wire = wire_for(messages, format)
    parsed = wire.parse(messages)
    settled = settle(parsed, shape=wire.shape)
    if not settled.changed:
        return Repaired(messages)
    return Repaired(wire.render(settled.messages), settled.calls, settled.results)


def compaction(told: Conversation, wish: Wish) -> Flow[Outcome]:
    """The pure way from a measured conversation to its outcome."""
    guarded(told.messages, told.sizes, {"pins"}, pins=wish.pins, given=told.given)  # refuses a wrong pin
    trigger, goal, untouched = _trigger(told, wish), _goal(told, wish), _untouched(told)
    if trigger == "none":
        line = told.budget.trigger_tokens
        why = "compaction is switched off" if line is None else f"{told.budget.used:,} of {line:,} tokens"
        return _outcome(told, trigger, None, untouched, f"not yet: {why}")
    if goal is not None and untouched.tokens <= goal:
        why = _alone(told, untouched) or f"already within its target of {goal:,} tokens"
        return _outcome(told, trigger, goal, untouched, why)
    task = task_of(told, wish, goal)
    policy = told.policy
    result = yield from shrink(task, policy.stages, orphans=policy.orphans, missing=policy.missing)
    return _outcome(told, trigger, goal, result, _reason(result, told, goal))


def _trigger(told: Conversation, wish: Wish) -> str:
    if wish.force:
        return "forced"
    if wish.target is not None:
        return "target"
    if told.policy.trigger.on_call:
        return "called"
    return "threshold" if told.budget.should_compact else "none"


def _goal(told: Conversation, wish: Wish) -> int | None:
    """Tokens the history may have; None where one successful stage is enough."""
    budget, policy = told.budget, told.policy
    fixed = budget.breakdown.fixed
    if wish.target is not None:
        return max(0, wish.target - (fixed if policy.tokens_of_all else 0))
    if policy.target is None:
        return None
    goal = policy.target.history(budget.window, budget.room, fixed)
    estimated = budget.breakdown.total
    if budget.used > estimated > 0:  # the provider counts more than we do: aim lower by as much
        goal = floor(goal * estimated / budget.used)
    if wish.force and budget.breakdown.history <= goal:
        if policy.forced_once:
            return None
        if policy.forced_share is not None:
            goal = floor(budget.breakdown.history * policy.forced_share)
    return goal


def task_of(told: Conversation, wish: Wish, goal: int | None) -> Task:
    """What the stages are given."""
    budget, policy = told.budget, told.policy
    by_itself = not wish.force and wish.target is None
    hopeless = budget.breakdown.fixed >= budget.room and (by_itself or goal == 0)
    return Task(
        messages=told.messages,
        sizes=told.sizes,
        counter=told.counter,
        window=budget.window,
        room=budget.room,
        fixed=budget.breakdown.fixed,
        goal=goal,
        target=goal if wish.target is not None else None,
        protected=guarded(
            told.messages,
            told.sizes,
            policy.guards,
            user_words=min(policy.user_words, floor(budget.room * policy.user_words_fraction)),
            pins=wish.pins,
            given=told.given,
        ),
        pinned=guarded(told.messages, told.sizes, policy.guards & {"pins"}, pins=wish.pins, given=told.given),
        shape=told.wire.shape,
        force=wish.force,
        focus=wish.focus,
        model=wish.model and not hopeless,
        ask_window=wish.ask_window or max(_summariser_window(told), LEAST_ASK_WINDOW),
        checkpoint=policy.checkpoint,
        numbers=wish.numbers or tuple((place, place) for place in range(len(told.messages))),
        render=told.wire.render,
        parse=told.wire.parse,
    )


def _summariser_window(told: Conversation) -> int:
    """The window of whoever answers, where it does not tell: the conversation's, or a smaller one named."""
    try:
        named = lookup(told.policy.summariser, fallback=None).tokens
    except WindowUnknown:
        named = told.budget.window
    return min(named, told.budget.window)


def _untouched(told: Conversation) -> Result:
    policy = told.policy
    settled = settle(told.messages, shape=told.wire.shape, orphans=policy.orphans, missing=policy.missing)
    size = told.budget.breakdown.history
    size = told.counter.conversation(settled.messages) if settled.changed else size
    return Result(messages=tuple(settled.messages), tokens=size, mended=settled.changed)


def _outcome(told: Conversation, trigger: str, goal: int | None, result: Result, reason: str) -> Outcome:
    budget = told.budget
    accepted = tuple(dict.fromkeys(report.stage for report in result.reports if report.accepted))
    extra = budget.breakdown.fixed if told.policy.tokens_of_all else 0
    touched = bool(accepted) or result.mended
    whole = result.tokens + budget.breakdown.fixed
    fits = whole <= budget.room and (goal is None or result.tokens <= goal)
    put = [message for edit in result.edits for message in edit.put if message.is_summary]
    summary = next((message for message in put if message.meta.get("kind") != "ack"), None)
    parts = budget.breakdown
    return Outcome(
        messages=told.wire.render(result.messages) if touched else list(told.given),
        compacted=bool(accepted),
        fits=fits,
        reason=reason,
        stages=accepted,
        tier=result.tier,
        level=budget.level,
        messages_before=len(told.messages),
        messages_after=len(result.messages),
        tokens_before=parts.history + extra,
        tokens_after=result.tokens + extra,
        edits=result.edits,
        summary=None if summary is None else str(summary.meta.get("text", summary.text)),
        history=told.messages,
        breakdown=Breakdown(
            system=parts.system,
            history=result.tokens,
            prompt=parts.prompt,
            tools=parts.tools,
            files=parts.files,
        ),
        budget=budget,
        receipt=Receipt(
            policy=told.policy.name,
            trigger=trigger,
            window=budget.window,
            window_source=budget.window_source,
            count_source=budget.count_source,
            estimated_tokens=parts.total,
            reported_tokens=budget.used if budget.count_source == "usage+estimate" else None,
            goal_tokens=goal,
            stages=result.reports,
            mended=result.mended,
            reason=reason,
        ),
    )


def _reason(result: Result, told: Conversation, goal: int | None) -> str:
    done = [report for report in result.reports if report.accepted]
    if alone := _alone(told, result):
        return alone
    if goal is not None and result.tokens > goal:
        over = f"{result.tokens - goal:,} tokens over the target of {goal:,}"
        return f"still {over} after every stage" if done else f"{over}; {_notes(result.reports)}"
    if done:
        return "; ".join(f"{report.stage}: {report.reason}" for report in done)
    return _notes(result.reports)


def _alone(told: Conversation, result: Result) -> str:
    """What to say where no history at all would still be too large; "" where that is not so."""
    fixed, room = told.budget.breakdown.fixed, told.budget.room
    if fixed < room or fixed + result.tokens <= room:
        return ""
    return f"system prompt, tools, prompt and files alone have {fixed:,} tokens for a room of {room:,}"


def _notes(reports: Sequence[Report]) -> str:
    return "nothing to compact: " + ("; ".join(f"{r.stage}: {r.reason}" for r in reports) or "no stage")


@dataclass(frozen=True, slots=True)
class Understanding:
    """A call, read: the conversation, what is wanted, and who answers."""

    conversation: Conversation
    wish: Wish
    answerer: Answerer


def understood(messages: Sequence[Any], ask: Any, wishes: Wishes) -> Understanding:
    """Read the arguments of a call."""
    given: dict[str, Any] = {**wishes}
    refuse_unknown(given, _NAMES)
    answerer = answerer_of(ask)
    target = given.pop("target", None)
    wish = Wish(
        force=bool(given.pop("force", False)),
        focus=given.pop("focus", "") or "",
        target=None if target is None else tokens(target),
        pins=_pins(given.pop("pins", None)),
        model=answerer is not None,
        ask_window=told_window(ask),
    )
    given.pop("must_fit", None)
    return Understanding(read(messages, **given), wish, answerer or _nobody)


def _pins(given: Any) -> tuple[Any, ...]:
    """What the caller pinned; one pin need not stand in a list."""
    if given is None:
        return ()
    return (given,) if isinstance(given, int | str | Mapping | Message) else tuple(given)


def told_window(ask: Any) -> int | None:
    """The window of whoever answers, where it tells one."""
    told = getattr(ask, "window", None)
    return told if isinstance(told, int) and not isinstance(told, bool) and told > 0 else None


_NAMES: Final = (*Options.__annotations__, *Wishes.__annotations__)


def answerer_of(ask: Any) -> Answerer | None:
    """Who answers, or None where nobody was given."""
    if ask is None or callable(ask):
        answerer: Answerer | None = ask
        return answerer
    if isinstance(ask, str):
        raise RefoldError(f"there is no client for {ask!r} yet: pass a callable from prompt to answer")
    raise RefoldError(f"ask is a callable from the prompt to the answer, not {type(ask).__name__}")


def _nobody(_question: str) -> str:
    raise RefoldError("no model was given: pass ask=")


def _checked(outcome: Outcome, wishes: Wishes) -> Outcome:
    if wishes.get("must_fit") and not outcome.fits:
        raise DoesNotFit(outcome.breakdown.total, outcome.budget.room, outcome.breakdown.as_dict())
    return outcome
