"""Names for calls that came without an id, from where they stand; finds the call an unnamed result answers.

Gemini, OpenAI's old `function_call` and some local servers send calls without ids. Each gets `name#N`, N
counting such calls from the start of the history, so that a longer history gives the same names. A result
without an id answers the first unanswered call of its name: of the latest calls, else of older ones.
"""

import re
from collections import OrderedDict
from typing import Final

_TAIL: Final = re.compile(r"#(?:\d{1,12}|none-\d{1,12})\Z")


class _Unanswered:
    """Calls that wait for a result, oldest first; every step costs the same however many wait."""

    def __init__(self) -> None:
        self._names: OrderedDict[str, str] = OrderedDict()
        self._by_name: dict[str, OrderedDict[str, None]] = {}

    def add(self, call_id: str, name: str) -> None:
        if call_id in self._names:
            self.answer(call_id)
        self._names[call_id] = name
        waiting = self._by_name.get(name)
        if waiting is None:
            waiting = self._by_name[name] = OrderedDict()
        waiting[call_id] = None

    def answer(self, call_id: str) -> bool:
        name = self._names.pop(call_id, None)
        if name is None:
            return False
        del self._by_name[name][call_id]
        return True

    def take(self, name: str | None) -> str | None:
        waiting = self._names if name is None else self._by_name.get(name)
        if not waiting:
            return None
        call_id = next(iter(waiting))
        self.answer(call_id)
        return call_id

    def drain_into(self, other: "_Unanswered") -> None:
        if not self._names:
            return
        for call_id, name in self._names.items():
            other.add(call_id, name)
        self._names.clear()
        self._by_name.clear()


class Positions:
    """What has been called and not yet answered while one history is read.

    Most histories have ids everywhere, so calls and results are only noted until the first one without.
    """

    def __init__(self) -> None:
        self._noted: list[tuple[str, str | None]] | None = []
        self._latest = _Unanswered()
        self._older = _Unanswered()
        self._calls = 0
        self._strays = 0
        self._answering = False

    def call(self, call_id: str | None, name: str) -> str:
        """Note a call; give its id, made from its position where it has none."""
        if call_id is None:
            call_id = f"{name}#{self._calls}"
            self._calls += 1
            self._look()
        elif self._noted is not None:
            self._noted.append((call_id, name))
            return call_id
        self._called(call_id, name)
        return call_id

    def result(self, call_id: str | None, name: str | None) -> str:
        """Note a result; give the id of the call it answers."""
        if call_id is None:
            self._look()
        elif self._noted is not None:
            self._noted.append((call_id, None))
            return call_id
        self._answering = True
        if call_id is not None:
            self._answered(call_id)
            return call_id
        found = self._latest.take(name) or self._older.take(name)
        if found is None:
            found = f"{name or 'tool'}#none-{self._strays}"
            self._strays += 1
        return found

    def _called(self, call_id: str, name: str) -> None:
        if self._answering:
            self._latest.drain_into(self._older)
            self._answering = False
        self._latest.add(call_id, name)

    def _answered(self, call_id: str) -> None:
        self._answering = True
        _ = self._latest.answer(call_id) or self._older.answer(call_id)

    def _look(self) -> None:
        """Go through what was noted: from now on order matters."""
        noted, self._noted = self._noted, None
        for call_id, name in noted or ():
            if name is None:
                self._answered(call_id)
            else:
                self._called(call_id, name)


def is_position(call_id: str, name: str | None) -> bool:
    """Whether an id was made from a position and must not be written.

    >>> is_position("read#3", "read"), is_position("call_7", "read")
    (True, False)
    """
    tail = _TAIL.search(call_id)
    return tail is not None and (name is None or call_id[: tail.start()] == name)
