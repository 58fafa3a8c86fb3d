"""The text of a message: what a reader or a counter takes for its words."""

import json
from collections.abc import Mapping
from typing import Any, Final

from refold.core.messages.message import (
    Document,
    Message,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

CALL_ALLOWANCE: Final = 200
"""Characters of tool arguments that a system's own overhead per message covers; too low counts more."""


def body(message: Message) -> str:
    """The visible text of a message and of its tool results, joined by newlines."""
    parts = message.parts
    if len(parts) == 1:
        only = parts[0]
        return only.text if type(only) is Text or type(only) is ToolResult else ""
    return "\n".join(part.text for part in parts if isinstance(part, Text | ToolResult))


def arguments_text(call: ToolCall) -> str:
    """The arguments of a call as JSON text."""
    if isinstance(call.arguments, str):
        return call.arguments
    return json_text(call.arguments)


def json_text(value: Any) -> str:
    """Any value as JSON text; what is no JSON inside it as Python shows it."""
    try:
        return json.dumps(value, ensure_ascii=False, default=_as_json)
    except (TypeError, ValueError, RecursionError):
        return "[nested too deeply to show, or no JSON at all]"


def _as_json(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def body_and_large_calls(message: Message) -> str:
    """The visible text, and each tool call whose arguments are more than the allowance."""
    text = body(message)
    for call in message.calls:
        arguments = arguments_text(call)
        if len(arguments) > CALL_ALLOWANCE:
            text = f"{text}\n{call.name}\n{arguments}" if text else f"{call.name}\n{arguments}"
    return text


def everything(message: Message) -> str:
    """All that a model reads as text: words, thinking, calls with arguments, results, opaque blocks."""
    parts = message.parts
    if len(parts) == 1:
        return _part_text(parts[0])
    return "\n".join(_part_text(part) for part in parts)


def _part_text(part: Part) -> str:
    if isinstance(part, Text | Thinking):
        return part.text
    if isinstance(part, ToolResult):
        return "\n".join(_part_text(inner) for inner in part.content)
    if isinstance(part, ToolCall):
        return f"{part.name} {arguments_text(part)}"
    if isinstance(part, Opaque):
        return json_text(part.value)
    if isinstance(part, Document):
        return part.text or ""
    return ""
