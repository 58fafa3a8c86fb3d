"""The checks that take long run in `make adapters` only; there they are given by REFOLD_ADAPTERS=full."""

import os

import pytest

pytest.register_assert_rewrite("conformance", "conformance_case", "conformance_running")


def pytest_configure(config):
    config.addinivalue_line("markers", "full: a check of the conformance suite that runs in `make adapters`")


def pytest_collection_modifyitems(config, items):
    if os.environ.get("REFOLD_ADAPTERS") == "full":
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("full")]
