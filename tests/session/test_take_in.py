"""What a caller brings: only what is new is stored, an edit is a branch, and nothing is lost."""

import json
import os
import re
import subprocess
import sys
from copy import deepcopy
from itertools import permutations
from pathlib import Path

import pytest
from talks import (
    SHAPES,
    dumped,
    folding,
    kinds,
    opened,
    reply,
    sound,
    stored,
    talk,
    user,
    values,
    wired,
    without_ids,
)

import refold
from chat_messages import written_call
from refold import Message, Text, ToolCall, ToolResult, formats
from refold.errors import FormatError
from refold.testing import Scripted
from sample_sizes import few_or_all, sample


def test_nothing_to_do_gives_the_very_list():
    history = talk(2)
    with opened() as session:
        assert session.prepare(history).messages is history
        assert session.prepare(history).messages is history


def test_a_first_list_of_messages_may_begin_with_a_system_message():
    """Until the first list came, the session takes OpenAI's format for its own."""
    history = [Message("system", (Text("Be brief."),)), Message("user", (Text("Hello"),))]
    with refold.open("plain", store="memory:", window=8_000) as session:
        assert session.prepare(history).messages == history
        assert session.prepare([*history, Message("assistant", (Text("Hi"),))]).messages[:2] == history


@pytest.mark.parametrize("more", [{"x": b"bytes"}, {3: "number"}], ids=["value", "key"])
def test_what_is_no_json_is_refused_also_in_the_place_of_another_message(more):
    """The list is compared with the stored one first; that is no reason for another error."""
    with opened() as session:
        session.prepare(talk(2))
        before = stored(session)
        with pytest.raises(FormatError, match="is no JSON"):
            session.prepare([{**user("fine"), **more}])
        assert stored(session) == before


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"x": {"y": [1, {2}]}}, ".x.y[1]: is no JSON and cannot be stored: Object of type set"),
        ({"x": [{(1, 2): 3}]}, ".x[0]: is no JSON and cannot be stored: keys must be"),
        ({"x": {1: 2, "b": 3}}, ".x: is no JSON and cannot be stored: keys of several kinds"),
        ({"x": [{3: "a", "3": "b"}]}, ".x[0]: is no JSON and cannot be stored: keys of several"),
        ({"x": [{10: "a", 9: "b"}]}, ".x[0]: is no JSON and cannot be stored: it would not be read back"),
    ],
    ids=["value", "tuple key", "mixed keys", "double", "order"],
)
def test_what_is_no_json_is_named_by_its_message_and_field(more, place):
    history = talk(2)
    odd = {**user("fine"), **more}
    with opened() as session:
        session.prepare(history)
        before = stored(session)
        for act, number in (
            (lambda: session.prepare([*history, user("one"), odd]), len(history) + 1),
            (lambda: session.prepare([{**odd, "role": "system"}, *history]), 0),
            (lambda: session.say([user("one"), odd]), 1),
            (lambda: session.say(odd), 0),
        ):
            with pytest.raises(FormatError, match=re.escape(f"messages[{number}]{place}")):
                act()
        assert stored(session) == before


@pytest.mark.parametrize("shape", [*SHAPES, "refold"])
@pytest.mark.parametrize("fresh_list", [True, False])
def test_whole_history_sent_again_stores_what_is_new(shape, fresh_list):
    whole = values(6) if shape == "refold" else wired(values(6), shape)
    growing = []
    with opened(window=100_000) as session:
        for item in whole:
            growing.append(item)
            given = deepcopy(growing) if fresh_list else growing
            ready = session.prepare(given)
            assert ready.messages == growing
        assert len(session.log(kinds=("said",))) == len(whole)
        assert stored(session) == len(whole) + len(session.log(kinds=("fold",)))
        assert session.original(f"#1-#{len(whole)}") == whole


def test_gemini_calls_without_ids_go_on_and_fold():
    whole = without_ids(wired(values(40), "gemini"))
    with opened(window=6_000) as session:
        for count in range(1, len(whole) + 1):
            ready = session.prepare(deepcopy(whole[:count]))
            assert not sound(ready.messages, "gemini")
        assert len(session.log(kinds=("said",))) == len(whole)
        assert session.folds()
        assert session.original(f"#1-#{len(whole)}") == whole


@pytest.mark.few_values(1)
@pytest.mark.parametrize("shape", [*SHAPES, "refold"])
def test_going_on_from_what_was_sent(shape):
    turns = values(few_or_all(20, 60), size=300)
    whole = turns if shape == "refold" else wired(turns, shape)
    with opened(window=8_000, ask=Scripted("A summary of the talk with its files and answers.")) as session:
        sent = []
        for item in whole:
            sent = session.prepare([*sent, item]).messages
            assert not sound(sent, None if shape == "refold" else shape)
        assert len(session.log(kinds=("said",))) == len(whole)
        assert session.folds()
        assert session.original(f"#1-#{len(whole)}") == whole


@pytest.mark.few_values(1)
@pytest.mark.parametrize("shape", sample([*SHAPES, "refold"], 3))
def test_between_folds_what_is_sent_only_grows(shape):
    turns = values(few_or_all(25, 40))
    whole = turns if shape == "refold" else wired(turns, shape)
    before, changes = [], 0
    with opened(window=6_000) as session:
        for count in range(1, len(whole) + 1):
            ready = session.prepare(whole[:count])
            moved = kinds(session, "fold")
            if ready.fold is None and len(moved) == changes:
                assert list(ready.messages[: len(before)]) == list(before)
                if shape != "refold":
                    assert dumped(ready.messages).startswith(dumped(before)[:-1])
            before, changes = list(ready.messages), len(moved)
        assert changes


def test_an_edited_message_is_a_branch():
    session, history, _ = folding()
    edited = deepcopy(history)
    edited[60] = user("edited with a walnut in it")
    ready = session.prepare(edited[:62])
    said = session.log(kinds=("said",))
    assert len(said) == 62
    assert [one.value for one in said] == edited[:62]
    assert {"content": "edited with a walnut in it", "role": "user"} in ready.messages
    (hit, *_) = session.recall("question 35")
    assert hit.text == history[70]["content"]
    assert hit.handle.startswith("b3:")
    assert session.original(hit) == [history[70]]


