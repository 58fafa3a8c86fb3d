"""When compactions may start."""

import json
import math
from dataclasses import replace
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.core.compaction.circuit_breaker import (
    HOUR,
    Allowed,
    Breaker,
    Limits,
    allows,
    record_event,
)

NO_HOURLY = Limits(failures_per_hour=None)
HOURLY = Limits(per_hour=6)


def replay_events(events, limits=None):
    """Return the breaker after all events, oldest first."""
    start = Breaker(limits=limits or Limits())
    return reduce(lambda breaker, each: record_event(breaker, *each), events, start)


def thrashing(count, *, every=60.0, start=1_000.0, event="fold"):
    """Folds, or failures, with a completed turn behind each."""
    for number in range(count):
        yield event, start + number * every
        yield "turn", start + number * every + 1


def test_a_new_breaker_allows():
    assert allows(Breaker(), 0.0) == Allowed(True)


@pytest.mark.parametrize("pair", [("fold", "fold"), ("fold", "failed"), ("failed", "failed")], ids="-".join)
def test_two_attempts_without_a_turn_open_it(pair):
    """Faults, C24: one escalation, then stop."""
    first, second = pair
    breaker = replay_events([(first, 1_000.0)])
    assert allows(breaker, 1_001.0).yes
    breaker = record_event(breaker, second, 1_001.0)
    told = allows(breaker, 1_002.0)
    assert (told.yes, told.until) == (False, 1_601.0)
    assert told.reason == "2 compactions without a turn of the model between them"


def test_a_turn_between_them_keeps_it_closed():
    breaker = replay_events([("fold", 1.0), ("turn", 2.0), ("fold", 3.0), ("turn", 4.0), ("fold", 5.0)])
    assert allows(breaker, 6.0).yes


def test_a_slow_fold_that_began_before_another_one_does_not_follow_it():
    """A model wrote its summary while another process folded without one."""
    once = record_event(Breaker(), "fold", 20.0)
    assert allows(record_event(once, "fold", 22.0, 10.0), 23.0).yes
    assert not allows(record_event(once, "fold", 22.0, 21.0), 23.0).yes
    assert not allows(record_event(once, "failed", 22.0, 10.0), 23.0).yes


def test_folds_with_a_turn_between_them_are_no_loop():
    """A small window may need one each minute."""
    breaker = replay_events(thrashing(60))
    assert allows(breaker, breaker.seen) == Allowed(True)


def test_six_failures_in_an_hour_open_it():
    """Whoever fails so often is left alone for a while, although there are turns between."""
    assert allows(replay_events(thrashing(5, event="failed")), 1_400.0).yes
    told = allows(replay_events(thrashing(6, event="failed")), 1_400.0)
    assert (told.yes, told.until) == (False, 1_900.0)
    assert told.reason == "6 compactions failed within an hour"


def test_six_failures_in_more_than_an_hour_do_not():
    breaker = replay_events(thrashing(40, every=HOUR / 5, event="failed"))
    assert allows(breaker, breaker.seen).yes
    assert len(breaker.attempts) == len(breaker.failures) == 5


def test_folds_between_failures_count_for_nothing():
    breaker = replay_events([*thrashing(5, event="failed"), *thrashing(20, start=1_300.0, every=10.0)])
    assert allows(breaker, breaker.seen).yes
    assert not allows(record_event(breaker, "failed", 1_600.0), 1_601.0).yes


def test_a_limit_on_all_attempts_counts_the_good_ones_too():
    """Faults, C25: for callers who want fewer folds than they need."""
    assert allows(replay_events(thrashing(5), HOURLY), 1_400.0).yes
    told = allows(replay_events(thrashing(6), HOURLY), 1_400.0)
    assert (told.yes, told.until) == (False, 1_900.0)
    assert told.reason == "6 compactions within an hour"


def test_why_it_is_open_and_until_when_is_told_in_words():
    told = allows(replay_events([("fold", 1_000.0), ("fold", 1_010.0)]), 1_020.0)
    assert told.explanation == (
        "the circuit breaker is open until 1970-01-01 00:26:50 UTC: "
        "2 compactions without a turn of the model between them"
    )
    assert Allowed(True, "one attempt").explanation == "one attempt"


