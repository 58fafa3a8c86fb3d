"""A conversation played under policies, windows and prices."""

from dataclasses import replace
from functools import cache

import pytest
from talks_to_replay import MODEL, agent, reported

from refold import presets
from refold.core.compaction.flow import Answer
from refold.core.models.prices import find_price, request_cost
from refold.core.models.windows import Price, Window
from refold.core.tokens.usage import Usage
from refold.replay import NONE, Recorded, play

PRICE = find_price(MODEL)
LONG = agent(60)


@cache
def play_long(**options):
    """The long talk under the default policy: a run is frozen, and tests look at one and the same."""
    return play(LONG, "refold", window=16_000, **options)


def bill(turn, price=PRICE):
    used = Usage(
        input=turn.tokens, output=turn.output, cache_read=turn.cache_read, cache_write=turn.cache_write
    )
    return request_cost(used, price)


def test_without_compaction_everything_before_is_read_from_the_cache():
    """Each request reads what the last one sent and writes what is new; small ones are not cached."""
    run = play(LONG, NONE, window=200_000)
    assert (run.policy, run.model, run.folds, run.facts) == (NONE, "", (), None)
    assert len(run.turns) == 60
    assert [turn.tokens for turn in run.turns] == sorted(turn.tokens for turn in run.turns)
    for last, turn in zip(run.turns, run.turns[1:], strict=False):
        assert turn.cache_read == (last.tokens if last.tokens >= 1_024 else 0)
        assert turn.tokens == turn.cache_read + turn.cache_write + turn.fresh
    assert run.dollars == pytest.approx(sum(map(bill, run.turns)))


def test_a_session_folds_where_its_policy_says_so():
    run = play_long(summaries="passed over")
    assert run.folds
    assert not run.over
    assert run.peak < 12_000 < play(LONG, NONE, window=16_000).peak
    assert [turn.fold for turn in run.turns if turn.fold] == [fold.number for fold in run.folds]
    for fold in run.folds:
        turn, before = run.turns[fold.turn - 1], run.turns[fold.turn - 2]
        assert fold.tokens_after == turn.tokens < fold.tokens_before
        assert turn.cache_read < before.tokens


def test_a_request_is_over_where_the_model_takes_in_less_than_its_window_has():
    short = Window(64_000, None, "table", input_tokens=play(LONG, NONE, window=64_000).peak - 1)
    assert play(LONG, NONE, window=64_000).over == 0
    assert play(LONG, NONE, window=short).over == 1
    assert play(LONG, replace(presets.get("refold"), window=lambda _: short)).over == 0
    assert play(LONG, "neurolink", window=short).window == 64_000


def test_the_turns_that_came_are_those_until_the_next_fold():
    run = play_long()
    ends = [*(fold.turn for fold in run.folds[1:]), len(run.turns) + 1]
    assert [fold.turns_came for fold in run.folds] == [
        end - fold.turn for fold, end in zip(run.folds, ends, strict=True)
    ]


def test_a_fold_pays_by_the_formula_of_the_house():
    """C is what is written anew at (w - r), and each turn saves r for every token that left."""
    run = play(LONG, "refold", window=16_000, summaries="passed over", price=Price(3, 15, 0.3, 3.75))
    for fold in run.folds:
        assert fold.calls.calls == 0
        assert fold.dollars == pytest.approx(fold.anew * 3.45e-6, abs=2e-5)
        saved = (fold.tokens_before - fold.tokens_after) * 0.3e-6
        assert fold.turns_needed == pytest.approx(max(0.0, fold.dollars) / saved)
        assert fold.paid == (fold.turns_came >= fold.turns_needed)


def test_a_stand_in_is_priced_and_named():
    run = play(LONG, "opal", window=16_000)
    assert run.model == "stand-in"
    assert run.calls.calls == len(run.folds) >= 1
    assert run.dollars == pytest.approx(sum(map(bill, run.turns)) + run.calls.dollars)


def test_passed_over_means_that_nothing_is_asked():
    """What is over the window is refused, and then every policy folds without a model."""
    run = play(LONG, "ripple", window=16_000, summaries="passed over")
    assert (run.model, run.calls.calls) == ("passed over", 0)
    assert {fold.trigger for fold in run.folds} == {"emergency"}
    assert not run.over


def test_whoever_is_handed_over_is_asked():
    asked = []

    def model(question):
        asked.append(question)
        return Answer(text="They mend the build; src/part_3.py is next.", input_tokens=700, output_tokens=12)

    run = play(LONG, "opal", window=16_000, ask=model, asked="mine")
    assert run.model == "mine"
    assert asked
    assert run.calls.input == 700 * len(asked)


def test_facts_are_what_is_used_again_and_still_in_view():
    keeps = play_long(summaries="passed over")
    forgets = play(
        LONG, presets.get("codebuddy", context_window=16_000), window=16_000, summaries="passed over"
    )
    assert keeps.facts > 0.8
    assert keeps.facts > forgets.facts + 0.1
    assert play(LONG, "refold", window=16_000, facts=False).facts is None


def test_a_cache_that_ran_out_is_written_anew_and_a_fold_is_free_then():
    """Folding while nothing is cached saves money at once."""
    times = {at: 1_000.0 * number for number, at in enumerate(LONG.requests)}
    slow = Recorded(LONG.messages, model=MODEL, times=times)
    none = play(slow, NONE, window=16_000)
    assert all(turn.cold for turn in none.turns[2:])
    assert none.cache_read == 0
    run = play(slow, "refold", window=16_000, summaries="passed over")
    assert run.folds
    assert all(fold.dollars < 0 and fold.paid and fold.anew == 0 for fold in run.folds)


def test_prices_without_a_cache_and_no_price_at_all():
    plain = play(LONG, "refold", window=16_000, price=Price(3, 15, None, None))
    assert plain.cache_read == plain.cache_write == 0
    unknown = play(agent(20, model=None), "refold", window=8_000)
    assert unknown.dollars is None
    assert unknown.folds
    assert {fold.paid for fold in unknown.folds} == {None}
    assert unknown.cache_read > 0


def test_a_provider_that_refuses_is_recovered_from():
    """Its count is larger than the estimate: the session learns it from the refusal."""
    recorded = reported(agent(12, size=300), factor=1.9)
    run = play(recorded, replace(presets.get("refold", trigger_fraction=0.99), learns=False), window=16_000)
    assert run.folds
    assert run.over <= 1


def test_a_conversation_in_another_shape_plays_the_same():
    blocks = [
        {"role": message["role"], "content": [{"type": "text", "text": message["content"]}]}
        for message in LONG.messages[1:]
    ]
    run = play(Recorded(blocks, format="anthropic", model=MODEL), "refold", window=16_000)
    assert len(run.turns) == 60
    assert run.folds


def test_what_is_told_on_the_way():
    told = []
    play(agent(5), NONE, window=8_000, progress=lambda done, whole: told.append((done, whole)))
    assert told == [(number, 5) for number in range(1, 6)]


def test_a_run_as_plain_data():
    data = play_long().as_dict()
    assert data["totals"]["folds"] == len(data["folds"])
    assert {"turns_needed", "turns_came", "paid", "kept"} <= set(data["folds"][0])
    assert len(data["turns"]) == data["totals"]["requests"]
