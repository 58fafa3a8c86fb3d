"""What stays: each way of keeping with its exact positions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from history_strategies import HISTORIES
from refold.core.compaction.cuts import find_cuts
from refold.core.compaction.keep_rules import MeasuredHistory, Segment
from refold.core.messages.message import ToolCall
from refold.policies.systems.keep_rules import (
    LastMessages,
    RecentBytes,
    RecentShare,
    RecentTurns,
    Thread,
    byte_size,
)
from refold.testing import assistant, call, call_part, calls, result, summary, system, user

KEEPS = [
    RecentTurns(),
    RecentTurns(messages=1, window_fraction=0.01),
    LastMessages(messages=1),
    LastMessages(messages=2, oldest_half=True),
    RecentShare(least=1),
    RecentBytes(tokens=5, split_least=1),
    Thread(),
    Thread(keep_turns=1, merge=False),
]


def measured(messages, sizes=None, *, window=1_000, room=1_000, **more):
    return MeasuredHistory(messages, sizes or [10] * len(messages), window, room, **more)


def alternating(count, start=0):
    return [user(str(i)) if i % 2 == 0 else assistant(str(i)) for i in range(start, start + count)]


def cut(keep, messages, sizes=None, **more):
    """The stretch that leaves as (start, end), or None."""
    segment = keep.segment(measured(messages, sizes, **more))
    return None if segment is None else (segment.start, segment.end)


# -- all of them -------------------------------------------------------------------------------------------


@given(st.sampled_from(KEEPS), HISTORIES, st.none() | st.integers(0, 50), st.booleans())
def test_no_keep_ends_on_an_illegal_cut_or_takes_a_leading_system_message(keep, history, target, force):
    it = measured(history, window=40, room=40, target=target, force=force)
    segment = keep.segment(it)
    if segment is not None:
        assert it.head <= segment.start < segment.end <= len(history)
        assert find_cuts(history).allows(segment.end)
        assert segment.turn is None or segment.start <= segment.turn < segment.end


@pytest.mark.parametrize("keep", KEEPS, ids=repr)
def test_nothing_leaves_an_empty_history_or_one_of_system_messages(keep):
    assert cut(keep, []) is None
    assert cut(keep, [system("a"), system("b"), system("c")], force=True) is None


@pytest.mark.few_values(3)
@pytest.mark.parametrize("keep", [*KEEPS, RecentTurns(messages=9_000)], ids=repr)
def test_the_work_grows_with_the_history(keep):
    def cut_long_history(turns):
        messages = [
            message
            for n in range(turns)
            for message in (user("x"), call("f", id=str(n)), result(str(n), "y"), assistant("z"))
        ]
        it = measured(messages, [1] * len(messages), window=10**6, room=10**6, target=turns)
        return lambda: keep.segment(it)

    assert_linear(cut_long_history, 300)


def test_the_numbers_are_those_of_the_documents():
    assert RecentTurns() == RecentTurns(messages=6, window_fraction=0.25)
    assert LastMessages() == LastMessages(messages=4, oldest_half=False, least=1, least_older=1)
    assert RecentShare() == RecentShare(share=0.3, least=4)
    assert RecentBytes() == RecentBytes(tokens=None, by_hand=20_000, window_fraction=0.25, split_least=5)
    assert Thread() == Thread(from_checkpoint=True, keep_turns=0, merge=True)


# -- Ripple ------------------------------------------------------------------------------------------------


def test_ripple_keeps_so_many_messages_from_a_users_turn_on():
    assert cut(RecentTurns(messages=4), alternating(10)) == (0, 6)
    assert cut(RecentTurns(messages=3), alternating(10)) == (0, 8)


def test_ripple_keeps_no_more_than_a_quarter_of_the_window():
    """Ripple's page, cut: the smaller of both tails."""
    assert cut(RecentTurns(messages=8), alternating(10), window=160) == (0, 6)
    assert cut(RecentTurns(messages=8), alternating(10), window=159) == (0, 8)
    assert cut(RecentTurns(messages=2), alternating(10), window=160) == (0, 8)


def test_ripple_cuts_at_a_users_turn_when_a_tool_turn_is_in_the_way():
    """Ripple's page, case 7: [h, ai+call, tool, ai, h, ai, h], keep 3, gives cut 4."""
    history = [user("a"), call("f"), result("c1", "x"), assistant("b"), user("c"), assistant("d"), user("e")]
    assert cut(RecentTurns(messages=3), history) == (0, 4)