@pytest.mark.slow
def test_no_limit_is_no_limit():
    assert allows(replay_events(thrashing(100), NO_HOURLY), 1e6).yes
    free = Limits(per_hour=None, folds_without_turn=None)
    breaker = replay_events([("fold", float(at)) for at in range(1_100)], free)
    assert allows(breaker, 1_100.0) == Allowed(True)
    assert len(breaker.attempts) == 1_000


def test_after_the_cool_down_one_fold_closes_it():
    """Faults, C26: half-open after the cool-down."""
    breaker = replay_events([("failed", 1_000.0), ("failed", 1_010.0)])
    assert not allows(breaker, 1_609.9).yes
    trial = allows(breaker, 1_610.0)
    assert trial.yes
    assert trial.until is None
    assert trial.reason.startswith("one attempt after a cool-down: 2 compactions")
    closed = record_event(breaker, "fold", 1_615.0)
    assert allows(closed, 1_616.0) == Allowed(True)
    assert closed.opened is None
    assert allows(record_event(closed, "turn", 1_617.0), 1_618.0).yes


def test_a_closed_breaker_starts_counting_anew():
    breaker = replay_events([("fold", 0.0), ("fold", 1.0), ("fold", 700.0)], NO_HOURLY)
    breaker = record_event(breaker, "fold", 701.0)
    assert allows(breaker, 702.0).yes
    assert not allows(record_event(breaker, "fold", 702.0), 703.0).yes


def test_each_failure_after_a_cool_down_doubles_it_up_to_the_limit():
    breaker, at, waits = replay_events([("failed", 0.0), ("failed", 0.0)]), 0.0, []
    for _ in range(5):
        until = allows(breaker, at).until
        waits.append(until - at)
        at = until
        breaker = record_event(breaker, "failed", at)
    assert waits == [600.0, 1_200.0, 2_400.0, 3_600.0, 3_600.0]
    assert breaker.reason == "the attempt after the last cool-down failed"


def test_a_failure_long_after_the_cool_down_doubles_it_too():
    breaker = record_event(replay_events([("failed", 0.0), ("failed", 0.0)]), "failed", 30 * HOUR)
    assert breaker.cooldown == 1_200.0


def test_a_success_and_a_quiet_time_bring_the_first_cool_down_back():
    breaker = replay_events([("failed", 0.0), ("failed", 0.0), ("failed", 600.0), ("fold", 1_800.0)])
    breaker = record_event(breaker, "turn", 1_801.0)
    later = 600.0 + HOUR + 1_200.0
    for kind in ("fold", "fold"):
        breaker = record_event(breaker, kind, later)
    assert breaker.cooldown == 600.0


def test_opening_again_soon_doubles_the_cool_down():
    breaker = replay_events(
        [("failed", 0.0), ("failed", 0.0), ("fold", 600.0), ("fold", 601.0), ("fold", 602.0)]
    )
    assert breaker.cooldown == 1_200.0
    assert allows(breaker, 603.0).until == 1_802.0


def test_a_history_that_fills_up_each_minute_is_folded_about_as_often_as_the_limit_allows():
    """Faults, C25: without a breaker there would be 480 folds in eight hours."""
    breaker, folds = Breaker(limits=HOURLY), []
    for minute in range(480):
        at = 1e9 + 60.0 * minute
        if allows(breaker, at).yes:
            folds.append(minute)
            breaker = record_event(breaker, "fold", at)
        breaker = record_event(breaker, "turn", at + 1)
    assert len([minute for minute in folds if minute < 60]) == 10
    assert max(len([m for m in folds if start <= m < start + 60]) for start in range(60, 421)) <= 6
    assert len(folds) == 50


def test_what_happens_while_it_is_open_is_recorded_and_changes_nothing():
    opened = replay_events([("fold", 0.0), ("fold", 1.0)])
    for kind in ("fold", "failed"):
        breaker = record_event(opened, kind, 2.0)
        assert allows(breaker, 3.0) == allows(opened, 3.0)
        assert breaker.attempts == (0.0, 1.0, 2.0)


def test_an_emergency_is_recorded_and_not_counted():
    breaker = replay_events([("emergency", float(at)) for at in range(20)])
    assert allows(breaker, 20.0) == Allowed(True)
    assert (breaker.emergencies, breaker.last_emergency) == (20, 19.0)
    breaker = replay_events([("fold", 0.0), ("emergency", 1.0), ("fold", 2.0), ("emergency", 3.0)])
    assert allows(breaker, 4.0).until == 602.0


