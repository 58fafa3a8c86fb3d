"""Reads Gemini items into messages; looks only where it knows its way and carries the rest."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

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
    Wire,
)
from refold.formats.shared.positions import Positions
from refold.formats.shared.reading import (
    Misfit,
    fields_besides,
    kind,
    maybe_list,
    maybe_text,
    object_at,
    read_each,
    read_items,
    text_at,
    unknown_role,
)

NAME: Final = "gemini"
ROLES: Final[Mapping[str, Role]] = {
    "user": "user",
    "model": "assistant",
    "function": "tool",
    "system": "system",
}
SPELLINGS: Final = {
    "functionCall": "call",
    "function_call": "call",
    "functionResponse": "response",
    "function_response": "response",
    "inlineData": "inline",
    "inline_data": "inline",
    "fileData": "file",
    "file_data": "file",
}
_MEDIA_SPELLINGS: Final = ("inlineData", "inline_data", "fileData", "file_data")
SIGNATURES: Final = ("thoughtSignature", "thought_signature")
_THOUGHT_FIELDS: Final = frozenset({"text", "thought", *SIGNATURES})
_TEXT_FIELDS: Final = frozenset({"text"})
_CALL_FIELDS: Final = frozenset({"id", "name", "args"})
_RESPONSE_FIELDS: Final = frozenset({"id", "name", "response", "parts"})
KEY: Final = "key"
"""In `Text.extra` of a result's part: the field of the response object it came from."""


def recognise(item: Any) -> str:
    """Find what only Gemini has: `parts`, and the role `model`."""
    if not isinstance(item, dict):
        return ""
    if "parts" in item:
        return ".parts"
    return ".role" if item.get("role") == "model" and "content" not in item else ""


def parse(items: Sequence[Any]) -> tuple[Message, ...]:
    """Read a history."""
    return read_items("Gemini", items, partial(_message, Positions()))


def _message(positions: Positions, item: dict[str, Any]) -> Message:
    word = maybe_text(item, "role")
    role = ROLES.get("user" if word is None else word)
    if role is None:
        return unknown_role(NAME, item, str(word))
    values = maybe_list(item, "parts")
    parts = read_each(values, ".parts", partial(_part, positions))
    return Message(role, parts, wire=Wire(NAME, item, parts, tuple(values)))


def _part(positions: Positions, value: dict[str, Any]) -> Part:
    if len(value) == 1 and isinstance(text := value.get("text"), str):
        return Text(text)
    told = [key for key in value if value[key] is not None and (key == "text" or key in SPELLINGS)]
    if len(told) != 1:  # nothing that is known, or too much to be one part
        return Opaque(str(next(iter(value), "part")), value)
    (key,) = told
    if key == "text":
        text = text_at(value, key)
        return _thought(value, text) if value.get("thought") is True else Text(text, _besides(value, key))
    try:
        return _known(positions, SPELLINGS[key], object_at(value, key), _besides(value, key))
    except Misfit as misfit:
        path = misfit.path if misfit.path == f".{key}" else f".{key}{misfit.path}"
        raise Misfit(path, misfit.message) from None


def _besides(value: dict[str, Any], key: str) -> Mapping[str, Any]:
    return {name: found for name, found in value.items() if name != key} if len(value) > 1 else EMPTY


def _thought(value: dict[str, Any], text: str) -> Thinking:
    signature = next((value[key] for key in SIGNATURES if isinstance(value.get(key), str)), None)
    return Thinking(text, signature=signature, extra=fields_besides(value, _THOUGHT_FIELDS))


def _known(positions: Positions, what: str, value: dict[str, Any], extra: Mapping[str, Any]) -> Part:
    """Read a part by the one field that says what it is; the fields beside it are carried."""
    if what == "call":
        return _call(positions, value, extra)
    if what == "response":
        return _response(positions, value, extra)
    return _file_or_data(what, value, extra)


def _file_or_data(what: str, value: dict[str, Any], extra: Mapping[str, Any]) -> Part:
    media_type = maybe_text(value, "mimeType" if "mimeType" in value else "mime_type")
    if what == "inline":
        return _media(media_type, extra, data=maybe_text(value, "data"))
    url = maybe_text(value, "fileUri" if "fileUri" in value else "file_uri")
    return _media(media_type, extra, url=url)


def _media(
    media_type: str | None, extra: Mapping[str, Any], *, data: str | None = None, url: str | None = None
) -> Part:
    what = media_type or ""
    if what.startswith("image/"):
        return Image(media_type=media_type, data=data, url=url, extra=extra)
    if what.startswith(("application/pdf", "text/")):
        return Document(media_type=media_type, data=data, url=url, extra=extra)
    return File(media_type=media_type, data=data, url=url, extra=extra)


def _call(positions: Positions, value: dict[str, Any], extra: Mapping[str, Any]) -> ToolCall:
    name = text_at(value, "name")
    given = value.get("args")
    if given is not None and not isinstance(given, dict):
        raise Misfit(".args", f"expected an object, found {kind(given)}")
    inner = fields_besides(value, _CALL_FIELDS)
    extra = {**extra, "functionCall": inner} if inner else extra
    return ToolCall(positions.call(_id(value), name), name, given or {}, extra)


def _response(positions: Positions, value: dict[str, Any], extra: Mapping[str, Any]) -> ToolResult:
    name = text_at(value, "name")
    answer = value.get("response")
    if answer is not None and not isinstance(answer, dict):
        raise Misfit(".response", f"expected an object, found {kind(answer)}")
    fields = tuple([_field(key, found) for key, found in (answer or {}).items()])
    media = read_each(maybe_list(value, "parts"), ".parts", _response_part) if "parts" in value else ()
    inner = fields_besides(value, _RESPONSE_FIELDS)
    return ToolResult(
        positions.result(_id(value), name),
        fields + media,
        name=name,
        is_error=answer is not None and "error" in answer and len(answer) == 1,
        extra={**extra, "functionResponse": inner} if inner else extra,
    )


def _id(value: dict[str, Any]) -> str | None:
    return maybe_text(value, "id") or None


def _field(key: Any, value: Any) -> Part:
    return Text(value, {KEY: key}) if isinstance(value, str) else Opaque(str(key), value)


def _response_part(value: dict[str, Any]) -> Part:
    """Read a picture or file inside a response; anything else is carried."""
    for key in _MEDIA_SPELLINGS:
        if isinstance(value.get(key), dict):
            try:
                return _file_or_data(SPELLINGS[key], value[key], _besides(value, key))
            except Misfit as misfit:
                raise Misfit(f".{key}{misfit.path}", misfit.message) from None
    return Opaque("part", value)