def test_going_back_to_a_former_branch_stores_nothing_and_keeps_its_fold():
    session, history, ready = folding()
    other = [*history[:3], user("something else"), reply("yes"), user("and so on")]
    session.prepare(other)
    before = stored(session)
    again = session.prepare(deepcopy(history))
    assert stored(session) == before
    assert again.messages == ready.messages
    assert again.fold is None
    assert session.prepare(other).messages == other
    assert stored(session) == before


@pytest.mark.parametrize("reopens", [False, True])
@pytest.mark.parametrize("ways", [1, 2])
def test_a_fold_behind_a_message_that_others_follow_is_found_by_the_messages(ways, reopens):
    """A fold after a rewind begins a line of its own on which no message stands."""
    history, store = talk(10, size=1_500), refold.open_store("memory:")
    session = opened(store=store, window=20_000)
    for way in range(ways):
        session.prepare(history)
        session.rewind("#12")
        session.compact(target=1_500 + 300 * way)
        view = session.view()
        session.prepare([*history[:5], reply("another answer")])
    session = opened(store=store, window=20_000) if reopens else session
    assert session.prepare(deepcopy(history[:12])).messages == view
    assert [fold.standing for fold in session.folds()] == [True]
    session = opened(store=store, window=20_000) if reopens else session
    assert session.prepare([*history[:12], user("go on")]).messages == [*view, user("go on")]


def test_folds_that_concern_only_what_stays_go_along():
    session, history, ready = folding()
    edited = [*deepcopy(history[:-1]), user("the last question, put otherwise")]
    again = session.prepare(edited)
    assert again.fold is None
    assert again.messages == [*ready.messages[:-1], edited[-1]]
    assert [fold.standing for fold in session.folds()] == [True]
    taken = [message for message in history if message not in ready.messages]
    assert session.original(session.folds()[0].name) == taken
    assert taken[0] == history[1]


def test_folds_of_folds_and_their_undoing_go_along():
    session, history, _ = folding()
    session.pin("#75")
    session.checkpoint("here")
    first = session.folds()[0].name
    session.compact(target=1_200)
    session.unfold(first)
    view = session.view()
    edited = [*history[:-1], user("another end")]
    ready = session.prepare(edited)
    assert ready.messages == [*view[:-1], edited[-1]]
    assert [fold.standing for fold in session.folds()] == [False, True]
    assert session.state.view.pins == {75}
    assert "here" not in session.state.view.checkpoints  # it stands behind what was edited


@pytest.mark.few_values(2)
@pytest.mark.parametrize("how", ["fold", "unfold", "twice"])
def test_going_on_from_a_view_that_was_folded_or_unfolded_since(how):
    """A fold in the background, or a person at another terminal, changes the view under the caller's hands."""
    session, history, ready = folding()
    if how == "unfold":
        session.unfold()
    else:
        session.compact(target=1_200)
    if how == "twice":
        session.say([reply("said meanwhile"), user("by somebody")])
        session.compact(target=800)
    view = session.view()
    more = [reply("said meanwhile"), user("by somebody")] if how == "twice" else []
    new = [reply("going on"), user("from before")]
    again = session.prepare([*ready.messages, *more, *new])
    assert session.original("#1-#81") == history
    assert session.stats().said == 81 + len(more) + 2
    assert again.fold or again.messages == [*view, *new]


@pytest.mark.parametrize("policy", ["refold", "ripple", "opal", "codebuddy", "neurolink", "umwelten"])
@pytest.mark.parametrize("cut", [0, 2])
@pytest.mark.parametrize("to", ["#7", "start"])
@pytest.mark.parametrize("reopens", [False, True])
def test_a_view_from_before_a_rewind_goes_on_where_it_was_sent(policy, cut, to, reopens):
    """What a fold put into it is nobody's words."""
    history, store = talk(20), refold.open_store("memory:")
    options = {"store": store, "window": 30_000, "policy": policy}
    session = opened(ask=Scripted("They talked of numbers and letters, and of nothing else. " * 9), **options)
    session.prepare(history)
    session.compact(target=2_500)
    more = [reply("yes"), user("and then?"), reply("that was all"), user("go on")]
    view = session.prepare([*session.view(), *more]).messages
    session.rewind(to)
    session.prepare([*history[: session.stats().said], user("another question")])
    session = opened(**options) if reopens else session
    kept = view[: len(view) - cut]
    new = [reply("hm"), user("well?")] if not cut else [reply("not at all"), user("why?")]
    ready = session.prepare([*kept, *new])
    assert ready.messages == [*kept, *new]
    assert session.prepare([*ready.messages, reply("so")]).messages == [*kept, *new, reply("so")]
    said = [*history, *more[: len(more) - cut], *new, reply("so")]
    assert [entry.value for entry in session.log(kinds=["said"])] == said
    assert [fold.standing for fold in session.folds()] == [True]


@pytest.mark.parametrize("to", ["#1", "#6"])
def test_a_list_from_before_a_rewind_is_no_view_of_the_place_it_leads_back_to(to):
    """It continues the view that was rewound to, word for word, and not the stored one, which was mended."""
    turns = [
        each
        for _ in range(3)
        for each in wired(
            [
                Message("user", (Text("Go on"),)),
                Message("assistant", (ToolCall("c", "ls", {}),)),
                Message("tool", (ToolResult("c", (Text("a.py"),), name="ls"),)),
            ],
            "anthropic",
        )
    ]
    with opened(format="anthropic") as session:
        history = session.prepare(turns[:6]).messages + turns[6:]
        mended = session.prepare(history).messages
        assert sound(mended, "anthropic") == []
        session.rewind(to)
        assert session.prepare([*history]).messages == mended


