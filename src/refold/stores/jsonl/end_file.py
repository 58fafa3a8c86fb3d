"""The last head of a session in a file of its own: a log that was cut between two rows is noticed by it.

These files lie in the folder `.ends`. The log is the truth. Its end is written after it and never synced, so
it may be behind. Where it is ahead, the log has lost rows. The file has one row, which is overwritten.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from refold.stores import Head
from refold.stores.jsonl.rows import format_row, parse_row

_ROW_BYTES: Final = 128
"""Size of the row, so that no rest of an older one stays behind it; two long numbers need half of it."""


def end_path(path: Path) -> Path:
    """Return the file that belongs to a log."""
    return path.parent / ".ends" / path.stem


def write_end(path: Path, head: Head) -> None:
    """Write the head of a log, which is locked; a failure is ignored, because the log itself is written."""
    row = format_row({"version": head.version, "said": head.said})
    with suppress(OSError):
        file = _open(end_path(path))
        try:
            os.pwrite(file, row.ljust(_ROW_BYTES, b"\n"), 0)
        finally:
            os.close(file)


def _open(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(0o700)
        return os.open(path, flags, 0o600)


def describe_cut(path: Path, version: int) -> str:
    """Describe what a log lost at its end, by the version of the head that it has now; "" for nothing."""
    try:
        row = parse_row(end_path(path).read_bytes().partition(b"\n")[0]) or {}
    except OSError:
        return ""
    stored = row.get("version", 0)
    if not isinstance(stored, int) or stored <= version:
        return ""
    lost = stored - version
    writes = "the last write is" if lost == 1 else f"the last {lost:,} writes are"
    return f"{path.name} was cut off: {writes} missing; the session had {row.get('said'):,} messages"
