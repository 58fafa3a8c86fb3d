"""Server-sent events out of bytes, however they are cut; knows the framing alone, not what events mean.

Lines end with CR, LF or CRLF. Text is decoded a line at a time, so that a character may be cut anywhere.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_END: Final = re.compile(rb"\r\n|\n|\r")
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    """One event."""

    data: str
    name: str = ""


class Frames:
    r"""A stream of events that is being read.

    >>> frames = Frames()
    >>> [*frames.feed(b"data: o"), *frames.feed(b"ne\r"), *frames.feed(b"\n\r\n")]
    [Event(data='one', name='')]
    """

    __slots__ = ("_after_cr", "_data", "_first", "_name", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._data: list[str] = []
        self._name = ""
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that these bytes complete."""
        if not chunk:
            return
        if self._after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        begun, *rest = _END.split(chunk)
        self._pieces.append(begun)
        for line in rest:
            whole, self._pieces = b"".join(self._pieces), [line]
            yield from self._line(whole)

    def close(self) -> Iterator[Event]:
        """The event that the end of the stream completes: many servers leave out the last empty line."""
        whole, self._pieces = b"".join(self._pieces), []
        yield from self._line(whole)
        yield from self._line(b"")

    def _line(self, line: bytes) -> Iterator[Event]:
        if self._first:
            line, self._first = line.removeprefix(_BOM), False
        if not line:
            if any(self._data):
                yield Event("\n".join(self._data), self._name)
            self._data, self._name = [], ""
            return
        field, _, value = line.decode("utf-8", "replace").partition(":")
        if field == "data":
            self._data.append(value.removeprefix(" "))
        elif field == "event":
            self._name = value.removeprefix(" ")
