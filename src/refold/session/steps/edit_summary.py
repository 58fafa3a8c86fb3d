"""Make a fold again in one step: with another text of its summary, or so that a message stays in view."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from refold.core.compaction.guards import find_guarded
from refold.core.log.entries import FOLDS, Entry
from refold.core.log.remade_folds import AGAIN, KnownFold, find_hiding, remake_folds
from refold.core.log.view import Folded, MessageRange
from refold.core.messages.message import Message, Text
from refold.core.messages.tool_pairs import link
from refold.errors import RefoldError
from refold.formats.shared import canonical
from refold.formats.shared.positions import is_position
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.session_state import SessionState
from refold.session.steps.append import Draft, begin_draft, commit
from refold.session.steps.fill_view import read_shown, show_folds, write_items
from refold.session.steps.load import load, reload_if_stale, retry_on_conflict, visible_fold_messages
from refold.session.steps.read_entries import fold_messages, read_block
from refold.session.steps.recall import read_said
from refold.stores import Place

NEIGHBOURS: Final = 64
"""Messages before and behind a message among which its tool calls and results are looked for: results follow
their call, and no agent makes so many calls at once."""


def edit_summary(state: SessionState, fold: str, old: str, new: str) -> SessionFlow[str]:
    """Replace `old` by `new` in the summary of a fold; return the name of the fold that stands now."""

    def act() -> SessionFlow[str]:
        yield from reload_if_stale(state)
        standing = state.view.fold(fold)
        if standing is None or not standing.standing or state.view.covering(fold) is not None:
            raise RefoldError("this fold does not stand any more: compact again")
        entry = yield from read_fold(state, fold)
        draft, value = begin_draft(state), _edit_value(state, entry, old, new)
        draft.add("unfold", {"fold": fold})
        draft.add("fold", value, {**entry.beside, **state.accounting.spending.recorded_sum, AGAIN: fold})
        yield from commit(state, draft.marks)
        yield from load(state)
        return draft.last

    return (yield from retry_on_conflict(state, act))


def keep_in_view(state: SessionState, numbers: Iterable[int], draft: Draft) -> SessionFlow[None]:
    """Add marks that show messages again which are folded away: the same folds, made again around them.

    A tool call comes with its results and a result with its call, and an item with the reasoning that led
    to it: a provider refuses one without the other.
    """
    wanted: dict[int, Message] = {}
    for number in numbers:
        wanted.update((yield from _find_unit(state, number, draft)))
    marks = {mark.name: mark for mark in draft.marks}
    hidden = [number for number in sorted(wanted) if not draft.view.shown(number)]
    known: list[KnownFold] = []
    counter = state.counter()

    def count(message: Message) -> int:
        return counter.tokens(counter.message(message))

    for fold in find_hiding(draft.view, hidden):
        entry = marks.get(fold.name) or (yield from _read_entry(state, fold, draft.place))
        known.append(_describe_fold(entry, {number: wanted[number] for number in hidden}, count))
    sums, sizes = state.accounting.spending.recorded_sum, {number: count(wanted[number]) for number in hidden}
    draft.take(remake_folds(draft.view, draft.last, known, sizes, beside=sums, at=draft.at))


def join_pairs(state: SessionState, draft: Draft) -> SessionFlow[None]:
    """Add marks that show the results of calls in view, and the calls of results, where folds hide them.

    A fold that leaves out messages in several places may be undone while a later one covers its summary.
    Then some of these messages are back, and the others are behind the later fold.
    """
    said = yield from read_shown(state, draft.view, draft.place)
    folds = yield StoreCall(lambda: visible_fold_messages(state, draft.place, draft.view))
    shown = show_folds(state, folds, state.wire)
    view_items, items = write_items(state, draft.view, state.wire, said, shown)
    links = link(state.wire.parse(items))
    loose = sorted({index for index, _ in (*links.unanswered, *links.orphans)})
    ranges = [stretch for index in loose for stretch in draft.view.originals(view_items[index])]
    yield from keep_in_view(state, [stretch.first for stretch in ranges], draft)


def _describe_fold(entry: Entry, wanted: Mapping[int, Message], count: Callable[[Message], int]) -> KnownFold:
    """Return a fold with the places of its summaries and of its other forms of these messages."""
    messages = fold_messages(entry)
    summaries = {place for place, message in enumerate(messages) if message.is_summary}
    forms = {place: message for place, message in enumerate(messages) if place not in summaries}
    return KnownFold(
        entry=entry,
        summaries=frozenset(summaries),
        stand_ins={
            number: frozenset(place for place, form in forms.items() if _is_form(form, message))
            for number, message in wanted.items()
        },
        sizes={place: count(form) for place, form in forms.items()},
        has_block=read_block(entry) is not None,
    )


def _is_form(form: Message, message: Message) -> bool:
    """True if a fold's message is another form of this one: the same call or result, or the same words."""
    return bool(_find_ids(form) & _find_ids(message)) or (form.role, form.parts) == (
        message.role,
        message.parts,
    )


