"""Messages as text for a summariser; what is inside cannot end the data section of a prompt.

A layout turns one message into a block of text, or into "" to leave it out. Content is neutralised first:
anything that looks like one of the tags a prompt uses loses its angle bracket, so that it can neither close
the data section nor open another one. Holds the default layout and what every layout needs; the layouts
of other systems belong to their policies.
"""

import re
from collections.abc import Callable
from typing import Final

from refold.core.messages.message import (
    Document,
    File,
    Image,
    Message,
    Opaque,
    Part,
    ToolResult,
    find_texts,
    read_json,
)
from refold.core.messages.message_text import arguments_text, visible_text
from refold.core.messages.text_cutting import middle_out
from refold.patterns import read_pattern

Layout = Callable[[int, Message], str]
"""A layout: from a message's position and the message to a block of text."""

_TAGS: Final = read_pattern(__package__, "tags", re.IGNORECASE)
"""Tags of prompts and of ours, wide brackets and unseen characters included, and marks of chat templates."""
_INSTRUCTION: Final = re.compile(r"\[(?=/?INST\])|<(?=</?SYS>>)")
"""Marks of another chat template, which knows capitals only."""

SHOWN_CHARS: Final = 2_000
"""Characters of tool output, head and tail, that the default layout shows a summariser; lower loses more,
higher costs more."""

# The head of the arguments mostly names the file or the command; of a written text the middle may go.
_ARGUMENT_HEAD: Final = 600
_ARGUMENT_TAIL: Final = 200


def neutralise(text: str) -> str:
    """Return the text with its tags changed so that none can be taken for the prompt's own."""
    if "INST]" in text or "SYS>" in text:
        text = _INSTRUCTION.sub(lambda mark: "&#91;" if mark[0] == "[" else "&lt;", text)
    return _TAGS.sub("&lt;", text)


def default_layout(index: int, message: Message) -> str:
    """Lay out number, label and words; tool output as head and tail, media as markers."""
    lines = [
        f"#{index} tool result ({part.name or part.call_id}):\n{_head_and_tail(part.text)}"
        for part in message.results
    ]
    if message.text or not (message.results or message.calls):
        lines.append(f"#{index} {message.role}: {message.text}")
    lines += [
        f"#{index} calls {call.name}: "
        + middle_out(arguments_text(call), head=_ARGUMENT_HEAD, tail=_ARGUMENT_TAIL)
        for call in message.calls
    ]
    return neutralise("\n".join([*lines, *media_markers(message)]))


def parse_arguments(text: str) -> object:
    """Return arguments as a value, or the text itself if it is no JSON."""
    return read_json(text, text)


def role_label(message: Message) -> str:
    """Return the role as a word with a capital; a message that holds results is a tool's."""
    if message.results or message.role == "tool":
        return "Tool result"
    return message.role.capitalize()


def text_and_markers(message: Message) -> str:
    """Return the text of a message and of its results, and a marker for each picture or file."""
    return "\n".join([text for text in (visible_text(message),) if text] + media_markers(message))


def media_markers(message: Message) -> list[str]:
    """List a marker for each picture or file, because a summariser reads only text; words outside results."""
    markers: list[str] = []
    for part in message.parts:
        inner: tuple[Part, ...] = part.content if isinstance(part, ToolResult) else (part,)
        for piece in inner:
            if isinstance(piece, Image):
                markers.append("[image]")
            elif isinstance(piece, File | Document):
                name = piece.name if isinstance(piece, File) else piece.title
                markers.append(f"[file: {name or piece.media_type or 'unnamed'}]")
        if isinstance(part, Document | Opaque) and (texts := find_texts(part)):
            markers += [f"[{part.kind}]"] if isinstance(part, Opaque) else []
            markers += map(_head_and_tail, filter(None, texts))
    return markers


def _head_and_tail(text: str) -> str:
    return middle_out(text, head=SHOWN_CHARS // 2, tail=SHOWN_CHARS // 2)
