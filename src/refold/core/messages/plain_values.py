"""Objects of SDKs and frameworks as plain JSON: what has `model_dump` or `to_dict`, and dataclasses."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final, TypeVar

from refold.core.messages.message import Message
from refold.errors import FormatError

_Read = TypeVar("_Read")
TOO_DEEP: Final = "is nested too deep, or contains itself"
PLAIN_TYPES: Final = frozenset({str, int, float, bool, type(None)})
"""Types of values that hold no others; nearly all values in messages have one of them."""
_OPTIONS: Final = {"mode": "json", "by_alias": True}
"""How a pydantic model gives its JSON: under the provider's names."""
_QUIET: Final = {**_OPTIONS, "warnings": False}
"""The same where a model takes that option: pydantic warns about the parsed answers of the clients."""
_KIND_FIELDS: Final = ("type", "role")
"""Fields that say what a value is; a model leaves them out where they have their default."""


def has_objects(value: Any) -> bool:
    """True if a value holds something that JSON and `refold.Message` do not have, such as a tuple."""
    kind = type(value)
    if kind is dict or kind is list:
        try:
            for item in value.values() if kind is dict else value:
                if type(item) is not str and has_objects(item):  # most values are text
                    return True
        except RecursionError:
            raise FormatError(TOO_DEEP) from None
        return False
    if isinstance(value, Message):  # what its fields hold must have an end, too
        for part in (value, *value.parts):
            for name in ("meta", "extra", "arguments", "value"):
                has_objects(getattr(part, name, None))
        return False
    return not (value is None or isinstance(value, str | int | float)) or isinstance(value, Enum)


def to_plain_value(value: Any, known: Mapping[int, tuple[Any, Any]], used: dict[int, tuple[Any, Any]]) -> Any:
    """Return a value with every object in it as plain JSON; what nobody can read stays as it is.

    known   objects that were read before with their JSON, by their ids
    used    gets those that are in this value
    """
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | int | float | bytes | Message):
        return value
    try:
        if isinstance(value, dict):
            return {key: to_plain_value(item, known, used) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [to_plain_value(item, known, used) for item in value]
    except RecursionError:
        raise FormatError(TOO_DEEP) from None
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
    if not any(read_each(messages, has_objects)):
        return messages
    used: dict[int, tuple[Any, Any]] = {}
    return read_each(messages, lambda item: to_plain_value(item, {}, used))


def read_each(messages: Iterable[Any], read: Callable[[Any], _Read]) -> list[_Read]:
    """Return what is read of each message; an error names its place in the list."""
    found: list[_Read] = []
    try:
        found.extend(map(read, messages))
    except FormatError as error:
        problem = str(error).removeprefix(f"{error.path}: ")
        raise FormatError(problem, path=f"messages[{len(found)}]{error.path}") from None
    return found


def _dump(value: Any) -> dict[str, Any] | None:
    """Return the fields of an object; None if it has no way to give them."""
    for options in (_QUIET, _OPTIONS):
        dumped = _call(value, "model_dump", options, exclude_unset=True)
        if dumped is not None:
            return dict(_add_kinds(dumped, _call(value, "model_dump", options)))
    for name in ("model_dump", "to_dict"):
        if (dumped := _call(value, name, {})) is not None:
            return dumped
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return dict(value) if isinstance(value, Mapping) else None


def _call(value: Any, name: str, options: Mapping[str, Any], **more: bool) -> dict[str, Any] | None:
    """Return the object that a method gives; None if there is none, or it takes no options."""
    method = getattr(type(value), name, None)
    with suppress(TypeError):
        dumped = method(value, **options, **more) if callable(method) else None
        return dumped if isinstance(dumped, dict) else None
    return None


def _add_kinds(sent: Any, whole: Any) -> Any:
    """Add the fields that say what a value is from the whole value, at every depth."""
    if isinstance(sent, dict) and isinstance(whole, dict):
        names = (name for name in _KIND_FIELDS if isinstance(whole.get(name), str))
        known = {name: whole[name] for name in names}
        return {**known, **{key: _add_kinds(item, whole.get(key)) for key, item in sent.items()}}
    if isinstance(sent, list) and isinstance(whole, list):
        return [_add_kinds(*pair) for pair in zip(sent, whole, strict=True)]
    return sent
