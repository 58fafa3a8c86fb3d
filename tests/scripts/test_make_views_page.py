"""docs/data/views.md shows what the code of today makes of its ten conversations."""

import sys
from pathlib import Path

import pytest

import refold

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import make_views_page  # noqa: E402
import view_examples  # noqa: E402


@pytest.mark.campaign
def test_the_page_is_up_to_date(monkeypatch):
    """After a change on purpose: run scripts/make_views_page.py and read what is said about the views."""
    monkeypatch.setattr(sys, "argv", ["make_views_page.py", "--check"])
    make_views_page.main()


def test_it_writes_the_page_and_tells_when_it_differs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(make_views_page, "PAGE", tmp_path / "views.md")
    monkeypatch.setattr(view_examples, "EXAMPLES_OF_VIEWS", view_examples.EXAMPLES_OF_VIEWS[3:5])
    monkeypatch.setattr(make_views_page, "EXAMPLES_OF_VIEWS", view_examples.EXAMPLES_OF_VIEWS)
    monkeypatch.setattr(sys, "argv", ["make_views_page.py"])
    make_views_page.main()
    assert "2. A chat in German" in capsys.readouterr().out
    page = (tmp_path / "views.md").read_text(encoding="utf-8")
    (tmp_path / "views.md").write_text(page.replace("Garten", "garden"), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["make_views_page.py", "--check"])
    with pytest.raises(SystemExit, match=r"2\. A chat in German"):
        make_views_page.main()


def test_there_are_ten_examples_and_each_is_judged():
    assert len(view_examples.EXAMPLES_OF_VIEWS) == 10
    for folder in (make_views_page.BEFORE, make_views_page.JUDGED):
        assert sorted(path.name for path in folder.iterdir()) == [f"{n:02}.txt" for n in range(1, 11)]


@pytest.mark.few_values(3)
@pytest.mark.parametrize("example", view_examples.EXAMPLES_OF_VIEWS, ids=lambda example: example.title)
def test_every_view_is_valid_and_within_its_size(example):
    """A model can be sent each of the views; the rules of the first message are in it."""
    history = example.history()
    view = example.fold(history)
    assert refold.validate(view.messages) == []
    assert view.tokens < refold.count(history)
    assert "truncated to fit" not in str(view.messages), "a fold that missed its goal was cut off"


def test_the_line_that_tells_the_reason_is_in_the_view():
    """A lone ERROR line in 3,000 lines survives."""
    example = view_examples.EXAMPLES_OF_VIEWS[0]
    text = make_views_page.format_view(example.fold(example.history()))
    assert "ERROR import batch=0114 record=0007731908 leader has 23 bytes, expected 24" in text


def test_the_example_of_the_short_page_is_in_the_long_one():
    short = (make_views_page.DOCS / "views.md").read_text(encoding="utf-8")
    (shown,) = short.split("~~~~text\n")[1:]
    assert shown.partition("~~~~")[0] in make_views_page.PAGE.read_text(encoding="utf-8")
