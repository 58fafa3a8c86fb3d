"""Sessions of agents on this machine: list them with an overview, or find one by the start of its name."""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from refold.errors import FormatError, RefoldError
from refold.transcripts.agents import AGENTS
from refold.transcripts.session_cache import SessionCache, SessionOverview, cache_folder
from refold.transcripts.session_files import SessionFile, has_name, list_session_files, session_roots

LATEST: Final = "latest"
"""A name that means the session with the latest change."""
MAX_READ: Final = 64 << 20
"""Larger files (in bytes) are listed without a title: one file must not make the whole list wait."""
_PARALLEL_FROM: Final = 3_000
"""New files from which on several processes read them. Fewer are read before the processes have started."""
_PROCESSES: Final = 4
_SAVE_EVERY: Final = 20_000
"""Files between two saves of the cache, so that an interrupted run loses little work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSession:
    """A session of an agent, as a list shows it."""

    agent: str
    session: str
    path: str
    """Its file; `FILE#id` for a session of opencode's database."""
    changed: float
    """Time of the last change, in seconds since the epoch."""
    size: int
    about: SessionOverview = SessionOverview()

    @property
    def name(self) -> str:
        """The name that every command accepts in place of a file: `claude-code:0b5d7a1e`."""
        return f"{self.agent}:{self.session}"

    @property
    def title(self) -> str:
        """The topic of the session in one line."""
        return self.about.title

    @property
    def changed_ns(self) -> int:
        """Time of the last change in nanoseconds, as the cache compares it."""
        return round(self.changed * 1e9)


def find(
    agent: str | None = None,
    home: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    limit: int | None = None,
) -> Iterator[FoundSession]:
    """Yield the sessions of an agent, or of all agents, newest first.

    Each file is read once and remembered in the user's cache folder. `limit` also limits what is read.
    """
    if agent not in (None, "all", *AGENTS):
        raise RefoldError(f"no agent is named {agent!r}: use one of {', '.join(AGENTS)}, or all")
    base, env = _home_and_environment(home, environment)
    cache = SessionCache(cache_folder(base, env))
    names = AGENTS if agent in (None, "all") else (str(agent),)
    files = [file for name in names for file in list_session_files(name, base, env)]
    folders = tuple(f"{root}{os.sep}" for name in names for root in session_roots(name, base, env))
    cache.forget_gone(folders, {file.path for file in files})
    try:
        sessions = _list_newest_first(files)[:limit]
        _read_in_parallel(sessions, cache)
        for number, session in enumerate(sessions, start=1):
            if session.agent == "opencode":  # its database has the overview already
                yield session
            else:
                about = cache.get(session.path, session.changed_ns, session.size)
                if about is None:
                    about = _read_overview(session)
                    cache.put(session.path, session.changed_ns, session.size, about)
                yield replace(session, about=about)
            if not number % _SAVE_EVERY:
                cache.save()
    finally:
        cache.save()


def locate(
    name: str, home: str | os.PathLike[str] | None = None, environment: Mapping[str, str] | None = None
) -> str | None:
    """Return the file of the session `agent:start-of-id`; None if the name starts with no known agent."""
    agent, colon, start = name.partition(":")
    if not colon or agent not in AGENTS:
        return None
    sessions = _list_newest_first(list(list_session_files(agent, *_home_and_environment(home, environment))))
    if not sessions:
        raise RefoldError(f"there are no sessions of {agent} where it keeps them")
    if start in ("", LATEST):
        return sessions[0].path
    matches = [session for session in sessions if has_name(session.session, start)]
    exact = [session for session in matches if session.session == start]
    if not matches:
        raise RefoldError(
            f"no session of {agent} begins with {start!r}: `refold sessions --agent {agent}` lists them"
        )
    if len(matches) > 1 and not exact:
        raise RefoldError(f"{len(matches)} sessions of {agent} begin with {start!r}: write more of the name")
    return (exact or matches)[0].path


def _home_and_environment(
    home: str | os.PathLike[str] | None, environment: Mapping[str, str] | None
) -> tuple[Path, Mapping[str, str]]:
    # somebody else's home folder must not be mixed with the variables of this process
    if home is None:
        return Path.home(), os.environ if environment is None else environment
    return Path(home), environment or {}


def _list_newest_first(files: Sequence[SessionFile]) -> list[FoundSession]:
    """Return the sessions of some files, newest first; a database holds several."""
    sessions: list[FoundSession] = []
    # files of one time are ordered by path, so that two lists of one folder agree
    for file in sorted(files, key=lambda file: (-file.changed_ns, file.path)):
        found = FoundSession(
            agent=file.agent,
            session=file.session,
            path=file.path,
            changed=file.changed_ns / 1e9,
            size=file.size,
        )
        if file.agent != "opencode":
            sessions.append(found)
            continue
        from refold.transcripts import opencode_database  # loads sqlite3, which most lists do not need

        try:
            rows = opencode_database.list_sessions(Path(file.path))
        except FormatError:  # not a database of opencode's: there is nothing to list
            continue
        sessions += [
            replace(
                found,
                session=row.about.session,
                path=f"{file.path}#{row.about.session}",
                changed=row.changed,
                about=row.about,
            )
            for row in rows
        ]
    return sorted(sessions, key=lambda session: -session.changed)


def _read_in_parallel(sessions: Sequence[FoundSession], cache: SessionCache) -> None:
    """Read very many unknown files in several processes and put their overviews into the cache."""
    unknown = [
        session
        for session in sessions
        if session.agent != "opencode" and cache.get(session.path, session.changed_ns, session.size) is None
    ]
    # a fork copies only the calling thread; locks that others hold would stay locked for ever
    if len(unknown) < _PARALLEL_FROM or threading.active_count() > 1:
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    if "fork" not in multiprocessing.get_all_start_methods():
        return
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(min(_PROCESSES, os.cpu_count() or 1), mp_context=context) as pool:
        overviews = pool.map(_read_overview, unknown, chunksize=100)
        for number, (session, about) in enumerate(zip(unknown, overviews, strict=True), start=1):
            cache.put(session.path, session.changed_ns, session.size, about)
            if not number % _SAVE_EVERY:
                cache.save()


def _read_overview(session: FoundSession) -> SessionOverview:
    """Read what a list shows of a file; a file that cannot be read is listed all the same."""
    from refold.transcripts.transcript import read

    if session.size > MAX_READ:
        return SessionOverview()
    try:
        transcript = read(session.path, agent=session.agent, checked=False)
    except (OSError, RefoldError, ValueError):
        return SessionOverview(problems=1)
    return SessionOverview(
        session=transcript.session,
        title=transcript.title or "",
        cwd=transcript.cwd or "",
        model=transcript.model or "",
        messages=len(transcript.messages),
        tokens=transcript.usages[-1][1].context if transcript.usages else None,
        compactions=len(transcript.folds),
        problems=len(transcript.problems),
    )