def test_ripple_does_not_cut_inside_the_only_turn():
    """Ripple's page, case 8: [h, ai+call, tool, ai], keep 2, gives no cut."""
    history = [user("a"), call("f"), result("c1", "x"), assistant("b")]
    assert cut(RecentTurns(messages=2), history) is None


def test_ripple_goes_back_to_the_last_turn_where_none_begins_behind_the_target():
    history = [user("a"), assistant("b"), user("c"), assistant("d"), assistant("e"), assistant("f")]
    assert cut(RecentTurns(messages=2), history) == (0, 2)


def test_ripple_leaves_histories_alone_that_are_not_longer_than_the_tail():
    assert cut(RecentTurns(messages=6), alternating(6)) is None
    assert cut(RecentTurns(messages=6), alternating(7)) == (0, 2)
    assert cut(RecentTurns(messages=0), alternating(1)) is None


def test_ripple_counts_behind_the_system_prompt():
    assert cut(RecentTurns(messages=4), [system("s"), *alternating(10)]) == (1, 7)
    assert cut(RecentTurns(messages=6), [system("s"), *alternating(6)]) is None


def test_ripple_never_cuts_at_the_first_message():
    history = [system("s"), user("a"), *(assistant("b") for _ in range(5))]
    assert cut(RecentTurns(messages=2), history) is None


def test_ripple_never_cuts_where_a_call_waits_for_a_result_that_comes_later():
    history = [user("a"), call("f"), user("b"), result("c1", "x"), user("c"), assistant("d")]
    assert cut(RecentTurns(messages=4), history) == (0, 4)


def test_ripple_keeps_at_least_a_token_of_the_window():
    assert cut(RecentTurns(messages=2), alternating(4), [0, 0, 1, 0], window=1) == (0, 2)
    assert cut(RecentTurns(messages=3), [user("a")] * 4, [0, 0, 1, 1], window=1) == (0, 3)


def test_ripple_may_keep_no_message_but_the_last_turn():
    assert cut(RecentTurns(messages=0), [user("a"), user("b")]) == (0, 1)


# -- CodeBuddy ---------------------------------------------------------------------------------------------


def test_codebuddy_keeps_the_last_four_messages():
    assert cut(LastMessages(), alternating(10)) == (0, 6)
    assert cut(LastMessages(), alternating(5)) == (0, 1)
    assert cut(LastMessages(), alternating(4)) is None
    assert cut(LastMessages(), [system("s"), *alternating(10)]) == (1, 7)
    assert cut(LastMessages(), [system("s"), *alternating(4)]) is None


def test_codebuddy_wants_six_messages_and_two_older_ones_for_a_summary():
    """CodeBuddy's page, multi-chunk: at least 6 messages and 2 older ones; case 13."""
    keep = LastMessages(least=6, least_older=2)
    assert cut(keep, alternating(5)) is None
    assert cut(keep, alternating(6)) == (0, 2)
    assert cut(LastMessages(messages=5, least=6, least_older=2), alternating(6)) is None
    assert cut(keep, [system("s"), *alternating(5)]) is None
    assert cut(LastMessages(least=6), [system("s"), *alternating(5)]) is None
    assert cut(LastMessages(least_older=2), [system("s"), *alternating(5)]) is None


def test_codebuddy_takes_the_older_half_of_the_older_ones():
    """CodeBuddy's page, partial: the first floor(older / 2)."""
    assert cut(LastMessages(oldest_half=True), alternating(10)) == (0, 3)
    assert cut(LastMessages(oldest_half=True), alternating(11)) == (0, 3)
    assert cut(LastMessages(oldest_half=True), alternating(12)) == (0, 4)
    assert cut(LastMessages(oldest_half=True), alternating(5)) is None
    assert cut(LastMessages(oldest_half=True), [system("s"), *alternating(10)]) == (1, 4)


def test_codebuddy_does_not_part_a_call_from_its_result():
    history = [
        user("a"),
        assistant("b"),
        call("f"),
        result("c1", "x"),
        assistant("c"),
        user("d"),
        assistant("e"),
    ]
    assert cut(LastMessages(), history) == (0, 2)
    assert cut(LastMessages(oldest_half=True, messages=1), history) == (0, 2)


