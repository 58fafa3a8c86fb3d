"""What is mended where a call or a result has lost its other half."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from growth import assert_linear
from history_strategies import HISTORIES, SHAPES
from refold.core.messages.message import Message, Text, ToolCall, ToolResult
from refold.core.messages.normalize import make_call_ids_unique
from refold.core.messages.repair import MISSING, MissingTexts, repair_tool_pairs
from refold.core.messages.tool_pairs import link
from refold.core.messages.wire_rules import Shape
from refold.testing import (
    assistant,
    call,
    call_part,
    calls,
    loose_ends,
    result,
    result_part,
    shape,
    thinking,
    user,
)

CHAT = Shape(name="chat")
GEMINI = Shape(name="gemini", results_in_user=True)
ANTHROPIC = Shape(name="anthropic", results_in_user=True, alternates=True, unique_ids=True)
RESPONSES = Shape(name="responses", results_anywhere=True, unique_ids=True)
BLOCKS = [GEMINI, ANTHROPIC]
ALL = [CHAT, GEMINI, ANTHROPIC, RESPONSES]


def answer(call_id, text="x"):
    return result(call_id, text, role="user")


def mended(messages, wire=CHAT, **more):
    return shape(repair_tool_pairs(messages, shape=wire, **more).messages)


# -- nothing to mend ---------------------------------------------------------------------------------------

GOOD = {
    "nothing": [],
    "words": [user("a"), assistant("b")],
    "a pair": [user("a"), call("f"), result("c1", "x"), assistant("b")],
    "a waiting call": [user("a"), call("f")],
    "a unit half answered": [calls(call_part("f", id="a"), call_part("g", id="b")), result("b", "y")],
    "ids used again": [call("f"), result("c1", "x"), call("f"), result("c1", "y")],
    "parallel calls": [
        calls(call_part("f", id="a"), call_part("g", id="b")),
        user(result_part("b"), result_part("a")),
    ],
}


@pytest.mark.parametrize("wire", ALL, ids=lambda wire: wire.name)
@pytest.mark.parametrize("history", GOOD.values(), ids=GOOD)
def test_a_list_in_which_nothing_is_wrong_is_the_very_list(history, wire):
    """NeuroLink's page, case 20: a valid pair gives the same list object, and counts of 0."""
    done = repair_tool_pairs(history, shape=wire)
    assert done.messages is history
    assert (done.calls, done.results) == (0, 0)


def test_results_in_messages_of_their_own_are_right_in_chat():
    history = [calls(call_part("f", id="a"), call_part("g", id="b")), result("b", "y"), result("a", "x")]
    assert repair_tool_pairs(history, shape=CHAT).messages is history


def test_results_in_neighbouring_messages_are_right_where_the_provider_joins_them():
    history = [calls(call_part("f", id="a"), call_part("g", id="b")), answer("b"), answer("a")]
    assert repair_tool_pairs(history, shape=ANTHROPIC).messages is history


def test_items_of_responses_need_not_stand_together():
    history = [call("f", id="a"), call("g", id="b"), result("a", "x"), user("hm"), result("b", "y")]
    assert repair_tool_pairs(history, shape=RESPONSES).messages is history


# -- dead calls --------------------------------------------------------------------------------------------


def test_a_dead_call_gets_a_result_right_behind_it():
    """NeuroLink's page, case 20: a call without a result, 3 to 4 messages, says that it is missing."""
    done = repair_tool_pairs([user("a"), call("f", id="a"), user("b")])
    assert MISSING.result == "[Tool result missing]"
    assert shape(done.messages) == f"user: a\nassistant: -> f() #a\ntool #a failed: {MISSING.result}\nuser: b"
    assert (done.calls, done.results) == (1, 0)
    assert done.messages[2].parts == (ToolResult("a", (Text(MISSING.result),), name="f", is_error=True),)


def test_two_dead_calls_are_two():
    """NeuroLink's page, case 20: two orphan calls, 2 fixed."""
    done = repair_tool_pairs([call("f", id="a"), user("x"), call("g", id="b"), user("y")])
    assert done.calls == 2
    assert [len(message.results) for message in done.messages] == [0, 1, 0, 0, 1, 0]


def test_a_system_has_its_own_words_for_what_is_missing():
    """Opal's page, repair: "[Aborted by user]"."""
    assert "failed: [Aborted by user]" in mended(
        [call("f"), user("b")], missing=MissingTexts("[Aborted by user]")
    )


