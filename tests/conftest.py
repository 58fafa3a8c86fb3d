"""What every test starts from: examples that are the same on every machine, no strategy left behind.

And signals as a terminal has them: a run in the background (`nohup make test &`) is started with those of
the keyboard ignored, and the programs that are tested would ignore them as well.
"""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from refold.policies.systems import strategies

settings.register_profile(
    "tests",
    max_examples=int(os.environ.get("REFOLD_EXAMPLES", "50")),
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
