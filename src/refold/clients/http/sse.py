"""Server-sent events from bytes, however they are cut; knows the framing only, not the meaning of events.

Lines end with CR, LF or CRLF. Text is decoded one line at a time, so that a character may be cut anywhere.
Decision 0021 says why no library does this.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream: its name and its data."""

    data: str
    name: str = ""


class SseParser:
    r"""Parses one stream of events.

    >>> parser = SseParser()
    >>> [*parser.feed(b"data: o"), *parser.feed(b"ne\r"), *parser.feed(b"\n\r\n")]
    [Event(data='one', name='')]
    """

    __slots__ = ("_after_cr", "_data", "_is_first", "_name", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._data: list[str] = []
        self._name = ""
        self._after_cr = False
        self._is_first = True

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that these bytes complete."""
        if not chunk:
            return
        if self._after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        begun, *rest = _LINE_END.split(chunk)
        self._pieces.append(begun)
        for next_begun in rest:
            line, self._pieces = b"".join(self._pieces), [next_begun]
            yield from self._end_line(line)

    def close(self) -> Iterator[Event]:
        """Yield the event that the end of the stream completes: many servers omit the last empty line."""
        line, self._pieces = b"".join(self._pieces), []
        yield from self._end_line(line)
        yield from self._end_line(b"")

    def _end_line(self, line: bytes) -> Iterator[Event]:
        if self._is_first:
            line, self._is_first = line.removeprefix(_BOM), False
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
