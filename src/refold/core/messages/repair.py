"""Repair tool traffic: every call gets its result and every result its call, in the order a format wants.

A correct cut needs no repair. This is deterministic and idempotent, and returns the same list if nothing was
wrong. A dead call gets a result that says so. A stray result gets a call, or leaves. A result in the wrong
place moves behind its call. Of two results of one call the first wins; one of ours gives way to the tool's
own. Reasoning that led to nothing leaves, and so do an approval of a request that is not there and a block of
the provider's own tools that is alone.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import Final, Literal, TypeAlias

from refold.core.messages.message import (
    Message,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    find_texts,
)
from refold.core.messages.tool_pairs import Links, Place, link, may_continue_unit, open_calls
from refold.core.messages.unread import is_compaction
from refold.core.messages.wire_rules import CANONICAL, Shape


@dataclass(frozen=True, slots=True)
class MissingTexts:
    """The texts that stand for a result or a call that is missing; policies may set their own."""

    result: str = "[Tool result missing]"
    call: str = "[Tool call for {tool} missing]"
    """`{tool}` is the name of the tool."""
    folded: "MissingTexts | None" = None
    """The texts in a list that was compacted, where they differ."""

    def choose(self, *, compacted: bool) -> "MissingTexts":
        """Return the texts for a list that was compacted or not."""
        return self.folded if compacted and self.folded is not None else self


MISSING: Final = MissingTexts()

Orphans: TypeAlias = Literal["call", "drop"]
"""Treatment of a result without its call: insert a call for it, or drop the result."""


@dataclass(frozen=True, slots=True)
class RepairedPairs:
    """A repaired list and how much had to be done."""

    messages: Sequence[Message]
    calls: int = 0
    """Dead calls that got a result."""
    results: int = 0
    """Results that got a call, were moved, or were dropped."""


def repair_tool_pairs(
    messages: Sequence[Message],
    *,
    shape: Shape = CANONICAL,
    orphans: Orphans = "call",
    missing: MissingTexts = MISSING,
    links: Links | None = None,
) -> RepairedPairs:
    """Put a result behind every dead call and a call before every stray result, as the format wants it."""
    messages, links = _drop_stand_ins(*_drop_lone_items(messages, shape, links), missing)
    waiting = open_calls(messages, links, across_messages=shape.results_anywhere)
    dead = {place: call for place, call in links.unanswered.items() if place[0] not in waiting}
    misplaced = _find_misplaced(messages, links, shape)
    shuffled = 0
    if shape.results_in_user:
        shuffled = sum(_must_join(before, message, shape) for before, message in pairwise(messages))
        shuffled += sum(map(_has_late_results, messages))
    if not dead and not links.orphans and not misplaced and not shuffled:
        return RepairedPairs(messages)
    results = {links.answers[index, place]: messages[index].parts[place] for index, place in misplaced}
    for place, call in dead.items():
        results[place] = ToolResult(call.id, (Text(missing.result),), name=call.name or None, is_error=True)
    ends = _find_unit_ends(messages, shape)
    late: dict[int, list[Part]] = {}

    def answers_earlier(index: int, place: Place) -> bool:
        parts = messages[index].parts if index < len(messages) else ()
        calls = [links.answers.get((index, at), place) for at in range(len(parts))]
        return bool(calls) and max(calls) < place and not shape.results_anywhere

    end = -1
    for place in sorted(results):
        end = max(end, ends[place[0]])
        # Without ids the order of results says which call each belongs to.
        while answers_earlier(end + 1, place):
            end += 1
        late.setdefault(end, []).append(results[place])
    stray = {} if orphans == "drop" else _find_uncalled(messages, links)
    draft = _Draft(shape, {*misplaced, *links.orphans}, stray, missing.call)
    for index, message in enumerate(messages):
        draft.write(index, message)
        draft.done += _result_messages(late.get(index, ()), shape)
    draft.release()
    done = _join_results(draft.done, shape, messages) if shape.results_in_user else draft.done
    return RepairedPairs(done, len(dead), len(links.orphans) + len(misplaced) + shuffled)


# -- what is wrong -----------------------------------------------------------------------------------------


def _drop_lone_items(
    messages: Sequence[Message], shape: Shape, links: Links | None
) -> tuple[Sequence[Message], Links]:
    """Return the list without reasoning that no item of its turn follows and answers to nothing, linked."""
    links = link(messages) if links is None else links
    lone: set[int] = set()
    if links.strays:
        # The newest one may answer to what the provider keeps, one behind a compaction to what is in it.
        newest = max((at for at, message in enumerate(messages) if message.role == "assistant"), default=0)
        hidden = next((at for at, message in enumerate(messages) if is_compaction(message)), newest)
        lone = {at for at in links.strays if at < min(newest, hidden)}
    is_followed = True  # one at the end may still lead to something
    for at in range(len(messages) - 1, -1, -1):
        wire = messages[at].wire
        if wire is not None and wire.format == shape.name and wire.value.get("type") == "reasoning":
            lone |= set() if is_followed else {at}
        else:
            is_followed = messages[at].role == "assistant"
    if lone or links.lone:
        kept: list[Message] = []
        is_last = False  # True where all that stood behind a message in its turn has left
        for at in sorted({*range(len(messages))} - lone, reverse=True):
            message = _drop_places(at, messages[at], links.lone, is_last=is_last)
            has_left = bool(messages[at].parts) and not message.parts
            is_last = has_left and (not kept or kept[-1].role != "assistant")
            kept += [] if has_left else [message]
        messages, links = kept[::-1], link(kept[::-1])
    return messages, links


def _drop_places(index: int, message: Message, leaving: Collection[Place], *, is_last: bool) -> Message:
    """Return a message without the parts that leave, and without thoughts that led only to them."""
    kept = [part for place, part in enumerate(message.parts) if (index, place) not in leaving]
    if len(kept) == len(message.parts) and not is_last:
        return message
    while kept and type(kept[-1]) is Thinking:  # Anthropic refuses them at the end of a message
        kept.pop()
    return replace(message, parts=tuple(kept))


def _drop_stand_ins(
    messages: Sequence[Message], links: Links, missing: MissingTexts
) -> tuple[Sequence[Message], Links]:
    """Return the list without results of ours for calls that have another one as well, linked."""
    texts = {one.result for one in (MISSING, missing, missing.folded) if one is not None}
    late = {at: result.call_id for at, result in links.orphans.items() if result.text not in texts}
    answers = [messages[index].parts[place] for index, place in links.answers] if late else []
    ours = {part.call_id: part.call_id for part in answers if type(part) is ToolResult and part.text in texts}
    # A call whose id was used before has got a number behind it, and its late result has not.
    ours = {name.rpartition("_")[0]: name for name in ours if name.rpartition("_")[2].isdigit()} | ours
    late = {at: ours[name] for at, name in late.items() if name in ours}
    if not late:
        return messages, links
    names, kept = set(late.values()), []
    for index, message in enumerate(messages):
        parts: list[Part] = []
        for place, part in enumerate(message.parts):
            if type(part) is not ToolResult:
                parts.append(part)
            elif part.call_id not in names or part.text not in texts:
                parts.append(replace(part, call_id=late.get((index, place), part.call_id)))
        if parts or not message.parts:
            kept.append(message if (left := tuple(parts)) == message.parts else replace(message, parts=left))
    return kept, link(kept)


def _find_misplaced(messages: Sequence[Message], links: Links, shape: Shape) -> list[Place]:
    """Return the results before their call, in an assistant message, or with more than results between."""
    misplaced: list[Place] = []
    others = [0]  # how many messages up to each index are more than results in their place
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
                misplaced.append((index, place))
            else:
                stays = True
        only_results = 0 < results == len(message.parts)
        others.append(others[-1] + (not only_results and (not stays or bool(message.calls))))
    return misplaced


def _must_join(before: Message, message: Message, shape: Shape) -> bool:
    """True if two neighbours must be one: both hold results, and the provider does not join them itself."""
    mixed = len(before.results) < len(before.parts)
    return _is_same_unit(before, message) and (mixed or not shape.alternates)


def _is_same_unit(before: Message, message: Message) -> bool:
    return bool(before.results and message.results) and not before.calls


def _has_late_results(message: Message) -> bool:
    """True if anything stands before a tool result in its message."""
    kinds = [type(part) is ToolResult for part in message.parts]
    return True in kinds and not all(kinds[: sum(kinds)])


# -- what is put in its place ------------------------------------------------------------------------------


def _find_unit_ends(messages: Sequence[Message], shape: Shape) -> list[int]:
    """Return behind which message the results of each message's calls come: its own, or its unit's last."""
    ends = list(range(len(messages)))
    last: int | None = None
    for index in range(len(messages) - 1, -1, -1) if shape.results_anywhere else ():
        if not may_continue_unit(messages[index]):
            last = None
        elif last is None and messages[index].calls:
            last = index
        ends[index] = index if last is None else last
    return ends


def _find_uncalled(messages: Sequence[Message], links: Links) -> dict[Place, ToolResult]:
    """Return the stray results whose id no call has; the others are second results and are dropped."""
    called = {call.id for message in messages for call in message.calls}
    uncalled: dict[Place, ToolResult] = {}
    for place, result in links.orphans.items():
        if result.call_id not in called:
            uncalled[place] = result
            called.add(result.call_id)
    return uncalled


@dataclass(slots=True)
class _Draft:
    """The list while it is being rewritten."""

    shape: Shape
    leaving: set[Place]
    stray: dict[Place, ToolResult]
    call_text: str
    """The argument of a call that is put before a stray result."""
    done: list[Message] = field(default_factory=list)
    waiting: list[Message] = field(default_factory=list)
    """Stray results and their calls; they wait until the results of the unit before them are written."""

    def write(self, index: int, message: Message) -> None:
        """Write a message without the parts that leave."""
        places = [(index, place) for place in range(len(message.parts))]
        rest = tuple(
            part for place, part in zip(places, message.parts, strict=True) if place not in self.leaving
        )
        results = tuple(part for part in rest if type(part) is ToolResult)
        called = self._call_strays(message, [self.stray[place] for place in places if place in self.stray])
        if not results and (rest or not message.parts):
            self.release()
        if any(type(part) is ToolCall for part in rest) and (
            called or self.waiting
        ):  # a new unit begins here
            self._append(message, results)
            self.waiting += called
            self.release()
            self._append(message, tuple(part for part in rest if type(part) is not ToolResult))
        else:
            self._append(message, rest)
            self.waiting += called

    def release(self) -> None:
        """Write the messages that wait."""
        self.done += self.waiting
        self.waiting = []

    def _append(self, message: Message, parts: tuple[Part, ...]) -> None:
        if parts or not message.parts:
            left = message if len(parts) == len(message.parts) else replace(message, parts=parts)
            is_late = self.shape.results_in_user and _has_late_results(left)
            self.done.append(_sort_results(left, {}) if is_late else left)

    def _call_strays(self, message: Message, results: Sequence[ToolResult]) -> list[Message]:
        """Return stray results behind a call of their own; a message of nothing else stays as it is."""
        if not results:
            return []
        calls, answers = [], []
        for result in results:
            name, kind = result.name or "tool", result.extra.get("type", "")
            extra = {"type": self.shape.own_calls[kind]} if kind in self.shape.own_calls else {}
            note = self.call_text.replace("{tool}", name)
            calls.append(ToolCall(result.call_id, name, {"note": note}, extra))
            # Its own call, such as a click for a screenshot, nobody can make up.
            words = (
                map(Text, find_texts(part)) if type(part) is Opaque else (part,) for part in result.content
            )
            is_plain = extra or not kind
            answers.append(result if is_plain else replace(result, content=(*chain(*words),), extra={}))
        is_whole = answers == results and len(results) == len(message.parts) and message.role != "assistant"
        written = [message] if is_whole else _result_messages(answers, self.shape)
        return [Message("assistant", tuple(calls)), *written]


def _result_messages(parts: Sequence[Part], shape: Shape) -> list[Message]:
    """Return results as messages: one for all, or one each, as the format wants it."""
    if shape.results_in_user and parts:
        return [Message("user", tuple(parts))]
    return [Message("tool", (part,)) for part in parts]


def _sort_results(message: Message, order: Mapping[str, int]) -> Message:
    """Return a message with its results first, in this order of their calls."""

    def rank(part: Part) -> tuple[bool, int]:
        is_result = isinstance(part, ToolResult)
        return not is_result, order.get(part.call_id, len(order)) if isinstance(part, ToolResult) else 0

    # Sorting is stable: other parts keep their order among themselves.
    return replace(message, parts=tuple(sorted(message.parts, key=rank)))


def _join_results(messages: Sequence[Message], shape: Shape, originals: Sequence[Message]) -> list[Message]:
    """Join neighbouring result messages if the provider does not, and those that the repair inserted.

    Inserted results stand in the order of their calls: a format without ids tells them apart by that alone.
    """
    old = {id(message) for message in originals}
    order = {call.id: at for at, call in enumerate(call for message in messages for call in message.calls)}
    done: list[Message] = []
    for message in messages:
        before = done[-1] if done else None
        if before is not None and _is_same_unit(before, message):
            is_new = id(before) not in old or id(message) not in old
            if is_new or _must_join(before, message, shape):
                parts, pinned = before.parts + message.parts, before.pinned or message.pinned
                joined = replace(message, parts=parts, pinned=pinned)
                done[-1] = _sort_results(joined, order if is_new else {})
                old |= set() if is_new else {id(done[-1])}
                continue
        done.append(message)
    return done
