"""Answers of the inspector: JSON, errors, and the headers that every answer has."""

import json
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script';"
    " trusted-types 'none'"
)
"""What the page may do: nothing but its own files, and no HTML made from text."""
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
"""Headers of every answer; those of files replace the last one."""
STATUSES: Final[Mapping[str, int]] = {
    "bad-request": 400,
    "origin": 403,
    "read-only": 403,
    "not-found": 404,
    "method": 405,
    "conflict": 409,
    "too-large": 413,
    "content-type": 415,
    "refused": 422,
    "fault": 500,
    "busy": 503,
}


class ApiError(Exception):
    """Why a request is not answered; its message is one sentence for people."""

    def __init__(self, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.code, self.message, self.headers = code, message, headers

    def to_response(self) -> web.Response:
        """Return the answer that says so."""
        body = {"error": {"code": self.code, "message": self.message}}
        return answer_json(body, status=STATUSES[self.code], headers=self.headers)


def answer_json(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a value as JSON; a lone surrogate is written as its escape."""
    text = json.dumps(value, separators=(",", ":"))
    return answer_bytes(text.encode(), "application/json", status=status, headers=headers)


def answer_text(text: str, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a text that no browser takes for anything else."""
    body = text.encode("utf-8", "backslashreplace")
    return answer_bytes(body, "text/plain; charset=utf-8", status=status, headers=headers)


def answer_bytes(
    body: bytes, kind: str, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return bytes of a kind."""
    return web.Response(
        body=body, status=status, headers={**HEADERS, "Content-Type": kind, **(headers or {})}
    )
