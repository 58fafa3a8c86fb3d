"""The rows of a session's file: how they are written, read again, and known to be whole.

    {"refold": 1, "session": ..., "created": ...,             "sum": ...}   the first row
    {"place": [line, seq], "behind": [line, seq], "name": ..., "body": ..., "sum": ...}   an entry
    {"head": [line, seq], "version": ..., "wrote": ...,       "sum": ...}   ends what one append wrote

The sum is a checksum of everything before it in the row. A row that does not end with its sum and a line
feed was not written to its end, or was damaged later.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple
from zlib import crc32

from refold.core.log.entries import KINDS, Entry
from refold.stores import Place

FORMAT: Final = 1
"""Version of the rows; a file with a higher one is not touched."""
_SUM: Final = len(b',"sum":"00000000"}')
_OUTLINE: Final = re.compile(
    rb'\{"place":\[(\d+),(\d+)\],"behind":\[(\d+),(\d+)\],"name":"([^"\\]*)"'
    rb',"parent":"[^"\\]*","kind":"(\w+)","said":(\d+),'
)
"""The beginning of an entry's row as it is written."""
_CHUNK: Final = 1 << 20
_SHAPES: Final = {
    "refold": frozenset({"refold"}),
    "place": frozenset(("place", "behind", "name", "parent", "kind", "said", "at", "about", "text", "body")),
    "head": frozenset({"head", "name", "said", "version", "wrote", "entries", "at"}),
}
"""What a row of each sort has at least."""


class Row(NamedTuple):
    """One row of a file."""

    number: int
    """From 1."""
    at: int
    size: int
    """Without the line feed."""
    value: dict[str, Any] | None
    """None for a row that is damaged or not whole."""
    whole: bool = True
    """Whether a line feed ends it."""

    @property
    def end(self) -> int:
        """Where the next row begins."""
        return self.at + self.size + self.whole

    def is_a(self, key: str) -> bool:
        """Whether it is a good row of this sort: refold, place or head."""
        return self.value is not None and key in self.value


def to_row(value: dict[str, Any]) -> bytes:
    """A value as one row, with its sum and the line feed."""
    try:
        begun = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()[:-1]
    except UnicodeEncodeError:  # half a character, which only an escape can carry
        begun = json.dumps(value, separators=(",", ":")).encode()[:-1]
    return begun + b',"sum":"%08x"}\n' % crc32(begun)


def from_row(line: bytes) -> dict[str, Any] | None:
    """The value of a row without its line feed; None where it is damaged."""
    if not _summed(line):
        return None
    try:
        value = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and _complete(value) else None


def outline(line: bytes) -> dict[str, Any] | None:
    """The value of a row, of an entry only what an index needs: its body need not be read for that."""
    found = _OUTLINE.match(line)
    if found is None:
        return from_row(line)
    if not _summed(line):
        return None
    place_line, place_seq, behind_line, behind_seq, name, kind, said = found.groups()
    return {
        "place": (int(place_line), int(place_seq)),
        "behind": (int(behind_line), int(behind_seq)),
        "name": name.decode(),
        "kind": kind.decode(),
        "said": int(said),
    }


def _summed(line: bytes) -> bool:
    begun = line[:-_SUM]
    return bool(begun) and line[-_SUM:] == b',"sum":"%08x"}' % crc32(begun)


def _complete(value: dict[str, Any]) -> bool:
    for sort, needs in _SHAPES.items():
        if sort in value:
            return needs <= value.keys()
    return True


def rows(
    file: int, at: int = 0, number: int = 1, *, read: Callable[[bytes], dict[str, Any] | None] = from_row
) -> Iterator[Row]:
    """The rows of a file from an offset on, which is where row `number` begins."""
    rest: list[bytes] = []
    begins = at
    while chunk := os.pread(file, _CHUNK, at):
        at += len(chunk)
        *ended, last = chunk.split(b"\n")
        for line in ended:
            whole = b"".join((*rest, line)) if rest else line
            rest.clear()
            yield Row(number, begins, len(whole), read(whole))
            begins += len(whole) + 1
            number += 1
        if last:
            rest.append(last)
    if rest:
        line = b"".join(rest)
        # its line feed may be what was damaged: then the row before it is good
        yield Row(number, begins, len(line), read(line[:-1]), whole=False)


def entry_to_json(entry: Entry, place: Place, behind: Place) -> dict[str, Any]:
    """An entry as its row holds it."""
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


def entry_of(value: dict[str, Any]) -> Entry:
    """The entry of a row."""
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


def known_kind(value: dict[str, Any]) -> bool:
    """Whether this version knows the kind of an entry."""
    return value.get("kind") in KINDS
