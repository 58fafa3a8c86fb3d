"""Typed access to untrusted JSON: a field of the wrong type reads as empty instead of raising."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from refold.core.tokens.usage import MAX_REPORTED_TOKENS, Usage

_FIRST_MILLISECONDS: Final = 1e11
"""Larger numbers are milliseconds: as seconds this one is in the year 5138, as milliseconds in 1973."""
_MAX_SECONDS: Final = 1e10
TITLE: Final = 120
"""Characters of a title that is made from the first words of a conversation: one line of a list."""


def as_object(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> Sequence[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else ()


def text_at(value: Any, *keys: str) -> str:
    """Return the first of these fields that is a string and not empty; empty if there is none."""
    if isinstance(value, dict):
        for key in keys:
            text = value.get(key)
            if text and isinstance(text, str):
                return text
    return ""


def number_at(value: Any, *keys: str) -> int:
    """Return the first of these fields that is a plausible size; 0 if there is none."""
    for key in keys:
        number = as_object(value).get(key)
        if (
            isinstance(number, int | float)
            and not isinstance(number, bool)
            and 0 < number <= MAX_REPORTED_TOKENS
        ):
            return int(number)
    return 0


def to_seconds(value: Any) -> float:
    """Return a time (ISO text, seconds or milliseconds) as seconds since the epoch; 0 if it is no time.

    >>> to_seconds("1970-01-01T00:01:00Z"), to_seconds(1_700_000_000_000), to_seconds("x")
    (60.0, 1700000000.0, 0.0)
    """
    if isinstance(value, str):
        try:
            time = datetime.fromisoformat(value)
            return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError, OSError):
            return 0.0
    if not isinstance(value, int | float) or isinstance(value, bool):
        return 0.0
    seconds = value / 1000 if value > _FIRST_MILLISECONDS else float(value)
    return seconds if 0 < seconds < _MAX_SECONDS else 0.0


def to_usage(*, fresh: int, output: int, read: int, write: int = 0) -> Usage | None:
    """Return a usage report whose cached tokens are counted beside the fresh ones; None if it is empty."""
    total = fresh + read + write
    if not 0 < total <= MAX_REPORTED_TOKENS:
        return None
    return Usage(input=total, output=output, cache_read=read, cache_write=write)


def make_title(text: str) -> str:
    """Return the beginning of a text in one line; empty if there are no words."""
    return " ".join(text[: TITLE * 4].split())[:TITLE]


def content_text(content: Any) -> str:
    """Return the text of a content that is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(text for block in as_list(content) if (text := text_at(block, "text")))


def to_json_text(value: Any) -> str:
    """Return a value as JSON text; a string is returned as it is."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps({} if value is None else value, ensure_ascii=False)
    except RecursionError:
        return "{}"
