"""When to act: reserve, room, levels, trigger, target."""

import math

import pytest

from refold.core.compaction.budget import (
    Breakdown,
    Budget,
    Levels,
    Reserve,
    Target,
    Trigger,
    correct_by_refusal,
    count_fitting_tokens,
    find_recovery_goal,
    make_budget,
)

# -- what is left for the answer ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "asked", "reserve"),
    [
        (200_000, None, 64_000),
        (1_000_000, None, 64_000),
        (128_000, None, 44_800),
        (8_192, None, 2_868),
        (32_000, None, 11_200),
        (200_000, 8_192, 8_192),
    ],
)
def test_neurolink_reserves_35_per_cent_and_at_most_64000_unless_told(window, asked, reserve):
    """NeuroLink's document, output reserve: min(64,000, 35 % of the window), or the max_tokens that was asked."""
    assert Reserve(fraction=0.35, most=64_000).tokens(window, asked) == reserve


def test_without_a_fraction_nothing_is_reserved():
    assert Reserve().tokens(200_000) == 0


def test_what_was_asked_for_leaves_at_least_one_token_of_room():
    assert Reserve().tokens(100, 99) == 99
    assert Reserve().tokens(100, 100) == 99
    assert Reserve().tokens(100, 5_000) == 99


@pytest.mark.parametrize(
    ("fixed", "reserve"),
    [(0, 8_000), (20_000, 8_000), (23_000, 6_000), (31_000, 666), (31_999, 0), (32_000, 0), (32_001, 8_000)],
)
def test_the_answer_has_a_share_of_what_the_fixed_part_leaves(fixed, reserve):
    """There is always room behind a fixed part that is within the window."""
    limited = Reserve(fraction=0.25, by_fixed=True)
    assert limited.tokens(32_000, fixed=fixed) == reserve
    assert limited.tokens(32_000, 6_000, fixed=fixed) == 6_000
    assert Reserve(fraction=0.25).tokens(32_000, fixed=fixed) == 8_000


def test_the_room_behind_the_fixed_part_falls_step_by_step():
    limited = Reserve(fraction=0.25, by_fixed=True)
    rooms = [32_000 - limited.tokens(32_000, fixed=fixed) - fixed for fixed in range(32_000)]
    assert rooms == sorted(rooms, reverse=True)
    assert rooms[-1] == 1


def test_what_was_asked_for_is_never_negative_and_wins_over_the_fraction():
    assert Reserve(fraction=0.5).tokens(100, -5) == 0
    assert Reserve(fraction=0.5).tokens(100, 0) == 0
    assert Reserve(fraction=0.5).tokens(0, 7) == 0


def test_a_share_that_is_no_whole_number_is_rounded_up():
    """The room is the whole part; what is left over is reserve."""
    assert Reserve(fraction=0.25).tokens(101) == 26


def test_the_longest_answer_of_a_model_limits_the_reserve_only_by_model():
    by_model = Reserve(fraction=0.25, most=16_384, by_model=True)
    assert by_model.tokens(200_000, None, 4_096) == 4_096
    assert by_model.tokens(200_000, None, 100_000) == 16_384
    assert by_model.tokens(200_000, None, None) == 16_384
    assert Reserve(fraction=0.25, most=16_384).tokens(200_000, None, 4_096) == 16_384


# -- levels ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "level"),
    [
        (0.0, "none"),
        (0.5999, "none"),
        (0.60, "notice"),
        (0.7999, "notice"),
        (0.80, "warning"),
        (0.8999, "warning"),
        (0.90, "critical"),
        (5.0, "critical"),
    ],
)
def test_levels_begin_at_60_80_and_90_per_cent(ratio, level):
    """The house's page: notice 0.60, warning 0.80, critical 0.90; the line itself belongs to the level."""
    assert Levels().of(ratio) == level


