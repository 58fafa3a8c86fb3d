"""Reads the bytes of a transcript into a conversation: JSON lines, one JSON value, or opencode's database."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from refold.errors import FormatError
from refold.formats.shared import documents
from refold.transcripts import agents
from refold.transcripts.agents import Problem, Record, Recording, plain
from refold.transcripts.agents.recording import drop_unreadable
from refold.transcripts.files import open_transcript, to_utf8
from refold.transcripts.lenient_json import parse_or_none
from refold.transcripts.lines import MAX_LINE, Line, Reader
from refold.transcripts.zstd import TruncatedFile

MAX_DOCUMENT: Final = 256 << 20
"""Bytes of a file that is parsed as one JSON value; a larger one is read line by line."""
DOCUMENT_HEAD: Final = 1 << 16
"""Bytes at the start of a file that show whether it is one JSON value or lines."""
SQLITE_HEADER: Final = b"SQLite format 3\0"
_SPACE: Final = b" \t\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript(Recording):
    """A recording, with the file and the lines it was read from."""

    path: Path | None = None
    """None for bytes that have no file."""
    raw: tuple[bytes, ...] = ()
    """Every record byte for byte as in the file; as UTF-8 where the file has UTF-16."""
    changed_at: float = 0.0
    """Time of the file's last change, in seconds since the epoch."""


def read(
    path: str | os.PathLike[str], *, agent: str | None = None, max_line: int = MAX_LINE, checked: bool = True
) -> Transcript:
    """Read a transcript of a known agent, or a list of messages in a known shape, from a file.

    `FILE#N` chooses one conversation of several: N is a number from 1, or the start of a session's id in
    opencode's database.
    """
    where, number = split_number(path)
    with open_transcript(where) as file:
        head = next(to_utf8(file.raw_blocks()), b"")[:DOCUMENT_HEAD]
        file.file.seek(0)
        if head.startswith(SQLITE_HEADER):
            return _read_database(file.path, number, file.changed)
        about = {"path": file.path, "changed_at": file.changed}
        if not file.compressed and file.size <= MAX_DOCUMENT and is_document(head):
            return _read_document(b"".join(file.blocks()), number, agent, about)
        return _read_lines(file.blocks(), number, agent, about, max_line=max_line, checked=checked)


def read_bytes(
    raw: bytes, *, agent: str | None = None, wanted: str = "", max_line: int = MAX_LINE
) -> Transcript:
    """Read a transcript from bytes that are not compressed."""
    raw = b"".join(to_utf8([raw]))
    if is_document(raw[:DOCUMENT_HEAD]):
        return _read_document(raw, wanted, agent, {})
    return _read_lines([raw], wanted, agent, {}, max_line=max_line)


def split_number(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """Split `FILE#N` into the file and N, which is empty if there is none."""
    full = Path(path).expanduser()
    name, mark, number = str(full).rpartition("#")
    # a file may have a `#` in its own name
    return (Path(name), number) if mark and not full.exists() else (full, "")


def is_document(head: bytes) -> bool:
    """True if a file is a JSON list, or one JSON value over several lines; else it is read line by line."""
    stripped = head.lstrip(_SPACE)
    if stripped.startswith(b"["):
        return True
    first, newline, rest = stripped.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
    if not newline or not first.startswith(b"{"):
        return False
    if first.strip() == b"{":
        return True
    # an indented second line continues the first value only if that one is incomplete
    return rest[:1] in (b" ", b"\t") and parse_or_none(first.decode(errors="replace")) is None


def _read_document(raw: bytes, number: str, agent: str | None, about: dict[str, Any]) -> Transcript:
    try:
        value = documents.loads(raw)
    except FormatError:
        if raw.lstrip(_SPACE).startswith(b"["):
            raise
        return _read_lines([raw], number, agent, about, max_line=MAX_LINE)
    items = value if isinstance(value, list) else [value]
    records = [Record(item, line) for line, item in enumerate(items, start=1) if isinstance(item, dict)]
    name = agent or agents.recognise(records)
    if name is None:
        return _to_transcript(_read_plain(value, number), (raw,), (), about)
    return _to_transcript(agents.read(records, agent=name), (raw,), (), about)


def _read_lines(
    blocks: Iterable[bytes],
    number: str,
    agent: str | None,
    about: dict[str, Any],
    *,
    max_line: int,
    checked: bool = True,
) -> Transcript:
    reader = Reader(max_line=max_line)
    lines: list[Line] = []
    try:
        lines.extend(reader.read(blocks))
    except TruncatedFile as error:
        message = f"the compressed file {error}; what came before was read"
        reader.problems.append(Problem(rule="zstd", message=message))
    if not lines:
        why = reader.problems[0].message if reader.problems else "it is empty"
        raise FormatError(f"holds no conversation: {why}")
    records = [Record(line.value, line.number) for line in lines]
    name = agent or agents.recognise(records)
    if name is None:
        values = [record.value for record in records]
        recording = _read_plain(values[0] if len(values) == 1 else values, number)
    else:
        recording = agents.read(records, agent=name, checked=checked)
    return _to_transcript(recording, tuple(line.raw for line in lines), reader.problems, about)


def _read_plain(value: Any, number: str) -> Recording:
    return drop_unreadable(plain.read(plain.pick_conversation(value, number)))


def _read_database(path: Path, session: str, changed: float) -> Transcript:
    from refold.transcripts import opencode_database  # loads sqlite3, which other files do not need

    row = opencode_database.choose_session(opencode_database.list_sessions(path), session)
    lines, problems = opencode_database.read_records(path, row.about.session)
    records = [Record(line.value, line.number) for line in lines]
    about = {"path": path, "changed_at": row.changed or changed}
    recording = agents.read(records, agent="opencode")
    return _to_transcript(recording, tuple(line.raw for line in lines), problems, about)


def _to_transcript(
    recording: Recording, raw: tuple[bytes, ...], problems: Sequence[Problem], about: dict[str, Any]
) -> Transcript:
    values = {field.name: getattr(recording, field.name) for field in fields(Recording)}
    values["problems"] = (*problems, *recording.problems)
    return Transcript(**values, raw=raw, **about)
