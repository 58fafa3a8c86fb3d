"""What Refold costs in a turn: CPU time in its own calls, and the difference to the same agent without it.

The difference of whole turns has the framework's own work in it, which differs by more from turn to turn than
Refold takes. So the calls are what is published; the difference stands beside them in the results.
"""

import gc
import inspect
import os
import statistics
import threading
import time
from contextlib import closing
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
    (refold.AsyncSession, "run_flow"),
    (Bridge, "translate"),
    (Translated, "restore"),
]
"""Everything that an adapter calls in a turn; none of them waits for a model."""


class Stopwatch:
    """CPU time of the threads that run one of the calls, while they do; calls inside calls count once.

    That of the whole process would have the threads in it by which frameworks log and trace.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self._here = threading.local()
        self._lock = threading.Lock()

    def take(self) -> float:
        """Return the seconds since it was called last."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def start(self) -> None:
        self._here.depth = getattr(self._here, "depth", 0) + 1
        if self._here.depth == 1:
            self._here.started = time.thread_time()

    def stop(self) -> None:
        self._here.depth -= 1
        if self._here.depth == 0:
            with self._lock:
                self._seconds += time.thread_time() - self._here.started

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
    """Return medians in milliseconds: of Refold's calls, of its writes in them, and of turns without and with.

    And the load of the machine in this minute: what was measured on a busy one is not published. The turns of both agents come one after the other, so that each meets the machine in the same state.
    """
    calls, writes = Stopwatch(), Stopwatch()
    with closing(refold.open_store(f"sqlite:{folder / 'a.db'}")) as store:
        # They may work in a thread of its own; event loops use the second one.
        appends = [(type(store), name) for name in ("append", "append_at_once")]
    for owner, name in appends:
        monkeypatch.setattr(owner, name, writes.watch(getattr(owner, name)))
    for owner, name in (*CALLS, *appends):
        monkeypatch.setattr(owner, name, calls.watch(getattr(owner, name)))
    provider: Any = SimpleNamespace(url=url, root=url.removesuffix("/v1"))
    plain = Running(case, provider, folder / "plain", with_refold=False)
    with_refold = Running(case, provider, folder / "refold", window=HUGE)
    first = (MESSAGES - TURNS) // 2
    whole: dict[Running, list[float]] = {plain: [], with_refold: []}
    own: dict[Stopwatch, list[float]] = {calls: [], writes: []}
    try:
        for turn in range(1, first + TURNS + 1):
            if turn == first:
                gc.collect()
            for opened, times in whole.items():
                started = time.process_time()
                opened.turn("k", f"Turn {turn}: NOTOOL")
                times.append(time.process_time() - started)
            for watch, times in own.items():
                times.append(watch.take())
    finally:
        plain.close()
        with_refold.close()
    measured = {"overhead_ms": own[calls], "store_ms": own[writes]}
    measured |= {"turn_ms": whole[plain], "turn_with_refold_ms": whole[with_refold]}
    figures = {name: round(statistics.median(times[first:]) * 1000, 2) for name, times in measured.items()}
    return {**figures, "load": round(os.getloadavg()[0], 1)}
