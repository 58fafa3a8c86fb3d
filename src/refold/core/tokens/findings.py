"""What was found in texts and messages, kept for whoever looks at the same ones again.

A session keeps its findings with its view, and a call on plain data has findings of its own: none are global.
A fold looks mostly at what the folds before it looked at, so what a few of them did not ask for is dropped.
"""

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar

Found = TypeVar("Found")

ROUNDS: Final = 3
"""Folds for which something is kept that none of them asks for. On recorded agent sessions two keep all that
is asked for again; more would keep old texts alive for nothing."""


class Findings:
    """Results of pure functions, by what they were found in."""

    __slots__ = ("_before", "_now", "_of_round")

    def __init__(self) -> None:
        self._now: dict[Any, tuple[Any, ...]] = {}
        """For each function and its arguments that were asked for in this round the result, and what keeps
        the key its own."""
        self._before: list[dict[Any, tuple[Any, ...]]] = []
        """The same of each round before that nobody asked for since, the newest first."""
        self._of_round: dict[Any, Any] = {}

    def begin_round(self) -> None:
        """Begin a fold: what the last ones did not ask for is dropped."""
        self._before = [self._now, *self._before[: ROUNDS - 1]]
        self._now = {}
        self._of_round = {}

    def _find_before(self, key: Hashable) -> tuple[Any, ...] | None:
        """Return what an earlier round found; it belongs to this one from now on."""
        for kept in self._before:
            known = kept.pop(key, None)
            if known is not None:
                self._now[key] = known
                return known
        return None

    def get(self, key: Hashable) -> Any:
        """Return what was put under a key; None if nothing was, or not lately."""
        known = self._now.get(key) or self._find_before(key)
        return self._of_round.get(key) if known is None else known[0]

    def put(self, key: Hashable, found: Any, *, lasts: bool = False) -> None:
        """Keep something for this round, or for as long as it is asked for."""
        if lasts:
            self._now[key] = (found,)
        else:
            self._of_round[key] = found

    def find(self, find: Callable[..., Found], *of: Hashable) -> Found:
        """Return what a function finds in texts and numbers; it is called once for the same ones."""
        key = find, of
        known = self._now.get(key) or self._find_before(key)
        if known is None:
            known = self._now[key] = (find(*of),)
        result: Found = known[0]
        return result

    def find_in(self, find: Callable[..., Found], source: object, *beside: object) -> Found:
        """Return what a function finds in a message, which is known by its identity.

        To compare its value would take long. It is kept with what was found, so that its identity stays its
        own. `beside`: what the function needs and its result does not depend on.
        """
        key = find, id(source)
        known = self._now.get(key) or self._find_before(key)
        if known is None:
            known = self._now[key] = (find(source, *beside), source)
        result: Found = known[0]
        return result
