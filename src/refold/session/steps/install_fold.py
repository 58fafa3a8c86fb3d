"""Turn a compaction into a fold of the log, if what it removes is still there and the result is valid."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from refold.calls.outcome import Outcome, Receipt
from refold.core.compaction.bound_thinking import find_bound
from refold.core.compaction.edits import Edit
from refold.core.log.entries import SAID, Entry, make_entry
from refold.core.log.folds import FoldDraft, draft_fold
from refold.core.log.normal_form import split_cache_marks
from refold.core.log.rebase import find_last_summarised, rebase_summaries
from refold.core.log.view import MessageRange, Replacement, View, ViewItem, changes_to_json, step
from refold.core.messages.message import Message
from refold.core.messages.unread import is_native
from refold.core.models.prices import Spent
from refold.core.summaries.native import find_twin
from refold.errors import Conflict
from refold.formats.shared import canonical
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.events import CompactionEnd
from refold.session.state.accounting import TrialFold
from refold.session.state.block_makers import show_messages
from refold.session.state.fold_leases import FoldLease
from refold.session.state.loaded_view import LoadedView, WireReader, single_pieces
from refold.session.state.session_state import SessionState
from refold.session.state.thinking_prefixes import MADE_BEHIND, ShownThinking
from refold.session.steps.append import commit, mark_entry
from refold.session.steps.load import load
from refold.session.steps.read_entries import BEGAN, breaker_event, find_began, fold_messages

ELSEWHERE: Final = "the conversation went another way meanwhile"
NEEDS_NO_FOLD: Final = 0.5
"""Share of a fold's goal below which a history that somebody went back to is left as it is. More pays for
summaries twice; less hides messages though there is much room."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of an attempt to compact."""

    outcome: Outcome
    fold: str | None = None
    reason: str = ""
    overtaken: bool = False
    """True if the view has changed before the attempt: it has to be looked at again."""


@dataclass(frozen=True, slots=True)
class MadeFor:
    """What a fold was made for: the view, and the name of its last message."""

    view: View
    tip: str


@dataclass(frozen=True, slots=True)
class Installation:
    """The fold that was appended, or why none was."""

    entry: Entry | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _After:
    """The view after a fold, the messages that the fold inserted, and both with what they hold."""

    view: View
    inserted: tuple[Message, ...]
    loaded: LoadedView


def install_fold(
    state: SessionState,
    view_items: Sequence[ViewItem | None],
    edits: Sequence[Edit],
    facts: Mapping[str, Any],
    *,
    receipt: Receipt | None = None,
    since: MadeFor | None = None,
    lease: FoldLease | None = None,
    began: float | None = None,
) -> SessionFlow[Installation]:
    """Append a fold of these edits.

    view_items   the view that the edits were made for
    since        what they were made for; None if no other operation can have come between
    lease, began the lease under which they were made; when the attempt began
    """
    first = draft = draft_fold(view_items, edits)
    if draft is None:
        return Installation(None, "it touches what must stay")
    while True:
        if state.position.stale:
            yield from load(state)
        fitted = yield from _fit_to_view(state, draft, since, receipt)
        if isinstance(fitted, str):
            return Installation(None, fitted)
        draft, since = fitted
        entry, expected = _fold_entry(state, draft, facts, receipt, began), state.head
        after = _look_ahead(state, entry)
        if receipt and (reason := _reject_view(state.loaded, after.loaded, rebased=draft is not first)):
            return Installation(None, reason)
        try:
            moved, fence = _move_checkpoint(state, entry, draft, facts), lease.fence if lease else None
            yield from commit(state, [entry, *moved], fence=fence, first_view=after.view)
            break
        except Conflict:
            if since is None:  # nobody can tell whether the edits still apply
                raise
        yield from load(state)
        if state.head == expected:  # nothing was written meanwhile, so the lease must have been lost
            return Installation(None, "somebody else has taken over the work")
    state.position.add_fold(entry.name, after.inserted)
    state.loaded = after.loaded
    state.accounting.invalidate_report()
    return Installation(entry)


def _look_ahead(state: SessionState, entry: Entry) -> _After:
    """Return the view as it will be after a fold."""
    value = entry.value
    # As they will be read back, so that reopening changes nothing.
    inserted = fold_messages(entry, value, state.wire)
    view, shown = step(state.view, entry, value), show_messages(state, inserted, state.wire.name)
    return _After(view, inserted, _loaded_after(state.loaded, view, entry.name, shown))


