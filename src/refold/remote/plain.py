"""Values of ours as plain data that JSON can hold."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from refold.core.messages.message import Message
from refold.formats.shared import canonical
from refold.session.events import Event


def plain(value: Any) -> Any:
    """A value as JSON has it: dataclasses become objects, tuples become lists."""
    if isinstance(value, Message):
        return canonical.to_json(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    return value


def record(**values: Any) -> dict[str, Any]:
    """Named values as one object."""
    return {name: plain(value) for name, value in values.items()}


def event_of(event: Event) -> dict[str, Any]:
    """An event for other programs: the session by the name they know it by, and the window by Opal's."""
    told = event.as_dict()
    told = {"session_id": told.pop("session"), **told}
    return {**told, "context_window": told["window"]} if "window" in told else told