def test_codebuddy_gives_nothing_where_the_legal_cut_is_the_start():
    history = [call("f"), *alternating(6), result("c1", "x")]
    assert cut(LastMessages(), history) is None
    assert cut(LastMessages(least_older=0), history) is None


# -- NeuroLink ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "kept"), [(5, 4), (13, 4), (14, 5), (20, 6), (50, 15)])
def test_neurolink_keeps_30_per_cent_and_four_at_least(count, kept):
    """NeuroLink's page, case 31."""
    assert cut(RecentShare(), alternating(count)) == (0, count - kept)


def test_neurolink_summarises_nothing_of_four_messages():
    """NeuroLink's page, case 31."""
    assert cut(RecentShare(), alternating(4)) is None
    assert cut(RecentShare(), [system("s"), *alternating(4)]) is None
    assert cut(RecentShare(), [system("s"), *alternating(5)]) == (1, 2)
    assert cut(RecentShare(), alternating(4), target=1) is None
    assert cut(RecentShare(), [system("s"), *alternating(4)], target=1) is None


def test_neurolink_keeps_30_per_cent_of_a_named_target():
    """NeuroLink's page, case 31: 20 messages of 500 characters, target 2000, summarises 16."""
    assert cut(RecentShare(), alternating(20), [136] * 20, target=2_000) == (0, 16)
    assert cut(RecentShare(), alternating(20), [150] * 20, target=2_000) == (0, 16)
    assert cut(RecentShare(), alternating(20), [151] * 20, target=2_000) == (0, 17)


def test_neurolink_summarises_at_least_one_and_keeps_the_last():
    """NeuroLink's page, stage 3: at least 1 summarised, at least the last kept."""
    assert cut(RecentShare(), alternating(6), target=100_000) == (0, 1)
    assert cut(RecentShare(), alternating(6), target=1) == (0, 5)
    assert cut(RecentShare(), [system("s"), *alternating(6)], target=100_000) == (1, 2)


def test_neurolink_does_not_part_a_call_from_its_result():
    history = [user("a"), assistant("b"), call("f"), result("c1", "x"), *alternating(3)]
    assert cut(RecentShare(), history) == (0, 2)
    assert cut(RecentShare(), history[2:]) is None


# -- Opal --------------------------------------------------------------------------------------------------


def test_opal_counts_bytes_and_twenty_a_message():
    """Opal's page, cut point: UTF-8 bytes and 20; a message without content is 20; large calls count here."""
    assert byte_size(user("abc")) == 23
    assert byte_size(user("é")) == 22
    assert byte_size(user()) == 20
    assert byte_size(user("\ud800")) == 23
    assert byte_size(calls(ToolCall("1", "f", "x" * 201))) == len("f\n") + 201 + 20
    assert byte_size(call("f", a=1)) == 20


def pairs_of(count, chars):
    return [
        message
        for i in range(count)
        for message in (user(f"user msg {i} " + "x" * chars), assistant(f"reply {i} " + "x" * chars))
    ]


@pytest.mark.parametrize(
    ("count", "chars", "tokens", "end"),
    [(6, 200, 150, 10), (6, 200, 200, 8), (6, 200, 300, 6), (6, 300, 300, 8), (3, 200, 0, 5)],
)
def test_opal_cuts_at_the_next_users_turn(count, chars, tokens, end):
    """Opal's page, cases 3, 8 and 9; where no turn follows the cut is inside the turn."""
    assert cut(RecentBytes(tokens=tokens), pairs_of(count, chars)) == (0, end)


def test_opal_leaves_everything_that_fits():
    """Opal's page, cases 1 and 7."""
    assert cut(RecentBytes(tokens=100), [user("a"), assistant("b")]) is None
    assert cut(RecentBytes(tokens=10_000_000), pairs_of(6, 200)) is None


def test_opal_leaves_a_single_huge_message():
    """Opal's page, case 10."""
    assert cut(RecentBytes(tokens=10), [user("x" * 100_000)]) is None
    assert cut(RecentBytes(tokens=10), [system("s"), user("x" * 100_000)]) is None


