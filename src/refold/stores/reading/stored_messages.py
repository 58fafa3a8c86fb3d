"""Messages of a log as values, and as lines for people."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from refold import formats
from refold.core.log.entries import Entry
from refold.core.messages.message import (
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
    json_text,
)
from refold.core.messages.message_text import arguments_text
from refold.errors import FormatError
from refold.formats.shared import canonical

SplitLines: TypeAlias = Callable[[str], Sequence[str]]
"""Splits a text into lines, and makes them fit for where they are shown."""


def parse_entry(entry: Entry) -> Message:
    """Return the message of a log entry."""
    return parse_stored(entry.value, str(entry.beside.get("format", formats.DEFAULT)))


def parse_stored(value: Any, wire: str) -> Message:
    """Return a stored message; a value that has no longer the shape of a message is shown as its JSON."""
    if isinstance(value, Message):
        return value
    try:
        if wire == canonical.FORMAT.name:
            return canonical.from_json(value)
        (message,) = formats.get(wire).parse([value])
    except (FormatError, ValueError):
        return Message("user", (Opaque("unknown", value),))
    return message


def write_lines(message: Message, split: SplitLines = str.splitlines) -> Iterator[str]:
    """Yield the content of a message, line by line."""
    parts = message.parts
    if message.role == "tool" and len(parts) == 1 and isinstance(parts[0], ToolResult):
        yield from ["(failed)"] * parts[0].is_error
        parts = parts[0].content  # people cannot use the id of a call, and the role names a result already
    for part in parts:
        yield from _part_lines(part, split)


def _part_lines(part: Part, split: SplitLines) -> Sequence[str]:
    match part:
        case Text():
            return split(part.text)
        case Thinking():
            return ["(thinking)", *split(part.text or "(encrypted)")]
        case ToolCall():
            return split(f"→ {part.name} {arguments_text(part)}")
        case ToolResult():
            inside = [line for piece in part.content for line in _part_lines(piece, split)]
            failed = " failed" if part.is_error else ""
            return [*split(f"← {part.name or part.call_id}{failed}"), *inside]
        case Image():
            return ["[image]"]
        case Document() | File():
            name = part.name if isinstance(part, File) else part.title
            return split(f"[file: {name or part.media_type or 'unnamed'}]")
        case Opaque():
            return split(json_text(part.value))


def first_words(message: Message, enough: int = 400, split: SplitLines = str.splitlines) -> str:
    """Return the beginning of a message in one line, of at least `enough` characters if there are so many."""
    words: list[str] = []
    for line in write_lines(message, split):
        words.append(line)
        # A screen is at most 110 columns wide. The rest of a long message need not be made printable.
        if sum(map(len, words)) > enough:
            break
    return " ".join(words)
