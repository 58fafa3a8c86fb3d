"""refold's own form: lists of `Message` values, and a lossless JSON form of one message for logs.

The JSON form holds everything that takes part in a message's equality, but not the wire value it came from.
Sequences inside `meta` are tuples in Python and lists in JSON.
"""

from collections.abc import Callable, Mapping, Sequence
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
from refold.core.messages.plain_values import PLAIN_TYPES
from refold.core.messages.wire_rules import CANONICAL, Problem
from refold.errors import FormatError
from refold.formats import Format
from refold.formats.shared import checks
from refold.formats.shared.reading import (
    Misfit,
    expect_list,
    expect_object,
    json_type,
    optional_list,
    optional_text,
    read_blocks,
)

_PART_TYPES: Final[Mapping[str, type[Any]]] = {
    "text": Text,
    "image": Image,
    "document": Document,
    "file": File,
    "thinking": Thinking,
    "call": ToolCall,
    "result": ToolResult,
    "opaque": Opaque,
}
_KINDS: Final = {part_type: name for name, part_type in _PART_TYPES.items()}
_FIELDS: Final = {part_type: fields(part_type) for part_type in _KINDS}
_ROLES: Final[Mapping[str, Role]] = {role: role for role in get_args(Role)}


def recognise(item: Any) -> str:
    """Return `.parts` for a `Message` value: no JSON object is one."""
    return ".parts" if isinstance(item, Message) else ""


def parse(items: Sequence[Any]) -> tuple[Message, ...]:
    """Return the messages as they are."""
    expect_list(items, "messages")
    for index, item in enumerate(items):
        if not isinstance(item, Message):
            raise FormatError(f"expected a Message, found {json_type(item)}", path=f"messages[{index}]")
    return tuple(items)


def check(messages: Sequence[Message]) -> list[Problem]:
    """Report calls and results that do not belong together."""
    return checks.sort_problems(checks.pairs(messages, lambda message, _: not message.results))


def to_json(message: Message) -> dict[str, Any]:
    """Return a message as a JSON object; empty fields are left out.

    >>> to_json(Message("user", "hi"))
    {'role': 'user', 'parts': [{'kind': 'text', 'text': 'hi'}]}
    """
    value: dict[str, Any] = {"role": message.role, "parts": [_part_to_json(part) for part in message.parts]}
    for key in ("id", "name", "source"):
        if (field := getattr(message, key)) is not None:
            value[key] = field
    if message.meta:
        value["meta"] = _convert_sequences(message.meta, list)
    if message.pinned:
        value["pinned"] = True
    return value


def from_json(value: Any) -> Message:
    """Read a message back; raises `FormatError` with the path to what is wrong."""
    try:
        return _message_from_json(expect_object(value))
    except Misfit as misfit:
        raise FormatError(misfit.message, path=f"message{misfit.path}") from None
    except RecursionError:
        raise FormatError("is nested too deep", path="message") from None


def _part_to_json(part: Part) -> dict[str, Any]:
    value: dict[str, Any] = {"kind": _KINDS[type(part)]}
    for field in _FIELDS[type(part)]:
        content = getattr(part, field.name)
        if field.name == "content":
            content = [_part_to_json(inner) for inner in content]
        elif isinstance(content, Mapping) and not isinstance(content, dict):
            content = dict(content)
        if field.default is MISSING or content != field.default:
            # an opaque part has a kind of its own
            value["value_kind" if field.name == "kind" else field.name] = content
    return value


def _message_from_json(value: dict[str, Any]) -> Message:
    name = value.get("role")
    role = _ROLES.get(name) if isinstance(name, str) else None
    if role is None:
        raise Misfit(".role", f"expected one of {', '.join(_ROLES)}")
    meta = value.get("meta", EMPTY)
    if not isinstance(meta, Mapping):
        raise Misfit(".meta", f"expected an object, found {json_type(meta)}")
    pinned = value.get("pinned", False)
    if not isinstance(pinned, bool):
        raise Misfit(".pinned", f"expected a boolean, found {json_type(pinned)}")
    return Message(
        role,
        read_blocks(optional_list(value, "parts"), ".parts", _part_from_json),
        id=optional_text(value, "id"),
        name=optional_text(value, "name"),
        source=optional_text(value, "source"),
        meta=_convert_sequences(meta, tuple),
        pinned=pinned,
    )


def _part_from_json(value: dict[str, Any]) -> Part:
    name = value.get("kind")
    part_type = _PART_TYPES.get(name) if isinstance(name, str) else None
    if part_type is None:
        raise Misfit(".kind", f"expected one of {', '.join(_PART_TYPES)}")
    values: dict[str, Any] = {}
    for field in _FIELDS[part_type]:
        key = "value_kind" if field.name == "kind" else field.name
        if key not in value and field.default is not MISSING:
            continue
        if key == "content":
            values[key] = read_blocks(optional_list(value, key), f".{key}", _part_from_json)
            continue
        content = value.get(key)
        expected = {"extra": (Mapping,), "arguments": (str, Mapping), "is_error": (bool,)}.get(key, (str,))
        if key != "value" and not isinstance(content, expected):
            raise Misfit(f".{key}", f"found {json_type(content)}, which does not belong there")
        values[field.name] = content
    part: Part = part_type(**values)
    return part


def _convert_sequences(value: Any, make: Callable[[Sequence[Any]], Any]) -> Any:
    """Copy a value with every tuple and list in it made anew."""
    if isinstance(value, (tuple, list)):
        if PLAIN_TYPES.issuperset(map(type, value)):  # as the rows of facts, of which there are many
            return make(value)
        return make([_convert_sequences(inner, make) for inner in value])
    if isinstance(value, Mapping):
        return {key: _convert_sequences(inner, make) for key, inner in value.items()}
    return value


FORMAT: Final = Format(
    name="refold", shape=CANONICAL, recognise=recognise, parse=parse, render=list, check=check
)
