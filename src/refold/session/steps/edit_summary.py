"""Replace the text of a fold's summary: the fold is undone and made again with the new text, in one step."""

from dataclasses import replace
from typing import Any

from refold.core.log.entries import Entry, make_entry
from refold.core.messages.message import Message, Text
from refold.errors import RefoldError
from refold.formats.shared import canonical
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.session_state import SessionState
from refold.session.steps.append import commit, mark_entry
from refold.session.steps.load import FOLDS, load, reload_if_stale, retry_on_conflict
from refold.session.steps.read_entries import fold_messages


def edit_summary(state: SessionState, fold: str, old: str, new: str) -> SessionFlow[str]:
    """Replace `old` by `new` in the summary of a fold; return the name of the fold that stands now."""

    def act() -> SessionFlow[str]:
        yield from reload_if_stale(state)
        standing = state.view.fold(fold)
        if standing is None or not standing.standing or state.view.covering(fold) is not None:
            raise RefoldError("this fold does not stand any more: compact again")
        entry = yield from _read_entry(state, fold, standing.said)
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
