"""Placeholders that stand for tool results that left, and the repair of pointers to reads that are gone."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from refold.core.messages.file_operations import find_file_reads
from refold.core.messages.message import Message, Part, Text, ToolResult
from refold.core.messages.rewrite import replace_result_text
from refold.core.messages.text_cutting import NOTICE

# These words are read back from histories that other programs stored, so they must not change.
CLEARED: Final = "[Tool result cleared]"
_CLEARED_WITH_HANDLE: Final = re.compile(r"\[Tool result cleared: #\d{1,12}\]")
_POINTER: Final = re.compile(r"\[File (.{1,5000}) - refer to latest read below\]", re.DOTALL)
_PLACEHOLDERS: Final = ("[Tool result ", "[File ", "[... ", "[args ")
_LEFT_OUT: Final = re.compile(r"\[\.\.\. \d{1,12} \w{1,12} left out\b")
_FAILED_READ: Final = re.compile(
    r"\W{0,20}(?:error|exception|traceback|failed|failure|fatal|enoent|eacces|eisdir|no such file"
    r"|permission denied|access denied|(?:the )?file (?:not found|does not exist)"
    r"|cannot|can't|could not|couldn't|unable to)\b",
    re.IGNORECASE,
)
"""Beginning of a failed read; a file that begins so is taken for one, which only keeps more."""


def is_cleared(text: str) -> bool:
    """True if a result was cleared before."""
    return text == CLEARED or _CLEARED_WITH_HANDLE.fullmatch(text) is not None


def format_pointer(path: str) -> str:
    """Format the placeholder of a read that a later one supersedes."""
    return f"[File {path} - refer to latest read below]"


def normalize_path(path: str) -> str:
    """Return a path in the spelling by which reads are compared."""
    return path.removeprefix("./")


def result_text(part: Part) -> str:
    """Return the text of a tool's answer, in a result or as plain text."""
    return part.text if isinstance(part, ToolResult | Text) else ""


def is_placeholder(text: str) -> bool:
    """True if a result does not show the output that was asked for, or no longer does."""
    return not text.strip() or text.startswith(_PLACEHOLDERS) or _FAILED_READ.match(text) is not None


def is_whole(text: str) -> bool:
    """True if nothing was cut out of a result."""
    return NOTICE.search(text) is None and _LEFT_OUT.search(text) is None


def clear_stale_pointers(messages: Sequence[Message]) -> Sequence[Message]:
    """Clear pointers to reads that are gone; return the very same list where all pointers are true."""
    pointers = {
        (index, place): normalize_path(match[1])
        for index, message in enumerate(messages)
        for place, part in enumerate(message.parts)
        if isinstance(part, ToolResult) and (match := _POINTER.fullmatch(part.text))
    }
    if not pointers:
        return messages
    last: dict[str, tuple[int, int]] = {}
    for read in find_file_reads(messages):
        if not is_placeholder(result_text(messages[read.message].parts[read.part])):
            last[normalize_path(read.path)] = (read.message, read.part)
    stale = {place for place, path in pointers.items() if last.get(path, (-1, -1)) < place}
    if not stale:
        return messages
    result = list(messages)
    for index in {index for index, _ in stale}:
        parts = tuple(
            replace_result_text(part, CLEARED)
            if (index, place) in stale and isinstance(part, ToolResult)
            else part
            for place, part in enumerate(messages[index].parts)
        )
        result[index] = replace(messages[index], parts=parts)
    return result
