"""Calls that share an id get ids of their own."""

from hypothesis import given

from growth import assert_linear
from history_strategies import HISTORIES
from refold.core.messages.normalize import make_call_ids_unique
from refold.core.messages.tool_pairs import link
from refold.core.messages.wire_rules import Shape
from refold.testing import (
    call,
    call_part,
    calls,
    result,
    shape,
)

CHAT = Shape(name="chat")
GEMINI = Shape(name="gemini", results_in_user=True)
ANTHROPIC = Shape(name="anthropic", results_in_user=True, alternates=True, unique_ids=True)
RESPONSES = Shape(name="responses", results_anywhere=True, unique_ids=True)
BLOCKS = [GEMINI, ANTHROPIC]
ALL = [CHAT, GEMINI, ANTHROPIC, RESPONSES]


def test_a_later_call_of_the_same_id_gets_a_new_one_where_ids_must_be_unique():
    history = [call("f", id="a"), result("a", "1"), call("f", id="a"), result("a", "2"), call("f", id="a")]
    done = make_call_ids_unique(history, ANTHROPIC)
    assert [line.split("#")[1] for line in shape(done).split("\n")] == ["a", "a: 1", "a_2", "a_2: 2", "a_3"]
    assert done[0] is history[0]
    assert done[1] is history[1]


def test_ids_may_be_used_again_where_the_provider_takes_them():
    """House law 2: what was not touched comes back identical."""
    history = [call("f", id="a"), result("a", "1"), call("f", id="a"), result("a", "2")]
    assert make_call_ids_unique(history, CHAT) is history


def test_two_calls_of_one_message_never_share_an_id():
    history = [
        calls("ok", call_part("f", id="a"), call_part("g", id="a")),
        result("a", "1"),
        result("a", "2"),
    ]
    for wire in (CHAT, ANTHROPIC):
        assert shape(make_call_ids_unique(history, wire)) == (
            "assistant: ok | -> f() #a | -> g() #a_2\ntool #a: 1\ntool #a_2: 2"
        )


def test_a_new_id_is_none_that_was_used_before():
    history = [call("f", id="a"), call("f", id="a_2"), call("f", id="a")]
    assert [message.calls[0].id for message in make_call_ids_unique(history, ANTHROPIC)] == [
        "a",
        "a_2",
        "a_3",
    ]


def test_ids_that_are_all_different_give_the_very_list():
    history = [call("f", id="a"), call("f", id="b")]
    assert make_call_ids_unique(history, ANTHROPIC) is history


@given(HISTORIES)
def test_ids_are_unique_after_renaming_and_the_same_results_answer(history):
    done = make_call_ids_unique(history, ANTHROPIC)
    ids = [call.id for message in done for call in message.calls]
    assert len(ids) == len(set(ids))
    assert make_call_ids_unique(done, ANTHROPIC) is done
    assert len(link(history).answers) <= len(link(done).answers)


def test_many_calls_with_one_id_take_linear_work():
    def make_work(size):
        history = [message for _ in range(size) for message in (call("f", id="a"), result("a", "x"))]
        return lambda: make_call_ids_unique(history, ANTHROPIC)

    assert len({call.id for message in make_work(100)() for call in message.calls}) == 100
    assert_linear(make_work, 300)
