"""Answers of our own, where a request goes no further: in the wire's shape, with the reason in a header."""

import json
from typing import Any, Final

from aiohttp import web

HEADER: Final = "x-refold-error"
_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "invalid_request_error",
    413: "request_too_large",
    426: "invalid_request_error",
    502: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""The words for these statuses in Anthropic's documentation of errors; OpenAI's clients read the status."""


class Refusal(Exception):
    """A request that gets an answer from us."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def to_response(self, upstream: str) -> web.Response:
        """Return the answer in the shape of the upstream's own errors."""
        body = json.dumps(describe_error(upstream, self.status, self.code, self.message))
        headers = {HEADER: self.code, **self.headers}
        response = web.Response(
            status=self.status, body=body.encode(), content_type="application/json", headers=headers
        )
        response.force_close()  # the body of the request may not have been read
        return response


def describe_error(upstream: str, status: int, code: str, message: str) -> dict[str, Any]:
    """Return the body of an error as the upstream's wire has it."""
    kind = _TYPES.get(status, "api_error")
    if upstream == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": f"refold: {message}"}}
    return {"error": {"message": f"refold: {message}", "type": kind, "param": None, "code": code}}


def write_error_event(wire: str, code: str, message: str) -> bytes:
    """Return an event that ends a stream whose upstream was lost."""
    if wire == "anthropic":
        value = describe_error("anthropic", 502, code, message)
    elif wire == "responses":
        value = {"type": "error", "code": code, "message": f"refold: {message}", "param": None}
    else:
        value = describe_error("openai", 502, code, message)
    name = "" if wire == "openai" else "event: error\n"
    return f"{name}data: {json.dumps(value)}\n\n".encode()
