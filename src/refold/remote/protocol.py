r"""JSON-RPC 2.0 without input and output: framing of messages, requests, responses and error codes.

A stream of bytes holds one JSON value a line, or each behind a Content-Length; the first byte decides.

{"jsonrpc": "2.0", ...}\n                          a line, as most programs write it
Content-Length: 42\r\n\r\n{"jsonrpc": ...}         a header, as language servers write it

-32700  not JSON                      -32001  no such session
-32600  not a request                 -32002  somebody else appended first
-32601  no such method                -32003  the provider refused twice for size
-32602  wrong parameters              -32004  does not fit after every stage
-32603  a fault of refold             -32005  a model did not answer
-32800  cancelled                     -32006  an error of the store
                                      -32000  any other error of refold
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final, Literal, NoReturn

from refold.errors import (
    AnswerFailed,
    Conflict,
    DoesNotFit,
    FormatError,
    InvalidConversation,
    Overflow,
    RefoldError,
    SessionNotFound,
    StoreError,
)

# -32700 to -32600 are the protocol's own (jsonrpc.org); language servers use -32800 for a cancelled call.
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
NO_METHOD: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL: Final = -32603
CANCELLED: Final = -32800
REFUSED: Final = -32000
_CODES: Final[tuple[tuple[type[RefoldError], int], ...]] = (
    (SessionNotFound, -32001),
    (Conflict, -32002),
    (Overflow, -32003),
    (DoesNotFit, -32004),
    (AnswerFailed, -32005),
    (StoreError, -32006),
    (FormatError, INVALID_PARAMS),
    (InvalidConversation, INVALID_PARAMS),
)
_DATA: Final = (
    *("provider", "limit", "requested", "tokens", "room", "breakdown", "path", "index", "rule"),
    *("expected", "found", "entry", "line"),
)
"""Attributes of errors that a client gets as data, so that nobody parses messages."""


class Failure(Exception):
    """An error of a request, with its code."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    def as_dict(self) -> dict[str, Any]:
        """Return the error object of the protocol."""
        data = {"data": dict(self.data)} if self.data else {}
        return {"code": self.code, "message": str(self), **data}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request, or a notification, which gets no answer."""

    method: str
    params: Mapping[str, Any] | list[Any] = field(default_factory=dict)
    id: str | float | None = None
    notification: bool = False


def parse_call(value: Any) -> Call:
    """Parse a JSON value as a call; raises `Failure` if it is not one."""
    if not isinstance(value, dict):
        raise Failure(INVALID_REQUEST, "a request is an object")
    if value.get("jsonrpc") != "2.0":
        raise Failure(INVALID_REQUEST, 'a request says "jsonrpc": "2.0"')
    method, params, id_ = value.get("method"), value.get("params", {}), value.get("id")
    if not isinstance(method, str):
        raise Failure(INVALID_REQUEST, "a request names a method")
    if not isinstance(params, dict | list):
        raise Failure(INVALID_REQUEST, "params are an object or a list")
    if not is_id(id_):
        raise Failure(INVALID_REQUEST, "an id is a text or a number")
    return Call(method=method, params=params, id=id_, notification="id" not in value)


def is_id(value: Any) -> bool:
    """True if a value may be the id of a request."""
    return value is None or (isinstance(value, str | int | float) and not isinstance(value, bool))


def read_id(value: Any) -> Any:
    """Return the id of a value that may not be a proper request; None if it has none."""
    id_ = value.get("id") if isinstance(value, dict) else None
    return id_ if is_id(id_) else None


def format_result(id_: Any, result: Any) -> dict[str, Any]:
    """Make the response of a call."""
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def format_error(id_: Any, failure: Failure) -> dict[str, Any]:
    """Make the response of a call that failed."""
    return {"jsonrpc": "2.0", "id": id_, "error": failure.as_dict()}


def format_notification(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Make a notification."""
    return {"jsonrpc": "2.0", "method": method, "params": dict(params)}


def to_failure(error: Exception) -> Failure:
    """Turn an error into a failure, with its code and its data."""
    if isinstance(error, Failure):
        return error
    if not isinstance(error, RefoldError):
        return Failure(INTERNAL, f"this is a fault of refold: {type(error).__name__}: {error}")
    code = next((code for kind, code in _CODES if isinstance(error, kind)), REFUSED)
    data = {name: getattr(error, name) for name in _DATA if hasattr(error, name)}
    message = error.args[0] if error.args else type(error).__name__  # a KeyError's text has quotes around it
    return Failure(code, str(message), {"kind": type(error).__name__, **data})


# -- framing ---------------------------------------------------------------------------------------------

MOST_BYTES: Final = 64 * 1024 * 1024
"""Largest message: far above any request with images. Longer ones are refused and skipped, not kept."""
_LENGTH: Final = re.compile(rb"^content-length\s*:\s*(\d{1,12})\s*$", re.IGNORECASE | re.MULTILINE)
# Headers of real clients have under 100 bytes; without a limit a stream without one would fill the memory.
_MOST_HEADER: Final = 8_192


@dataclass(frozen=True, slots=True)
class UnreadableMessage:
    """A message that cannot be read, and the reason."""

    why: str
    large: bool = False


@dataclass(slots=True)
class MessageFramer:
    r"""Cuts a stream of bytes into messages, and formats messages in the style of the other side.

    >>> frames = MessageFramer()
    >>> [*frames.feed(b'{"id": 1}\n[2'), *frames.feed(b']\n')]
    [{'id': 1}, [2]]
    """

    most: int = MOST_BYTES
    style: Literal["", "lines", "headers"] = ""
    """The framing that the other side uses, as soon as it is known; answers use the same."""
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
