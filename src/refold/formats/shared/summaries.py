"""Knows summaries again by the first words of their text; looks at nothing behind them but file lists."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from refold.core.messages import summary_headers
from refold.core.messages.message import SUMMARY, Message, Text
from refold.core.messages.summary_headers import HEADERS

_KNOWN: Final = tuple(HEADERS.values())
_FIRST_WORDS: Final = tuple(header.text for header in _KNOWN)
_FIRST: Final = frozenset(words[0] for words in _FIRST_WORDS)
_ROLES: Final = frozenset({"user", "system"})

_HEAD_CHARACTERS: Final = 1000
"""Where the attributes of our own header must end; a longer one is not ours."""
_ATTRIBUTE: Final = re.compile(r'([a-z][a-z_-]{0,40})="([^"]*)"')
_ESCAPES: Final = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&"))


def recognise(role: str, text: str) -> Mapping[str, Any] | None:
    r"""Give what a summary's text says about itself, or None for every other text.

    >>> recognise("system", "[Conversation Summary — 12 earlier messages compacted]\n\nGoal")["messages"]
    12
    """
    if text[:1] not in _FIRST or not text.startswith(_FIRST_WORDS) or role not in _ROLES:
        return None
    header = next(header for header in _KNOWN if text.startswith(header.text))
    meta: dict[str, Any] = {"kind": header.kind, "by": header.by}
    head = text[: _line_end(text)]
    if header.text == summary_headers.REFOLD:
        if ">" not in head:
            return None
        meta.update(_attributes(head[: head.index(">")]))
    elif header.number and (number := header.number[1].search(head, len(header.text))):
        meta[header.number[0]] = int(number[1])
    if header.kind == "summary":
        meta.update(_files(text))
    return meta


def mark(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Mark the summaries in a history, and acknowledgements directly behind one."""
    done: list[Message] = list(messages)
    behind = False
    for index, message in enumerate(done):
        parts = message.parts
        # a message that holds more than the summary also holds somebody's own words: not ours to replace
        if len(parts) != 1 or type(parts[0]) is not Text:
            behind = False
            continue
        meta = recognise(message.role, parts[0].text)
        acknowledges = (
            behind and message.role == "assistant" and parts[0].text == summary_headers.ACKNOWLEDGEMENT
        )
        behind = meta is not None
        if acknowledges:
            meta = {"kind": "ack"}
        if meta is not None:
            done[index] = replace(message, source=SUMMARY, meta=meta)
    return tuple(done)


def _line_end(text: str) -> int:
    end = text.find("\n", 0, _HEAD_CHARACTERS)
    return _HEAD_CHARACTERS if end < 0 else end


def _attributes(head: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in _ATTRIBUTE.findall(head):
        for escape, character in _ESCAPES:
            value = value.replace(escape, character)  # noqa: PLW2901  # one value, unescaped step by step
        found[key.replace("-", "_")] = int(value) if value.isdecimal() and len(value) < 13 else value
    return found


def _files(text: str) -> dict[str, tuple[str, ...]]:
    """Read the last file lists of a text: what a stage appended stands behind what a model wrote."""
    found = {
        "read_files": _tagged(text, summary_headers.READ_FILES),
        "modified_files": _tagged(text, summary_headers.MODIFIED_FILES),
    }
    return {key: files for key, files in found.items() if files}


def _tagged(text: str, tag: str) -> tuple[str, ...]:
    start = text.rfind(f"<{tag}>")
    end = text.find(f"</{tag}>", start)
    if start < 0 or end < 0:
        return ()
    lines = text[start + len(tag) + 2 : end].split("\n")
    return tuple(line.strip() for line in lines if line.strip())
