"""Decompression of transcripts as a stream, limited so that a small file cannot fill the memory.

Python has a zstd decompressor from 3.14 on; before that the extra `refold[zstd]` is needed.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from refold.errors import FormatError, RefoldError, install_hint

MAX_RATIO: Final = 400
"""Most times that a transcript may be larger than its file; JSON lines shrink by 5 to 50."""
ALWAYS_ALLOWED: Final = 48 << 20
"""Bytes that any file may hold, however small it is."""
MAX_BYTES: Final = 8 << 30
_STEP: Final = 256
"""Compressed bytes per call of the extra: 4 of them may hold 128 KB, so one call returns 8 MB at most."""
_CHUNK: Final = 1 << 20
"""Bytes per call of Python's own decompressor, which can stop in the middle."""
_MAX_WINDOW_LOG: Final = 27
"""The largest window that the zstd tools accept without an option, as a power of two."""


class TruncatedFile(Exception):
    """The file ends in the middle of a frame; this error never leaves the package."""


def decompress(blocks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yield the bytes of a compressed file of that size.

    Raises `FormatError` for a decompression bomb and `TruncatedFile` for a file without its end.
    """
    limit = min(max(ALWAYS_ALLOWED, size * MAX_RATIO), MAX_BYTES)
    total = 0
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        decompressed = decompress_with_extra(blocks)
    else:
        decompressed = decompress_with_stdlib(blocks, zstd)
    for block in decompressed:
        total += len(block)
        if total > limit:
            raise FormatError(f"unpacks to more than {limit:,} bytes from {size:,}: this is no transcript")
        yield block


def decompress_with_stdlib(blocks: Iterable[bytes], zstd: Any) -> Iterator[bytes]:
    """Decompress with `compression.zstd`, given as an argument so that tests can replace it."""

    def feed(frame: Any, data: bytes) -> Iterator[bytes]:
        yield frame.decompress(data, _CHUNK)
        while not frame.needs_input and not frame.eof:
            yield frame.decompress(b"", _CHUNK)

    options = {zstd.DecompressionParameter.window_log_max: _MAX_WINDOW_LOG}
    return _decompress_frames(
        blocks, lambda: zstd.ZstdDecompressor(options=options), feed, zstd.ZstdError, step=_CHUNK
    )


def decompress_with_extra(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Decompress with the library `zstandard`."""
    try:
        import zstandard
    except ImportError:
        raise RefoldError(f"this transcript is compressed; to read it, {install_hint('zstd')}") from None
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << _MAX_WINDOW_LOG)
    return _decompress_frames(
        blocks,
        decompressor.decompressobj,
        lambda frame, data: (frame.decompress(data),),
        zstandard.ZstdError,
        step=_STEP,
    )


def _decompress_frames(
    blocks: Iterable[bytes],
    new_frame: Callable[[], Any],
    feed: Callable[[Any, bytes], Iterable[bytes]],
    error_type: type[Exception],
    *,
    step: int,
) -> Iterator[bytes]:
    """Decompress frame after frame; an appended file consists of several."""
    frame, is_open = new_frame(), False
    try:
        for block in blocks:
            for start in range(0, len(block), step):
                rest = block[start : start + step]
                while rest:
                    is_open = True
                    yield from feed(frame, rest)
                    rest = b""
                    if frame.eof:
                        rest, frame, is_open = frame.unused_data, new_frame(), False
    except error_type as error:
        raise TruncatedFile(str(error)) from None
    if is_open:
        raise TruncatedFile("ends in the middle of a frame")