def test_a_turn_does_not_close_it():
    assert not allows(replay_events([("fold", 0.0), ("fold", 1.0), ("turn", 2.0)]), 3.0).yes


def test_a_turn_may_close_what_a_missing_turn_opened_and_nothing_else():
    limits = Limits(turn_closes=True)
    assert allows(replay_events([("fold", 0.0), ("fold", 1.0), ("turn", 2.0)], limits), 3.0) == Allowed(True)
    assert not allows(replay_events(thrashing(6, event="failed"), limits), 1_400.0).yes


def test_other_limits_hold():
    limits = Limits(folds_without_turn=1, cooldown=5.0)
    assert allows(replay_events([("fold", 10.0)], limits), 11.0).until == 15.0


# ------------------------------------------------------------------------------------------------ clocks

OPENED = replay_events([("fold", 1e6), ("fold", 1e6)])


def test_a_small_jump_backwards_waits_at_most_two_cool_downs():
    assert allows(OPENED, 1e6 - 599.0) == Allowed(False, OPENED.reason, 1e6 + 600.0)


def test_a_large_jump_backwards_is_half_open():
    assert allows(OPENED, 1e6 - 600.0).yes
    assert allows(OPENED, 0.0).yes


def test_attempts_far_in_the_future_are_forgotten():
    breaker = replay_events([*thrashing(5, start=1e9), ("fold", 1_000.0)])
    assert breaker.attempts == (1_000.0,)


@pytest.mark.parametrize(
    "at", [math.nan, math.inf, -math.inf, -1.0, 1e300, 10**400, None, "x", True], ids=repr
)
def test_a_time_that_cannot_be_is_the_last_one_seen(at):
    assert allows(OPENED, at) == allows(OPENED, 1e6)
    assert record_event(OPENED, "turn", at).seen == 1e6
    assert record_event(OPENED, "fold", at).attempts == (1e6, 1e6, 1e6)


# -------------------------------------------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    "breaker",
    [Breaker(), OPENED, replay_events([*thrashing(6, event="failed"), ("emergency", 5e3)])],
    ids=["new", "open", "hourly"],
)
def test_it_comes_back_from_json(breaker):
    """Faults, C26: the state outlives the process."""
    assert Breaker.from_json(json.loads(json.dumps(breaker.to_json()))) == breaker


@pytest.mark.parametrize(
    "value", [None, 3, "x", [], {}, {"attempts": 3}, {"attempts": [None, "x", math.nan]}], ids=repr
)
def test_what_is_no_breaker_is_a_new_one(value):
    assert Breaker.from_json(value) == Breaker()


@pytest.mark.parametrize("junk", [None, -1, True, "x", math.nan, 10**400, [], {}], ids=repr)
def test_a_field_that_cannot_be_is_left_out(junk):
    fields = Breaker().to_json()
    expected = replace(Breaker(), reason=junk) if isinstance(junk, str) else Breaker()
    assert Breaker.from_json(dict.fromkeys(fields, junk)) == expected


TIMES = st.floats(allow_nan=True, allow_infinity=True) | st.floats(min_value=0, max_value=2e4)


@given(
    st.lists(st.tuples(st.sampled_from(["fold", "failed", "emergency", "turn"]), TIMES), max_size=40), TIMES
)
def test_nobody_waits_longer_than_the_longest_cool_down_twice(happened, at):
    breaker = replay_events(happened)
    assert Breaker.from_json(json.loads(json.dumps(breaker.to_json()))) == breaker
    told = allows(breaker, at)
    if not told.yes:
        assert told.reason
        assert allows(breaker, told.until).yes
        assert told.until - breaker.opened <= Limits().longest_cooldown


def test_limits_are_told_anew():
    """Limits are the policy's, not the log's."""
    assert Breaker.from_json(OPENED.to_json(), NO_HOURLY) == replace(OPENED, limits=NO_HOURLY)


@pytest.mark.parametrize(
    "name", ["folds_without_turn", "failures_per_hour", "per_hour", "cooldown", "longest_cooldown"]
)
@pytest.mark.parametrize("value", [-1, True, float("nan"), float("inf"), "2", 10**30])
def test_a_limit_that_is_no_number_is_refused_by_its_name(name, value):
    with pytest.raises(refold.RefoldError, match=f"{name}="):
        refold.open("task", store="memory:", limits=Limits(**{name: value}))
