"""How messages become wire values again: what was not touched is written as it was read; knows no provider.

A message is untouched when its parts are the very tuple that was read and its role and name still fit. In
a touched message every part that is still the very object that was read is written as its own JSON value.
Parts are told apart by identity, because equal parts may come from different values.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from refold.core.messages.message import (
    EMPTY,
    Document,
    File,
    Image,
    Message,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Wire,
)

Block: TypeAlias = dict[str, Any]
Placed: TypeAlias = tuple[Part, Any]
"""A part and the JSON value it was read from, None where it is new."""

WHOLE: Final = "role:"
"""How the kind of an opaque part begins that is a whole message of a role nobody knows."""
NOTHING: Final = "[no content]"
"""Stands where a provider refuses emptiness."""


def same_parts(message: Message, wire: Wire) -> bool:
    """Whether a message still has the parts that were read, or is carried whole."""
    if message.parts is wire.parts:
        return True
    first = message.parts[0] if len(message.parts) == 1 else None
    return type(first) is Opaque and first.value is wire.value


def raws_by_identity(wire: Wire) -> dict[int, Any]:
    """Find the JSON value of each part that was read; the wire keeps the parts alive, so ids hold."""
    return {id(part): raw for part, raw in zip(wire.parts, wire.raws, strict=False)}


def placed(parts: Iterable[Part], raws: Mapping[int, Any]) -> list[Placed]:
    """Put each part beside the value it was read from."""
    return [(part, raws.get(id(part))) for part in parts]


def content_of(parts: Sequence[Placed], write: Callable[[Part], Block | None]) -> str | list[Any]:
    """Write content: one plain text as a string, else a list of blocks."""
    if len(parts) == 1:
        part, raw = parts[0]
        if isinstance(raw, str):
            return raw
        if raw is None and type(part) is Text and not part.extra:
            return part.text
    blocks = [write(part) if raw is None or isinstance(raw, str) else raw for part, raw in parts]
    return [block for block in blocks if block is not None]


def extra_of(part: Any, *, native: bool) -> Mapping[str, Any]:
    """Give a part's unknown fields where they belong to the format that is written."""
    extra: Mapping[str, Any] = part.extra if native else EMPTY
    return extra


def only_thinking(message: Message) -> bool:
    """Whether a message is nothing but reasoning; where that cannot be written, neither can the message."""
    return bool(message.parts) and all(type(part) is Thinking for part in message.parts)


def opaque_block(part: Opaque, *, native: bool) -> Block | None:
    """Give a block that nobody understands where it may be written: not in another format, nor a message."""
    whole = part.kind.startswith(WHOLE)
    return part.value if native and not whole and isinstance(part.value, dict) else None


def marker(part: Part) -> str:
    """Name a part that the format cannot hold, in a few words."""
    if isinstance(part, Opaque):
        return f"[{part.kind.removeprefix(WHOLE)[:80]} left out]"
    if isinstance(part, Image):
        return f"[image{_address(part.url or part.file_id)}]"
    if isinstance(part, Document):
        return part.text or f"[document{_address(part.title or part.url)}]"
    if isinstance(part, File):
        return f"[file{_address(part.name or part.url or part.file_id)}]"
    return "[reasoning left out]"


def _address(name: str | None) -> str:
    return f" {name[:200]}" if name else ""


def as_json_text(arguments: str | Mapping[str, Any]) -> str:
    """Give a call's arguments as JSON text."""
    if isinstance(arguments, str):
        return arguments
    return plain_json(dict(arguments))


def as_object(arguments: str | Mapping[str, Any]) -> dict[str, Any]:
    """Give a call's arguments as an object; text that is none is kept under `_raw`.

    >>> as_object('{"path": "a.py"}'), as_object("{broken")
    ({'path': 'a.py'}, {'_raw': '{broken'})
    """
    if not isinstance(arguments, str):
        return dict(arguments)
    if not arguments.strip():
        return {}
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"_raw": arguments}


def plain_json(value: Any) -> str:
    """Write a value as JSON text; what cannot be written is named instead."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return json.dumps({"_raw": f"[{type(value).__name__} that is not JSON]"})


def plain_text(parts: Iterable[Part]) -> str:
    """Give a result's content as text alone, for formats that take nothing else."""
    return "\n".join(_shown(part) for part in parts)


def _shown(part: Part) -> str:
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Opaque) and not isinstance(part.value, dict):
        return f"{part.kind}: {plain_json(part.value)}"
    return marker(part)


def names_of_calls(messages: Iterable[Message]) -> dict[str, str]:
    """Find the tool's name of every call id."""
    return {part.id: part.name for message in messages for part in message.parts if type(part) is ToolCall}


class Joined:
    """Items written so far, where all results of one group of calls must stand in one user message.

    Results that refold adds are joined with results that stand beside them. Nothing that was read is changed:
    an item that takes in others is a new one.
    """

    def __init__(self, key: str, is_result: Callable[[Any], bool]) -> None:
        self.items: list[Any] = []
        self._key = key
        self._is_result = is_result
        self._end = 0
        """Index behind the last result of the last item, where we own its list; else 0."""
        self._only_results = False
        self._ours = False
        """Whether we made the last item and its list."""

    def add(self, item: Block, message: Message) -> None:
        """Append an item that was read, or one that is not only results."""
        if self._only_results and any(type(part) is ToolResult for part in message.parts):
            item = {**item, self._key: [*self.items.pop()[self._key], *item[self._key]]}
        self.items.append(item)
        self._end = 0
        self._only_results = self._ours = False

    def add_calls(self, item: Block) -> None:
        """Append calls of ours to the item before them, which comes from the same speaker."""
        last = self.items[-1]
        if not self._ours:
            self.items[-1] = last = {**last, self._key: [*last[self._key]]}
            self._ours = True
        last[self._key] += item[self._key]

    def add_results(self, item: Block) -> None:
        """Append an item that consists of results only, or join it with the results before it."""
        if not self._end:
            self._own_last()
        if self._end:
            blocks = item[self._key]
            self.items[-1][self._key][self._end : self._end] = blocks
            self._end += len(blocks)
            return
        self.items.append(item)
        self._end = len(item[self._key])
        self._only_results = True

    def _own_last(self) -> None:
        """Make the last item ours if it holds results."""
        last = self.items[-1] if self.items else {}
        blocks = last.get(self._key)
        if not isinstance(blocks, list):
            return
        self._end = max(
            (index + 1 for index, block in enumerate(blocks) if self._is_result(block)), default=0
        )
        if self._end:
            self.items[-1] = {**last, self._key: blocks.copy()}
