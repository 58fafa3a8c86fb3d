"""Values of refold as plain data that JSON can hold."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from refold.core.messages.message import Message
from refold.formats.shared import canonical
from refold.session.events import Event


def to_plain(value: Any) -> Any:
    """Turn a value into plain data: dataclasses become objects, tuples become lists."""
    if isinstance(value, Message):
        return canonical.to_json(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(item) for item in value]
    return value


def plain_record(**values: Any) -> dict[str, Any]:
    """Make one object of named values."""
    return {name: to_plain(value) for name, value in values.items()}


def event_to_plain(event: Event) -> dict[str, Any]:
    """Turn an event into plain data, with `session_id` and `context_window`, as other agents call them."""
    values = event.as_dict()
    values = {"session_id": values.pop("session"), **values}
    return {**values, "context_window": values["window"]} if "window" in values else values
