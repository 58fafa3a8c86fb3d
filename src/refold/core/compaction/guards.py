"""What is in every view: which messages must stay, by the policy's guards and the caller's pins."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from refold.core.compaction.cuts import HistoryIndex, only_thinks
from refold.core.messages.message import Message, Opaque, ToolCall, ToolResult
from refold.core.messages.speakers import spoken
from refold.errors import RefoldError

PROVIDERS_FOLDS: Final = frozenset({"compaction", "compaction_summary"})
"""Kinds of blocks in which providers keep what they compacted themselves; opaque to everybody else."""


_OF_PEOPLE: Final = frozenset({"last user", "first user", "user words"})


def guarded(
    messages: Sequence[Message],
    sizes: Sequence[int],
    guards: Collection[str],
    *,
    user_words: int = 0,
    pins: Iterable[Any] = (),
    given: Sequence[Any] = (),
) -> frozenset[int]:
    """The positions that stay; calls and results stay together, and a reasoning item with its item."""
    turns = () if _OF_PEOPLE.isdisjoint(guards) else spoken(messages)
    index = HistoryIndex(messages)
    kept: set[int] = set()
    if "system" in guards:
        kept.update(i for i, one in enumerate(messages) if one.role == "system" and not one.is_summary)
    if "pins" in guards:
        kept.update(i for i, message in enumerate(messages) if message.pinned)
        kept.update(_positions(pins, messages, given))
    if "last user" in guards:
        kept.update(turns[-1:])
    if "first user" in guards:
        kept.update(turns[:1])
    if "open calls" in guards:
        waiting = index.open_calls()
        kept.update(range(min(waiting, default=len(messages)), len(messages)))  # with its siblings' results
    if "provider's fold" in guards:
        kept.update(_last_fold_of_a_provider(messages))
    if "user words" in guards:
        kept.update(_newest(messages, turns, sizes, user_words))
    return frozenset(_with_partners(index, kept) if kept else ())


def reasons(
    messages: Sequence[Message], guards: Collection[str], pins: Iterable[Any], given: Sequence[Any]
) -> dict[int, str]:
    """Why each guarded message stays, the strongest reason for each."""
    why: dict[int, str] = {}
    sizes = [0] * len(messages)
    for guard in ("user words", "provider's fold", "first user", "open calls", "last user", "pins", "system"):
        if guard in guards:
            for index in guarded(messages, sizes, {guard}, pins=pins if guard == "pins" else (), given=given):
                why[index] = _WORDS[guard]
    return why


_WORDS: Final = {
    "system": "system prompt",
    "pins": "pinned",
    "last user": "the user's last message",
    "first user": "the user's first message",
    "open calls": "a tool call that waits for its result",
    "user words": "the user's own words",
    "provider's fold": "what the provider itself has folded, which only it can read",
}


def _positions(pins: Iterable[Any], messages: Sequence[Message], given: Sequence[Any]) -> Iterator[int]:
    """A pin is a position (from the end if negative), a message, or a message's id."""
    others = []
    for pin in pins:
        if isinstance(pin, int) and not isinstance(pin, bool) and -len(messages) <= pin < len(messages):
            yield pin % len(messages)
        else:
            others.append(pin)
    last = range(len(messages) - 1, -1, -1) if others else ()
    objects = {id(item): at for items in (given, messages) if items for at in last for item in (items[at],)}
    ids = {messages[at].id: at for at in last if messages[at].id is not None}
    for pin in others:
        if id(pin) in objects:
            yield objects[id(pin)]
        elif isinstance(pin, str) and pin in ids:
            yield ids[pin]
        else:
            yield _equal(pin, given or messages)


def _equal(pin: Any, items: Sequence[Any]) -> int:
    for index, item in enumerate(items):
        if item == pin:
            return index
    raise RefoldError(f"pin {pin!r} is no position and no message of this conversation"[:300])


def _last_fold_of_a_provider(messages: Sequence[Message]) -> tuple[int, ...]:
    """Where the latest block stands in which a provider has folded what came before."""
    for index in range(len(messages) - 1, -1, -1):
        if any(type(part) is Opaque and part.kind in PROVIDERS_FOLDS for part in messages[index].parts):
            return (index,)
    return ()


def _newest(
    messages: Sequence[Message], turns: Sequence[int], sizes: Sequence[int], limit: int
) -> Iterable[int]:
    """The newest within a limit; what was said again in the same words is kept once."""
    seen: set[str] = set()
    for index in reversed(turns):
        text = messages[index].text
        if text and text in seen:
            continue
        seen.add(text)
        limit -= sizes[index]
        if limit < 0:
            return
        yield index


def _with_partners(index: HistoryIndex, kept: set[int]) -> set[int]:
    todo = list(kept)
    while todo:
        for partner in _partners(index, todo.pop()):
            if partner not in kept:
                kept.add(partner)
                todo.append(partner)
    return kept


def _partners(index: HistoryIndex, at: int) -> Iterator[int]:
    """The messages that stay where this one does: of its calls and results, and of its reasoning."""
    messages = index.messages
    for place, part in enumerate(messages[at].parts):
        if isinstance(part, ToolCall | ToolResult):
            links = index.links
            other = links.answers.get((at, place)) or links.answered.get((at, place))
            if other is not None:
                yield other[0]
    if at and only_thinks(messages[at - 1]):
        yield at - 1
    if at + 1 < len(messages) and only_thinks(messages[at]):
        yield at + 1
