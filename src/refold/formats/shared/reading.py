"""How a wire value is looked at before it is trusted; knows JSON and no provider.

Readers take one value and raise `Misfit` with the way to what is wrong in it; the outermost loop turns that
into a `FormatError` with the whole path. Nothing here looks deeper than it was told to, so that values of
any depth are carried by reference.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from refold.core.messages.message import EMPTY, Message, Opaque, Part, Role, Wire
from refold.errors import FormatError
from refold.formats.shared.summaries import mark
from refold.formats.shared.writing import WHOLE

_WORDS: Final = ((bool, "a boolean"), (str, "a string"), (int, "a number"), (float, "a number"))
_NEAREST: Final[Mapping[str, Role]] = {
    "model": "assistant",
    "ai": "assistant",
    "bot": "assistant",
    "gpt": "assistant",
    "developer": "system",
}


class Misfit(Exception):
    """A value of another shape than expected; never leaves this room."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


def kind(value: Any) -> str:
    """Say what a value is, in JSON's words."""
    if value is None:
        return "null"
    for known, word in _WORDS:
        if isinstance(value, known):
            return word
    return (
        "an object"
        if isinstance(value, dict)
        else "a list"
        if isinstance(value, list)
        else type(value).__name__
    )


def read_items(name: str, items: Any, read: Callable[[dict[str, Any]], Message]) -> tuple[Message, ...]:
    """Read every item of a history; errors say where they are."""
    if isinstance(items, (str, bytes, bytearray)) or not isinstance(items, Sequence):
        raise FormatError(f"expected a list of {name} messages, found {kind(items)}", path="messages")
    messages: list[Message] = []
    for index, item in enumerate(items):
        try:
            messages.append(read(an_object(item)))
        except Misfit as misfit:
            raise FormatError(misfit.message, path=f"messages[{index}]{misfit.path}") from None
    return mark(messages)


def read_each(values: list[Any], path: str, read: Callable[[dict[str, Any]], Part]) -> tuple[Part, ...]:
    """Read every block of a list."""
    parts: list[Part] = []
    for index, value in enumerate(values):
        try:
            parts.append(read(an_object(value)))
        except Misfit as misfit:
            raise Misfit(f"{path}[{index}]{misfit.path}", misfit.message) from None
    return tuple(parts)


def an_object(value: Any) -> dict[str, Any]:
    """Expect a JSON object."""
    if not isinstance(value, dict):
        raise Misfit("", f"expected an object, found {kind(value)}")
    return value


def object_at(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Expect a JSON object in a field."""
    found = value.get(key)
    if not isinstance(found, dict):
        raise Misfit(f".{key}", _expected("an object", value, key))
    return found


def text_at(value: Mapping[str, Any], key: str, at: str = "") -> str:
    """Expect a string in a field; `at` is the way to the value it is a field of."""
    found = value.get(key)
    if not isinstance(found, str):
        raise Misfit(f"{at}.{key}", _expected("a string", value, key))
    return found


def maybe_text(value: Mapping[str, Any], key: str, at: str = "") -> str | None:
    """Give a field's string; None where it is missing or null."""
    found = value.get(key)
    if found is not None and not isinstance(found, str):
        raise Misfit(f"{at}.{key}", _expected("a string", value, key))
    return found


def maybe_list(value: Mapping[str, Any], key: str) -> list[Any]:
    """Give a field's list; an empty one where it is missing or null."""
    found = value.get(key)
    if found is None:
        return []
    if not isinstance(found, list):
        raise Misfit(f".{key}", _expected("a list", value, key))
    return found


def type_of(value: Mapping[str, Any]) -> str:
    """Give the `type` of a block, or nothing where it has none that can be compared."""
    found = value.get("type")
    return found if isinstance(found, str) else ""


def fields_besides(value: Mapping[str, Any], known: frozenset[str]) -> Mapping[str, Any]:
    """Give the fields that the format does not know."""
    if value.keys() <= known:
        return EMPTY
    return {key: found for key, found in value.items() if key not in known}


def carried(name: str, item: dict[str, Any], role: Role, what: str) -> Message:
    """Carry an item that is not understood, whole."""
    parts = (Opaque(what, item),)
    return Message(role, parts, wire=Wire(name, item, parts, (item,)))


def unknown_role(name: str, item: dict[str, Any], role: str) -> Message:
    """Carry a message of a role that the format does not know, as the nearest one."""
    return carried(name, item, _NEAREST.get(role.lower(), "user"), f"{WHOLE}{role}")


def role_at(item: Mapping[str, Any]) -> str:
    """Expect a role."""
    return text_at(item, "role")


def data_url(url: str) -> tuple[str, str] | None:
    """Split an inline base64 address into media type and data.

    >>> data_url("data:image/png;base64,iVBO")
    ('image/png', 'iVBO')
    """
    if not url.startswith("data:"):
        return None
    comma = url.find(",", 0, 200)
    if comma < 0 or not url.endswith(";base64", 0, comma):
        return None
    return url[len("data:") : comma - len(";base64")], url[comma + 1 :]


def _expected(what: str, value: Mapping[str, Any], key: str) -> str:
    return f"expected {what}, found {kind(value[key])}" if key in value else f"is missing; expected {what}"
