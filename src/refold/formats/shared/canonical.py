"""Our own form: lists of `Message` values, and a lossless JSON form of one message for logs.

The JSON form holds everything that takes part in a message's equality, not the wire value it came from.
Sequences inside `meta` are tuples on this side and lists in JSON.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, Final, get_args

from refold.core.messages.message import (
    EMPTY,
    Document,
    File,
    Image,
    Message,
    Opaque,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.core.messages.wire_rules import CANONICAL, Problem
from refold.errors import FormatError
from refold.formats import Format
from refold.formats.shared import checks
from refold.formats.shared.reading import Misfit, an_object, kind, maybe_list, maybe_text

_KINDS: Final[Mapping[str, type[Any]]] = {
    "text": Text,
    "image": Image,
    "document": Document,
    "file": File,
    "thinking": Thinking,
    "call": ToolCall,
    "result": ToolResult,
    "opaque": Opaque,
}
_NAMES: Final = {made: name for name, made in _KINDS.items()}
_FIELDS: Final = {made: fields(made) for made in _NAMES}
_ROLES: Final[Mapping[str, Role]] = {role: role for role in get_args(Role)}


def recognise(item: Any) -> str:
    """Find a `Message` value: no JSON object has parts of its own kind."""
    return ".parts" if isinstance(item, Message) else ""


def parse(items: Sequence[Any]) -> tuple[Message, ...]:
    """Take messages as they are."""
    if isinstance(items, (str, bytes, bytearray)) or not isinstance(items, Sequence):
        raise FormatError(f"expected a list of messages, found {kind(items)}", path="messages")
    for index, item in enumerate(items):
        if not isinstance(item, Message):
            raise FormatError(f"expected a Message, found {kind(item)}", path=f"messages[{index}]")
    return tuple(items)


def render(messages: Sequence[Message]) -> list[Any]:
    """Give messages as they are."""
    return list(messages)


def check(messages: Sequence[Message]) -> list[Problem]:
    """Say which calls and results do not belong together."""
    return checks.in_order(checks.pairs(messages, lambda message, _: not message.results))


def to_json(message: Message) -> dict[str, Any]:
    """Give a message as a JSON object; fields that say nothing are left out.

    >>> to_json(Message("user", "hi"))
    {'role': 'user', 'parts': [{'kind': 'text', 'text': 'hi'}]}
    """
    value: dict[str, Any] = {"role": message.role, "parts": [_part_to_json(part) for part in message.parts]}
    for key in ("id", "name", "source"):
        if (found := getattr(message, key)) is not None:
            value[key] = found
    if message.meta:
        value["meta"] = _thawed(message.meta)
    if message.pinned:
        value["pinned"] = True
    return value


def from_json(value: Any) -> Message:
    """Read a message back; raises `FormatError` with the path to what is wrong."""
    try:
        return _message_from_json(an_object(value))
    except Misfit as misfit:
        raise FormatError(misfit.message, path=f"message{misfit.path}") from None
    except RecursionError:
        raise FormatError("is nested too deep", path="message") from None


def _part_to_json(part: Part) -> dict[str, Any]:
    made = type(part)
    value: dict[str, Any] = {"kind": _NAMES[made]}
    for each in _FIELDS[made]:
        found = getattr(part, each.name)
        if each.name == "content":
            found = [_part_to_json(inner) for inner in found]
        elif isinstance(found, Mapping) and not isinstance(found, dict):
            found = dict(found)
        if each.default is MISSING or found != each.default:
            # an opaque part has a kind of its own
            value["value_kind" if each.name == "kind" else each.name] = found
    return value


def _message_from_json(value: dict[str, Any]) -> Message:
    word = value.get("role")
    role = _ROLES.get(word) if isinstance(word, str) else None
    if role is None:
        raise Misfit(".role", f"expected one of {', '.join(_ROLES)}")
    meta = value.get("meta", EMPTY)
    if not isinstance(meta, Mapping):
        raise Misfit(".meta", f"expected an object, found {kind(meta)}")
    pinned = value.get("pinned", False)
    if not isinstance(pinned, bool):
        raise Misfit(".pinned", f"expected a boolean, found {kind(pinned)}")
    return Message(
        role,
        _parts(value, "parts"),
        id=maybe_text(value, "id"),
        name=maybe_text(value, "name"),
        source=maybe_text(value, "source"),
        meta=_frozen(meta),
        pinned=pinned,
    )


def _parts(value: dict[str, Any], key: str) -> tuple[Part, ...]:
    parts: list[Part] = []
    for index, found in enumerate(maybe_list(value, key)):
        try:
            parts.append(_part_from_json(an_object(found)))
        except Misfit as misfit:
            raise Misfit(f".{key}[{index}]{misfit.path}", misfit.message) from None
    return tuple(parts)


def _part_from_json(value: dict[str, Any]) -> Part:
    name = value.get("kind")
    made = _KINDS.get(name) if isinstance(name, str) else None
    if made is None:
        raise Misfit(".kind", f"expected one of {', '.join(_KINDS)}")
    given: dict[str, Any] = {}
    for each in _FIELDS[made]:
        key = "value_kind" if each.name == "kind" else each.name
        if key in value or each.default is MISSING:
            given[each.name] = _field(value, key)
    part: Part = made(**given)
    return part


def _field(value: dict[str, Any], key: str) -> Any:
    """Read one field of a part; its name says what it is."""
    if key == "value":
        return value.get(key)
    if key == "content":
        return _parts(value, key)
    found = value.get(key)
    right = {"extra": (Mapping,), "arguments": (str, Mapping), "is_error": (bool,)}.get(key, (str,))
    if not isinstance(found, right):
        raise Misfit(f".{key}", f"found {kind(found)}, which does not belong there")
    return found


def _thawed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _thawed(found) for key, found in value.items()}
    return [_thawed(found) for found in value] if isinstance(value, (tuple, list)) else value


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _frozen(found) for key, found in value.items()}
    return tuple(_frozen(found) for found in value) if isinstance(value, (tuple, list)) else value


FORMAT: Final = Format(
    name="refold", shape=CANONICAL, recognise=recognise, parse=parse, render=render, check=check
)
