"""Where a history may be cut."""

from dataclasses import replace

import pytest
from hypothesis import given

from growth import assert_linear
from history_strategies import HISTORIES
from refold.core.compaction.cuts import (
    RULES,
    Cuts,
    acknowledgement_with_summary,
    find_cuts,
    pairs_together,
    reasoning_with_its_item,
    results_never_first,
)
from refold.core.compaction.guards import find_guarded
from refold.core.compaction.keep_rules import (
    MeasuredHistory,
    find_tail_start,
    find_turn_before,
    find_turn_starts,
)
from refold.core.messages.message import Message, Opaque, Text, ToolCall
from refold.core.messages.tool_pairs import link
from refold.formats.openai_responses import FORMAT
from refold.testing import (
    assistant,
    call,
    call_part,
    calls,
    result,
    result_part,
    summary,
    system,
    thinking,
    user,
)

ACK = summary("Understood.", role="assistant", kind="ack")

# -- each rule ---------------------------------------------------------------------------------------------


def test_a_call_stays_with_its_result():
    assert list(pairs_together([user("hi"), call("f"), user("wait"), result("c1", "x")])) == [(1, 3)]


def test_parallel_calls_stay_with_each_of_their_results():
    history = [calls(call_part("f", id="a"), call_part("g", id="b")), result("a", "x"), result("b", "y")]
    assert list(pairs_together(history)) == [(0, 1), (0, 2)]


def test_a_result_before_its_call_stays_with_it_too():
    assert list(pairs_together([result("c1", "x"), user("hm"), call("f")])) == [(0, 2)]


def test_a_call_without_a_result_holds_nothing():
    assert list(pairs_together([call("f"), user("hm"), result("other", "x")])) == []


def test_a_call_and_its_result_in_one_message_hold_nothing():
    assert list(pairs_together([assistant(call_part("f", id="a"), result_part("a", "x")), user("hm")])) == []


def carried(role="assistant", **value):
    return Message(role, (Opaque("item", value),))


def test_an_approval_stays_with_its_request_and_with_what_was_approved():
    approval = carried("tool", approval_request_id="r1")
    history = [carried(id="r1"), user("hm"), approval, carried(id="m1", approval_request_id="r1"), user("hi")]
    assert find_cuts(history).legal == (0, 4, 5)
    assert find_cuts([approval, carried(id="r1"), user("hi")]).legal == (0, 1, 2, 3)
    assert link(history).bonds == {0: {2, 3}, 2: {0}, 3: {0}}


def test_a_result_of_a_provider_s_own_tool_stays_with_its_call():
    """Anthropic pauses a turn between them; in one message they hold nothing else."""
    asked, found = Opaque("server_tool_use", {"id": "s1"}), Opaque("x_tool_result", {"tool_use_id": "s1"})
    history = [Message("assistant", (asked,)), Message("assistant", (found,)), user("hi")]
    assert find_cuts(history).legal == (0, 2, 3)
    assert find_cuts([Message("assistant", (asked, found)), user("hi")]).legal == (0, 1, 2)
    assert link([Message("assistant", (Opaque("text", "x"),))]).bonds == {}


def test_a_result_stays_with_what_stands_before_it():
    history = [result("a", "x"), user("hi"), result("b", "y"), user(result_part("c", "z"), "by the way")]
    assert list(results_never_first(history)) == [(1, 2), (2, 3)]
    assert list(results_never_first([user("hi"), result("a", "x")])) == [(0, 1)]


def test_a_message_of_nothing_but_thinking_stays_with_the_next():
    history = [
        assistant(thinking("hm"), thinking("so")),
        call("f"),
        assistant(thinking("hm"), "said"),
        assistant(),
        assistant(thinking("last")),
    ]
    assert list(reasoning_with_its_item(history)) == [(0, 1)]
    assert list(reasoning_with_its_item([user("hi"), assistant(thinking("hm")), call("f")])) == [(1, 2)]


