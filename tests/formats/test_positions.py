"""Ids for calls that came without one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import formats
from refold.formats.shared.positions import Positions, is_position


def test_calls_are_counted_and_results_find_them_by_name():
    positions = Positions()
    assert [positions.call(None, name) for name in ("a", "b", "a")] == ["a#0", "b#1", "a#2"]
    assert [positions.result(None, name) for name in ("a", "a", "b")] == ["a#0", "a#2", "b#1"]


def test_calls_with_ids_do_not_count():
    positions = Positions()
    assert [positions.call("x", "a"), positions.call(None, "a")] == ["x", "a#0"]


def test_a_result_without_a_name_answers_the_first_call():
    positions = Positions()
    positions.call(None, "a")
    positions.call("x", "b")
    assert [positions.result(None, None) for _ in range(3)] == ["a#0", "x", "tool#none-0"]


def test_ids_that_came_before_the_first_without_are_remembered():
    positions = Positions()
    positions.call("x", "a")
    positions.call("y", "a")
    positions.result("x", None)
    assert positions.result(None, "a") == "y"
    assert positions.result(None, "a") == "a#none-0"


def test_the_latest_calls_are_answered_first():
    positions = Positions()
    positions.call("old", "a")
    positions.call("done", "b")
    positions.result("done", "b")
    positions.call("new", "a")
    assert [positions.result(None, "a"), positions.result(None, "a")] == ["new", "old"]


def test_results_with_ids_after_the_first_without_are_seen():
    positions = Positions()
    positions.call(None, "a")
    positions.call("x", "a")
    assert positions.result("x", "a") == "x"
    assert positions.result("unknown", "a") == "unknown"
    positions.call("y", "a")
    assert positions.result("a#0", None) == "a#0"
    assert [positions.result(None, "a"), positions.result(None, "a")] == ["y", "a#none-0"]


def test_the_same_id_twice_waits_once():
    positions = Positions()
    positions.call("x", "a")
    positions.call("x", "b")
    assert [positions.result(None, None), positions.result(None, None)] == ["x", "tool#none-0"]


@pytest.mark.slow
def test_many_parallel_calls_cost_no_more_each():
    """Answered in any order, from the front and by id: linear, or this would not end."""
    positions = Positions()
    ids = [positions.call(None, "a") for _ in range(50_000)]
    assert [positions.result(None, "a") for _ in ids[:25_000]] == ids[:25_000]
    for call_id in reversed(ids[25_000:]):
        positions.result(call_id, "a")
    assert positions.result(None, "a") == "a#none-0"


@given(
    steps=st.lists(st.tuples(st.booleans(), st.sampled_from([None, "x", "y"]), st.sampled_from(["a", "b"])))
)
def test_every_history_is_named_the_same_way_again_and_by_its_beginning(steps):
    def named(some):
        positions = Positions()
        return [
            positions.call(call_id, name) if is_call else positions.result(call_id, name)
            for is_call, call_id, name in some
        ]

    assert named(steps)[: len(steps) // 2] == named(steps[: len(steps) // 2])


@pytest.mark.parametrize(
    ("call_id", "name", "made"),
    [
        ("a#0", "a", True),
        ("a#12", None, True),
        ("a#none-3", "a", True),
        ("a#0", "b", False),
        ("a#x", "a", False),
        ("a0", "a", False),
        ("a#0\n", "a", False),
        ("a#b#1", "a#b", True),
        ("", None, False),
    ],
)
def test_what_looks_made_from_a_position(call_id, name, made):
    assert is_position(call_id, name) is made


def describe_calls(style, kinds):
    """Write calls and results of two tools as a format does that knows no ids, some of them with one."""
    for kind, name, call_id in kinds:
        given = {"id": call_id} if call_id else {}
        if style == "gemini":
            key = "functionCall" if kind == "call" else "functionResponse"
            yield {"role": "model", "parts": [{key: {"name": name, **given}}]}
        elif kind == "call":
            call = {"function": {"name": name, "arguments": "{}"}, **given}
            yield {"role": "assistant", "content": None, "tool_calls": [call]}
        else:
            yield {
                "role": "tool",
                "name": name,
                "content": "x",
                **({"tool_call_id": call_id} if given else {}),
            }


@given(
    st.sampled_from(["gemini", "openai"]),
    st.lists(
        st.tuples(
            st.sampled_from(["call", "result"]),
            st.sampled_from("ab"),
            st.sampled_from([None, None, "x", "y"]),
        ),
        max_size=10,
    ),
    st.integers(1, 3),
)
def test_a_list_that_is_read_in_parts_reads_as_it_does_at_once(style, kinds, step):
    """Nothing stays of items that were read and did not come to stand in the list."""
    wire, items, positions = formats.get(style), list(describe_calls(style, kinds)), Positions()
    noted = 0
    for start in range(0, len(items), step):
        for new in (list(reversed(items)), items[start : start + step]):
            read = wire.parse_behind(items[noted:start], new, positions)
            noted = start
        assert read == wire.parse(items)[start : start + step]