def test_a_system_without_a_level_never_reports_it():
    assert Levels(notice=None).of(0.7) == "none"
    assert Levels(warning=None).of(0.85) == "notice"
    assert Levels(critical=None).of(0.99) == "warning"
    assert Levels(notice=None, warning=None, critical=None).of(9.0) == "none"


# -- when compaction starts --------------------------------------------------------------------------------


def test_a_trigger_is_a_share_an_absolute_cap_or_the_lower_of_both():
    assert Trigger(fraction=0.8).line(1_000) == 800
    assert Trigger(cap=500).line(1_000) == 500
    assert Trigger(fraction=0.8, cap=500).line(1_000) == 500
    assert Trigger(fraction=0.8, cap=900).line(1_000) == 800


def test_a_line_by_the_history_alone_stands_behind_what_is_fixed():
    assert Trigger(history=300).line(1_000) == 300
    assert Trigger(fraction=0.8, history=300).line(1_000, fixed=100) == 400
    assert Trigger(fraction=0.8, history=300).line(1_000, fixed=600) == 800
    assert Trigger(fraction=0.8, history=300, enabled=False).line(1_000, fixed=100) is None


def test_a_budget_is_judged_by_its_history_too():
    parts = Breakdown(system=50, history=30)
    budget = make_budget(parts, window=1_000, reserve=0, trigger=Trigger(history=30), levels=Levels())
    assert (budget.trigger_tokens, budget.should_compact) == (80, True)


def test_a_trigger_without_a_number_never_starts():
    assert Trigger().line(1_000) is None
    assert Trigger(on_call=True).line(1_000) is None


def test_a_trigger_that_is_switched_off_never_starts():
    assert Trigger(fraction=0.8, cap=500, enabled=False).line(1_000) is None


def test_ripple_rounds_its_line_down_to_a_whole_token():
    """Ripple's page: threshold = floor(window x 0.85); 27,852 for the window it falls back to."""
    assert Trigger(fraction=0.85, whole=True).line(32_768) == 27_852
    assert Trigger(fraction=0.85).line(32_768) == pytest.approx(27_852.8)
    assert Trigger(fraction=0.5, cap=10, whole=True).line(15) == 7


# -- what to aim at ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "system", "goal"),
    [(100_000, 200, 79_753), (5_500, 50, 1_128), (10_000, 50, 4_878), (4_096, 0, 512), (4_000, 100, 500)],
)
def test_codebuddy_aims_at_its_budget_and_never_below_an_eighth(window, system, goal):
    """CodeBuddy's page, decisions: max(floor((window - system - 4096) / 1.2), floor(window / 8))."""
    target = Target(of_window=True, spare=4_096, margin=1.2, least=1 / 8)
    assert target.history(window, room=17, fixed=system) == goal


def test_a_target_is_a_share_of_the_room_less_what_is_fixed():
    assert Target(fraction=0.8).history(1_000, 600, 100) == 380
    assert Target(fraction=0.8, of_window=True).history(1_000, 600, 100) == 700


def test_a_target_is_rounded_down():
    assert Target(fraction=0.55).history(0, 101, 0) == 55


def test_a_target_is_never_negative():
    assert Target(fraction=0.5).history(1_000, 1_000, 900) == 0


def test_a_capped_target_takes_no_larger_base():
    assert Target(fraction=0.5, cap=200).history(1_000, 1_000, 0) == 100
    assert Target(fraction=0.5, cap=2_000).history(1_000, 1_000, 0) == 500


def test_a_large_room_aims_lower_than_its_share():
    target = Target(fraction=0.5, most=80, most_from=400)
    assert target.history(1_000, 1_000, 0) == 80
    assert target.history(1_000, 1_000, 450) == 50
    assert target.history(1_000, 400, 0) == 200


# -- what fills the context --------------------------------------------------------------------------------


def test_a_breakdown_adds_up():
    parts = Breakdown(system=1, history=20, prompt=300, tools=4_000, files=50_000)
    assert parts.fixed == 54_301
    assert parts.total == 54_321
    assert parts.as_dict() == {"system": 1, "history": 20, "prompt": 300, "tools": 4_000, "files": 50_000}


