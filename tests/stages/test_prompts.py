"""Prompt files: each has its sections and places, and values filled in are data."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.stages.prompts import fill, load

SYSTEMS = ("codebuddy", "neurolink", "opal", "ripple", "umwelten")
NAMES = ("refold", *(f"refold.policies.systems:prompts/{system}.md" for system in SYSTEMS))
PLACES = {"conversation", "previous", "focus", "files", "nonce"}


@pytest.mark.parametrize("name", NAMES)
def test_every_prompt_has_its_sections(name):
    """A system text (Ripple's is empty), first words, and words to join several summaries."""
    sections = load(name)
    known = {"system", "initial", "update", "merge", "turn", "behind"}
    assert {"system", "initial", "merge"} <= set(sections) <= known
    assert ("behind" in sections) is (name == "refold")
    assert bool(sections["system"]) is ("ripple" not in name)
    assert load(name) is sections


@pytest.mark.parametrize("name", NAMES)
def test_places_are_known_and_the_conversation_is_data_between_tags(name):
    """Every question holds the conversation once, between tags of its own; ours says behind it what to write.

    Small models go on with a transcript that ends a question.
    """
    for occasion, text in load(name).items():
        places = re.findall(r"\{\{(\w+)\}\}", text)
        assert set(places) <= PLACES
        if occasion == "system":
            continue
        mark = " {{nonce}}" if name == "refold" else ""
        assert places.count("conversation") == 1
        shown = f"<conversation{mark}>\n{{{{conversation}}}}\n</conversation{mark}>"
        assert shown in text
        behind = text.partition(shown)[2]
        assert bool(re.search(r"ends? here\..* now", behind)) if name == "refold" else not behind
        assert places.count("focus") == 1
        assert ("previous" in places) is (occasion == "update")


@pytest.mark.parametrize("name", [name for name in NAMES if "update" in load(name)])
def test_an_earlier_summary_is_data_between_tags_too(name):
    """What an earlier summary says cannot end its own section."""
    mark = " {{nonce}}" if name == "refold" else ""
    assert f"<previous-summary{mark}>\n{{{{previous}}}}\n</previous-summary{mark}>" in load(name)["update"]


@pytest.mark.parametrize("name", NAMES)
def test_the_language_of_the_conversation_is_kept(name):
    """Each system's first words ask for the conversation's own language."""
    assert "language" in load(name)["initial"]


def test_sections_of_the_documents():
    """NeuroLink's ten headings and Opal's seven stand in their prompts."""
    told = load("refold.policies.systems:prompts/neurolink.md")
    headings = re.findall(r"^### (\d+)\. (.+)$", told["initial"], re.MULTILINE)
    assert [int(number) for number, _ in headings] == list(range(1, 11))
    assert all(f"{number}. {title}" in told["update"] for number, title in headings)
    assert re.findall(
        r"^#{2,3} (.+)$", load("refold.policies.systems:prompts/opal.md")["initial"], re.MULTILINE
    ) == [
        "Goal",
        "Constraints & Preferences",
        "Progress",
        "Done",
        "In Progress",
        "Key Decisions",
        "Next Steps",
        "Critical Context",
    ]


def test_filling_a_template():
    """Places get their values; a line that is nothing but an empty place goes, another keeps its words."""
    template = "a {{x}}\n{{focus}}\nb {{missing}}c\n  {{y}}  \n\n<d>\n{{z}}\n</d>"
    assert fill(template, x="1", focus="", y="", z="2\n3") == "a 1\nb c\n\n<d>\n2\n3\n</d>"
    assert fill(template, x="1", focus="F", y="Y", z="") == "a 1\nF\nb c\n  Y  \n\n<d>\n</d>"


@given(st.text(max_size=60), st.text(max_size=60))
def test_values_are_not_searched_for_places(first, second):
    """A value that looks like a place is only text."""
    done = fill("<{{a}}|{{b}}>", a="{{b}}" + first, b="{{a}}" + second)
    assert done == f"<{{{{b}}}}{first}|{{{{a}}}}{second}>"
