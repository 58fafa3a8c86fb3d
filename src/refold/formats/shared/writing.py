"""Write messages as wire values, for all formats: parts that were not changed are written as they were read.

A message is untouched if its parts are the very tuple that was read and its role and name still fit. In a
touched message every part that is still the object that was read is written as its own JSON value. Parts are
compared by identity, because equal parts may come from different values. Knows no provider.
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
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Wire,
    find_texts,
    read_json,
)

Block: TypeAlias = dict[str, Any]
PartWithRaw: TypeAlias = tuple[Part, Any]
"""A part and the JSON value it was read from, None if it is new."""

UNKNOWN_ROLE: Final = "role:"
"""Prefix of the kind of an opaque part that is a whole message of an unknown role."""
NO_CONTENT: Final = "[no content]"
"""Written where a provider refuses empty content."""


def own_wire(message: Message, format_name: str) -> Wire | None:
    """Return the wire value of a message that was read from this format; None for any other message."""
    wire = message.wire
    return wire if wire is not None and wire.format == format_name else None


def is_untouched(message: Message, wire: Wire, role: Role | None) -> bool:
    """True if a message still has the parts that were read, and the role; `role` None fits any."""
    if role is not None and role != message.role:
        return False
    if message.parts is wire.parts:
        return True
    first = message.parts[0] if len(message.parts) == 1 else None
    # an opaque part may be a new object; it still carries the very value that was read
    return type(first) is Opaque and first.value is wire.value


def raw_by_part_id(wire: Wire) -> dict[int, Any]:
    """Map `id(part)` to the JSON value of each part that was read; the wire keeps the parts alive."""
    return {id(part): raw for part, raw in zip(wire.parts, wire.raws, strict=False)}


def raw_by_inner_id(result: ToolResult, raws: Any) -> dict[int, Any]:
    """Map `id(part)` to the JSON value of each part inside a result; empty if the result was not a list."""
    return dict(zip(map(id, result.content), raws, strict=True)) if isinstance(raws, list) else {}


def pair_with_raw(parts: Iterable[Part], raws: Mapping[int, Any]) -> list[PartWithRaw]:
    """Put each part beside the value it was read from."""
    return [(part, raws.get(id(part))) for part in parts]


def write_content(parts: Sequence[PartWithRaw], write: Callable[[Part], Block | None]) -> str | list[Any]:
    """Write content: one plain text as a string, else a list of blocks."""
    if len(parts) == 1:
        part, raw = parts[0]
        if isinstance(raw, str):
            return raw
        if raw is None and type(part) is Text and not part.extra:
            return part.text
    blocks = [write(part) if raw is None or isinstance(raw, str) else raw for part, raw in parts]
    return [block for block in blocks if block is not None]


def native_extra(part: Any, *, native: bool) -> Mapping[str, Any]:
    """Return a part's unknown fields if they belong to the format that is written."""
    extra: Mapping[str, Any] = part.extra if native else EMPTY
    return extra


def is_only_thinking(message: Message) -> bool:
    """True if a message consists of reasoning; a format that cannot hold reasoning leaves it out."""
    return bool(message.parts) and all(type(part) is Thinking for part in message.parts)


def is_only_results(message: Message) -> bool:
    """True if a message consists of tool results."""
    return bool(message.parts) and all(isinstance(part, ToolResult) for part in message.parts)


def user_or_own_role(message: Message) -> Role:
    """Return the role of a message for formats without tool results in it."""
    return "user" if message.role == "tool" else message.role


def two_sided_role(message: Message) -> str:
    """Return the role of a message where only a user and an assistant speak."""
    return "assistant" if message.role == "assistant" else "user"


def copy_item(message: Message, wire: Wire, roles: Mapping[str, Role]) -> dict[str, Any]:
    """Return a copy of what a touched message was read from, with the role that it has now."""
    item = dict(wire.value)
    if roles[item["role"]] != message.role:
        item["role"] = two_sided_role(message)
    return item


def put_results_first(parts: Sequence[Part]) -> list[Part]:
    """Return parts in the order of providers that want tool results before anything else."""
    return sorted(parts, key=lambda part: not isinstance(part, ToolResult))


