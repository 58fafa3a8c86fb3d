"""Values as JSON text: every field under its own name, lone surrogates escaped."""

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from refold.errors import FormatError

_LONE_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def dumps(value: Any, *, indent: int | None = 2) -> str:
    """JSON text that UTF-8 can carry; a lone surrogate is written as its escape and reads back the same."""
    try:
        text = json.dumps(value, ensure_ascii=False, indent=indent)
    except RecursionError:
        raise FormatError("is nested deeper than can be written") from None
    return _LONE_SURROGATES.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def dump_lines(messages: list[Any], separator: str = "\n") -> str:
    """JSON lines, one message on each."""
    return separator.join(dumps(message, indent=None) for message in messages)


def dump_list(messages: list[Any]) -> str:
    """Return a JSON list with one message per line, so that `diff` compares two of them line by line."""
    return "[\n" + dump_lines(messages, ",\n") + "\n]" if messages else "[]"


def to_data(value: Any) -> Any:
    """Return a value as plain data: dataclasses become objects, tuples and sets become lists."""
    if is_dataclass(value) and not isinstance(value, type):
        from refold.core.compaction.budget import Breakdown  # the help of the program needs none

        if isinstance(value, Breakdown):  # its parts add up, and most have no unlisted one
            return value.as_dict()
        return {field.name: to_data(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_data(item) for item in value]
    return value
