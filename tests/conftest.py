"""What every test starts from: examples that are the same on every machine, and no strategy left behind."""

import os

import pytest
from hypothesis import HealthCheck, settings

from refold import strategies

settings.register_profile(
    "tests",
    max_examples=int(os.environ.get("REFOLD_EXAMPLES", "100")),
    deadline=None,
    derandomize="REFOLD_EXAMPLES" not in os.environ,
    # mutation testing runs every test several times in one process; a loaded machine is slow
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
)
settings.load_profile("tests")


@pytest.fixture(autouse=True)
def _forgotten_strategies(monkeypatch):
    monkeypatch.setattr(strategies, "_BY_ID", {})