def test_a_result_that_was_put_beside_its_call_stays_where_the_words_behind_it_are_edited():
    """The view shows it in another place than the log, which has it right before those words."""
    late = {"role": "tool", "tool_call_id": "c", "content": "The disk is full."}
    history = [user("Go"), written_call("c"), reply("I wait."), late]
    with opened() as session:
        view = session.prepare(history).messages
        assert view == [*history[:2], late, history[2]]
        session.prepare([*view, user("And now?"), reply("Nothing.")])
        edited = [*view, user("Well?"), reply("It is full.")]
        assert session.prepare(edited).messages == edited
        assert session.original("#1-#6") == [*history, *edited[4:]]


def test_a_mended_view_whose_last_words_are_edited_continues_no_view_that_only_is_as_long():
    """The empty view that was looked at first shows each message at its number; the mend has moved two."""
    asked, full = written_call("c"), {"role": "tool", "tool_call_id": "c", "content": "The disk is full."}
    with opened() as session:
        assert session.view() == []
        view = session.prepare([user("Go"), full, asked, reply("It is full.")]).messages
        assert view == [user("Go"), asked, full, reply("It is full.")]
        session.prepare([*view, user("And now?"), reply("Nothing.")])
        edited = [*view, user("Well?"), reply("It is full.")]
        assert session.prepare(edited).messages == edited


def test_a_result_that_was_put_beside_its_call_stays_where_words_between_them_are_edited():
    """The words stood between the call and its result when they were said; the branch ends before both."""
    late = {"role": "tool", "tool_call_id": "c", "content": "The disk is full."}
    with opened() as session:
        view = session.prepare([user("Go"), written_call("c"), reply("I wait."), late]).messages
        edited = [*view[:3], reply("I waited."), user("And now?")]
        assert session.prepare(edited).messages == edited
        assert session.original("#1-#5") == edited


@pytest.mark.parametrize("system", [[], [{"role": "system", "content": "Be brief."}]])
@pytest.mark.parametrize("policy", ["ripple", "opal", "codebuddy", "neurolink", "umwelten"])
@pytest.mark.parametrize("reopens", [False, True])
def test_a_view_that_begins_with_an_order_from_the_middle_is_continued(system, policy, reopens):
    order = {"role": "developer", "content": "Answer in French."}
    history = [user("hello"), order, *talk(30)[1:]]
    store = refold.open_store("memory:")
    session = opened(store=store, window=9_000, policy=policy, ask=Scripted("They talked of numbers. " * 9))
    session.prepare([*system, *history])
    view = session.view() if session.compact().compacted else []
    assert view[len(system)] == order
    session = opened(store=store, window=9_000, policy=policy) if reopens else session
    new = [reply("more"), user("next")]
    ready = session.prepare([*view, *new])
    assert ready.messages == [*view, *new]
    assert [entry.value for entry in session.log(kinds=["said"])] == [*history, *new]
    again = [reply("and more"), user("and then")]
    session.unfold()
    session.prepare([*view, *new, *again])
    assert [entry.value for entry in session.log(kinds=["said"])] == [*history, *new, *again]


@pytest.mark.parametrize("system", [[], [{"role": "system", "content": "Be brief."}]])
@pytest.mark.parametrize("policy", ["ripple", "opal", "codebuddy", "neurolink", "umwelten"])
def test_such_a_view_is_continued_where_another_process_undid_its_fold(system, policy):
    """The summary in it is nobody's words."""
    history = [user("hello"), ORDER, *talk(30)[1:]]
    store = refold.open_store("memory:")
    session = opened(store=store, window=9_000, policy=policy, ask=Scripted("They talked of numbers. " * 9))
    session.prepare([*system, *history])
    view = session.view() if session.compact().compacted else []
    assert view[len(system)] == ORDER
    session.unfold()
    session = opened(store=store, window=9_000, policy=policy)
    new = [reply("more"), user("next")]
    session.prepare([*view, *new])
    assert [entry.value for entry in session.log(kinds=["said"])] == [*history, *new]


def test_a_view_that_begins_with_an_order_costs_no_read_of_the_store(monkeypatch):
    """Views of other processes are looked for only where none of the session's own is continued."""
    history = [user("hello"), ORDER, *talk(30)[1:]]
    session = opened(window=9_000, policy="ripple", ask=Scripted("They talked of numbers. " * 9))
    session.prepare(history)
    view = session.view() if session.compact().compacted else []
    monkeypatch.setattr(type(session.state.store), "read", None)
    assert session.prepare([*view, reply("more"), user("next")]).messages[0] == ORDER


ORDER = {"role": "developer", "content": "Answer in French."}
NICE = {"role": "developer", "content": "Be nice."}
EDITS = {
    "other words": [{**ORDER, "content": "Answer in German."}],
    "one before it": [NICE, ORDER],
    "one behind it": [ORDER, NICE],
}


@pytest.mark.each_value
@pytest.mark.parametrize("system", [[], [{"role": "system", "content": "Be brief."}]])
@pytest.mark.parametrize("policy", ["ripple", "opal", "codebuddy", "neurolink", "umwelten"])
@pytest.mark.parametrize("reopens", [False, True])
@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("last", ["kept", "edited"])
def test_a_view_that_begins_with_an_edited_order_is_continued(system, policy, reopens, edit, last):
    """The summary behind it is nobody's words: the fold stands, and the order is sent as it is now."""
    history = [user("hello"), ORDER, *talk(30)[1:]]
    store = refold.open_store("memory:")

    def reopen(session):
        return opened(store=store, window=9_000, policy=policy) if reopens else session

    session = opened(store=store, window=9_000, policy=policy, ask=Scripted("They talked of numbers. " * 9))
    session.prepare([*system, *history])
    view = session.view() if session.compact().compacted else []
    assert view[len(system)] == ORDER
    edited = [*system, *EDITS[edit], *view[len(system) + 1 :]]
    said = history
    if last == "edited":
        edited[-1] = user("something else")
        said = [*history[:-1], edited[-1]]
    for number in range(3):
        session = reopen(session)
        edited += [reply(f"more {number}"), user(f"next {number}")]
        said = [*said, *edited[-2:]]
        ready = session.prepare(edited)
        assert ready.messages == edited
        assert opened(store=store, window=9_000, policy=policy).view() == edited
        assert ready.budget.used == refold.measure(edited, window=9_000, policy=policy).used
        assert [entry.value for entry in session.log(kinds=["said"])] == said
        assert [fold.standing for fold in session.folds()] == [True] * len(session.folds()) != []
    assert session.view() == edited
    session = reopen(session)
    assert session.prepare([*system, *said]).messages[len(system)] == ORDER, "the log keeps what was said"
    assert reopen(session).view() == session.view() != edited, "and that it is as it was said again"


