"""Gives calls that share an id ids of their own, and their results with them; changes nothing else."""

from collections.abc import Sequence
from dataclasses import replace

from refold.core.messages.message import Message, Part, ToolCall
from refold.core.messages.tool_pairs import Place, link
from refold.core.messages.wire_rules import Shape


def renamed(messages: Sequence[Message], shape: Shape) -> Sequence[Message]:
    """The list with every call id used once in it, or once in a message where that is all the shape wants.

    A later call of the same id gets a new one. The very list comes back where all are different.
    """
    new: dict[Place, str] = {}
    used: set[str] = set()
    tried: dict[str, int] = {}
    for index, message in enumerate(messages):
        used = used if shape.unique_ids else set()
        for place, part in enumerate(message.parts):
            if type(part) is ToolCall:
                name = _unused(part.id, used, tried)
                used.add(name)
                if name != part.id:
                    new[index, place] = name
    if not new:
        return messages
    new |= {result: new[call] for result, call in link(messages).answers.items() if call in new}
    return [_with_ids(message, index, new) for index, message in enumerate(messages)]


def _unused(name: str, used: set[str], tried: dict[str, int]) -> str:
    """A name like this that nobody uses; `tried` remembers how far each name was counted."""
    fresh = name
    while fresh in used:
        tried[name] = tried.get(name, 1) + 1
        fresh = f"{name}_{tried[name]}"
    return fresh


def _with_ids(message: Message, index: int, new: dict[Place, str]) -> Message:
    names = [new.get((index, place)) for place in range(len(message.parts))]
    if not any(name is not None for name in names):
        return message
    parts = zip(message.parts, names, strict=True)
    return replace(message, parts=tuple(_with_id(part, name) for part, name in parts))


def _with_id(part: Part, name: str | None) -> Part:
    if name is None:
        return part
    field = "id" if isinstance(part, ToolCall) else "call_id"
    return replace(part, **{field: name})  # type: ignore[arg-type]  # only calls and results get names
