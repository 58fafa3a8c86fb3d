"""opencode's database, read only, without ever being in the way of the agent that writes it.

A database that is in use has its write-ahead log beside it: it is opened with `mode=ro`, which neither makes
files nor takes locks that a writer would wait for, and every query is a short one of its own. Where there is
no such log nobody has it open; then even `mode=ro` would make one, so the file is read as it lies there, and
read again should somebody have opened it meanwhile.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from refold.errors import FormatError
from refold.transcripts.agents import Problem
from refold.transcripts.agents.shaping import number_at, object_of, text_at
from refold.transcripts.lines import Line
from refold.transcripts.whole import value_of

T = TypeVar("T")
_WAIT_SECONDS: Final = 0.05
_PAGE: Final = 100
"""Rows of a query: few enough to be over in a few milliseconds."""
_TRIES: Final = 3
HEADER: Final = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A session as the database lists it."""

    id: str
    title: str
    directory: str
    created: float
    changed: float
    messages: int
    model: str = ""
    tokens: int = 0
    compactions: int = 0


def sessions(path: Path) -> list[Row]:
    """Every session, the one that changed last first."""
    return _read(path, _sessions)


def records(path: Path, name: str) -> tuple[list[Line], list[Problem]]:
    """A session and its messages with their parts, as records."""
    return _read(path, lambda db: _records(db, name))


def _read(path: Path, work: Callable[[sqlite3.Connection], T]) -> T:
    """Do some reading; again where the file changed under it without a log."""
    for _ in range(_TRIES):
        quiet = _quiet(path)
        try:
            with closing(_connect(path, immutable=quiet is not None)) as db:
                found = work(db)
        except sqlite3.Error as error:
            if quiet is not None and quiet != _quiet(path):
                continue
            raise FormatError(f"cannot be read as opencode's database: {error}", path=str(path)) from None
        if quiet is None or quiet == _quiet(path):
            return found
    raise FormatError("is being changed all the time: try again", path=str(path))


def _quiet(path: Path) -> tuple[int, int] | None:
    """Size and time of a database that nobody has open; None where somebody has."""
    if path.with_name(path.name + "-wal").exists() or path.with_name(path.name + "-journal").exists():
        return None
    about = path.stat()
    return about.st_size, about.st_mtime_ns


def _connect(path: Path, *, immutable: bool) -> sqlite3.Connection:
    how = "immutable=1" if immutable else "mode=ro"
    name = str(path.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    db = sqlite3.connect(f"file:{name}?{how}", uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
    db.text_factory = lambda raw: raw.decode(errors="replace")
    db.execute("PRAGMA query_only = 1")
    return db


def _columns(db: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in db.execute(f"PRAGMA table_info({table})")}


def _sessions(db: sqlite3.Connection) -> list[Row]:
    known = _columns(db, "session")
    if "id" not in known:
        raise FormatError("has no table of sessions: is it opencode's database?")
    wanted = ("id", "title", "directory", "time_created", "time_updated")
    picked = ", ".join(name if name in known else f"NULL AS {name}" for name in wanted)
    rows = db.execute(f"SELECT {picked} FROM session").fetchall()  # noqa: S608  # names of our own
    found = [
        Row(
            id=str(name),
            title=str(title or ""),
            directory=str(folder or ""),
            created=_seconds(created),
            changed=_seconds(changed) or _seconds(created),
            **_told(db, name),
        )
        for name, title, folder, created, changed in rows
    ]
    return sorted(found, key=lambda row: (row.changed, row.id), reverse=True)


def _told(db: sqlite3.Connection, name: str) -> dict[str, Any]:
    """What the messages of a session tell: how many there are, of which model, how large the context was."""
    query = "SELECT count(*), sum(data LIKE '%\"summary\":true%') FROM message WHERE session_id = ?"
    messages, summaries = db.execute(query, (name,)).fetchone()
    query = (
        "SELECT data FROM message WHERE session_id = ? AND data LIKE '%\"tokens\":%' ORDER BY id DESC LIMIT 1"
    )
    last = db.execute(query, (name,)).fetchone()
    info = object_of(value_of(last[0]) if last and isinstance(last[0], str) else None)
    tokens = object_of(info.get("tokens"))
    cache = object_of(tokens.get("cache"))
    size = number_at(tokens, "input") + number_at(cache, "read") + number_at(cache, "write")
    return {
        "messages": messages,
        "compactions": summaries or 0,
        "model": text_at(info, "modelID"),
        "tokens": size,
    }


def _seconds(value: Any) -> float:
    return value / 1000 if isinstance(value, int | float) else 0.0


def _records(db: sqlite3.Connection, name: str) -> tuple[list[Line], list[Problem]]:
    row = next((row for row in _sessions(db) if row.id == name), None)
    if row is None:
        raise FormatError(f"has no session {name!r}")
    session = {"id": row.id, "title": row.title, "directory": row.directory, "time": {"created": row.created}}
    lines = [_line({"session": session}, 1)]
    problems: list[Problem] = []
    for number, (message, data) in enumerate(_pages(db, "message", "session_id", name), start=2):
        info = _object(data, message, number, problems)
        parts = [
            {**_object(part, key, number, problems), "id": key}
            for key, part in _pages(db, "part", "message_id", message)
        ]
        lines.append(_line({"info": {**info, "id": message, "sessionID": name}, "parts": parts}, number))
    newer = _columns(db, "session_message")
    if len(lines) == 1 and newer:
        told = "the session is in tables of a newer version, which are not known yet"
        problems.append(Problem(rule="newer", message=told))
    return lines, problems


def _pages(db: sqlite3.Connection, table: str, key: str, name: str) -> Iterator[tuple[str, Any]]:
    """Rows in the order of their ids, a page at a time, so that no query holds its snapshot for long."""
    last = ""
    query = f"SELECT id, data FROM {table} WHERE {key} = ? AND id > ? ORDER BY id LIMIT {_PAGE}"  # noqa: S608  # ours
    while rows := db.execute(query, (name, last)).fetchall():
        yield from ((str(row[0]), row[1]) for row in rows)
        last = rows[-1][0]


def _object(data: Any, name: str, number: int, problems: list[Problem]) -> dict[str, Any]:
    text = data.decode(errors="replace") if isinstance(data, bytes) else data
    value = value_of(text) if isinstance(text, str) else None
    if isinstance(value, dict):
        return value
    problems.append(Problem(rule="json", message=f"{name} is no JSON object and was skipped", line=number))
    return {}


def _line(value: dict[str, Any], number: int) -> Line:
    return Line(value, number, 0, json.dumps(value, ensure_ascii=True).encode())


def chosen(rows: Sequence[Row], wanted: str) -> Row:
    """The session that a prefix names, or the one that changed last where none is wanted."""
    found = [
        row for row in rows if row.id.startswith(wanted) or row.id.removeprefix("ses_").startswith(wanted)
    ]
    if not found:
        raise FormatError(f"has no session that begins with {wanted!r}" if wanted else "has no sessions")
    if wanted and len(found) > 1 and found[0].id != wanted:
        raise FormatError(f"has {len(found)} sessions that begin with {wanted!r}: write more of the name")
    return found[0]