def test_a_system_may_have_other_words_in_a_list_that_was_compacted():
    own = MissingTexts(folded=MissingTexts("[gone]"))
    assert own.choose(compacted=True).result == "[gone]"
    assert own.choose(compacted=False) is own
    assert MISSING.choose(compacted=True) is MISSING


def test_a_call_without_a_name_gets_a_result_without_one():
    done = repair_tool_pairs([call("", id="a"), user("b")])
    assert done.messages[1].results[0].name is None


def test_results_of_one_unit_stand_in_the_order_of_its_calls():
    history = [
        calls(call_part("f", id="a"), call_part("g", id="b"), call_part("h", id="c")),
        user("x"),
        result("c", "C"),
    ]
    assert mended(history, missing=MissingTexts("gone")) == (
        "assistant: -> f() #a | -> g() #b | -> h() #c\n"
        "tool #a failed: gone\n"
        "tool #b failed: gone\n"
        "tool #c: C\n"
        "user: x"
    )


def test_an_answered_call_of_the_same_unit_keeps_its_result():
    history = [calls(call_part("f", id="a"), call_part("g", id="b")), result("b", "B"), user("x")]
    assert mended(history, missing=MissingTexts("gone")) == (
        "assistant: -> f() #a | -> g() #b\ntool #a failed: gone\ntool #b: B\nuser: x"
    )
    assert repair_tool_pairs(history).messages[2] is history[1]


def test_a_missing_result_stands_behind_those_of_earlier_calls():
    """Without ids their order says which call each belongs to."""
    parts = [call_part("f", id=name) for name in "abc"]
    history = [calls(*parts), result("a", "A"), result("b", "B"), user("x")]
    assert mended(history, missing=MissingTexts("gone")).splitlines()[1:] == [
        "tool #a: A",
        "tool #b: B",
        "tool #c failed: gone",
        "user: x",
    ]


def test_a_waiting_call_stays_open_beside_a_dead_one():
    done = repair_tool_pairs([call("f", id="a"), user("x"), call("g", id="b")])
    assert done.calls == 1
    assert done.messages[-1].calls


def test_a_call_before_another_message_with_calls_is_dead_in_chat_and_waits_in_responses():
    history = [call("f", id="a"), call("g", id="b")]
    assert repair_tool_pairs(history, shape=CHAT).calls == 1
    assert repair_tool_pairs(history, shape=RESPONSES).messages is history


# -- stray results -----------------------------------------------------------------------------------------


def test_a_stray_result_gets_a_call_right_before_it():
    """NeuroLink's page, case 20: a result without a call, a call inserted before it."""
    history = [user("a"), result("x", "out", name="read"), user("b")]
    done = repair_tool_pairs(history)
    assert shape(done.messages) == (
        "user: a\nassistant: -> read(note=[Tool call for read missing]) #x\ntool #x: out\nuser: b"
    )
    assert (done.calls, done.results) == (0, 1)
    assert done.messages[2] is history[1]


def test_a_stray_result_without_a_name_gets_a_call_of_a_tool():
    assert "-> tool(note=[Tool call for tool missing]) #x" in mended([result("x", "out")])


def test_stray_results_leave_where_a_system_drops_them():
    """CodeBuddy's page, repair, and case 14: an orphan tool result is dropped."""
    done = repair_tool_pairs([user("a"), result("x", "out"), user("b")], orphans="drop")
    assert shape(done.messages) == "user: a\nuser: b"
    assert done.results == 1


def test_other_parts_of_a_message_with_a_stray_result_stay():
    history = [user(result_part("x", "out"), "by the way")]
    assert mended(history, GEMINI, orphans="drop") == "user: by the way"
    said = mended(history, GEMINI).split("\n")
    assert [said[0], said[2]] == ["user: by the way", "user #x: out"]
    assert said[1].endswith("#x")


def test_strays_of_one_message_get_their_calls_in_one():
    history = [user(result_part("x", "1"), result_part("y", "2"))]
    done = repair_tool_pairs(history, shape=GEMINI).messages
    assert [len(message.calls) for message in done] == [2, 0]
    assert done[1] is history[0]


def test_strays_beside_results_and_calls_come_between_them():
    """A message may hold all of it; the result belongs to the call before, the call to the result behind."""
    history = [
        call("f", id="a"),
        Message("tool", (result_part("x", "stray"), result_part("a", "A"), call_part("g", id="b"))),
        result("b", "B"),
    ]
    assert [line.split("#")[-1] for line in mended(history).split("\n")] == [
        "a",
        "a: A",
        "x",
        "x: stray",
        "b",
        "b: B",
    ]


