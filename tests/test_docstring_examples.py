"""The examples in docstrings: each shows what the code does today."""

import doctest
import importlib
from pathlib import Path

import pytest

import refold

ROOT = Path(refold.__file__).parent
MODULES = sorted(
    ".".join(("refold", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_true(name):
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"needs an extra: {error}")
    assert doctest.testmod(module).failed == 0
