"""Prepare what is sent: take in the caller's list, measure, repair, compact if it is due."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import dropwhile
from typing import Any, Final

from refold.calls.build_task import CompactionOptions, build_task
from refold.calls.make_outcome import resize_outcome
from refold.calls.outcome import Outcome
from refold.core.compaction.pipeline import select_arrival, shrink
from refold.core.compaction.task import LimitingStage, Stage
from refold.core.log.normal_form import PRIVATE, put_cache_mark, split_cache_marks
from refold.core.log.view import MessageRange, ViewItem
from refold.core.messages.quick_init import quick_init, quick_replace
from refold.core.tokens.units import format_count
from refold.errors import StoreError
from refold.session.drivers import SessionFlow
from refold.session.results import Ready
from refold.session.state.caller_history import NEWEST_COPIES
from refold.session.state.loaded_view import without_private
from refold.session.state.request_context import ReadMessage, RequestContext
from refold.session.state.session_state import SessionState
from refold.session.state.thinking_prefixes import BEGUN_WITH
from refold.session.steps.append import commit, mark_entry
from refold.session.steps.background import offer_to_queue, should_prepare_fold
from refold.session.steps.compact import compact_if_due
from refold.session.steps.context import (
    context_state,
    find_window,
    measure_context,
    note_request,
    to_conversation,
    warn_listeners,
)
from refold.session.steps.install_fold import has_message, install_fold
from refold.session.steps.load import check_head, reload_if_stale, retry_on_conflict
from refold.session.steps.native.fold_blocks import find_block_places, fold_block
from refold.session.steps.native.refused_blocks import drop_foreign_compactions
from refold.session.steps.take_in import take_in

TRIES: Final = 4
"""How often a list is handed in, the last time without a fold. Another turn can only come between while a
model writes a summary, or in another process."""
OVERTAKEN: Final = "other turns came between: the view is sent as it stands"


def prepare(
    state: SessionState,
    messages: Sequence[Any] | None,
    *,
    system: Any,
    tools: Sequence[Any] | None,
    prompt: str | None,
    files: Sequence[Any] | None,
    start_background: Callable[[], None],
    read: Sequence[ReadMessage] = (),
) -> SessionFlow[Ready]:
    """Store what is new, compact if it is due, and return what to send.

    start_background   prepares a fold in the background
    read               the last messages, as far as the caller has read them
    """
    for tries_left in reversed(range(TRIES)):
        state.request.update(system=system, tools=tools, prompt=prompt, files=files, read=read)
        taken = yield from _take_in_or_begin_again(state, messages)
        context = yield from context_state(state)
        budget, accounting = context.budget, state.accounting
        if state.events.is_new_level(budget.level):
            warn_listeners(state, budget)
        accounting.note_refusal(refused=False)
        before = state.position.view, accounting.report
        attempt = yield from compact_if_due(state, context, "" if tries_left else OVERTAKEN)
        outcome = attempt.outcome
        # Others may act while a model answers; a turn on another branch would be sent in place of this one.
        if before != (state.position.view, accounting.report):
            budget = (yield from context_state(state)).budget
            outcome = resize_outcome(outcome, context.budget, budget)
        is_own = state.position.tip == taken.tip or (yield from has_message(state, taken.said, taken.tip))
        if not tries_left or ((is_own or messages is None) and not attempt.overtaken):
            break
    note_request(state, budget)
    sent, places = _choose_list(state, messages, taken)
    if taken.mended or taken.limited:
        outcome = _tell_repairs(outcome, taken)
    if should_prepare_fold(state, budget):
        if state.settings.background == "queue":
            yield from offer_to_queue(state, budget)
        else:
            start_background()
    fold, outcome = attempt.fold or taken.native, quick_replace(outcome, messages=sent)
    return Ready(messages=sent, budget=budget, outcome=outcome, fold=fold, places=places, tip=taken.tip)


def _take_in_or_begin_again(state: SessionState, messages: Sequence[Any] | None) -> SessionFlow["_TakenIn"]:
    """Take in the caller's list, which is enough to go on where the store fails."""
    act = partial(_take_in_and_repair, state, messages)
    try:
        return (yield from retry_on_conflict(state, act))
    except StoreError as error:
        if messages is None or not state.begin_again(error):
            raise
    return (yield from retry_on_conflict(state, act))


