"""plan: what would happen, what it would cost, when it would pay."""

import json
from dataclasses import replace

import pytest

import refold
from refold import presets
from refold.core.counting import Counter, body
from refold.core.flow import Ask
from refold.core.windows import Price, Window
from refold.planning import EXPECTED_SHARE, WORD, _cache_prices, _expected
from refold.testing import assistant, call, result, system, user

OLD = "OLD " + "some words that say a little about the work at hand " * 40


def talk(turns):
    return [message for n in range(turns) for message in (user(f"q{n} {OLD}"), assistant(f"a{n} {OLD}"))]


def planned(messages, **wishes):
    return refold.plan(messages, **{"window": 8_000} | wishes)


# -- what would happen -------------------------------------------------------------------------------------


def test_below_the_line_nothing_would_happen():
    plan = planned(talk(1))
    assert (plan.would_compact, plan.fits, plan.stages, plan.leaves, plan.refuses) == (
        False,
        True,
        (),
        (),
        (),
    )
    assert (plan.model_calls, plan.model_tokens, plan.cache_tokens_lost) == (0, 0, 0)
    assert (plan.money_now, plan.money_per_turn, plan.break_even_turns) == (None, None, None)
    assert plan.reason.startswith("not yet: ")
    assert plan.tokens_saved == 0
    assert not plan.budget.should_compact


def test_a_plan_says_what_compact_does():
    messages = talk(10)
    plan = planned(messages, with_model=False)
    outcome = refold.compact(messages, window=8_000)
    assert plan.would_compact == outcome.compacted
    assert plan.fits == outcome.fits
    assert plan.stages == outcome.stages
    assert plan.reason == outcome.reason
    assert (plan.messages_before, plan.messages_after) == (outcome.messages_before, outcome.messages_after)
    assert (plan.tokens_before, plan.tokens_after) == (outcome.tokens_before, outcome.tokens_after)
    assert plan.tokens_saved == outcome.tokens_saved > 0
    assert plan.model_calls == 0


def test_a_plan_changes_nothing():
    messages = [{"role": "user", "content": OLD} for _ in range(20)]
    before = json.dumps(messages)
    planned(messages)
    assert json.dumps(messages) == before


def test_a_plan_stores_nothing():
    saved = []
    policy = presets.get("neurolink", save_to_disk=lambda text: saved.append(text) or "somewhere")
    messages = [user("go"), call("read"), result("c1", "x" * 100_000), *talk(10)]
    assert planned(messages, policy=policy).would_compact
    assert saved == []
    refold.compact(messages, policy=policy, window=8_000)
    assert len(saved) == 1


def test_what_would_leave_is_told_with_its_stage_and_why():
    plan = planned([system("s"), *talk(10)], with_model=False)
    leaving = plan.leaves[0]
    assert [leaf.index for leaf in plan.leaves] == sorted(leaf.index for leaf in plan.leaves)
    assert leaving.index > 0
    assert leaving.role in ("user", "assistant")
    assert leaving.stage in plan.stages
    assert leaving.why
    assert leaving.preview.startswith(("q", "a"))
    assert len(leaving.preview) <= 80
    assert leaving.tokens > 300


def test_what_it_refuses_to_touch_is_told_with_the_reason():
    messages = [system("s"), *talk(10), user("last words")]
    plan = planned(messages, pins=[4], with_model=False)
    why = {stay.index: stay.why for stay in plan.refuses}
    assert why[0] == "system prompt"
    assert why[4] == "pinned"
    assert why[21] == "the user's last message"
    assert why[1] == "the user's first message"
    assert "recent" in why.values()
    assert {leaf.index for leaf in plan.leaves} | set(why) == set(range(22))
    assert not {leaf.index for leaf in plan.leaves} & set(why)
    stay = plan.refuses[0]
    assert (stay.role, stay.tokens > 0) == ("system", True)


def test_a_plan_takes_the_options_of_a_compaction():
    assert planned(talk(2), force=True).would_compact
    assert planned(talk(4), target="1k").tokens_after <= 1_000
    with pytest.raises(TypeError, match="did you mean force"):
        planned(talk(1), forced=True)


