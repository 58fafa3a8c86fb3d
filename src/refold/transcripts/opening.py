"""The bytes of a transcript: of a file that may grow, move or be compressed while it is read; never written.

As many bytes are read as there were when the file was opened, so that a writer is never chased. What is no
file (a pipe, a device, a socket) is not opened at all.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from refold.errors import FormatError

ZST: Final = ".zst"
_BLOCK: Final = 1 << 20
_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)
"""Without waiting: a pipe that nobody writes to would be waited for until somebody does."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An open file and what was known of it then."""

    path: Path
    file: BinaryIO
    size: int
    changed: float

    @property
    def compressed(self) -> bool:
        """Whether it is compressed with zstd."""
        return self.path.suffix == ZST

    def blocks(self) -> Iterator[bytes]:
        """Its bytes up to the size it had when it was opened, unpacked where it is compressed."""
        if not self.compressed:
            yield from self.stored()
            return
        from refold.transcripts.zstd import unpacked

        yield from unpacked(self.stored(), self.size)

    def stored(self) -> Iterator[bytes]:
        """Its bytes as they are on the disk."""
        left = self.size
        while left > 0 and (block := self.file.read(min(_BLOCK, left))):
            left -= len(block)
            yield block


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Opened]:
    """Open a transcript; one that has just been compressed or unpacked is found under its other name."""
    first = Path(path)
    other = first.with_suffix("") if first.suffix == ZST else first.with_name(first.name + ZST)
    try:
        found, handle = first, _handle(first)
    except FileNotFoundError:
        try:
            found, handle = other, _handle(other)
        except FileNotFoundError:
            raise FileNotFoundError(2, "there is no such file", str(first)) from None
    with os.fdopen(handle, "rb", buffering=0) as file:
        about = os.fstat(file.fileno())
        yield Opened(found, file, about.st_size, about.st_mtime)


def _handle(path: Path) -> int:
    if not is_file(path):
        raise FormatError("is no file: a transcript is read from a file", path=str(path))
    handle = os.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(handle).st_mode):  # it was a file a moment ago
        os.close(handle)
        raise FormatError("is no file: a transcript is read from a file", path=str(path))
    return handle


def is_file(path: Path) -> bool:
    """Whether a path leads to a plain file; opening anything else may wait for ever, or do something."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        raise
    except OSError as error:  # links that lead round, a folder that may not be entered
        raise FormatError(f"cannot be read: {error.strerror or error}", path=str(path)) from None
