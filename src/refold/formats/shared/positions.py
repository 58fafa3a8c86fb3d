"""Ids for calls that came without one, made from their position; pairs results without ids with calls.

Gemini, OpenAI's old `function_call` and some local servers send calls without ids. Each gets `name#N`, where
N counts such calls from the start of the history, so that a longer history gives the same ids. A result
without an id answers the first unanswered call of its name: of the latest calls, else of older ones.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final

_POSITION: Final = re.compile(r"#(?:\d{1,12}|none-\d{1,12})\Z")


class _Unanswered:
    """Calls without a result, oldest first; every step costs the same however many there are."""

    def __init__(self, calls: Iterable[tuple[str, str]] = ()) -> None:
        self._names: OrderedDict[str, str] = OrderedDict()
        self._by_name: dict[str, OrderedDict[str, None]] = {}
        for call_id, name in calls:
            self.add(call_id, name)

    def add(self, call_id: str, name: str) -> None:
        if call_id in self._names:
            self.remove(call_id)
        self._names[call_id] = name
        self._by_name.setdefault(name, OrderedDict())[call_id] = None

    def remove(self, call_id: str) -> bool:
        """Remove a call that is answered; return False if it is not here."""
        name = self._names.pop(call_id, None)
        if name is None:
            return False
        del self._by_name[name][call_id]
        return True

    def take_first(self, name: str | None) -> str | None:
        """Remove and return the oldest call of a tool, or of any tool."""
        calls = self._names if name is None else self._by_name.get(name)
        if not calls:
            return None
        call_id = next(iter(calls))
        self.remove(call_id)
        return call_id

    def copy(self) -> "_Unanswered":
        return _Unanswered(self._names.items())

    def drain_into(self, other: "_Unanswered") -> None:
        for call_id, name in self._names.items():
            other.add(call_id, name)
        self._names.clear()
        self._by_name.clear()


class Positions:
    """Calls without a result while one history is read.

    Most histories have ids everywhere, so calls and results are only noted until the first one without an id.
    """

    def __init__(self) -> None:
        self._noted: list[Any] | None = []
        """Their ids and names in turn, because a pair for each takes as much as the message."""
        self._calls = 0
        self._strays = 0
        self._is_answering = False

    def copy(self) -> "Positions":
        """Return another one that stands at the same place of the history."""
        other, own = Positions(), vars(self)
        vars(other).update(own | {name: own[name].copy() for name in own if hasattr(own[name], "copy")})
        return other

    def call(self, call_id: str | None, name: str) -> str:
        """Note a call and return its id, made from its position if it has none."""
        if call_id is None:
            call_id = f"{name}#{self._calls}"
            self._calls += 1
            self._replay_noted()
        elif self._noted is not None:
            self._noted += call_id, name
            return call_id
        self._add_call(call_id, name)
        return call_id

    def result(self, call_id: str | None, name: str | None) -> str:
        """Note a result and return the id of the call it answers."""
        if call_id is None:
            self._replay_noted()
        elif self._noted is not None:
            self._noted += call_id, None
            return call_id
        self._is_answering = True
        if call_id is not None:
            self._remove_answered(call_id)
            return call_id
        answered = self._latest.take_first(name) or self._older.take_first(name)
        if answered is None:
            answered = f"{name or 'tool'}#none-{self._strays}"
            self._strays += 1
        return answered

    def _add_call(self, call_id: str, name: str) -> None:
        if self._is_answering:
            self._latest.drain_into(self._older)
            self._is_answering = False
        self._latest.add(call_id, name)

    def _remove_answered(self, call_id: str) -> None:
        self._is_answering = True
        _ = self._latest.remove(call_id) or self._older.remove(call_id)

    def _replay_noted(self) -> None:
        """Process the calls and results that were only noted: from now on the order matters."""
        if self._noted is None:
            return
        turns, self._noted = iter(self._noted), None
        self._latest, self._older = _Unanswered(), _Unanswered()
        for call_id, name in zip(turns, turns, strict=True):
            if name is None:
                self._remove_answered(call_id)
            else:
                self._add_call(call_id, name)


def is_position(call_id: str, name: str | None) -> bool:
    """True if an id was made from a position and must not be written.

    >>> is_position("read#3", "read"), is_position("call_7", "read")
    (True, False)
    """
    tail = _POSITION.search(call_id)
    return tail is not None and (name is None or call_id[: tail.start()] == name)
