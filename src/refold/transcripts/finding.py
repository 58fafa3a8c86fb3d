"""The sessions of agents on this machine: listed with what they are about, found by the start of a name."""

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from refold.errors import FormatError, RefoldError
from refold.transcripts.agents import AGENTS
from refold.transcripts.index import Glance, Index, folder
from refold.transcripts.places import Place, places

LATEST: Final = "latest"
"""In place of a name: the session that was written to last."""
MAX_READ: Final = 64 << 20
"""Bytes of a file that is read for a list; of larger ones only the file itself is known."""
_MANY: Final = 3_000
"""New files from which on several processes read them; fewer are read before these are started."""
_PROCESSES: Final = 4
_SAVED: Final = 20_000
"""Files after which what was learned is written down, should somebody lose patience."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A session of an agent, as a list shows it."""

    agent: str
    session: str
    path: str
    """Its file; `FILE#id` for one of opencode's database."""
    changed: float
    """When it was last written to, in seconds since the epoch."""
    size: int
    about: Glance

    @property
    def name(self) -> str:
        """What it is called wherever a file is taken: `claude-code:0b5d7a1e`."""
        return f"{self.agent}:{self.session}"

    @property
    def title(self) -> str:
        """What it is about."""
        return self.about.title


def find(
    agent: str | None = None,
    home: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    limit: int | None = None,
) -> Iterator[Found]:
    """The sessions of an agent, or of all, the one that was written to last first.

    Files are read once and remembered in the user's cache folder; `limit` reads no more than are shown.
    """
    base, env = _base(home, environment)
    index = Index(folder(base, env))
    every = _sorted(place for name in _agents(agent) for place in places(name, base, env))
    try:
        found = _merged(every)[:limit]
        _read_together(found, index)
        for number, one in enumerate(found, start=1):
            yield one if one.agent == "opencode" else _glanced(one, index)
            if not number % _SAVED:
                index.save()
    finally:
        index.save()


def located(
    name: str, home: str | os.PathLike[str] | None = None, environment: Mapping[str, str] | None = None
) -> str | None:
    """The file of a session that is named `agent:start`; None where the word names no agent."""
    agent, colon, start = name.partition(":")
    if not colon or agent not in AGENTS:
        return None
    base, env = _base(home, environment)
    found = list(_merged(_sorted(places(agent, base, env))))
    if not found:
        raise RefoldError(f"there are no sessions of {agent} where it keeps them")
    if start in ("", LATEST):
        return found[0].path
    fits = [
        one
        for one in found
        if one.session.startswith(start) or one.session.removeprefix("ses_").startswith(start)
    ]
    exact = [one for one in fits if one.session == start]
    if not fits:
        raise RefoldError(
            f"no session of {agent} begins with {start!r}: `refold sessions --agent {agent}` lists them"
        )
    if len(fits) > 1 and not exact:
        raise RefoldError(f"{len(fits)} sessions of {agent} begin with {start!r}: write more of the name")
    return (exact or fits)[0].path


def _base(
    home: str | os.PathLike[str] | None, environment: Mapping[str, str] | None
) -> tuple[Path, Mapping[str, str]]:
    """The home folder and the variables; a home that is given has no variables unless they are given too."""
    if home is None:
        return Path.home(), os.environ if environment is None else environment
    return Path(home), {} if environment is None else environment


def _agents(agent: str | None) -> Sequence[str]:
    if agent in (None, "all"):
        return AGENTS
    if agent not in AGENTS:
        raise RefoldError(f"no agent is named {agent!r}: use one of {', '.join(AGENTS)}, or all")
    return (agent,)


def _sorted(found: Iterable[Place]) -> list[Place]:
    return sorted(found, key=lambda place: (-place.changed_ns, place.path))


def _merged(every: Sequence[Place]) -> list[Found]:
    """Files as sessions, those of databases among them, the newest first."""
    found: list[Found] = []
    for place in every:
        if place.agent == "opencode":
            found += _stored(place)
        else:
            at = place.changed_ns / 1e9
            found.append(
                Found(
                    agent=place.agent,
                    session=place.session,
                    path=place.path,
                    changed=at,
                    size=place.size,
                    about=Glance(),
                )
            )
    return sorted(found, key=lambda one: -one.changed)


def _stored(place: Place) -> Iterator[Found]:
    from refold.transcripts import opencode_db

    try:
        rows = opencode_db.sessions(Path(place.path))
    except FormatError:
        return
    for row in rows:
        about = Glance(
            session=row.id, title=row.title, cwd=row.directory, messages=row.messages, model=row.model
        )
        about = replace(about, tokens=row.tokens or None, compactions=row.compactions)
        yield Found(
            agent=place.agent,
            session=row.id,
            path=f"{place.path}#{row.id}",
            changed=row.changed,
            size=place.size,
            about=about,
        )


def _read_together(found: Sequence[Found], index: Index) -> None:
    """Read very many files in several processes, where this one may be copied: it has no other threads."""
    new = [
        one for one in found if one.agent != "opencode" and index.get(one.path, _time(one), one.size) is None
    ]
    if len(new) < _MANY or threading.active_count() > 1:
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    if "fork" not in multiprocessing.get_all_start_methods():
        return
    copies = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(min(_PROCESSES, os.cpu_count() or 1), mp_context=copies) as pool:
        for number, (one, about) in enumerate(
            zip(new, pool.map(_glance, new, chunksize=100), strict=True), start=1
        ):
            index.put(one.path, _time(one), one.size, about)
            if not number % _SAVED:
                index.save()


def _time(found: Found) -> int:
    return round(found.changed * 1e9)


def _glanced(found: Found, index: Index) -> Found:
    about = index.get(found.path, _time(found), found.size)
    if about is None:
        about = _glance(found)
        index.put(found.path, _time(found), found.size, about)
    return replace(found, about=about)


def _glance(found: Found) -> Glance:
    """Read a file for what a list shows; one that cannot be read is listed all the same."""
    from refold.transcripts.reading import read

    if found.size > MAX_READ:
        return Glance()
    try:
        told = read(found.path, agent=found.agent, checked=False)
    except (OSError, RefoldError, ValueError):
        return Glance(problems=1)
    return Glance(
        session=told.session,
        title=told.title or "",
        cwd=told.cwd or "",
        model=told.model or "",
        messages=len(told.messages),
        tokens=told.usages[-1][1].context if told.usages else None,
        compactions=len(told.folds),
        problems=len(told.problems),
    )
