"""Typed access to wire values for the readers of all formats; knows JSON and no provider.

A reader takes one value and raises `Misfit` with the path to what is wrong in it. The outermost loop turns
that into a `FormatError` with the whole path. Nothing looks deeper than its caller asked, so values of any
depth are carried by reference.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from refold.core.messages.message import EMPTY, Document, File, Image, Message, Opaque, Part, Role, Text, Wire
from refold.core.messages.quick_init import quick_new
from refold.errors import FormatError
from refold.formats.shared.summaries import mark_summaries
from refold.formats.shared.writing import UNKNOWN_ROLE

T = TypeVar("T")
ReadBlock: TypeAlias = Callable[[dict[str, Any]], Part]
make_message, make_wire, make_text = quick_new(Message), quick_new(Wire), quick_new(Text)
REFUSAL: Final[Mapping[str, Any]] = {"type": "refusal"}
"""In `Text.extra`: OpenAI's models refused with these words."""
_TEXT_FIELDS: Final = frozenset({"type", "text"})
_TYPE_NAMES: Final = {
    type(None): "null",
    bool: "a boolean",
    str: "a string",
    int: "a number",
    float: "a number",
    dict: "an object",
    list: "a list",
}
_NEAREST_ROLES: Final[Mapping[str, Role]] = {
    "model": "assistant",
    "ai": "assistant",
    "bot": "assistant",
    "gpt": "assistant",
    "developer": "system",
}


class Misfit(Exception):
    """A value has another shape than expected; this error never leaves the package."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


def json_type(value: Any) -> str:
    """Return the JSON name of a value's type.

    >>> json_type(True), json_type([]), json_type(object())
    ('a boolean', 'a list', 'object')
    """
    # subclasses count as their base, so that an enum of strings is a string
    return next(
        (_TYPE_NAMES[base] for base in type(value).__mro__ if base in _TYPE_NAMES), type(value).__name__
    )


def expect_list(items: Any, what: str) -> None:
    """Raise `FormatError` if the value is not a sequence of messages."""
    if type(items) is list:  # most are; to ask an abstract class takes longer
        return
    if isinstance(items, (str, bytes, bytearray)) or not isinstance(items, Sequence):
        raise FormatError(f"expected a list of {what}, found {json_type(items)}", path="messages")


def read_items(name: str, items: Any, read: Callable[[dict[str, Any]], Message]) -> tuple[Message, ...]:
    """Read every item of a history and mark the summaries in it."""
    expect_list(items, f"{name} messages")
    messages: list[Message] = []
    for index, item in enumerate(items):
        try:
            messages.append(read(item if type(item) is dict else expect_object(item)))
        except Misfit as misfit:
            raise FormatError(misfit.message, path=f"messages[{index}]{misfit.path}") from None
    return mark_summaries(messages)


def read_blocks(values: list[Any], path: str, read: ReadBlock) -> tuple[Part, ...]:
    """Read every block of a list; `path` leads to the list."""
    parts: list[Part] = []
    for index, value in enumerate(values):
        try:
            parts.append(read(value if type(value) is dict else expect_object(value)))
        except Misfit as misfit:
            raise Misfit(f"{path}[{index}]{misfit.path}", misfit.message) from None
    return tuple(parts)


def read_content(
    item: Mapping[str, Any], read: ReadBlock, key: str = "content"
) -> tuple[tuple[Part, ...], Sequence[Any]]:
    """Read content that is a string or a list of blocks; return its parts and the JSON value of each block.

    A string has no value of its own: an empty one has no part, any other is one text.
    """
    content = item.get(key)
    if isinstance(content, str):
        return ((make_text(content),) if content else ()), ()
    blocks = optional_list(item, key)
    return read_blocks(blocks, f".{key}", read), blocks


def expect_object(value: Any) -> dict[str, Any]:
    """Return the value if it is a JSON object; else raise `Misfit`."""
    if not isinstance(value, dict):
        raise Misfit("", f"expected an object, found {json_type(value)}")
    return value


def object_at(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object in a field; raise `Misfit` if there is none."""
    field = value.get(key)
    if not isinstance(field, dict):
        raise _wrong_field("an object", value, key)
    return field


def text_at(value: Mapping[str, Any], key: str, path: str = "") -> str:
    """Return the string in a field; raise `Misfit` if there is none. `path` leads to the value."""
    field = value.get(key)
    if type(field) is not str and not isinstance(field, str):
        raise _wrong_field("a string", value, key, path)
    return field


def optional_text(value: Mapping[str, Any], key: str, path: str = "") -> str | None:
    """Return the string in a field; None if it is missing or null."""
    field = value.get(key)
    if field is not None and not isinstance(field, str):
        raise _wrong_field("a string", value, key, path)
    return field


def optional_list(value: Mapping[str, Any], key: str) -> list[Any]:
    """Return the list in a field; an empty one if it is missing or null."""
    field = value.get(key)
    if field is None:
        return []
    if not isinstance(field, list):
        raise _wrong_field("a list", value, key)
    return field