def _tell_repairs(outcome: Outcome, taken: "_TakenIn") -> Outcome:
    """Return the outcome with what was done to messages when they came."""
    mended = f"mended {format_count(taken.mended, 'message')}" if taken.mended else ""
    reason = "; ".join(filter(None, (outcome.reason, mended, taken.limited)))
    receipt = replace(outcome.receipt, mended=taken.mended, reason=reason)
    return replace(outcome, reason=reason, receipt=receipt)


def _choose_list(
    state: SessionState, messages: Sequence[Any] | None, taken: "_TakenIn"
) -> tuple[list[Any], Sequence[int | None]]:
    """Return the list to send, and the place of each of its messages in the caller's list.

    The caller's own list is sent as it is if nothing was changed; else its own objects where no fold is.
    """
    if messages is None or state.position.tip != taken.tip:  # others said something while a model answered
        copies = state.send_view()
        return copies, [None] * len(copies)
    loaded = state.loaded
    if (
        taken.as_said
        and not (state.position.view.standing or loaded.has_private or loaded.bound.whole)
        and len(messages) == len(loaded.items)
    ):
        return (messages if isinstance(messages, list) else list(messages)), range(len(messages))
    state.caller.note_view(state.position, loaded)
    blocks = find_block_places(state)
    if state.caller.continues_view(loaded) and not (blocks or loaded.has_private or loaded.bound.thinking):
        state.caller.hold_own(messages, sent := list(messages))
        return sent, range(len(sent))
    copies, places = state.caller.copy_view(loaded), state.caller.trace_view(loaded)
    for at in blocks:
        place = places[at]  # the caller may have another face of it than the model in use can read
        places[at] = place if place is not None and messages[place] == copies[at] else None
    is_plain = taken.as_said and not (blocks or loaded.has_private or loaded.bound.whole)
    if not is_plain and loaded.bound.thinking is not None:
        # An earlier view may have had messages without their thinking.
        places = [
            None if place is None or loaded.changes_bound(at, messages[place]) else place
            for at, place in enumerate(places)
        ]
    sent = state.caller.sent_copies.choose(places, messages)
    if not is_plain:
        own = enumerate(sent)  # the type is looked at first, because that costs no call
        for at in [at for at, one in own if (type(one) is dict or isinstance(one, dict)) and PRIVATE in one]:
            sent[at] = without_private(sent[at])
    _move_marks(state, messages, sent, places)
    return sent, places


def _move_marks(
    state: SessionState, messages: Sequence[Any], sent: list[Any], places: Sequence[int | None]
) -> None:
    """Leave the cache marks of the caller's list alone in what is sent: a provider takes only few."""
    state.loaded.drop_marks(sent, places, state.caller.sent_copies.made[-NEWEST_COPIES:])
    if messages and places[-1:] == [None]:  # what has changed is still the end of what is to be cached
        for mark in split_cache_marks(messages[-1])[1][-1:]:
            sent[-1] = put_cache_mark(sent[-1], mark)


@quick_init
@dataclass(frozen=True, slots=True)
class _TakenIn:
    """What became of the caller's list."""

    as_said: bool
    """True if it has the messages as they were said, and is not a view of them."""
    said: int
    tip: str
    """Number and name of its last message."""
    mended: int
    """Messages that were repaired."""
    limited: str = ""
    """What the policy has done to new messages that are over its limits."""
    native: str | None = None
    """The fold of a block that the provider made by itself."""


