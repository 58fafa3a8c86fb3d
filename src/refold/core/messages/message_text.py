"""Return a message as text, for readers and for counters; knows no provider."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from refold.core.messages.message import (
    Message,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    find_texts,
    json_text,
    map_words,
)

CALL_ALLOWANCE: Final = 200
"""Characters of tool arguments that the allowance per message covers; a lower value counts more tokens."""
LEAST_DATA: Final = 1_000
"""Characters from which on base64 in a provider's block is data; ids and digests are shorter."""
ENCRYPTED: Final = "encrypted"
"""Stands for the media type of a text that only its provider reads."""
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{1,}={0,2}")
_DATA_URL: Final = re.compile(r"data:([\w.+-]{1,40}/[\w.+-]{1,80})[;,]")
_TYPES: Final = ("media_type", "mime_type", "mimeType")


def visible_text(message: Message) -> str:
    """Return the visible text of a message and of its tool results, joined by newlines."""
    parts = message.parts
    if len(parts) == 1:
        only = parts[0]
        return only.text if type(only) is Text or type(only) is ToolResult else ""
    return "\n".join(part.text for part in parts if isinstance(part, Text | ToolResult))


def arguments_text(call: ToolCall) -> str:
    """Return the arguments of a call as JSON text."""
    if isinstance(call.arguments, str):
        return call.arguments
    return json_text(call.arguments)


def cuttable_text(part: Part) -> str:
    """Return the text of a part that may be cut: arguments, or words."""
    return arguments_text(part) if isinstance(part, ToolCall) else "\n".join(find_texts(part))


def visible_text_and_large_calls(message: Message) -> str:
    """Return the visible text, and each tool call whose arguments exceed the allowance."""
    text = visible_text(message)
    for call in message.calls:
        arguments = arguments_text(call)
        if len(arguments) > CALL_ALLOWANCE:
            text = f"{text}\n{call.name}\n{arguments}" if text else f"{call.name}\n{arguments}"
    return text


def full_text(message: Message) -> str:
    """Return everything that a model reads as text: text, thinking, calls, results, opaque blocks."""
    parts = message.parts
    return parts[0].text if len(parts) == 1 and type(parts[0]) is Text else _join_texts(parts)


def _join_texts(parts: Sequence[Part]) -> str:
    if len(parts) == 1:  # as in most messages
        return parts[0].text if type(parts[0]) is Text else _part_text(parts[0])
    return "\n".join([_part_text(part) for part in parts])


def _part_text(part: Part) -> str:
    if isinstance(part, (Text, Thinking)):
        return part.text
    if isinstance(part, ToolResult):
        return _join_texts(part.content)
    if isinstance(part, ToolCall):
        return f"{part.name} {arguments_text(part)}"
    if isinstance(part, Opaque):
        words = find_texts(part) if part.path else ()
        frame = json_text(map_words(part, lambda _: "").value if words else part.value)
        text = "\n".join((frame, *words))
        for kind, data in find_data(part) if len(text) > LEAST_DATA else ():
            text = text.replace(f'"{data}"', f'"[{kind.partition("/")[0]}]"')
        return text
    return "\n".join(find_texts(part))


def find_data(part: Opaque) -> list[tuple[str, str]]:
    """Return what a provider's own block holds in base64, each with its media type: it is no text."""
    found: list[tuple[str, str]] = []
    left: list[tuple[str, str, Any]] = [("", "", part.value)]
    while left:
        key, kind, value = left.pop()
        if isinstance(value, Mapping):
            named = next((value[name] for name in _TYPES if isinstance(value.get(name), str)), kind)
            named = "image/png" if value.get("type") == "image_generation_call" else named
            left += [(name, named, value[name]) for name in reversed(value)]
        elif isinstance(value, list | tuple):
            left += [(key, kind, item) for item in reversed(value)]
        elif isinstance(value, str) and len(value) >= LEAST_DATA:
            url = _DATA_URL.match(value)
            kind = ENCRYPTED if key.startswith("encrypted_") else url[1] if url else kind
            if url or (kind and _BASE64.fullmatch(value)):
                found.append((kind, value))
    return found
