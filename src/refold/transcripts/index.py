"""What is known of sessions that were looked at before: one file in the user's cache folder.

Only what a list shows is kept, and it can be thrown away at any time. A file is read again when its size or
its time has changed.
"""

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

VERSION: Final = 1
"""Of what is kept; another version is begun anew."""
NAME: Final = "transcripts.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """What a list shows of a session."""

    session: str = ""
    title: str = ""
    cwd: str = ""
    model: str = ""
    messages: int | None = None
    """None where the file is too large to be read for a list."""
    tokens: int | None = None
    """The last context that the provider reported."""
    compactions: int = 0
    problems: int = 0


def folder(home: Path, env: Mapping[str, str]) -> Path:
    """The folder that the platform has for what can be made again."""
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "refold"
    if sys.platform == "win32":
        return Path(env.get("LOCALAPPDATA") or home / "AppData" / "Local") / "refold" / "Cache"
    named = env.get("XDG_CACHE_HOME", "")
    return (Path(named) if Path(named).is_absolute() else home / ".cache") / "refold"


class Index:
    """Glances by file; loaded when made, written by `save` if there is something new."""

    def __init__(self, where: Path) -> None:
        self.where = where
        self.files: dict[str, list[Any]] = _loaded(where / NAME)
        self.fresh = False

    def get(self, path: str, changed_ns: int, size: int) -> Glance | None:
        """What is known of a file as it is now."""
        kept = self.files.get(path)
        if not isinstance(kept, list) or kept[:2] != [changed_ns, size]:
            return None
        with suppress(TypeError, IndexError):
            return Glance(**kept[2])
        return None

    def put(self, path: str, changed_ns: int, size: int, glance: Glance) -> None:
        """Remember a file."""
        known = {key: value for key, value in asdict(glance).items() if value}
        self.files[path] = [changed_ns, size, known]
        self.fresh = True

    def save(self) -> None:
        """Write it whole or not at all; a folder that cannot be written to only costs time."""
        if not self.fresh:
            return
        text = json.dumps({"version": VERSION, "files": self.files}, separators=(",", ":"))
        with suppress(OSError):
            self.where.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=".transcripts.", dir=self.where)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(text.encode(errors="backslashreplace"))
                Path(name).replace(self.where / NAME)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        self.fresh = False


def _loaded(path: Path) -> dict[str, list[Any]]:
    with suppress(OSError, ValueError, RecursionError):
        kept = json.loads(path.read_bytes())
        if isinstance(kept, dict) and kept.get("version") == VERSION and isinstance(kept.get("files"), dict):
            return dict(kept["files"])
    return {}
