"""The bar: what is used, the line, what is free, the reserve."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.cli.output.meter import bar, marker, strip
from refold.cli.output.screen import Screen
from refold.core.compaction.budget import Breakdown, Levels, Trigger, judge

FANCY = Screen(out=None, err=None, fancy=True)
ASCII = Screen(out=None, err=None)


def budget(used, *, window=100, reserve=20, fraction=0.5):
    return judge(
        Breakdown(history=used),
        window=window,
        reserve=reserve,
        trigger=Trigger(fraction=fraction),
        levels=Levels(),
    )


def test_a_bar_shows_used_line_free_and_reserve():
    assert bar(budget(20), 22, ASCII) == "[####....|.......----]"
    assert bar(budget(20), 20, FANCY) == "████····│·······░░░░"


def test_a_part_of_a_cell_is_drawn_where_it_can_be():
    assert bar(budget(22), 20, FANCY).startswith("████▍·")
    assert bar(budget(22), 22, ASCII).startswith("[####.")


def test_the_line_is_seen_in_what_is_used():
    assert bar(budget(60), 22, ASCII) == "[########|###....----]"


def test_more_than_the_window_fills_the_bar():
    assert bar(budget(400), 12, ASCII) == "[####|#####]"


def test_a_policy_without_a_line_has_none():
    never = budget(20, fraction=None)
    assert marker(never, 20, FANCY) is None
    assert "│" not in bar(never, 20, FANCY)


@pytest.mark.parametrize(("used", "code"), [(10, 32), (50, 36), (66, 33), (79, 31)])
def test_the_level_has_a_colour(used, code):
    screen = Screen(out=None, err=None, fancy=True, colour=True)
    assert bar(budget(used), 20, screen).startswith(f"\x1b[{code}m")


@given(
    st.integers(0, 10**7), st.integers(1, 10**6), st.integers(0, 10**6), st.floats(0, 3), st.integers(3, 120)
)
def test_a_bar_has_the_width_that_was_asked_for(used, window, reserve, fraction, width):
    told = budget(used, window=window, reserve=min(reserve, window), fraction=fraction)
    for screen in (FANCY, ASCII):
        assert len(bar(told, width, screen)) == width
        assert 0 <= marker(told, width, screen) < width


def test_a_strip_shows_that_something_is_there():
    assert strip(1, 10_000, 40, FANCY) == "▏"
    assert strip(0, 10, 40, FANCY) == strip(1, 0, 40, FANCY) == ""
    assert strip(5, 10, 10, ASCII) == "#####"
