"""Remembers what was worked out for a history that did not change; for as long as one compaction runs.

Stages look at one history one after another, and each asks who answers whom and where one may cut. A history
is a tuple of values that never change, so the very same tuple has the very same answer.
"""

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from refold.core.messages.message import Message

T = TypeVar("T")
_MOST: Final = 4
"""Histories that are remembered; a pipeline works on one at a time, and others may run beside it."""
_ALL: "Final[list[Recent[object]]]" = []


class Recent(Generic[T]):
    """A function of a history that remembers its last results."""

    def __init__(self, make: Callable[[Sequence[Message]], T]) -> None:
        self._make = make
        self._known: list[tuple[Sequence[Message], T]] = []
        _ALL.append(self)  # type: ignore[arg-type]  # only ever cleared

    def __call__(self, messages: Sequence[Message]) -> T:
        """The result; worked out once for the very same tuple."""
        if type(messages) is not tuple:
            return self._make(messages)
        for known, result in self._known:
            if known is messages:
                return result
        made = self._make(messages)
        self._known = [*self._known[1 - _MOST :], (messages, made)]
        return made

    def clear(self) -> None:
        """Let go of every history."""
        self._known = []


def forget() -> None:
    """Let go of every history, so that none is kept alive."""
    for one in _ALL:
        one.clear()
