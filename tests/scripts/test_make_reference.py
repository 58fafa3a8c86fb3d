"""docs/reference says what the code says."""

import ast
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import refold

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import make_reference  # noqa: E402
import reference_pages  # noqa: E402


def test_the_reference_is_up_to_date(monkeypatch):
    """After a change of a signature, a docstring, an option or a setting: run scripts/make_reference.py."""
    monkeypatch.setattr(sys, "argv", ["make_reference.py", "--check"])
    make_reference.main()


@pytest.mark.campaign
def test_a_page_that_is_old_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(make_reference, "REFERENCE", tmp_path)
    monkeypatch.setattr(sys, "argv", ["make_reference.py"])
    make_reference.main()
    (tmp_path / "events.md").write_text("old")
    monkeypatch.setattr(sys, "argv", ["make_reference.py", "--check"])
    with pytest.raises(SystemExit, match=r"docs/reference/events\.md is not up to date"):
        make_reference.main()


def test_every_public_name_is_there():
    assert make_reference.find_missing() == set()
    api = make_reference.make_api()
    groups = " ".join(make_reference.GROUPS.values()).split()
    assert [name for name in groups if f"### {name}\n" not in api] == []
    errors = reference_pages.format_errors()
    assert "## StoreUnsure" in errors
    assert len(refold.__all__) > 60


def test_signatures_are_those_of_the_source():
    def short(a, /, b=1, *rest: int, c: str = "x", **more) -> None:
        """Do nothing."""

    node = reference_pages.read_function(short)
    shown = reference_pages.format_signature(node, "short")
    assert shown == "def short(a, /, b = 1, *rest: int, c: str = 'x', **more) -> None"
    ast.parse(shown + ": ...")


def test_fields_come_with_the_text_below_them():
    @dataclass
    class Thing:
        """A thing."""

        size: int = 0
        """How large | it is."""
        _hidden: int = 0

        def grow(self) -> int:
            """Become larger."""
            return self.size

    text = reference_pages.format_class("Thing", Thing)
    assert "| `size` | `int` | How large \\| it is. |" in text
    assert "_hidden" not in text


def test_every_command_and_setting_is_there():
    commands, settings = reference_pages.format_commands(), reference_pages.format_settings()
    assert "## refold replay" in commands
    assert "`--window SIZE`" in commands
    assert "`REFOLD_SERVE_PORT`" in settings
    assert "`REFOLD_ASK`" in settings