@pytest.mark.parametrize(
    ("behind", "last"),
    [
        ((Opaque("code_interpreter_call", {}), "done"), 2),
        ((Opaque("web_search_call", {}), Opaque("web_search_call", {}), "done"), 3),
        ((Opaque("web_search_call", {}),), 1),
        ((Opaque("compaction", {}), "done"), 1),
        (("half", "done"), 1),
    ],
    ids=["call", "calls", "end", "compaction", "words"],
)
def test_reasoning_stays_with_what_follows_a_built_in_call(behind, last):
    """An id of what follows implies it: OpenAI refuses one without the other."""
    history = [assistant(thinking("hm")), *(assistant(part) for part in behind)]
    assert list(reasoning_with_its_item(history)) == [(0, last)]
    assert list(reasoning_with_its_item([*history[:2], user("go on")])) == [(0, 1)]


@pytest.mark.parametrize(
    ("ids", "last"),
    [(("m1", "c1", "c2"), 3), (("m1", None, "c2"), 1), ((None, None, None), 1)],
    ids=["named", "unnamed", "none"],
)
def test_reasoning_stays_with_words_and_calls_that_have_an_id(ids, last):
    """A model says what it is about to do, then calls: the id of the call implies the reasoning, too."""
    parts = (Text("I will look."), ToolCall("a", "f"), ToolCall("b", "f"))
    behind = [Message("assistant", (part,), id=name) for part, name in zip(parts, ids, strict=True)]
    answer = [assistant(thinking("hm")), *behind]
    results = [result("a", "x"), result("b", "y")]
    history = [user("hi"), *answer, *results, replace(behind[0], id="m2")]
    assert list(reasoning_with_its_item(history)) == [(1, last + 1)]
    assert list(reasoning_with_its_item([*answer[:2], *answer])) == [(0, 1), (2, last + 2)]
    kept = find_guarded(history, [1] * len(history), {"pins"}, pins=[3])
    assert kept == ({1, 2, 3, 4, 5, 6} if last == 3 else {3, 5})


def test_each_thought_of_an_answer_stays_with_its_own_items():
    search = Message("assistant", (Opaque("web_search_call", {}),), id="s1")
    history = [assistant(thinking("hm")), search] * 3
    ranges = [(0, 2), (2, 4), (4, 5)]
    assert list(reasoning_with_its_item(history)) == ranges
    assert find_guarded(history, [1] * 6, {"pins"}, pins=[3]) == {2, 3, 4, 5}


def test_what_a_server_put_out_stays_with_what_stands_before_it():
    """The output of a search for tools on the server names no call."""
    items = [
        {"role": "user", "content": "hi"},
        {"type": "tool_search_call", "id": "s1", "execution": "server", "arguments": {}},
        {"type": "tool_search_output", "id": "o1", "execution": "server", "tools": []},
    ]
    assert find_cuts(FORMAT.parse(items)).legal == (0, 1, 3)
    thought = {"type": "reasoning", "id": "r1", "summary": []}
    said = {"type": "message", "id": "m1", "role": "assistant", "content": "done"}
    assert find_cuts(FORMAT.parse([thought, *items[1:], said])).legal == (0, 4)


def test_an_acknowledgement_stays_with_its_summary():
    other = Message("assistant", "x", meta={"kind": "ack"})
    history = [ACK, summary("was"), ACK, summary("more"), other]
    assert list(acknowledgement_with_summary(history)) == [(1, 2)]
    assert list(acknowledgement_with_summary([summary("was"), ACK])) == [(0, 1)]


def test_all_rules_hold_together():
    assert (
        pairs_together,
        results_never_first,
        reasoning_with_its_item,
        acknowledgement_with_summary,
    ) == RULES


# -- their intersection ------------------------------------------------------------------------------------


def legal(*messages):
    return find_cuts(messages).legal


def test_where_nothing_holds_every_cut_is_legal():
    assert legal(user("a"), assistant("b"), user("c")) == (0, 1, 2, 3)


def test_the_start_and_the_end_are_always_legal():
    assert legal() == (0,)
    assert legal(call("f"), result("c1", "x")) == (0, 2)


def test_no_cut_lies_inside_a_stretch():
    history = [user("a"), call("f"), user("wait"), result("c1", "x"), user("b")]
    assert legal(*history) == (0, 1, 4, 5)


def test_stretches_that_overlap_are_one():
    """OpenAI Responses writes parallel calls as items of their own."""
    history = [
        user("go"),
        call("f", id="a"),
        call("g", id="b"),
        result("a", "x"),
        result("b", "y"),
        user("on"),
    ]
    assert legal(*history) == (0, 1, 5, 6)


