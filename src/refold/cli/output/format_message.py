"""Messages as lines for people: the speaker, the text, the tool calls; safe on a terminal."""

from collections.abc import Iterator, Sequence
from typing import Any

from refold import formats
from refold.cli.output.screen import Screen, Style
from refold.cli.output.text import printable_lines
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
)
from refold.core.messages.message_text import arguments_text, json_text
from refold.errors import FormatError
from refold.formats.shared import canonical

COLOURS: dict[str, Style] = {"system": "yellow", "user": "cyan", "assistant": "green", "tool": "plain"}


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


def message_data(item: Any) -> Any:
    """Return a message as JSON data."""
    return canonical.to_json(item) if isinstance(item, Message) else item


def message_lines(message: Message) -> Iterator[str]:
    """Yield the content of a message, line by line."""
    parts = message.parts
    if message.role == "tool" and len(parts) == 1 and isinstance(parts[0], ToolResult):
        yield from ["(failed)"] * parts[0].is_error
        parts = parts[0].content  # people cannot use the id of a call, and the role names a result already
    for part in parts:
        yield from _part_lines(part)


def _part_lines(part: Part) -> Sequence[str]:
    match part:
        case Text():
            return printable_lines(part.text)
        case Thinking():
            return ["(thinking)", *printable_lines(part.text or "(encrypted)")]
        case ToolCall():
            return printable_lines(f"→ {part.name} {arguments_text(part)}")
        case ToolResult():
            inside = [line for piece in part.content for line in _part_lines(piece)]
            failed = " failed" if part.is_error else ""
            return [*printable_lines(f"← {part.name or part.call_id}{failed}"), *inside]
        case Image():
            return ["[image]"]
        case Document() | File():
            name = part.name if isinstance(part, File) else part.title
            return printable_lines(f"[file: {name or part.media_type or 'unnamed'}]")
        case Opaque():
            return printable_lines(json_text(part.value))


def show_message(
    screen: Screen, handle: str, message: Message, *, facts: Sequence[str] = (), brief: bool
) -> None:
    """Print a message under its handle, whole or in one line."""
    about = "".join(f" · {fact}" for fact in facts)
    role = screen.paint(message.role, COLOURS[message.role])
    head = f"{screen.paint(handle, 'bold')} {role}{screen.paint(about, 'dim')}"
    if brief:
        size = len(f"{handle} {message.role}{about}")
        words = screen.short(first_words(message), max(20, screen.width - size - 2))
        screen.line(f"{head}  {words}".rstrip())
        return
    screen.line(head.strip())
    for line in message_lines(message):
        screen.line(f"    {line}".rstrip())
    screen.line()


def first_words(message: Message, enough: int = 400) -> str:
    """Return the beginning of a message in one line, of at least `enough` characters if there are so many."""
    words: list[str] = []
    for line in message_lines(message):
        words.append(line)
        # A screen is at most 110 columns wide. The rest of a long message need not be made printable.
        if sum(map(len, words)) > enough:
            break
    return " ".join(words)
