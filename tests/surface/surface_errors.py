"""Errors of providers: refusals for size in every wording that is known, and errors that only look like one."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

TEXTS: list[str] = json.loads(
    (Path(__file__).parent / "frozen" / "refusals.json").read_text(encoding="utf-8")
)
"""One real message for each way of refusing."""


class BadRequestError(Exception):
    """An error as an SDK raises it: a status, a body and a response."""

    def __init__(self, message: str, status: int, body: Any = None) -> None:
        super().__init__(message)
        self.status_code = status
        self.body = body
        self.response = SimpleNamespace(status_code=status, text=message, headers={})


def _caused(outer: Exception, inner: Exception) -> Exception:
    outer.__cause__ = inner
    return outer


_LONG = "prompt is too long: 213462 tokens > 200000 maximum"
_OPENAI = (
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 150000 tokens."
)

ERRORS: dict[str, Any] = {f"text {number:03}": text for number, text in enumerate(TEXTS)} | {
    "nothing": "",
    "none": None,
    "number": 413,
    "rate limit": "Rate limit reached for gpt-4o: Limit 30000 tokens per minute, requested 45000 tokens",
    "rate limit 429": BadRequestError("Too many tokens, please wait before trying again.", 429),
    "output too long": "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens",
    "bytes": "Request body too large: 32MB exceeds the limit of 20MB",
    "key": BadRequestError("Incorrect API key provided", 401),
    "file": FileNotFoundError("no such file: context_length.txt"),
    "timeout": TimeoutError("timed out"),
    "exception": BadRequestError(_LONG, 400),
    "413": BadRequestError("Payload Too Large", 413),
    "empty 400": BadRequestError("400 status code (no body)", 400),
    "cause": _caused(RuntimeError("the turn failed"), BadRequestError(_OPENAI, 400)),
    "group": ExceptionGroup("several", [ValueError("x"), BadRequestError(_OPENAI, 400)]),
    "dict": {"type": "error", "error": {"type": "invalid_request_error", "message": _LONG}},
    "openai body": {
        "error": {"message": _OPENAI, "type": "invalid_request_error", "code": "context_length_exceeded"}
    },
    "gemini body": {
        "error": {
            "code": 400,
            "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "status": "INVALID_ARGUMENT",
        }
    },
    "llama body": {
        "error": {
            "code": 400,
            "message": "the request exceeds the available context size",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 9001,
            "n_ctx": 4096,
        }
    },
    "bytes of a body": json.dumps({"error": {"message": _OPENAI}}).encode(),
    "finish": {"stop_reason": "model_context_window_exceeded"},
    "list": [{"error": {"message": _LONG}}],
    "event stream": 'event: error\ndata: {"type":"error","error":{"message":"' + _LONG + '"}}\n\n',
    "said by a user": {"role": "user", "content": "what does `prompt is too long` mean?"},
    "answer": {"choices": [{"message": {"content": "context length is fine"}, "finish_reason": "stop"}]},
}
