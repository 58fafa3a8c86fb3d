"""Placeholders that stand for a tool result that left, and whether what they point to is still there."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from refold.core.messages.file_operations import reads
from refold.core.messages.message import Message, Part, Text, ToolResult
from refold.core.messages.rewrite import with_text
from refold.core.messages.text_cutting import NOTICE

CLEARED: Final = "[Tool result cleared]"
"""NeuroLink's words for a result that was cleared."""

_CLEARED: Final = re.compile(r"\[Tool result cleared: #\d{1,12}\]")
_POINTER: Final = re.compile(r"\[File (.{1,5000}) - refer to latest read below\]", re.DOTALL)
_PLACEHOLDER: Final = ("[Tool result ", "[File ", "[... ", "[args ")
_LEFT_OUT: Final = re.compile(r"\[\.\.\. \d{1,12} characters left out \.\.\.\]")
_NO_FILE: Final = re.compile(
    r"\W{0,20}(?:error|exception|traceback|failed|failure|fatal|enoent|eacces|eisdir|no such file"
    r"|permission denied|access denied|(?:the )?file (?:not found|does not exist)"
    r"|cannot|can't|could not|couldn't|unable to)\b",
    re.IGNORECASE,
)
"""How a failed read begins; a file that begins so is taken for one, which only keeps more."""


def cleared(number: int) -> str:
    """The same words with the handle by which the result can be fetched back.

    >>> cleared(12)
    '[Tool result cleared: #12]'
    """
    return f"{CLEARED[:-1]}: #{number}]"


def is_cleared(text: str) -> bool:
    """Whether a result was cleared before."""
    return text == CLEARED or _CLEARED.fullmatch(text) is not None


def pointer(path: str) -> str:
    """NeuroLink's words for a read that a later one supersedes."""
    return f"[File {path} - refer to latest read below]"


def plain(path: str) -> str:
    """A path in the one spelling by which reads are compared."""
    return path.removeprefix("./")


def shown(part: Part) -> str:
    """What a tool said in this part."""
    return part.text if isinstance(part, ToolResult | Text) else ""


def is_placeholder(text: str) -> bool:
    """Whether a result no longer shows, or never showed, what was asked for."""
    return not text.strip() or text.startswith(_PLACEHOLDER) or _NO_FILE.match(text) is not None


def is_whole(text: str) -> bool:
    """Whether nothing was cut out of a result."""
    return NOTICE.search(text) is None and _LEFT_OUT.search(text) is None


def true_pointers(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages without pointers to reads that are gone; the very list where all of them are true."""
    pointing = {
        (index, place): plain(found[1])
        for index, message in enumerate(messages)
        for place, part in enumerate(message.parts)
        if isinstance(part, ToolResult) and (found := _POINTER.fullmatch(part.text))
    }
    if not pointing:
        return messages
    last: dict[str, tuple[int, int]] = {}
    for read in reads(messages):
        if not is_placeholder(shown(messages[read.message].parts[read.part])):
            last[plain(read.path)] = (read.message, read.part)
    stale = {place for place, path in pointing.items() if last.get(path, (-1, -1)) < place}
    return [_cleared(message, index, stale) for index, message in enumerate(messages)] if stale else messages


def _cleared(message: Message, index: int, stale: set[tuple[int, int]]) -> Message:
    if not any((index, place) in stale for place in range(len(message.parts))):
        return message
    parts = tuple(
        with_text(part, CLEARED) if isinstance(part, ToolResult) and (index, place) in stale else part
        for place, part in enumerate(message.parts)
    )
    return replace(message, parts=parts)
