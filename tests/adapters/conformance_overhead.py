"""What Refold costs in a turn: CPU time in its own calls, and the difference to the same agent without it."""

import gc
import inspect
import statistics
import time
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conformance_case import Case
from conformance_running import Running

import refold
from refold.adapters.bridge import Bridge, Translated

MESSAGES = 200
"""The size of the history at which the goal is set."""
TURNS = 40
"""Turns that are measured, half of them below that size and half above."""
HUGE = 10_000_000
CALLS: list[tuple[type, str]] = [
    (refold.Session, "prepare"),
    (refold.Session, "observe"),
    (refold.Session, "say"),
    (refold.AsyncSession, "prepare"),
    (refold.AsyncSession, "observe"),
    (refold.AsyncSession, "say"),
    (Bridge, "translate"),
    (Translated, "restore"),
]
"""Everything that an adapter calls in a turn; none of them waits for a model."""


class Stopwatch:
    """CPU time of the whole process while one of the calls runs; calls inside calls count once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._started = 0.0

    def start(self) -> None:
        if self._depth == 0:
            self._started = time.process_time()
        self._depth += 1

    def stop(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.process_time() - self._started

    def watch(self, call: Any) -> Any:
        """Return the call with the watch around it."""

        @wraps(call)
        def watched(*args: Any, **named: Any) -> Any:
            self.start()
            try:
                return call(*args, **named)
            finally:
                self.stop()

        @wraps(call)
        async def awatched(*args: Any, **named: Any) -> Any:
            self.start()
            try:
                return await call(*args, **named)
            finally:
                self.stop()

        return awatched if inspect.iscoroutinefunction(call) else watched


def measure_turns(case: Case, url: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Return medians in milliseconds: of Refold's calls, of a turn without Refold, and of one with it."""
    watch = Stopwatch()
    for owner, name in CALLS:
        monkeypatch.setattr(owner, name, watch.watch(getattr(owner, name)))
    provider: Any = SimpleNamespace(url=url, root=url.removesuffix("/v1"))
    plain = Running(case, provider, folder / "plain", with_refold=False)
    with_refold = Running(case, provider, folder / "refold", window=HUGE)
    first = (MESSAGES - TURNS) // 2
    own: list[float] = []
    whole: dict[Running, list[float]] = {plain: [], with_refold: []}
    try:
        for turn in range(1, first + TURNS + 1):
            for opened, times in whole.items():
                if turn == first:
                    gc.collect()
                watch.seconds = 0.0
                started = time.process_time()
                opened.turn("k", f"Turn {turn}: NOTOOL")
                times.append(time.process_time() - started)
            own.append(watch.seconds)
    finally:
        plain.close()
        with_refold.close()
    medians = {"overhead_ms": own, "turn_ms": whole[plain], "turn_with_refold_ms": whole[with_refold]}
    return {name: round(statistics.median(times[first:]) * 1000, 2) for name, times in medians.items()}
