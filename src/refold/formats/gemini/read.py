"""Reads Gemini contents into messages; what it does not understand it carries unchanged."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from refold.core.messages.message import (
    EMPTY,
    SIGNATURE_KEYS,
    Document,
    File,
    Image,
    Message,
    Opaque,
    Part,
    Role,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.formats.shared import reading
from refold.formats.shared.positions import Positions

NAME: Final = "gemini"
ROLES: Final[Mapping[str, Role]] = {
    "user": "user",
    "model": "assistant",
    "function": "tool",
    "system": "system",
}
MEDIA_KEYS: Final = ("inlineData", "inline_data", "fileData", "file_data")
CALL_KEYS: Final = ("functionCall", "function_call")
RESPONSE_KEYS: Final = ("functionResponse", "function_response")
_OUTPUT_KEYS: Final = ("codeExecutionResult", "code_execution_result")
KNOWN_KEYS: Final = frozenset({*CALL_KEYS, *RESPONSE_KEYS, *MEDIA_KEYS})
"""Fields of a part that say what it is; the field `text` is the other one."""
_THOUGHT_FIELDS: Final = frozenset({"text", "thought", *SIGNATURE_KEYS})
_CALL_FIELDS: Final = frozenset({"id", "name", "args"})
_RESPONSE_FIELDS: Final = frozenset({"id", "name", "response", "parts"})
KEY: Final = "key"
"""In `Text.extra` of a result's part: the field of the response object it came from."""


def recognise(item: Any) -> str:
    """Return the path of what only Gemini has: `parts`, and the role `model`. Its parts name no type."""
    if not isinstance(item, dict):
        return ""
    if "parts" in item:
        parts = item["parts"] if isinstance(item["parts"], list) else ()
        has_types = any(isinstance(part, dict) and part.keys() & {"type", "part_kind"} for part in parts)
        return "" if has_types else ".parts"
    return ".role" if item.get("role") == "model" and "content" not in item else ""


def role_of_content(item: Mapping[str, Any]) -> Role | None:
    """Return the role of a content, which is `user` if it is missing; None if it is unknown."""
    role = item.get("role")
    return ROLES.get("user" if role is None else role)


def parse(items: Sequence[Any]) -> tuple[Message, ...]:
    """Read a history."""
    return reading.read_items("Gemini", items, partial(_read_message, Positions()))


def parse_behind(
    before: Sequence[Any], items: Sequence[Any], positions: Positions | None = None
) -> tuple[Message, ...]:
    """Read what stands behind items that `parse` has read: of those only the calls and results matter.

    A session does this for every new message; to read the whole history each time is twenty times as slow.

    positions   what stands before all of them; `before` is noted there, and `items` are not
    """
    positions = positions or Positions()
    for item in before:
        _note_calls(positions, item)
    return reading.read_items("Gemini", items, partial(_read_message, positions.copy()))


def _note_calls(positions: Positions, item: dict[str, Any]) -> None:
    """Note the calls and results of an item that was read before."""
    if role_of_content(item) is None:
        return
    for value in item.get("parts") or ():
        if len(value) == 1 and "text" in value:
            continue
        key = _find_kind(value)
        if key in CALL_KEYS:
            positions.call(value[key].get("id") or None, value[key]["name"])
        elif key in RESPONSE_KEYS:
            positions.result(value[key].get("id") or None, value[key]["name"])


def _find_kind(value: dict[str, Any]) -> str | None:
    """Return the field that says what a part is; None if there is none, or too many for one part."""
    keys = [key for key in value if value[key] is not None and (key == "text" or key in KNOWN_KEYS)]
    return keys[0] if len(keys) == 1 else None


def _read_message(positions: Positions, item: dict[str, Any]) -> Message:
    role_name = reading.optional_text(item, "role")
    role = role_of_content(item)
    if role is None:
        return reading.carry_unknown_role(NAME, item, str(role_name))
    if "parts" not in item and ("content" in item or "role" not in item):
        raise reading.Misfit(".parts", "is missing; expected a list")
    values = reading.optional_list(item, "parts")
    parts = reading.read_blocks(values, ".parts", partial(_read_part, positions))
    return reading.make_message(role, parts, wire=reading.make_wire(NAME, item, parts, values))


