"""The last step: what a provider would refuse is mended, and nothing else is touched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from growth import assert_linear
from history_strategies import HISTORIES
from refold import Text, Thinking, formats
from refold.core.messages.message import map_parts, replace_result_text
from refold.core.messages.normalize import (
    NOTHING,
    OPENING,
    Normalized,
    insert_turns,
    make_call_ids_unique,
    normalize,
)
from refold.core.messages.repair import MISSING, MissingTexts
from refold.core.messages.tool_pairs import link
from refold.core.messages.wire_rules import CANONICAL, Shape
from refold.testing import (
    assistant,
    call,
    call_part,
    calls,
    image,
    result,
    result_part,
    shape,
    system,
    thinking,
    user,
)

STRICT = Shape(
    name="strict", results_in_user=True, system_inside=False, starts_with_user=True, allows_empty=False
)
CHAT = Shape(name="chat")
ANTHROPIC = Shape(name="anthropic", results_in_user=True, alternates=True, unique_ids=True)
NAMES = ("refold", "openai", "responses", "anthropic", "gemini", "interactions", "converse")
WIRES = [formats.get(name).shape for name in NAMES]


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


def test_an_answer_of_audio_alone_stays_as_it_came():
    chat = formats.get("openai")
    spoken = {"role": "assistant", "content": None, "audio": {"id": "a1", "transcript": "hi"}}
    history = [{"role": "user", "content": "say hi"}, spoken, {"role": "assistant", "content": None}]
    done = normalize(list(chat.parse(history)), shape=chat.shape).messages
    assert chat.render(done) == [*history[:2], {"role": "assistant", "content": ""}]


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


def test_a_system_message_that_leads_is_the_users_where_the_shape_has_none_inside():
    """So that who counts the turns which are missing counts none."""
    led = [system("s"), assistant("a")]
    assert insert_turns(led, STRICT) is led
    assert settled(*led, wire=STRICT) == "user: s\nassistant: a"


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
    done = settled(
        call("f", id="a"), user("b"), result("x", "1"), orphans="drop", missing=MissingTexts("gone")
    )
    assert done == "assistant: -> f() #a\ntool #a failed: gone\nuser: b"
    assert MISSING.result in settled(call("f", id="a"), user("b"))


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
    assert settled(*history, wire=STRICT, missing=MissingTexts("gone")).split("\n") == [
        "user: s",
        "assistant: -> f() #a",
        "user #a failed: gone",
        "assistant: -> tool(note=[Tool call for tool missing]) #b",
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


# -- ids ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_a_late_result_of_a_call_whose_id_was_used_before_takes_its_place(wire):
    """The call has another id in the view by then; the caller knows nothing of it."""
    begun = [user("go"), call("f", id="a"), result("a", "1"), user("on"), call("f", id="a"), user("hurry")]
    seen = normalize(begun, shape=wire).messages
    for before in (begun, seen):
        late = [*before, assistant("ok"), result("a", "2"), result("a", "again"), assistant("done")]
        done = normalize(late, shape=wire).messages
        assert [part.text for message in done for part in message.results] == ["1", "2"]
        assert normalize(done, shape=wire).messages is done


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


@pytest.mark.slow
def test_many_calls_with_one_id_take_linear_work():
    def make_work(size):
        history = [message for _ in range(size) for message in (call("f", id="a"), result("a", "x"))]
        return lambda: make_call_ids_unique(history, ANTHROPIC)

    assert len({call.id for message in make_work(100)() for call in message.calls}) == 100
    assert_linear(make_work, 300)


# -- parts -------------------------------------------------------------------------------------------------


def test_a_message_in_which_nothing_changed_is_the_same_object():
    message = user("a", "b")
    assert map_parts(message, lambda part: part) is message
    empty = user()
    assert map_parts(empty, lambda part: None) is empty


def test_a_changed_part_makes_a_new_message_with_the_other_parts_as_they_are():
    message = user("a", "b", id="m1", pinned=True)
    done = map_parts(message, lambda part: Text("c") if part.text == "b" else part)
    assert done == user("a", "c", id="m1", pinned=True)
    assert done.parts[0] is message.parts[0]
    assert message == user("a", "b", id="m1", pinned=True)


def test_an_equal_part_that_is_another_object_counts_as_changed():
    message = user("a")
    assert map_parts(message, lambda part: Text("a")) is not message


def test_none_takes_a_part_out():
    message = assistant(thinking("hm"), "said")
    assert map_parts(message, lambda part: None if isinstance(part, Thinking) else part) == assistant("said")


def test_a_result_says_something_else_and_keeps_the_rest():
    old = result_part("c1", "long", image(), name="read", is_error=True)
    assert replace_result_text(old, "short") == result_part("c1", "short", name="read", is_error=True)


def test_a_compaction_of_another_provider_takes_nothing_with_it():
    """Only the format that it was read from starts at a signed block, or lets one be first."""
    others = [formats.get(name) for name in ("openai", "responses")]
    claude, google = formats.get("anthropic"), formats.get("gemini")
    block = {"type": "compaction", "content": "what was said", "signature": "s"}
    asked, compacted = {"role": "user", "content": "go"}, {"role": "assistant", "content": [block]}
    for wire in (*others, google):
        late = normalize(claude.parse([asked, compacted, asked]), shape=wire.shape).messages
        assert "go" in late[0].text
        assert len(late) == 3
    first = normalize(claude.parse([compacted, asked]), shape=google.shape).messages
    assert google.check(google.parse(google.render(first))) == []