def _find_ids(message: Message) -> set[str]:
    """Return the ids of a message's calls and results; one that was made from a position names nothing."""
    ids: set[tuple[str, str | None]] = {(call.id, call.name) for call in message.calls}
    ids |= {(result.call_id, result.name) for result in message.results}
    return {call_id for call_id, name in ids if not is_position(call_id, name)}


def _find_unit(state: SessionState, number: int, draft: Draft) -> SessionFlow[dict[int, Message]]:
    """Return a message and those that stay with it, such as its results and its reasoning, by number."""
    first, last = max(1, number - NEIGHBOURS), min(draft.view.said, number + NEIGHBOURS)
    items = yield from read_said(state, [MessageRange(first, last)], draft.place)
    messages = state.wire.parse(items)
    unit = find_guarded(messages, (), {"pins"}, pins=(number - first,))
    return {first + place: messages[place] for place in unit}


def read_fold(state: SessionState, name: str) -> SessionFlow[Entry]:
    """Return the entry of a fold of this branch."""
    fold = state.view.fold(name)
    if state.head is None or fold is None:
        raise RefoldError(f"no fold of this branch is named {name!r}: `folds()` lists them")
    return (yield from _read_entry(state, fold, state.head.place))


def _read_entry(state: SessionState, fold: Folded, place: Place) -> SessionFlow[Entry]:
    entries: list[Entry] = yield StoreCall(
        lambda: list(state.log.read(state.name, place, kinds=FOLDS, first=fold.said, last=fold.said))
    )
    return next(entry for entry in entries if entry.name == fold.name)


def _edit_value(state: SessionState, entry: Entry, old: str, new: str) -> dict[str, Any]:
    """Return the value of a fold's entry with the new text, and with the tokens after it counted again."""
    counter = state.counter()
    raws, before = list(entry.value["messages"]), fold_messages(entry)
    after = list(before)
    for index, message in enumerate(before):
        edited = _replace_text(message, old, new)
        if edited is message:
            continue
        after[index] = edited
        if "message" in raws[index]:
            raws[index] = {**raws[index], "message": canonical.to_json(edited)}
        else:
            (item,) = state.wire.render([edited])
            raws[index] = {**raws[index], "wire": item}
        break  # only the first place: the summary stands once, a quote of it is not the summary
    else:
        raise RefoldError("the summary is not where it was: compact again")
    sizes = [counter.tokens(sum(map(counter.message, messages))) for messages in (before, after)]
    tokens = entry.value.get("after")
    tokens = max(0, (tokens if isinstance(tokens, int) else 0) + sizes[1] - sizes[0])
    return {**entry.value, "messages": raws, "after": tokens}


def _replace_text(message: Message, old: str, new: str) -> Message:
    """Return the message with the new text; the same object if it does not hold the old one."""
    parts = tuple(
        Text(part.text.replace(old, new, 1)) if isinstance(part, Text) and old and old in part.text else part
        for part in message.parts
    )
    return replace(message, parts=parts, wire=None) if parts != message.parts else message
