"""Reads damaged JSON lines: torn, glued, with gaps; every record that is whole comes out.

Bytes come in as blocks and leave as records, each with the bytes it was read from. A line is read alone
first. A broken line is searched for whole objects, and joined with the next lines if one of its strings
continues there. Bytes that are no UTF-8 are replaced; `NaN` and infinite numbers become null.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from refold.transcripts.agents import Problem, identify_record
from refold.transcripts.lenient_json import (
    DEEP,
    NO_JSON,
    TORN,
    ends_inside_string,
    find_objects,
    parse,
    parse_or_none,
)

MAX_LINE: Final = 64 << 20
"""Bytes of a line that is still read; the largest that agents write (inline images) are a tenth of it."""
_MAX_JOINED_LINES: Final = 200
"""Lines over which one string may continue: more than any message that was seen broken so."""
_MAX_JOINED_BYTES: Final = 4 << 20
_MAX_JOINING_WORK: Final = 32 << 20
"""Bytes that are parsed again while the end of a string is searched, so that this stays linear."""
_NULS: Final = re.compile(rb"\0+")
_EXPLANATIONS: Final = {
    TORN: "has no end; what is not whole in it was skipped",
    DEEP: "is nested deeper than can be read and was skipped",
    NO_JSON: "has something that is no JSON object; it was skipped",
}
_NOT_UTF8: Final = "has bytes that are not UTF-8; they were replaced"


@dataclass(frozen=True, slots=True)
class Line:
    """A record and its place in the file."""

    value: dict[str, Any]
    number: int
    """The line it began on, from 1."""
    offset: int
    """Its first byte in the file."""
    raw: bytes
    """Its bytes, as they are in the file."""


@dataclass(frozen=True, slots=True)
class Row:
    """The bytes between two newlines."""

    number: int
    offset: int
    raw: bytes | None
    """None if there are more than allowed."""

    @property
    def text(self) -> str:
        """Its text, with a replacement character for each byte that is no UTF-8."""
        return (self.raw or b"").decode(errors="replace")


def split_rows(blocks: Iterable[bytes], *, max_line: int = MAX_LINE) -> Iterator[Row]:
    """Split bytes into lines; a line that is too long is skipped and never held in memory."""
    rest = bytearray()
    number, start, skipped = 1, 0, 0
    for block in blocks:
        at = 0
        while (end := block.find(b"\n", at)) >= 0:
            size = end - at + len(rest) + skipped
            line = bytes(rest) + block[at:end] if rest else block[at:end]
            yield Row(number, start, None if size > max_line else line)
            rest = bytearray()
            number, start, skipped, at = number + 1, start + size + 1, 0, end + 1
        rest += block[at:]
        if len(rest) + skipped > max_line:
            skipped += len(rest)
            rest = bytearray()
    if rest or skipped:
        yield Row(number, start, None if skipped else bytes(rest))


class Reader:
    """Reads lines one after the other and collects what was wrong with them in `problems`."""

    def __init__(self, *, max_line: int = MAX_LINE) -> None:
        self.max_line = max_line
        self.problems: list[Problem] = []
        self._open: list[Row] = []
        """A line that breaks off inside a string, and the lines behind it that may continue it."""
        self._work = 0
        self._keys: set[str] = set()
        """The fields that records of this file have."""

    def read(self, blocks: Iterable[bytes]) -> Iterator[Line]:
        """Yield the records in some bytes."""
        for row in split_rows(blocks, max_line=self.max_line):
            if row.raw is None:
                yield from self._give_up_joining()
                self._report(row, "long", f"is longer than {self.max_line:,} bytes and was skipped")
            elif row.raw.strip():
                yield from self._read_row(row, row.raw)
        yield from self._give_up_joining()

    def _read_row(self, row: Row, raw: bytes) -> Iterator[Line]:
        stripped = raw.strip()
        if row.number == 1:
            stripped = stripped.removeprefix(b"\xef\xbb\xbf")
        value = self._parse(row, stripped) if stripped[:1] == b"{" and b"\0" not in stripped else None
        if isinstance(value, dict):
            yield from self._give_up_joining()
            self._keys.update(value)
            yield Line(value, row.number, row.offset, raw)
        elif self._open:
            yield from self._join(row)
        elif b"\0" in raw:
            yield from self._read_around_nuls(row, raw)
        elif ends_inside_string(row.text) and not find_objects(row.text, self._is_record)[0]:
            self._open, self._work = [row], 0  # the string may continue in the next line
        else:
            yield from self._read_objects(row)

    def _parse(self, row: Row, raw: bytes) -> Any:
        """Return the value of a line; None if the line is not one value."""
        try:
            return parse(raw.decode())
        except UnicodeDecodeError:
            value = parse_or_none(raw.decode(errors="replace"))
            if isinstance(value, dict):
                self._report(row, "utf8", _NOT_UTF8)
            return value
        except (ValueError, RecursionError):
            return None

    def _read_around_nuls(self, row: Row, raw: bytes) -> Iterator[Line]:
        """Read a line with NUL bytes, which a crash leaves: without them, or the whole objects in it."""
        gaps = len(_NULS.findall(raw))
        self._report(row, "nul", f"has {raw.count(0):,} NUL bytes in {gaps:,} places; they were skipped")
        value = self._parse(row, _NULS.sub(b"", raw).strip())
        if isinstance(value, dict):
            yield Line(value, row.number, row.offset, raw)
        elif raw.strip(b"\0 \t\r"):
            yield from self._read_objects(row)

    def _read_objects(self, row: Row) -> Iterator[Line]:
        """Yield the complete objects of a line, each with its own bytes, and report the rest."""
        text = (row.raw or b"").decode(errors="surrogateescape")
        objects, broken = find_objects(text, self._is_record)
        is_utf8 = "\ufffd" not in row.text
        offset = end = 0
        for record in objects:
            # Offsets are in bytes: characters since the start of the last object have several each.
            offset += len(text[end : record.start].encode(errors="surrogateescape"))
            end = record.start
            raw = text[record.start : record.end].encode(errors="surrogateescape")
            value = record.value if is_utf8 else parse_or_none(raw.decode(errors="replace"))
            yield Line(value, row.number, row.offset + offset, raw)
        if len(objects) > 1 or (objects and broken):
            self._report(row, "glued", f"holds {len(objects):,} records that have no line of their own")
        if not is_utf8:
            self._report(row, "utf8", _NOT_UTF8)
        if broken:
            self._report(row, broken, _EXPLANATIONS[broken])

    def _is_record(self, value: dict[str, Any]) -> bool:
        """True if an object behind something torn is a record, and not a part of what is torn."""
        if identify_record(value) is not None:
            return True
        return value.keys() <= self._keys if self._keys else "role" in value

    def _join(self, row: Row) -> Iterator[Line]:
        """Add a line to the open one and check whether its string ends now."""
        self._open.append(row)
        first, raw = self._open[0], row.raw or b""
        size = row.offset - first.offset + len(raw)
        value, joined = None, b""
        if raw.rstrip().endswith(b"}"):
            self._work += size
            joined = b"\n".join(open_row.raw or b"" for open_row in self._open)
            value = parse_or_none(joined.replace(b"\0", b"").decode(errors="replace"))
        if isinstance(value, dict):
            more = len(self._open) - 1
            self._report(first, "newline", f"goes on for {more:,} more lines; they were joined")
            self._open = []
            yield Line(value, first.number, first.offset, joined)
        elif (
            len(self._open) > _MAX_JOINED_LINES or size > _MAX_JOINED_BYTES or self._work > _MAX_JOINING_WORK
        ):
            yield from self._give_up_joining()

    def _give_up_joining(self) -> Iterator[Line]:
        """Report the open line as torn, and search for records in the lines behind it."""
        rows, self._open = self._open, []
        for row in rows[:1]:
            self._report(row, TORN, _EXPLANATIONS[TORN])
        for row in rows[1:]:
            yield from self._read_objects(row)

    def _report(self, row: Row, rule: str, problem: str) -> None:
        message = f"line {row.number:,} {problem}"
        self.problems.append(Problem(rule=rule, message=message, line=row.number, offset=row.offset))