def test_a_view_that_loses_its_summary_behind_an_edited_order_begins_a_branch():
    history = [user("hello"), ORDER, *talk(30)[1:]]
    session = opened(window=9_000, policy="ripple", ask=Scripted("They talked of numbers. " * 9))
    session.prepare(history)
    view = session.view() if session.compact().compacted else []
    assert view[0] == ORDER
    view = session.prepare([*view, reply("more"), user("next")]).messages
    edited = [*EDITS["other words"], *view[2:]]
    assert session.prepare(edited).messages == edited


def test_truncated_history_is_answered_anew():
    with opened(window=100_000) as session:
        history = talk(5)
        session.prepare([*history, reply("first try")])
        ready = session.prepare(history)
        assert ready.messages is history
        session.prepare([*history, reply("second try")])
        assert [hit.text for hit in session.recall("first try")][:1] == ["first try"]
        assert session.original(-1) == [reply("second try")]
        before = stored(session)
        session.prepare([*history, reply("first try")])
        assert stored(session) == before


def test_a_system_prompt_that_changes_does_not_branch():
    with opened(window=100_000) as session:
        history = talk(3)
        for day in range(5):
            history += [reply(f"it is day {day}"), user("and then?")]
            system = {"role": "system", "content": f"today is day {day}"}
            ready = session.prepare([system, *history])
            assert ready.messages == [system, *history]
        assert kinds(session, "said") == ["said"] * len(history)
        assert kinds(session, "system") == ["system"] * 5
        assert session.view()[0]["content"] == "today is day 4"


def test_a_changed_system_prompt_holds_on_a_former_branch_too():
    with opened(window=100_000) as session:
        one, two = talk(2), talk(3)
        session.prepare([{"role": "system", "content": "old"}, *one])
        session.prepare([{"role": "system", "content": "old"}, user("other"), *two])
        ready = session.prepare([{"role": "system", "content": "new"}, *one])
        assert ready.messages == [{"role": "system", "content": "new"}, *one]
        assert session.view() == ready.messages
        assert session.prepare(one).messages == one
        assert session.view() == one


def test_a_system_message_of_a_say_is_the_systems():
    with opened() as session:
        session.say([{"role": "system", "content": "be brief"}, user("hi")])
        assert session.view() == [{"role": "system", "content": "be brief"}, user("hi")]
        assert session.stats().said == 1
        history = [{"role": "system", "content": "be brief"}, user("hi"), reply("hello")]
        assert session.prepare(history).messages is history
        assert session.stats().said == 2


@pytest.mark.parametrize("place", [0, 20, -1])
@pytest.mark.parametrize("same_list", [True, False])
def test_a_message_changed_in_place_is_noticed(place, same_list):
    """Callers trim tool output in their own dicts; the log keeps both, and what is sent is the new one."""
    with opened(window=100_000) as session:
        history = talk(15)
        old = history[place]["content"]
        session.prepare(history)
        history[place]["content"] = "changed in place"
        given = history if same_list else list(history)
        assert session.prepare(given).messages == history
        assert session.view() == history
        assert [one.value for one in session.log(kinds=("said",))] == history
        texts = [hit.text for hit in session.recall(old[:11])]
        assert old in texts


