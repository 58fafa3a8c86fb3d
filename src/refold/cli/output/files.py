"""Writes a result to standard output, or to a file that is complete or absent, never half written."""

import contextlib
import os
import tempfile
from itertools import count
from pathlib import Path
from typing import Final

from refold.cli.exit_status import Refused, WrongUse, describe_os_error
from refold.cli.output.screen import Screen

_PRIVATE: Final = 0o600
"""Permissions of a new file, as of stores and exports: it holds a conversation."""


def choose_destination(out: str | None, source: Path | None, *, in_place: bool = False) -> Path | None:
    """Return the file to write, or None for standard output; the input itself only with `in_place`."""
    if in_place:
        if out is not None:
            raise WrongUse("--in-place and -o exclude each other: choose one")
        if source is None:
            raise WrongUse("--in-place needs a file: standard input cannot be written back")
        path = Path(os.path.realpath(source))
        if not _mode_of(path) & 0o222:  # a new file in its place needs no right to write it
            raise Refused(f"{source} is write-protected: chmod u+w {source}, or -o OUT; nothing was changed")
        return path
    if out is None or out == "-":
        return None
    path = Path(os.path.realpath(out))
    if path.is_dir():
        raise WrongUse(f"{out or 'the empty name'} is a directory: name a file in it")
    if source is not None and path.exists() and path.samefile(source):
        raise WrongUse(f"{out} is the input itself: use --in-place to replace it (a backup is kept)")
    return path


def write_result(text: str, path: Path | None, screen: Screen) -> None:
    """Write text that ends with a newline; a new file is readable by its owner alone."""
    if path is None:
        screen.data(text)
        return
    raw = text.encode("utf-8")
    try:
        if path.exists() and not path.is_file():  # a device or a pipe is written, never replaced
            path.write_bytes(raw)
        else:
            _replace(path, raw, _mode_of(path) if path.exists() else _PRIVATE)
    except OSError as error:
        raise Refused(f"cannot write {path}: {describe_os_error(error)}") from None


def back_up(path: Path, raw: bytes) -> Path:
    """Keep the bytes of a file beside it, under the first name that is free."""
    names = (path.with_name(f"{path.name}.bak" + (f".{number}" if number else "")) for number in count())
    backup = next(name for name in names if not name.exists())
    try:
        _replace(backup, raw, _mode_of(path))
        os.utime(backup, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    except OSError as error:
        why = describe_os_error(error)
        raise Refused(f"cannot write the backup {backup}: {why}; nothing was changed") from None
    return backup


def _mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def _replace(path: Path, raw: bytes, mode: int) -> None:
    """Replace a file in one step; it gets these permissions."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
