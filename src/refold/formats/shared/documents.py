"""Reads conversations from text: JSON, a request body, or JSON lines; knows no file and no provider.

What Python's reader would crash on or silently lose is refused with the place: text that is not UTF-8, keys
that occur twice, nesting deeper than the interpreter can follow, numbers longer than it converts. `NaN` and
`Infinity` are carried: programs write them, and they are written back the same.
"""

import codecs
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from refold import formats
from refold.errors import FormatError

_LISTS: Final = ("messages", "contents", "input")
_SYSTEMS: Final = ("system", "instructions", "systemInstruction", "system_instruction")
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]|\d{1000,}', re.DOTALL)
"""Strings (the last one perhaps without an end), brackets and long numbers: each character is seen once."""
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A conversation as it stood in a text, with what stood beside it."""

    messages: list[Any]
    format: str
    """Name of the wire format."""
    system: Any = None
    """The system prompt where it stands beside the messages, as it was written."""
    tools: Any = None
    model: str | None = None


_Step: TypeAlias = "tuple[_Step | None, str | int]"
"""A key or an index, behind the steps before it."""


class _Twice(dict[str, Any]):
    """An object in which a key occurs twice; kept until its place is known."""

    key: str = ""


def read(text: str | bytes | bytearray, *, format: str | None = None) -> Document:  # noqa: A002  # as everywhere
    """Read a conversation: a list of messages, a request body, or one message a line."""
    return of(loads_lines(text), format=format)


def of(value: Any, *, format: str | None = None) -> Document:  # noqa: A002  # as everywhere
    """Understand a JSON value as a conversation."""
    if isinstance(value, Mapping):
        key = _key_of_list(value)
        if key is not None:
            return _from_body(value, key, format)
        value = [value]
    if not isinstance(value, list):
        raise FormatError("expected a list of messages, a request body, or one message a line")
    if len(value) > 1 and all(isinstance(item, dict) and _key_of_list(item) == "messages" for item in value):
        raise FormatError(f"holds {len(value):,} conversations, one a line: give one of them")
    return Document(messages=value, format=_name(value, format))


def loads(text: str | bytes | bytearray) -> Any:
    """Read JSON text; every way it can be wrong is a `FormatError` that says where."""
    return _loads(_decoded(text), where="")


def loads_lines(text: str | bytes | bytearray) -> Any:
    """Read JSON text, or JSON lines as a list of their values."""
    decoded = _decoded(text)
    try:
        return _loads(decoded, where="")
    except FormatError:
        lines = [(number, line) for number, line in enumerate(decoded.split("\n"), start=1) if line.strip()]
        # one value over many lines that is wrong stays wrong; its own error says more
        if len(lines) < 2 or not _starts_many(lines):
            raise
    return [_loads(line, where=f"line {number}") for number, line in lines]


def _starts_many(lines: list[tuple[int, str]]) -> bool:
    """Whether the first line is a whole value, so that more lines can only be more values."""
    try:
        return isinstance(_loads(lines[0][1], where=""), dict)
    except FormatError:
        return lines[0][1].rstrip().endswith("}") and lines[1][1].lstrip().startswith("{")


def _decoded(text: str | bytes | bytearray) -> str:
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    for mark, encoding in _BOMS:
        if text.startswith(mark):
            return _decode(text[len(mark) :], encoding)
    return _decode(text, "utf-8")


def _decode(data: bytes | bytearray, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise FormatError(f"is not {encoding.upper()}: byte {error.start:,} cannot be read") from None


def _loads(text: str, *, where: str) -> Any:
    twice: list[_Twice] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(found)
        if len(value) != len(found):
            value = _Twice(value)
            value.key = _repeated(found)
            twice.append(value)
        return value

    try:
        value = json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        place = _place(text, error.pos, where)
        raise FormatError(f"is not JSON: {error.msg} at {place}", path=where) from None
    except RecursionError:
        place = _place(text, _too_deep(text), where)
        raise FormatError(f"is nested deeper than can be read, at {place}", path=where) from None
    except ValueError:
        place = _place(text, _too_long(text), where)
        raise FormatError(f"has a number with too many digits, at {place}", path=where) from None
    if twice:
        path, key = _path_to_first(value)
        raise FormatError(f"the key {key!r} occurs twice", path=f"{where} {path}".strip())
    return value


def _repeated(found: list[tuple[str, Any]]) -> str:
    """Find the first key that occurs again."""
    seen: set[str] = set()
    return next(key for key, _ in found if key in seen or seen.add(key))[:80]  # type: ignore[func-returns-value]


def _place(text: str, position: int, where: str) -> str:
    """Name a place in a text, or in a line where that is named already."""
    column = f"column {position - text.rfind(chr(10), 0, position):,}"
    return column if where else f"line {text.count(chr(10), 0, position) + 1:,} {column}"


def _too_deep(text: str) -> int:
    """Find where the nesting passes what the interpreter follows; the place is about right."""
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0][0], 0)
        if depth >= sys.getrecursionlimit():
            return token.start()
    return 0


def _too_long(text: str) -> int:
    limit = sys.get_int_max_str_digits()
    for token in _TOKEN.finditer(text):
        if token[0][0].isdecimal() and len(token[0]) > limit:
            return token.start()
    return 0


def _path_to_first(value: Any) -> tuple[str, str]:
    """Find the way to the first object with a key that occurs twice; steps are joined only when found."""
    waiting: list[tuple[_Step | None, Any]] = [(None, value)]
    while True:
        step, found = waiting.pop()
        if isinstance(found, _Twice):
            return _joined(step), found.key
        inside = found.items() if isinstance(found, dict) else enumerate(found)
        deeper = [((step, key), inner) for key, inner in inside if isinstance(inner, (dict, list))]
        waiting.extend(reversed(deeper))


def _joined(step: "_Step | None") -> str:
    path = ""
    while step is not None:
        step, key = step
        path = f"[{key}]{path}" if isinstance(key, int) else f".{key}{path}"
    return path.removeprefix(".")


def _key_of_list(value: Mapping[str, Any]) -> str | None:
    """Find where a request body keeps its messages; a single message has a role or a type instead."""
    if isinstance(value.get("role"), str) or isinstance(value.get("type"), str):
        return None
    return next((key for key in _LISTS if value.get(key) is not None), None)


def _from_body(body: Mapping[str, Any], key: str, name: str | None) -> Document:
    items = body[key]
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list):
        raise FormatError("expected a list of messages", path=key)
    model = body.get("model")
    return Document(
        messages=items,
        format=_name(items, name or _told_by(body, key)),
        system=next((body[field] for field in _SYSTEMS if body.get(field) is not None), None),
        tools=body.get("tools"),
        model=model if isinstance(model, str) else None,
    )


def _told_by(body: Mapping[str, Any], key: str) -> str | None:
    """Say which format the fields beside the messages tell, where the messages themselves do not."""
    if key == "contents":
        return "gemini"
    if key == "input":
        return "responses"
    found = formats.decide(body[key])
    return "anthropic" if found is None and "system" in body else None


def _name(items: list[Any], name: str | None) -> str:
    return formats.get(name).name if name is not None else formats.detect(items).name
