"""opencode's SQLite database: sessions and their records, read without disturbing the agent that writes it.

A database in use has a write-ahead log beside it. It is opened with `mode=ro`, which creates no files and
takes no lock that a writer waits for; every query is short. Without such a log nobody has the database open,
and `mode=ro` itself would create one. Then the file is read as `immutable`, and read again if it has changed.
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
from refold.transcripts.agents.fields import as_object, number_at, text_at
from refold.transcripts.lenient_json import parse_or_none
from refold.transcripts.lines import Line
from refold.transcripts.session_cache import SessionOverview
from refold.transcripts.session_files import has_name

T = TypeVar("T")
_WAIT_SECONDS: Final = 0.05
_PAGE: Final = 100
"""Rows of a query: few enough to be over in a few milliseconds."""
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A session as the database lists it."""

    created: float
    changed: float
    about: SessionOverview


def list_sessions(path: Path) -> list[SessionRow]:
    """Return every session, newest first."""
    return _read(path, _query_sessions)


def read_records(path: Path, session: str) -> tuple[list[Line], list[Problem]]:
    """Return a session and its messages with their parts, as records of an export."""
    return _read(path, lambda db: _query_records(db, session))


def choose_session(rows: Sequence[SessionRow], start: str) -> SessionRow:
    """Return the session whose id starts so, with or without `ses_`; the newest if `start` is empty."""
    matches = [row for row in rows if has_name(row.about.session, start)]
    if not matches:
        raise FormatError(f"has no session that begins with {start!r}" if start else "has no sessions")
    if start and len(matches) > 1 and matches[0].about.session != start:
        raise FormatError(f"has {len(matches)} sessions that begin with {start!r}: write more of the name")
    return matches[0]


def _read(path: Path, query: Callable[[sqlite3.Connection], T]) -> T:
    """Run a query; run it again if the file changed while it was read as immutable."""
    for _ in range(_ATTEMPTS):
        before = _unused_state(path)
        try:
            with closing(connect(path, immutable=before is not None)) as db:
                result = query(db)
        except sqlite3.Error as error:
            if before is not None and before != _unused_state(path):
                continue
            raise FormatError(f"cannot be read as opencode's database: {error}", path=str(path)) from None
        if before is None or before == _unused_state(path):
            return result
    raise FormatError("is being changed all the time: try again", path=str(path))


def _unused_state(path: Path) -> tuple[int, int] | None:
    """Return size and time of a database; None if a process has it open."""
    if path.with_name(path.name + "-wal").exists() or path.with_name(path.name + "-journal").exists():
        return None
    about = path.stat()
    return about.st_size, about.st_mtime_ns


def connect(path: Path, *, immutable: bool) -> sqlite3.Connection:
    """Open the database for reading."""
    mode = "immutable=1" if immutable else "mode=ro"
    name = str(path.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    db = sqlite3.connect(f"file:{name}?{mode}", uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
    db.text_factory = lambda raw: raw.decode(errors="replace")
    db.execute("PRAGMA query_only = 1")
    return db


def _column_names(db: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in db.execute(f"PRAGMA table_info({table})")}


def _query_sessions(db: sqlite3.Connection) -> list[SessionRow]:
    known = _column_names(db, "session")
    if "id" not in known:
        raise FormatError("has no table of sessions: is it opencode's database?")
    wanted = ("id", "title", "directory", "time_created", "time_updated")
    # versions of opencode differ in their columns; one that is missing reads as NULL
    columns = ", ".join(name if name in known else f"NULL AS {name}" for name in wanted)
    rows = db.execute(f"SELECT {columns} FROM session").fetchall()  # noqa: S608  # names of our own
    sessions = []
    for name, title, folder, created, changed in rows:
        times = [value / 1000 if isinstance(value, int | float) else 0.0 for value in (created, changed)]
        overview = _query_overview(db, name, title=str(title or ""), cwd=str(folder or ""))
        sessions.append(SessionRow(created=times[0], changed=times[1] or times[0], about=overview))
    return sorted(sessions, key=lambda row: (row.changed, row.about.session), reverse=True)


def _query_overview(db: sqlite3.Connection, session: str, *, title: str, cwd: str) -> SessionOverview:
    query = "SELECT count(*), sum(data LIKE '%\"summary\":true%') FROM message WHERE session_id = ?"
    messages, summaries = db.execute(query, (session,)).fetchone()
    query = (
        "SELECT data FROM message WHERE session_id = ? AND data LIKE '%\"tokens\":%' ORDER BY id DESC LIMIT 1"
    )
    last = db.execute(query, (session,)).fetchone()
    info = as_object(parse_or_none(last[0]) if last and isinstance(last[0], str) else None)
    tokens = as_object(info.get("tokens"))
    cache = as_object(tokens.get("cache"))
    size = number_at(tokens, "input") + number_at(cache, "read") + number_at(cache, "write")
    return SessionOverview(
        session=str(session),
        title=title,
        cwd=cwd,
        model=text_at(info, "modelID"),
        messages=messages,
        tokens=size or None,
        compactions=summaries or 0,
    )


def _query_records(db: sqlite3.Connection, session: str) -> tuple[list[Line], list[Problem]]:
    row = next((row for row in _query_sessions(db) if row.about.session == session), None)
    if row is None:
        raise FormatError(f"has no session {session!r}")
    about = row.about
    head = {
        "id": about.session,
        "title": about.title,
        "directory": about.cwd,
        "time": {"created": row.created},
    }
    values: list[dict[str, Any]] = [{"session": head}]
    problems: list[Problem] = []
    for number, (name, data) in enumerate(_query_pages(db, "message", "session_id", session), start=2):
        info = _parse_cell(data, name, number, problems)
        parts = [
            {**_parse_cell(part, part_name, number, problems), "id": part_name}
            for part_name, part in _query_pages(db, "part", "message_id", name)
        ]
        values.append({"info": {**info, "id": name, "sessionID": session}, "parts": parts})
    if len(values) == 1 and _column_names(db, "session_message"):
        message = "the session is in tables of a newer version, which are not known yet"
        problems.append(Problem(rule="newer", message=message))
    lines = [
        Line(value, number, 0, json.dumps(value, ensure_ascii=True).encode())
        for number, value in enumerate(values, start=1)
    ]
    return lines, problems


def _query_pages(db: sqlite3.Connection, table: str, key: str, name: str) -> Iterator[tuple[str, Any]]:
    """Yield rows in the order of their ids, page by page, so that no query holds its snapshot for long."""
    last = ""
    query = f"SELECT id, data FROM {table} WHERE {key} = ? AND id > ? ORDER BY id LIMIT {_PAGE}"  # noqa: S608  # ours
    while rows := db.execute(query, (name, last)).fetchall():
        yield from ((str(row[0]), row[1]) for row in rows)
        last = rows[-1][0]


def _parse_cell(data: Any, name: str, number: int, problems: list[Problem]) -> dict[str, Any]:
    text = data.decode(errors="replace") if isinstance(data, bytes) else data
    value = parse_or_none(text) if isinstance(text, str) else None
    if isinstance(value, dict):
        return value
    problems.append(Problem(rule="json", message=f"{name} is no JSON object and was skipped", line=number))
    return {}