def test_opal_cuts_where_the_sum_reaches_the_limit():
    """Four messages of 40 bytes: two of them are 80 bytes, 20 tokens by fours."""
    history = [user("x" * 20) for _ in range(4)]
    assert cut(RecentBytes(tokens=20), history) == (0, 2)
    assert cut(RecentBytes(tokens=21), history) == (0, 1)
    assert cut(RecentBytes(tokens=20), [*history[:3], user("x" * 19)]) == (0, 1)


def test_opal_keeps_a_quarter_of_the_window_by_itself_and_20000_tokens_by_hand():
    """Opal's page, auto: window / 4; by hand 20,000 tokens."""
    history = [user("x" * 20) for _ in range(4)]
    assert cut(RecentBytes(), history, window=80) == (0, 2)
    assert cut(RecentBytes(), history, window=83) == (0, 2)
    assert cut(RecentBytes(), history, window=84) == (0, 1)
    huge = [user("x" * 39_980) for _ in range(6)]
    assert cut(RecentBytes(), huge, force=True, window=80) == (0, 4)
    assert cut(RecentBytes(by_hand=10_000), huge, force=True, window=80) == (0, 5)


def test_opal_keeps_two_messages_when_forced_and_everything_would_fit():
    """Opal's page, cut point: with force and more than 2 messages and no cut, max(n - 2, 1)."""
    keep = RecentBytes(tokens=1_000)
    assert cut(keep, alternating(6), force=True) == (0, 4)
    assert cut(keep, alternating(3), force=True) == (0, 1)
    assert cut(keep, alternating(2), force=True) is None
    assert cut(keep, [system("s"), *alternating(2)], force=True) is None
    assert cut(keep, [system("s"), *alternating(3)], force=True) == (1, 2)
    assert cut(keep, alternating(6), force=False) is None
    assert cut(RecentBytes(tokens=50), [user("x" * 400), assistant("a"), assistant("b")], force=True) == (
        0,
        1,
    )


def test_opal_takes_nothing_of_one_unit_even_when_forced():
    unit = [calls(call_part("f", id="a"), call_part("g", id="b")), result("a", "x"), result("b", "y")]
    assert cut(RecentBytes(tokens=1_000), unit, force=True) is None


def test_opal_does_not_start_a_tail_on_a_result():
    """Opal's page, decisions: the cut moves to a legal place."""
    history = [user("a"), assistant("b"), call("f"), result("c1", "x" * 400)]
    assert cut(RecentBytes(tokens=50), history) == (0, 2)
    assert cut(RecentBytes(tokens=50), history[2:]) is None


def long_turn(before=2):
    history = [*alternating(before), user("do it")]
    for n in range(20):
        history += [call("f", id=str(n)), result(str(n), "x" * 150)]
    return history


def test_opal_tells_which_turn_it_splits():
    """Opal's page, split turn: 5 messages or more between the turn's start and the cut."""
    segment = RecentBytes(tokens=425).segment(measured(long_turn()))
    assert segment == Segment(0, 25, 2)


def test_opal_takes_a_short_beginning_of_a_turn_as_no_split():
    """Opal's page, case 14: three messages before the cut are too few."""
    history = [user("a"), call("f"), result("c1", "x"), assistant("y" * 3_000)]
    assert RecentBytes(tokens=500).segment(measured(history)) == Segment(0, 3)
    assert RecentBytes(tokens=500, split_least=3).segment(measured(history)) == Segment(0, 3, 0)
    assert RecentBytes(tokens=500, split_least=4).segment(measured(history)) == Segment(0, 3)


def test_opal_splits_no_turn_where_the_tail_starts_on_one_or_nobody_spoke():
    assert RecentBytes(tokens=10, split_least=1).segment(measured(alternating(4))).turn is None
    history = [summary("was"), *(assistant("x" * 100) for _ in range(6))]
    assert RecentBytes(tokens=10, split_least=1).segment(measured(history)) == Segment(0, 6)


def test_opal_finds_the_turn_nearest_to_the_cut():
    history = [user("a"), user("b"), assistant("c"), assistant("x" * 100)]
    assert RecentBytes(tokens=10, split_least=2).segment(measured(history)) == Segment(0, 3, 1)
    assert RecentBytes(tokens=10, split_least=3).segment(measured(history)) == Segment(0, 3)


# -- Umwelten ----------------------------------------------------------------------------------------------

