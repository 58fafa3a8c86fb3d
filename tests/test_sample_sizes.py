"""What `make test` leaves out of a sweep is chosen so that nothing is missing that a test names."""

from itertools import combinations, product

import pytest

from sample_sizes import WHOLE, choose_few, cover_pairs, cover_values, sample

AXES = ["abc", (1, 2, 3, 4), (False, True), ["x"]]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_any_two_values_of_different_axes_meet(count):
    chosen = cover_pairs(*AXES[:count])
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= set(product(*AXES[:count]))
    for one, other in combinations(range(count), 2):
        assert {(case[one], case[other]) for case in chosen} == set(product(AXES[one], AXES[other]))


def test_the_choice_is_the_same_each_time_and_small():
    assert cover_pairs(*AXES) == cover_pairs(*map(list, AXES))
    assert len(cover_pairs("abc", "def", "ghij")) == (36 if WHOLE else 12)


def test_a_sample_has_the_first_and_the_last():
    assert sample(range(100), 5) == (list(range(100)) if WHOLE else [0, 24, 49, 74, 99])
    assert sample("ab", 5) == ["a", "b"]


def test_tests_of_one_table_try_other_rows_of_it():
    chosen = [choose_few(f"test_{number}", 6, 2) for number in range(40)]
    assert {len(places) for places in chosen} == {6 if WHOLE else 2}
    assert {place for places in chosen for place in places} == set(range(6))
    assert choose_few("test", 2, 3) == [0, 1]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_each_value_of_every_axis_is_met(count):
    cases = list(product(*AXES[:count]))
    chosen = [cases[at] for at in cover_values(cases)]
    assert [set(axis) for axis in zip(*chosen, strict=True)] == [set(axis) for axis in AXES[:count]]
    assert len(chosen) == (len(cases) if WHOLE else max(map(len, AXES[:count])))


@pytest.mark.each_value
@pytest.mark.parametrize("letter", "ab")
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_marked_test_runs_with_each_value(letter, number, request):
    """The hook of conftest.py: 3 of the 6 combinations, or all."""
    here = [item for item in request.session.items if item.originalname == request.node.originalname]
    assert len(here) in (1, 6 if WHOLE else 3)  # one where somebody names one
    assert len(here) == 1 or {item.callspec.params["letter"] for item in here} == {"a", "b"}


@pytest.mark.few_values(2)
@pytest.mark.parametrize("number", range(5))
def test_a_marked_test_runs_with_a_few_values(number, request):
    here = [item for item in request.session.items if item.originalname == request.node.originalname]
    assert len(here) in (1, 5 if WHOLE else 2)


@pytest.mark.campaign
def test_a_campaign_runs_in_make_torture():
    assert WHOLE
