"""Find the session to which a list belongs, among all sessions of a store, by the names of its messages.

A name stands for a message and everything before it, so one name that is known tells how much is shared. Two
conversations may begin alike: a thousand people who say "hi" have a thousand sessions. So a session is only
found if the list shares an answer with it, or goes on where it ends, or if the caller names it as a hint.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from refold.calls.conversation import choose_format
from refold.core.log.entries import AS_WRITTEN, ROOT, hash_entry
from refold.core.messages.message import Message
from refold.core.messages.plain_values import to_plain_messages
from refold.formats.shared import canonical
from refold.session.steps.load import SYSTEM
from refold.session.steps.read_entries import system_items
from refold.session.steps.take_in import is_system
from refold.stores import Store

NEWEST: Final = 64
"""Names that are looked up first, the newest: a client that goes on adds fewer messages in one turn."""
LEAST_COVERED: Final = 2
"""Messages that a session must have to be found by its end alone, without an answer in it."""


@dataclass(frozen=True, slots=True)
class SessionMatch:
    """The session to which a list belongs."""

    name: str
    shared: int
    """How many messages of the list it has, counted behind the system messages in front."""


def find_session(
    store: Store,
    messages: Sequence[Any],
    *,
    format: str | None = None,  # noqa: A002  # the word users know
    hint: str | None = None,
    redact: Callable[[Any], Any] | None = None,
) -> SessionMatch | None:
    """Return the session that shares most with a list; None if the list begins a conversation.

    hint     a session that the caller believes it is; it is preferred, and needs to share no answer
    redact   removes secrets, as the sessions do before they store a message
    """
    items = to_plain_messages(messages)
    wire = choose_format(items, format)
    start = next((at for at, item in enumerate(items) if not is_system(wire, item)), len(items))
    body = items[start:]
    for prefix in ("", AS_WRITTEN):  # logs of the first version have other names
        names = _name_messages(body, prefix, redact)
        if shared := _count_known(store, names):
            parsed = wire.parse(body[:shared])
            sessions = [found.session for found in store.locate([names[shared - 1]])[names[shared - 1]]]
            if hint not in sessions:  # then one with the same system messages, then the youngest
                sessions = [session for session in sessions if _may_go_on(store, session, parsed)]
                alike = (session for session in sessions if _read_system(store, session) == items[:start])
                hint = next(alike, sessions[0]) if sessions else None
            return None if hint is None else SessionMatch(hint, shared)
    return None


def _name_messages(body: Sequence[Any], prefix: str, redact: Callable[[Any], Any] | None) -> list[str]:
    names: list[str] = []
    parent = ROOT
    for number, item in enumerate(body, 1):
        value = canonical.to_json(item) if isinstance(item, Message) else item
        parent = hash_entry(parent, "said", value if redact is None else redact(value), number, prefix)
        names.append(parent)
    return names


def _count_known(store: Store, names: Sequence[str]) -> int:
    """Return how many messages some session has: of a known one all before it are known."""
    start = max(0, len(names) - NEWEST)
    known = store.locate(names[start:], limit=1)
    if known:
        return next(at for at in range(len(names), start, -1) if names[at - 1] in known)
    low, high = 0, start  # `low` messages are known, `high` + 1 are not
    while low < high:
        middle = (low + high + 1) // 2
        if store.locate([names[middle - 1]], limit=1):
            low = middle
        else:
            high = middle - 1
    return low


def _may_go_on(store: Store, session: str, shared: Sequence[Message]) -> bool:
    """True if the shared messages tell more than how conversations begin."""
    if any(message.role == "assistant" for message in shared):
        return True
    head = store.head(session)
    return head is not None and LEAST_COVERED <= len(shared) == head.said


def _read_system(store: Store, session: str) -> list[Any]:
    """Return the system messages of a session."""
    head = store.head(session)
    entries = iter(()) if head is None else store.read(session, head.place, kinds=SYSTEM, newest=True)
    entry = next(entries, None)
    return [] if entry is None else system_items(entry)
