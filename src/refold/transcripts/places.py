"""Where each agent keeps its sessions, and which files there are; folders are walked, nothing is opened.

Links, pipes, devices and sockets in these folders are passed over: a link may lead round, and the others may
wait for ever.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from refold.transcripts.agents import AGENTS

_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_NAMES: Final = {
    "claude-code": re.compile(r"(?!agent-)(?P<id>.+)\.jsonl\Z"),
    "codex": re.compile(rf"rollout-.*?(?P<id>{_UUID})(?:_{_UUID})?\.jsonl(?:\.zst)?\Z"),
    "pi": re.compile(r"(?:[^_]*_)?(?P<id>[^/]+)\.jsonl\Z"),
    "gemini-cli": re.compile(r"session-[0-9T:-]{16}-(?P<id>.+)\.jsonl?\Z"),
}
"""What a session's file is called, and what in it is the session's name."""
_DEPTHS: Final = {"claude-code": 1, "codex": 3, "pi": 1, "gemini-cli": 2}
"""How many folders deep the files are; what lies deeper is of sub-agents."""


@dataclass(frozen=True, slots=True)
class Place:
    """A file with sessions."""

    agent: str
    session: str
    """Empty where the file holds many."""
    path: str
    changed_ns: int
    size: int


def roots(agent: str, home: Path, env: Mapping[str, str]) -> list[Path]:
    """The folders of an agent, or its database."""
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


def places(agent: str, home: Path, env: Mapping[str, str]) -> Iterator[Place]:
    """Every file of an agent's, in no order."""
    if agent not in AGENTS:
        raise ValueError(agent)
    for root in roots(agent, home, env):
        if agent == "opencode":
            yield from _single(agent, root)
        else:
            yield from _without_twins(_walk(agent, root, _DEPTHS[agent]))


def _single(agent: str, path: Path) -> Iterator[Place]:
    try:
        about = path.stat()
    except OSError:
        return
    if path.is_file() and about.st_size:
        yield Place(agent, "", str(path), about.st_mtime_ns, about.st_size)


def _walk(agent: str, root: Path, depth: int) -> Iterator[Place]:
    """The files below a folder, level by level."""
    waiting = [(str(root), 0)]
    while waiting:
        folder, level = waiting.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:  # gone meanwhile, or not ours to read
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if level < depth:
                    waiting.append((entry.path, level + 1))
                continue
            place = _place(agent, entry)
            if place is not None:
                yield place


def _place(agent: str, entry: "os.DirEntry[str]") -> Place | None:
    named = _NAMES[agent].match(entry.name)
    if named is None or not entry.is_file(follow_symlinks=False):
        return None
    if agent == "gemini-cli" and Path(entry.path).parent.name != "chats":
        return None
    try:
        about = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return Place(agent, named["id"], entry.path, about.st_mtime_ns, about.st_size) if about.st_size else None


def _without_twins(found: Iterator[Place]) -> Iterator[Place]:
    """Without compressed files whose plain one is still there: it counts until it is gone."""
    every = {place.path: place for place in found}
    for path, place in every.items():
        if not path.endswith(".zst") or path.removesuffix(".zst") not in every:
            yield place
