"""How much a test does: a sample in `make test`, everything in `make torture`, which sets REFOLD_WHOLE."""

import os
from collections.abc import Iterable
from typing import TypeVar

WHOLE = bool(os.environ.get("REFOLD_WHOLE"))
_Case = TypeVar("_Case")


def sample(cases: Iterable[_Case], count: int) -> list[_Case]:
    """So many of these cases, spread evenly, with the first and the last; in `make torture` all of them."""
    every = list(cases)
    if WHOLE or len(every) <= count:
        return every
    return [every[at * (len(every) - 1) // max(count - 1, 1)] for at in range(count)]


def few_or_all(few: int, everything: int) -> int:
    """A number of runs, examples or messages: the small one, and in `make torture` the large one."""
    return everything if WHOLE else few
