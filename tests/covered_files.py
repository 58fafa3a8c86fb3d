"""Take files out of the tracing of coverage once all of their lines and branches have run.

A traced line takes three times as long. The tests of a room run first and cover it; what uses the room
afterwards need not be traced there. A file that is not covered by then is traced to the end, so that the
report is the same.
"""

import sys

ROOMS = ("/refold/core/", "/refold/stages/", "/refold/formats/", "/refold/transcripts/agents/")
"""The rooms whose coverage is reported; other files are left at once."""


def stop_tracing_covered_files() -> list[str]:
    """Trace no more what has run as a whole; returns the files that leave. Nothing without coverage."""
    coverage = sys.modules.get("coverage")  # not installed where the tests of adapters run
    tool = None if coverage is None else coverage.Coverage.current()
    if tool is None:
        return []
    traced = tool._collector.should_trace_cache  # the only place that decides for each call
    left = []
    for name, decision in list(traced.items()):
        if decision is not None and decision.trace and _is_done(tool, name):
            decision.trace = False
            left.append(name)
    return left


def _is_done(tool, name: str) -> bool:
    if not any(room in name for room in ROOMS):
        return True
    numbers = tool._analyze(name).numbers
    return not (numbers.n_missing or numbers.n_missing_branches)
