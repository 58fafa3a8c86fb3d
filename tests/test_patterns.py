"""Patterns in data files: how such a file is read."""

import re
from pathlib import Path

import pytest

import refold
from refold.patterns import read_pattern

TEXT = r"""# What these are for.

== word
# a comment, and a blank line

cat|  two
dog\x20
== whole
^(?:{word}
  |{more})$
== more
\{\d{1,3}\}
# note"""
FILES = sorted(Path(refold.__file__).parent.rglob("data/patterns.txt"))


@pytest.fixture(params=["\n", "\r\n"])
def package(tmp_path, monkeypatch, request):
    """A package with such a file, also as git writes it on Windows."""
    name = f"patterns_{ord(request.param[0])}"
    (tmp_path / name / "data").mkdir(parents=True)
    (tmp_path / name / "__init__.py").touch()
    (tmp_path / name / "data" / "patterns.txt").write_bytes(TEXT.replace("\n", request.param).encode())
    monkeypatch.syspath_prepend(tmp_path)
    return name


def test_a_line_is_an_alternative_or_goes_on_with_the_one_above(package):
    """Comments, blank lines and the ends of lines are no part of a pattern; blanks within a line are."""
    assert read_pattern(package, "word").pattern == r"cat|  two|dog\x20"


def test_names_stand_for_other_patterns_and_repetitions_stay(package):
    whole = read_pattern(package, "whole", re.IGNORECASE)
    assert whole.pattern == r"^(?:cat|  two|dog\x20|\{\d{1,3}\})$"
    assert whole.fullmatch("{12}")
    assert whole.fullmatch("CAT")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parts[-3])
def test_no_line_ends_with_a_blank(file):
    r"""Editors take it away; it is written \x20."""
    lines = file.read_text(encoding="utf-8").split("\n")
    assert [line for line in lines if line != line.rstrip()] == []
    assert lines[0].startswith("# ")
