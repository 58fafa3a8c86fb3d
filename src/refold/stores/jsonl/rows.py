"""Rows of the files of a JSON-lines store: how they are written, read again, and checked to be complete.

    {"refold": 1, "session": ..., "created": ...,             "sum": ...}   the first row
    {"place": [line, seq], "behind": [line, seq], "name": ..., "body": ..., "sum": ...}   an entry
    {"head": [line, seq], "version": ..., "wrote": ...,       "sum": ...}   the end of one append

The sum is a checksum of everything before it in the row. A row that does not end with its sum and a line feed
was written incompletely, or was damaged later.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

from refold.core.log.entries import KINDS, Entry
from refold.errors import LogTooNew
from refold.stores import Place

FORMAT: Final = 1
"""Version of the rows; a file with a higher one is refused."""
_SUM_BYTES: Final = len(b',"sum":"00000000"}')
_OUTLINE: Final = re.compile(
    rb'\{"place":\[(\d+),(\d+)\],"behind":\[(\d+),(\d+)\],"name":"([^"\\]*)"'
    rb',"parent":"[^"\\]*","kind":"(\w+)","said":(\d+),'
)
"""Beginning of an entry's row, with everything that an index needs."""
_CHUNK_BYTES: Final = 1 << 20
"""Bytes of one read: few system calls for a long file, little memory for many readers."""
_REQUIRED: Final = {
    "refold": frozenset({"refold"}),
    "place": frozenset(("place", "behind", "name", "parent", "kind", "said", "at", "about", "text", "body")),
    "head": frozenset({"head", "name", "said", "version", "wrote", "entries", "at"}),
}
"""Keys that a row of each sort must have."""


class Row(NamedTuple):
    """One row of a file."""

    number: int
    """From 1."""
    at: int
    size: int
    """Without the line feed."""
    value: dict[str, Any] | None
    """None for a row that is damaged or incomplete."""
    terminated: bool = True
    """True if a line feed ends it."""

    @property
    def end(self) -> int:
        """Offset of the next row."""
        return self.at + self.size + self.terminated

    def has(self, key: str) -> bool:
        """True if this is a good row with this key: refold, place or head."""
        return self.value is not None and key in self.value


def format_row(value: dict[str, Any]) -> bytes:
    """Format a value as one row, with its sum and the line feed."""
    try:
        begun = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()[:-1]
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 can only carry as an escape
        begun = json.dumps(value, separators=(",", ":")).encode()[:-1]
    return begun + b',"sum":"%08x"}\n' % crc32(begun)


def parse_row(line: bytes) -> dict[str, Any] | None:
    """Parse a row without its line feed; None if it is damaged."""
    if not _has_good_sum(line):
        return None
    try:
        value = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    required = next((keys for sort, keys in _REQUIRED.items() if sort in value), frozenset[str]())
    return value if required <= value.keys() else None


def parse_outline(line: bytes) -> dict[str, Any] | None:
    """Parse a row; of an entry only what an index needs, because parsing bodies takes most of the time."""
    match = _OUTLINE.match(line)
    if match is None:
        return parse_row(line)
    if not _has_good_sum(line):
        return None
    place_line, place_seq, behind_line, behind_seq, name, kind, said = match.groups()
    return {
        "place": (int(place_line), int(place_seq)),
        "behind": (int(behind_line), int(behind_seq)),
        "name": name.decode(),
        "kind": kind.decode(),
        "said": int(said),
    }


def _has_good_sum(line: bytes) -> bool:
    begun = line[:-_SUM_BYTES]
    return bool(begun) and line[-_SUM_BYTES:] == b',"sum":"%08x"}' % crc32(begun)


def read_rows(
    file: int, at: int = 0, number: int = 1, *, parse: Callable[[bytes], dict[str, Any] | None] = parse_row
) -> Iterator[Row]:
    """Read the rows of a file from an offset on, at which row `number` begins."""
    rest: list[bytes] = []
    begins = at
    while chunk := os.pread(file, _CHUNK_BYTES, at):
        at += len(chunk)
        *ended, last = chunk.split(b"\n")
        for line in ended:
            row = b"".join((*rest, line)) if rest else line
            rest.clear()
            yield Row(number, begins, len(row), parse(row))
            begins += len(row) + 1
            number += 1
        if last:
            rest.append(last)
    if rest:
        line = b"".join(rest)
        # Only its line feed may be damaged: then the row before that byte is good.
        yield Row(number, begins, len(line), parse(line[:-1]), terminated=False)


def refuse_newer(value: dict[str, Any], path: Path) -> None:
    """Raise `LogTooNew` for the first row of a file that a newer version wrote."""
    if value.get("refold", FORMAT) > FORMAT:
        raise LogTooNew(f"{path} has version {value['refold']}, this refold knows {FORMAT}: upgrade refold")


def entry_to_json(entry: Entry, place: Place, behind: Place) -> dict[str, Any]:
    """Make the row of an entry; the order of the keys is what `parse_outline` expects."""
    return {
        "place": place,
        "behind": behind,
        "name": entry.name,
        "parent": entry.parent,
        "kind": entry.kind,
        "said": entry.said,
        "at": entry.at,
        "about": entry.about,
        "text": entry.text,
        "body": entry.body,
    }


def to_entry(value: dict[str, Any]) -> Entry:
    """Make the entry of a row."""
    return Entry(
        name=value["name"],
        parent=value["parent"],
        kind=value["kind"],
        body=value["body"],
        said=value["said"],
        text=value["text"],
        about=value["about"],
        at=value["at"],
    )


def has_known_kind(value: dict[str, Any]) -> bool:
    """True if this version knows the kind of an entry."""
    return value.get("kind") in KINDS
