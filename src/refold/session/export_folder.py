"""Write the files of an export into a folder; knows whose export a folder holds, and deletes no message.

All files are written under hidden names first and renamed at the end, the one that names the session last.
An export that was killed leaves hidden files, which the next export recognises as its own.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

from refold.errors import StoreError
from refold.formats.systems.file_forms import MARKERS, is_export_file

_PRIVATE: Final = 0o600
_HIDDEN: Final = re.compile(r"\.(.+)\.[0-9]+")
"""Name of a file that is being written: the name it will have, and the process that writes it."""


def write_export(folder: Path, files: Mapping[str, str], session: str) -> None:
    """Write all files of an export; a folder with another session's export or other files is refused.

    A file of an earlier export that is not written again, or a part with other messages, is kept under a
    name that ends with `.old`.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_others(folder, session)
        leftovers = list(_hidden_files(folder))
        encoded = {folder / name: text.encode() for name, text in files.items()}
        same = {
            path.relative_to(folder).as_posix()
            for path, data in encoded.items()
            if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data
        }
        written = {
            name: _write_hidden(folder / name, text) for name, text in files.items() if name not in same
        }
        for path in (*folder.glob("*"), *folder.glob("history/*")):
            name = path.relative_to(folder).as_posix()
            # A file stays if it is written again, a part only if its messages are the same.
            stays = name in same or (name in files and "/" not in name)
            if is_export_file(name) and not stays:
                old = (path.with_name(f"{path.name}.old{number or ''}") for number in count())
                path.rename(next(other for other in old if not other.exists()))
        for name in sorted(written, key=lambda name: name in MARKERS):
            written[name].replace(folder / name)
        for path in leftovers:
            if path not in written.values():
                path.unlink(missing_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        why = getattr(error, "strerror", None) or error
        raise StoreError(f"{folder} cannot be written: {why}") from error


def find_archive(folder: str | os.PathLike[str], session: str) -> str:
    """Return the folder of a session's archive; raises `StoreError` if it holds anything else."""
    path = Path(folder).expanduser()
    if path.is_file():
        raise StoreError(f"{path} is a file, not a folder")
    if path.exists():
        _refuse_others(path, session)
    return path.as_posix()


def _refuse_others(folder: Path, session: str) -> None:
    """Raise `StoreError` unless the folder is empty or holds an export of this session."""
    hidden = list(_hidden_files(folder))
    if not {*folder.iterdir(), *folder.glob("history/*")} - {folder / "history", *hidden}:
        return
    markers = [folder / name for name in MARKERS]
    markers += [path for path in hidden if _HIDDEN.sub(r"\1", path.name) in MARKERS]
    owners = [_read_session(path) for path in markers if path.exists()]
    if not owners:
        raise StoreError(f"{folder} holds other files: export into a new folder")
    if session not in owners:
        owner = f"session {owners[0]!r}" if owners[0] is not None else "an unknown session"
        raise StoreError(
            f"{folder} holds the export of {owner}, not of {session!r}: export into a new folder"
        )


def _read_session(path: Path) -> str | None:
    """Return the session that a file of an export names; None if it cannot be read."""
    value: Any = None
    with suppress(OSError, ValueError, RecursionError):
        value = json.loads(path.read_bytes())
    if isinstance(value, list):  # the tagged list keeps it in its first item
        value = value[0].get("refold") if value and isinstance(value[0], dict) else None
    session = value.get("session") if isinstance(value, dict) else None
    return session if isinstance(session, str) else None


def _hidden_files(folder: Path) -> Iterator[Path]:
    """Yield the files that an export has not renamed: it was killed, or is at work now."""
    for path in (*folder.glob(".*"), *folder.glob("history/.*")):
        name = path.with_name(_HIDDEN.sub(r"\1", path.name)).relative_to(folder).as_posix()
        if _HIDDEN.fullmatch(path.name) and is_export_file(name) and path.is_file():
            yield path


def _write_hidden(target: Path, text: str) -> Path:
    target.parent.mkdir(mode=0o700, exist_ok=True)
    path = target.with_name(f".{target.name}.{os.getpid()}")
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE), "wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
    return path
