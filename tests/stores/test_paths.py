"""The stretches of a path."""

import pytest

from refold.stores import START, Place
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
