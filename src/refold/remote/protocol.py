"""JSON-RPC 2.0 as values: requests, responses and error codes. Does no input and no output.

-32700  not JSON                      -32001  no such session
-32600  not a request                 -32002  somebody else appended first
-32601  no such method                -32003  the provider refused twice for size
-32602  wrong parameters              -32004  does not fit after every stage
-32603  a fault of refold             -32005  a model did not answer
-32800  cancelled                     -32006  an error of the store
                                      -32000  any other error of refold
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

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
