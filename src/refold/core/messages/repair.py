"""Mends tool traffic: every call gets its result and every result its call, in a shape's own way.

A floor: a right cut needs none. It is deterministic, idempotent, and gives back the very list where nothing
was wrong. Dead calls get a result that says so; stray results get a call, or leave; results that stand in
the wrong place are moved behind their call; of two answers to one call the first wins.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from refold.core.messages.message import Message, Part, Text, ToolCall, ToolResult
from refold.core.messages.tool_pairs import Links, Place, link, may_continue_unit, open_calls
from refold.core.messages.wire_rules import CANONICAL, Shape

UNAVAILABLE: Final = "[Tool result unavailable - conversation was compacted]"
"""NeuroLink's words for a result that is gone."""

Orphans: TypeAlias = Literal["call", "drop"]
"""Whether a stray result gets a call or leaves."""


@dataclass(frozen=True, slots=True)
class Mended:
    """A repaired list and how much had to be done."""

    messages: Sequence[Message]
    calls: int = 0
    """Dead calls that got a result."""
    results: int = 0
    """Results that got a call, were moved to where they belong, or were dropped."""


def mend(
    messages: Sequence[Message],
    *,
    shape: Shape = CANONICAL,
    orphans: Orphans = "call",
    missing: str = UNAVAILABLE,
    links: Links | None = None,
) -> Mended:
    """Give every dead call a result and every stray result a call, adjacent, in the shape's own way."""
    links = link(messages) if links is None else links
    waiting = open_calls(messages, links, across_messages=shape.results_anywhere)
    dead = {place: call for place, call in links.unanswered.items() if place[0] not in waiting}
    moved = _misplaced(messages, links, shape)
    shuffled = _shuffled(messages, shape)
    if not dead and not links.orphans and not moved and not shuffled:
        return Mended(messages)
    found = {links.answers[index, place]: messages[index].parts[place] for index, place in moved}
    found |= {place: _gone(call, missing) for place, call in dead.items()}
    late = _late(found, _ends(messages, shape))
    stray = {} if orphans == "drop" else _without_call(messages, links)
    draft = _Draft(shape, {*moved, *links.orphans}, stray)
    for index, message in enumerate(messages):
        draft.write(index, message)
        draft.done += _as_results(late.get(index, ()), shape)
    draft.release()
    done = _gathered(draft.done, shape, messages) if shape.results_in_user else draft.done
    return Mended(done, len(dead), len(links.orphans) + len(moved) + shuffled)


# -- what is wrong -----------------------------------------------------------------------------------------


def _misplaced(messages: Sequence[Message], links: Links, shape: Shape) -> list[Place]:
    """Results before their call, in the assistant's own message, or with more than results between."""
    moved: list[Place] = []
    others = [0]
    for index, message in enumerate(messages):
        stays, results = False, 0
        for place, part in enumerate(message.parts):
            if type(part) is not ToolResult:
                continue
            results += 1
            call = links.answers.get((index, place))
            if call is None:
                continue
            apart = index > call[0] and others[index] > others[call[0] + 1] and not shape.results_anywhere
            if index <= call[0] or message.role == "assistant" or apart:
                moved.append((index, place))
            else:
                stays = True
        only = 0 < results == len(message.parts)
        others.append(others[-1] + (not only and (not stays or bool(message.calls))))
    return moved


def _shuffled(messages: Sequence[Message], shape: Shape) -> int:
    """How many messages must be rewritten where results come first and all of a unit in one message."""
    if not shape.results_in_user:
        return 0
    joined = sum(_joins(before, message, shape) for before, message in pairwise(messages))
    return joined + sum(map(_results_late, messages))


def _joins(before: Message, message: Message, shape: Shape) -> bool:
    """Whether two neighbours must be one: both bring results and the provider does not join them itself."""
    mixed = len(before.results) < len(before.parts)
    return _same_unit(before, message) and (mixed or not shape.alternates)


def _same_unit(before: Message, message: Message) -> bool:
    return bool(before.results and message.results) and not before.calls


def _results_late(message: Message) -> bool:
    """Whether something stands before a tool result in its message."""
    kinds = [type(part) is ToolResult for part in message.parts]
    return True in kinds and not all(kinds[: sum(kinds)])


# -- what is put in its place ------------------------------------------------------------------------------


