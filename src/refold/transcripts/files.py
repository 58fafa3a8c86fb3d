"""Bytes of a transcript file that may grow, move or be compressed while it is read; never writes.

At most as many bytes are read as the file had when it was opened, so that a busy writer is not followed for
ever. Pipes, devices and sockets are not opened at all.
"""

import codecs
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from refold.errors import FormatError

ZST: Final = ".zst"
_BLOCK: Final = 1 << 20
_FLAGS: Final = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)
"""Non-blocking: opening a pipe without a writer would wait for one."""


@dataclass(frozen=True, slots=True)
class TranscriptFile:
    """An open file, with its size and time when it was opened."""

    path: Path
    file: BinaryIO
    size: int
    changed: float

    @property
    def compressed(self) -> bool:
        """True if it is compressed with zstd."""
        return self.path.suffix == ZST

    def blocks(self) -> Iterator[bytes]:
        """Yield its bytes, decompressed if it is compressed; text in UTF-16 as UTF-8."""
        if not self.compressed:
            return to_utf8(self.raw_blocks())
        from refold.transcripts.zstd import decompress

        return to_utf8(decompress(self.raw_blocks(), self.size))

    def raw_blocks(self) -> Iterator[bytes]:
        """Yield its bytes as they are on the disk, up to the size it had when it was opened."""
        left = self.size
        while left > 0 and (block := self.file.read(min(_BLOCK, left))):
            left -= len(block)
            yield block


def to_utf8(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a text as UTF-8; PowerShell writes UTF-16, with a mark at the beginning."""
    rest = iter(blocks)
    head = b""
    while len(head) < len(codecs.BOM_UTF16_LE) and (block := next(rest, None)) is not None:
        head += block
    if not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield from chain([head], rest)
        return
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    for block in chain([head], rest):
        yield decoder.decode(block).encode()
    yield decoder.decode(b"", final=True).encode()


@contextmanager
def open_transcript(path: str | os.PathLike[str]) -> Iterator[TranscriptFile]:
    """Open a transcript; one that was just compressed or decompressed is opened under its other name."""
    first = Path(path)
    other = first.with_suffix("") if first.suffix == ZST else first.with_name(first.name + ZST)
    try:
        actual, handle = first, _open_plain_file(first)
    except FileNotFoundError:
        try:
            actual, handle = other, _open_plain_file(other)
        except FileNotFoundError:
            raise FileNotFoundError(2, "there is no such file", str(first)) from None
    with os.fdopen(handle, "rb", buffering=0) as file:
        about = os.fstat(file.fileno())
        yield TranscriptFile(actual, file, about.st_size, about.st_mtime)


def _open_plain_file(path: Path) -> int:
    try:
        is_file = stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        raise
    except OSError as error:  # a circle of links, or a folder without permission
        raise FormatError(f"cannot be read: {error.strerror or error}", path=str(path)) from None
    handle = os.open(path, _FLAGS) if is_file else None
    # the path may have been replaced between the two calls, so the open file is asked again
    if handle is not None and stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    if handle is not None:
        os.close(handle)
    raise FormatError("is no file: a transcript is read from a file", path=str(path))
