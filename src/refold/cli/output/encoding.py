"""Values as JSON text: every field under its own name, lone surrogates escaped."""

import json
import re
from typing import Any, Final

from refold.errors import FormatError

_LONE_SURROGATES: Final = re.compile("[\ud800-\udfff]")
STRINGS_AND_CONSTANTS: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|(-?Infinity|NaN)', re.DOTALL)
"""Strings, and the words that Python takes for numbers though they are no JSON."""
_AS_JSON: Final = {"Infinity": "1e999", "-Infinity": "-1e999", "NaN": "null"}
"""Numbers beyond every float are legal JSON, and read back as infinite; nothing stands for NaN but null."""


def to_data(value: Any) -> Any:
    """Return a value as plain data, for JSON."""
    from refold.calls import plain_data  # the help of the program needs none

    return plain_data.to_data(value)


def dumps(value: Any, *, indent: int | None = 2) -> str:
    """JSON text that UTF-8 can carry; a lone surrogate is written as its escape and reads back the same."""
    try:
        text = json.dumps(value, ensure_ascii=False, indent=indent)
    except RecursionError:
        raise FormatError("is nested deeper than can be written") from None
    if "Infinity" in text or "NaN" in text:
        text = STRINGS_AND_CONSTANTS.sub(lambda found: _AS_JSON[found[1]] if found[1] else found[0], text)
    return _LONE_SURROGATES.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def dump_lines(messages: list[Any], separator: str = "\n") -> str:
    """JSON lines, one message on each."""
    return separator.join(dumps(message, indent=None) for message in messages)


def dump_list(messages: list[Any]) -> str:
    """Return a JSON list with one message per line, so that `diff` compares two of them line by line."""
    return "[\n" + dump_lines(messages, ",\n") + "\n]" if messages else "[]"
