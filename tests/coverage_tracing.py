"""Measure coverage where it is promised: in the rooms, by the bodies of tests.

A traced line takes three times as long, and so does every line of pytest beside it. So the tracer, which
REFOLD_TRACED asks for, is there only while the rooms are imported and while the body of a test runs. What
has run as a whole is not traced in the tests behind it, and once every room is covered nothing is. A file
that is not covered is traced to the end, so that the report is the same.
"""

import functools
import importlib
import io
import os
import pkgutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ROOMS = ("refold.core", "refold.stages", "refold.formats", "refold.transcripts.agents")
"""The rooms whose coverage is reported: `source` of coverage in pyproject.toml."""


class Tracing:
    """The tracer of coverage, or none."""

    def __init__(self) -> None:
        self._tracers = None, None
        self._tool = None
        if not os.environ.get("REFOLD_TRACED"):
            return
        from coverage import Coverage  # not installed where the tests of adapters run

        self._tool = Coverage(data_file=None)
        # to read the rooms takes four seconds: the report finds them read
        self._tool._get_file_reporter = functools.cache(self._tool._get_file_reporter)
        self._tool.start()
        # the tracer locks its data at each call of a function: with the lock itself, not with a function of Python around it
        collector = self._tool._collector
        for locking in (collector, *collector.tracers):
            locking.lock_data, locking.unlock_data = collector.data_lock.acquire, collector.data_lock.release
        self._tracers = sys.gettrace(), threading.gettrace()
        for room in map(importlib.import_module, ROOMS):
            for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
                importlib.import_module(module.name)
        self.stop()
        self._ran = {}
        self._wanted = {}

    def forget_results(self) -> None:
        """Empty the caches of the rooms that are not covered: what was asked for untraced would not run again."""
        if self._tracers[0] is None:
            return
        for room in [module for name, module in sys.modules.items() if name.startswith(ROOMS)]:
            found = self._tool._collector.should_trace_cache.get(room.__file__)
            for value in vars(room).values() if found is None or found.trace else ():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()

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
        """Trace no more what has run as a whole; only files in which something new ran are looked at."""
        if self._tracers[0] is None:
            return
        collector = self._tool._collector
        for name, lines in [(name, frozenset(lines)) for name, lines in collector.data.items()]:
            before = self._ran.get(name, frozenset())
            if lines <= before:
                continue
            self._ran[name] = before | lines
            if len(self._ran[name]) < self._wanted.get(name, 0):
                continue
            numbers = self._tool._analyze(name).numbers
            # what ran is pairs of lines: each is one branch at most, and two statements
            missing = max(numbers.n_missing_branches, -(-numbers.n_missing // 2))
            self._wanted[name] = len(self._ran[name]) + missing
            # the only place that decides for each call
            collector.should_trace_cache[name].trace = missing > 0
        if not any(found.trace for found in collector.should_trace_cache.values() if found):
            self._tracers = None, None
        self.forget_results()

    def find_uncovered(self) -> str:
        """What of the rooms did not run, as a table; nothing where all of it ran, or nothing was traced."""
        table = io.StringIO()
        if self._tool is None or self._tool.report(file=table, show_missing=True, skip_covered=True) == 100:
            return ""
        return table.getvalue()

    def stop(self) -> None:
        """Trace nothing; a debugger is left alone."""
        if self._tracers[0] is not None:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]


TRACING = Tracing()
"""Made before anything else imports the rooms."""