def test_a_second_answer_is_dropped_and_the_first_wins():
    """Opal's page, repair layer 2: duplicates are dropped, the first wins."""
    for orphans in ("call", "drop"):
        done = repair_tool_pairs([call("f", id="a"), result("a", "1"), result("a", "2")], orphans=orphans)
        assert shape(done.messages) == "assistant: -> f() #a\ntool #a: 1"
        assert done.results == 1


@pytest.mark.parametrize("wire", ALL, ids=lambda wire: wire.name)
@pytest.mark.parametrize(
    "missing", [MISSING, MissingTexts("[lost]"), MissingTexts(folded=MissingTexts("[lost]"))], ids=str
)
def test_a_result_of_ours_gives_way_to_the_tools_own(wire, missing):
    """It was put in for a call that nobody seemed to answer, and the answer comes late."""
    both = calls(call_part("f", id="a"), call_part("g", id="b"))
    before = [user("go"), both, user("hurry"), call("h", id="c"), result("c", "z")]
    mended = repair_tool_pairs(before, shape=wire, missing=missing.choose(compacted=True)).messages
    late = [*mended, user("later"), result("b", "own"), result("b", "again"), assistant("done")]
    done = repair_tool_pairs(late, shape=wire, missing=missing)
    results = {part.call_id: part.text for message in done.messages for part in message.results}
    assert results == {"a": missing.choose(compacted=True).result, "b": "own", "c": "z"}
    assert loose_ends(done.messages) == []
    assert repair_tool_pairs(done.messages, shape=wire, missing=missing).messages is done.messages
    assert any(message is mended[-1] for message in done.messages)


def test_of_two_results_of_ours_one_stays():
    """It may be the last word of a list, whose call is not open again for it."""
    twice = [call("f", id="a"), result("a", MISSING.result), result("a", MISSING.result)]
    assert len(repair_tool_pairs(twice).messages) == 2


def test_of_two_strays_with_one_id_the_first_stays():
    done = repair_tool_pairs([result("x", "1"), result("x", "2")]).messages
    assert [message.text or message.parts[0].text for message in done[1:]] == ["1"]


def test_a_stray_result_in_the_assistants_message_comes_out_of_it():
    done = repair_tool_pairs([assistant(result_part("x", "out"))]).messages
    assert [message.role for message in done] == ["assistant", "tool"]


def test_a_stray_result_among_the_results_of_a_unit_comes_behind_them():
    history = [call("f", id="a"), result("x", "1"), result("y", "2"), result("a", "A"), user("b")]
    done = repair_tool_pairs(history)
    assert [line.split("#")[-1] for line in shape(done.messages).split("\n")] == [
        "a",
        "a: A",
        "x",
        "x: 1",
        "y",
        "y: 2",
        "user: b",
    ]
    assert done.results == 2
    assert done.messages[1] is history[3]


def test_words_do_not_overtake_a_stray_result_before_them():
    history = [result("x", "1"), user(result_part("y", "2"), "words"), assistant()]
    lines = shape(repair_tool_pairs(history).messages).split("\n")
    assert [line.split("#")[-1] for line in lines] == ["x", "x: 1", "user: words", "y", "y: 2", "assistant:"]


def test_an_empty_message_does_not_overtake_a_stray_result_before_it():
    assert [message.role for message in repair_tool_pairs([result("x", "1"), user()]).messages] == [
        "assistant",
        "tool",
        "user",
    ]


# -- results in the wrong place ----------------------------------------------------------------------------


def test_a_result_far_away_is_moved_behind_its_call():
    """Opal's page, repair layer 2: results are moved directly behind their call, in call order."""
    history = [
        calls(call_part("f", id="a"), call_part("g", id="b")),
        user("x"),
        result("b", "B"),
        user("y"),
        result("a", "A"),
    ]
    done = repair_tool_pairs(history)
    assert shape(done.messages) == (
        "assistant: -> f() #a | -> g() #b\ntool #a: A\ntool #b: B\nuser: x\nuser: y"
    )
    assert (done.calls, done.results) == (0, 2)


def test_a_result_before_its_call_is_moved_behind_it():
    for wire in (CHAT, RESPONSES):
        assert mended([result("a", "A"), user("x"), call("f", id="a")], wire) == (
            "user: x\nassistant: -> f() #a\ntool #a: A"
        )


