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

    __slots__ = ("_kept", "_of_round", "_round")

    def __init__(self) -> None:
        self._round = 0
        self._kept: dict[Any, list[Any]] = {}
        """For each function and its arguments the last round, the result, and what keeps the key its own."""
        self._of_round: dict[Any, Any] = {}

    def begin_round(self) -> None:
        """Begin a fold: what the last ones did not ask for is dropped."""
        self._round += 1
        oldest = self._round - ROUNDS
        self._kept = {key: known for key, known in self._kept.items() if known[0] >= oldest}
        self._of_round = {}

    def get(self, key: Hashable) -> Any:
        """Return what was put under a key; None if nothing was, or not lately."""
        known = self._kept.get(key)
        if known is None:
            return self._of_round.get(key)
        known[0] = self._round
        return known[1]

    def put(self, key: Hashable, found: Any, *, lasts: bool = False) -> None:
        """Keep something for this round, or for as long as it is asked for."""
        if lasts:
            self._kept[key] = [self._round, found]
        else:
            self._of_round[key] = found

    def find(self, find: Callable[..., Found], *of: Hashable) -> Found:
        """Return what a function finds in texts and numbers; it is called once for the same ones."""
        known = self._kept.get((find, of))
        if known is None:
            known = self._kept[find, of] = [0, find(*of)]
        known[0] = self._round
        result: Found = known[1]
        return result

    def find_in(self, find: Callable[..., Found], source: object, *beside: object) -> Found:
        """Return what a function finds in a message, which is known by its identity.

        To compare its value would take long. It is kept with what was found, so that its identity stays its
        own. `beside`: what the function needs and its result does not depend on.
        """
        known = self._kept.get((find, id(source)))
        if known is None:
            known = self._kept[find, id(source)] = [0, find(source, *beside), source]
        known[0] = self._round
        result: Found = known[1]
        return result
