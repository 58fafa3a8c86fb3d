"""Every test of the terminal program runs in an empty folder, with nothing set by the person who runs it."""

import os

import pytest


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    for name in os.environ:
        if name.startswith(("REFOLD_", "LC_")) or name in {"NO_COLOR", "COLUMNS", "LANG", "XDG_DATA_HOME"}:
            monkeypatch.delenv(name)
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    monkeypatch.chdir(tmp_path)