def call_arguments(value: Mapping[str, Any], key: str, *, is_text: bool = False) -> str | dict[str, Any]:
    """Return the arguments of a call, of which a missing field has none; `is_text`: JSON text is usual.

    Either form is taken: text in the place of an object is what an interrupted stream left behind.
    """
    field = value.get(key)
    if field is None:
        return "" if is_text else {}
    if not isinstance(field, (str, dict)):
        usual = "JSON text or an object" if is_text else "an object"
        raise Misfit(f".{key}", f"expected {usual}, found {json_type(field)}")
    return field


def read_at(key: str, read: Callable[[dict[str, Any]], T], value: dict[str, Any]) -> T:
    """Read the object in a field; the path of what is wrong in it begins with the field."""
    try:
        return read(value)
    except Misfit as misfit:
        raise Misfit(f".{key}{misfit.path}", misfit.message) from None


def join_texts(item: Mapping[str, Any], *keys: str) -> str:
    """Return the texts of the blocks in these lists, one below the other."""
    blocks = [block for key in keys for block in optional_list(item, key) if isinstance(block, dict)]
    return "\n".join(block["text"] for block in blocks if isinstance(block.get("text"), str))


def _wrong_field(expected: str, value: Mapping[str, Any], key: str, path: str = "") -> Misfit:
    if key in value:
        return Misfit(f"{path}.{key}", f"expected {expected}, found {json_type(value[key])}")
    return Misfit(f"{path}.{key}", f"is missing; expected {expected}")


def block_type(value: Mapping[str, Any]) -> str:
    """Return the `type` of a block; empty if it has none."""
    name = value.get("type")
    return name if isinstance(name, str) else ""


def item_id(item: Mapping[str, Any]) -> str | None:
    """Return the `id` of an item; None if it has none."""
    name = item.get("id")
    return name if isinstance(name, str) else None


def find_block(item: Mapping[str, Any], is_own: Callable[[dict[str, Any]], bool]) -> str:
    """Return the path of the first content block that satisfies a test; empty if there is none."""
    content = item.get("content")
    if isinstance(content, list):
        for index, block in enumerate(content):
            if isinstance(block, dict) and is_own(block):
                return f".content[{index}]"
    return ""


def other_fields(value: Mapping[str, Any], known: frozenset[str]) -> Mapping[str, Any]:
    """Return the fields that the format does not know."""
    if known.issuperset(value):
        return EMPTY
    return {key: field for key, field in value.items() if key not in known}


def carry_unknown_role(format_name: str, item: dict[str, Any], role: str) -> Message:
    """Carry a message of an unknown role as one opaque part, under the nearest role that is known."""
    parts = (Opaque(f"{UNKNOWN_ROLE}{role}", item),)
    wire = make_wire(format_name, item, parts, (item,))
    return make_message(_NEAREST_ROLES.get(role.lower(), "user"), parts, wire=wire)


def read_text(block: dict[str, Any]) -> Text:
    """Read a block `{"type": ..., "text": ...}`; its other fields are carried."""
    return make_text(text_at(block, "text"), other_fields(block, _TEXT_FIELDS))


def carry_block(block: dict[str, Any], paths: Mapping[str, str] = EMPTY) -> Opaque:
    """Carry a block of a type that is not understood; `paths` has where the words of some types stand."""
    kind = text_at(block, "type")  # a block without a type belongs to another format
    return Opaque(kind, block, paths.get(kind))


def split_data_url(url: str) -> tuple[str, str] | None:
    """Split an inline base64 URL into media type and data; None for any other URL.

    >>> split_data_url("data:image/png;base64,iVBO")
    ('image/png', 'iVBO')
    """
    if not url.startswith("data:"):
        return None
    comma = url.find(",", 0, 200)
    if comma < 0 or not url.endswith(";base64", 0, comma):
        return None
    return url[len("data:") : comma - len(";base64")], url[comma + 1 :]


def to_image(
    url: str | None,
    *,
    file_id: str | None = None,
    detail: str | None = None,
    extra: Mapping[str, Any] = EMPTY,
) -> Image:
    """Make an image from what OpenAI's blocks hold: a URL, which may contain the data, or an id."""
    inline = None if url is None else split_data_url(url)
    if inline is None:
        return Image(url=url, file_id=file_id, detail=detail, extra=extra)
    return Image(media_type=inline[0], data=inline[1], detail=detail, extra=extra)


def to_file(name: str | None, data: str | None, url: str | None, file_id: str | None) -> Part:
    """Make a document from what OpenAI's file blocks hold; a file if there is only an id."""
    if data is None and url is None:
        return File(name=name, file_id=file_id)
    inline = None if data is None else split_data_url(data)
    if inline is None:
        return Document(title=name, data=data, url=url)
    return Document(title=name, media_type=inline[0], data=inline[1])