def _read_part(positions: Positions, value: dict[str, Any]) -> Part:
    if len(value) == 1 and isinstance(text := value.get("text"), str):
        return reading.make_text(text)
    key = _find_kind(value)
    if key is None:
        kind = str(next(iter(value), "part"))
        return Opaque(kind, value, f"{kind}.output" if kind in _OUTPUT_KEYS else None)
    extra = _fields_besides(value, key)
    if key == "text":
        text = reading.text_at(value, key)
        if value.get("thought") is not True:
            return reading.make_text(text, extra)
        signature = next((value[name] for name in SIGNATURE_KEYS if isinstance(value.get(name), str)), None)
        return Thinking(text, signature=signature, extra=reading.other_fields(value, _THOUGHT_FIELDS))
    read: Callable[..., Part] = partial(_read_media, key)
    if key in CALL_KEYS:
        read = partial(_read_call, positions)
    elif key in RESPONSE_KEYS:
        read = partial(_read_response, positions)
    return reading.read_at(key, partial(read, extra=extra), reading.object_at(value, key))


def _fields_besides(value: dict[str, Any], key: str) -> Mapping[str, Any]:
    return {name: field for name, field in value.items() if name != key} if len(value) > 1 else EMPTY


def _read_media(key: str, value: dict[str, Any], extra: Mapping[str, Any]) -> Part:
    media_type = reading.optional_text(value, "mimeType" if "mimeType" in value else "mime_type")
    data = url = None
    if key in ("inlineData", "inline_data"):
        data = reading.optional_text(value, "data")
    else:
        url = reading.optional_text(value, "fileUri" if "fileUri" in value else "file_uri")
    part_type: type[Image | Document | File] = File
    if media_type is not None and media_type.startswith("image/"):
        part_type = Image
    elif media_type is not None and media_type.startswith(("application/pdf", "text/")):
        part_type = Document
    return part_type(media_type=media_type, data=data, url=url, extra=extra)


def _read_call(positions: Positions, value: dict[str, Any], extra: Mapping[str, Any]) -> ToolCall:
    name = reading.text_at(value, "name")
    arguments = _optional_object(value, "args")
    inner = reading.other_fields(value, _CALL_FIELDS)
    extra = {**extra, "functionCall": inner} if inner else extra
    call_id = positions.call(reading.optional_text(value, "id") or None, name)
    return ToolCall(call_id, name, arguments, extra)


def _read_response(positions: Positions, value: dict[str, Any], extra: Mapping[str, Any]) -> ToolResult:
    name = reading.text_at(value, "name")
    response = _optional_object(value, "response")
    fields: list[Part] = [
        reading.make_text(field, {KEY: key}) if isinstance(field, str) else Opaque(str(key), field, "")
        for key, field in response.items()
    ]
    media = reading.read_blocks(reading.optional_list(value, "parts"), ".parts", _read_response_part)
    inner = reading.other_fields(value, _RESPONSE_FIELDS)
    return ToolResult(
        positions.result(reading.optional_text(value, "id") or None, name),
        (*fields, *media),
        name=name,
        is_error=response.keys() == {"error"},
        extra={**extra, "functionResponse": inner} if inner else extra,
    )


def _optional_object(value: dict[str, Any], key: str) -> dict[str, Any]:
    field = value.get(key)
    if field is not None and not isinstance(field, dict):
        raise reading.Misfit(f".{key}", f"expected an object, found {reading.json_type(field)}")
    return field or {}


def _read_response_part(value: dict[str, Any]) -> Part:
    """Read an image or file inside a response; anything else is carried."""
    for key in MEDIA_KEYS:
        if isinstance(value.get(key), dict):
            read = partial(_read_media, key, extra=_fields_besides(value, key))
            return reading.read_at(key, read, value[key])
    return Opaque("part", value)
