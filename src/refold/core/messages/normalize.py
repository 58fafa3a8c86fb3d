"""Make a view acceptable to its provider, as the last step before it is written.

A correct cut leaves nothing to do here, and then the same list comes back. Otherwise this closes dead calls,
gives stray results a call and calls that share an id ids of their own, puts system messages where the format
has them or writes them as user messages, removes empty text that a provider refuses, and lets a user speak
first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from refold.core.messages.message import Message, Part, Role, Text, ToolCall, ToolResult, is_blank
from refold.core.messages.repair import MISSING, MissingTexts, Orphans, repair_tool_pairs
from refold.core.messages.tool_pairs import Links, Place, link
from refold.core.messages.unread import (
    ORDERS,
    end_orders,
    find_orders,
    find_words,
    lasts_one_turn,
    must_open_history,
    opens_history,
)
from refold.core.messages.wire_rules import Shape, is_own

OPENING: Final = "[The conversation continues here.]"
"""Text of the user message that is inserted where the user has to speak."""
NOTHING: Final = "[empty message]"
"""Text of a message that may not be empty."""


@dataclass(frozen=True, slots=True)
class Normalized:
    """A list that a provider accepts, and how many messages were touched."""

    messages: Sequence[Message]
    changed: int = 0
    calls: int = 0
    results: int = 0


def normalize(
    messages: Sequence[Message],
    *,
    shape: Shape,
    orphans: Orphans = "call",
    missing: MissingTexts = MISSING,
    links: Links | None = None,
) -> Normalized:
    """Fix everything that a provider would refuse; idempotent. `links`: of these messages, if known."""
    fixed = _start_at_compaction(messages, shape)
    if not shape.system_inside or not shape.allows_empty or shape.needs_content:
        fixed = _fix_messages(fixed, shape)
    plain = make_call_ids_unique(fixed, shape)
    links = links if plain is messages else None
    repaired = repair_tool_pairs(plain, shape=shape, orphans=orphans, missing=missing, links=links)
    done = _place_system_messages(repaired.messages) if shape.system_behind_user else repaired.messages
    done = insert_turns(done, shape)
    if done is messages:
        return Normalized(messages)
    old = {id(message) for message in messages}
    new = sum(id(message) not in old for message in done)
    return Normalized(done, max(1, new), repaired.calls, repaired.results)


def _start_at_compaction(messages: Sequence[Message], shape: Shape) -> Sequence[Message]:
    """Return the list from the last compaction that has to be first; the provider refuses it elsewhere."""
    places = range(len(messages) - 1, 0, -1)
    first = next((at for at in places if must_open_history(messages[at]) and is_own(messages[at], shape)), 0)
    return messages[first:] if first else messages


def _fix_messages(messages: Sequence[Message], shape: Shape) -> Sequence[Message]:
    """Fix each message by itself; the same list comes back if nothing was wrong."""
    fixed: list[Message] = []
    is_leading = True
    for message in messages:
        new = message
        if message.role == "system" and not shape.system_inside:
            # What leads belongs into the provider's own field; only its own clients send others inside.
            if is_leading or not shape.system_behind_user or not is_own(message, shape):
                new = replace(message, role="user")
        else:
            is_leading = False
        fixed.append(_fix_content(new, shape))
    return messages if all(new is old for new, old in zip(fixed, messages, strict=True)) else fixed


def _place_system_messages(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the list with each system message behind a user's turn and before the reply, one at a time.

    One that stands elsewhere moves behind the next user's turn, or leaves if it was meant for its own turn
    only. Several in one place become one.
    """
    placed: list[Message] = []
    waiting: list[Message] = []
    last_turn = next((at for at in range(len(messages) - 1, 0, -1) if messages[at].role == "user"), 0)
    for at, message in enumerate(messages):
        if message.role == "system":
            waiting.append(end_orders(message) if at < last_turn else message)
            continue
        if message.role != "assistant":
            waiting = [each for each in waiting if not lasts_one_turn(each)]
        elif waiting and placed and placed[-1].role != "assistant":
            placed.append(_join_system(waiting, is_over=at < last_turn))
            waiting = []
        placed.append(message)
    if waiting and placed and placed[-1].role != "assistant":
        placed.append(_join_system(waiting, is_over=False))
    else:
        placed += [replace(each, role="user") for each in waiting]
    same = len(placed) == len(messages) and all(map(lambda new, old: new is old, placed, messages))
    return messages if same else placed


