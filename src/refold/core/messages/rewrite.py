"""Rewrite parts of messages; a message in which nothing changed comes back as the same object."""

from collections.abc import Callable
from dataclasses import replace

from refold.core.messages.message import Document, Message, Part, Text, ToolResult


def map_parts(message: Message, change: Callable[[Part], Part | None]) -> Message:
    """Return the message with each part changed by a function; None removes the part."""
    parts = tuple(new for new in map(change, message.parts) if new is not None)
    same = len(parts) == len(message.parts) and all(
        new is old for new, old in zip(parts, message.parts, strict=True)
    )
    return message if same else replace(message, parts=parts)


def replace_result_text(result: ToolResult, text: str) -> ToolResult:
    """Return a tool result with another text."""
    return ToolResult(
        result.call_id, (Text(text),), name=result.name, is_error=result.is_error, extra=result.extra
    )


def replace_part_text(part: Part, text: str) -> Part:
    """Return a part with another text, the same one if it has none; pictures in a tool result stay."""
    if isinstance(part, ToolResult):
        media = tuple(inner for inner in part.content if not isinstance(inner, Text))
        return replace(part, content=(Text(text), *media))
    return replace(part, text=text) if isinstance(part, Text | Document) else part
