r"""JSON values in a stream of bytes: one a line, or each behind its Content-Length; the first byte tells.

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
"""What one message may have; longer ones are refused and skipped without being held."""
_LENGTH: Final = re.compile(rb"^content-length\s*:\s*(\d{1,12})\s*$", re.IGNORECASE | re.MULTILINE)
_MOST_HEADER: Final = 8_192


@dataclass(frozen=True, slots=True)
class Unread:
    """A message that cannot be read, and why."""

    why: str
    large: bool = False


@dataclass(slots=True)
class Frames:
    r"""A stream of messages that is being read.

    >>> frames = Frames()
    >>> [*frames.feed(b'{"id": 1}\n[2'), *frames.feed(b']\n')]
    [{'id': 1}, [2]]
    """

    most: int = MOST_BYTES
    style: Literal["", "lines", "headers"] = ""
    """How the other side writes, as soon as that is known; answers are written alike."""
    _held: bytearray = field(default_factory=bytearray)
    _skip: int = 0
    """Bytes that are still to be passed over; -1 for the rest of a line."""

    def feed(self, chunk: bytes) -> Iterator[Any]:
        """The messages that these bytes complete; one that cannot be read is an `Unread`."""
        self._held += chunk
        if not self.style and (begun := self._held.lstrip()):
            self.style = "headers" if begun[:1] in b"cC" else "lines"
        while self.style:
            found = self._line() if self.style == "lines" else self._framed()
            if found is None:
                return
            yield from found

    def close(self) -> Iterator[Any]:
        """What stands behind the last newline: the end of the stream ends it as well."""
        rest = bytes(self._held).strip()
        self._held.clear()
        if rest and self._skip == 0 and self.style == "lines":
            yield parsed(rest)
        elif rest and self._skip == 0:
            yield Unread("the stream ends in the middle of a message")

    def written(self, value: Any) -> bytes:
        """A message as the other side reads it."""
        body = json.dumps(value, separators=(",", ":")).encode("ascii")  # halves of characters as escapes
        if self.style == "headers":
            return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        return body + b"\n"

    def _line(self) -> list[Any] | None:
        end = self._held.find(b"\n")
        if end < 0:
            if len(self._held) <= self.most and self._skip == 0:
                return None
            first = self._skip == 0
            self._held.clear()
            self._skip = -1
            return [self._too_large()] if first else None
        line = bytes(self._held[:end]).strip()
        del self._held[: end + 1]
        if self._skip:
            self._skip = 0
            return []
        if len(line) > self.most:
            return [self._too_large()]
        return [parsed(line)] if line else []

    def _framed(self) -> list[Any] | None:
        if self._skip:
            passed = min(self._skip, len(self._held))
            del self._held[:passed]
            self._skip -= passed
            return [] if self._skip == 0 else None
        header = re.search(rb"\r?\n\r?\n", self._held[:_MOST_HEADER])
        if header is None:
            if len(self._held) < _MOST_HEADER:
                return None
            self._held.clear()
            return [Unread("a header has no end")]
        length = _LENGTH.search(bytes(self._held[: header.start()]).replace(b"\r", b""))
        if length is None:
            del self._held[: header.end()]
            return [Unread("a header has no Content-Length")]
        size = int(length[1])
        if size > self.most:
            del self._held[: header.end()]
            self._skip = size
            return [self._too_large()]
        if len(self._held) < header.end() + size:
            return None
        body = bytes(self._held[header.end() : header.end() + size])
        del self._held[: header.end() + size]
        return [parsed(body)]

    def _too_large(self) -> Unread:
        return Unread(f"a message may have {self.most:,} bytes", large=True)


def parsed(raw: bytes) -> Any:
    """The value of a text, or an `Unread`."""
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        return Unread("not JSON")


def _finite(word: str) -> float:
    """A number that can be written again; 1e999 cannot."""
    number = float(word)
    if not isfinite(number):
        raise ValueError(word)
    return number


def _no_constant(word: str) -> NoReturn:
    raise ValueError(word)