# -- the verdict -------------------------------------------------------------------------------------------

PARTS = Breakdown(system=10, history=70)


def test_a_budget_compares_what_is_used_with_the_room():
    budget = make_budget(
        PARTS,
        window=120,
        reserve=20,
        trigger=Trigger(fraction=0.8),
        levels=Levels(),
        messages=3,
        characters=99,
        count_source="given",
        window_source="table",
    )
    assert budget == Budget(
        window=120,
        reserve=20,
        room=100,
        used=80,
        ratio=0.8,
        level="warning",
        should_compact=True,
        breakdown=PARTS,
        messages=3,
        characters=99,
        count_source="given",
        window_source="table",
        trigger_tokens=80,
    )


def test_one_token_below_the_line_is_not_yet_time():
    parts = Breakdown(history=79)
    budget = make_budget(parts, window=100, reserve=0, trigger=Trigger(fraction=0.8), levels=Levels())
    assert not budget.should_compact
    assert budget.level == "notice"


def test_a_room_that_is_known_wins_over_window_less_reserve():
    budget = make_budget(
        PARTS, window=400, reserve=50, room=160, trigger=Trigger(fraction=0.5), levels=Levels()
    )
    assert (budget.room, budget.ratio, budget.should_compact) == (160, 0.5, True)


def test_what_was_reported_wins_over_the_breakdown():
    budget = make_budget(PARTS, window=100, reserve=0, used=95, trigger=Trigger(), levels=Levels())
    assert (budget.used, budget.level, budget.breakdown.total) == (95, "critical", 80)


def test_there_is_always_a_token_of_room():
    budget = make_budget(PARTS, window=10, reserve=10, trigger=Trigger(fraction=0.8), levels=Levels())
    assert (budget.room, budget.ratio) == (1, 80.0)


def test_a_line_between_two_tokens_is_told_as_the_token_from_which_on_it_holds():
    budget = make_budget(
        Breakdown(history=85), window=101, reserve=0, trigger=Trigger(fraction=0.85), levels=Levels()
    )
    assert budget.trigger_tokens == 86
    assert not budget.should_compact


def test_never_is_told_as_no_line():
    budget = make_budget(PARTS, window=100, reserve=0, trigger=Trigger(enabled=False), levels=Levels())
    assert budget.trigger_tokens is None
    assert not budget.should_compact


def test_a_budget_says_where_its_numbers_come_from_by_default():
    budget = make_budget(PARTS, window=100, reserve=0, trigger=Trigger(), levels=Levels())
    assert (budget.count_source, budget.window_source, budget.messages, budget.characters) == (
        "estimate",
        "given",
        0,
        0,
    )


@pytest.mark.parametrize(
    ("fixed", "stays", "line"),
    [
        (0, 0, 850),
        (500, 500, 850),
        (0, 500, 850),
        (501, 501, 926),
        (400, 800, 970),
        (400, 400, 850),
        (1_000, 1_000, 850),
        (900, 1_100, 850),
    ],
)
def test_a_fixed_part_that_takes_most_of_the_room_moves_the_trigger(fixed, stays, line):
    """Else the target would lie above the trigger, and every turn would fold; what is hopeless stays so."""
    trigger = Trigger(fraction=0.85, of_free=True)
    assert math.ceil(trigger.line(1_000, fixed, stays)) == line
    assert Trigger(fraction=0.85).line(1_000, fixed, stays) == 850
    assert Trigger(cap=500, of_free=True).line(1_000, fixed, stays) == 500


@pytest.mark.parametrize(
    ("used", "line"), [(None, 940), (800, 940), (1_000, 963), (600, 850), (1_100, 974), (1_400, 940)]
)
def test_a_report_tells_what_the_fixed_part_takes(used, line):
    """600 of 800 tokens are fixed; where a surplus would let them fill the room, it need not lie in them."""
    trigger, parts = Trigger(fraction=0.85, of_free=True), Breakdown(system=600, history=200)
    budget = make_budget(
        parts, window=1_000, reserve=0, used=used, trigger=trigger, levels=Levels(), system_messages=0
    )
    assert budget.trigger_tokens == line


