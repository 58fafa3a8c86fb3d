"""Find the names and values that a conversation uses again, and count those a view still has."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
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
"""Paths, addresses, identifiers, versions, numbers. Independent of the ledger, which it measures."""
_UNREAD: Final = frozenset(
    {"role", "type", "id", "tool_use_id", "tool_call_id", "call_id", "signature", "data"}
)
"""Fields of a wire message that a model does not read."""
_LONGEST: Final = 200_000
"""Characters of one text that are read; a huge text would take seconds."""


def iter_texts(value: Any) -> Iterator[str]:
    """Yield every string that a model would read in a wire message or a list of them."""
    if isinstance(value, str):
        yield value[:_LONGEST]
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _UNREAD:
                yield from iter_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from iter_texts(item)


def join_texts(messages: Sequence[Any]) -> str:
    """Join the texts of a view; arguments in JSON text are unescaped."""
    shown: list[str] = []
    for text in iter_texts(list(messages)):
        shown.append(text)
        if text.startswith("{"):
            with suppress(ValueError, RecursionError):
                shown[-1] = "\n".join(iter_texts(json.loads(text)))
    return "\n".join(shown)


def find_entities(text: str) -> set[str]:
    """Find the paths, identifiers and values of a text.

    >>> sorted(find_entities("see src/app.py, call read_all, error 4711"))
    ['4711', 'read_all', 'src/app.py']
    """
    return {name.rstrip(".,:;-") for name in ENTITY.findall(text)}


@dataclass(frozen=True, slots=True)
class ReusedName:
    """A name that the model writes at one index and last saw at another."""

    seen: int
    used: int
    what: str


def find_reused_names(
    messages: Sequence[Any], *, by_model: Sequence[bool], head: int
) -> tuple[ReusedName, ...]:
    """Find the names that a model writes after it saw them; names of the head are in every view."""
    always = find_entities(join_texts(messages[:head]))
    last: dict[str, int] = {}
    reused: list[ReusedName] = []
    for index in range(head, len(messages)):
        for name in find_entities(join_texts([messages[index]])) - always:
            if by_model[index] and name in last:
                reused.append(ReusedName(last[name], index, name))
            last[name] = index
    return tuple(reused)


def names_needed_after(again: Sequence[ReusedName], cut: int) -> set[str]:
    """Return the names seen before the cut and written after it before they are seen again."""
    return {name.what for name in again if name.seen < cut <= name.used}


def count_present(view: str, names: set[str]) -> int:
    """Count the names that a text has as whole words."""
    present = names & find_entities(view)
    return len(present) + sum(has_name(view, name) for name in names - present)


def has_name(view: str, name: str) -> bool:
    """True if a text has a name as a whole word."""
    at = view.find(name)
    while at >= 0:
        before, after = view[at - 1 : at], view[at + len(name) : at + len(name) + 1]
        if not (before.isalnum() or before == "_") and not (after.isalnum() or after == "_"):
            return True
        at = view.find(name, at + 1)
    return False
