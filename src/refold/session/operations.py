"""The operations of a session that are not steps of others: say, look, compact, pin, unfold.

Each is a flow: it yields store calls and questions to a model, and a driver answers them.
"""

from dataclasses import replace
from typing import Any, Final

from refold import formats
from refold.calls.build_task import CompactionOptions
from refold.calls.outcome import Outcome, Plan
from refold.calls.plan import dry_run, make_plan
from refold.calls.savings import Saving, find_saving
from refold.calls.target import TargetSize, parse_target
from refold.core.compaction.budget import Budget
from refold.core.compaction.cached_prefix import same_model
from refold.core.compaction.policy import Policy
from refold.core.log.entries import FOLDS, SAID
from refold.core.log.view import MessageRange
from refold.core.messages.message import Message, Text
from refold.core.messages.plain_values import read_each, to_plain_messages
from refold.core.messages.speakers import find_user_turns
from refold.core.messages.unread import NATIVE, is_native
from refold.core.models.prices import Spent
from refold.core.summaries.native import find_twin
from refold.core.tokens.responses import read_response
from refold.core.tokens.units import parse_window
from refold.errors import FormatError, RefoldError
from refold.formats.shared import canonical
from refold.policies import presets
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.events import Unfolded
from refold.session.results import CompactionSegment, FoldMade, Observed, Stats
from refold.session.state.block_makers import can_ask
from refold.session.state.cached_prefix import conversation_price
from refold.session.state.caller_history import copy_item
from refold.session.state.message_keys import KEY
from refold.session.state.session_state import SessionState
from refold.session.state.settings import find_fingerprint
from refold.session.steps.append import append_messages, begin_draft, commit
from refold.session.steps.compact import attempt_compaction, complete_options, latest_checkpoint
from refold.session.steps.context import context_state, current_request, to_conversation
from refold.session.steps.edit_summary import join_pairs, keep_in_view
from refold.session.steps.fill_view import can_change_format, fill_view
from refold.session.steps.load import load_at_head, read_log, reload_if_stale, retry_on_conflict
from refold.session.steps.native.fold_blocks import REPEATED, fold_block
from refold.session.steps.native.refused_blocks import drop_foreign_compactions
from refold.session.steps.observe import find_said, observe
from refold.session.steps.prepare import find_mends, repair_view
from refold.session.steps.read_entries import fold_messages, read_block
from refold.session.steps.recall import find_folds, find_removed, parse_handle
from refold.session.steps.take_in import detect_format, is_system, name_fault, replace_system
from refold.stores import Head

SAME: Final = ""
"""Stands for the model that the session has."""


def use(
    state: SessionState,
    *,
    model: str | None = SAME,
    window: int | str | None = None,
    endpoint: str | None = None,
    account: str | None = None,
) -> None:
    """Go on with another model, window, endpoint or account."""
    if not all(isinstance(name, str | None) for name in (model, endpoint, account)):
        raise RefoldError("a model, an endpoint and an account are named by text")
    old = state.settings
    settings = replace(
        old,
        model=old.model if model is SAME else model,
        window=(old.window if model is SAME else None) if window is None else parse_window(window),
        endpoint=old.endpoint if endpoint is None else endpoint,
        account=old.account if account is None else find_fingerprint(account),
    )
    state.use_settings(settings)


def say(
    state: SessionState, message: Any, key: str | None = None, *, durable: bool = True
) -> SessionFlow[str]:
    """Append a message, or several; text is the user's. Returns the handle of the last one.

    If something was said under the same key on this branch, nothing is appended and its handle is returned.
    """
    if key is not None:
        _check_key(key, durable=durable)

    def act() -> SessionFlow[int]:
        if key is not None and (number := (yield from _find_key(state, key))):
            return number
        value = Message("user", (Text(message),)) if isinstance(message, str) else message
        items = to_plain_messages(value if isinstance(value, list | tuple) else [value])
        if isinstance(value, Message) and state.wire.name != canonical.FORMAT.name:
            items = state.wire.render(items)
        items = read_each(items, copy_item)
        wire = detect_format(state, items)
        formats.refuse_other(wire, items)
        if wire.name != state.wire.name and can_change_format(state, wire, items):
            yield from fill_view(state, state.loaded.system, wire)
        system = 0
        while state.view.said == 0 and system < len(items) and is_system(state.wire, items[system]):
            system += 1
        try:
            if system:
                yield from replace_system(state, [*state.loaded.system, *items[:system]])
            yield from append_messages(state, items[system:], key=key)
        except FormatError as error:
            name_fault(state, items, error)
            raise
        if state.caller.caller_list is None:
            # No list will come to be compared with, so a long conversation need not stay in memory.
            state.caller.hold_said(None if state.view.said else [])
        return state.view.said

    number = yield from retry_on_conflict(state, act)
    yield from retry_on_conflict(state, lambda: fold_block(state))
    return f"#{number}"


