"""JSON lines as they are found on disks: torn, glued, with holes; everything that is whole comes out.

Bytes come in blocks and leave as records, each with the bytes it was read from. A line is read alone; one
that is broken is searched for whole objects, and joined to the next where a string goes on there. What JSON
forbids is changed: bytes that are no UTF-8 are replaced, `NaN` and numbers without an end are null.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from refold.transcripts.agents import Problem, agent_of
from refold.transcripts.whole import DEEP, NO_JSON, TORN, loads, pieces, unended, value_of

MAX_LINE: Final = 64 << 20
"""Bytes of a line that is still read; the largest that agents write (pictures inline) are a tenth of it."""
_JOINED_LINES: Final = 200
"""Lines over which one string may go on: more than any message that was seen broken so."""
_JOINED_BYTES: Final = 4 << 20
_JOINED_WORK: Final = 32 << 20
"""Bytes that are read again and again in the hope that a string has found its end."""
_NULS: Final = re.compile(rb"\0+")
_WORDS: Final = {
    TORN: "has no end; what is not whole in it was skipped",
    DEEP: "is nested deeper than can be read and was skipped",
    NO_JSON: "has something that is no JSON object; it was skipped",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A record and where it stood."""

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
    """None where there are more than allowed."""

    @property
    def text(self) -> str:
        """Its text, with a mark for each byte that is no UTF-8."""
        return (self.raw or b"").decode(errors="replace")


def rows(blocks: Iterable[bytes], *, max_line: int = MAX_LINE) -> Iterator[Row]:
    """The lines of some bytes; one that is too long is passed over without being held."""
    rest = bytearray()
    number, start, over = 1, 0, 0
    for block in blocks:
        at = 0
        while (end := block.find(b"\n", at)) >= 0:
            size = end - at + len(rest) + over
            whole = bytes(rest) + block[at:end] if rest else block[at:end]
            yield Row(number, start, None if size > max_line else whole)
            rest = bytearray()
            number, start, over, at = number + 1, start + size + 1, 0, end + 1
        rest += block[at:]
        if len(rest) + over > max_line:
            over += len(rest)
            rest = bytearray()
    if rest or over:
        yield Row(number, start, None if over else bytes(rest))


class Reader:
    """Reads lines one after the other and remembers what was wrong with them."""

    def __init__(self, *, max_line: int = MAX_LINE) -> None:
        self.max_line = max_line
        self.problems: list[Problem] = []
        self._open: list[Row] = []
        """A line whose string has no end, and those behind it that may be its rest."""
        self._work = 0
        self._keys: set[str] = set()
        """The fields that records of this file have."""

    def read(self, blocks: Iterable[bytes]) -> Iterator[Line]:
        """The records of some bytes."""
        for row in rows(blocks, max_line=self.max_line):
            if row.raw is None:
                yield from self._given_up()
                self._tell(row, "long", f"is longer than {self.max_line:,} bytes and was skipped")
            elif row.raw.strip():
                yield from self._row(row, row.raw)
        yield from self._given_up()

    def _row(self, row: Row, raw: bytes) -> Iterator[Line]:
        plain = raw.strip()
        if row.number == 1:
            plain = plain.removeprefix(b"\xef\xbb\xbf")
        value = self._whole(row, plain) if plain[:1] == b"{" and b"\0" not in plain else None
        if isinstance(value, dict):
            yield from self._given_up()
            self._keys.update(value)
            yield Line(value, row.number, row.offset, raw)
        elif self._open:
            yield from self._continued(row)
        elif b"\0" in raw:
            yield from self._with_holes(row, raw)
        else:
            yield from self._broken(row)

    def _whole(self, row: Row, raw: bytes) -> Any:
        """The value of a line that is one; None where it is none."""
        try:
            return loads(raw.decode())
        except UnicodeDecodeError:
            value = value_of(raw.decode(errors="replace"))
            if isinstance(value, dict):
                self._tell(row, "utf8", "has bytes that are not UTF-8; they were replaced")
            return value
        except (ValueError, RecursionError):
            return None

    def _with_holes(self, row: Row, raw: bytes) -> Iterator[Line]:
        """Read a line with NUL bytes, which a crash leaves behind: without them, or what is whole in it."""
        holes = len(_NULS.findall(raw))
        self._tell(row, "nul", f"has {raw.count(0):,} NUL bytes in {holes:,} places; they were skipped")
        value = self._whole(row, _NULS.sub(b"", raw).strip())
        if isinstance(value, dict):
            yield Line(value, row.number, row.offset, raw)
        elif raw.strip(b"\0 \t\r"):
            yield from self._pieces(row)

    def _broken(self, row: Row) -> Iterator[Line]:
        """Find what is whole in a line; keep it where its string may go on in the next."""
        if unended(row.text) and not pieces(row.text, self._is_record)[0]:
            self._open, self._work = [row], 0
        else:
            yield from self._pieces(row)

    def _pieces(self, row: Row) -> Iterator[Line]:
        """What is whole in a line, each with its own bytes, and a word about the rest."""
        text = (row.raw or b"").decode(errors="surrogateescape")
        found, lost = pieces(text, self._is_record)
        exact = "\ufffd" not in row.text
        before = passed = 0
        for one in found:
            before += len(text[passed : one.start].encode(errors="surrogateescape"))
            passed = one.start
            own = text[one.start : one.end].encode(errors="surrogateescape")
            value = one.value if exact else value_of(own.decode(errors="replace"))
            yield Line(value, row.number, row.offset + before, own)
        if len(found) > 1 or (found and lost):
            self._tell(row, "glued", f"holds {len(found):,} records that have no line of their own")
        if not exact:
            self._tell(row, "utf8", "has bytes that are not UTF-8; they were replaced")
        if lost:
            self._tell(row, lost, _WORDS[lost])

    def _is_record(self, value: dict[str, Any]) -> bool:
        """Whether an object behind something torn is a record, and not a part of what is torn."""
        return agent_of(value) is not None or (value.keys() <= self._keys if self._keys else "role" in value)

    def _continued(self, row: Row) -> Iterator[Line]:
        """Take a line for the rest of the one before, and see whether its string has found its end."""
        self._open.append(row)
        first, raw = self._open[0], row.raw or b""
        size = row.offset - first.offset + len(raw)
        value, joined = None, b""
        if raw.rstrip().endswith(b"}"):
            self._work += size
            joined = b"\n".join(one.raw or b"" for one in self._open)
            value = value_of(joined.replace(b"\0", b"").decode(errors="replace"))
        if isinstance(value, dict):
            more = len(self._open) - 1
            self._tell(first, "newline", f"goes on for {more:,} more lines; they were joined")
            self._open = []
            yield Line(value, first.number, first.offset, joined)
        elif len(self._open) > _JOINED_LINES or size > _JOINED_BYTES or self._work > _JOINED_WORK:
            yield from self._given_up()

    def _given_up(self) -> Iterator[Line]:
        """Say that a line has no end, and look for records in those that were taken for its rest."""
        opened, self._open = self._open, []
        for row in opened[:1]:
            self._tell(row, TORN, _WORDS[TORN])
        for row in opened[1:]:
            yield from self._pieces(row)

    def _tell(self, row: Row, rule: str, what: str) -> None:
        told = f"line {row.number:,} {what}"
        self.problems.append(Problem(rule=rule, message=told, line=row.number, offset=row.offset))
