"""Recognise a history whose first messages came back in other words: a new date, another environment.

Programs write their environment into the first messages, and write it anew in each session. Some are known by
a tag, and their words do not count (`core/log/normal_form.py`). This is the net for all others. It is the
same history if the first messages differ in nothing but blocks in tags, dates, numbers and paths, and enough
of what follows is the same, message by message. It begins no branch and loses no fold. The model sees the
first messages as they are now. The log keeps them as they were said, and as they are now beside the system
messages. Other words are an edit, and an edit is a branch.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from refold.core.log.entries import SAID
from refold.core.log.normal_form import HEAD
from refold.core.log.view import MessageRange, Replacement
from refold.core.messages.message import Text
from refold.formats import Format
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.caller_history import view_to_send
from refold.session.state.position import NOW
from refold.session.state.session_state import SessionState
from refold.session.steps.append import begin_draft, commit, mark_entry
from refold.session.steps.earlier_views import common_length, is_same
from refold.session.steps.edit_summary import keep_in_view
from refold.session.steps.load import load_at_head

LEAST_SHARED: Final = 3
"""Answers, calls and results behind the first messages that must be the same. Of 4,949 pairs of conversations
with one system prompt none shared more than one at the same places."""
LEAST_WORDS: Final = 20
"""Characters of an answer that counts; shorter ones, such as "Done.", are the same in many conversations."""
_LONGEST_HEAD: Final = 1_000_000
"""Characters of a first message that is looked at; a longer one is compared as it is."""
_MOST_TAGS: Final = 1_000
"""Tags that are looked at in it, so that many open ones take no more than linear time."""
_TAG: Final = re.compile(r"<([A-Za-z][\w.-]*)(?:\s[^<>]{0,200})?>")
_PUNCTUATION: Final = ".,;:!?()[]{}\"'`*-"
_DATA: Final = re.compile(r"[\d/\\]|\w\.\w")
"""What numbers, dates, times, paths, versions and names of files have, and other words have not."""
_CALENDAR: Final = re.compile(
    "jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|nov(ember)?"
    "|dec(ember)?|mon(day)?|tue(sday)?|wed(nesday)?|thu(rsday)?|fri(day)?|sat(urday)?|sun(day)?|am|pm|utc|gmt",
    re.IGNORECASE,
)


def find_said_head(state: SessionState, body: Sequence[Any]) -> SessionFlow[list[Any]]:
    """Return the first messages as they are known if the list has others in their place; else an empty list.

    Reads the log up to the message that decides it.
    """
    if (head := _find_head_of_view(state, body)) or state.head is None:
        return head
    if min(state.view.said, len(body)) < HEAD + LEAST_SHARED:
        return []
    place, last = state.head.place, len(body)

    def read_head() -> list[Any]:
        head: list[Any] = []
        shared = 0
        for entry in state.log.read(state.name, place, kinds=SAID, last=last):
            item = state.from_stored(entry)
            if len(head) < HEAD:
                head.append(item)
                alike = _is_same_request(state.wire, item, body[entry.said - 1])
                if not alike or common_length(state.wire, head, body) == HEAD:
                    break
                continue
            if not is_same(state.wire, item, body[entry.said - 1], entry.said):
                break
            shared += _identifies(state.wire, item)
            if shared == LEAST_SHARED:
                return head
        return []

    said: list[Any] = yield StoreCall(read_head)
    return said


def _find_head_of_view(state: SessionState, body: Sequence[Any]) -> list[Any]:
    """Return the first messages of a view that was sent if a list has others and its summary behind them."""
    for view in (view_to_send(state.position, state.loaded), *state.caller.sent_views.values()):
        ranges = [MessageRange(number, number) for number in range(1, HEAD + 1)]
        shown = zip(view.items, view.view_items, ranges, strict=False)
        head = [item for item, stands_for, first in shown if stands_for == first]
        same = common_length(state.wire, view.items, [*head, *body[len(head) :]])
        if (
            any(isinstance(item, Replacement) for item in view.view_items[:same])
            and common_length(state.wire, head, body) < len(head)
            and all(map(_is_same_request, [state.wire] * len(head), head, body))
        ):
            return head
    return []


def _identifies(wire: Format, item: Any) -> bool:
    """True for a message that hardly two conversations have in the same place."""
    (message,) = wire.parse([item])
    spoken = message.role == "assistant" and len(message.text.strip()) >= LEAST_WORDS
    return spoken or bool(message.calls or message.results)


def _is_same_request(wire: Format, old: Any, new: Any) -> bool:
    """True if two messages differ in nothing but their environment."""
    if is_same(wire, old, new, 1):
        return True
    (before,), (after,) = wire.parse([old]), wire.parse([new])
    if before.role != after.role or max(len(before.text), len(after.text)) > _LONGEST_HEAD:
        return False
    others = [[part for part in one.parts if not isinstance(part, Text)] for one in (before, after)]
    return others[0] == others[1] and find_words(before.text) == find_words(after.text)


def find_words(text: str) -> list[str]:
    """Return the words of a text without blocks in tags, dates, numbers and paths.

    >>> find_words("<env>cwd: /src</env> Today is Monday, 2026-11-16. Fix src/a.py!")
    ['Today', 'is', 'Fix']
    """
    outside: list[str] = []
    at = 0
    for tag in islice(_TAG.finditer(text), _MOST_TAGS):
        end = text.find(close := f"</{tag[1]}>", tag.end()) if tag.start() >= at else -1
        if end >= 0:
            outside.append(text[at : tag.start()])
            at = end + len(close)
    words = (word.strip(_PUNCTUATION) for word in " ".join([*outside, text[at:]]).split())
    return [word for word in words if word and not _DATA.search(word) and not _CALENDAR.fullmatch(word)]


def show_head(state: SessionState, said: Sequence[Any], head: Sequence[Any]) -> SessionFlow[None]:
    """Show the first messages as the caller has them now, and record those that are new.

    A message that a fold hides is shown again: the summary tells what it was, not what it is. The fold stays.

    said   the same messages as they were said
    """
    recorded = _write_recorded(state)
    now: dict[str, Any] = {}
    changed: list[int] = []
    for number, (old, item) in enumerate(zip(said, head, strict=True), 1):
        if is_same(state.wire, old, item, number):
            continue
        now[str(number)] = state.to_stored(item)
        if recorded.get(str(number)) != now[str(number)]:
            changed.append(number)
    if changed:
        draft, value = begin_draft(state), [state.to_stored(item) for item in state.loaded.system]
        draft.add("system", value, {"format": state.wire.name, NOW: {**recorded, **now}})
        hidden = [number for number in changed if not state.view.shown(number)]
        yield from keep_in_view(state, hidden, draft)
        said_items = state.caller.said_items  # the caller holds the same messages afterwards
        yield from commit(state, draft.marks)
        state.accounting.invalidate_report()
        if hidden:
            yield from load_at_head(state, said_items)
    if state.caller.said_items is not None:
        state.caller.said_items[: len(head)] = head
    state.loaded.update_items(dict(enumerate(head, 1)))


def show_orders(state: SessionState, orders: Mapping[int, Any]) -> SessionFlow[None]:
    """Show system messages from the middle, which a view begins with, as the caller has them now.

    Record those that are new; the log keeps what was said. They are given by their numbers.
    """
    recorded = _write_recorded(state)
    now = {**recorded, **{str(number): state.to_stored(item) for number, item in orders.items()}}
    if now != recorded:
        value = [state.to_stored(item) for item in state.loaded.system]
        yield from commit(state, [mark_entry(state, "system", value, {"format": state.wire.name, NOW: now})])
        state.accounting.invalidate_report()
    state.loaded.update_items(orders)


def _write_recorded(state: SessionState) -> dict[str, Any]:
    """Return the messages that were recorded as the caller has them now, by their numbers."""
    edited = state.position.edited.items()
    return {str(number): state.to_stored(state.from_stored(entry)) for number, entry in edited}
