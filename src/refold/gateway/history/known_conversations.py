"""The conversations that are in memory, found by the ends of their histories without the store."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from refold.gateway.history.sizes import HistorySize
from refold.gateway.history.split import Part, Written

_MOST: Final = 4_096
"""Conversations that are remembered by their last messages; others are found in the store again."""
_NEWEST_NAMES: Final = 64
"""Messages that a request may have added since the one before it, where it is found without the store."""
_TIPS: Final = 4
"""Ends of a conversation that are remembered: a client that goes back and forth has a few branches."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a folded history was written; replaced as a whole, because threads read it."""

    parts: tuple[Part, ...]
    count: int
    """Number of the caller's messages that it is for."""
    tip: str
    """Name of the last one of them."""


@dataclass(slots=True)
class Conversation:
    """One conversation, as far as the gateway remembers it."""

    name: str
    policy: str
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a call of its session runs; requests get it in their order."""
    tips: deque[str] = field(default_factory=deque)
    """Names of the last messages of its latest requests."""
    window: int | None = None
    size: HistorySize | None = None
    """How large its history was as it came last."""
    plan: Plan | None = None
    """How the last request was written; None if it went on as it came."""
    written: Written = field(default_factory=dict)
    """The messages of folds in it, as JSON."""
    answered: int = 0
    """Tokens of its largest request that was answered; 0 if none was answered here."""
    requests: int = 0
    """Requests that its session has prepared."""
    short_bytes: int = 0
    """A body up to this size is far from the next fold, so that it is prepared without a thread."""
    quiet_turns: int = 0
    """Turns to come without a fold, because the client has just compacted by itself."""
    was_crowded: bool = False
    """True once it was said that system prompt and tools leave too little room."""
    queued: int = 0
    """Calls that have the lock or wait for it."""

    @property
    def is_free(self) -> bool:
        """True if nobody has the lock, and nobody waits for it."""
        return not self.queued and not self.lock.locked()

    def take(self) -> None:
        """Take the lock, which is free; whoever took it releases it."""
        with suppress(StopIteration):  # it ends at once
            self.lock.acquire().send(None)

    @asynccontextmanager
    async def in_turn(self) -> AsyncIterator[None]:
        """Have the lock, behind all who came before."""
        self.queued += 1
        try:
            async with self.lock:
                yield
        finally:
            self.queued -= 1


class KnownConversations:
    """Conversations by name, and by the names of their last messages."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Conversation] = OrderedDict()
        self._by_tip: dict[str, str] = {}

    def __iter__(self) -> Iterator[Conversation]:
        return iter(list(self._known.values()))

    def get(self, name: str, policy: str) -> Conversation:
        """Return the conversation of a name, which has this policy from now on."""
        known = self._known.setdefault(name, Conversation(name, policy))
        known.policy = policy
        self._known.move_to_end(name)
        while len(self._known) > _MOST:
            for tip in self._known.popitem(last=False)[1].tips:
                self._by_tip.pop(tip, None)
        return known

    def find(self, names: Sequence[str], hint: str = "") -> Conversation | None:
        """Return the conversation that ended at one of the newest messages of a list.

        hint   name of the one that is meant if several end there
        """
        hinted = self._known.get(hint)
        for name in reversed(names[-_NEWEST_NAMES:]):
            if hinted is not None and name in hinted.tips:
                return hinted
            if name in self._by_tip:
                return self._known.get(self._by_tip[name])
        return None

    def add_tip(self, conversation: Conversation, name: str) -> None:
        """Remember where a conversation ends now."""
        if name in conversation.tips:
            return
        conversation.tips.append(name)
        self._by_tip[name] = conversation.name
        if len(conversation.tips) > _TIPS:
            self._by_tip.pop(conversation.tips.popleft(), None)
