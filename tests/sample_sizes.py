"""How much a test does: a sample in `make test`, everything in `make torture`, which sets REFOLD_WHOLE."""

import os
from collections.abc import Iterable
from itertools import combinations, product
from typing import Any, TypeVar
from zlib import crc32

WHOLE = bool(os.environ.get("REFOLD_WHOLE"))
_Case = TypeVar("_Case")


def sample(cases: Iterable[_Case], count: int) -> list[_Case]:
    """So many of these cases, spread evenly, with the first and the last; in `make torture` all of them."""
    every = list(cases)
    if WHOLE or len(every) <= count:
        return every
    return [every[at * (len(every) - 1) // max(count - 1, 1)] for at in range(count)]


def choose_few(name: str, cases: int, count: int) -> list[int]:
    """The places of so many of the cases of a test, spread evenly; in `make torture` of all.

    The name of the test decides where they begin: of tests that share a table, each tries other rows of it.
    """
    if WHOLE or cases <= count:
        return list(range(cases))
    begin = crc32(name.encode())
    return sorted((begin + at * cases // count) % cases for at in range(count))


def few_or_all(few: int, everything: int) -> int:
    """A number of runs, examples or messages: the small one, and in `make torture` the large one."""
    return everything if WHOLE else few


def cover_pairs(*axes: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Cases in which every two values of different axes meet; in `make torture` all combinations."""
    values = [list(axis) for axis in axes]
    every = list(product(*(range(len(axis)) for axis in values)))
    if not WHOLE:
        every = _choose_pairs(every)
    return [tuple(axis[at] for axis, at in zip(values, case, strict=True)) for case in every]


def cover_values(cases: Iterable[tuple[Any, ...]]) -> list[int]:
    """The places of cases in which every value of every axis is met; in `make torture` of all."""
    every = [frozenset(enumerate(case)) for case in cases]
    if WHOLE:
        return list(range(len(every)))
    left = set().union(*every)
    chosen = []
    while left:
        chosen.append(max(range(len(every)), key=lambda at: len(every[at] & left)))
        left -= every[chosen[-1]]
    return sorted(chosen)


def _choose_pairs(cases: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The case with the most new pairs, the first one of several, until no pair is new."""
    pairs = {case: set(combinations(enumerate(case), 2)) for case in cases}
    left = set().union(*pairs.values())
    chosen = []
    while left:
        best = max(cases, key=lambda case: len(pairs[case] & left))
        chosen.append(best)
        left -= pairs[best]
    return chosen
