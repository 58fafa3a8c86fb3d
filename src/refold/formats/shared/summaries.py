"""Recognises summaries by the first words of their text; looks at nothing behind these but file lists.

The headers are data of `core.messages.summary_headers`; this file knows none of them but refold's own.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from refold.core.messages import summary_headers
from refold.core.messages.message import SUMMARY, Message, Text

_HEADERS: Final = tuple(summary_headers.HEADERS.values())
_FIRST_WORDS: Final = tuple(header.text for header in _HEADERS)
_FIRST_CHARACTERS: Final = frozenset(words[0] for words in _FIRST_WORDS)
"""Rules out almost every text by one lookup: this runs for every message that is read."""
_ROLES: Final = frozenset({"user", "system"})
_MAX_HEAD: Final = 1000
"""Characters in which the attributes of our own header must end; a longer header is not ours."""
_ATTRIBUTE: Final = re.compile(r'([a-z][a-z_-]{0,40})="([^"]*)"')
_ESCAPES: Final = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&"))
"""`&amp;` comes last, so that an escaped `&lt;` is not unescaped twice."""


def recognise_summary(role: str, text: str) -> Mapping[str, Any] | None:
    r"""Return what the text of a summary says about itself; None for any other text.

    >>> meta = recognise_summary("system", "[Conversation Summary — 12 earlier messages compacted]\n\nGoal")
    >>> meta["messages"]
    12
    """
    if text[:1] not in _FIRST_CHARACTERS or not text.startswith(_FIRST_WORDS) or role not in _ROLES:
        return None
    header = next(header for header in _HEADERS if text.startswith(header.text))
    meta: dict[str, Any] = {"kind": header.kind, "by": header.by}
    head = text[:_MAX_HEAD].partition("\n")[0]
    if header.text == summary_headers.REFOLD:
        if ">" not in head:
            return None
        for key, value in _ATTRIBUTE.findall(head.partition(">")[0]):
            for escape, character in _ESCAPES:
                value = value.replace(escape, character)  # noqa: PLW2901  # one value, step by step
            is_number = value.isdecimal() and len(value) < 13
            meta[key.replace("-", "_")] = int(value) if is_number else value
    elif header.number and (number := header.number[1].search(head, len(header.text))):
        meta[header.number[0]] = int(number[1])
    if header.kind == "summary":
        for key, tag in (
            ("read_files", summary_headers.READ_FILES),
            ("modified_files", summary_headers.MODIFIED_FILES),
        ):
            if files := _read_file_list(text, tag):
                meta[key] = files
    return meta


def mark_summaries(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Mark the summaries in a history, and acknowledgements directly behind one."""
    marked: list[Message] = list(messages)
    for index, message in enumerate(messages):
        parts = message.parts
        # a message that holds more than the summary also holds somebody's own words: not ours to replace
        if len(parts) != 1 or type(parts[0]) is not Text or parts[0].text[:1] not in _FIRST_CHARACTERS:
            continue
        meta = recognise_summary(message.role, parts[0].text)
        if meta is None:
            continue
        marked[index] = replace(message, source=SUMMARY, meta=meta)
        for behind in messages[index + 1 : index + 2]:
            is_alone = behind.role == "assistant" and len(behind.parts) == 1
            if is_alone and behind.text == summary_headers.ACKNOWLEDGEMENT:
                marked[index + 1] = replace(behind, source=SUMMARY, meta={"kind": "ack"})
    return tuple(marked)


def _read_file_list(text: str, tag: str) -> tuple[str, ...]:
    # the last list counts: a stage appends it behind what a model wrote
    start = text.rfind(f"<{tag}>")
    end = text.find(f"</{tag}>", start)
    if start < 0 or end < 0:
        return ()
    lines = text[start + len(tag) + 2 : end].split("\n")
    return tuple(line.strip() for line in lines if line.strip())
