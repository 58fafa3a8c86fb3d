"""Messages that stay in every view, by the policy's guards and the caller's pins."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from refold.core.compaction.cuts import HistoryIndex, find_neighbours
from refold.core.messages.message import Message, Opaque, ToolCall, ToolResult
from refold.core.messages.speakers import find_user_turns
from refold.core.messages.unread import find_unread, is_compaction
from refold.errors import RefoldError

_REASONS: Final = {
    "user words": "the user's own words",
    "provider's fold": "what the provider itself has folded, which only it can read",
    "first user": "the user's first message",
    "open calls": "a tool call that waits for its result",
    "last user": "the user's last message",
    "pins": "pinned",
    "system": "system prompt",
}
"""The reason for which each guard keeps a message, the weakest first."""


def find_guarded(
    messages: Sequence[Message],
    sizes: Sequence[int],
    guards: Collection[str],
    *,
    user_words: int = 0,
    pins: Iterable[Any] = (),
    items: Sequence[Any] = (),
    index: HistoryIndex | None = None,
) -> frozenset[int]:
    """Find the positions that stay; calls and results stay together, and a reasoning item with its item.

    `user_words`: tokens of the user's own messages to keep; `items`: the messages as the caller wrote them;
    `index`: that of the messages, if there is one.
    """
    turns = find_user_turns(messages) if {"last user", "first user", "user words"} & set(guards) else []
    index = index or HistoryIndex(messages)
    kept: set[int] = set()
    if "system" in guards:
        system = [i for i, message in enumerate(messages) if message.role == "system"]
        hidden = find_unread(messages) if system else ()
        kept.update(i for i in system if not messages[i].is_summary and i not in hidden)
    if "pins" in guards:
        kept.update(i for i, message in enumerate(messages) if message.pinned)
        kept.update(_find_pins(pins, messages, items))
    if "last user" in guards:
        kept.update(turns[-1:])
    if "first user" in guards:
        kept.update(turns[:1])
    if "open calls" in guards:
        # Everything behind the call stays too: the results of calls that were made together with it.
        kept.update(range(min(index.open_calls(), default=len(messages)), len(messages)))
    if "provider's fold" in guards:
        blocks = (at for at in range(len(messages) - 1, -1, -1) if is_compaction(messages[at]))
        kept.update(islice(blocks, 1))
    if "user words" in guards:
        kept.update(_find_newest_words(messages, turns, sizes, user_words))
    led = find_neighbours(messages) if kept else {}
    unread = list(kept)
    while unread:
        partners = [other for other in _find_partners(index, led, unread.pop()) if other not in kept]
        kept.update(partners)
        unread += partners
    return frozenset(kept)


def explain_guarded(
    messages: Sequence[Message], guards: Collection[str], pins: Iterable[Any], items: Sequence[Any]
) -> dict[int, str]:
    """Return the strongest reason for which each guarded message stays, by its position."""
    why: dict[int, str] = {}
    sizes = [0] * len(messages)
    for guard, reason in _REASONS.items():
        if guard in guards:
            own_pins = pins if guard == "pins" else ()
            why |= dict.fromkeys(find_guarded(messages, sizes, {guard}, pins=own_pins, items=items), reason)
    return why


def _find_pins(pins: Iterable[Any], messages: Sequence[Message], items: Sequence[Any]) -> Iterator[int]:
    """Find the positions of pins: each is a position (from the end if negative), a message, or its id."""
    others = []
    for pin in pins:
        if isinstance(pin, int) and not isinstance(pin, bool) and -len(messages) <= pin < len(messages):
            yield pin % len(messages)
        else:
            others.append(pin)
    # Tables of objects and ids make ten thousand pins linear; comparing by value is the last resort.
    last = range(len(messages) - 1, -1, -1) if others else ()
    lists = [known for known in (items, messages) if known]
    objects = {id(known[at]): at for known in lists for at in last}
    ids = {messages[at].id: at for at in last if messages[at].id is not None}
    for pin in others:
        place = objects.get(id(pin))
        if place is None and isinstance(pin, str):
            place = ids.get(pin)
        if place is None:
            place = next((at for at, item in enumerate(items or messages) if item == pin), None)
        if place is None:
            problem = f"pin {pin!r} is no position and no message of this conversation"
            raise RefoldError(problem[:300])
        yield place


def _find_newest_words(
    messages: Sequence[Message], turns: Sequence[int], sizes: Sequence[int], limit: int
) -> Iterable[int]:
    """Find the user's newest messages within a limit; the same words are kept once."""
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


def _find_partners(index: HistoryIndex, led: Mapping[int, set[int]], at: int) -> Iterator[int]:
    """Find the messages that stay with this one: its calls or results, approvals, and reasoning."""
    yield from led.get(at, ())
    for place, part in enumerate(index.messages[at].parts):
        if isinstance(part, ToolCall | ToolResult | Opaque):
            links = index.links
            other = links.answers.get((at, place)) or links.answered.get((at, place))
            if other is not None:
                yield other[0]
            yield from links.bonds.get(at, ())
