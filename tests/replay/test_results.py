"""The results of a replay: what `thrifty` would have saved."""

import pytest
from talks_to_replay import agent

from refold.core.models.prices import find_price
from refold.replay import NONE, Run, Turn, compare_with_thrifty, play

PRICE = find_price("claude-sonnet-4-5")


def run(policy, dollars, window=200_000):
    turn = Turn(number=1, at=1, tokens=9, cache_read=0, cache_write=0, fresh=9, output=1, dollars=dollars)
    return Run(policy=policy, window=window, model="", price=PRICE, turns=(turn,))


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ([run(NONE, 9.0), run("refold", 8.0)], "thrifty would cost $6.00, $2.00 (25%) less than refold"),
        ([run(NONE, 9.0), run("opal", 4.0)], "thrifty would cost $6.00, $2.00 (50%) more than opal"),
        ([run(NONE, 8.0)], "thrifty would cost $6.00, $2.00 (25%) less than no compaction"),
        ([run(NONE, 9.0), run("refold", 6.004)], "thrifty would cost the same as refold"),
    ],
)
def test_it_is_compared_with_the_first_policy_of_its_window(others, words):
    elsewhere = [run(NONE, 1.0, 8_000), run("refold", 1.0, 8_000)]
    assert str(compare_with_thrifty([*elsewhere, *others], run("thrifty", 6.0))) == words


def test_the_facts_that_it_keeps_are_told():
    runs = [
        play(agent(100), policy, window=70_000, summaries="passed over") for policy in ("none", "thrifty")
    ]
    saving = compare_with_thrifty(runs[:1], runs[1])
    assert saving.facts == runs[1].facts
    assert str(saving).endswith(f", facts {saving.facts:.0%}")
