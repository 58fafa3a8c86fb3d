"""The time that a provider asks to wait before the next request; unreadable values mean none."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from math import isfinite


def read_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `retry-after` (seconds or a date); None if not given.

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
