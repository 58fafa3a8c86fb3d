"""Overviews of sessions that were read before: one JSON file in the user's cache folder.

The cache holds only what a list shows and can be deleted at any time. A file is read again when its size or
its time has changed.
"""

import json
import os
import sys
import tempfile
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

VERSION: Final = 1
"""Version of the cache file; a file of another version is ignored and replaced."""
FILE_NAME: Final = "transcripts.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOverview:
    """The facts about a session that a list shows."""

    session: str = ""
    title: str = ""
    cwd: str = ""
    model: str = ""
    messages: int | None = None
    """None if the file is too large to be read for a list."""
    tokens: int | None = None
    """Size of the last context that the provider reported."""
    compactions: int = 0
    problems: int = 0


_NOTHING: Final = asdict(SessionOverview())


def cache_folder(home: Path, env: Mapping[str, str]) -> Path:
    """Return the folder that the platform reserves for caches."""
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "refold"
    if sys.platform == "win32":
        return Path(env.get("LOCALAPPDATA") or home / "AppData" / "Local") / "refold" / "Cache"
    # The XDG specification says that a relative path is invalid and has to be ignored.
    named = Path(env.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else home / ".cache") / "refold"


class SessionCache:
    """Overviews by file path; loaded on creation, written by `save` if there is something new."""

    def __init__(self, where: Path) -> None:
        self.where = where
        self.files: dict[str, list[Any]] = {}
        self.changed = False
        with suppress(OSError, ValueError, RecursionError):
            value = json.loads((where / FILE_NAME).read_bytes())
            if isinstance(value, dict) and value.get("version") == VERSION:
                files = value.get("files")
                self.files = dict(files) if isinstance(files, dict) else {}

    def get(self, path: str, changed_ns: int, size: int) -> SessionOverview | None:
        """Return the overview of a file that has not changed since; else None."""
        entry = self.files.get(path)
        if not isinstance(entry, list) or entry[:2] != [changed_ns, size]:
            return None
        with suppress(TypeError, IndexError):
            return SessionOverview(**entry[2])
        return None

    def put(self, path: str, changed_ns: int, size: int, overview: SessionOverview) -> None:
        """Remember the overview of a file."""
        # fields that say nothing are left out: a hundred thousand sessions are one JSON file (decision 0018)
        fields = {key: value for key, value in asdict(overview).items() if value != _NOTHING[key]}
        self.files[path] = [changed_ns, size, fields]
        self.changed = True

    def forget_gone(self, folders: tuple[str, ...], listed: Container[str]) -> None:
        """Forget files of these folders that are not there any more: no title outlives its session."""
        for path in [path for path in self.files if path.startswith(folders) and path not in listed]:
            del self.files[path]
            self.changed = True

    def save(self) -> None:
        """Write the whole file or nothing; a folder that cannot be written to only costs time."""
        if not self.changed:
            return
        text = json.dumps({"version": VERSION, "files": self.files}, separators=(",", ":"))
        with suppress(OSError):
            self.where.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=".transcripts.", dir=self.where)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(text.encode(errors="backslashreplace"))
                Path(name).replace(self.where / FILE_NAME)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        self.changed = False
