"""Writes a result: to standard output, or to a file that is there whole or not at all."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from refold.cli.exit_status import Refused, WrongUse, reason
from refold.cli.input.sources import STDIN, Source
from refold.cli.output.screen import Screen

_OWN = 0o600


def destination(source: Source, out: str | None, *, in_place: bool) -> Path | None:
    """The file to write, or None for standard output; the input only where that was asked for."""
    if in_place:
        if out is not None:
            raise WrongUse("--in-place and -o exclude each other: choose one")
        if source.transcript is not None:
            raise WrongUse(f"--in-place: {source.name} is a transcript, which stays as it is: use -o")
        if source.path is None:
            raise WrongUse("--in-place needs a file: standard input cannot be written back")
        return Path(os.path.realpath(source.path))
    if out is None or out == STDIN:
        return None
    path = Path(os.path.realpath(out))
    if path.is_dir():
        raise WrongUse(f"{out} is a directory: name a file in it")
    if source.path is not None and path.exists() and path.samefile(source.path):
        raise WrongUse(f"{out} is the input itself: say --in-place to replace it (a backup is kept)")
    return path


def write(text: str, path: Path | None, screen: Screen, source: Source) -> None:
    """Write text that ends with a newline."""
    if path is None:
        screen.data(text)
        return
    raw = text.encode("utf-8")
    try:
        if path.exists() and not path.is_file():  # a device or a pipe is written, never replaced
            path.write_bytes(raw)
        else:
            _replace(path, raw, path if path.exists() else source.path)
    except OSError as error:
        raise Refused(f"cannot write {path}: {reason(error)}") from None


def back_up(path: Path, raw: bytes) -> Path:
    """Keep the bytes of a file beside it under a name that nobody has yet."""
    number = 0
    while True:
        kept = path.with_name(f"{path.name}.bak" + (f".{number}" if number else ""))
        if not kept.exists():
            break
        number += 1
    try:
        _replace(kept, raw, path)
    except OSError as error:
        raise Refused(f"cannot write the backup {kept}: {reason(error)}; nothing was changed") from None
    return kept


def _replace(path: Path, raw: bytes, like: Path | None) -> None:
    """Put a file in its place in one step, with the permissions of another where there is one."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        if like is not None:
            shutil.copymode(like, name)
        else:
            Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def _umask() -> int:
    mask = os.umask(_OWN)
    os.umask(mask)
    return mask
