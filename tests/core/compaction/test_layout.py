"""How much of each message a view shows: pure arithmetic, so its laws are checked on sizes alone."""

from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from growth import assert_linear
from refold.core.compaction.cuts import Cuts
from refold.core.compaction.layout import (
    EXCHANGE_SHARE,
    LARGEST_SHARE,
    LEAST_TOKENS,
    OLD_SHARE,
    TAIL_SHARE,
    UNREAD_REST_TOKENS,
    UNREAD_SHARE,
    Layout,
    SizedHistory,
    find_height,
    plan_layout,
)

NONE = frozenset()


def sized(*sizes, groups=(), **more):
    """A history of messages of these sizes; `groups`: how many messages stay together, one each if empty."""
    cuts = (0, *accumulate(groups or [1] * len(sizes)))
    values = {"actions": NONE, "undivided": NONE, "guarded": NONE, "fixed": NONE, "head": 0}
    values |= {"exchange_start": len(sizes)} | more
    return SizedHistory(sizes=sizes, cuts=Cuts(cuts), **values)


def no_text(_free, _leaving):
    return 0


def tenth(free, leaving):
    """A text of a tenth of the free room, and never more than a quarter of what it stands for."""
    return min(free // 10, leaving // 4)


def plan(history, goal, text_size=tenth, *, guarded_share=0.3, **more):
    return plan_layout(history, goal, text_size, guarded_share=guarded_share, **more)


def shown(history, layout):
    """The units of each message in the view."""
    return [
        layout.limits.get(at, size) if at >= layout.start or at in history.guarded else 0
        for at, size in enumerate(history.sizes)
    ]


class TestByAge:
    def test_the_newest_are_whole_older_ones_shorter_and_the_oldest_leave(self):
        history = sized(*[400] * 40)
        sizes = shown(history, plan(history, 4_000))
        assert sizes == sorted(sizes)
        assert sizes[0] == 0
        assert sizes[-2:] == [400, 400]
        assert any(0 < size < 400 for size in sizes)

    def test_what_fits_is_whole(self):
        history = sized(10, 20, 30)
        assert plan(history, 60) == Layout(0, {}, 60, 60)

    def test_an_empty_history(self):
        assert plan(sized(), 100) == Layout(0)

    def test_where_nothing_fits_everything_leaves(self):
        assert plan(sized(500, 500), 0).start == 2

    def test_the_text_takes_its_room_first(self):
        history = sized(*[100] * 20)
        with_text, without = plan(history, 600, lambda free, _: free // 2), plan(history, 600, no_text)
        assert with_text.units <= 300 < without.units <= 600

    def test_an_action_has_more_than_an_output_of_the_same_age(self):
        output = sized(*[300] * 30)
        action = replace(output, actions=frozenset({20}))
        assert plan(action, 3_000).limits.get(20, 300) > plan(output, 3_000).limits[20]

    def test_a_huge_output_does_not_end_the_view(self):
        """It is shortened, and those before it are no older for it than behind a large one."""
        history = sized(*[50] * 10, 100_000, *[50] * 4)
        layout = plan(history, 1_500)
        assert layout.start < 10
        assert layout.limits[10] < 1_500

    def test_a_huge_message_of_a_person_does_not_end_the_view(self):
        """It needs so high a level that all the small ones before it come back at once, too many to fit."""
        history = sized(*[50] * 200, 4_000, *[50] * 10, undivided=frozenset(range(211)))
        layout = plan(history, 5_000)
        assert layout.start < 200
        assert 4_000 <= layout.units <= 4_500

    def test_the_newest_message_may_have_more_than_the_tail(self):
        """A quarter of the room is whole in any case; the newest message up to two fifths of it."""
        history = sized(*[100] * 10, 350)
        assert TAIL_SHARE < 0.35 < LARGEST_SHARE
        assert 10 not in plan(history, 1_000).limits
        assert plan(sized(*[100] * 10, 5_000), 1_000).limits[10] < 1_000

    def test_the_newest_exchange_of_words_is_whole_where_it_fits(self):
        """An answer behind which a question stands may be larger than the tail."""
        history = sized(*[100] * 20, 640, 50)
        assert TAIL_SHARE < 0.69 < EXCHANGE_SHARE
        assert 20 in plan(history, 1_000).limits
        assert 20 not in plan(replace(history, exchange_start=20), 1_000).limits
        larger = sized(*[100] * 20, 800, 50, exchange_start=20)
        assert 20 in plan(larger, 1_000).limits

    def test_results_that_the_model_has_not_read_are_whole_where_they_fit(self):
        """It asked for them, and asks again for what is cut. Where they do not fit, others have their half."""
        goal, before = 10_000, [100] * 400
        fits, most = int(goal * UNREAD_SHARE), int(goal * LARGEST_SHARE)
        assert 400 not in plan(sized(*before, fits), goal).limits
        two = sized(*before, fits // 2, fits // 2, groups=[1] * 400 + [2])
        assert not {400, 401} & plan(two, goal).limits.keys()
        assert plan(sized(*before, fits + 1), goal).limits[400] <= most
        assert plan(sized(*before, fits, 10, actions=frozenset({401})), goal).limits[400] <= most

    def test_in_a_small_view_they_leave_room_for_others(self):
        goal = 2 * UNREAD_REST_TOKENS
        size = int(goal * (LARGEST_SHARE + UNREAD_SHARE) / 2)
        assert 40 in plan(sized(*[100] * 40, size), goal).limits
        assert 40 not in plan(sized(*[400] * 40, 4 * size), 4 * goal).limits

    def test_a_part_that_would_say_nothing_is_not_shown(self):
        history = sized(*[1_000] * 200)
        parts = [size for size in shown(history, plan(history, 3_000)) if size]
        assert parts
        assert min(parts) >= LEAST_TOKENS

    def test_units_of_a_token(self):
        """The same history in characters and in tokens gives the same view."""
        tokens = sized(*[400, 90] * 20)
        chars = sized(*[1_600, 360] * 20, unit=4)
        assert plan(chars, 8_000).start == plan(tokens, 2_000).start

    def test_words_of_people_and_summaries_are_whole_or_leave(self):
        history = sized(*[300] * 30, undivided=frozenset(range(30)))
        sizes = shown(history, plan(history, 4_000))
        assert set(sizes) == {0, 300}

    def test_huge_words_may_be_divided(self):
        """A pasted file is not worth all others."""
        history = sized(*[60] * 5, 50_000, *[60] * 5, undivided=frozenset({5}))
        layout = plan(history, 2_000)
        assert layout.start <= 5
        assert 0 < layout.limits[5] <= 2_000 - 5 * 60

    def test_a_picture_that_is_smaller_than_its_marker_ends_no_view(self):
        plain = sized(*[100] * 40)
        assert plan(replace(plain, without_media={38: 140}), 2_000) == plan(plain, 2_000)

    def test_no_part_of_a_picture_is_shown(self):
        """A message with pictures is whole, or has what is left without them."""
        history = sized(*[100] * 10, 2_000, *[100] * 10, without_media={10: 45})
        layout = plan(history, 1_900)
        assert layout.start <= 10
        assert layout.limits[10] == 45

    def test_a_message_that_cannot_be_shortened_to_its_share_ends_the_view(self):
        """Thinking and opaque blocks stay as they are; a message of little else would take all room."""
        sizes = [*[100] * 10, 3_000, *[100] * 4]
        assert plan(sized(*sizes, firm={10: 2_900}), 2_000).start == 11
        assert plan(sized(*sizes, firm={10: 300}), 2_000).limits[10] >= 300

    def test_where_no_message_may_be_shortened_all_that_stay_are_whole(self):
        layout = plan(sized(*[300] * 20), 2_000, whole=True, divide=False)
        assert layout.limits == {}
        assert 1_500 <= layout.units <= 2_000


class TestGroups:
    @pytest.mark.slow
    def test_a_call_and_its_result_stay_or_leave_together(self):
        for goal in range(0, 4_000, 50):
            history = sized(*[60, 340] * 20, groups=[2] * 20, actions=frozenset(range(0, 40, 2)))
            assert plan(history, goal).start % 2 == 0

    @pytest.mark.slow
    def test_results_that_the_model_has_not_read_stay_with_their_calls(self):
        """Several results may be one large message, as with Gemini and Anthropic."""
        history = sized(*[60, 340] * 20, 90, 760, groups=[2] * 21, actions=frozenset(range(0, 42, 2)))
        for goal in range(300, 4_000, 50):
            assert plan(history, goal, lambda free, _: free // 2).start <= 40

    def test_an_answer_may_leave(self):
        history = sized(*[340] * 3, 90, 760, groups=[1, 1, 1, 2], actions=frozenset({3, 4}))
        assert plan(history, 200).start == 5

    def test_system_messages_that_lead_are_no_part_of_the_view_s_tail(self):
        history = sized(50, 10, 10, 10, head=1, guarded=frozenset({0}), fixed=frozenset({0}))
        assert plan(history, 1_000).start == 1

    def test_a_guarded_message_is_not_counted_twice(self):
        history = sized(10, 200, 10, guarded=frozenset({1}))
        assert plan(history, 1_000) == Layout(0, {}, 20, 20)


class TestParallelCalls:
    @staticmethod
    def make(number, *, calls=250, size=630, before=(), after=()):
        """One message with all calls, then a result for each of them."""
        sizes = (*before, calls, *[size] * number, *after)
        groups = [*[1] * len(before), 1 + number, *[1] * len(after)]
        ones = range(len(before) + 1 + number, len(sizes))
        return sized(*sizes, groups=groups, actions=frozenset({len(before), *ones}))

    @pytest.mark.few_values(2)
    @pytest.mark.slow
    @pytest.mark.parametrize("number", [2, 5, 20, 60])
    def test_results_that_the_model_has_not_read_stay_where_all_of_them_fit_in_part(self, number):
        """A level at which they are too large must not be taken for one at which they are small."""
        history = self.make(number, calls=12 * number, before=[100] * 10)
        least = 12 * number + number * LEAST_TOKENS
        for goal in range(2 * least, sum(history.sizes), 230):
            layout = plan(history, goal)
            assert layout.start <= 10
            assert layout.units > 0.8 * goal

    def test_they_have_the_same_share_and_small_ones_are_whole(self):
        sizes = [60, *[630] * 5, 45, *[630] * 5]
        history = sized(*sizes, groups=[12], actions=frozenset({0}))
        parts = shown(history, plan(history, 2_000))
        assert parts[6] == 45
        assert len({*parts[1:6], *parts[7:]}) == 1

    def test_they_count_as_one_message_for_the_age_of_those_before(self):
        """As with providers that have all results in one message."""
        history = self.make(20, before=[600] * 10, after=[60])
        assert plan(history, 6_000).start < 10

    def test_their_room_is_for_newer_messages_where_they_do_not_fit(self):
        """They come back at once, so that a search for one level would leave that room unused."""
        history = self.make(30, before=[100] * 5, after=[60, 3_000])
        layout = plan(history, 1_500)
        assert layout.start == 36
        assert layout.units > 0.8 * 1_500

    @pytest.mark.slow
    @pytest.mark.few_values(2)
    @pytest.mark.parametrize(("window", "number"), [(8_000, 20), (8_000, 40), (16_000, 30), (32_000, 60)])
    def test_a_view_shows_all_of_them(self, window, number):
        lines = "\n".join(f"line {row} alpha beta gamma" for row in range(window // 5 // number))
        reads = [{"name": "read", "arguments": f'{{"path": "src/f{n}.py"}}'} for n in range(number)]
        calls = [{"id": f"c{n}", "type": "function", "function": read} for n, read in enumerate(reads)]
        history = [
            {"role": "user", "content": "Look into all files."},
            {"role": "assistant", "content": None, "tool_calls": calls},
            *(
                {"role": "tool", "tool_call_id": f"c{n}", "content": f"file {n}\n{lines}"}
                for n in range(number)
            ),
        ]
        prepared = refold.open("s", store="memory:", window=window).prepare(history)
        results = [message["content"] for message in prepared.messages if message["role"] == "tool"]
        assert [text.split("\n")[0] for text in results] == [f"file {n}" for n in range(number)]
        assert prepared.budget.used > 0.85 * prepared.outcome.receipt.goal_tokens

    def test_of_each_of_the_calls_something_is_planned(self):
        history = self.make(20, calls=900, after=[60])
        assert shown(history, plan(history, 4_000))[0] >= 20 * LEAST_TOKENS


class TestWhole:
    def test_as_many_whole_messages_as_fit_beside_the_text(self):
        history = sized(*[100] * 20)
        assert plan(history, 1_000, whole=True) == Layout(11, {}, 900, 900)

    def test_no_more_than_asked_for(self):
        history = sized(*[100] * 20)
        assert plan(history, 1_000, whole=True, most=250).start == 18

    def test_the_newest_stays_even_if_it_has_more(self):
        assert plan(sized(*[100] * 20), 1_000, whole=True, most=1).start == 19

    def test_a_huge_one_is_shortened(self):
        layout = plan(sized(100, 90_000, 100, 100), 1_000, whole=True)
        assert layout.start == 0
        assert layout.limits == {1: int(1_000 * LARGEST_SHARE)}


class TestGuarded:
    def test_old_and_large_ones_are_shortened_to_their_share(self):
        history = sized(5_000, *[100] * 100, guarded=frozenset({0}))
        assert plan(history, 2_000).limits[0] == 600

    def test_small_ones_stay_whole_beside_large_ones(self):
        history = sized(300, 5_000, *[100] * 100, guarded=frozenset({0, 1}))
        limits = plan(history, 2_000).limits
        assert 0 not in limits
        assert limits[1] == 300

    def test_one_that_is_hardly_larger_than_its_share_stays_whole(self):
        limits = [plan(sized(size, *[100] * 100, guarded={0}), 2_000).limits for size in (750, 751)]
        assert 0 not in limits[0]
        assert limits[1][0] == 600

    def test_never_to_less_than_says_something(self):
        history = sized(5_000, 5_000, *[100] * 100, guarded=frozenset({0, 1}))
        limits = [plan(history, goal).limits[0] for goal in (200, 400, 900)]
        assert limits == [2 * LEAST_TOKENS, 120, 4 * LEAST_TOKENS]

    @pytest.mark.parametrize("place", [0, 60])
    def test_pins_and_system_messages_never(self, place):
        sizes = [100] * 100
        sizes[place] = 5_000
        history = sized(*sizes, guarded=frozenset({place}), fixed=frozenset({place}))
        assert place not in plan(history, 2_000).limits

    def test_new_ones_that_fit_never(self):
        history = sized(*[100] * 100, 1_500, guarded=frozenset({100}))
        assert 100 not in plan(history, 2_000).limits

    @pytest.mark.parametrize(("size", "limit"), [(5_000, 1_300), (2_000, 1_300), (1_600, None)])
    def test_new_ones_that_leave_others_less_than_half_are_shortened(self, size, limit):
        history = sized(size, *[100] * 7, guarded=frozenset({0}))
        assert plan(history, 2_000).limits.get(0) == limit

    def test_what_others_leave_is_for_old_ones(self):
        history = sized(5_000, *[100] * 12, guarded=frozenset({0}))
        assert plan(history, 2_000) == Layout(0, {0: 800}, 1_200, 1_200)


def test_the_height_to_which_sizes_are_cut():
    assert find_height([], 10) == 0
    assert find_height([3, 5], 10) == 5
    assert find_height([3, 50, 60], 23) == 10
    assert find_height([3, 50, 60], 0) == 0
    assert find_height([3, 50, 60], -5) == 0


@given(st.lists(st.integers(0, 1_000), max_size=20), st.integers(0, 5_000))
def test_heights_fill_what_is_allowed(sizes, allowed):
    height = find_height(sizes, allowed)
    cut = sum(min(size, height) for size in sizes)
    assert cut <= allowed
    assert cut > allowed - len(sizes) or cut == sum(sizes)


@st.composite
def histories(draw):
    groups = draw(st.lists(st.integers(1, 3), max_size=30))
    length = sum(groups)
    places = st.sets(st.integers(0, length - 1), max_size=4) if length else st.just(set())
    staying = draw(places)
    sizes = draw(st.lists(st.integers(1, 900) | st.integers(1, 30_000), min_size=length, max_size=length))
    undivided = frozenset(draw(places))
    return sized(
        *sizes,
        groups=groups,
        actions=frozenset(range(0, length, 2)) - undivided,
        undivided=undivided,
        guarded=frozenset(staying),
        fixed=frozenset(at for at in staying if at % 2),
    )


@given(histories(), st.integers(0, 20_000), st.booleans())
def test_laws_of_every_layout(history, goal, whole):
    layout = plan(history, goal, whole=whole)
    assert history.cuts.allows(layout.start)
    for at, limit in layout.limits.items():
        assert 0 < limit < history.sizes[at]
        assert at >= layout.start or at in history.guarded
        assert at not in history.fixed
    inside = [at for at in range(layout.start, len(history.sizes)) if at not in history.guarded]
    assert layout.units == sum(layout.limits.get(at, history.sizes[at]) for at in inside)
    assert layout.covers == sum(history.sizes[at] for at in inside)
    staying = sum(layout.limits.get(at, history.sizes[at]) for at in history.guarded)
    behind = sum(history.sizes[min(history.guarded, default=0) + 1 :])
    for at in history.guarded & layout.limits.keys():
        assert behind >= goal * OLD_SHARE
        assert history.sizes[at] > layout.limits[at] >= 2 * LEAST_TOKENS
    free = max(0, goal - staying)
    for at in set(inside) & history.undivided & layout.limits.keys():
        assert history.sizes[at] > layout.limits[at] >= int(free * LARGEST_SHARE)


@given(histories(), st.integers(200, 20_000))
def test_messages_and_text_are_within_the_free_room(history, goal):
    """Unless the newest group alone is too much."""
    layout = plan(history, goal)
    staying = sum(layout.limits.get(at, history.sizes[at]) for at in history.guarded)
    free = max(0, goal - staying)
    removable = sum(size for at, size in enumerate(history.sizes) if at not in history.guarded)
    legal = history.cuts.legal
    newest = legal[-2] if len(legal) > 1 else 0
    assert layout.units + tenth(free, removable - layout.covers) <= free or layout.start >= newest


@given(histories(), st.integers(500, 20_000), st.integers(1, 5_000))
def test_a_larger_goal_shows_no_less(history, goal, more):
    """No message leaves that a smaller goal had room for, and one loses at most what another needs to enter.

    Unless the model has yet to read the newest, which a larger goal may show whole.
    """
    answered = history.actions | {len(history.sizes) - 1}
    plain = replace(history, actions=answered, undivided=NONE, guarded=NONE, fixed=NONE)
    small, large = plan(plain, goal, no_text), plan(plain, goal + more, no_text)
    assert large.start <= small.start
    for before, after in zip(shown(plain, small), shown(plain, large), strict=True):
        assert after >= before - 3 * LEAST_TOKENS


@pytest.mark.slow
def test_the_work_is_linear():
    def make(number):
        history = sized(*[200, 800] * number, groups=[2] * number, actions=frozenset(range(0, 2 * number, 2)))
        return lambda: plan(history, 500 * number)

    assert_linear(make, 300)
