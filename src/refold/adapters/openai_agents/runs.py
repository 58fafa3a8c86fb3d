"""What a session knows of its runner: items that it has read, and which requests are of its conversation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from refold.core.log.entries import Entry

_WORDS: Final = frozenset({"message", "reasoning"})
"""Items of an answer after which the runner does nothing more."""


class OwnRequests:
    """Knows the requests of one conversation by what its runner does, not by the items that are left in them.

    A limit or a filter may leave any items. But a run begins with reading the session, and after an answer
    with calls the runner comes back with their results. What is asked in between is asked by an agent that is
    a tool: it runs with the same configuration, and its list begins with other words.
    """

    def __init__(self) -> None:
        self._first: Any = None
        """The first of the runner's items, as far as they were read."""
        self._opening: Any = None
        """The first item that the model was sent."""
        self._is_running = False
        self._calls: frozenset[str] = frozenset()
        """The calls whose results the runner will bring."""
        self._awaits_request = False
        """True from the beginning of a run until its model is asked."""

    def begin_run(self, first: Any) -> None:
        """Note that the runner reads the session, whose first item is this."""
        if first != self._first:  # the conversation begins anew
            self._first, self._opening = first, None
        self._is_running, self._calls = True, frozenset()
        self._awaits_request = True

    def note_request(self) -> None:
        """Note that the model of the run was asked through Refold."""
        self._awaits_request = False

    def is_bypassed(self, items: Sequence[Any]) -> bool:
        """True once if a run brings an answer, and no model was asked through Refold."""
        has_answer = any(isinstance(item, dict) and item.get("role") == "assistant" for item in items)
        is_bypassed = self._awaits_request and has_answer
        self._awaits_request = self._awaits_request and not is_bypassed
        return is_bypassed

    def accept(self, items: Sequence[Any]) -> bool:
        """True if a list is one of the conversation's."""
        first = items[0] if items else None
        is_own = self._opening is None or first == self._opening or self._is_awaited(items)
        if is_own:
            self._opening = first
        return is_own

    def _is_awaited(self, items: Sequence[Any]) -> bool:
        if not self._calls:
            return self._is_running
        return any(isinstance(item, dict) and item.get("call_id") in self._calls for item in items)

    def note_answer(self, output: Sequence[Any]) -> None:
        """Note what an answer to the conversation lets its runner do."""
        calls = (getattr(item, "call_id", None) for item in output)
        self._calls = frozenset(call for call in calls if call)
        self._is_running = any(item.type not in _WORDS for item in output)


@dataclass(frozen=True, slots=True)
class KnownItems:
    """The items of a conversation that were read before, so that a run reads only what came since."""

    bodies: tuple[str, ...] = ()
    """Their JSON."""
    last: str = ""
    """The name of the last one, which stands for all before it: each name is made from the one before."""

    @property
    def count(self) -> int:
        """Number of the last item that is known; 0 for none."""
        return len(self.bodies)

    def is_continued_by(self, entries: Sequence[Entry]) -> bool:
        """True if entries, from the last known item on, go on from it."""
        return not self.last or (bool(entries) and entries[0].name == self.last)

    def plus(self, entries: Sequence[Entry]) -> "KnownItems":
        """Return the known items with those that came since."""
        new = entries[1:] if self.last else entries
        if not new:
            return self
        return KnownItems((*self.bodies, *(entry.body for entry in new)), new[-1].name)
