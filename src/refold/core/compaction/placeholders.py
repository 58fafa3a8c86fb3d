"""Placeholders for tool results that left, and the repair of pointers to reads that are gone or cut."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from refold.core.messages.file_operations import find_file_reads
from refold.core.messages.message import Message, Part, Text, ToolResult, replace_result_text
from refold.core.messages.message_text import cuttable_text
from refold.core.messages.text_cutting import NOTICE, SAVED

# These words are read back from histories that other programs stored, so they must not change.
CLEARED: Final = "[Tool result cleared]"
_CLEARED_WITH_HANDLE: Final = re.compile(r"\[Tool result cleared: #\d{1,12}\]")
_POINTER: Final = re.compile(r"\[File (.{1,5000}) - refer to (?:latest read|cut version) below\]", re.DOTALL)
_PLACEHOLDERS: Final = ("[Tool result ", "[File ", "[args ")
_ONLY_GAP: Final = re.compile(r"\[\.\.\. [^\n]*")
_LEFT_OUT: Final = re.compile(r"\[\.\.\. \d{1,12} \w{1,12} left out\b|…(?: \[recall #\d{1,12}\])?$")
"""A gap in a text, or the dots at the end of its beginning."""
_DOTS_CHARS: Final = 30
"""Characters of such dots with a handle behind them, and more."""
_FAILED_READ: Final = re.compile(
    r"\W{0,20}(?:error|exception|traceback|failed|failure|fatal|enoent|eacces|eisdir|no such file"
    r"|permission denied|access denied|(?:the )?file (?:not found|does not exist)"
    r"|cannot|can't|could not|couldn't|unable to)\b",
    re.IGNORECASE,
)
"""Beginning of a failed read; a file that begins so is taken for one, which only keeps more."""

Spot: TypeAlias = tuple[int, int]
"""Message and part."""


def is_cleared(text: str) -> bool:
    """True if a result was cleared before."""
    return text == CLEARED or _CLEARED_WITH_HANDLE.fullmatch(text) is not None


def format_pointer(path: str, *, cut: bool = False) -> str:
    """Format the placeholder of a read that a later one supersedes; `cut` if that one is not whole.

    Both have as many letters and words, so that a view keeps its size when a read is cut.
    """
    return f"[File {path} - refer to {'cut version' if cut else 'latest read'} below]"


def normalize_path(path: str) -> str:
    """Return a path in the spelling by which reads are compared."""
    return path.removeprefix("./")


def result_text(part: Part) -> str:
    """Return the text of a tool's answer, in a result or as plain text."""
    return part.text if isinstance(part, ToolResult | Text) else ""


def replace_answer(part: Part, text: str) -> Part:
    """Return a tool's answer with another text; an agent without tools prints what it read as plain text."""
    return replace_result_text(part, text) if isinstance(part, ToolResult) else Text(text)


def is_placeholder(text: str) -> bool:
    """True if a result does not show the output that was asked for, or no longer does."""
    is_empty = not text.strip() or _ONLY_GAP.fullmatch(text.strip()) is not None
    return is_empty or text.startswith(_PLACEHOLDERS) or _FAILED_READ.match(text) is not None


def is_whole(text: str) -> bool:
    """True if nothing was cut out of a result."""
    # Hardly any text has these words, which is found out much faster.
    may_be_cut = " left out" in text or " bytes " in text or "…" in text[-_DOTS_CHARS:]
    return not may_be_cut or (NOTICE.search(text) is None and _LEFT_OUT.search(text) is None)


def undo_cuts(message: Message, original: Message) -> Message:
    """Return a message with the whole text of each part that was cut, so that no text is cut twice.

    Parts that were replaced stay: a pointer, a cleared result, an output that names the file of the whole.
    """
    if len(message.parts) != len(original.parts):
        return message
    pairs = tuple(zip(message.parts, original.parts, strict=True))
    parts = tuple(old if type(old) is type(new) and _is_cut(new) else new for new, old in pairs)
    changed = any(part is not new for part, (new, _) in zip(parts, pairs, strict=True))
    return replace(message, parts=parts) if changed else message


def _is_cut(part: Part) -> bool:
    text = cuttable_text(part)
    return not is_whole(text) and SAVED not in text


def settle_pointers(messages: Sequence[Message]) -> Sequence[Message]:
    """Make the pointers to reads true: one whose read is gone is cleared, one whose read is cut says so.

    Return the very same list where all pointers are true.
    """
    pointers = {
        (index, place): match[1]
        for index, message in enumerate(messages)
        for place, part in enumerate(message.parts)
        if (isinstance(part, ToolResult) or message.role == "tool")
        and (match := _POINTER.fullmatch(result_text(part)))
    }
    if not pointers:
        return messages
    result = list(messages)
    for (index, place), text in _find_true_texts(messages, pointers).items():
        parts = list(result[index].parts)
        if result_text(parts[place]) != text:
            parts[place] = replace_answer(parts[place], text)
            result[index] = replace(result[index], parts=tuple(parts))
    changed = any(new is not old for new, old in zip(result, messages, strict=True))
    return result if changed else messages


def _find_true_texts(messages: Sequence[Message], pointers: Mapping[Spot, str]) -> dict[Spot, str]:
    """Find what each pointer to a file has to say, by the reads below it."""
    reads = {(read.message, read.part): read for read in find_file_reads(messages)}
    below: dict[str, dict[str, bool]] = {}
    """For each file the pieces of it that are shown further below, and whether one is whole."""
    texts: dict[Spot, str] = {}
    for spot in sorted({*reads, *pointers}, reverse=True):
        read = reads.get(spot)
        if spot in pointers:
            shown = below.get(normalize_path(pointers[spot]), {})
            # A read of the whole file covers every piece; who says nothing of a piece is content with any.
            covering = [whole for extent, whole in shown.items() if not read or extent in {"", read.extent}]
            is_whole_below = any(covering)
            texts[spot] = format_pointer(pointers[spot], cut=not is_whole_below) if covering else CLEARED
        elif read is not None and not is_placeholder(text := result_text(messages[spot[0]].parts[spot[1]])):
            shown = below.setdefault(normalize_path(read.path), {})
            shown[read.extent] = shown.get(read.extent, False) or is_whole(text)
    return texts
