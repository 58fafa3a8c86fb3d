"""The last step before a view is written: pairs mended and the shape's own demands met.

A right cut leaves nothing to do here, and then the very list comes back. What it can do: close dead calls,
give stray results a call, give calls that share an id ids of their own, write system messages inside the
history as user messages where the shape wants that, take out empty text where it is refused, and let a user
speak first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from refold.core.messages.call_ids import renamed
from refold.core.messages.message import Message, Part, Text, ToolResult
from refold.core.messages.repair import UNAVAILABLE, Orphans, mend
from refold.core.messages.rewrite import map_parts
from refold.core.messages.tool_pairs import Links
from refold.core.messages.wire_rules import Shape

OPENING: Final = "[The conversation continues here.]"
"""What the user says where a shape wants the user to speak first."""
NOTHING: Final = "[empty message]"
"""What stands in a message that a shape refuses to have empty."""


@dataclass(frozen=True, slots=True)
class Settled:
    """A list that a provider takes, and how many messages had to be touched."""

    messages: Sequence[Message]
    changed: int = 0
    calls: int = 0
    results: int = 0


def settle(
    messages: Sequence[Message],
    *,
    shape: Shape,
    orphans: Orphans = "call",
    missing: str = UNAVAILABLE,
    links: Links | None = None,
) -> Settled:
    """Mend what a provider would refuse; idempotent. `links` are those of the messages, if known."""
    plain = renamed(_demanded(messages, shape), shape)
    links = links if plain is messages else None
    mended = mend(plain, shape=shape, orphans=orphans, missing=missing, links=links)
    done = _spaced(_opened(mended.messages, shape), shape)
    if done is messages:
        return Settled(messages)
    old = {id(message) for message in messages}
    new = sum(id(message) not in old for message in done)
    return Settled(done, max(1, new), mended.calls, mended.results)


def _demanded(messages: Sequence[Message], shape: Shape) -> Sequence[Message]:
    """The list with system messages and empty text as the shape wants them."""
    if shape.system_inside and shape.allows_empty and not shape.needs_content:
        return messages
    done = [_written(message, shape) for message in messages]
    return messages if all(new is old for new, old in zip(done, messages, strict=True)) else done


def _written(message: Message, shape: Shape) -> Message:
    if message.role == "system" and not shape.system_inside:
        message = replace(message, role="user")
    if shape.needs_content:
        if not message.parts:
            return replace(message, parts=(Text(""),))
        if any(type(part) is ToolResult and not part.content for part in message.parts):
            return map_parts(message, _answered)
    if shape.allows_empty:
        return message
    full = tuple(part for part in message.parts if type(part) is not Text or part.text.strip())
    if len(full) == len(message.parts) and full:
        return message
    return replace(message, parts=full or (Text(NOTHING),))


def _answered(part: Part) -> Part:
    """A tool result that says nothing says so with an empty text."""
    if isinstance(part, ToolResult) and not part.content:
        return replace(part, content=(Text(""),))
    return part


def _opened(messages: Sequence[Message], shape: Shape) -> Sequence[Message]:
    """The list with a user's word in front where the shape wants the user to speak first."""
    first = next((i for i, message in enumerate(messages) if message.role != "system"), None)
    if first is None or not shape.starts_with_user or messages[first].role == "user":
        return messages
    return [*messages[:first], Message("user", (Text(OPENING),)), *messages[first:]]


def _spaced(messages: Sequence[Message], shape: Shape) -> Sequence[Message]:
    """The list with a user's word before calls that would stand behind another reply."""
    if not shape.calls_behind_user:
        return messages
    done: list[Message] = []
    for message in messages:
        if message.calls and done and done[-1].role == "assistant":
            done.append(Message("user", (Text(OPENING),)))
        done.append(message)
    return messages if len(done) == len(messages) else done
