"""Compressed transcripts, unpacked as a stream and only as far as their size makes sense; an extra."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from refold.errors import FormatError, RefoldError

RATIO: Final = 400
"""How many times larger than its file a transcript may be; JSON lines shrink by 5 to 50."""
LEAST: Final = 48 << 20
"""Bytes that any file may hold, whatever its size."""
MOST: Final = 8 << 30
_STEP: Final = 256
"""Compressed bytes at a time: four of them may hold 128 KB, so that one step gives 8 MB at most."""
_GIVEN: Final = 1 << 20
"""Bytes that Python's own machine gives at a time; it can stop in the middle."""
_WINDOW: Final = 27
"""The largest window, as a power of two, that the format's own tools take without being asked."""


class Torn(Exception):
    """A file that ends in the middle of a frame; never leaves this room."""


def unpacked(blocks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The bytes behind compressed ones; a bomb is a `FormatError`, a file without its end is `Torn`."""
    limit = min(max(LEAST, size * RATIO), MOST)
    given = 0
    for block in _engine()(blocks):
        given += len(block)
        if given > limit:
            raise FormatError(f"unpacks to more than {limit:,} bytes from {size:,}: this is no transcript")
        yield block


def _engine() -> Callable[[Iterable[bytes]], Iterator[bytes]]:
    """Python's own zstd where it has one (from 3.14 on), else the extra."""
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return _with_extra
    return lambda blocks: _with_own(blocks, zstd)


def _with_own(blocks: Iterable[bytes], zstd: Any) -> Iterator[bytes]:
    machine = _own(zstd)
    fed = False
    try:
        for block in blocks:
            rest = block
            while rest:
                fed = True
                yield machine.decompress(rest, _GIVEN)
                while not machine.needs_input and not machine.eof:
                    yield machine.decompress(b"", _GIVEN)
                rest = machine.unused_data if machine.eof else b""
                machine, fed = (_own(zstd), False) if machine.eof else (machine, fed)
    except zstd.ZstdError as error:
        raise Torn(str(error)) from None
    if fed:
        raise Torn("ends in the middle of a frame")


def _own(zstd: Any) -> Any:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW})


def _with_extra(blocks: Iterable[bytes]) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise RefoldError("this transcript is compressed: pip install 'refold[zstd]' to read it") from None
    machine = zstandard.ZstdDecompressor(max_window_size=1 << _WINDOW)
    frame, fed = machine.decompressobj(), False
    try:
        for block in blocks:
            for at in range(0, len(block), _STEP):
                rest = block[at : at + _STEP]
                while rest:
                    fed = True
                    yield frame.decompress(rest)
                    rest = frame.unused_data if frame.eof else b""
                    frame, fed = (machine.decompressobj(), False) if frame.eof else (frame, fed)
    except zstandard.ZstdError as error:
        raise Torn(str(error)) from None
    if fed:
        raise Torn("ends in the middle of a frame")
