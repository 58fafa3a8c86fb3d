"""Reads conversations from text: JSON, a request body, or JSON lines; knows no file and no provider.

Text on which Python's reader would crash, or of which it would silently lose a part, is refused with the
place: text that is not UTF-8, keys that occur twice, nesting deeper than the interpreter can follow, numbers
longer than it converts. `NaN` and `Infinity` are carried: programs write them, and they are written back the
same.
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

_LIST_KEYS: Final = ("messages", "contents", "input")
_SYSTEM_KEYS: Final = ("system", "instructions", "systemInstruction", "system_instruction")
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]|\d{1000,}', re.DOTALL)
"""Strings (the last one perhaps without an end), brackets and long numbers: each character is seen once."""
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A conversation from a text, with the fields beside its messages."""

    messages: list[Any]
    format: str
    """Name of the wire format."""
    system: Any = None
    """The system prompt if it stood beside the messages, unchanged."""
    tools: Any = None
    model: str | None = None


_Step: TypeAlias = "tuple[_Step | None, str | int]"
"""A key or an index, with the steps before it."""


class _ObjectWithRepeatedKey(dict[str, Any]):
    """An object in which a key occurs twice; marked until its path is known."""

    key: str = ""


def to_document(value: Any, *, format: str | None = None) -> Document:  # noqa: A002  # as everywhere
    """Return the conversation in a JSON value."""
    if isinstance(value, Mapping):
        key = _list_key(value)
        if key is not None:
            return _read_body(value, key, format)
        value = [value]
    if not isinstance(value, list):
        raise FormatError("expected a list of messages, a request body, or one message a line")
    if len(value) > 1 and all(isinstance(item, dict) and _list_key(item) == "messages" for item in value):
        raise FormatError(f"holds {len(value):,} conversations, one a line: give one of them")
    return Document(messages=value, format=_format_name(value, format))


def loads(text: str | bytes | bytearray) -> Any:
    """Parse JSON text; every error is a `FormatError` with the place."""
    return _parse(_decode(text), where="")


def loads_lines(text: str | bytes | bytearray) -> Any:
    """Parse JSON text, or JSON lines as a list of their values."""
    decoded = _decode(text)
    try:
        return _parse(decoded, where="")
    except FormatError:
        lines = [(number, line) for number, line in enumerate(decoded.split("\n"), start=1) if line.strip()]
        # a broken value over many lines is not JSON lines; its own error says more
        if len(lines) < 2 or not _starts_with_whole_value(lines[0][1], lines[1][1]):
            raise
    return [_parse(line, where=f"line {number}") for number, line in lines]


def _starts_with_whole_value(first: str, second: str) -> bool:
    """True if the first line is a whole object, so that more lines can only be more values."""
    try:
        return isinstance(_parse(first, where=""), dict)
    except FormatError:
        return first.rstrip().endswith("}") and second.lstrip().startswith("{")


def _decode(text: str | bytes | bytearray) -> str:
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    mark, encoding = next((bom for bom in _BOMS if text.startswith(bom[0])), (b"", "utf-8"))
    try:
        return text[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise FormatError(f"is not {encoding.upper()}: byte {error.start:,} cannot be read") from None


def _parse(text: str, *, where: str) -> Any:
    """Parse JSON; `where` names the line of the text if it is one of several."""
    has_repeated = False

    def make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal has_repeated
        value = dict(pairs)
        if len(value) != len(pairs):
            value = _ObjectWithRepeatedKey(value)
            seen: set[str] = set()
            value.key = next(key for key, _ in pairs if key in seen or seen.add(key))[:80]  # type: ignore[func-returns-value]
            has_repeated = True
        return value

    try:
        value = json.loads(text, object_pairs_hook=make_object)
    except json.JSONDecodeError as error:
        # Some of Python's reasons end with "at" themselves.
        reason, position = f"is not JSON: {error.msg.removesuffix(' at')} at", error.pos
    except RecursionError:
        reason, position = "is nested deeper than can be read, at", _find_too_deep(text)
    except ValueError:
        reason, position = "has a number with too many digits, at", _find_too_long(text)
    else:
        if has_repeated:
            path, key = _find_repeated_key(value)
            raise FormatError(f"the key {key!r} occurs twice", path=f"{where} {path}".strip())
        return value
    place = f"column {position - text.rfind(chr(10), 0, position):,}"
    if not where:
        place = f"line {text.count(chr(10), 0, position) + 1:,} {place}"
    raise FormatError(f"{reason} {place}", path=where)


def _find_too_deep(text: str) -> int:
    """Return about the position where the nesting passes what the interpreter follows."""
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0][0], 0)
        if depth >= sys.getrecursionlimit():
            return token.start()
    return 0


def _find_too_long(text: str) -> int:
    limit = sys.get_int_max_str_digits()
    for token in _TOKEN.finditer(text):
        if token[0][0].isdecimal() and len(token[0]) > limit:
            return token.start()
    return 0


def _find_repeated_key(value: Any) -> tuple[str, str]:
    """Return the path to the first object with a repeated key, and the key."""
    waiting: list[tuple[_Step | None, Any]] = [(None, value)]
    while True:
        step, inner = waiting.pop()
        if isinstance(inner, _ObjectWithRepeatedKey):
            break
        items = inner.items() if isinstance(inner, dict) else enumerate(inner)
        # steps are linked and joined only at the end: a path for every value would be quadratic
        deeper = [((step, key), field) for key, field in items if isinstance(field, (dict, list))]
        waiting.extend(reversed(deeper))
    path = ""
    while step is not None:
        step, key = step
        path = f"[{key}]{path}" if isinstance(key, int) else f".{key}{path}"
    return path.removeprefix("."), inner.key


def _list_key(value: Mapping[str, Any]) -> str | None:
    """Return the field of a request body with the messages; None for a single message, which has a role."""
    if isinstance(value.get("role"), str) or isinstance(value.get("type"), str):
        return None
    return next((key for key in _LIST_KEYS if value.get(key) is not None), None)


def _read_body(body: Mapping[str, Any], key: str, name: str | None) -> Document:
    items = body[key]
    if isinstance(items, str) and key != "messages":  # as the others allow
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list):
        raise FormatError("expected a list of messages", path=key)
    if not name and key == "contents":
        name = "gemini"
    elif not name and key == "input":
        name = "interactions" if any(map(formats.get("interactions").recognise, items)) else "responses"
    elif not name:
        detected = formats.detect_or_none(body[key])
        # if the messages do not show their format, the field `system` does: only Anthropic has it
        name = detected.name if detected is not None else "anthropic" if "system" in body else None
    model = body.get("model") or body.get("modelId")
    config = body.get("toolConfig")
    return Document(
        messages=items,
        format=_format_name(items, name),
        system=next((body[field] for field in _SYSTEM_KEYS if body.get(field) is not None), None),
        tools=body.get("tools") or (config.get("tools") if isinstance(config, Mapping) else None),
        model=model if isinstance(model, str) else None,
    )


def _format_name(items: list[Any], name: str | None) -> str:
    return formats.get(name).name if name is not None else formats.detect(items).name
