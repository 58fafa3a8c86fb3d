"""What every test starts from: examples that are the same on every machine, no strategy left behind.

And signals as a terminal has them: a run in the background (`nohup make test &`) is started with those of
the keyboard ignored, and the programs that are tested would ignore them as well.

Laws and slow tests run without the tracer that measures coverage (tests/coverage_tracing.py): a branch that
only random examples reach counts as not covered.
"""

import gc
import os
import signal
from itertools import groupby

import pytest
from hypothesis import HealthCheck, settings

from coverage_tracing import TRACING
from refold.policies.systems import strategies
from sample_sizes import WHOLE, choose_few, cover_values, few_or_all

gc.disable()  # until all tests are collected: what imports make stays, and to look for what does not takes a seventh

settings.register_profile(
    "tests",
    max_examples=int(os.environ.get("REFOLD_EXAMPLES", few_or_all(4, 50))),
    deadline=None,
    derandomize="REFOLD_EXAMPLES" not in os.environ,
    # mutation testing runs every test several times in one process; a loaded machine is slow
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
)
settings.load_profile("tests")

for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)


def pytest_collection_modifyitems(config, items):
    """Leave to `make torture` what the marks `each_value`, `few_values` and `campaign` leave to it."""
    kept = []
    for _, cases in groupby(items, key=lambda item: (item.parent, getattr(item, "originalname", item.name))):
        kept += choose_cases(list(cases))
    chosen = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = kept


def choose_cases(cases):
    """Return those of one test function that run here; a case that is named alone runs, unless it is a campaign."""
    marks = {mark.name: mark for mark in cases[0].iter_markers()}
    if "campaign" in marks and not WHOLE:
        return []
    if "each_value" in marks:
        return [cases[at] for at in cover_values(tuple(case.callspec._idlist) for case in cases)]
    if "few_values" in marks:
        return [cases[at] for at in choose_few(cases[0].originalname, len(cases), *marks["few_values"].args)]
    return cases


def pytest_collection_finish():
    """Take the tests themselves out of what the garbage collector looks through, and let it look less often.

    What pytest keeps of each test grows all the time, so that Python's own numbers take a sixteenth of a run.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 20)
    gc.enable()
    TRACING.forget_results()


def pytest_sessionfinish(session):
    """Fail where a room is not covered, also if every test passed."""
    uncovered = TRACING.find_uncovered()
    if uncovered:
        session.config.get_terminal_writer().write(f"\n{uncovered}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Let each test begin without strategies of others: no fixture, which for each test takes a tenth of its time."""
    strategies._BY_ID.clear()
    done = yield
    if nextitem and nextitem.path != item.path:  # to look at what ran takes as long as a test or two
        TRACING.leave_covered_files()
    return done


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    if not _is_traced(item):
        return (yield)
    with TRACING.on():
        return (yield)


def _is_traced(item):
    return bool(item.get_closest_marker("traced")) or not (_is_law(item) or item.get_closest_marker("slow"))


def _is_law(item):
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