def test_a_result_in_the_message_of_its_call_is_moved_behind_it():
    assert mended([assistant(call_part("f", id="a"), result_part("a", "A"))]) == (
        "assistant: -> f() #a\ntool #a: A"
    )


def test_a_result_in_the_assistants_own_message_is_moved_to_one_of_its_own():
    history = [call("f", id="a"), assistant(result_part("a", "A"), "done")]
    assert mended(history) == "assistant: -> f() #a\ntool #a: A\nassistant: done"
    assert mended(history, ANTHROPIC) == "assistant: -> f() #a\nuser #a: A\nassistant: done"


def test_a_call_between_a_call_and_its_result_is_in_the_way_in_chat():
    history = [call("f", id="a"), call("g", id="b"), result("a", "A"), result("b", "B")]
    assert mended(history) == "assistant: -> f() #a\ntool #a: A\nassistant: -> g() #b\ntool #b: B"
    assert repair_tool_pairs(history).messages[3] is history[3]


def test_messages_that_are_not_mended_are_the_same_objects():
    """House law 2: what was not touched comes back identical."""
    history = [user("a"), call("f", id="a"), result("a", "A"), call("g", id="b"), user("c"), user("d")]
    done = repair_tool_pairs(history).messages
    assert [id(message) for message in history if any(message is other for other in done)] == list(
        map(id, history)
    )


def test_a_message_left_with_its_words_is_in_the_way_of_results_behind_it():
    history = [call("f", id="a"), user(result_part("x", "1"), "words"), result("a", "A")]
    lines = shape(repair_tool_pairs(history, orphans="drop").messages).split("\n")
    assert lines == ["assistant: -> f() #a", "tool #a: A", "user: words"]


def test_a_message_with_a_result_and_a_call_is_in_the_way_of_results_behind_it():
    middle = Message("tool", (result_part("a", "A"), call_part("g", id="c")))
    history = [
        calls(call_part("f", id="a"), call_part("f", id="b")),
        middle,
        result("b", "B"),
        result("c", "C"),
    ]
    lines = shape(repair_tool_pairs(history).messages).split("\n")
    assert [line.split("#")[-1] for line in lines] == ["b", "b: B", ["a: A | -> g() ", "c"][-1], "c: C"]


def test_results_that_are_missing_stand_behind_calls_that_stand_side_by_side():
    history = [call("f", id="a"), call("g", id="b"), call("h", id="c"), user("x")]
    lines = mended(history, RESPONSES, missing=MissingTexts("gone")).split("\n")
    assert [line.split("#")[-1] for line in lines] == [
        "a",
        "b",
        "c",
        "a failed: gone",
        "b failed: gone",
        "c failed: gone",
        "user: x",
    ]
    assert [
        len(message.calls)
        for message in repair_tool_pairs([*history[:2], user("x")], shape=RESPONSES).messages
    ][:2] == [1, 1]


def test_a_result_in_anybodys_message_with_its_call_is_moved_behind_it():
    both = Message("user", (call_part("f", id="a"), result_part("a", "A")))
    assert mended([both]) == "user: -> f() #a\ntool #a: A"


def test_what_is_missing_stands_behind_the_last_call_of_a_unit_whose_calls_stand_apart():
    history = [
        call("f", id="a"),
        assistant(thinking("hm")),
        call("g", id="b"),
        assistant(thinking("so")),
        assistant("done"),
        call("h", id="c"),
        user("x"),
    ]
    assert mended(history, RESPONSES, missing=MissingTexts("gone")).split("\n") == [
        "assistant: -> f() #a",
        "assistant: (thinks hm)",
        "assistant: -> g() #b",
        "tool #a failed: gone",
        "tool #b failed: gone",
        "assistant: (thinks so)",
        "assistant: done",
        "assistant: -> h() #c",
        "tool #c failed: gone",
        "user: x",
    ]


# -- shapes with results in the user's message -------------------------------------------------------------


@pytest.mark.parametrize("wire", BLOCKS, ids=lambda wire: wire.name)
def test_missing_results_of_a_unit_stand_in_one_users_message(wire):
    history = [calls(call_part("f", id="a"), call_part("g", id="b")), assistant("x")]
    assert (
        mended(history, wire, missing=MissingTexts("gone")).split("\n")[1]
        == "user #a failed: gone | #b failed: gone"
    )


@pytest.mark.parametrize("wire", BLOCKS, ids=lambda wire: wire.name)
def test_a_missing_result_joins_those_that_are_there(wire):
    history = [calls(call_part("f", id="a"), call_part("g", id="b")), answer("b", "B"), user("x")]
    assert mended(history, wire, missing=MissingTexts("gone")).split("\n")[1:] == [
        "user #a failed: gone | #b: B",
        "user: x",
    ]


