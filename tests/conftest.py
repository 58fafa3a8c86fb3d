"""What every test starts from: examples that are the same on every machine, no strategy left behind.

And signals as a terminal has them: a run in the background (`nohup make test &`) is started with those of
the keyboard ignored, and the programs that are tested would ignore them as well.

Laws and slow tests run without the tracer that measures coverage, which makes Python code three times as
slow: a branch that only random examples reach counts as not covered. A file that the tests of the
rooms have covered is not traced in those of policies and calls.
"""

import gc
import os
import signal
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from covered_files import stop_tracing_covered_files
from refold.policies.systems import strategies
from sample_sizes import few_or_all

settings.register_profile(
    "tests",
    max_examples=int(os.environ.get("REFOLD_EXAMPLES", few_or_all(20, 50))),
    deadline=None,
    derandomize="REFOLD_EXAMPLES" not in os.environ,
    # mutation testing runs every test several times in one process; a loaded machine is slow
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
)
settings.load_profile("tests")

for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


@pytest.fixture(autouse=True)
def _forgotten_strategies(monkeypatch):
    monkeypatch.setattr(strategies, "_BY_ID", {})


def pytest_collection_finish():
    """Take the tests themselves out of what the garbage collector looks through again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    done = yield
    folders = _folder(item), nextitem and _folder(nextitem)
    # twice: to look at all files takes as long as a hundred tests
    if folders[0] != folders[1] and (folders[0] == "core" or folders[1] == "calls"):
        stop_tracing_covered_files()
    return done


def _folder(item):
    """Return `core` for every test below tests/core; "" outside of tests."""
    root = Path(__file__).parent
    return item.path.relative_to(root).parts[0] if item.path.is_relative_to(root) else ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    if item.get_closest_marker("traced") or not (_is_law(item) or item.get_closest_marker("slow")):
        return (yield)
    tracers = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracers[0])
        threading.settrace(tracers[1])


def _is_law(item):
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
