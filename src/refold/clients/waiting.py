"""What a provider says about when to ask again; hostile values say nothing."""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from math import isfinite


def wait_of(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `retry-after` (seconds or a date); None where not told.

    >>> wait_of({"retry-after": "7"}, 0.0), wait_of({"retry-after-ms": "250"}, 0.0), wait_of({}, 0.0)
    (7.0, 0.25, None)
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    told = headers.get("retry-after", "")
    seconds = _number(told)
    return seconds if seconds is not None else _until(told, now)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) and value >= 0 else None


def _until(text: str, now: float) -> float | None:
    if not text:
        return None
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError, TypeError):
        return None
