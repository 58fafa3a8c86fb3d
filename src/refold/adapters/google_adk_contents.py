"""ADK's contents as the Gemini wire, and back; knows no session.

`to_wire` gives what `model_dump(mode="json", by_alias=True, exclude_none=True)` gives. It reads the fields
directly, because ADK makes all contents anew for every request, and a dump of each costs ten times as much.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

from google.genai import types
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from refold.adapters.base import Bridge, Wire

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_TEXT_ONLY: Final = frozenset({"text"})


def to_wire(content: types.Content) -> list[Wire]:
    """Return a content as Gemini's JSON."""
    item: Wire = {}
    if content.parts is not None:
        item["parts"] = [_dump_part(part) for part in content.parts]
    if content.role is not None:
        item["role"] = content.role
    return [item]


def _dump_part(part: types.Part) -> Wire:
    # Most parts are a text, and were made with nothing else.
    if part.model_fields_set == _TEXT_ONLY and part.text is not None:
        return {"text": part.text}
    return dump(part)


def dump(model: BaseModel) -> Wire:
    """Return the fields of a model that are set, under their names on the wire."""
    names = _NAMES.get(type(model)) or _find_names(type(model))
    return {
        names[field]: value if type(value) is str else to_json(value)
        for field, value in model.__dict__.items()
        if value is not None
    }


def to_json(value: Any) -> Any:
    """Return a value of a content's field, or what a user's tool returned, as JSON."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        return [to_json(item) for item in value]
    if kind is dict and all(type(key) is str for key in value):
        return {key: item if type(item) is str else to_json(item) for key, item in value.items()}
    if kind in _NAMES:
        return dump(value)
    if kind is bytes:
        return urlsafe_b64encode(value).decode("ascii")
    if isinstance(value, Enum):
        return value.value
    return to_jsonable_python(value, by_alias=True, exclude_none=True, bytes_mode="base64")


def _find_names(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the name on the wire of each field."""
    fields = model.model_fields.items()
    return {name: field.serialization_alias or field.alias or name for name, field in fields}


_NAMES: Final[Mapping[type, Mapping[str, str]]] = {
    model: _find_names(model)
    for model in (
        types.Blob,
        types.FileData,
        types.FunctionCall,
        types.FunctionDeclaration,
        types.FunctionResponse,
        types.GenerateContentResponseUsageMetadata,
        types.Part,
        types.Tool,
    )
}
"""For the models that nearly every request has; others are dumped by pydantic."""


def from_wire(items: Sequence[Wire]) -> list[types.Content]:
    """Return contents for items that a fold made or changed."""
    return [types.Content.model_validate(item) for item in items]


BRIDGE: Final = Bridge(to_wire, from_wire)
