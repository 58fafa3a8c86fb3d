"""The pictures of the documentation come from real runs, are sound SVG, and say what they show."""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import make_pictures  # noqa: E402
from drawing import Picture  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
LARGEST = 200_000
"""Bytes of a picture: a page with all of them stays light."""


def read_texts(svg):
    return [element.text for element in ET.fromstring(svg).iter(f"{SVG}text")]


def test_a_fold_is_drawn_from_a_real_one():
    texts = read_texts(make_pictures.draw_fold())
    (before,), (after,) = (
        [text for text in texts if text.startswith(word)] for word in ("before: ", "after: ")
    )
    sizes = [int(text.split()[1].replace(",", "")) for text in (before, after)]
    assert sizes[1] <= make_pictures.FOLD_TARGET < sizes[0]


def test_the_plot_of_surprise_has_every_view_of_the_results():
    texts = read_texts(make_pictures.draw_surprise())
    assert {"refold", "tail", "langchain trim", "litellm trim", "actions 4 to 10"} <= set(texts)
    assert texts.index("refold") < texts.index("tail")


@pytest.mark.campaign
@pytest.mark.slow
def test_meter_and_cost_are_replays_of_the_example():
    assert any("folds (dots)" in text for text in read_texts(make_pictures.draw_meter()))
    dollars = [
        float(text[1:])
        for text in read_texts(make_pictures.draw_cost())
        if text.startswith("$") and "." in text
    ]
    assert dollars[0] == max(dollars)
    assert len(dollars) == 3


@pytest.mark.parametrize("name", make_pictures.MAKERS)
def test_every_picture_is_committed_and_light(name):
    file, _ = make_pictures.MAKERS[name]
    text = file.read_text(encoding="utf-8")
    assert ET.fromstring(text).find(f"{SVG}title") is not None
    assert len(text) < LARGEST


def test_the_first_frame_of_the_recording_says_something():
    """Viewers that do not animate show the texts that are not hidden: the last screen."""
    root = ET.fromstring((ROOT / "docs" / "demo.svg").read_text(encoding="utf-8"))
    shown = ["".join(one.itertext()) for one in root.iter(f"{SVG}text") if one.get("opacity") != "0"]
    assert sum(bool(line.strip()) for line in shown) > 15


def test_texts_are_escaped():
    picture = Picture("a < b", 100)
    picture.text(0, 0, "x & y")
    assert read_texts(picture.svg()) == ["x & y"]
