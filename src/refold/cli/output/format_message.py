"""Messages as lines for people: who speaks, what is said, which tools are called; safe on a terminal."""

from collections.abc import Iterator, Sequence
from typing import Any

from refold import formats
from refold.cli.output.plain import printable
from refold.cli.output.screen import Screen, Style
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


def read(entry: Entry) -> Message:
    """The message of an entry."""
    return parsed(entry.value, str(entry.beside.get("format", formats.DEFAULT)))


def parsed(value: Any, wire: str) -> Message:
    """A stored message; one that no longer has its shape is told as the JSON it is."""
    try:
        if wire == canonical.FORMAT.name:
            return canonical.from_json(value)
        (message,) = formats.get(wire).parse([value])
    except (FormatError, ValueError):
        return Message("user", (Opaque("unknown", value),))
    return message


def plain(item: Any) -> Any:
    """A message as JSON has it."""
    return canonical.to_json(item) if isinstance(item, Message) else item


def lines(message: Message) -> Iterator[str]:
    """What a message says, line by line."""
    parts = message.parts
    if message.role == "tool" and len(parts) == 1 and isinstance(parts[0], ToolResult):
        yield from ["(failed)"] * parts[0].is_error
        parts = parts[0].content  # an id tells people nothing, and the role says that it is a result
    for part in parts:
        yield from _part(part)


def _part(part: Part) -> Sequence[str]:
    match part:
        case Text():
            return printable(part.text)
        case Thinking():
            return ["(thinking)", *printable(part.text or "(encrypted)")]
        case ToolCall():
            return printable(f"→ {part.name} {arguments_text(part)}")
        case ToolResult():
            inside = [line for piece in part.content for line in _part(piece)]
            failed = " failed" if part.is_error else ""
            return [*printable(f"← {part.name or part.call_id}{failed}"), *inside]
        case Image():
            return ["[image]"]
        case Document() | File():
            name = part.name if isinstance(part, File) else part.title
            return printable(f"[file: {name or part.media_type or 'unnamed'}]")
        case Opaque():
            return printable(json_text(part.value))


def show(screen: Screen, handle: str, message: Message, *, facts: Sequence[str] = (), brief: bool) -> None:
    """Show a message under its handle, whole or in one line."""
    role = screen.paint(message.role, COLOURS[message.role])
    mark = screen.paint(handle, "bold")
    told = screen.paint("".join(f" · {fact}" for fact in facts), "dim")
    if brief:
        head = f"{handle} {message.role}{''.join(f' · {fact}' for fact in facts)}"
        words = screen.short(start(message), max(20, screen.width - len(head) - 2))
        screen.line(f"{mark} {role}{told}  {words}".rstrip())
        return
    screen.line(f"{mark} {role}{told}".strip())
    for line in lines(message):
        screen.line(f"    {line}".rstrip())
    screen.line()


def start(message: Message) -> str:
    """The beginning of what a message says, in a line."""
    found = []
    size = 0
    for line in lines(message):
        found.append(line)
        size += len(line)
        if size > 400:
            break
    return " ".join(found)
