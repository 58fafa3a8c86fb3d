"""Which checks of the conformance suite run: all of them with REFOLD_ADAPTERS=full, as in `make adapters`.

Else only the fast ones, and of a module with several cases (one for each wire) only those of the first.
"""

import os

import pytest

pytest.register_assert_rewrite("conformance", "conformance_case", "conformance_running")


def pytest_configure(config):
    config.addinivalue_line("markers", "full: a check of the conformance suite that runs in `make adapters`")


def pytest_collection_modifyitems(config, items):
    if os.environ.get("REFOLD_ADAPTERS") == "full":
        return
    first = {}
    left_out = [item for item in items if item.get_closest_marker("full") or not _is_first(item, first)]
    config.hook.pytest_deselected(items=left_out)
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]


def _is_first(item, first):
    """True for what is no case, and for the first case of its module."""
    case = getattr(item, "cls", None)
    if not hasattr(case, "case"):
        return True
    return first.setdefault(item.path, case) is case