@pytest.mark.each_value
@pytest.mark.parametrize("same_list", [True, False])
@pytest.mark.parametrize("place", [3, -3])
def test_a_message_of_a_long_history_that_changes_in_place_is_noticed_in_its_turn(place, same_list):
    with opened(window=10_000_000, policy=refold.presets.get(trigger_tokens=None)) as session:
        history = talk(700, size=16)
        session.prepare(history)
        history[place]["content"] = "changed in place"
        number = place % len(history) + 1
        for _ in range(2 + len(history) // 64 if place > 0 else 1):
            session.prepare(history if same_list else list(history))
        assert session.original(f"#{number}") == [{**history[place]}]
        assert session.view() == history


@pytest.mark.few_values(1)
@pytest.mark.parametrize("place", [1, 700, 1_499])
@pytest.mark.parametrize("system", [[], [{"role": "system", "content": "Help."}]])
def test_a_message_of_a_long_list_that_is_replaced_is_noticed_at_once(place, system):
    history = [*system, *({"role": ("user", "assistant")[n % 2], "content": f"{n}"} for n in range(1_500))]
    place += len(system)
    with opened(window=10_000_000, policy=refold.presets.get(trigger_tokens=None)) as session:
        session.prepare(history)
        history.append({"role": "user", "content": "on"})
        session.prepare(history)
        history[place] = {**history[place], "content": "another"}
        assert session.prepare(history).messages[place]["content"] == "another"
        assert session.view()[place]["content"] == "another"


def test_objects_of_a_caller_that_makes_new_ones_are_not_held():
    """A gateway reads a body anew in every turn: to hold it would be a second copy of every text."""
    with opened(window=100_000) as session:
        history = talk(5)
        for _ in range(3):
            session.prepare(deepcopy(history))
        assert session.state.caller.caller_objects == []
        session.prepare(history)
        history.append(reply("ok"))
        session.prepare(history)  # from here on the objects are the same
        assert session.state.caller.caller_objects == history


def test_a_copy_that_a_caller_has_spoilt_far_back_is_not_sent_for_long():
    with opened(window=10_000_000, policy=refold.presets.get(trigger_tokens=None)) as session:
        history = talk(700, size=16)
        session.say(history)
        session.prepare().messages[3]["content"] = "spoilt"
        views = [session.prepare().messages for _ in range(2 + len(history) // 256)]
        assert views[-1] == history
        session.prepare().messages[-3]["content"] = "spoilt"
        assert session.prepare().messages == history


def test_what_is_handed_out_can_be_changed_without_harm():
    session, history, ready = folding()
    view, kept = session.view(), deepcopy(history)
    for message in [*ready.messages, *session.view(), *ready.outcome.messages]:
        message["content"] = "spoilt"  # some of them are the caller's own
    assert session.view() == view
    assert session.prepare(kept).messages == view


def test_hidden_messages_that_change_are_noticed_in_their_turn():
    session, history, _ = folding()
    history[30]["content"] = "changed where nobody looks"
    for _ in range(2 + len(history) // 64):
        session.prepare(history)
    assert session.original("#31") == [user("changed where nobody looks")]


@pytest.mark.few_values(1)
@pytest.mark.parametrize("stretches", [1, 2, 3, 4])
def test_behind_a_fold_every_older_message_has_its_turn(stretches):
    """Both the caller's list and the copies that are sent are compared part by part, each in its own turn."""
    for place in range(0, 64 * stretches, 64):
        session = refold.open("task", store="memory:", window="200k", format="openai")
        history = [
            user(f"question {n}") if n % 2 else reply(f"answer {n} " * 8) for n in range(64 * stretches + 32)
        ]
        session.prepare(history)
        session.compact()
        history[place]["content"] = "changed in place"
        for _ in range(stretches + 1):
            history.append(user("more"))
            session.prepare(history)
        assert session.original(f"#{place + 1}") == [history[place]]


@pytest.mark.parametrize("bring", [lambda known: known, list, deepcopy], ids=["own", "list", "copies"])
def test_an_edit_in_place_is_noticed_in_a_list_that_continues_an_earlier_view(bring):
    def turn(number):
        words = f"alpha{number} beta{number} " * 60
        return [reply(f"step {number}: {words}"), user(f"go on {number}")]

    session = refold.open("task", store="memory:", window="3k")
    session.prepare([user("Start."), *turn(0), *turn(1), *turn(2)])
    session.compact()
    view = [*deepcopy(session.view()), *turn(3)]
    session.prepare(bring(view))
    session.compact()  # the caller goes on from the view before this fold
    for number in (4, 5):
        view += turn(number)
        session.prepare(bring(view))
    view[-3]["content"] = "changed in place"
    view += turn(6)
    session.prepare(bring(view))
    assert user("changed in place") in [entry.value for entry in session.log(kinds={"said"})]
    assert session.recall("changed in place")


@pytest.mark.parametrize("bring", [lambda known: known, list, deepcopy], ids=["own", "list", "copies"])
def test_after_a_rewind_before_the_first_call_the_same_list_is_read_in_its_format(bring):
    call = {"type": "tool_use", "id": "c1", "name": "run", "input": {"cmd": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "a.py"}
    history = [user("Start."), reply("yes"), user("list files")]
    session = refold.open("task", store="memory:", window="8k")
    session.prepare(history)
    history += [{"role": "assistant", "content": [call]}, user([result])]
    session.prepare(history)
    for _ in range(2):
        session.rewind(3)  # plain messages, which every format has
        assert session.prepare(bring(history)).messages == history
    history += [reply("one file"), user("thanks")]
    assert session.prepare(bring(history)).messages == history
    assert session.stats().said == len(history)


@pytest.mark.few_values(1)
def test_reopened_and_sent_again_stores_nothing_and_keeps_the_fold(lasting):
    session, history, ready = folding(store=lasting())
    before = stored(session)
    for more in ([], [reply("ok"), user("more")]):
        again = opened(store=lasting())
        sent = again.prepare(deepcopy([*history, *more]))
        assert sent.fold is None
        assert dumped(sent.messages) == dumped([*ready.messages, *more])
        assert stored(again) == before + len(more)
        assert again.prepare(deepcopy([*history, *more])).messages == sent.messages
        assert stored(again) == before + len(more)


@pytest.mark.few_values(1)
@pytest.mark.parametrize("shape", sample([*SHAPES, "refold"], 3))
def test_reopened_views_are_the_same_to_the_byte(shape, tmp_path):
    whole = values(40) if shape == "refold" else wired(values(40), shape)
    address = f"sqlite:{tmp_path / 'a.db'}"
    with opened(store=address, window=6_000, ask=Scripted("A summary of the talk.")) as session:
        ready = session.prepare(whole)
        assert ready.fold
    with opened(store=address, window=6_000) as session:
        assert session.view() == ready.messages
        assert session.state.wire.name == shape
        assert session.prepare(deepcopy(whole)).messages == ready.messages
        going_on = [*ready.messages, *(values(1)[-1:] if shape == "refold" else wired(values(1)[-1:], shape))]
        assert session.prepare(going_on).messages == going_on
        assert len(session.log(kinds=("said",))) == len(whole) + 1


def test_after_reopening_a_turn_costs_no_look_back(tmp_path):
    session, history, _ = folding(store=f"sqlite:{tmp_path / 'a.db'}")
    session.close()
    with opened(store=f"sqlite:{tmp_path / 'a.db'}") as session:
        session.prepare(history)
        moved = session.state.head.version
        session.prepare(history)
        assert session.state.head.version == moved
        assert session.state.caller.said_items == history


@pytest.mark.parametrize("shape", SHAPES)
def test_broken_histories_are_mended_once(shape):
    whole = values(4)
    del whole[2]  # a result is gone
    del whole[4]  # a call is gone
    given = wired(whole, shape)
    with opened(window=100_000) as session:
        ready = session.prepare(given)
        assert not sound(ready.messages, shape)
        assert kinds(session, "fold") == ["fold"]
        assert session.folds() == []  # nobody asked for it, and nothing is hidden
        assert session.original(f"#1-#{len(given)}") == given
        assert session.prepare(given).messages == ready.messages
        assert kinds(session, "fold") == ["fold"]
        more = wired(values(1)[-1:], shape)
        assert session.prepare([*given, *more]).messages[: len(ready.messages)] == ready.messages


@pytest.mark.parametrize(
    "wrong",
    [
        "a text",
        b"bytes",
        7,
        {"role": "user"},
        [7],
        [None],
        [user("fine"), 7],
        [user("fine"), {"role": "user", "content": {1, 2}}],
        [user("fine"), {"no": "role"}],
        [{"role": "system", "content": "new"}, user("fine"), {"role": "user", "content": object()}],
        [{"role": "user", "parts": [{"text": "gemini"}]}, 7],
    ],
    ids=range(11),
)
def test_a_wrong_list_is_refused_and_stores_nothing(wrong):
    with opened() as session:
        with pytest.raises(FormatError):
            session.prepare(wrong)
        assert stored(session) == 0
        history = talk(2)
        session.prepare(history)
        before, view = stored(session), session.view()
        with pytest.raises(FormatError):
            session.prepare([*wrong[:1], *history, *wrong[1:]] if isinstance(wrong, list) else wrong)
        assert stored(session) == before
        assert session.view() == view
        assert session.state.wire.name == "openai"
        assert session.prepare(history).messages is history


@pytest.mark.parametrize(
    "wrong",
    [{"role": None}, {"role": "user", "content": 5}, 7, {"role": "system", "content": 5}, {"body": 1}],
    ids=range(5),
)
def test_an_error_names_the_place_in_the_callers_list(wrong):
    system = {"role": "system", "content": "brief"}
    with opened() as session:
        with pytest.raises(FormatError, match=r"^messages\[1\]"):
            session.prepare([system, wrong, *talk(1)])
        session.prepare([system, *talk(1)])
        with pytest.raises(FormatError, match=r"^messages\[4\]"):
            session.prepare([system, *talk(1), wrong])


def test_an_empty_list_and_none():
    with opened() as session:
        assert session.prepare([]).messages == []
        assert session.prepare().messages == []
        assert session.prepare(()).messages == []
        assert stored(session) == 0
        session.say("hi")
        assert session.prepare().messages == [user("hi")]
        assert session.prepare((user("hi"),)).messages == [user("hi")]
        assert session.stats().said == 1


def test_an_empty_list_after_something_is_a_new_beginning():
    with opened() as session:
        session.prepare(talk(2))
        assert session.prepare([]).messages == []
        assert session.stats().said == 0
        assert session.recall("question 1")


def test_long_histories_are_found_again_page_by_page(memory):
    history = talk(350, size=20)
    opened(store=memory, window=1_000_000).prepare(history)
    again = opened(store=memory, window=1_000_000)
    again.say("stay")  # now the view is no prefix of the list
    again.prepare(history[:-1])
    assert again.stats().said == len(history) - 1
    assert stored(again) == len(history) + 1


def test_another_shape_may_follow():
    with opened(window=100_000) as session:
        session.prepare([user("hi"), reply("hello")])
        blocks = {"role": "user", "content": [{"type": "text", "text": "go on"}]}
        call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]}
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "1"}]}
        given = [user("hi"), reply("hello"), blocks, call, result]
        ready = session.prepare(given)
        assert session.state.wire.name == "anthropic"
        assert not sound(ready.messages, "anthropic")
        assert ready.messages == given


