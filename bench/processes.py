"""The same work on many items in several processes that are forked, so that they inherit what is loaded."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_WORK: dict[str, Callable[[Any], Any]] = {}
"""What a worker process does; inherited when it is forked, because a tokenizer cannot be sent."""


def _do_work(item: Any) -> Any:
    return _WORK["do"](item)


def map_in_processes(do: Callable[[Any], Any], items: Sequence[Any], jobs: int) -> Iterator[Any]:
    """Do the same to each item; results come in order."""
    if jobs <= 1 or len(items) <= 1:
        yield from map(do, items)
        return
    _WORK["do"] = do
    with multiprocessing.get_context("fork").Pool(min(jobs, len(items))) as pool:
        yield from pool.imap(_do_work, items)


def split_in_batches(count: int, size: int) -> list[range]:
    """Split the numbers below `count` into batches for processes."""
    return [range(start, min(start + size, count)) for start in range(0, count, size)]