@pytest.mark.parametrize("wire", BLOCKS, ids=lambda wire: wire.name)
def test_results_stand_first_in_their_message(wire):
    history = [call("f", id="a"), user("look:", result_part("a", "A"), "there")]
    done = repair_tool_pairs(history, shape=wire)
    assert shape(done.messages[1:]) == "user #a: A | look: | there"
    assert (done.calls, done.results) == (0, 1)


@pytest.mark.parametrize("wire", BLOCKS, ids=lambda wire: wire.name)
def test_results_behind_a_message_with_words_are_joined_to_it(wire):
    history = [
        calls(call_part("f", id="a"), call_part("g", id="b")),
        user(result_part("a", "A"), "x"),
        user(result_part("b", "B"), "y", pinned=True),
    ]
    done = repair_tool_pairs(history, shape=wire)
    assert shape(done.messages[1:]) == "user (pinned) #a: A | #b: B | x | y"
    assert done.results == 1
    pinned_first = [history[0], replace(history[1], pinned=True), replace(history[2], pinned=False)]
    assert repair_tool_pairs(pinned_first, shape=wire).messages[1].pinned


def test_results_in_neighbouring_messages_are_joined_where_the_provider_does_not():
    history = [calls(call_part("f", id="a"), call_part("g", id="b")), answer("b", "B"), answer("a", "A")]
    done = repair_tool_pairs(history, shape=GEMINI)
    assert shape(done.messages[1:]) == "user #b: B | #a: A"
    assert done.results == 1


def test_neighbours_that_the_provider_joins_are_left_alone_when_something_else_is_mended():
    history = [
        calls(call_part("f", id="a"), call_part("g", id="b")),
        answer("b"),
        answer("a"),
        call("h", id="c"),
        user("x"),
    ]
    done = repair_tool_pairs(history, shape=ANTHROPIC)
    assert (done.calls, done.results) == (1, 0)
    assert all(new is old for new, old in zip(done.messages[:4], history, strict=False))


def test_three_neighbours_become_one():
    parts = [call_part("f", id=name) for name in "abc"]
    history = [calls(*parts), answer("c", "C"), answer("a", "A"), answer("b", "B")]
    assert mended(history, GEMINI).split("\n")[1:] == ["user #c: C | #a: A | #b: B"]


# -- laws --------------------------------------------------------------------------------------------------

ORPHANS = st.sampled_from(["call", "drop"])


@given(HISTORIES, SHAPES | st.just(RESPONSES), ORPHANS)
def test_to_mend_twice_is_to_mend_once(history, wire, orphans):
    once = repair_tool_pairs(make_call_ids_unique(history, wire), shape=wire, orphans=orphans).messages
    again = repair_tool_pairs(once, shape=wire, orphans=orphans)
    assert again.messages is once
    assert (again.calls, again.results) == (0, 0)


@given(HISTORIES, SHAPES | st.just(RESPONSES), ORPHANS)
def test_a_mended_list_has_no_loose_ends(history, wire, orphans):
    """House law 6: no call without its result, no result without its call, open calls kept."""
    done = repair_tool_pairs(make_call_ids_unique(history, wire), shape=wire, orphans=orphans).messages
    assert loose_ends(done) == []


@given(HISTORIES, SHAPES, ORPHANS)
def test_a_mended_list_has_each_result_right_behind_its_call(history, wire, orphans):
    done = repair_tool_pairs(history, shape=wire, orphans=orphans).messages
    for (result_at, _), (call_at, _) in link(done).answers.items():
        assert call_at < result_at
        assert all(message.results for message in done[call_at + 1 : result_at])


@given(HISTORIES, SHAPES | st.just(RESPONSES))
def test_words_and_thinking_are_neither_lost_nor_doubled(history, wire):
    """House law 7: thinking verbatim or absent."""

    def words(messages):
        return [
            part
            for message in messages
            for part in message.parts
            if not isinstance(part, ToolCall | ToolResult)
        ]

    assert sorted(map(repr, words(repair_tool_pairs(history, shape=wire).messages))) == sorted(
        map(repr, words(history))
    )


# -- work --------------------------------------------------------------------------------------------------


