"""Make a view acceptable to its provider, as the last step before it is written.

A correct cut leaves nothing to do here, and then the same list comes back. Otherwise this closes dead calls,
gives stray results a call and calls that share an id ids of their own, writes system messages inside the
history as user messages, removes empty text that a provider refuses, and lets a user speak first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from refold.core.messages.message import Message, Text, ToolCall, ToolResult
from refold.core.messages.repair import MISSING, MissingTexts, Orphans, repair_tool_pairs
from refold.core.messages.tool_pairs import Links, Place, link
from refold.core.messages.wire_rules import Shape

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
    fixed = messages
    if not shape.system_inside or not shape.allows_empty or shape.needs_content:
        fixed = [_fix_message(message, shape) for message in messages]
        fixed = messages if all(new is old for new, old in zip(fixed, messages, strict=True)) else fixed
    plain = make_call_ids_unique(fixed, shape)
    links = links if plain is messages else None
    repaired = repair_tool_pairs(plain, shape=shape, orphans=orphans, missing=missing, links=links)
    done = _insert_user_turns(repaired.messages, shape)
    if done is messages:
        return Normalized(messages)
    old = {id(message) for message in messages}
    new = sum(id(message) not in old for message in done)
    return Normalized(done, max(1, new), repaired.calls, repaired.results)


def _fix_message(message: Message, shape: Shape) -> Message:
    if message.role == "system" and not shape.system_inside:
        message = replace(message, role="user")
    if shape.needs_content:
        if not message.parts:
            return replace(message, parts=(Text(""),))
        if any(type(part) is ToolResult and not part.content for part in message.parts):
            empty = (Text(""),)
            parts = (
                replace(part, content=empty) if type(part) is ToolResult and not part.content else part
                for part in message.parts
            )
            return replace(message, parts=tuple(parts))
    if shape.allows_empty:
        return message
    full = tuple(part for part in message.parts if type(part) is not Text or part.text.strip())
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


def _insert_user_turns(messages: Sequence[Message], shape: Shape) -> Sequence[Message]:
    """Return the list with a user message where the user must speak: first, or before a tool call."""
    first = next((i for i, message in enumerate(messages) if message.role != "system"), None)
    if first is not None and shape.starts_with_user and messages[first].role != "user":
        messages = [*messages[:first], Message("user", (Text(OPENING),)), *messages[first:]]
    if not shape.calls_behind_user:
        return messages
    spaced: list[Message] = []
    for message in messages:
        if message.calls and spaced and spaced[-1].role == "assistant":
            spaced.append(Message("user", (Text(OPENING),)))
        spaced.append(message)
    return messages if len(spaced) == len(messages) else spaced
