"""Entries and heads as rows of SQLite, each with a checksum; runs no SQL.

A text is kept as text, or as bytes if it is not valid UTF-8 (a lone surrogate). A row whose checksum is wrong
is never returned as an entry.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from zlib import crc32

from refold.core.log.entries import Entry
from refold.errors import LogCorrupt
from refold.stores import Head, Place, SessionInfo
from refold.stores.sqlite.driver import Row
from refold.stores.text import decode_text, encode_text

COLUMNS: Final = "session, line, seq, depth, kind, said, at, name, parent, sum, about, text, body"
SESSION_COLUMNS: Final = (
    "id, name, line, seq, depth, head, said, version, last_seq, last_line, created, changed, sum"
)


def select_entries(rest: str) -> str:
    """Return the statement that selects `COLUMNS` of entries."""
    return f"SELECT {COLUMNS} FROM entries {rest}"  # noqa: S608  # constants only


def select_sessions(rest: str) -> str:
    """Return the statement that selects `SESSION_COLUMNS`."""
    return f"SELECT {SESSION_COLUMNS} FROM sessions {rest}"  # noqa: S608  # constants only


def entry_row(session: int, line: int, seq: int, depth: int, entry: Entry) -> Row:
    """Make the row of an entry for `COLUMNS`."""
    at, kind, said = float(entry.at), entry.kind, entry.said
    texts = (entry.name, entry.parent, entry.about, entry.text, entry.body)
    bound: Iterable[str | bytes] = texts
    content = _join_content(session, line, seq, depth, kind, said, at, *texts)
    try:
        covered = content.encode()
    except UnicodeEncodeError:  # half of a character, as some programs cut texts
        covered, bound = encode_text(content), map(bind_text, texts)
    name, parent, about, text, body = bound
    return (session, line, seq, depth, kind, said, at, name, parent, crc32(covered), about, text, body)


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as it was read from the file."""

    session: int
    place: Place
    depth: int
    entry: Entry
    intact: bool
    """True if the checksum is right."""


def parse_entry_row(row: Row) -> StoredEntry:
    """Parse a row of `COLUMNS`; raises `LogCorrupt` if it cannot be an entry at all."""
    session, line, seq, depth, kind, said, at, name, parent, checksum, about, text, body = row
    place = Place(line, seq)
    try:
        name, parent, about, text, body = map(read_text, (name, parent, about, text, body))
        covered = encode_text(
            _join_content(session, line, seq, depth, kind, said, at, name, parent, about, text, body)
        )
    except (UnicodeError, TypeError):
        raise _damaged_entry(seq) from None
    entry = Entry(name=name, parent=parent, kind=kind, body=body, said=said, text=text, about=about, at=at)
    return StoredEntry(session, place, depth, entry, crc32(covered) == checksum)


def parse_intact_row(row: Row) -> StoredEntry:
    """Parse a row of `COLUMNS`; raises `LogCorrupt` if its checksum is wrong."""
    stored = parse_entry_row(row)
    if not stored.intact:
        raise _damaged_entry(stored.place.seq, stored.entry.name)
    return stored


def _damaged_entry(seq: Any, name: str = "") -> LogCorrupt:
    return LogCorrupt(f"entry {seq} is damaged on the disk: salvage what can be read", entry=name)


def _join_content(*values: Any) -> str:
    """Return the text that the checksum of an entry covers."""
    session, line, seq, depth, kind, said, at, name, parent, about, text, body = values
    place = f"{session}\n{line}\n{seq}\n{depth}\n{kind}\n{said}\n{at}"
    return f"{place}\n{name}\n{parent}\n{about}\n{text}\n{body}"  # `join` takes twice as long


def bind_text(text: str) -> str | bytes:
    """Make a text a value that SQLite accepts."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return encode_text(text)
    return text


def read_text(value: Any) -> str:
    """Read a text back from a value of SQLite."""
    if isinstance(value, bytes):
        return decode_text(value)
    if not isinstance(value, str):
        raise TypeError
    return value


class SessionRow(NamedTuple):
    """Row of a session, in the order of `SESSION_COLUMNS`."""

    id: int
    key: bytes
    """Its name."""
    line: int = 0
    seq: int = 0
    depth: int = 0
    """Number of entries on the path to the head."""
    head: str = ""
    said: int = 0
    version: int = 0
    last_seq: int = 0
    last_line: int = -1
    created: float = 0.0
    changed: float = 0.0

    @property
    def place(self) -> Place:
        """Place of the head."""
        return Place(self.line, self.seq)

    def as_head(self) -> Head:
        """Return the head of the session."""
        return Head(place=self.place, name=self.head, said=self.said, version=self.version)

    def as_info(self) -> SessionInfo:
        """Return the summary of the session."""
        return SessionInfo(
            name=decode_text(self.key),
            said=self.said,
            entries=self.last_seq,
            created=self.created,
            changed=self.changed,
        )


def parse_session_row(row: Row, written: Row | None = None) -> SessionRow:
    """Parse a row of `SESSION_COLUMNS`; raises `LogCorrupt` if its checksum is wrong.

    written   the row as it was written last: an equal one need not be verified
    """
    session = SessionRow(*row[:-1])
    if row != written and checksum(session) != row[-1]:
        raise LogCorrupt("the head of a session is damaged on the disk: salvage what can be read")
    return session if type(session.head) is str else session._replace(head=read_text(session.head))


def checksum(row: Iterable[Any]) -> int:
    """Return the checksum of a row."""
    return crc32(repr(tuple(row)).encode("utf-8", "surrogatepass"))


def line_row(session: int, line: int, parent: Place) -> Row:
    """Make the row of a line that begins behind a place."""
    row = (session, line, *parent)
    return (*row, checksum(row))


def parse_line_row(row: Row) -> tuple[int, Place]:
    """Parse the row of a line into the line and the place that it begins behind."""
    *values, known = row
    if checksum(values) != known:
        raise LogCorrupt("a branch is damaged on the disk: salvage what can be read")
    return values[1], Place(values[2], values[3])
