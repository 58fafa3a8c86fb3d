"""Names and values that a conversation comes back to, and whether a view still has them."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

ENTITY: Final = re.compile(
    r"https?://[^\s\"'<>()\[\]`\\]{4,200}"
    r"|(?<![\w/.-])[~.]{0,2}/?(?:[\w.@-]{1,80}/){1,15}[\w.@-]{1,80}"
    r"|(?<![\w/.-])[\w-]{1,60}\.(?:py|pyi|js|jsx|ts|tsx|go|rs|java|rb|c|h|cpp|ex|exs|md|rst|json|jsonl|toml|ya?ml|sql|sh|txt|html|css|lock|cfg|ini)\b"
    r"|\b[A-Za-z]\w{0,60}_\w{1,60}\b"
    r"|\b[A-Z][a-z0-9]{1,30}(?:[A-Z][a-z0-9]{0,30}){1,6}\b"
    r"|\b[a-z]{2,30}(?:[A-Z][a-z0-9]{1,30}){1,6}\b"
    r"|\b[0-9a-f]{7,40}\b"
    r"|\b[A-Za-z]{2,12}-\d{1,7}\b"
    r"|\bv?\d{1,4}\.\d{1,4}(?:\.\d{1,6})?\b|\b\d{4,10}\b"
)
"""Paths, addresses, identifiers, versions and numbers; written for the measure, apart from the ledger's."""
_UNREAD: Final = frozenset(
    {"role", "type", "id", "tool_use_id", "tool_call_id", "call_id", "signature", "data"}
)
"""Fields of a wire message that are no text for a model."""
_LONGEST: Final = 200_000
"""Characters of one text that are looked at, from its front: a huge one would take seconds."""


def texts(value: Any) -> Iterator[str]:
    """Every string that a model would read in a wire message or a list of them."""
    if isinstance(value, str):
        yield value[:_LONGEST]
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _UNREAD:
                yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def shown(messages: Sequence[Any]) -> str:
    """A view as one text; arguments that travel as JSON text are opened."""
    return "\n".join(_opened(text) for text in texts(list(messages)))


def entities(text: str) -> set[str]:
    """Paths, identifiers and values of a text.

    >>> sorted(entities("see src/app.py, call read_all, error 4711"))
    ['4711', 'read_all', 'src/app.py']
    """
    return {found.rstrip(".,:;-") for found in ENTITY.findall(text)}


@dataclass(frozen=True, slots=True)
class Again:
    """Something the model writes at a place, and the last place before where it was seen."""

    seen: int
    used: int
    what: str


def comings_back(messages: Sequence[Any], *, by_model: Sequence[bool], head: int) -> tuple[Again, ...]:
    """What a model writes after it was seen, and not only in the head, which is in every view."""
    always = entities(shown(messages[:head]))
    last: dict[str, int] = {}
    found: list[Again] = []
    for index in range(head, len(messages)):
        for what in entities(shown([messages[index]])) - always:
            if by_model[index] and what in last:
                found.append(Again(last[what], index, what))
            last[what] = index
    return tuple(found)


def wanted(again: Sequence[Again], cut: int) -> set[str]:
    """What was seen before the cut and is written behind it before it is seen again."""
    return {each.what for each in again if each.seen < cut <= each.used}


def held(view: str, names: set[str]) -> int:
    """How many of these names stand in a text, as words of their own."""
    found = names & entities(view)
    return len(found) + sum(_stands(view, name) for name in names - found)


def _stands(view: str, name: str) -> bool:
    at = view.find(name)
    while at >= 0:
        before, after = view[at - 1 : at], view[at + len(name) : at + len(name) + 1]
        if not (before.isalnum() or before == "_") and not (after.isalnum() or after == "_"):
            return True
        at = view.find(name, at + 1)
    return False


def _opened(text: str) -> str:
    if text.startswith("{"):
        try:
            return "\n".join(texts(json.loads(text)))
        except (ValueError, RecursionError):
            return text
    return text
