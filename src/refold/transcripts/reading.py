"""From the bytes of a transcript to its conversation: lines or one value, of an agent or of nobody."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from refold.errors import FormatError
from refold.formats.shared import documents
from refold.transcripts import agents
from refold.transcripts.agents import Problem, Record, Recording, plain
from refold.transcripts.agents.values import sound
from refold.transcripts.lines import MAX_LINE, Line, Reader
from refold.transcripts.opening import opened
from refold.transcripts.picking import picked
from refold.transcripts.whole import value_of
from refold.transcripts.zstd import Torn

MAX_DOCUMENT: Final = 256 << 20
"""Bytes of a file that is one JSON value and not lines of them; such a one is read as a whole."""
_HEAD: Final = 1 << 16
SQLITE: Final = b"SQLite format 3\0"
_SPACE: Final = b" \t\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript(Recording):
    """A recording and the lines it was read from; its fields are those of what the readers give, and more."""

    path: Path | None = None
    """None for bytes that have no file."""
    raw: tuple[bytes, ...] = ()
    """Every record as it stands in the file, byte for byte."""
    changed_at: float = 0.0
    """When the file was last written to, in seconds since the epoch."""


def read(
    path: str | os.PathLike[str], *, agent: str | None = None, max_line: int = MAX_LINE, checked: bool = True
) -> Transcript:
    """Read a transcript of a known agent, or messages of a known shape, from a file that stays as it is.

    Behind `#` may stand which conversation is meant where a file holds several: a number from 1, or the
    beginning of a session's id in opencode's database.
    """
    where, wanted = parted(path)
    with opened(where) as file:
        head = next(iter(file.stored()), b"")[:_HEAD]
        file.file.seek(0)
        if head.startswith(SQLITE):
            return _database(file.path, wanted, file.changed)
        about = {"path": file.path, "changed_at": file.changed}
        if not file.compressed and file.size <= MAX_DOCUMENT and is_document(head):
            return _of_document(b"".join(file.blocks()), wanted, agent, about)
        return _of_lines(file.blocks(), wanted, agent, about, max_line=max_line, checked=checked)


def read_bytes(
    raw: bytes, *, agent: str | None = None, wanted: str = "", max_line: int = MAX_LINE
) -> Transcript:
    """Read a transcript that is at hand already; a compressed one is not."""
    if is_document(raw[:_HEAD]):
        return _of_document(raw, wanted, agent, {})
    return _of_lines([raw], wanted, agent, {}, max_line=max_line)


def parted(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """Part a name into the file, and which of its conversations is meant."""
    whole = Path(path).expanduser()
    name, mark, wanted = str(whole).rpartition("#")
    if not mark or whole.exists():
        return whole, ""
    return Path(name), wanted


def is_document(head: bytes) -> bool:
    """Whether a file is one JSON value over several lines, or a list; all else is read line by line."""
    plain_head = head.lstrip(_SPACE)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or plain_head.startswith(b"["):
        return True
    first, newline, rest = plain_head.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
    if not newline or not first.startswith(b"{"):
        return False
    if first.strip() == b"{":
        return True
    return rest[:1] in (b" ", b"\t") and value_of(first.decode(errors="replace")) is None


def _of_document(raw: bytes, wanted: str, agent: str | None, about: dict[str, Any]) -> Transcript:
    try:
        value = documents.loads(raw)
    except FormatError:
        if raw.lstrip(_SPACE).startswith(b"["):
            raise
        return _of_lines([raw], wanted, agent, about, max_line=MAX_LINE)
    items = value if isinstance(value, list) else [value]
    records = [Record(item, number) for number, item in enumerate(items, start=1) if isinstance(item, dict)]
    name = agent or agents.recognise(records)
    if name is not None:
        return _told(agents.read(records, agent=name), (raw,), (), about)
    return _told(sound(plain.read(picked(value, wanted))), (raw,), (), about)


def _of_lines(
    blocks: Iterable[bytes],
    wanted: str,
    agent: str | None,
    about: dict[str, Any],
    *,
    max_line: int,
    checked: bool = True,
) -> Transcript:
    reader = Reader(max_line=max_line)
    lines: list[Line] = []
    problems = reader.problems
    try:
        lines.extend(reader.read(blocks))
    except Torn as torn:
        problems.append(
            Problem(rule="zstd", message=f"the compressed file {torn}; what came before was read")
        )
    if not lines:
        why = problems[0].message if problems else "it is empty"
        raise FormatError(f"holds no conversation: {why}")
    records = [Record(line.value, line.number) for line in lines]
    raw = tuple(line.raw for line in lines)
    name = agent or agents.recognise(records)
    if name is not None:
        return _told(agents.read(records, agent=name, checked=checked), raw, problems, about)
    values = [record.value for record in records]
    value = picked(values[0] if len(values) == 1 else values, wanted)
    return _told(sound(plain.read(value)), raw, problems, about)


def _database(path: Path, wanted: str, changed: float) -> Transcript:
    from refold.transcripts import opencode_db

    row = opencode_db.chosen(opencode_db.sessions(path), wanted)
    lines, problems = opencode_db.records(path, row.id)
    records = [Record(line.value, line.number) for line in lines]
    about = {"path": path, "changed_at": row.changed or changed}
    return _told(agents.read(records, agent="opencode"), tuple(line.raw for line in lines), problems, about)


def _told(
    recording: Recording, raw: tuple[bytes, ...], problems: Sequence[Problem], about: dict[str, Any]
) -> Transcript:
    own = {field.name: getattr(recording, field.name) for field in fields(Recording)}
    own["problems"] = (*problems, *recording.problems)
    return Transcript(**own, raw=raw, **about)