def _take_in_and_repair(state: SessionState, messages: Sequence[Any] | None) -> SessionFlow[_TakenIn]:
    """Take in the caller's list, and repair the view if a provider would refuse it."""
    state.bind_view()
    position, said, as_said = state.position, state.position.view.said, False
    if messages is None:
        state.caller.hold_nothing()
        yield from reload_if_stale(state)
    else:
        head = position.head
        as_said = yield from take_in(state, messages)
        if head is not None and position.head is head:  # no write has told whether others wrote
            yield from check_head(state)
    state.caller.thinking.note_sent("")  # what is sent next is another request
    if state.loaded.bound.thinking is not None:
        yield from _record_start(state)
    native, mended, limited = None, 0, ""
    if state.loaded.last_block >= 0:
        native = yield from fold_block(state)
        yield from drop_foreign_compactions(state)
    limits = _find_limits(state, position.view.said - said)
    if limits or state.loaded.sound is None:
        mended, limited = yield from repair_view(state, limits)
    return _TakenIn(as_said, position.view.said, position.tip, mended, limited, native)


def repair_view(state: SessionState, limits: tuple[Stage, ...] = ()) -> SessionFlow[tuple[int, str]]:
    """Repair the view if a provider would refuse it; returns how many messages, and what the limits did."""
    if not limits and state.loaded.sound is not None:
        return 0, ""
    window = yield from find_window(state)
    budget = measure_context(state, window, RequestContext())
    policy = state.settings.policy
    view_items = tuple(state.loaded.view_items)
    pins = tuple(n for n, item in enumerate(view_items) if _stays_whole(state, item))
    task = build_task(to_conversation(state, window, budget), CompactionOptions(pins=pins), None)
    result = yield from shrink(task, limits, orphans=policy.orphans, missing=policy.missing)
    reports = [report for report in result.reports if report.accepted]
    # What is done becomes a fold, so that the same view is not repaired again in every turn.
    facts: dict[str, Any] = {"trigger": "repair"}
    if reports:
        facts = {"trigger": "arrival", "policy": policy.name, "stages": [report.stage for report in reports]}
        facts |= {"before": task.tokens, "after": result.tokens}
    if reports or result.repaired:
        made = yield from install_fold(state, view_items, result.edits, facts)
        if reports and made.entry is not None:
            state.accounting.add_fold(made.entry.name, task.tokens, result.tokens)
    return result.repaired, "; ".join(f"{report.stage}: {report.reason}" for report in reports)


def find_mends(state: SessionState, fold: str) -> list[str]:
    """Return the later folds that took nothing away: they put words between messages for the sake of this."""
    later = dropwhile(lambda one: one.name != fold, state.view.standing)
    plain = (one for one in later if not any(change.gone() for change in one.changes))
    messages = state.position.fold_messages  # one with a call or a result mends what the caller has said
    return [one.name for one in plain if not any(m.calls or m.results for m in messages.get(one.name, ()))]


def _record_start(state: SessionState) -> SessionFlow[None]:
    """Record what requests begin with, as thinking is bound to it: the answer may come to another process."""
    thinking, model = state.caller.thinking, state.settings.model or ""
    if thinking.recorded == (model, thinking.start):
        return
    value = [state.to_stored(item) for item in state.loaded.system]
    facts = {"format": state.wire.name, BEGUN_WITH: [model, thinking.start]}
    yield from commit(state, [mark_entry(state, "system", value, facts)])
    thinking.take_in_mark(facts, is_last=True)


def _find_limits(state: SessionState, new: int) -> tuple[Stage, ...]:
    """Return the policy's stages that limit a message which has just arrived.

    new   messages that were stored just now; those behind the last reply have arrived since it as well
    """
    stages = state.loaded.found.find_in(select_arrival, state.settings.policy.made_stages)
    if not stages:
        return ()
    messages, items = state.loaded.messages, state.loaded.view_items
    last = next((n for n, message in enumerate(reversed(messages)) if message.role == "assistant"), new)
    arrived = [
        messages[index]
        for index in range(max(0, len(messages) - max(new, last)), len(messages))
        if isinstance(items[index], MessageRange) and not _stays_whole(state, items[index])
    ]
    return tuple(
        stage for stage in stages if isinstance(stage, LimitingStage) and any(map(stage.limits, arrived))
    )


def _stays_whole(state: SessionState, item: ViewItem | None) -> bool:
    """True if somebody wants a message as it was said: it is pinned, or an unfold has shown it again."""
    view = state.view
    return isinstance(item, MessageRange) and (item.first in view.pins or view.was_unfolded(item.first))
