"""Results as plain data, for JSON: every field under its own name."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


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
