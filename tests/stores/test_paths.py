"""Paths through the branches of a session, and the index that finds them in memory."""

import pytest

from refold.errors import LogCorrupt, StoreError
from refold.stores import START, Place
from refold.stores.branch_index import BranchIndex, Extent
from refold.stores.paths import split_path

PARENTS = {0: START, 1: Place(0, 3), 2: Place(1, 6), 3: START}


@pytest.mark.parametrize(
    ("place", "path"),
    [
        (START, []),
        (Place(0, 5), [(0, 0, 5)]),
        (Place(1, 7), [(0, 0, 3), (1, 3, 7)]),
        (Place(2, 8), [(0, 0, 3), (1, 3, 6), (2, 6, 8)]),
        (Place(3, 9), [(3, 0, 9)]),
    ],
)
def test_a_path_is_cut_where_its_lines_begin(place, path):
    assert split_path(place, PARENTS) == path


@pytest.mark.parametrize("place", [Place(1, 3), Place(1, 2), Place(2, 6), Place(3, 0)])
def test_a_place_before_its_line_is_refused(place):
    with pytest.raises(ValueError, match=f"line {place.line} begins at"):
        split_path(place, PARENTS)


def test_an_unknown_line_is_refused():
    with pytest.raises(KeyError):
        split_path(Place(9, 9), PARENTS)


@pytest.mark.parametrize("parents", [{1: Place(1, 2)}, {1: Place(2, 2), 2: Place(1, 1)}, {0: Place(0, 1)}])
def test_lines_that_go_in_circles_are_refused(parents):
    with pytest.raises(ValueError, match="begins at"):
        split_path(Place(min(parents), 5), parents)


def lines(*rows):
    made = BranchIndex()
    for place, behind in rows:
        made.add(Place(*place), Place(*behind), "said", place[1], place[1] * 10, blame=7)
    return made


def test_places_are_known_by_line_and_number():
    made = lines(((0, 1), START), ((0, 2), (0, 1)), ((1, 3), (0, 1)))
    assert START in made
    assert Place(1, 3) in made
    assert Place(1, 2) not in made
    assert "place" not in made
    assert made.locate(Place(0, 2)) == Extent(20)
    with pytest.raises(StoreError, match="there is no entry at"):
        made.locate(Place(1, 2))


def test_a_line_goes_on_behind_its_last_entry_only():
    made = lines(((0, 1), START), ((0, 2), (0, 1)), ((1, 3), (0, 1)))
    assert [made.line_behind(place) for place in (START, Place(0, 1), Place(0, 2), Place(1, 3))] == [
        2,
        2,
        0,
        1,
    ]
    assert BranchIndex().line_behind(START) == 0


@pytest.mark.parametrize(
    "rows",
    [
        [((0, 1), START), ((0, 3), (0, 2))],
        [((0, 2), (0, 1)), ((0, 3), (0, 2))],
        [((0, 1), START), ((1, 2), (0, 1)), ((0, 3), (1, 2))],
    ],
)
def test_a_path_over_lost_entries_is_refused(rows):
    with pytest.raises(LogCorrupt) as caught:
        list(lines(*rows).walk(Place(0, 3)))
    assert caught.value.line == 7


def test_what_was_stored_last_may_be_lost():
    made = lines(((0, 1), START))
    made.extend_to(Place(0, 2), blame=5)
    with pytest.raises(LogCorrupt) as caught:
        made.walk(Place(0, 2))
    assert caught.value.line == 5
    assert list(made.walk(Place(0, 1))) == [Extent(10)]
    assert made.last_seq == 2
