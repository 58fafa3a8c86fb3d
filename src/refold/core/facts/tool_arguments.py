"""The arguments of a tool call as text: the main one, all strings of them, and the ends of a long text."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from refold.core.messages.message import ToolCall
from refold.core.messages.message_text import arguments_text
from refold.core.messages.text_cutting import first_line
from refold.core.messages.transcript import parsed

_COMMAND: Final = (
    "command",
    "cmd",
    "script",
    "code",
    "query",
    "pattern",
    "url",
    "path",
    "file_path",
    "filename",
)


def arguments_of(call: ToolCall) -> Any:
    """The arguments of a call, read from JSON where they travel so."""
    return parsed(call.arguments[:100_000]) if isinstance(call.arguments, str) else call.arguments


def main_argument(call: ToolCall) -> str:
    """The main argument of a call, else all of them."""
    value = arguments_of(call)
    if isinstance(value, Mapping):
        for key in _COMMAND:
            if isinstance(value.get(key), str) and value[key].strip():
                return first_line(value[key], 160)
    return first_line(arguments_text(call)[:4_000], 160)


def strings_of(value: Any, depth: int = 0) -> str:
    """All strings of arguments."""
    return "\n".join(_strings(value, depth))


def _strings(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping) and depth < 20:
        for item in value.values():
            yield from _strings(item, depth + 1)
    elif isinstance(value, list | tuple) and depth < 20:
        for item in value:
            yield from _strings(item, depth + 1)
    elif isinstance(value, int | float):
        yield str(value)


def ends(text: str, limit: int, share: float) -> str:
    """The head and the tail of a text; the head has one part in `share`."""
    if len(text) <= limit:
        return text
    head = int(limit / share)
    return f"{text[:head]}\n{text[head - limit :]}"
