r"""JSON values in a stream of bytes: one a line, or each behind a Content-Length; the first byte decides.

{"jsonrpc": "2.0", ...}\n                          a line, as most programs write it
Content-Length: 42\r\n\r\n{"jsonrpc": ...}         a header, as language servers write it
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final, Literal, NoReturn

MOST_BYTES: Final = 64 * 1024 * 1024
"""Largest message: far above any request with images. Longer ones are refused and skipped, not kept."""
_LENGTH: Final = re.compile(rb"^content-length\s*:\s*(\d{1,12})\s*$", re.IGNORECASE | re.MULTILINE)
_MOST_HEADER: Final = 8_192


@dataclass(frozen=True, slots=True)
class UnreadableMessage:
    """A message that cannot be read, and the reason."""

    why: str
    large: bool = False


@dataclass(slots=True)
class MessageFramer:
    r"""Cuts a stream of bytes into messages, and formats messages in the style of the other side.

    >>> frames = Frames()
    >>> [*frames.feed(b'{"id": 1}\n[2'), *frames.feed(b']\n')]
    [{'id': 1}, [2]]
    """

    most: int = MOST_BYTES
    style: Literal["", "lines", "headers"] = ""
    """How the other side writes, as soon as that is known; answers are written in the same way."""
    _buffer: bytearray = field(default_factory=bytearray)
    _skip: int = 0
    """Bytes that are still to be skipped; -1 for the rest of a line."""

    def feed(self, chunk: bytes) -> Iterator[Any]:
        """Yield the messages that these bytes complete; an unreadable one as `UnreadableMessage`."""
        self._buffer += chunk
        if not self.style and (begun := self._buffer.lstrip()):
            self.style = "headers" if begun[:1] in b"cC" else "lines"
        while self.style:
            messages = self._take_line() if self.style == "lines" else self._take_framed()
            if messages is None:
                return
            yield from messages

    def close(self) -> Iterator[Any]:
        """Yield what stands behind the last line feed: the end of the stream ends it as well."""
        rest = bytes(self._buffer).strip()
        self._buffer.clear()
        if rest and self._skip == 0 and self.style == "lines":
            yield parse_json(rest)
        elif rest and self._skip == 0:
            yield UnreadableMessage("the stream ends in the middle of a message")

    def format(self, value: Any) -> bytes:
        """Format a message in the style of the other side."""
        body = json.dumps(value, separators=(",", ":")).encode("ascii")  # lone surrogates become escapes
        if self.style == "headers":
            return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        return body + b"\n"

    def _take_line(self) -> list[Any] | None:
        end = self._buffer.find(b"\n")
        if end < 0:
            if len(self._buffer) <= self.most and self._skip == 0:
                return None
            first = self._skip == 0
            self._buffer.clear()
            self._skip = -1
            return [self._too_large()] if first else None
        line = bytes(self._buffer[:end]).strip()
        del self._buffer[: end + 1]
        if self._skip:
            self._skip = 0
            return []
        if len(line) > self.most:
            return [self._too_large()]
        return [parse_json(line)] if line else []

    def _take_framed(self) -> list[Any] | None:
        if self._skip:
            passed = min(self._skip, len(self._buffer))
            del self._buffer[:passed]
            self._skip -= passed
            return [] if self._skip == 0 else None
        header = re.search(rb"\r?\n\r?\n", self._buffer[:_MOST_HEADER])
        if header is None:
            if len(self._buffer) < _MOST_HEADER:
                return None
            self._buffer.clear()
            return [UnreadableMessage("a header has no end")]
        length = _LENGTH.search(bytes(self._buffer[: header.start()]).replace(b"\r", b""))
        if length is None:
            del self._buffer[: header.end()]
            return [UnreadableMessage("a header has no Content-Length")]
        size = int(length[1])
        if size > self.most:
            del self._buffer[: header.end()]
            self._skip = size
            return [self._too_large()]
        if len(self._buffer) < header.end() + size:
            return None
        body = bytes(self._buffer[header.end() : header.end() + size])
        del self._buffer[: header.end() + size]
        return [parse_json(body)]

    def _too_large(self) -> UnreadableMessage:
        return UnreadableMessage(f"a message may have {self.most:,} bytes", large=True)


def parse_json(raw: bytes) -> Any:
    """Parse a message; an `UnreadableMessage` if it is not JSON, or has NaN or 1e999, which JSON has not."""

    def refuse(word: str) -> NoReturn:
        raise ValueError(word)

    def parse_float(word: str) -> float:
        return number if isfinite(number := float(word)) else refuse(word)

    try:
        return json.loads(raw.decode("utf-8"), parse_constant=refuse, parse_float=parse_float)
    except (ValueError, RecursionError):
        return UnreadableMessage("not JSON")