def _join_system(messages: Sequence[Message], *, is_over: bool) -> Message:
    """Join system messages of one place, and note what of them ends with the turn."""
    lasting = [message for message in messages if not lasts_one_turn(message)]
    messages = lasting if is_over and lasting else messages
    if len(messages) == 1:
        return messages[0]
    item: dict[str, Any] = {}
    stays: dict[str, Any] = {}
    parts: list[tuple[Part, bool]] = []
    for message in messages:
        places, value = find_orders(message)
        item |= message.wire.value if message.wire is not None else {}
        stays |= value
        parts += [(part, place in places) for place, part in find_words(message)]
    item = {key: value for key, value in item.items() if key != "clear_at" or not lasting} | stays
    if len(lasting) > 1:
        stays.pop("content", None)  # it is written from what stays of the parts
    base = (lasting or messages)[0]
    ends = tuple(place for place, (_, is_order) in enumerate(parts) if is_order)
    has_orders = lasting and any(lasts_one_turn(each) or ORDERS in each.meta for each in messages)
    return replace(
        base,
        parts=tuple(part for part, _ in parts),
        meta={**base.meta, ORDERS: (ends, stays)} if has_orders else base.meta,
        pinned=any(message.pinned for message in messages),
        wire=base.wire and replace(base.wire, value=item, parts=(), raws=()),
    )


def _fix_content(message: Message, shape: Shape) -> Message:
    if shape.needs_content:
        if not message.parts:
            said = message.wire.value if message.wire is not None and is_own(message, shape) else {}
            return message if said.get("audio") else replace(message, parts=(Text(""),))
        if any(type(part) is ToolResult and not part.content for part in message.parts):
            empty = (Text(""),)
            parts = (
                replace(part, content=empty) if type(part) is ToolResult and not part.content else part
                for part in message.parts
            )
            return replace(message, parts=tuple(parts))
    if shape.allows_empty:
        return message
    full = tuple(part for part in message.parts if not is_blank(part, shape.spaces))
    if len(full) == len(message.parts) and full:
        return message
    return replace(message, parts=full or (Text(NOTHING),))


def make_call_ids_unique(messages: Sequence[Message], shape: Shape) -> Sequence[Message]:
    """Return the list with every call id used once in it, or once in a message if that is all that is wanted.

    A later call with a used id gets a new one, and so do its results. The same list comes back if all ids
    differ.
    """
    new_ids: dict[Place, str] = {}
    used: set[str] = set()
    tried: dict[str, int] = {}  # the last number tried for each id, so that many equal ids stay linear
    for index, message in enumerate(messages):
        used = used if shape.unique_ids else set()
        for place, part in enumerate(message.parts):
            if type(part) is not ToolCall:
                continue
            name = part.id
            while name in used:
                tried[part.id] = tried.get(part.id, 1) + 1
                name = f"{part.id}_{tried[part.id]}"
            used.add(name)
            if name != part.id:
                new_ids[index, place] = name
    if not new_ids:
        return messages
    new_ids |= {result: new_ids[call] for result, call in link(messages).answers.items() if call in new_ids}
    renamed = list(messages)
    for index in {index for index, _ in new_ids}:
        parts = list(messages[index].parts)
        for place, part in enumerate(parts):
            if isinstance(part, ToolCall | ToolResult) and (index, place) in new_ids:
                field = "id" if isinstance(part, ToolCall) else "call_id"
                parts[place] = replace(part, **{field: new_ids[index, place]})  # type: ignore[arg-type]
        renamed[index] = replace(messages[index], parts=tuple(parts))
    return renamed


def insert_turns(messages: Sequence[Message], shape: Shape) -> Sequence[Message]:
    """Return the list with a message where somebody must speak: first, or between two of one role."""
    first = next((i for i, message in enumerate(messages) if message.role != "system"), None)
    is_open = (
        first is None
        or (first > 0 and not shape.system_inside)  # what leads is written as the user's
        or (opens_history(messages[first]) and is_own(messages[first], shape))
    )
    if first is not None and shape.starts_with_user and messages[first].role != "user" and not is_open:
        messages = [*messages[:first], Message("user", (Text(OPENING),)), *messages[first:]]
    if not shape.calls_behind_user and not shape.takes_turns:
        return messages
    spaced: list[Message] = []
    before: Message | None = None
    for message in messages:
        if message.role != "system" or not shape.system_behind_user:
            if before is not None and _needs_other_speaker(before, message, shape):
                other: Role = "user" if message.role == "assistant" else "assistant"
                spaced.append(Message(other, (Text(OPENING),)))
            before = message
        spaced.append(message)
    return messages if len(spaced) == len(messages) else spaced


def _needs_other_speaker(before: Message, message: Message, shape: Shape) -> bool:
    """True if somebody else has to speak between two messages; never between a call and its result."""
    if (before.role == "assistant") != (message.role == "assistant"):
        return False
    if shape.takes_turns:
        return not (before.calls and message.results)
    return message.role == "assistant" and bool(message.calls)