def record_fold(
    state: SessionState, entry: Entry, facts: Mapping[str, Any], outcome: Outcome, used: int
) -> Attempt:
    """Account for a fold that was installed, and tell listeners.

    facts  what the log says of it
    used   how full the context was before it
    """
    accounting, trigger = state.accounting, outcome.receipt.trigger
    accounting.add_fold(entry.name, outcome.tokens_before, outcome.tokens_after)
    accounting.add_spending(outcome.receipt.spent, entry.at)
    if (event := breaker_event(entry, facts)) is not None:
        accounting.record_breaker_event(event, state.now(), find_began(entry))
    automatic = trigger in ("threshold", "background")
    accounting.start_trial(TrialFold(entry.name, used, state.loaded.tokens) if automatic else None)
    summary = outcome.summary if state.redact is None else state.redact(outcome.summary)
    receipt = replace(outcome.receipt, session=state.name, fold=entry.name)
    outcome = replace(outcome, messages=state.send_view(), summary=summary, receipt=receipt)
    state.events.add(
        CompactionEnd(
            session=state.name,
            at=state.now(),
            messages_before=outcome.messages_before,
            messages_after=len(state.loaded.items),
            tokens_before=outcome.tokens_before,
            tokens_after=outcome.tokens_after,
            stages=outcome.stages,
            fold=entry.name,
            receipt=redact_receipt(state, receipt),
        )
    )
    return Attempt(outcome, entry.name)


def redact_receipt(state: SessionState, receipt: Receipt) -> Receipt:
    """Return a receipt without secrets if the session redacts: errors quote what they were given."""
    redact = state.redact
    if redact is None:
        return receipt
    stages = tuple(
        replace(
            report,
            reason=redact(report.reason),
            calls=tuple(replace(call, failed=redact(call.failed)) for call in report.calls),
        )
        for report in receipt.stages
    )
    return replace(receipt, stages=stages, reason=redact(receipt.reason))


def has_message(state: SessionState, number: int, name: str) -> SessionFlow[bool]:
    """Return whether a message stands on the branch on which the session is now."""
    if state.view.said < number:
        return False
    if not number or state.position.tip == name or state.head is None:
        return True
    place = state.head.place
    entries: list[Entry] = yield StoreCall(
        lambda: list(state.log.read(state.name, place, kinds=SAID, first=number, last=number))
    )
    return bool(entries) and entries[0].name == name


def _fit_to_view(
    state: SessionState, draft: FoldDraft, since: MadeFor | None, receipt: Receipt | None
) -> SessionFlow[tuple[FoldDraft, MadeFor | None] | str]:
    """Return a fold that applies to the view, and what it is made for now; else why there is none.

    If the view has changed meanwhile, that is the part of the fold for which a model was paid.
    """
    reason = "" if since is None else (yield from _find_obstacle(state, draft, since))
    if not reason or since is None:
        return draft, since
    if reason != ELSEWHERE or receipt is None or not receipt.calls:
        return reason
    is_left = not (yield from has_message(state, since.view.said, since.tip))
    if is_left and state.loaded.tokens < NEEDS_NO_FOLD * (receipt.goal_tokens or 0):
        return reason
    rebased = yield from _rebase(state, draft, since)
    return reason if rebased is None else (rebased, MadeFor(state.view, state.position.tip))


def _find_obstacle(state: SessionState, draft: FoldDraft, since: MadeFor) -> SessionFlow[str]:
    """Return why a fold does not apply any more; "" if it does.

    It applies if the messages are those it was made for, still in the view, and none was pinned meanwhile.
    """
    if not (yield from has_message(state, since.view.said, since.tip)):
        return ELSEWHERE
    numbers = {item.first for item in state.loaded.view_items if isinstance(item, MessageRange)}
    inserted = {item for item in state.loaded.view_items if isinstance(item, Replacement)}
    for item in (item for change in draft.changes for item in change.removed):
        if isinstance(item, Replacement):
            if item not in inserted:
                return ELSEWHERE
        elif not numbers.issuperset(range(item.first, item.last + 1)):
            return ELSEWHERE
    return "a message was pinned meanwhile" if _takes_pinned(state, draft) else ""


def _takes_pinned(state: SessionState, draft: FoldDraft) -> bool:
    """True if a fold would take a message that is pinned."""
    if not state.view.pins:
        return False
    removed = {piece for change in draft.changes for item in change.removed for piece in single_pieces(item)}
    kept = {piece for change in draft.changes for item in change.kept for piece in single_pieces(item)}
    return any(MessageRange(pin, pin) in removed - kept for pin in state.view.pins)


def _rebase(state: SessionState, draft: FoldDraft, since: MadeFor) -> SessionFlow[FoldDraft | None]:
    """Return the summaries of a fold for the view as it is now; None if they cannot stand there.

    Others may have shortened the same messages meanwhile, or the conversation goes on from an earlier one.
    """
    before, now = (
        {fold.name for fold in view.folds if not fold.standing} for view in (since.view, state.view)
    )
    last = find_last_summarised(draft, since.view)
    if not last or now - before or state.head is None:  # what somebody unfolds is to be seen
        return None
    place = state.head.place

    def read_names() -> list[str]:
        found = state.log.find(state.name, [since.tip])
        places = [place, *found.values()]
        said = (state.log.read(state.name, each, kinds=SAID, first=last, last=last) for each in places)
        return [entry.name for entries in said for entry in entries]

    names: list[str] = yield StoreCall(read_names)
    # A name stands for all messages before it as well.
    is_shared = len(names) == 2 and names[0] == names[1]
    rebased = rebase_summaries(draft, since.view, state.view) if is_shared else None
    return None if rebased is None or _takes_pinned(state, rebased) else rebased


