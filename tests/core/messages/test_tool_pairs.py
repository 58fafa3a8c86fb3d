"""Who answers whom, and which calls wait."""

import pytest
from hypothesis import given

from history_strategies import HISTORIES
from refold.core.messages.message import ToolCall, ToolResult
from refold.core.messages.tool_pairs import Links, link, may_continue_unit, open_calls
from refold.testing import (
    assistant,
    call,
    call_part,
    calls,
    result,
    result_part,
    thinking,
    user,
)


def answer(call_id, text="x"):
    return result(call_id, text, role="user")


# -- who answers whom --------------------------------------------------------------------------------------


def test_a_result_belongs_to_the_call_with_its_id():
    links = link([call("f", id="a"), result("a", "x")])
    assert links == Links(answers={(1, 0): (0, 0)}, answered={(0, 0): (1, 0)})


def test_neighbours_do_not_matter():
    """NeuroLink's page, faults: repair there looks at the neighbour instead of the id."""
    links = link([call("f", id="a"), user("wait"), call("g", id="b"), result("a", "x"), result("b", "y")])
    assert links.answers == {(3, 0): (0, 0), (4, 0): (2, 0)}


def test_parallel_calls_are_answered_in_any_order():
    history = [
        calls("ok", call_part("f", id="a"), call_part("g", id="b")),
        user(result_part("b"), result_part("a")),
    ]
    assert link(history).answers == {(1, 0): (0, 2), (1, 1): (0, 1)}


def test_an_id_that_is_used_again_means_the_nearest_call_before():
    history = [call("f", id="a"), result("a", "1"), call("f", id="a"), result("a", "2")]
    assert link(history).answers == {(1, 0): (0, 0), (3, 0): (2, 0)}
    history = [call("f", id="a"), call("f", id="a"), result("a", "2")]
    links = link(history)
    assert links.answers == {(2, 0): (1, 0)}
    assert list(links.unanswered) == [(0, 0)]


def test_calls_of_one_message_that_share_an_id_are_answered_in_order():
    """Some servers give every parallel call the same id, or none."""
    history = [calls(call_part("f", id="a"), call_part("g", id="a")), result("a", "1"), result("a", "2")]
    assert link(history).answers == {(1, 0): (0, 0), (2, 0): (0, 1)}


def test_calls_that_share_an_id_are_answered_in_order_wherever_they_stand():
    both = calls("ok", call_part("f", id="a"), call_part("g", id="a"))
    history = [user("go"), both, result("a", "1"), user("on"), both, result("a", "2"), result("a", "3")]
    assert link(history).answers == {(2, 0): (1, 1), (5, 0): (4, 1), (6, 0): (4, 2)}


def test_a_second_result_of_one_call_is_an_orphan():
    links = link([call("f", id="a"), result("a", "1"), result("a", "2")])
    assert links.answers == {(1, 0): (0, 0)}
    assert links.orphans == {(2, 0): result_part("a", "2")}


def test_a_result_without_a_call_is_an_orphan_and_a_call_without_a_result_unanswered():
    links = link([result("a", "x"), call("f", id="b")])
    assert links == Links(
        orphans={(0, 0): result_part("a", "x")}, unanswered={(1, 0): ToolCall("b", "f", {})}
    )


def test_a_result_before_its_call_belongs_to_it_if_nobody_else_answers():
    links = link([result("a", "x"), user("hm"), call("f", id="a")])
    assert links == Links(answers={(0, 0): (2, 0)}, answered={(2, 0): (0, 0)})
    links = link([result("a", "x"), call("f", id="a"), result("a", "y")])
    assert links.answers == {(2, 0): (1, 0)}
    assert list(links.orphans) == [(0, 0)]


def test_of_several_calls_behind_it_an_early_result_belongs_to_the_first():
    links = link([result("a", "x"), call("f", id="a"), call("g", id="a")])
    assert links.answers == {(0, 0): (1, 0)}
    assert list(links.unanswered) == [(2, 0)]


def test_of_several_early_results_the_first_is_taken():
    links = link([result("a", "x"), result("a", "y"), call("f", id="a")])
    assert links.answers == {(0, 0): (2, 0)}
    assert list(links.orphans) == [(1, 0)]


