"""Messages as text for a summariser, in each system's own layout; what is inside cannot end the data.

A style turns one message into a block of text, or into "" to leave it out. Content is neutralised first:
anything that looks like one of the tags a prompt uses loses its angle bracket, so that it can neither
close the data section nor open another one.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Final

from refold.core.messages.message import Document, File, Image, Message, Part, ToolCall, ToolResult
from refold.core.messages.message_text import arguments_text, body
from refold.core.messages.text_cutting import middle_out

Style = Callable[[int, Message], str]

_TAGS: Final = re.compile(
    r"[<\uff1c](?=[\s\u200b-\u200f\u2060]{0,8}[/\uff0f]?[\s\u200b-\u200f\u2060]{0,8}(?:conversation|message"
    r"|previous-summary|summary|refold-summary|read-files|modified-files|facts|memory|system|assistant|user)\b)"
    r"|<(?=\|)",
    re.IGNORECASE,
)
"""Tags of prompts and of ours, wide brackets and unseen characters included, and marks of chat templates."""
_INSTRUCTION: Final = re.compile(r"\[(?=/?INST\])|<(?=</?SYS>>)")
"""Marks of another chat template, which knows capitals only."""

CODEBUDDY_MESSAGE_CHARS: Final = 10_000
"""CodeBuddy caps each message for its summariser; lower loses more."""
SHOWN_CHARS: Final = 2_000
"""Head and tail of tool output that the house shows a summariser; lower loses more, higher costs more."""


def neutral(text: str) -> str:
    """Text whose tags cannot be taken for the prompt's own."""
    if "INST]" in text or "SYS>" in text:
        text = _INSTRUCTION.sub(lambda mark: "&#91;" if mark[0] == "[" else "&lt;", text)
    return _TAGS.sub("&lt;", text)


def ripple(_index: int, message: Message) -> str:
    """Label and text, then the calls on a line; a summary is named as one, its acknowledgement left out."""
    if message.is_summary and message.role == "assistant":
        return ""
    label = "Earlier summary" if message.is_summary else _label(message)
    lines = [f"{label}: {_shown(message)}"] if _shown(message) else []
    if message.calls:
        lines.append("Called: " + "; ".join(f"{call.name}({rendered(call)})" for call in message.calls))
    return neutral("\n".join(lines))


def rendered(call: ToolCall) -> str:
    """The arguments as Ripple writes them: `key: value`, sorted by key, nested ones alike.

    >>> rendered(ToolCall("1", "find", {"q": "readme"}))
    'q: readme'
    """
    value = parsed(call.arguments) if isinstance(call.arguments, str) else call.arguments
    return _flat(value)


def codebuddy(_index: int, message: Message) -> str:
    """Role and text between message tags, at most 10,000 characters."""
    text = _shown(message)
    if len(text) > CODEBUDDY_MESSAGE_CHARS:
        over = len(text) - CODEBUDDY_MESSAGE_CHARS
        text = f"{text[:CODEBUDDY_MESSAGE_CHARS]}[... {over} chars truncated]"
    calls = "".join(f"\n[Called {call.name}: {arguments_text(call)[:200]}]" for call in message.calls)
    role = {"Tool result": "Tool"}.get(_label(message), _label(message))
    return f'<message role="{role}">{neutral(text + calls)}</message>'


def umwelten(_index: int, message: Message) -> str:
    """A line with the role, the text, calls with 200 characters of arguments, results of 500."""
    lines = [f"--- {message.role} ---"]
    lines += [_cut(part.text, 500, "… [truncated]") for part in message.results]
    lines += [message.text] if message.text else []
    lines += [f"[Tool call: {call.name}] {_cut(arguments_text(call), 200, '…')}" for call in message.calls]
    return neutral("\n".join([*lines, *_markers(message)]))


def neurolink(_index: int, message: Message) -> str:
    """Role and text, and the calls."""
    role = "tool_result" if message.results else message.role
    lines = [f"{role}: {_shown(message)}"]
    lines += [f"tool_call: {call.name} {arguments_text(call)}" for call in message.calls]
    return neutral("\n".join(lines))


def opal(_index: int, message: Message) -> str:
    """Labels in brackets; arguments up to 200 characters, results up to 500."""
    lines = [f"[Tool result ({part.name or part.call_id})]: {part.text[:500]}" for part in message.results]
    if message.text or not (message.results or message.calls):
        lines.append(f"[{message.role.capitalize()}]: {message.text}")
    if message.calls:
        calls = "; ".join(f"{call.name}({arguments_text(call)[:200]})" for call in message.calls)
        lines.append(f"[Assistant tool calls]: {calls}")
    return neutral("\n".join([*lines, *_markers(message)]))


def house(index: int, message: Message) -> str:
    """Numbered and labelled; words whole, tool output as head and tail, media as markers."""
    lines = [
        f"#{index} tool result ({part.name or part.call_id}):\n"
        + middle_out(part.text, head=SHOWN_CHARS // 2, tail=SHOWN_CHARS // 2)
        for part in message.results
    ]
    if message.text or not (message.results or message.calls):
        lines.append(f"#{index} {message.role}: {message.text}")
    lines += [
        f"#{index} calls {call.name}: " + middle_out(arguments_text(call), head=600, tail=200)
        for call in message.calls
    ]
    return neutral("\n".join([*lines, *_markers(message)]))


def parsed(text: str) -> object:
    """Arguments as a value, or the text itself where it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _flat(value: object, depth: int = 0) -> str:
    if depth > 20:
        return "…"
    if isinstance(value, Mapping):
        pairs = sorted(value.items(), key=lambda pair: str(pair[0]))
        return ", ".join(f"{key}: {_nested(item, depth)}" for key, item in pairs)
    if isinstance(value, list | tuple):
        return ", ".join(_nested(item, depth) for item in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def _nested(value: object, depth: int) -> str:
    flat = _flat(value, depth + 1)
    if isinstance(value, Mapping):
        return "{" + flat + "}"
    return f"[{flat}]" if isinstance(value, list | tuple) else flat


def _label(message: Message) -> str:
    if message.results:
        return "Tool result"
    return {"system": "System", "user": "User", "assistant": "Assistant", "tool": "Tool result"}[message.role]


def _shown(message: Message) -> str:
    return "\n".join([text for text in (body(message),) if text] + _markers(message))


def _markers(message: Message) -> list[str]:
    """A marker for each picture or file, because a summariser reads text alone; a document's own text."""
    found: list[str] = []
    for part in message.parts:
        inner: tuple[Part, ...] = part.content if isinstance(part, ToolResult) else (part,)
        for piece in inner:
            if isinstance(piece, Image):
                found.append("[image]")
            elif isinstance(piece, File | Document):
                name = piece.name if isinstance(piece, File) else piece.title
                found.append(f"[file: {name or piece.media_type or 'unnamed'}]")
            if isinstance(piece, Document) and piece.text:
                found.append(middle_out(piece.text, head=SHOWN_CHARS // 2, tail=SHOWN_CHARS // 2))
    return found


def _cut(text: str, limit: int, mark: str) -> str:
    return text if len(text) <= limit else text[:limit] + mark
