"""Measure coverage where it is promised: in the rooms, by the bodies of tests.

A traced line takes three times as long, and so does every line of pytest beside it. So once all tests are
collected, the tracer that `coverage run` started is there only while the body of a test runs. The tests of
the rooms come first. What they have covered is not traced in the others, and once every room is covered
nothing is. A file that is not covered is traced to the end, so that the report is the same.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import refold

SOURCE = Path(refold.__file__).parent
ROOMS = ("/refold/core/", "/refold/stages/", "/refold/formats/", "/refold/transcripts/agents/")
"""The rooms whose coverage is reported; other files are left at once."""


class Tracing:
    """The tracer of coverage, or none."""

    def __init__(self) -> None:
        self._tracers = sys.gettrace(), threading.gettrace()

    @contextmanager
    def on(self) -> Iterator[None]:
        """Trace what runs inside."""
        if self._tracers[0] is None:
            yield
            return
        sys.settrace(self._tracers[0])
        threading.settrace(self._tracers[1])  # type: ignore[arg-type]
        try:
            yield
        finally:
            self.stop()

    def leave_covered_files(self) -> None:
        """Trace no more what has run as a whole."""
        coverage = sys.modules.get("coverage")  # not installed where the tests of adapters run
        tool = None if coverage is None else coverage.Coverage.current()
        if tool is None or self._tracers[0] is None:
            return
        decisions = tool._collector.should_trace_cache  # the only place that decides for each call
        traced = [name for name, decision in decisions.items() if decision is not None and decision.trace]
        for name in traced:
            decisions[name].trace = not _is_covered(tool, name)
        imported = all(str(path) in decisions for path in SOURCE.rglob("*.py") if _is_of_room(str(path)))
        if imported and not any(decisions[name].trace for name in traced):
            self._tracers = None, None

    def stop(self) -> None:
        """Trace nothing; a debugger is left alone."""
        if self._tracers[0] is not None:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]


def _is_of_room(name: str) -> bool:
    return any(room in name for room in ROOMS)


def _is_covered(tool, name: str) -> bool:  # type: ignore[no-untyped-def]
    if not _is_of_room(name):
        return True
    numbers = tool._analyze(name).numbers
    return not (numbers.n_missing or numbers.n_missing_branches)
