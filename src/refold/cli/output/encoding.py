"""Values as JSON text: every field under its own name; what moves a terminal or is no UTF-8 is escaped."""

import json
import re
from typing import Any, Final

from refold.errors import FormatError

_ESCAPED: Final = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control and direction characters that JSON leaves as they are, and halves of a character."""
STRINGS_AND_CONSTANTS: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|(-?Infinity|NaN)', re.DOTALL)
"""Strings, and the words that Python takes for numbers though they are no JSON."""
_AS_JSON: Final = {"Infinity": "1e999", "-Infinity": "-1e999", "NaN": "null"}
"""Numbers beyond every float are legal JSON, and read back as infinite; nothing stands for NaN but null."""


def to_data(value: Any) -> Any:
    """Return a value as plain data, for JSON."""
    from refold.calls import plain_data  # the help of the program needs none

    return plain_data.to_data(value)


def dumps(value: Any, *, indent: int | None = 2) -> str:
    """JSON text that UTF-8 can carry and a terminal can show; what is escaped reads back the same."""
    try:
        text = json.dumps(value, ensure_ascii=False, indent=indent)
    except RecursionError:
        raise FormatError("is nested deeper than can be written") from None
    if "Infinity" in text or "NaN" in text:
        text = STRINGS_AND_CONSTANTS.sub(lambda found: _AS_JSON[found[1]] if found[1] else found[0], text)
    return _ESCAPED.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)


def dump_lines(messages: list[Any], separator: str = "\n") -> str:
    """JSON lines, one message on each."""
    return separator.join(dumps(message, indent=None) for message in messages)


def dump_list(messages: list[Any]) -> str:
    """Return a JSON list with one message per line, so that `diff` compares two of them line by line."""
    return "[\n" + dump_lines(messages, ",\n") + "\n]" if messages else "[]"
