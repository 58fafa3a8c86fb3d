"""What `make test` leaves out of a sweep is chosen so that nothing is missing that a test names."""

from itertools import combinations, product

import pytest

from sample_sizes import WHOLE, cover_pairs, sample

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