def _fold_entry(
    state: SessionState,
    draft: FoldDraft,
    facts: Mapping[str, Any],
    receipt: Receipt | None,
    began: float | None,
) -> Entry:
    if state.redact is not None:
        # A summary may lack the words that show a secret to be one, so the redactor sees the originals first.
        state.redact(state.loaded.items)
    value = {
        **facts,
        "changes": changes_to_json(draft.changes),
        "messages": [to_stored(state, message) for message in draft.inserted],
    }
    about: dict[str, Any] = {"format": state.wire.name}
    if made_behind := _find_prefixes(state, draft.inserted):
        about[MADE_BEHIND] = made_behind
    if receipt is not None:
        about["receipt"] = redact_receipt(state, receipt).as_dict()
        about |= {BEGAN: began} if receipt.calls and began is not None else {}
    about |= state.accounting.spending.record_attempt(Spent() if receipt is None else receipt.spent)
    return mark_entry(state, "fold", value, about)


def _find_prefixes(state: SessionState, messages: Sequence[Message]) -> dict[str, str]:
    """Return behind which prefixes the thinking was made that stays in a fold's own messages."""
    names = {name for message in messages for name in find_bound(message, "")}
    return {name: state.caller.thinking.made[name] for name in names if name in state.caller.thinking.made}


def to_stored(state: SessionState, message: Message) -> dict[str, Any]:
    """Return a message of the fold as the log keeps it."""
    redact = state.redact or (lambda value: value)
    if state.wire.name == canonical.FORMAT.name:
        return {"message": redact(canonical.to_json(message))}
    # A result is written as its call is: in an old form, or without an id.
    ids = {result.call_id for result in message.results if message.wire is None}
    calls = [known for known in state.loaded.messages if ids and ids & {call.id for call in known.calls}]
    item, _ = split_cache_marks(state.wire.render([*calls, message])[-1])  # a provider takes only few marks
    if is_native(message) and redact(item) != item:  # a block that is changed is refused
        return to_stored(state, find_twin(message))
    value: dict[str, Any] = {"wire": redact(item)}
    if message.source is not None:
        value["source"] = message.source
    if message.meta:
        value["meta"] = redact(canonical.to_json(replace(message, parts=()))["meta"])
    return value


def _loaded_after(old: LoadedView, view: View, fold: str, inserted: Sequence[Message]) -> LoadedView:
    """Return the loaded view after a fold."""
    known = {item: index for index, item in enumerate(old.view_items) if item is not None}
    bound = ShownThinking(old.bound.thinking)
    loaded = LoadedView(WireReader(old.wire), old.counter, fixed=old.fixed, bound=bound, found=old.found)
    loaded.add(old.view_items[: old.fixed], old.system, old.messages[: old.fixed])
    view_items = [single for item in view.items for single in single_pieces(item)]
    items: list[Any] = []
    messages: list[Message] = []
    for item in view_items:
        if isinstance(item, Replacement) and item.fold == fold:
            message = inserted[item.place]
            items += old.wire.render([message])
            messages.append(message)
        else:
            item_before, message = old.get_whole(known[item])
            items.append(item_before)
            messages.append(message)
    if old.is_positional(messages):  # ids follow from the order of calls and results, as after reopening
        parsed = old.wire.parse([*old.system, *items])[old.fixed :]
        messages = [
            replace(new, source=message.source, meta=message.meta) if isinstance(item, Replacement) else new
            for item, new, message in zip(view_items, parsed, messages, strict=True)
        ]
    loaded.add(view_items, items, messages)
    return loaded


def _reject_view(old: LoadedView, new: LoadedView, *, rebased: bool) -> str:
    """Return why a fold must not lead from one view to the other; "" if it may.

    A call without its result is no reason: the result comes next.
    """
    if rebased and new.tokens >= old.tokens:
        return "it would not be smaller any more"
    if new.sound is not None:
        return ""
    before = {problem.rule for problem in old.wire.check(old.messages)}
    after = {problem.rule for problem in new.wire.check(new.messages)}
    # A reason for which a provider would refuse the old view as well is none.
    breaks_rules = after - before - {"open-call", "invalid-arguments"}
    return "a provider would refuse what it leaves" if breaks_rules else ""


def _move_checkpoint(
    state: SessionState, entry: Entry, draft: FoldDraft, facts: Mapping[str, Any]
) -> list[Entry]:
    """Return an entry that moves the checkpoint behind the summary, if the fold removes messages after it."""
    name = facts.get("checkpoint")
    if name is None:
        return []
    start = state.view.checkpoints.get(str(name))
    removed = (item for change in draft.changes for item in change.removed)
    originals = (original for item in removed for original in state.view.originals(item))
    last = max((original.last for original in originals), default=0)
    if start is None or last <= start:  # somebody went back to before it meanwhile
        return []
    value = {"name": name, "said": last}
    return [make_entry("checkpoint", value, parent=entry.name, said=entry.said, at=entry.at)]