def opaque_block(part: Opaque, *, native: bool, typed: bool = True) -> Block | None:
    """Return an opaque block for its own format; None for another format, and for a whole message.

    `typed`: whether blocks of the format have a type; one without it belongs to another format then.
    """
    if not native or part.kind.startswith(UNKNOWN_ROLE) or not isinstance(part.value, dict):
        return None
    return part.value if isinstance(part.value.get("type"), str) is typed else None


def refusal_or_none(part: Text, extra: Mapping[str, Any]) -> Block | None:
    """Return OpenAI's block for a refusal; None if the text is none."""
    return {"type": "refusal", "refusal": part.text} if extra.get("type") == "refusal" else None


def to_data_url(media_type: str, data: str) -> str:
    """Return data as an inline URL."""
    return f"data:{media_type};base64,{data}"


def document_data(part: Document) -> str | None:
    """Return a document's data as OpenAI's file blocks hold it; None if it has none."""
    return to_data_url(part.media_type, part.data) if part.data and part.media_type else part.data


def placeholder(part: Part) -> str:
    """Name a part that the format cannot hold, in a few words."""
    if isinstance(part, Opaque):
        kind, texts = part.kind.removeprefix(UNKNOWN_ROLE)[:80], find_texts(part)
        return "\n".join((f"[{kind}]", *texts)) if any(texts) else f"[{kind} left out]"
    if isinstance(part, Document) and part.text:
        return part.text
    if isinstance(part, Image):
        word, name = "image", part.url or part.file_id
    elif isinstance(part, Document):
        word, name = "document", part.title or part.url
    elif isinstance(part, File):
        word, name = "file", part.name or part.url or part.file_id
    else:
        return "[reasoning left out]"
    return f"[{word} {name[:200]}]" if name else f"[{word}]"


def arguments_as_text(arguments: str | Mapping[str, Any]) -> str:
    """Return a call's arguments as JSON text."""
    return arguments if isinstance(arguments, str) else to_json(dict(arguments))


def arguments_as_object(arguments: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return a call's arguments as an object; text that is none is kept under `_raw`.

    >>> arguments_as_object('{"path": "a.py"}'), arguments_as_object("{broken")
    ({'path': 'a.py'}, {'_raw': '{broken'})
    """
    if not isinstance(arguments, str):
        return dict(arguments)
    if not arguments.strip():
        return {}
    value = read_json(arguments)
    return value if isinstance(value, dict) else {"_raw": arguments}


def to_json(value: Any) -> str:
    """Return a value as JSON text; a value that JSON cannot hold is named instead."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return json.dumps({"_raw": f"[{type(value).__name__} that is not JSON]"})


def to_plain_text(parts: Iterable[Part]) -> str:
    """Return a result's content as text, for formats that take nothing else."""
    lines: list[str] = []
    for part in parts:
        if texts := find_texts(part):
            # The kind of data that is a field of a result is the field's name.
            name = f"{part.kind}: " if isinstance(part, Opaque) and part.path == "" else ""
            lines += [name + text for text in texts]
        elif isinstance(part, Opaque) and not isinstance(part.value, dict):
            lines.append(f"{part.kind}: {to_json(part.value)}")
        else:
            lines.append(placeholder(part))
    return "\n".join(lines)


def tool_names(messages: Iterable[Message]) -> dict[str, str]:
    """Map each call id to the name of its tool."""
    return {part.id: part.name for message in messages for part in message.parts if type(part) is ToolCall}


class ItemJoiner:
    """Collects items for formats in which all results of one group of calls are in one user message.

    Results that refold adds are joined with the results beside them. Nothing that was read is changed: an
    item that takes in others is a copy.
    """

    def __init__(self, key: str, is_result: Callable[[Any], bool]) -> None:
        self.items: list[Any] = []
        self._key = key
        self._is_result = is_result
        self._end = 0
        """Index behind the last result of the last item, if we own its list; else 0."""
        self._only_results = False
        self._ours = False
        """True if we made the last item and its list."""

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
            last = self.items[-1] if self.items else {}
            blocks = last.get(self._key)
            if isinstance(blocks, list):
                places = [index + 1 for index, block in enumerate(blocks) if self._is_result(block)]
                self._end = places[-1] if places else 0
            if self._end:
                self.items[-1] = {**last, self._key: [*last[self._key]]}
        if self._end:
            new = item[self._key]
            self.items[-1][self._key][self._end : self._end] = new
            self._end += len(new)
            return
        self.items.append(item)
        self._end = len(item[self._key])
        self._only_results = True