def observe_and_say(state: SessionState, answer: Any) -> SessionFlow[Observed]:
    """Take in an answer and append its words, unless others come in their place; it is read once for both."""
    response = read_response(answer)
    observed = yield from observe(state, answer, response=response)
    is_said = not observed.send_again and observed.fold is None
    if is_said and (message := find_said(answer, response)) is not None:
        yield from say(state, message, durable=False)
    return observed


def _check_key(key: str, *, durable: bool) -> None:
    if not isinstance(key, str) or not key:
        raise RefoldError(f"a key is a text that names one message, such as a request id, not {key!r}")
    if not durable:
        raise RefoldError("a message with a key is always durable: leave out one of the two")


def _find_key(state: SessionState, key: str) -> SessionFlow[int | None]:
    """Return the number of the message that was said under a key on this branch, or None."""
    head, keys = state.head, state.position.keys
    if head is None:
        return None
    first = keys.first_unread(head)
    if first <= head.said:
        found: dict[str, int] = yield StoreCall(lambda: _read_keys(state, head, first))
        keys.add(found, head.said)
    return keys.find(key, head.said)


def _read_keys(state: SessionState, head: Head, first: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for entry in state.log.read(state.name, head.place, kinds=SAID, first=first):
        if f'"{KEY}":' in entry.about:  # reading the JSON of every entry would take longer
            found.setdefault(entry.beside[KEY], entry.said)
    return found


def view(state: SessionState) -> SessionFlow[list[Any]]:
    """Return what the model sees."""
    yield from reload_if_stale(state)
    yield from drop_foreign_compactions(state)
    state.accounting.note_shown(current_request(state))  # the caller may send it
    return state.send_view(new_copies=True)


def budget(state: SessionState) -> SessionFlow[Budget]:
    """Return how full the context is."""
    yield from reload_if_stale(state)
    return (yield from context_state(state)).budget


def needs_compaction(state: SessionState) -> SessionFlow[bool]:
    """Return whether a compaction is due."""
    return (yield from budget(state)).should_compact


def compact(
    state: SessionState,
    *,
    strategy: str | Policy | None,
    keep: int | None,
    focus: str,
    target: TargetSize | None,
) -> SessionFlow[Outcome]:
    """Fold now, whether or not it is due."""
    named = parse_target(target)
    yield from reload_if_stale(state)
    context = yield from context_state(state)
    policy, end = choose_policy(state, strategy), len(state.loaded.items)
    recent = [*range(max(state.loaded.fixed, end - keep), end)] if keep else []
    if keep is not None:  # not every policy keeps the last request by itself
        recent += find_user_turns(state.loaded.messages)[-1:]
    options = CompactionOptions(
        force=True,
        focus=focus,
        target=named.high,
        target_low=named.low,
        pins=tuple(recent),
        model=state.summariser.ask is not None,
    )
    asks_provider = strategy is None or strategy == NATIVE  # who names another one wants that one
    attempt = yield from attempt_compaction(
        state, context, options, "forced", policy=policy, asks_provider=asks_provider
    )
    state.accounting.note_shown(current_request(state))  # the outcome has the messages to send
    return attempt.outcome


def choose_policy(state: SessionState, strategy: str | Policy | None) -> Policy:
    """Return the policy of a fold that people ask for, with the place where the current thread begins."""
    own = state.settings.policy
    if strategy == NATIVE:
        if not can_ask(state):
            how = "open the session with native=, and messages in a format of Anthropic or of Responses"
            raise RefoldError(f"the provider cannot be asked to compact: {how}")
        policy = replace(own, stages=())  # the stage is added where it runs
    else:
        policy = own if strategy is None else presets.get(strategy)
    name, view_items = latest_checkpoint(state), state.loaded.view_items
    if name is None:
        return policy
    at = state.view.checkpoints[name]  # the thread begins at the first message behind the checkpoint
    places = enumerate(view_items)
    behind = (place for place, item in places if isinstance(item, MessageRange) and item.first > at)
    return replace(policy, checkpoint=next(behind, len(view_items)))


def segment(state: SessionState, strategy: str | Policy | None) -> SessionFlow[CompactionSegment | None]:
    """Return the messages that `compact` would fold now; None if it would fold none."""
    yield from reload_if_stale(state)
    context = yield from context_state(state)
    policy = choose_policy(state, strategy)
    conversation = replace(to_conversation(state, context.window, context.budget), policy=policy)
    has_model = state.summariser.ask is not None
    options = CompactionOptions(force=True, model=has_model)
    options = yield from complete_options(state, context, options)
    outcome = dry_run(conversation, options)
    if not outcome.compacted and not has_model:  # then what would be folded if there were a model
        outcome = dry_run(conversation, replace(options, model=True))
    if not outcome.compacted:
        return None
    start, end = min(edit.start for edit in outcome.edits), max(edit.end for edit in outcome.edits)
    numbers = [pair for pair in options.numbers[start:end] if pair is not None]
    return CompactionSegment(
        start=start,
        end=end,
        handle=f"#{min(first for first, _ in numbers)}-#{max(last for _, last in numbers)}",
        checkpoint=latest_checkpoint(state) if policy.begins_at_checkpoint else None,
    )


def plan(
    state: SessionState, strategy: str | Policy | None, options: CompactionOptions | None = None
) -> SessionFlow[Plan]:
    """Return what `compact` would do now, by the numbers that `budget` gives; asks nobody.

    options   of the compaction, where it is not the one that the session itself would make
    """
    yield from reload_if_stale(state)
    context = yield from context_state(state)
    conversation = to_conversation(state, context.window, context.budget)
    conversation = replace(conversation, policy=choose_policy(state, strategy))
    options = options or CompactionOptions(force=True, model=state.summariser.ask is not None)
    options = yield from complete_options(state, context, options)
    summariser = state.summariser.model
    return make_plan(conversation, options, model=state.settings.model, summariser=summariser)


def pin(state: SessionState, handle: Any, *, pinned: bool = True) -> SessionFlow[str]:
    """Keep a message in every view, or no longer; -1 is the last one."""

    def act() -> SessionFlow[str]:
        yield from reload_if_stale(state)
        named = parse_handle(state, state.view.said if handle == -1 else handle)
        number = named.first
        if number != named.last:
            raise RefoldError(f"{handle!r} names several messages: pin one, such as #{number}")
        if (number in state.view.pins) == pinned:
            return f"#{number}"
        said_items, draft = state.caller.said_items, begin_draft(state)
        if pinned and not state.view.shown(number):
            yield from keep_in_view(state, [number], draft)
        draft.add("pin", {"said": number, "pinned": pinned})
        yield from commit(state, draft.marks)
        if len(draft.marks) > 1:
            yield from load_at_head(state, said_items)  # the caller holds the same messages afterwards
            yield from repair_view(state)  # it may stand beside a message of the same role
        return f"#{number}"

    return (yield from retry_on_conflict(state, act))


def unfold(state: SessionState, fold: str | FoldMade | None) -> SessionFlow[str | None]:
    """Undo a fold, the latest if none is named; returns its name, or None if nothing is folded."""
    undone = ""

    def act() -> SessionFlow[str | None]:
        nonlocal undone
        yield from reload_if_stale(state)
        word: Any = undone or getattr(fold, "name", fold)
        if (name := _choose_fold(state, word)) is None:
            return None
        known = state.view.fold(name)
        mends = find_mends(state, name)
        said_items = state.caller.said_items  # the caller holds the same messages afterwards
        if known is None or known.standing:
            has_block = any(map(is_native, state.position.fold_messages.get(name, ())))
            reads = has_block or state.position.blocks or mends
            made = (yield from read_log(state, kinds=FOLDS)) if reads else []
            # The messages of a fold that a later one covers are not in memory.
            answers = {one.name for one in made if any(m.calls or m.results for m in fold_messages(one))}
            mends = [each for each in mends if each not in answers]
            others = {each.name for each in state.view.standing} - {name}
            repeats = [one.name for one in made if one.value.get(REPEATED, "") not in {"", *others}]
            draft = begin_draft(state)
            gone = dict.fromkeys((*(one for one in repeats if one in others), *mends, name))
            for each in gone:
                draft.add("unfold", {"fold": each})
            if any(map(state.view.covering, gone)):
                yield from join_pairs(state, draft)
            yield from commit(state, draft.marks)
            undone = name  # others may write before the view is repaired
            state.events.add(Unfolded(session=state.name, at=state.now(), fold=name))
            is_known = all(mark.kind == "unfold" for mark in draft.marks)
            yield from load_at_head(state, said_items, view_known=is_known)
        if mends:
            yield from repair_view(state)
        return name

    return (yield from retry_on_conflict(state, act))


def _choose_fold(state: SessionState, word: Any) -> str | None:
    """Return the name of the fold that a word begins, or of the latest that stands; None if none does."""
    if word is None:
        return next((fold.name for fold in reversed(state.shortening_folds()) if fold.standing), None)
    names = find_folds(state, str(word))
    if len(names) != 1:
        problem = "several folds begin with" if names else "no fold of this branch is named"
        raise RefoldError(f"{problem} {str(word)!r}: `folds()` lists them")
    return names[0]


def folds(state: SessionState) -> SessionFlow[list[FoldMade]]:
    """Return every fold of this branch, oldest first."""
    entries = yield from read_log(state, kinds=FOLDS)
    listed = []
    for entry in entries:
        fold, value, beside = state.view.fold(entry.name), entry.value, entry.beside
        if value.get("trigger") == "repair" or fold is None:
            continue
        removed = find_removed(state.view, fold)
        covering = state.view.covering(entry.name)
        before, after = state.accounting.fold_sizes[entry.name]
        block, receipt = read_block(entry), beside.get("receipt", {})
        first, last = min((r.first for r in removed), default=0), max((r.last for r in removed), default=0)
        listed.append(
            FoldMade(
                name=entry.name,
                handle=f"#{first}-#{last}" if removed else "",
                stages=tuple(value.get("stages", ())),
                tokens_before=before,
                tokens_after=after,
                at=entry.at,
                standing=fold.standing,
                covered_by=None if covering is None else covering.name,
                receipt=receipt and {**receipt, "session": state.name, "fold": entry.name},
                spent=Spent.read(beside.get("spent")),
                block=None if block is None else state.wire.render([block])[0],
                twin="" if block is None else find_twin(block).text,
            )
        )
    return listed


def stats(state: SessionState) -> SessionFlow[Stats]:
    """Return what fills the context now, beside what all requests cost together."""
    current = yield from budget(state)
    accounting, folded = state.accounting, state.shortening_folds()
    standing = [accounting.fold_sizes[fold.name] for fold in folded if fold.standing]
    return Stats(
        session=state.name,
        said=state.view.said,
        messages=len(state.loaded.items),
        current_context_tokens=current.used,
        window=current.window,
        room=current.room,
        ratio=current.ratio,
        level=current.level,
        should_compact=current.should_compact,
        folds=len(standing),
        unfolded=len(folded) - len(standing),
        tokens_saved=sum(before - after for before, after in standing),
        totals=accounting.totals,
        spent=accounting.spending.own,
        summaries=accounting.spending.summaries,
        thrifty=_find_saving(state, current),
    )


def _find_saving(state: SessionState, current: Budget) -> Saving | None:
    """Return what `thrifty` would save now, where the conversation's model has a price."""
    model, summariser = state.settings.model or "", state.summariser
    price = conversation_price(state)
    if price is None or summariser.ask is None or not summariser.sends_bill:
        return find_saving(current, price, summariser=summariser.price)
    is_own = bool(summariser.model) and same_model("", model, summariser.provider, summariser.model)
    return find_saving(current, price, summariser=summariser.price or price, summary_in_cache=is_own)
