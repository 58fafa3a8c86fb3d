"""The last step: what a provider would refuse is mended, and nothing else is touched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history_strategies import HISTORIES
from refold import formats
from refold.core.messages.normalize import NOTHING, OPENING, Normalized, normalize
from refold.core.messages.repair import UNAVAILABLE
from refold.core.messages.wire_rules import CANONICAL, Shape
from refold.testing import assistant, call, call_part, calls, image, result, result_part, shape, system, user

STRICT = Shape(
    name="strict", results_in_user=True, system_inside=False, starts_with_user=True, allows_empty=False
)
WIRES = [formats.get(name).shape for name in ("refold", "openai", "responses", "anthropic", "gemini")]


def settled(*messages, wire=CANONICAL, **more):
    return shape(normalize(messages, shape=wire, **more).messages)


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_a_list_in_which_nothing_is_wrong_is_the_very_list(wire):
    """House law 2."""
    history = [user("a"), call("f"), result("c1", "x", role="user"), assistant("b")]
    assert normalize(history, shape=wire) == Normalized(history)
    assert normalize(history, shape=wire).messages is history
    assert normalize(history, shape=wire) == Normalized(history, changed=0, calls=0, results=0)
    assert normalize([], shape=wire) == Normalized([])


# -- system messages ---------------------------------------------------------------------------------------


def test_a_system_message_is_written_as_a_users_where_the_shape_has_none():
    done = normalize([system("s"), user("a"), system("b")], shape=Shape(name="x", system_inside=False))
    assert shape(done.messages) == "user: s\nuser: a\nuser: b"
    assert (done.changed, done.calls, done.results) == (2, 0, 0)


def test_system_messages_stay_where_the_shape_has_them():
    assert settled(system("s"), user("a"), system("b")) == "system: s\nuser: a\nsystem: b"


# -- empty messages ----------------------------------------------------------------------------------------

FULL = Shape(name="full", allows_empty=False)


def test_empty_text_leaves_where_the_shape_refuses_it():
    done = normalize([user("", "a", " \n"), user("b")], shape=FULL)
    assert shape(done.messages) == "user: a\nuser: b"
    assert done.changed == 1


@pytest.mark.parametrize("message", [user(), user(""), user(" ", "\n")])
def test_an_empty_message_gets_words_where_the_shape_refuses_it(message):
    assert settled(message, wire=FULL) == f"user: {NOTHING}"


def test_a_message_of_media_or_calls_is_not_empty():
    assert normalize([user(image())], shape=FULL).changed == 0
    assert settled(calls("", call_part("f")), wire=FULL) == "assistant: -> f() #c1"


def test_empty_messages_stay_where_the_shape_takes_them():
    assert normalize([user(), user(""), assistant(" ")], shape=CANONICAL).changed == 0


def test_a_message_or_a_result_without_content_gets_an_empty_text_where_the_shape_wants_content():
    content = Shape(name="content", needs_content=True)
    done = normalize([user(), call("f"), result("c1"), assistant(" ")], shape=content)
    assert done.changed == 2
    assert done.messages[0] == user("")
    assert done.messages[2] == result("c1", "")
    full = [user(""), calls("", call_part("f")), result("c1", "")]
    assert normalize(full, shape=content).messages is full


def test_only_the_results_that_say_nothing_get_an_empty_text():
    content = Shape(name="content", needs_content=True, results_in_user=True)
    both = user(result_part("a", "x"), result_part("b"), "words")
    history = [calls(call_part("f", id="a"), call_part("g", id="b")), both]
    (_, done) = normalize(history, shape=content).messages
    assert done == user(result_part("a", "x"), result_part("b", ""), "words")
    assert done.parts[0] is both.parts[0]


# -- who speaks first --------------------------------------------------------------------------------------


def test_the_user_speaks_first_where_the_shape_wants_it():
    first = Shape(name="first", starts_with_user=True)
    assert OPENING == "[The conversation continues here.]"
    assert settled(assistant("a"), wire=first) == f"user: {OPENING}\nassistant: a"
    assert settled(system("s"), assistant("a"), wire=first) == f"system: s\nuser: {OPENING}\nassistant: a"
    assert settled(system("s"), user("b"), assistant("a"), wire=first) == "system: s\nuser: b\nassistant: a"
    assert settled(system("s"), wire=first) == "system: s"


def test_anybody_may_speak_first_where_the_shape_takes_it():
    assert settled(assistant("a")) == "assistant: a"


def test_a_user_speaks_between_a_reply_and_calls_where_the_shape_wants_it():
    behind = Shape(name="behind", calls_behind_user=True)
    history = [assistant("a"), call("f"), result("c1", "x"), call("g", id="b")]
    assert shape(normalize(history, shape=behind).messages) == (
        f"assistant: a\nuser: {OPENING}\nassistant: -> f() #c1\ntool #c1: x\nassistant: -> g() #b"
    )
    assert settled(call("f", id="a"), wire=behind) == "assistant: -> f() #a"
    assert normalize(history, shape=CANONICAL).changed == 0


# -- pairs -------------------------------------------------------------------------------------------------


def test_dead_calls_and_stray_results_are_counted():
    done = normalize([call("f", id="a"), user("b"), result("x", "1")], shape=CANONICAL)
    assert (done.changed, done.calls, done.results) == (2, 1, 1)


def test_a_system_says_what_happens_to_strays_and_what_stands_for_the_missing():
    done = settled(call("f", id="a"), user("b"), result("x", "1"), orphans="drop", missing="gone")
    assert done == "assistant: -> f() #a\ntool #a failed: gone\nuser: b"
    assert UNAVAILABLE in settled(call("f", id="a"), user("b"))


def test_calls_with_one_id_get_ids_of_their_own_where_the_shape_wants_it():
    history = [call("f", id="a"), result("a", "x"), call("f", id="a"), result("a", "y")]
    assert normalize(history, shape=Shape(name="unique", unique_ids=True)).changed == 2
    assert normalize(history, shape=CANONICAL).changed == 0


def test_a_message_that_only_left_counts_as_one_change():
    done = normalize([user("a"), result("x", "1")], shape=CANONICAL, orphans="drop")
    assert (done.changed, len(done.messages)) == (1, 1)


def test_everything_at_once():
    history = [
        system("s"),
        assistant("", call_part("f", id="a")),
        user("", result_part("b", "x")),
        system(""),
    ]
    assert settled(*history, wire=STRICT, missing="gone").split("\n") == [
        "user: s",
        "assistant: -> f() #a",
        "user #a failed: gone",
        "assistant: -> tool(note=[Tool call for tool - conversation was compacted]) #b",
        "user #b: x",
        f"user: {NOTHING}",
    ]


# -- laws --------------------------------------------------------------------------------------------------


@given(HISTORIES, st.sampled_from([*WIRES, STRICT]), st.sampled_from(["call", "drop"]))
def test_to_settle_twice_is_to_settle_once(history, wire, orphans):
    once = normalize(history, shape=wire, orphans=orphans).messages
    assert normalize(once, shape=wire, orphans=orphans).messages is once


@given(HISTORIES, st.sampled_from(WIRES))
def test_changes_are_counted_where_there_are_any(history, wire):
    done = normalize(history, shape=wire)
    assert (done.changed == 0) == (done.messages is history)