@given(HISTORIES)
def test_every_call_and_every_result_has_one_place_in_the_links(history):
    links = link(history)
    parts = {
        (index, place): part
        for index, message in enumerate(history)
        for place, part in enumerate(message.parts)
    }
    results = {place for place, part in parts.items() if isinstance(part, ToolResult)}
    asked = {place for place, part in parts.items() if isinstance(part, ToolCall)}
    assert set(links.answers) | set(links.orphans) == results
    assert not set(links.answers) & set(links.orphans)
    assert set(links.answered) | set(links.unanswered) == asked
    assert not set(links.answered) & set(links.unanswered)
    assert {call: result for result, call in links.answers.items()} == links.answered
    assert all(parts[result].call_id == parts[call].id for result, call in links.answers.items())


# -- calls that wait ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("history", "waiting"),
    [
        ([], set()),
        ([user("hi")], set()),
        ([user("hi"), call("f")], {1}),
        ([user("hi"), call("f"), result("c1", "x")], set()),
        ([user("hi"), call("f"), user("stop")], set()),
        ([calls(call_part("f", id="a"), call_part("g", id="b")), result("b", "y")], {0}),
        ([calls(call_part("f", id="a"), call_part("g", id="b")), answer("b")], {0}),
        ([calls(call_part("f", id="a"), call_part("g", id="b")), result("b", "y"), user("and?")], set()),
        ([call("f", id="a"), result("stray", "x")], set()),
        ([result("stray", "x")], set()),
        ([call("f", id="a"), user("hm"), call("g", id="b")], {2}),
    ],
)
def test_calls_wait_where_nothing_but_results_of_their_unit_stands_behind_them(history, waiting):
    """House law 6: open calls are kept."""
    assert open_calls(history) == waiting
    assert open_calls(history, across_messages=False) == waiting


def test_calls_that_stand_apart_wait_together():
    """OpenAI Responses has an item for each call, and reasoning between them."""
    history = [user("go"), call("f", id="a"), assistant(thinking("hm")), call("g", id="b"), result("b", "y")]
    assert open_calls(history) == {1}
    assert open_calls([*history[:4]]) == {1, 3}
    assert open_calls([*history[:4]], across_messages=False) == {3}
    assert open_calls(history, across_messages=False) == set()


def test_a_history_of_nothing_but_calls_waits_for_all_of_them():
    assert open_calls([call("f", id="a"), call("g", id="b"), call("h", id="c")]) == {0, 1, 2}
    assert open_calls([user("go"), call("f", id="a"), call("g", id="b"), call("h", id="c")]) == {1, 2, 3}


def test_of_calls_that_share_an_id_the_ones_without_a_result_wait():
    both = calls(call_part("f", id="a"), call_part("g", id="a"))
    assert open_calls([both, result("a", "x")]) == {0}
    assert open_calls([both, result("a", "x"), result("a", "y")]) == set()


def test_calls_before_a_result_or_words_are_of_another_unit():
    history = [call("f", id="a"), call("g", id="b"), result("b", "y"), call("h", id="c")]
    assert open_calls(history) == {3}
    assert open_calls([call("f", id="a"), assistant("words"), call("h", id="c")]) == {2}
    assert open_calls([call("f", id="a"), assistant(), call("h", id="c")]) == {2}


def test_calls_with_words_beside_them_are_of_another_unit():
    assert open_calls([calls("words", call_part("f", id="a")), call("h", id="c")]) == {1}


def test_words_beside_results_end_the_waiting():
    both = calls(call_part("f", id="a"), call_part("g", id="b"))
    assert open_calls([both, result("b", "y"), user("words", result_part("b", "again"))]) == set()
    assert open_calls([both, user("words", result_part("b", "y"))]) == set()
    assert open_calls([both, result("b", "y"), result("b", "again")]) == {0}
    assert open_calls([both, user()]) == set()


def test_calls_before_thinking_that_led_to_nothing_do_not_wait():
    assert open_calls([call("f"), assistant(thinking("hm"))]) == set()


def test_a_message_goes_on_that_only_calls_or_thinks():
    assert may_continue_unit(call("f"))
    assert may_continue_unit(assistant(thinking("hm"), call_part("f", id="a")))
    assert not may_continue_unit(assistant())
    assert not may_continue_unit(calls("words", call_part("f")))
    assert not may_continue_unit(result("a", "x"))