def test_calls_of_one_turn_that_follow_each_other_may_be_cut_apart():
    history = [user("go"), call("f", id="a"), result("a", "x"), call("g", id="b"), result("b", "y")]
    assert legal(*history) == (0, 1, 3, 5)


def test_rules_can_be_chosen():
    assert find_cuts([call("f"), result("c1", "x")], ()).legal == (0, 1, 2)


@given(HISTORIES)
def test_a_legal_cut_never_splits_what_must_stay_together(history):
    found = find_cuts(history).legal
    stretches = [stretch for rule in RULES for stretch in rule(history)]
    inside = {cut for first, last in stretches for cut in range(first + 1, last + 1)}
    assert set(found) == set(range(len(history) + 1)) - inside
    assert list(found) == sorted(found)


@given(HISTORIES)
def test_no_legal_cut_makes_a_result_stray_or_a_call_dead_that_was_none(history):
    whole = link(history)
    for cut in find_cuts(history).legal:
        left, right = link(history[:cut]), link(history[cut:])
        orphans = {*left.orphans, *((index + cut, place) for index, place in right.orphans)}
        unanswered = {*left.unanswered, *((index + cut, place) for index, place in right.unanswered)}
        assert orphans <= set(whole.orphans)
        assert unanswered <= set(whole.unanswered)


@pytest.mark.slow
def test_the_work_grows_with_the_history():
    def cut_crossed_pairs(count):
        pairs = [message for n in range(count) for message in (call("f", id=str(n)), user("x"))]
        history = [*pairs, *(result(str(n), "y") for n in range(count))]
        return lambda: find_cuts(history)

    assert cut_crossed_pairs(500)().legal == (0, 1_500)
    assert_linear(cut_crossed_pairs, 500)


# -- looking for a cut -------------------------------------------------------------------------------------

SOME = Cuts((0, 3, 4, 9))


@pytest.mark.parametrize(
    ("position", "allowed", "before", "after"),
    [
        (-2, False, 0, 0),
        (0, True, 0, 0),
        (1, False, 0, 3),
        (2, False, 0, 3),
        (3, True, 3, 3),
        (4, True, 4, 4),
        (5, False, 4, 9),
        (8, False, 4, 9),
        (9, True, 9, 9),
        (12, False, 9, 9),
    ],
)
def test_the_nearest_legal_cut_is_found_in_both_directions(position, allowed, before, after):
    assert (SOME.allows(position), SOME.before(position), SOME.after(position)) == (allowed, before, after)


# -- turns and tails ---------------------------------------------------------------------------------------


def test_a_turn_starts_where_a_person_speaks():
    history = [
        system("s"),
        summary("was"),
        user("one"),
        assistant("a"),
        user(result_part("c", "x")),
        user(result_part("c", "x"), "by the way"),
        user("two"),
    ]
    assert find_turn_starts(history) == [2, 6]


def head(*messages):
    return MeasuredHistory(messages, [1] * len(messages), 100, 80).head


def test_the_head_are_the_leading_system_messages():
    assert head() == 0
    assert head(user("a"), system("s")) == 0
    assert head(system("s"), system("t"), user("a"), system("u")) == 2
    assert head(system("s"), system("t")) == 2


def test_a_summary_in_the_system_role_is_no_part_of_the_head():
    assert head(system("s"), summary("was", role="system"), user("a")) == 1


@pytest.mark.parametrize(
    ("sizes", "limit", "start"),
    [
        ([5, 5, 5], 15, 0),
        ([5, 5, 5], 14, 1),
        ([5, 5, 5], 10, 1),
        ([5, 5, 5], 9, 2),
        ([5, 5, 5], 1, 2),
        ([1, 99], 10, 1),
        ([99], 10, 0),
        ([], 10, 0),
        ([3, 0, 0, 7], 7, 1),
    ],
)
def test_the_longest_tail_within_a_limit_and_the_last_message_in_any_case(sizes, limit, start):
    """Ripple's page, cut: the message that would exceed the limit stays out, the last one is always kept."""
    assert find_tail_start(sizes, limit) == start


def test_the_last_turn_before_a_place():
    history = [user("a"), assistant("b"), summary("s"), result("c1", "x"), user("c")]
    assert [find_turn_before(history, at) for at in (0, 1, 4, 5)] == [None, 0, 0, 4]
