"""The lines of a session in memory."""

import pytest

from refold.errors import LogCorrupt, StoreError
from refold.stores import START, Place
from refold.stores.branch_index import BranchIndex, Extent


def lines(*rows):
    made = BranchIndex()
    for place, behind in rows:
        made.add(Place(*place), Place(*behind), "said", place[1], Extent(place[1] * 10), blame=7)
    return made


def test_places_are_known_by_line_and_number():
    made = lines(((0, 1), START), ((0, 2), (0, 1)), ((1, 3), (0, 1)))
    assert START in made
    assert Place(1, 3) in made
    assert Place(1, 2) not in made
    assert "place" not in made
    assert made.locate(Place(0, 2)) == Extent(20)
    with pytest.raises(StoreError, match="nothing stands at"):
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