# -- what a refusal for size proves ------------------------------------------------------------------------


def measured(history, *, fixed=0, window=10_000, reserve=0, used=None):
    parts = Breakdown(history=history, system=fixed)
    return make_budget(parts, window=window, reserve=reserve, trigger=Trigger(), levels=Levels(), used=used)


@pytest.mark.parametrize(
    ("budget", "system", "fitting"),
    [
        (measured(0, used=0), 0, 10_000),
        (measured(8_000, fixed=1_000), 0, 9_000),
        (measured(8_000, fixed=1_000, used=18_000), 0, 4_000),
        (measured(8_000, fixed=11_000), 0, 0),
        # Twice ten times the fixed part would fill the room: the surplus lies in the history.
        (measured(1_000, fixed=1_000, used=21_000), 0, 450),
        (measured(1_500, fixed=500, used=21_000), 500, 500 + 450),
    ],
    ids=range(6),
)
def test_the_history_that_fits_by_the_providers_count(budget, system, fitting):
    assert count_fitting_tokens(budget, system) == fitting


def test_a_refusal_with_a_limit_corrects_the_size():
    corrected = correct_by_refusal(measured(5_000, window=8_000, reserve=2_000), ratio=4.5, stated=True)
    assert (corrected.used, corrected.room, corrected.ratio) == (22_500, 6_000, 3.75)
    assert corrected.breakdown.unlisted == 17_500


def test_a_refusal_never_lowers_an_estimate():
    assert correct_by_refusal(measured(5_000, window=4_000), ratio=0.5, stated=True).used == 5_000


def test_without_a_limit_the_provider_is_taken_to_accept_less_than_was_sent():
    """The share is that of what can be folded: the fixed part stays."""
    corrected = correct_by_refusal(measured(1_000, fixed=500), ratio=2.0, stated=False, system=200)
    assert (corrected.used, corrected.room) == (3_000, 2 * (500 + 200 + 560))
    assert correct_by_refusal(measured(1_000, window=300), ratio=1.0, stated=False).room == 300
    assert correct_by_refusal(measured(0), ratio=1.0, stated=False).room == 1


def test_a_prompt_that_leaves_no_room_for_the_answer_gets_the_whole_limit():
    budget = measured(500, fixed=900, window=1_024, reserve=256)
    assert correct_by_refusal(budget, ratio=1.0, stated=True).room == 1_024
    budget = measured(500, fixed=700, window=1_024, reserve=256)
    assert correct_by_refusal(budget, ratio=1.0, stated=True, request=60).room == 768
    assert correct_by_refusal(budget, ratio=1.0, stated=True, request=70).room == 1_024


@pytest.mark.slow
@pytest.mark.parametrize(
    ("history", "fixed", "system", "request_tokens", "goal"),
    [
        (9_000, 0, 0, 0, 4_200),  # 0.7 of 6,000
        (9_000, 1_000, 0, 0, 3_500),  # 0.7 of what the fixed part leaves
        (9_000, 0, 1_000, 0, 4_500),  # system messages stay
        (3_000, 0, 0, 0, 2_100),  # 0.7 of what was sent, which the room would hold
        (9_000, 0, 0, 4_000, 4_800),  # the request stays whole, and 0.8 of the room is enough
        (9_000, 0, 0, 3_500, 4_550),  # with a quarter of the goal beside it
        (9_000, 0, 0, 8_000, 4_800),  # it has to be cut
        (1, 0, 0, 1, 0),
        (0, 0, 0, 0, 0),
    ],
)
def test_the_goal_after_a_refusal(history, fixed, system, request_tokens, goal):
    budget = measured(history, fixed=fixed, window=6_000)
    assert find_recovery_goal(budget, system=system, request=request_tokens) == goal