def _ends(messages: Sequence[Message], shape: Shape) -> list[int]:
    """Behind which message the results of each message's calls come: its own, or the last of its unit."""
    ends = list(range(len(messages)))
    last: int | None = None
    for index in range(len(messages) - 1, -1, -1) if shape.results_anywhere else ():
        if not may_continue_unit(messages[index]):
            last = None
        elif last is None and messages[index].calls:
            last = index
        ends[index] = index if last is None else last
    return ends


def _late(found: dict[Place, Part], ends: list[int]) -> dict[int, list[Part]]:
    """The results that must be put behind each message, in the order of the calls they answer."""
    late: dict[int, list[Part]] = {}
    for place in sorted(found):
        late.setdefault(ends[place[0]], []).append(found[place])
    return late


def _gone(call: ToolCall, missing: str) -> ToolResult:
    return ToolResult(call.id, (Text(missing),), name=call.name or None, is_error=True)


def _without_call(messages: Sequence[Message], links: Links) -> dict[Place, ToolResult]:
    """Stray results whose id nobody calls; the others are second answers and leave."""
    called = {call.id for message in messages for call in message.calls}
    lonely: dict[Place, ToolResult] = {}
    for place, result in links.orphans.items():
        if result.call_id not in called:
            lonely[place] = result
            called.add(result.call_id)
    return lonely


@dataclass(slots=True)
class _Draft:
    """The list as it is written anew."""

    shape: Shape
    leaving: set[Place]
    stray: dict[Place, ToolResult]
    done: list[Message] = field(default_factory=list)
    held: list[Message] = field(default_factory=list)
    """Stray results and their calls; they wait until the results of the unit before them are written."""

    def write(self, index: int, message: Message) -> None:
        """Write a message without the parts that leave."""
        places = [(index, place) for place in range(len(message.parts))]
        rest = tuple(
            part for place, part in zip(places, message.parts, strict=True) if place not in self.leaving
        )
        results = tuple(part for part in rest if type(part) is ToolResult)
        lonely = self._called(message, [self.stray[place] for place in places if place in self.stray])
        if not results and (rest or not message.parts):
            self.release()
        if any(type(part) is ToolCall for part in rest) and (lonely or self.held):  # a new unit begins here
            self._put(message, results)
            self.held += lonely
            self.release()
            self._put(message, tuple(part for part in rest if type(part) is not ToolResult))
        else:
            self._put(message, rest)
            self.held += lonely

    def release(self) -> None:
        """Write what waits."""
        self.done += self.held
        self.held = []

    def _put(self, message: Message, parts: tuple[Part, ...]) -> None:
        if parts or not message.parts:
            left = message if len(parts) == len(message.parts) else replace(message, parts=parts)
            self.done.append(_results_first(left) if self.shape.results_in_user else left)

    def _called(self, message: Message, results: Sequence[ToolResult]) -> list[Message]:
        """Stray results behind a call of their own; a message that holds nothing else stays as it is."""
        if not results:
            return []
        calls = Message("assistant", tuple(_call_for(result) for result in results))
        whole = len(results) == len(message.parts) and message.role != "assistant"
        return [calls, *([message] if whole else _as_results(results, self.shape))]


def _call_for(result: ToolResult) -> ToolCall:
    note = f"[Tool call for {result.name or 'tool'} - conversation was compacted]"
    return ToolCall(result.call_id, result.name or "tool", {"note": note})


def _as_results(parts: Sequence[Part], shape: Shape) -> list[Message]:
    """Results as messages of their own: one for all, or one each, as the shape wants it."""
    if shape.results_in_user and parts:
        return [Message("user", tuple(parts))]
    return [Message("tool", (part,)) for part in parts]


def _results_first(message: Message) -> Message:
    if not _results_late(message):
        return message
    results = [part for part in message.parts if type(part) is ToolResult]
    return replace(
        message, parts=(*results, *(part for part in message.parts if type(part) is not ToolResult))
    )


def _gathered(messages: Sequence[Message], shape: Shape, given: Sequence[Message]) -> list[Message]:
    """Join neighbouring result messages where the provider does not, and those that were made here."""
    old = {id(message) for message in given}
    done: list[Message] = []
    for message in messages:
        before = done[-1] if done else None
        if before is not None and _same_unit(before, message):
            made = id(before) not in old or id(message) not in old
            if made or _joins(before, message, shape):
                both = replace(
                    message, parts=before.parts + message.parts, pinned=before.pinned or message.pinned
                )
                done[-1] = _results_first(both)
                continue
        done.append(message)
    return done
