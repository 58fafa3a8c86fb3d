"""Objects of SDKs and frameworks as plain JSON: what has `model_dump` or `to_dict`, and dataclasses."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final

from refold.core.messages.message import Message

_DUMPS: Final = (
    ("model_dump", {"mode": "json", "by_alias": True, "exclude_unset": True}),
    ("model_dump", {}),
    ("to_dict", {}),
)
"""How a value gives its JSON, in this order. A model's own JSON has the provider's names, and only what was
sent; a `model_dump` that is not pydantic's may take no options."""
_TOLD_APART_BY: Final = ("type", "role")
"""Fields that say what a value is; a model leaves them out where they have their default."""


def has_objects(value: Any) -> bool:
    """True if a value holds something that JSON and `refold.Message` do not have."""
    kind = type(value)
    if kind is dict:
        return any(map(has_objects, value.values()))
    if kind is list or kind is tuple:
        return any(map(has_objects, value))
    return not (value is None or isinstance(value, str | int | float | Message)) or isinstance(value, Enum)


def to_plain_value(value: Any, known: Mapping[int, tuple[Any, Any]], used: dict[int, tuple[Any, Any]]) -> Any:
    """Return a value with every object in it as plain JSON; what nobody can read stays as it is.

    known   objects that were read before with their JSON, by their ids
    used    gets those that are in this value
    """
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int | float | bytes | Message):
        return value
    if isinstance(value, dict):
        return {key: to_plain_value(item, known, used) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain_value(item, known, used) for item in value]
    key = id(value)
    if key not in used and key in known:
        used[key] = known[key]
    elif key not in used:
        dumped = _dump(value)
        # The object is kept beside its JSON, so that its id cannot become another object's.
        used[key] = (value, value if dumped is None else to_plain_value(dumped, known, used))
    return used[key][1]


def to_plain_messages(messages: Sequence[Any]) -> Sequence[Any]:
    """Return a list of messages as plain JSON; the same list if it has no objects."""
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        return messages
    if not any(map(has_objects, messages)):
        return messages
    used: dict[int, tuple[Any, Any]] = {}
    return [to_plain_value(item, {}, used) for item in messages]


def _dump(value: Any) -> dict[str, Any] | None:
    """Return the fields of an object; None if it has no way to give them."""
    for name, options in _DUMPS:
        if callable(dump := getattr(type(value), name, None)):
            with suppress(TypeError):
                dumped = dump(value, **options)
                if isinstance(dumped, dict):
                    return {**_told_apart(value, dumped), **dumped}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return dict(value) if isinstance(value, Mapping) else None


def _told_apart(value: Any, dumped: Mapping[str, Any]) -> dict[str, Any]:
    found = ((name, getattr(value, name, None)) for name in _TOLD_APART_BY if name not in dumped)
    return {name: word for name, word in found if isinstance(word, str)}

