"""NeuroLink's tags on messages, and the functions that set, heed and remove them.

    condenseId, metadata.isSummary          on a summary
    condenseParent                          on what it stands for: the `condenseId`
    truncationId, isTruncationMarker        on a marker
    truncationParent                        on what it stands for: the `truncationId`

Whatever has a parent is hidden. A summary may itself be hidden by a later one. The functions take messages of
any shape, never change what they are given and raise nothing for a list that is odd.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Kind:
    """The names of the tags of one kind of fold."""

    id: str
    parent: str
    stages: tuple[str, ...]


Tag: TypeAlias = tuple[Kind, str]
"""A kind and an id: what names a fold in a list."""

CONDENSED: Final = Kind("condenseId", "condenseParent", ("summarize",))
TRUNCATED: Final = Kind("truncationId", "truncationParent", ("truncate",))
KINDS: Final = (CONDENSED, TRUNCATED)
MARKER: Final = "isTruncationMarker"
IS_SUMMARY: Final = "isSummary"
FIELDS: Final = frozenset({"condenseId", "condenseParent", "truncationId", "truncationParent", MARKER})
WHOLE: Final = "refold"
"""Key under which a message is carried whole that has fields of these names itself."""


def get_effective_history(messages: Sequence[Any]) -> list[Any]:
    """The messages that are not hidden.

    >>> get_effective_history([{"content": "a", "condenseParent": "x"}, {"content": "b"}])
    [{'content': 'b'}]
    """
    return [message for message in messages if parent(message) is None]


def tag_for_condensation(messages: Sequence[Any], start: int, end: int, condense_id: str) -> list[Any]:
    """Hide the messages [start, end) behind the summary of that id; what is hidden already stays as it is."""
    return _tag(messages, start, end, condense_id, CONDENSED)


def tag_for_truncation(messages: Sequence[Any], start: int, end: int, truncation_id: str) -> list[Any]:
    """Hide the messages [start, end) behind the marker of that id; what is hidden already stays as it is."""
    return _tag(messages, start, end, truncation_id, TRUNCATED)


def remove_condensation_tags(messages: Sequence[Any], condense_id: str) -> list[Any]:
    """Show again what the summary of that id hides, and take the summary out.

    Where the summary itself is hidden by a later one, that one now hides what comes back.
    """
    return _untag(messages, condense_id, CONDENSED)


def remove_truncation_tags(messages: Sequence[Any], truncation_id: str) -> list[Any]:
    """Show again what the marker of that id hides, and take the marker out."""
    return _untag(messages, truncation_id, TRUNCATED)


def parent(message: Any) -> Tag | None:
    """What hides a message; an empty or strange tag hides nothing."""
    if isinstance(message, Mapping):
        for kind in KINDS:
            if isinstance(found := message.get(kind.parent), str) and found:
                return kind, found
    return None


def stands_for(message: Any) -> Tag | None:
    """What a summary or a marker stands for."""
    if not isinstance(message, Mapping):
        return None
    metadata = message.get("metadata")
    marks = {
        CONDENSED: isinstance(metadata, Mapping) and metadata.get(IS_SUMMARY) is True,
        TRUNCATED: message.get(MARKER) is True,
    }
    for kind, marked in marks.items():
        if marked and isinstance(found := message.get(kind.id), str) and found:
            return kind, found
    return None


def _tag(messages: Sequence[Any], start: int, end: int, name: str, kind: Kind) -> list[Any]:
    done = list(messages)
    for index in range(max(0, start), min(end, len(done))):
        message = done[index]
        free = isinstance(message, Mapping) and parent(message) is None
        if free and stands_for(message) != (kind, name):
            done[index] = {**message, kind.parent: name}
    return done


def _untag(messages: Sequence[Any], name: str, kind: Kind) -> list[Any]:
    own = [message for message in messages if stands_for(message) == (kind, name)]
    above = next((found for message in own if (found := parent(message)) and found != (kind, name)), None)
    done = []
    for message in messages:
        if stands_for(message) == (kind, name):
            continue
        if not isinstance(message, Mapping) or message.get(kind.parent) != name:
            done.append(message)
            continue
        shown = {key: value for key, value in message.items() if key != kind.parent}
        done.append({**shown, above[0].parent: above[1]} if above and parent(shown) is None else shown)
    return done


def message_of(item: Any, *, said: bool = False) -> Any:
    """The message of an item, without its tags; one that was said keeps those of a summary."""
    if not isinstance(item, Mapping):
        return item
    whole = item.get(WHOLE)
    if isinstance(whole, Mapping) and whole.keys() == {"item"}:
        return whole["item"]
    away = {kind.parent for kind in KINDS} if parent(item) else set()
    stands = None if said else stands_for(item)
    if stands is None:
        return {key: value for key, value in item.items() if key not in away} if away else item
    message = {key: value for key, value in item.items() if key not in away | {stands[0].id, MARKER}}
    if stands[0] is CONDENSED:
        metadata = {key: value for key, value in message.pop("metadata").items() if key != IS_SUMMARY}
        message |= {"metadata": metadata} if metadata else {}
    return message