def test_a_format_that_was_named_holds():
    with opened(format="anthropic") as session:
        session.prepare([user("hi")])
        assert session.state.wire.name == "anthropic"
        assert refold.validate(session.view(), "anthropic") == []


PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[2])
import refold
from refold.testing import Scripted
from talks import talk, SUMMARY
session = refold.open("talk", store=sys.argv[1], window=8000, ask=Scripted(SUMMARY), now=lambda: 5.0)
done = []
history = talk(24, size=800)
for count in range(1, len(history) + 1, 4):
    done.append(session.prepare(history[:count]).messages)
print(json.dumps([done, [one.name for one in session.log()]]))
"""


def test_the_same_in_another_process(tmp_path):
    found = set()
    for seed in ("0", "4711"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, f"jsonl:{tmp_path / seed}", str(Path(__file__).parent)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        found.add(done.stdout)
    assert len(found) == 1
    views, _names = json.loads(found.pop())
    assert len(views[-1]) < 40


def test_only_what_is_new_is_looked_at_for_its_shape(monkeypatch):
    looked = []
    known, session, history = formats.detect_or_none, opened(), []
    monkeypatch.setattr(formats, "detect_or_none", lambda items: looked.append(len(items)) or known(items))
    for number in range(4):
        history += [user(f"question {number}"), reply("answer")]
        session.prepare(history)
    assert looked == [2, 2, 2, 2]


def test_a_name_that_holds_another_format_is_refused_in_one_line():
    """Two programs with one store and one name: the second one is told to choose another name."""
    store = refold.open_store("memory:")
    items = [
        {"role": "user", "content": "look"},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "nothing"},
    ]
    refold.open("thread-1", store=store, format="responses").prepare(items)
    other = refold.open("thread-1", store=store, format="openai")
    with pytest.raises(
        refold.FormatError, match=r"holds a conversation in the format 'responses'.*another name"
    ):
        other.prepare([{"role": "user", "content": "hello"}])


ANTHROPIC_CALLS = [
    {"role": "user", "content": "look"},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": name, "name": "look", "input": {}} for name in ("c1", "c2")],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": name, "content": "a line of words\n" * 800}
            for name in ("c1", "c2")
        ],
    },
    {"role": "assistant", "content": "Seen. " * 40},
    {"role": "user", "content": "Go on."},
]
OPENAI_CALL = written_call("c3", "{}", name="look")


@pytest.mark.parametrize("window", [3_000, 100_000])
def test_a_message_in_another_format_is_not_said_behind_calls_that_it_cannot_read(window):
    """The view would hold two formats, and no provider takes that."""
    with refold.open("mixed", store="memory:", window=window) as session:
        session.say(ANTHROPIC_CALLS)
        before = session.prepare().messages
        with pytest.raises(
            refold.FormatError, match="in the format 'anthropic', which cannot be read as 'op"
        ):
            session.say(OPENAI_CALL)
        assert session.view() == before
        assert not refold.validate(before, "anthropic")
        assert session.say("More.") == "#6"


def test_a_list_in_another_format_is_refused_in_one_line_where_a_fold_changed_several_results():
    """A view of Anthropic holds them in one message, which is several of OpenAI."""
    with refold.open("mixed", store="memory:", window=3_000) as session:
        session.prepare(ANTHROPIC_CALLS)
        assert session.folds()
        with pytest.raises(
            refold.FormatError, match="in the format 'anthropic', which cannot be read as 'op"
        ):
            session.prepare([{"role": "user", "content": "look"}, OPENAI_CALL])


def write_look(wire):
    """A short talk with one call of a tool, whose other words are the same in three formats."""
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c3", "content": "nothing"}]}
    pairs = {
        "anthropic": [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c3", "name": "look", "input": {}}]},
            result,
        ],
        "openai": [OPENAI_CALL, {"role": "tool", "tool_call_id": "c3", "content": "nothing"}],
        "responses": [
            {"type": "function_call", "call_id": "c3", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c3", "output": "nothing"},
        ],
    }
    return [user("look"), *pairs[wire], reply("Seen it all now."), user("Go on.")]


@pytest.mark.parametrize(
    ("first", "changes_to"),
    [("anthropic", "openai"), ("openai", "anthropic"), ("anthropic", "responses"), ("openai", "responses")],
)
@pytest.mark.parametrize("said", [[], [reply("Done."), user("Next.")]], ids=["the same", "longer"])
def test_a_list_may_change_its_format_between_two_turns(first, changes_to, said):
    """Its last words are the same in both formats, and only those before them tell which it is."""
    changed = [*write_look(changes_to), *said]
    with refold.open("changed", store="memory:", window=100_000) as session:
        session.prepare(write_look(first))
        for _ in range(2):
            assert session.prepare(changed).messages == changed
        assert [entry.said for entry in session.log(kinds=["said"])] == [*range(1, len(changed) + 1)]


def test_a_refused_list_in_another_format_leaves_the_session_in_its_own():
    session = opened(window=100_000)
    session.prepare([user("hello"), reply("hi"), user("how are you?")])
    view = session.view()
    gemini = [
        {"role": "user", "parts": [{"text": "hello"}]},
        {"role": "model", "parts": [{"text": "hi"}]},
        {"role": "user", "parts": [{"text": "how are you?"}]},
        {"role": "model", "parts": [{"text": 5}]},
    ]
    with pytest.raises(refold.FormatError):
        session.prepare(gemini)
    assert session.view() == view
    assert session.prepare().messages == view


def test_a_list_in_another_format_than_the_session_is_opened_with_is_named():
    with refold.open("fixed", store="memory:", window=100_000, format="anthropic") as session:
        session.prepare(write_look("anthropic"))
        with pytest.raises(FormatError, match="looks like responses, not anthropic: pass format='responses'"):
            session.prepare(write_look("responses"))


@pytest.mark.parametrize("policy", ["refold", "opal"])
@pytest.mark.parametrize("shape", ["openai", "anthropic", "responses", "gemini"])
@pytest.mark.parametrize("comes", ["in its place", "late"])
def test_the_result_of_a_call_that_was_given_up_is_shown_when_it_comes(shape, comes, policy):
    """The user spoke while a tool ran, so that words of ours stand for its result; then it comes."""
    call = Message("assistant", (Text("I look."), ToolCall("c3", "look", {})))
    own = Message("tool", (ToolResult("c3", (Text("the result itself"),), name="look"),))
    front = wired([Message("user", "look"), call], shape)
    hurry, result, back = (
        wired([each], shape) for each in (Message("user", "hurry"), own, Message("assistant", "Seen."))
    )
    whole = [*front, *hurry, *result] if comes == "late" else [*front, *result, *hurry]
    with refold.open("k", store="memory:", window="100k", policy=policy, format=shape) as session:
        assert "the result itself" not in str(session.prepare([*front, *hurry]).messages)
        for messages in (whole, [*whole, *back], [*whole, *back, *hurry]):
            sent = session.prepare(messages).messages
            assert refold.validate(sent, shape) == []
            results = [part.text for each in formats.get(shape).parse(sent) for part in each.results]
            assert results == ["the result itself"]
            assert comes == "late" or sent == messages


def test_words_with_a_call_are_not_those_words_alone_in_another_format():
    """The Responses API has the call in an item of its own, and does not read the one beside the words."""
    words, rest = reply("I will look."), [reply("Seen."), user("Go on.")]
    tool = {"role": "tool", "tool_call_id": "c3", "content": "nothing"}
    call = {"type": "function_call", "call_id": "c3", "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c3", "output": "nothing"}
    changed = [user("look"), words, call, output, *rest]
    with refold.open("changed", store="memory:", window=100_000) as session:
        session.prepare([user("look"), {**OPENAI_CALL, **words}, tool, *rest])
        assert session.prepare(changed).messages == changed
        assert [entry.value for entry in session.log(kinds=["said"])] == changed


def test_thinking_blocks_between_calls_of_openai_change_no_format():
    """Frameworks put them there; the format of the calls reads such a message, and carries the block."""
    tool = {"role": "tool", "tool_call_id": "c3", "content": "nothing"}
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Seen."}]
    said = [user("look"), OPENAI_CALL, tool, {"role": "assistant", "content": blocks}]
    with refold.open("carried", store="memory:", window=100_000) as session:
        session.say(said[:3])
        session.say(said[3])
        assert session.prepare().messages == said
        assert session.state.wire.name == "openai"


def boat_talk(turns):
    found = [{"role": "user", "content": "My name is Ada. Never rename the harbour."}]
    for turn in range(turns):
        answer = f"Answer {turn}: " + "the boat lies at the quay. " * 12
        question = f"Question {turn}: what of boat {turn}?"
        found += [{"role": "assistant", "content": answer}, {"role": "user", "content": question}]
    return found


TEXTS = {
    "openai": lambda text, _: text,
    "gemini": lambda text, _: [{"text": text}],
    "anthropic": lambda text, _: [{"type": "text", "text": text}],
    "responses": lambda text, role: [
        {"type": "input_text" if role == "user" else "output_text", "text": text}
    ],
    "converse": lambda text, _: [{"text": text}],
}


def write_in(name, messages):
    key = "parts" if name == "gemini" else "content"
    roles = {"user": "user", "assistant": "model" if name == "gemini" else "assistant"}
    return [
        {
            **({"type": "message"} if name == "responses" else {}),
            "role": roles[message["role"]],
            key: TEXTS[name](message["content"], message["role"]),
        }
        for message in messages
    ]


AMBIGUOUS = {("responses", "openai"), ("responses", "anthropic")}
"""The Responses API reads such messages as its own."""
PAIRS = [pair for pair in permutations(TEXTS, 2) if pair not in AMBIGUOUS]


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_a_talk_may_go_back_in_another_format(before, after):
    """A turn that fails is sent to another provider, and an earlier question is asked anew there."""
    lists = [boat_talk(3), [*boat_talk(3)[:4], user("Edited.")], boat_talk(2), boat_talk(4)]
    with refold.open("k", store="memory:", window="100k") as session:
        session.prepare(write_in(before, boat_talk(3)))
        for messages in lists:
            assert session.prepare(write_in(after, messages)).messages == write_in(after, messages)
        assert session.prepare(write_in(before, boat_talk(1))).messages == write_in(before, boat_talk(1))


@pytest.mark.parametrize("before", ["gemini", "converse"])
def test_a_talk_may_go_on_behind_a_system_message(before, tmp_path):
    """The format before it has none in its lists, and cannot read it."""
    whole = [{"role": "system", "content": "Be kind."}, *boat_talk(2)]
    with refold.open("k", store=f"sqlite:{tmp_path}/log.db", window="100k") as session:
        session.prepare(write_in(before, boat_talk(1)))
        assert session.prepare(whole).messages == whole
    with refold.open("k", store=f"sqlite:{tmp_path}/log.db", window="100k") as session:
        assert session.prepare().messages == whole


@pytest.mark.parametrize("before", ["gemini", "converse"])
@pytest.mark.parametrize("turns", [0, 1])
@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_talk_may_get_a_system_message_and_no_other(before, turns, role, tmp_path):
    """Every message is stored in a format that cannot read it; the session must stay readable."""
    whole = [{"role": role, "content": "Be kind."}, *boat_talk(turns)]
    for messages in ([*write_in(before, boat_talk(1))], whole, None):
        with refold.open("k", store=f"sqlite:{tmp_path}/log.db", window="100k") as session:
            assert session.prepare(messages).messages == (messages or whole)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("after", ["gemini", "converse"])
def test_a_talk_may_leave_its_system_message_behind(after, shared, tmp_path):
    """The format of the list has no place for it, and keeps the system prompt outside of the messages."""
    system = [{"role": "system", "content": "Be kind."}]
    first = boat_talk(1) if shared else boat_talk(1)[1:]
    lists = [[*system, *first], write_in(after, boat_talk(1)), [*system, *boat_talk(1)]]
    lists += [write_in(after, boat_talk(1)[:1]), write_in(after, boat_talk(2))]
    for messages in (*lists, None):
        with refold.open("k", store=f"sqlite:{tmp_path}/log.db", window="100k") as session:
            assert session.prepare(messages).messages == (messages or lists[-1])


GEMINI_TURN = [
    {"role": "user", "parts": [{"text": "Look."}]},
    {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"found": "a boat"}}}]},
]
CONVERSE_TURN = [
    {"role": "user", "content": [{"text": "Look."}]},
    {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c", "name": "look", "input": {}}}]},
    {"role": "user", "content": [{"toolResult": {"toolUseId": "c", "content": [{"text": "a boat"}]}}]},
]


@pytest.mark.parametrize(("wire", "turn"), [("gemini", GEMINI_TURN), ("converse", CONVERSE_TURN)])
@pytest.mark.parametrize("reopened", [False, True])
def test_a_result_that_comes_late_needs_no_mend(wire, turn, reopened, tmp_path):
    """What stood for it belongs to the words that followed the call, and goes with them."""
    whole = [*turn, *write_in(wire, boat_talk(1)[1:])]
    address = f"sqlite:{tmp_path}/log.db"
    with refold.open("k", store=address, window="100k") as session:
        interrupted = [*turn[:2], *write_in(wire, boat_talk(1))]
        assert len(session.prepare(interrupted).messages) > len(interrupted)
        if not reopened:
            assert session.prepare(whole).messages == whole
    with refold.open("k", store=address, window="100k") as session:
        assert session.prepare(whole).messages == whole


def test_words_of_gemini_are_not_said_behind_a_system_message():
    """Nothing would stand for it, and no format would read both."""
    with refold.open("k", store="memory:", window="100k") as session:
        session.prepare([{"role": "system", "content": "Be kind."}, *boat_talk(1)])
        with pytest.raises(FormatError, match="cannot be read as 'gemini'"):
            session.say(write_in("gemini", boat_talk(1))[0])
        assert len(session.view()) == 1 + len(boat_talk(1))


def test_calls_of_openai_behind_a_talk_of_gemini_make_no_mixed_view():
    said = boat_talk(1)
    whole = [*said[:2], OPENAI_CALL, {"role": "tool", "tool_call_id": "c3", "content": "nothing"}, *said[1:]]
    with refold.open("k", store="memory:", window="100k") as session:
        session.prepare(write_in("gemini", said))
        assert session.prepare(whole).messages == whole


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_a_talk_goes_on_in_another_format(before, after, tmp_path):
    """A program that changes its provider hands in the same words in another shape; every view is in it."""
    address = f"sqlite:{tmp_path}/log.db"
    with refold.open("k", store=address, window="2k") as session:
        session.prepare(write_in(before, boat_talk(3)))
        lists = [session.prepare(write_in(after, boat_talk(4))).messages]
        lists.append(session.prepare(write_in(after, boat_talk(20))).messages)
        assert session.folds()
        assert session.recall("Ada harbour")
        session.unfold()
        lists.append(session.view())
    with refold.open("k", store=address, window="2k") as session:
        lists.append(session.prepare().messages)
        assert [hit.number for hit in session.recall("Ada harbour")] == [1]
        lists.append(session.original("#1"))
    for messages in lists:
        assert refold.validate(messages, format=after) == []
    said = [message["content"] for message in boat_talk(20)]
    assert [message.text for message in formats.get(after).parse(lists[2])] == said
    assert [message.text for message in formats.get(after).parse(lists[-1])] == said[:1]
