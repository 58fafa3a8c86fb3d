"""Work on a hostile answer grows no faster than the answer; counted in steps, not in seconds."""

import pytest
from bench import hostile_answers

from growth import assert_linear, stop_hang

PATTERNS = hostile_answers.PATTERNS
CHOSEN = (
    "code fences",
    "nested brackets",
    "nested tags",
    "nested facts",
    "thinking",
    "headings",
    "orders of different hosts",
    "quoted claims",
    "keys and values",
    "blank lines",
)


@pytest.mark.few_values(3)
@pytest.mark.parametrize("name", CHOSEN)
def test_twice_the_answer_is_twice_the_work(name):
    def make_work(size):
        answer = hostile_answers.make_answer(PATTERNS[name], size, begins_well=True)
        return lambda: [work(answer) for work in hostile_answers.STEPS.values()]

    assert_linear(make_work, 2_000)


@pytest.mark.few_values(3)
@pytest.mark.parametrize("name", PATTERNS)
def test_no_pattern_makes_a_search_hang(name):
    answer = hostile_answers.make_answer(PATTERNS[name], 20_000, begins_well=False)
    with stop_hang():
        hostile_answers.STEPS["the gate reads the text"](answer)
        hostile_answers.STEPS["the frame"](answer)
        hostile_answers.STEPS["the driver reads it"](answer)


@pytest.mark.parametrize(("seconds", "exponent"), [([1, 2, 4, 8], 1), ([9, 4, 16, 64], 2), ([1, 1, 1, 1], 0)])
def test_the_exponent_is_that_of_the_larger_sizes(seconds, exponent):
    assert hostile_answers.find_exponent(seconds) == pytest.approx(exponent)


def test_short_work_has_no_exponent():
    assert hostile_answers.find_exponent([0.0001, 0.001, 0.002, 0.009]) is None


@pytest.mark.parametrize(
    ("cost", "steepest"),
    [
        (lambda size: size, 1),
        (lambda size: size if size > 2_000 else 1, 1),  # as of a limit that the smaller sizes are below
        (lambda size: size**2, 2),
    ],
)
def test_a_step_is_steep_only_if_it_is_so_at_larger_sizes(cost, steepest, monkeypatch):
    monkeypatch.setattr(hostile_answers, "STEPS", {})
    monkeypatch.setattr(hostile_answers, "_fold", lambda text: cost(len(text)))
    monkeypatch.setattr(hostile_answers, "_measure", lambda work, text: float(work(text)))
    row = hostile_answers.measure_pattern("dots", base=1_000)
    assert row["steepest"] == pytest.approx(steepest)
    assert row["milliseconds"] == [2_000 * cost(1_000 * times) for times in hostile_answers.SIZES]
