"""Folders in which each agent keeps its sessions, and the files there; walks folders and opens no file.

Links, pipes, devices and sockets are skipped: a link may lead in a circle, and reading the others may block
for ever.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from refold.transcripts.agents import AGENTS

_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_FILE_NAMES: Final = {
    "claude-code": re.compile(r"(?!agent-)(?P<id>.+)\.jsonl\Z"),
    "codex": re.compile(rf"rollout-.*?(?P<id>{_UUID})(?:_{_UUID})?\.jsonl(?:\.zst)?\Z"),
    "pi": re.compile(r"(?:[^_]*_)?(?P<id>[^/]+)\.jsonl\Z"),
    "gemini-cli": re.compile(r"session-[0-9T:-]{16}-(?P<id>.+)\.jsonl?\Z"),
}
"""Names of session files; the group `id` is the name of the session."""
_DEPTHS: Final = {"claude-code": 1, "codex": 3, "pi": 1, "gemini-cli": 2}
"""Levels of folders above the files; deeper files belong to sub-agents."""


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A file with one session or, if it is a database, with several."""

    agent: str
    session: str
    """Empty if the file holds several sessions."""
    path: str
    changed_ns: int
    size: int


def session_roots(agent: str, home: Path, env: Mapping[str, str]) -> list[Path]:
    """Return the folders of an agent, or the path of its database."""
    if agent == "claude-code":
        return [Path(env.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects"]
    if agent == "codex":
        base = Path(env.get("CODEX_HOME") or home / ".codex")
        return [base / "sessions", base / "archived_sessions"]
    if agent == "opencode":
        data = Path(env.get("XDG_DATA_HOME") or home / ".local" / "share")
        return [Path(env.get("OPENCODE_DB") or data / "opencode" / "opencode.db")]
    if agent == "pi":
        return [Path(env.get("PI_CODING_AGENT_DIR") or home / ".pi" / "agent") / "sessions"]
    return [home / ".gemini" / "tmp"]


def has_name(session: str, start: str) -> bool:
    """True if the id of a session starts so; opencode's ids also without their `ses_`."""
    return session.startswith(start) or session.removeprefix("ses_").startswith(start)


def list_session_files(agent: str, home: Path, env: Mapping[str, str]) -> Iterator[SessionFile]:
    """Yield the session files of an agent in no particular order."""
    if agent not in AGENTS:
        raise ValueError(agent)
    for root in session_roots(agent, home, env):
        if agent == "opencode":
            try:
                about = root.stat()
            except OSError:
                continue
            if root.is_file() and about.st_size:
                yield SessionFile(agent, "", str(root), about.st_mtime_ns, about.st_size)
            continue
        files = {file.path: file for file in _walk(agent, root)}
        for path, file in files.items():
            # while Codex compresses a file both exist; the plain one counts until it is gone
            if not path.endswith(".zst") or path.removesuffix(".zst") not in files:
                yield file


def _walk(agent: str, root: Path) -> Iterator[SessionFile]:
    folders = [(str(root), 0)]
    while folders:
        folder, depth = folders.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:  # gone in the meantime, or not readable
            continue
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                if (file := session_file(agent, entry)) is not None:
                    yield file
            elif depth < _DEPTHS[agent]:
                folders.append((entry.path, depth + 1))


def session_file(agent: str, entry: "os.DirEntry[str]") -> SessionFile | None:
    """Return the session file that an entry of a folder is; None if it is none."""
    match = _FILE_NAMES[agent].match(entry.name)
    if match is None or not entry.is_file(follow_symlinks=False):
        return None
    if agent == "gemini-cli" and Path(entry.path).parent.name != "chats":
        return None
    try:
        about = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    if not about.st_size:
        return None
    return SessionFile(agent, match["id"], entry.path, about.st_mtime_ns, about.st_size)
