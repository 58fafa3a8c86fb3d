"""The policy `thrifty`: the default policy with a cap on the history."""

import inspect
from dataclasses import replace

import pytest

import refold
from refold import presets
from refold.testing import assistant, user


def talk(rounds, words):
    return [
        message
        for number in range(rounds)
        for message in (user(f"question {number}"), assistant(f"answer {number} " + "word " * words))
    ]


def test_it_is_the_default_with_one_knob_turned():
    same = presets.get("refold", history_tokens=48_000)
    policy = presets.get("thrifty")
    assert policy == replace(same, name="thrifty", window=policy.window)
    assert presets.thrifty(history_tokens=None).trigger == presets.get("refold").trigger


def test_its_knobs_are_those_of_the_default():
    of_default = inspect.signature(presets.refold).parameters
    of_thrifty = inspect.signature(presets.thrifty).parameters
    differ = {name for name, knob in of_thrifty.items() if knob != of_default[name]}
    assert list(of_thrifty) == list(of_default)
    assert differ == set(presets.THRIFTY)


@pytest.mark.parametrize("used", [47_999, 48_000])
def test_history_alone_counts(used):
    """What stands beside the history does not bring the line nearer; see decision 15."""
    messages = [user("x" * (used - 7))]
    budget = refold.measure(messages, window="1m", prompt="x" * 60_000, count=len, policy="thrifty")
    assert budget.breakdown.history == used
    assert budget.trigger_tokens == 108_000
    assert budget.should_compact == (used >= 48_000)


def test_a_window_that_is_full_before_is_folded_when_it_is_full():
    assert refold.measure([], window="40k", policy="thrifty").trigger_tokens == 25_500


def test_folds_go_far():
    """Folded to save money, not because the window is full."""
    outcome = refold.compact(talk(200, 400), window="200k", policy="thrifty")
    assert outcome.fits
    assert outcome.receipt.policy == "thrifty"
    assert outcome.receipt.goal_tokens == 16_000


def test_a_session_folds_as_measured():
    with refold.open("s", store="memory:", window="200k", policy="thrifty") as session:
        ready = session.prepare(talk(80, 400))
        assert ready.budget.trigger_tokens == 48_000
        assert not ready.fold
        ready = session.prepare(talk(200, 400))
        assert ready.fold
        assert ready.budget.used <= 16_000
