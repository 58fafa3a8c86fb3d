"""NeuroLink's tags on messages, and the functions that set, obey and remove them.

    condenseId, metadata.isSummary          on a summary
    condenseParent                          on the messages it replaces: the `condenseId`
    truncationId, isTruncationMarker        on a marker
    truncationParent                        on the messages it replaces: the `truncationId`

A message with a parent is hidden. A later summary may hide an earlier one. The functions take messages of any
shape, never change their arguments and raise nothing for an odd list.
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
    puts: str
    """What stands for the hidden messages, in the words of `core.messages.summary_headers`."""


Tag: TypeAlias = tuple[Kind, str]
"""A kind and an id, which together name a fold in a list."""

CONDENSED: Final = Kind("condenseId", "condenseParent", ("summarize",), "summary")
TRUNCATED: Final = Kind("truncationId", "truncationParent", ("truncate",), "notice")
KINDS: Final = (CONDENSED, TRUNCATED)
MARKER: Final = "isTruncationMarker"
IS_SUMMARY: Final = "isSummary"
FIELDS: Final = frozenset({"condenseId", "condenseParent", "truncationId", "truncationParent", MARKER})
WHOLE: Final = "refold"
"""Key under which a message is carried whole if it has fields of these names itself."""


def get_effective_history(messages: Sequence[Any]) -> list[Any]:
    """Return the messages that are not hidden.

    >>> get_effective_history([{"content": "a", "condenseParent": "x"}, {"content": "b"}])
    [{'content': 'b'}]
    """
    return [message for message in messages if parent_tag(message) is None]


def read_shown(messages: Sequence[Any]) -> list[tuple[Any, Mapping[str, Any] | None]]:
    """Return the messages that are not hidden, each with what its tags say of it as a summary or marker."""
    return [
        (message, None if (tag := own_tag(message)) is None else {"kind": tag[0].puts, "by": "neurolink"})
        for message in get_effective_history(messages)
    ]


def has_tags(messages: Sequence[Any]) -> bool:
    """True if a message of the list is hidden, or is the summary or marker of others."""
    return any(parent_tag(message) or own_tag(message) for message in messages)


def tag_for_condensation(messages: Sequence[Any], start: int, end: int, condense_id: str) -> list[Any]:
    """Hide the messages [start, end) behind the summary of that id; hidden ones stay as they are."""
    return _hide(messages, start, end, condense_id, CONDENSED)


def tag_for_truncation(messages: Sequence[Any], start: int, end: int, truncation_id: str) -> list[Any]:
    """Hide the messages [start, end) behind the marker of that id; hidden ones stay as they are."""
    return _hide(messages, start, end, truncation_id, TRUNCATED)


def remove_condensation_tags(messages: Sequence[Any], condense_id: str) -> list[Any]:
    """Show what the summary of that id hides, and remove the summary.

    If a later summary hides this one, it now hides what comes back.
    """
    return _show(messages, condense_id, CONDENSED)


def remove_truncation_tags(messages: Sequence[Any], truncation_id: str) -> list[Any]:
    """Show what the marker of that id hides, and remove the marker."""
    return _show(messages, truncation_id, TRUNCATED)


def parent_tag(message: Any) -> Tag | None:
    """Return the fold that hides a message; an empty or odd tag hides nothing."""
    if isinstance(message, Mapping):
        for kind in KINDS:
            if isinstance(name := message.get(kind.parent), str) and name:
                return kind, name
    return None


def own_tag(message: Any) -> Tag | None:
    """Return the fold whose summary or marker a message is."""
    if not isinstance(message, Mapping):
        return None
    metadata = message.get("metadata")
    is_marked = {
        CONDENSED: isinstance(metadata, Mapping) and metadata.get(IS_SUMMARY) is True,
        TRUNCATED: message.get(MARKER) is True,
    }
    for kind in KINDS:
        if is_marked[kind] and isinstance(name := message.get(kind.id), str) and name:
            return kind, name
    return None


def _hide(messages: Sequence[Any], start: int, end: int, name: str, kind: Kind) -> list[Any]:
    return [
        {**message, kind.parent: name}
        if max(0, start) <= index < end
        and isinstance(message, Mapping)
        and parent_tag(message) is None
        and own_tag(message) != (kind, name)
        else message
        for index, message in enumerate(messages)
    ]


def _show(messages: Sequence[Any], name: str, kind: Kind) -> list[Any]:
    tag = (kind, name)
    parents = [parent_tag(message) for message in messages if own_tag(message) == tag]
    above = next((parent for parent in parents if parent and parent != tag), None)
    shown = []
    for message in messages:
        if own_tag(message) == tag:
            continue
        if not isinstance(message, Mapping) or message.get(kind.parent) != name:
            shown.append(message)
            continue
        bare = {key: value for key, value in message.items() if key != kind.parent}
        shown.append({**bare, above[0].parent: above[1]} if above and parent_tag(bare) is None else bare)
    return shown


def remove_tags(item: Any, *, said: bool = False) -> Any:
    """Return the message of an item without its tags; `said` keeps those that mark it as a summary."""
    if not isinstance(item, Mapping):
        return item
    whole = item.get(WHOLE)
    if isinstance(whole, Mapping) and whole.keys() == {"item"}:
        return whole["item"]
    hidden = {kind.parent for kind in KINDS} if parent_tag(item) else set()
    own = None if said else own_tag(item)
    if own is None:
        return {key: value for key, value in item.items() if key not in hidden} if hidden else item
    message = {key: value for key, value in item.items() if key not in hidden | {own[0].id, MARKER}}
    if own[0] is CONDENSED:
        metadata = {key: value for key, value in message.pop("metadata").items() if key != IS_SUMMARY}
        message |= {"metadata": metadata} if metadata else {}
    return message
