"""Messages as lines for people: the speaker, the text, the tool calls; safe on a terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from refold.cli.output.screen import Screen, Style
from refold.cli.output.text import printable_lines
from refold.core.messages.message import Message
from refold.formats.shared import canonical
from refold.formats.shared.writing import is_only_results
from refold.stores.reading import stored_messages
from refold.stores.reading.stored_messages import write_lines

COLOURS: dict[str, Style] = {"system": "yellow", "user": "cyan", "assistant": "green", "tool": "plain"}


def message_data(item: Any) -> Any:
    """Return a message as JSON data."""
    return canonical.to_json(item) if isinstance(item, Message) else item


def message_lines(message: Message) -> Iterator[str]:
    """Yield the content of a message, line by line."""
    return write_lines(message, printable_lines)


def show_message(
    screen: Screen, handle: str, message: Message, *, facts: Sequence[str] = (), brief: bool
) -> None:
    """Print a message under its handle, whole or in one line."""
    message = replace(message, role="tool") if is_only_results(message) else message
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


def first_words(message: Message) -> str:
    """Return the beginning of a message in one printable line."""
    return stored_messages.first_words(message, split=printable_lines)
