"""Tell linear work from quadratic work without a clock: count steps, or stop what hangs."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

HANG_SECONDS = 120
"""Far more than any test takes on a busy machine; only an endless or exponential run reaches it."""


def count_calls(work: Callable[[], Any]) -> int:
    """Count the calls of Python and C functions that some work makes."""
    calls = 0

    def count(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def count_lines(work: Callable[[], Any]) -> int:
    """Count the lines of Python that some work executes; slower than `count_calls`, and sees loops."""
    lines = 0

    def count(_frame: Any, event: str, _arg: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def assert_linear(make_work: Callable[[int], Callable[[], Any]], size: int, *, slack: float = 1.5) -> None:
    """Assert that twice the size makes about twice the steps; quadratic work makes four times as many."""
    once, twice = count_lines(make_work(size)), count_lines(make_work(2 * size))
    assert twice <= 2 * once * slack + 1_000, f"{once} steps for {size}, {twice} for {2 * size}"


@contextmanager
def stop_hang(seconds: int = HANG_SECONDS) -> Iterator[None]:
    """Fail a test that hangs, such as a pattern that backtracks for ever; no measure of speed."""
    assert threading.current_thread() is threading.main_thread(), "signals reach the main thread only"

    def stop(_signal: int, _frame: Any) -> None:
        raise AssertionError(f"still running after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
