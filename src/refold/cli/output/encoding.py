"""Values as JSON text: every field by its own name, half characters escaped, nothing lost in silence."""

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from refold.errors import FormatError

_HALVES: Final = re.compile("[\ud800-\udfff]")


def dumps(value: Any, *, indent: int | None = 2) -> str:
    """JSON text that UTF-8 can carry; a lone surrogate is written as its escape and reads back the same."""
    try:
        text = json.dumps(value, ensure_ascii=False, indent=indent)
    except RecursionError:
        raise FormatError("is nested deeper than can be written") from None
    return _HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def listed(messages: list[Any]) -> str:
    """A JSON list with a message on each line, so that two of them can be compared line by line."""
    if not messages:
        return "[]"
    return "[\n" + ",\n".join(dumps(message, indent=None) for message in messages) + "\n]"


def lines(messages: list[Any]) -> str:
    """JSON lines: a message on each."""
    return "\n".join(dumps(message, indent=None) for message in messages)


def plain(value: Any) -> Any:
    """A value of ours as plain data: dataclasses become objects, tuples become lists."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    return value
