"""The documentation is short, plain and linked; and the check that says so sees what is wrong."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import check_docs  # noqa: E402


def test_the_documentation_is_in_order():
    """What is wrong is printed by scripts/check_docs.py; --table shows the length of every page."""
    assert [str(problem) for problem in check_docs.check()] == []


def page(text, path="docs/page.md"):
    return check_docs.Page(path, text)


def test_a_long_page_is_found_unless_it_is_reference():
    long = "Word. " * 1_201
    assert list(check_docs.check_length(page(long))) == [
        "1,201 words, 1,200 at most: split it, or move data to docs/data"
    ]
    assert list(check_docs.check_length(page(long, "docs/reference/api.md"))) == []


def test_the_median_sentence_counts_prose_alone():
    text = (
        "# A heading that is rather long and has no full stop\n\n| a | table |\n|---|---|\n| x | y |\n\n"
        "One two three. `code` is a sentence too.\n\n- an item\n- [a link](x.md) to it\n\n"
        "```python\nnot = a sentence\n```\n"
    )
    assert page(text).sentences == [3, 5, 2, 4]
    long = " ".join(["word"] * 17) + "."
    assert list(check_docs.check_length(page(long))) == ["the median sentence has 17 words, 16 at most"]
    assert list(check_docs.check_length(page(long, "docs/decisions/1.md"))) == []


def test_the_readme_has_no_long_sentence():
    text = "Short. Short. Short. W" + " ".join(["word"] * 31) + "."
    assert list(check_docs.check_length(page(text, "README.md"))) == ["a sentence has 31 words, 30 at most"]


def test_words_that_are_not_plain_are_found():
    assert list(check_docs.check_words(page("We leverage it. `simply` is code."))) == [
        "'leverage': write 'use'"
    ]


def test_links_lead_to_files_and_headings(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "other.md").write_text(
        "# Other\n\n## What it does: `x`, y\n\n## Twice\n\n## Twice\n"
    )
    text = (
        "[a](other.md) [b](other.md#what-it-does-x-y) [c](other.md#twice_1) [d](https://x.y/z)"
        " [e](gone.md) [f](other.md#nothing) [g](#here)\n\n```\n[h](gone.md)\n```\n\n# Here\n"
    )
    (tmp_path / "docs" / "page.md").write_text(text)
    assert list(check_docs.check_links(page(text), tmp_path)) == [
        "gone.md: there is no such file",
        "other.md#nothing: there is no such heading",
    ]


@pytest.mark.parametrize(
    ("config", "wrong"),
    [
        ("nav:\n  - A: a.md\n  - D: decisions/1.md\n", []),
        ("nav:\n  - D: decisions/1.md\n", ["a.md is not in the navigation"]),
        ("nav:\n  - A: a.md\n  - B: b.md\n  - D: decisions/1.md\n", ["b.md does not exist"]),
        ("nav:\n  - D: decisions/1.md\n  - A: a.md\n", ["decision records are not last"]),
    ],
)
def test_the_navigation_has_every_page_and_decisions_last(config, wrong):
    pages = [page("", "docs/a.md"), page("", "docs/decisions/1.md"), page("", "README.md")]
    assert [problem.text for problem in check_docs.check_navigation(pages, config)] == wrong
