"""Messages of a log as values, as lines for people, and on both sides of what a fold changed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from refold import formats
from refold.core.log.entries import SAID, Entry
from refold.core.log.view import MessageRange, ViewItem
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
from refold.stores import Place, Store

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


@dataclass(frozen=True, slots=True)
class Side:
    """A message on one side of a change."""

    fold: str
    """The fold that inserted it; "" for one that was said."""
    number: int
    """Its number, or its place among the messages of its fold."""
    message: Message


@dataclass(frozen=True, slots=True)
class ChangeReader:
    """Reads the messages of a view's pieces from the store."""

    store: Store
    session: str
    place: Place
    folds: Mapping[str, Entry]

    def read(self, pieces: Iterable[ViewItem]) -> Iterator[Side]:
        """Yield the messages of some pieces."""
        for piece in pieces:
            if isinstance(piece, MessageRange):
                first, last = piece.first, piece.last
                for entry in self.store.read(self.session, self.place, kinds=SAID, first=first, last=last):
                    yield Side("", entry.said, parse_entry(entry))
            else:
                yield Side(piece.fold, piece.place, read_inserted(self.folds[piece.fold], piece.place))


def read_inserted(fold: Entry, place: int) -> Message:
    """Return one of the messages that a fold inserted."""
    value = fold.value["messages"][place]
    wire = "refold" if "message" in value else str(fold.beside.get("format", formats.DEFAULT))
    return parse_stored(value["message" if "message" in value else "wire"], wire)
