"""Reasons why a model gave no answer, in words, and whether a second attempt may help; no network."""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any, Final

from refold.core.messages.message import read_json
from refold.core.overflow.detect import overflow
from refold.errors import Overflow

MAX_MESSAGE_CHARS: Final = 200
"""Characters of a provider's own message that are quoted. One sentence fits; more would fill receipts."""
_TRANSIENT: Final = frozenset({408, 409, 425, 429})
"""Statuses below 500 after which the same request may succeed: time-out, conflict, too early, rate limit."""
_MEANINGS: Final = {
    401: "refused the key",
    402: "wants to be paid",
    403: "refused access",
    404: "does not know this model or address",
    429: "is asked too often",
}
_UNSUPPORTED: Final = re.compile(
    r"unsupported|not supported|does not support|unrecognized|unrecognised|unknown|deprecated"
    r"|extra inputs|not permitted|not allowed|unexpected|only the default",
    re.IGNORECASE,
)
"""Words with which servers of OpenAI, Anthropic, Google and pydantic refuse one parameter."""


class Failure(Exception):
    """The reason why there is no answer; stays inside `clients`, where it becomes an `AnswerFailed`."""

    def __init__(
        self,
        reason: str,
        *,
        is_transient: bool = False,
        retry_after: float | None = None,
        is_timeout: bool = False,
        cause: Exception | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_transient = is_transient
        """True if a second attempt may help."""
        self.retry_after = retry_after
        """Seconds that the provider asked to wait."""
        self.is_timeout = is_timeout
        self.cause = cause

    def redact(self, key: str) -> None:
        """Make the reason one line without the key, which a server may have quoted."""
        reason = "".join(sign if sign.isprintable() else " " for sign in self.reason)
        self.reason = reason.replace(key, "[key]") if key else reason
        self.args = (self.reason,)


def explain_refusal(
    status: int, body: bytes, *, provider: str | None, wait: float | None, key: str
) -> Failure:
    """Explain a status other than 200; `key` is the variable that the key is read from."""
    if size := _explain_overflow({"status": status, "body": body}, provider):
        return size
    if 300 <= status < 400:
        return Failure(f"redirects elsewhere ({status}), which is not followed: give the address it leads to")
    meaning = _MEANINGS.get(status, "failed" if status >= 500 else "refused the question")
    if status in (401, 403):  # the body may quote the key
        return Failure(f"{meaning} ({status}): check {key}")
    message = error_message(body)
    is_transient = status in _TRANSIENT or 500 <= status <= 599
    reason = f"{meaning} ({status})" + (f": {message}" if message else "")
    return Failure(reason, is_transient=is_transient, retry_after=wait)


def explain_error(value: Any, provider: str | None) -> Failure:
    """Explain an error that a server reports inside a response with status 200."""
    message = error_message(value)
    return _explain_overflow(value, provider) or Failure(
        "failed while answering" + (f": {message}" if message else "")
    )


def _explain_overflow(value: Any, provider: str | None) -> Failure | None:
    """Explain a refusal for size; None if something else is wrong."""
    info = overflow(value, provider=provider)
    if info is None:
        return None
    requested = f"{info.requested:,} tokens" if info.requested else ""
    limit = f"limit {info.limit:,}" if info.limit else ""
    numbers = ", ".join(filter(None, (requested, limit)))
    cause = Overflow(info.provider, info.limit, info.requested)
    return Failure("refused the question for its size" + (f" ({numbers})" if numbers else ""), cause=cause)


def find_unsupported(body: bytes, names: tuple[str, ...]) -> frozenset[str]:
    """Return the optional parameters that a refusal objects to."""
    words = body[:20_000].decode("utf-8", "replace")
    if not _UNSUPPORTED.search(words):
        return frozenset()
    return frozenset(name for name in names if re.search(rf"\b{name}\b", words))


def error_message(value: Any) -> str:
    r"""Return the message of a provider, as one short line; "" for a page of HTML or nothing.

    >>> error_message(b'{"error": {"message": "model is\\nloading"}}')
    'model is loading'
    """
    if isinstance(value, bytes):
        text = value.decode("utf-8", "replace").strip()
        if text[:1] == "<":
            return ""
        value = read_json(text, text)
    for _ in range(5):  # deeper than any known server nests its message
        if isinstance(value, list):
            value = value[0] if value else ""
        elif isinstance(value, dict):
            value = next((value[key] for key in ("error", "message", "detail", "msg") if value.get(key)), "")
    return " ".join(value.split())[:MAX_MESSAGE_CHARS] if isinstance(value, str) else ""


def read_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds to wait, from `retry-after-ms` or `retry-after` (seconds or a date); else None.

    >>> [read_retry_after(headers, 0.0) for headers in ({"retry-after": "7"}, {"retry-after-ms": "250"}, {})]
    [7.0, 0.25, None]
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    seconds = _number(value)
    if seconds is not None or not value:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, OverflowError, TypeError):
        return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) and value >= 0 else None