S, U, A = system("s"), user("u"), assistant("a")


@pytest.mark.parametrize(
    ("history", "checkpoint", "stretch"),
    [
        ([S], None, None),
        ([S, U, A], None, (1, 3)),
        ([S, U, A, U, A], 1, (1, 5)),
        ([S, U], None, None),
        ([S, U, A, U], None, (1, 3)),
        ([S, U, A, U, A], 3, (3, 5)),
        ([S, U, A, U, A], 5, None),
        ([S, U, A, U, A], 99, None),
        ([S, U, A, U, A], 0, (1, 5)),
        ([S, U, A, U, A], -1, (1, 5)),
        ([U, A, U], None, (0, 2)),
    ],
)
def test_umwelten_takes_the_thread_up_to_the_last_reply(history, checkpoint, stretch):
    """Umwelten's page, cases 3 to 11; positions of ends are cuts, one behind the page's."""
    assert cut(Thread(), history, checkpoint=checkpoint) == stretch


def test_umwelten_ignores_the_checkpoint_where_told():
    """Umwelten's page, case 10."""
    assert cut(Thread(from_checkpoint=False), [S, U, A, U, A], checkpoint=3) == (1, 5)


def test_umwelten_takes_the_results_that_answer_the_last_reply():
    """Umwelten's page, decisions: tool results never stay behind as orphans."""
    history = [S, U, call("f"), result("c1", "x"), U]
    assert cut(Thread(), history) == (1, 4)


def test_umwelten_does_not_take_a_reply_whose_calls_wait():
    assert cut(Thread(), [S, U, A, U, call("f")]) == (1, 3)
    assert cut(Thread(), [S, U, call("f")]) is None


def test_umwelten_moves_a_checkpoint_inside_a_pair_behind_it():
    history = [S, U, call("f"), result("c1", "x"), U, A]
    assert cut(Thread(), history, checkpoint=3) == (4, 6)


def test_umwelten_keeps_turns():
    history = [S, U, A, U, A, U, A]
    assert cut(Thread(keep_turns=1), history) == (1, 5)
    assert cut(Thread(keep_turns=2), history) == (1, 3)
    assert cut(Thread(keep_turns=3), history) is None
    assert cut(Thread(keep_turns=4), history) is None
    assert cut(Thread(keep_turns=-1), history) == (1, 7)
    assert cut(Thread(keep_turns=2), [A, U, A]) is None
    assert cut(Thread(keep_turns=1), [A, U, A]) == (0, 1)


def test_umwelten_keeps_whole_turns_where_a_pair_reaches_into_one():
    history = [S, U, call("f"), U, result("c1", "x"), A]
    assert cut(Thread(keep_turns=1), history) is None


def test_umwelten_merges_with_a_summary_directly_before_the_thread():
    """Umwelten's page, decisions: a second compaction merges, unless told not to."""
    history = [S, summary("was", role="system"), summary("more", role="system"), U, A]
    assert cut(Thread(), history, checkpoint=3) == (1, 5)
    assert cut(Thread(merge=False), history, checkpoint=3) == (3, 5)
    assert cut(Thread(merge=False), history) == (3, 5)
    assert cut(Thread(), history) == (1, 5)
    assert cut(Thread(merge=False, from_checkpoint=False), history) == (1, 5)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_umwelten_merges_with_every_summary_before_the_thread(count):
    history = [S, *(summary(str(n), role="system") for n in range(count)), U, A]
    assert cut(Thread(), history, checkpoint=count + 1) == (1, count + 3)
    assert cut(Thread(merge=False), history) == (count + 1, count + 3)


def test_umwelten_does_not_merge_with_a_summary_behind_the_thread():
    assert cut(Thread(), [U, A, summary("was")]) == (0, 2)


def test_umwelten_does_not_merge_with_a_summary_further_away():
    history = [S, summary("was", role="system"), U, U, A]
    assert cut(Thread(), history, checkpoint=3) == (3, 5)


def test_umwelten_does_not_take_a_summary_for_a_reply():
    """Immediately again there is nothing to condense: Umwelten's page, case 13."""
    assert cut(Thread(), [S, summary("was", role="assistant"), U]) is None
    assert cut(Thread(merge=False), [S, summary("a"), summary("b")]) is None
