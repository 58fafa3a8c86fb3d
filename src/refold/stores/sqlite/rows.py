"""Entries and heads as rows of SQLite, with a checksum over each row; runs no SQL.

A text is kept as text, or as bytes where it is no UTF-8 (a lone surrogate). A row whose checksum does not
match is never given out as an entry.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from zlib import crc32

from refold.core.log.entries import Entry
from refold.errors import LogCorrupt
from refold.stores import Head, Info, Place
from refold.stores.sqlite.driver import Row

COLUMNS: Final = "session, line, seq, depth, kind, said, at, name, parent, sum, about, text, body"
SESSION_COLUMNS: Final = (
    "id, name, line, seq, depth, head, said, version, last_seq, last_line, created, changed, sum"
)


def entries(rest: str) -> str:
    """The statement that selects `COLUMNS` of entries."""
    return f"SELECT {COLUMNS} FROM entries {rest}"  # noqa: S608  # our own words only


def sessions(rest: str = "") -> str:
    """The statement that selects `SESSION_COLUMNS`."""
    return f"SELECT {SESSION_COLUMNS} FROM sessions {rest}"  # noqa: S608  # our own words only


def packed(text: str) -> bytes:
    """Any text as bytes."""
    return text.encode("utf-8", "surrogatepass")


def unpacked(value: bytes) -> str:
    """The text of such bytes."""
    return value.decode("utf-8", "surrogatepass")


def entry_row(session: int, place: Place, depth: int, entry: Entry) -> Row:
    """A row for `COLUMNS`."""
    at = float(entry.at)
    texts = (entry.about, entry.text, entry.body)
    content = _content(session, place, depth, entry.kind, entry.said, at, entry.name, entry.parent, *texts)
    plain = all(map(str.isascii, texts)) or _encodes(texts)
    about, text, body = texts if plain else map(binding, texts)
    head = (session, *place, depth, entry.kind, entry.said, at)
    return (*head, binding(entry.name), binding(entry.parent), crc32(content), about, text, body)


@dataclass(frozen=True, slots=True)
class Stored:
    """An entry as it was found."""

    session: int
    place: Place
    depth: int
    entry: Entry
    whole: bool
    """Whether the checksum matches."""


def stored(row: Row) -> Stored:
    """What a row of `COLUMNS` holds; `LogCorrupt` where it cannot be an entry at all."""
    session, line, seq, depth, kind, said, at, name, parent, found, about, text, body = row
    place = Place(line, seq)
    try:
        name, parent, about, text, body = map(text_of, (name, parent, about, text, body))
        content = _content(session, place, depth, kind, said, at, name, parent, about, text, body)
    except (UnicodeError, TypeError):
        raise _damaged(seq) from None
    entry = Entry(name=name, parent=parent, kind=kind, body=body, said=said, text=text, about=about, at=at)
    return Stored(session, place, depth, entry, crc32(content) == found)


def whole(row: Row) -> Stored:
    """The same, only where the checksum matches."""
    found = stored(row)
    if not found.whole:
        raise _damaged(found.place.seq, found.entry.name)
    return found


def _damaged(seq: Any, name: str = "") -> LogCorrupt:
    return LogCorrupt(f"entry {seq} is damaged on the disk: salvage what can be read", entry=name)


def _content(session: int, place: Place, depth: int, *values: Any) -> bytes:
    line, seq = place
    return "\n".join(map(str, (session, line, seq, depth, *values))).encode("utf-8", "surrogatepass")


def _encodes(texts: Sequence[str]) -> bool:
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError:
        return False
    return True


def binding(text: str) -> str | bytes:
    """A text as SQLite takes it."""
    return text if _encodes([text]) else packed(text)


def text_of(value: Any) -> str:
    """The text of what SQLite gave."""
    if isinstance(value, bytes):
        return unpacked(value)
    if not isinstance(value, str):
        raise TypeError
    return value


class SessionRow(NamedTuple):
    """A session as its row says, in the order of `SESSION_COLUMNS`."""

    id: int
    key: bytes
    """Its name."""
    line: int = 0
    seq: int = 0
    depth: int = 0
    """How many entries stand on the way to the head."""
    head: str = ""
    said: int = 0
    version: int = 0
    last_seq: int = 0
    last_line: int = -1
    created: float = 0.0
    changed: float = 0.0

    @property
    def place(self) -> Place:
        """Where the head is."""
        return Place(self.line, self.seq)

    def as_head(self) -> Head:
        """Where the session is."""
        return Head(place=self.place, name=self.head, said=self.said, version=self.version)

    def as_info(self) -> Info:
        """The session in a list."""
        return Info(
            name=unpacked(self.key),
            said=self.said,
            entries=self.last_seq,
            created=self.created,
            changed=self.changed,
        )

    def sum(self) -> int:
        """The checksum of the row."""
        return _sum(self)


def session_row(row: Row) -> SessionRow:
    """What a row of `SESSION_COLUMNS` holds."""
    found = SessionRow(*row[:-1])
    if found.sum() != row[-1]:
        raise LogCorrupt("the head of a session is damaged on the disk: salvage what can be read")
    return found if type(found.head) is str else found._replace(head=text_of(found.head))


def _sum(row: Iterable[Any]) -> int:
    return crc32(repr(tuple(row)).encode("utf-8", "surrogatepass"))


def line_row(session: int, line: int, parent: Place) -> Row:
    """A row for a line that begins behind a place."""
    row = (session, line, *parent)
    return (*row, _sum(row))


def parent_of_line(row: Row) -> tuple[int, Place]:
    """A line and where it begins."""
    *values, found = row
    if _sum(values) != found:
        raise LogCorrupt("a branch is damaged on the disk: salvage what can be read")
    return values[1], Place(values[2], values[3])
