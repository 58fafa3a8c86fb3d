"""Other words for a fold's summary: the fold is undone and made again with them, in one step."""

from dataclasses import replace
from typing import Any

from refold.core.log.entries import Entry
from refold.core.log.entries import entry as made
from refold.core.messages.message import Message, Text
from refold.errors import RefoldError
from refold.formats.shared import canonical
from refold.session.effects import Do, Work
from refold.session.keeper import Keeper, commit, mark
from refold.session.loading import FOLDS, fresh, load, put_messages, sure


def amend(keeper: Keeper, fold: str, old: str, new: str) -> Work[str]:
    """Put `new` where the summary of a fold says `old`; gives the name of the fold that stands now."""

    def act() -> Work[str]:
        yield from fresh(keeper)
        found = keeper.view.fold(fold)
        if found is None or not found.standing or keeper.view.covering(fold) is not None:
            raise RefoldError("this fold does not stand any more: compact again")
        entry = yield from _entry(keeper, fold, found.said)
        value = {**entry.value, "messages": _amended(keeper, entry, old, new)}
        value["after"] = _after(keeper, entry, value["messages"])
        undone = mark(keeper, "unfold", {"fold": fold})
        again = made("fold", value, parent=undone.name, said=entry.said, about=entry.beside, at=keeper.now())
        yield from commit(keeper, [undone, again])
        yield from load(keeper)
        return again.name

    return (yield from sure(keeper, act))


def _entry(keeper: Keeper, name: str, said: int) -> Work[Entry]:
    place = keeper.head.place if keeper.head is not None else None
    if place is None:
        raise RefoldError("nothing was said in this session")
    found: list[Entry] = yield Do(
        lambda: list(keeper.store.read(keeper.name, place, kinds=FOLDS, first=said, last=said))
    )
    return next(one for one in found if one.name == name)


def _amended(keeper: Keeper, entry: Entry, old: str, new: str) -> list[Any]:
    """What the fold put, with the new words in the place of the old ones."""
    wire = keeper.wire
    done = []
    changed = False
    for raw, message in zip(entry.value["messages"], put_messages(entry), strict=True):
        other = message if changed else _with(message, old, new)
        if other is message:
            done.append(raw)
            continue
        changed = True
        if "message" in raw:
            done.append({**raw, "message": canonical.to_json(other)})
        else:
            (item,) = wire.render([other])
            done.append({**raw, "wire": item})
    if not changed:
        raise RefoldError("the summary is not where it was: compact again")
    return done


def _with(message: Message, old: str, new: str) -> Message:
    parts = tuple(
        Text(part.text.replace(old, new, 1)) if isinstance(part, Text) and old in part.text else part
        for part in message.parts
    )
    return replace(message, parts=parts, wire=None) if parts != message.parts else message


def _after(keeper: Keeper, entry: Entry, messages: list[Any]) -> int:
    """Tokens after the fold, with the new words counted for the old ones."""
    counter = keeper.counter()
    again = made(
        "fold",
        {**entry.value, "messages": messages},
        parent=entry.parent,
        said=entry.said,
        about=entry.beside,
    )
    sizes = [
        counter.tokens(sum(counter.message(message) for message in put_messages(one)))
        for one in (entry, again)
    ]
    before = entry.value.get("after")
    return max(0, (before if isinstance(before, int) else 0) + sizes[1] - sizes[0])
