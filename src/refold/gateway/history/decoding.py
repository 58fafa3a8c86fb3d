"""Bodies that came compressed: decoded within a bound, so that a small body cannot fill the memory."""

import zlib

from refold.errors import RefoldError
from refold.gateway.http.refusals import Refusal
from refold.transcripts.zstd import TruncatedFile, decompress


def decode_body(body: bytes, encoding: str, max_bytes: int) -> bytes | None:
    """Return a body as it was before it was compressed; None if it cannot be read here.

    It is then passed on as it is, without a look at its history.
    """
    encoding = encoding.strip().lower()
    try:
        if encoding in ("", "identity"):
            return body
        if encoding in ("gzip", "x-gzip"):
            return _inflate(body, zlib.MAX_WBITS | 16, max_bytes)
        if encoding == "deflate":
            return _inflate(body, zlib.MAX_WBITS, max_bytes)
        if encoding == "zstd":
            return _decode_zstd(body, max_bytes)
    except (zlib.error, ValueError):
        return None
    return None


def _inflate(body: bytes, window: int, max_bytes: int) -> bytes:
    reader = zlib.decompressobj(window)
    text = reader.decompress(body, max_bytes + 1)
    if len(text) > max_bytes:
        raise _too_large(max_bytes)
    if not reader.eof or reader.unused_data:
        raise ValueError("the body is cut, or something follows it")
    return text


def _decode_zstd(body: bytes, max_bytes: int) -> bytes | None:
    pieces: list[bytes] = []
    size = 0
    try:
        for piece in decompress([body], len(body)):
            size += len(piece)
            if size > max_bytes:
                raise _too_large(max_bytes)
            pieces.append(piece)
    except (RefoldError, TruncatedFile):  # no library for it, or a body that is none
        return None
    return b"".join(pieces)


def _too_large(max_bytes: int) -> Refusal:
    return Refusal(413, "body-size", f"the body is larger than {max_bytes:,} bytes when decoded")
