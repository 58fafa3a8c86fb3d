"""Finds the messages that a provider does not read although they are in the list.

A provider that compacts by itself answers with an opaque block and ignores everything before it. OpenAI's and
xAI's endpoints return the user's messages before their block, which stands for the rest: those are read. A
system message may be meant for one turn only: it stays in the list, and is hidden once the user has spoken
again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from refold.core.messages.message import EMPTY, Message, Opaque, Part

SIGNED_COMPACTION: Final = "signed_compaction"
"""Kind of a provider's compaction that has to be the first block of the history (Anthropic, on demand)."""
ASKED_COMPACTION: Final = "context_compaction"
"""Codex's name for a compaction; without content it asks for one."""
COMPACTIONS: Final = frozenset({"compaction", "compaction_summary", ASKED_COMPACTION, SIGNED_COMPACTION})
"""Kinds of blocks in which providers keep what they compacted themselves; nobody else can read them."""
FAILED_COMPACTION: Final = "failed_compaction"
"""Kind of a compaction block without content: it stands for nothing, and what is before it is read."""
NATIVE: Final = "native"
"""Key in the metadata of a fold's message that is a provider's own block: who made it, its readable twin, and
the tokens that the provider reported for it."""
ORDERS: Final = "one_turn"
"""Key in the metadata of joined system messages: the places of the parts for one turn, and what stays."""


def is_compaction(message: Message) -> bool:
    """True if a message holds a provider's own compaction, which stands for everything before it."""
    # a loop is three times as fast, and this runs for every message that is measured
    for part in message.parts:  # noqa: SIM110  # see above
        if type(part) is Opaque and part.kind in COMPACTIONS:
            return True
    return False


def find_blocks(message: Message) -> tuple[Opaque, ...]:
    """Return the compaction blocks of a message."""
    return tuple(part for part in message.parts if type(part) is Opaque and part.kind in COMPACTIONS)


def is_native(message: Message) -> bool:
    """True for a provider's block that a fold has put there: what stands before it was kept, and is read."""
    return NATIVE in message.meta and is_compaction(message)


def hides_before(messages: Sequence[Message], at: int) -> bool:
    """True if a message holds a block whose provider reads nothing of what stands before it.

    A block without words is OpenAI's or xAI's. If nobody but users and programs speaks before it, the list is
    what their endpoint has returned.
    """
    message = messages[at]
    values = [block.value for block in find_blocks(message)]
    has_words = any(isinstance(value, Mapping) and value.get("content") is not None for value in values)
    is_whole = has_words or at == 0 or any(each.role in {"assistant", "tool"} for each in messages[:at])
    return bool(values) and is_whole and not is_native(message)


def find_reported_tokens(message: Message) -> int | None:
    """Return the tokens that the provider reported for its block; None if it did not, or this is none."""
    facts = message.meta.get(NATIVE)
    tokens = facts.get("tokens") if isinstance(facts, Mapping) else None
    return tokens if type(tokens) is int and tokens > 0 else None


def opens_history(message: Message) -> bool:
    """True if a message begins with a provider's own compaction, so that nobody has to speak before it."""
    return bool(message.parts) and is_compaction(Message(message.role, message.parts[:1]))


def must_open_history(message: Message) -> bool:
    """True if a message holds a compaction before which nothing may stand."""
    return any(type(part) is Opaque and part.kind == SIGNED_COMPACTION for part in message.parts)


def lasts_one_turn(message: Message) -> bool:
    """True if a system message is hidden once the user speaks again."""
    if message.role != "system" or message.wire is None or not isinstance(message.wire.value, dict):
        return False
    return message.wire.value.get("clear_at") == "next_user_message"


def find_orders(message: Message) -> tuple[Collection[int], Mapping[str, Any]]:
    """Return which parts of a system message end with its turn, and the JSON value of what stays of it."""
    match message.meta.get(ORDERS):
        case (tuple() as places, Mapping() as value):
            return places, value
    if lasts_one_turn(message) or message.wire is None:
        return range(len(message.parts)), EMPTY
    return (), message.wire.value


def find_words(message: Message) -> list[tuple[int, Part]]:
    """Return the parts with their places, without one that is the message itself: settings, no words."""
    own = None if message.wire is None else message.wire.value
    numbered = enumerate(message.parts)
    return [(place, part) for place, part in numbered if type(part) is not Opaque or part.value is not own]


def end_orders(message: Message) -> Message:
    """Return joined system messages without the parts whose turn is over."""
    if ORDERS not in message.meta or message.wire is None:
        return message
    places, stays = find_orders(message)
    value = {key: list(field) if type(field) is tuple else field for key, field in stays.items()}
    parts = tuple(part for place, part in find_words(message) if place not in places)
    wire = replace(message.wire, value=value, parts=parts if "content" in value else (), raws=())
    meta = {key: fact for key, fact in message.meta.items() if key != ORDERS}
    return replace(message, parts=parts, meta=meta, wire=wire)


def find_unread(messages: Sequence[Message]) -> frozenset[int]:
    """Return the positions of the messages that the provider does not read."""
    blocks = [at for at, message in enumerate(messages) if is_compaction(message)]
    first = next((at for at in reversed(blocks) if hides_before(messages, at)), 0)
    last_user = next((at for at in range(len(messages) - 1, first, -1) if messages[at].role == "user"), 0)
    systems = [at for at in range(first, last_user) if messages[at].role == "system"]
    return frozenset((*range(first), *(at for at in systems if lasts_one_turn(messages[at]))))


def count_read(messages: Sequence[Message], sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of messages, 0 for those that the provider does not read."""
    unread = find_unread(messages)
    return tuple(0 if at in unread else size for at, size in enumerate(sizes)) if unread else tuple(sizes)