def test_tokens_are_told_in_tokens_where_a_system_adds_up_characters():
    plan = planned(talk(3), policy="umwelten")
    assert plan.leaves[0].tokens == -(-len(f"role:user\nq0 {OLD}") // 4)


# -- the model that is expected ----------------------------------------------------------------------------


def test_a_summary_is_expected_to_be_a_share_of_what_it_sums_up():
    answer = _expected(Ask("x" * 10_000))
    assert len(answer.text) == int(10_000 * EXPECTED_SHARE / len(WORD)) * len(WORD) == 1_200
    assert _expected(Ask("x")).text == WORD * 8
    assert _expected(Ask("x" * 10_000, max_tokens=20)).text == WORD * 20
    assert _expected(Ask("x" * 10_000, max_tokens=2_000)).text == answer.text


def test_a_plan_counts_the_questions_it_would_ask():
    plan = planned(talk(10))
    assert "summarize" in plan.stages
    assert plan.model_calls >= 1
    assert plan.model_tokens > plan.tokens_before / 2
    assert planned(talk(10), with_model=False).model_calls == 0


# -- money -------------------------------------------------------------------------------------------------

COUNTER = Counter(name="length", text=len, visible=body)


def priced(price, *, ask=True):
    """A plan of a system prompt of 50 tokens and ten messages of 2,000 under a policy that keeps four."""
    base = presets.get("codebuddy")
    stages = base.stages[1:2] if ask else base.stages[3:4]
    window = Window(16_000, None, "table", price=price)
    policy = replace(base, counter=COUNTER, window=lambda model: window, stages=stages)
    return refold.plan(
        [system("s" * 50), *(user(f"{n} {'word ' * 400}"[:2_000]) for n in range(10))], policy=policy
    )


def test_tokens_behind_the_first_change_are_read_anew():
    plan = priced(None, ask=False)
    assert plan.would_compact
    assert plan.cache_tokens_lost == plan.tokens_after - 50
    assert (plan.money_now, plan.money_per_turn, plan.break_even_turns) == (None, None, None)


def test_money_is_the_questions_and_the_cache_that_is_written_anew():
    plan = priced(Price(3.0, 15.0, cache_read=0.3, cache_write=3.75), ask=False)
    anew, saved = plan.cache_tokens_lost, plan.tokens_saved
    assert plan.money_now == pytest.approx(anew * (3.75 - 0.3) / 1e6)
    assert plan.money_per_turn == pytest.approx(saved * 0.3 / 1e6)
    assert plan.break_even_turns == pytest.approx(plan.money_now / plan.money_per_turn)


def test_questions_cost_input_and_answers_output():
    free = priced(Price(0.0, 0.0))
    dear = priced(Price(1_000_000.0, 0.0, cache_read=0.0, cache_write=0.0))
    dearer = priced(Price(0.0, 1_000_000.0, cache_read=0.0, cache_write=0.0))
    assert free.model_calls == 3
    assert free.money_now == 0
    assert dear.money_now + dearer.money_now == pytest.approx(dear.model_tokens)
    assert dear.money_now > dearer.money_now > 0


def test_a_cache_that_costs_nothing_to_read_never_pays_back():
    plan = priced(Price(3.0, 15.0, cache_read=0.0), ask=False)
    assert plan.money_per_turn == 0
    assert plan.break_even_turns is None


def test_without_a_cache_every_turn_is_paid_in_full_and_nothing_is_lost():
    assert _cache_prices(Price(3.0, 15.0)) == (3.0, 3.0)
    assert _cache_prices(Price(3.0, 15.0, cache_read=0.3)) == (0.3, 3.0)
    assert _cache_prices(Price(3.0, 15.0, cache_read=0.3, cache_write=3.75)) == (0.3, 3.75)
    assert _cache_prices(Price(3.0, 15.0, cache_read=0.0, cache_write=0.0)) == (0.0, 0.0)
    plan = priced(Price(3.0, 15.0), ask=False)
    assert plan.money_now == 0
    assert plan.break_even_turns == 0


def test_a_cache_that_is_cheaper_to_write_than_to_read_costs_nothing_anew():
    assert priced(Price(3.0, 15.0, cache_read=3.0, cache_write=1.0), ask=False).money_now == 0


def test_the_price_of_a_model_is_known_though_its_window_was_given():
    plan = refold.plan(talk(10), model="claude-sonnet-4-20250514", window=8_000)
    assert plan.money_now > 0
    assert plan.money_per_turn > 0
    assert plan.break_even_turns > 0
    assert (
        refold.plan(talk(10), model="claude-sonnet-4-20250514", window=8_000, policy="ripple").money_now > 0
    )


@pytest.mark.filterwarnings("ignore::refold.RefoldWarning")
def test_the_price_of_an_unknown_model_is_unknown():
    assert refold.plan(talk(10), model="nobody-knows-it", window=8_000).money_now is None
    assert refold.plan(talk(10), window=8_000).money_now is None
