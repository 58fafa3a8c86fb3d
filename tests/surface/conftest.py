"""No setting of the user reaches these tests."""

import pytest
from surface_frozen import refold_variables


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch, tmp_path):
    for name in refold_variables():
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