@pytest.mark.few_values(2)
@pytest.mark.slow
@pytest.mark.parametrize("wire", ALL, ids=lambda wire: wire.name)
def test_messages_with_results_far_away_take_linear_work(wire):
    def make_work(size):
        history = [call("f", id=str(n)) for n in range(size)] + [result(str(n), "x") for n in range(size)]
        return lambda: repair_tool_pairs(make_call_ids_unique(history, wire), shape=wire)

    assert loose_ends(make_work(100)().messages) == []
    assert_linear(make_work, 300)


@pytest.mark.slow
def test_stray_and_dead_ones_take_linear_work():
    def make_work(size):
        history = [message for n in range(size) for message in (call("f", id=f"c{n}"), result(f"r{n}", "x"))]
        return lambda: repair_tool_pairs(history)

    done = make_work(100)()
    assert (done.calls, done.results) == (100, 100)
    assert_linear(make_work, 300)


def test_a_result_that_is_put_in_stands_where_its_call_does():
    """Gemini tells results without ids apart by their order, so a second repair finds nothing to do."""
    calls = [
        {"functionCall": {"name": "g", "args": {}, "id": "1"}},
        {"functionCall": {"name": "g", "args": {}}},
    ]
    answer = {"functionResponse": {"name": "g", "response": {"r": 1}, "id": "1"}}
    history = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": calls},
        {"role": "user", "parts": [{"text": "a"}, answer]},
    ]
    repaired = refold.repair(history, "gemini").messages
    first, second, _ = repaired[2]["parts"]
    assert first == answer
    assert "id" not in second["functionResponse"]
    assert refold.repair(repaired, "gemini").messages is repaired


# -- reasoning that led to nothing ---------------------------------------------------------------------------

THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
OTHER = {**THOUGHT, "id": "rs_2"}
ASKED = {"role": "user", "content": "a"}
ANSWERED = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b"}]}
CALLED = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
RAN = {"type": "function_call_output", "call_id": "c1", "output": "x"}


@pytest.mark.parametrize(
    ("items", "left"),
    [
        ([ASKED, THOUGHT, ASKED], [ASKED, ASKED]),
        ([ASKED, THOUGHT, OTHER, ASKED, OTHER, ANSWERED], [ASKED, ASKED, OTHER, ANSWERED]),
        ([ASKED, CALLED, THOUGHT, RAN], [ASKED, CALLED, RAN]),
        ([ASKED, THOUGHT, OTHER, ANSWERED, ASKED], [ASKED, THOUGHT, OTHER, ANSWERED, ASKED]),
        ([ASKED, THOUGHT, CALLED, RAN, ASKED], [ASKED, THOUGHT, CALLED, RAN, ASKED]),
        ([ASKED, THOUGHT], [ASKED, THOUGHT]),
    ],
    ids=["cut off", "two", "before a result", "before an answer", "before a call", "still open"],
)
def test_reasoning_leaves_unless_something_of_its_turn_follows(items, left):
    assert list(refold.repair(items, "responses").messages) == left
    if items[-1] is not THOUGHT:
        assert refold.validate(left, "responses") == []


# -- approvals -------------------------------------------------------------------------------------------------

REQUESTED = {"type": "mcp_approval_request", "id": "r1", "server_label": "s", "name": "f", "arguments": "{}"}
APPROVED = {"type": "mcp_approval_response", "approval_request_id": "r1", "approve": True}
DONE = {**REQUESTED, "type": "mcp_call", "id": "m1", "approval_request_id": "r1", "output": "x"}
AT_PROVIDER = {"type": "item_reference", "id": "msg_1"}


@pytest.mark.parametrize(
    ("items", "left"),
    [
        ([ASKED, APPROVED, DONE], [ASKED, DONE]),
        ([ASKED, REQUESTED, APPROVED, DONE], [ASKED, REQUESTED, APPROVED, DONE]),
        ([ASKED, REQUESTED, ASKED], [ASKED, REQUESTED, ASKED]),
        ([AT_PROVIDER, APPROVED], [AT_PROVIDER, APPROVED]),
    ],
    ids=["cut off", "whole", "not answered", "at the provider"],
)
def test_an_approval_leaves_if_its_request_is_not_there(items, left):
    assert list(refold.repair(items, "responses").messages) == left
    assert refold.validate(left, "responses") == []


@pytest.mark.parametrize("before", [[], [ASKED], [{"type": "compaction", "encrypted_content": "x"}]])
def test_the_newest_approval_stays(before):
    """Its request may be at the provider, or in a compaction: it is a person's decision."""
    assert list(refold.repair([*before, APPROVED], "responses").messages) == [*before, APPROVED]
