"""Make a fold again in one step: with another text of its summary, or so that a message stays in view."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from refold.core.log.entries import Entry, Kind, make_entry
from refold.core.log.view import keep_in_change, rename_folds, step
from refold.core.messages.message import Message, Text
from refold.errors import RefoldError
from refold.formats.shared import canonical
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.session_state import SessionState
from refold.session.steps.append import commit, mark_entry
from refold.session.steps.load import FOLDS, load, reload_if_stale, retry_on_conflict
from refold.session.steps.read_entries import fold_messages, read_block
from refold.session.steps.recall import original

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
        undone = mark_entry(state, "unfold", {"fold": fold})
        again = make_entry(
            "fold",
            _edit_value(state, entry, old, new),
            parent=undone.name,
            said=entry.said,
            about=entry.beside,
            at=state.now(),
        )
        yield from commit(state, [undone, again])
        yield from load(state)
        return again.name

    return (yield from retry_on_conflict(state, act))


def keep_in_view(state: SessionState, numbers: Iterable[int]) -> SessionFlow[list[Entry]]:
    """Return marks that show messages again which are folded away: the same folds, made again around them.

    A tool call comes with its results and a result with its call: a provider refuses one without the other.
    """
    entries: list[Entry] = []
    wanted: list[int] = []
    for number in numbers:
        wanted += yield from _find_unit(state, number)
    # Only now: reading the messages may have found what others wrote, and the marks stand behind that.
    view, last = state.view, "" if state.head is None else state.head.name

    def add(kind: Kind, value: Any, about: Mapping[str, Any] | None = None) -> str:
        nonlocal view
        parent = entries[-1].name if entries else last
        mark = make_entry(kind, value, parent=parent, said=view.said, about=about, at=state.now())
        entries.append(mark)
        view = step(view, mark)
        return mark.name

    for number in (number for number in wanted if not view.shown(number)):
        (folds, at), names = view.hiding(number), dict[str, str]()
        for fold in reversed([fold for fold in folds if fold.standing]):
            add("unfold", {"fold": fold.name})
        for fold in folds:  # undone ones, too: later folds may name what they inserted
            made = next((entry for entry in entries if entry.name == fold.name), None)
            old = made or (yield from _read_entry(state, fold.name, fold.said))
            changes = rename_folds(old.value["changes"], names)
            if fold is folds[0]:
                changes[at] = _keep_message(old, changes[at], number)
            value = {**old.value, "trigger": "carried", "changes": changes}
            about = {**old.beside, **state.accounting.spending.recorded_sum}
            names[fold.name] = add("fold", value, about)
        for fold in folds:
            if not fold.standing:
                add("unfold", {"fold": names[fold.name]})
    return entries


def _keep_message(fold: Entry, change: Mapping[str, Sequence[str]], number: int) -> dict[str, list[str]]:
    """Return a change of a fold that shows this message, instead of its shorter form or beside a summary."""
    messages, word = fold_messages(fold), f"{number}-{number}"
    own = [messages[int(put[1:])] for put in change["put"] if put.startswith("+")]
    has_block = read_block(fold) is not None
    if list(change["took"]) == [word] and not has_block and not any(message.is_summary for message in own):
        return {"took": [word], "put": [word]}
    return keep_in_change(change, number, behind_own=has_block)


def _find_unit(state: SessionState, number: int) -> SessionFlow[list[int]]:
    """Return the numbers of a message and of those that hold its calls or its results."""
    first, last = max(1, number - NEIGHBOURS), min(state.view.said, number + NEIGHBOURS)
    items = yield from original(state, f"#{first}-#{last}")
    ids = [
        {call.id for call in message.calls} | {result.call_id for result in message.results}
        for message in state.wire.parse(items)
    ]
    unit, size = {number}, 0
    while len(unit) > size:
        size = len(unit)
        wanted = set().union(*(ids[member - first] for member in unit))
        unit |= {first + place for place, own in enumerate(ids) if own & wanted}
    return sorted(unit)


def read_fold(state: SessionState, name: str) -> SessionFlow[Entry]:
    """Return the entry of a fold of this branch."""
    fold = state.view.fold(name)
    return (yield from _read_entry(state, name, 0 if fold is None else fold.said))


def _read_entry(state: SessionState, name: str, said: int) -> SessionFlow[Entry]:
    place = state.head.place if state.head is not None else None
    if place is None:
        raise RefoldError("nothing was said in this session")
    entries: list[Entry] = yield StoreCall(
        lambda: list(state.log.read(state.name, place, kinds=FOLDS, first=said, last=said))
    )
    return next(entry for entry in entries if entry.name == name)


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
        Text(part.text.replace(old, new, 1)) if isinstance(part, Text) and old in part.text else part
        for part in message.parts
    )
    return replace(message, parts=parts, wire=None) if parts != message.parts else message
