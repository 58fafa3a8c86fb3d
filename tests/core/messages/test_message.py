"""Messages and parts as values."""

import copy
import inspect
import pickle
from dataclasses import MISSING, FrozenInstanceError, fields, replace

import pytest

from refold import (
    Budget,
    Document,
    File,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    measure,
)
from refold.testing import assistant, call_part, calls, result, result_part, summary, thinking, user


def test_a_string_becomes_one_text_part():
    assert Message("user", "hi").parts == (Text("hi"),)


def test_a_single_part_becomes_a_tuple():
    assert Message("user", Text("hi")).parts == (Text("hi"),)


def test_strings_among_parts_become_text_parts():
    picture = Image(url="https://example.org/a.png")
    assert Message("user", ["look", picture]).parts == (Text("look"), picture)


def test_a_tuple_of_parts_is_kept_as_the_very_object():
    """An untouched message is known by the identity of its parts."""
    parts = (Text("hi"),)
    assert Message("user", parts).parts is parts


@pytest.mark.parametrize("kind", [Message, Text, Thinking, ToolCall, ToolResult])
def test_a_value_is_made_of_its_fields_in_their_order(kind):
    """Their constructors are written for speed."""
    for (name, taken), field in zip(inspect.signature(kind).parameters.items(), fields(kind), strict=True):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        assert (name, taken.default) == (field.name, default)
        assert (taken.kind is inspect.Parameter.KEYWORD_ONLY) == field.kw_only


def test_an_empty_message_has_no_parts():
    assert Message("assistant").parts == ()
    assert Message("assistant").text == ""


def test_the_text_of_a_message_joins_its_text_parts_by_newlines():
    message = assistant(thinking("hm"), "one", call_part("f", id="c1"), "two")
    assert message.text == "one\ntwo"


def test_the_text_of_a_message_of_one_text_is_that_text():
    text = "the very string"
    assert user(text).text is text


def test_the_text_of_a_single_part_that_is_no_text_is_empty():
    assert assistant(thinking("hm")).text == ""
    assert calls(call_part("f")).text == ""


def test_the_text_of_a_result_joins_its_text_parts():
    assert result_part("c1", "a", Image(url="u"), "b").text == "a\nb"
    assert result_part("c1", Image(url="u")).text == ""


def test_the_text_of_a_result_has_the_words_of_documents_and_data():
    parts = (Document(text="page"), Document(title="d"), Opaque("rows", [1, {"a": "é"}], ""), Opaque("k", 5))
    assert result_part("c1", "a", *parts).text == 'a\npage\n[1, {"a": "é"}]'


@pytest.mark.parametrize(
    ("value", "path", "text"),
    [
        ({"content": [{"text": "a"}, {"image": 1}, {"text": "b"}]}, "content.*.text", "a\nb"),
        ({"content": "one text"}, "content.*.text", "one text"),
        ({"content": {"text": "a"}}, "content.*.text", ""),
        ({"output": None}, "output", ""),
        ({}, "output", ""),
        (7, "output", ""),
        (3, "", ""),
        ({"a": 1}, None, ""),
        ({"json": {"a": 1}}, "json", '{"a": 1}'),
    ],
)
def test_the_words_of_an_opaque_part_stand_at_its_path(value, path, text):
    assert result_part("c1", Opaque("k", value, path)).text == text


def test_calls_and_results_are_given_in_order():
    first, second = call_part("f", id="1"), call_part("g", id="2")
    assert calls("text", first, second).calls == (first, second)
    assert calls("text", first, second).results == ()
    one, two = result_part("1", "a"), result_part("2", "b")
    message = user(one, "text", two)
    assert message.results == (one, two)
    assert message.calls == ()


def test_a_user_turn_is_a_user_message_that_answers_no_call():
    assert user("hi").is_user_turn
    assert user().is_user_turn
    assert not assistant("hi").is_user_turn
    assert not user(result_part("c1", "x")).is_user_turn
    assert not user("and by the way", result_part("c1", "x")).is_user_turn
    assert not result("c1", "x").is_user_turn


def test_a_summary_is_known_by_its_source():
    assert summary("what was").is_summary
    assert not user("what was").is_summary
    assert not user("what was", source="elsewhere").is_summary


def test_messages_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        user("hi").role = "system"


def test_the_wire_value_takes_no_part_in_equality():
    read = replace(user("hi"), wire="the value it was read from")
    assert user("hi") == read
    assert "read from" not in repr(read)


def test_messages_with_other_fields_differ():
    assert user("hi") != user("hi", pinned=True)
    assert user("hi") != user("hi", id="m1")
    assert user("hi") != assistant("hi")


@pytest.mark.parametrize(
    "part",
    [
        Text("a"),
        Image(url="u"),
        Document(text="d"),
        File(name="f"),
        Thinking("t", signature="s"),
        ToolCall("c1", "f", "{}"),
        ToolResult("c1", (Text("r"),)),
        Opaque("new", "x"),
    ],
)
def test_parts_are_values_that_hash_compare_copy_and_pickle(part):
    assert part == copy.deepcopy(part) == pickle.loads(pickle.dumps(part))
    assert hash(part) == hash(copy.deepcopy(part))


def test_facts_that_nobody_gave_are_an_empty_mapping_that_nobody_can_change():
    empty = user("hi").meta
    assert len(empty) == 0
    assert list(empty) == []
    assert dict(empty) == {}
    assert empty == {}
    assert empty.get("key") is None
    assert repr(empty) == "{}"
    assert hash(empty) == hash(copy.deepcopy(empty))
    with pytest.raises(KeyError, match="key"):
        empty["key"]
    with pytest.raises(TypeError):
        empty["key"] = 1


@pytest.mark.parametrize(
    "value", [Message("user", "hi"), Text("a"), call_part("c1"), result_part("c1"), Budget]
)
def test_a_value_with_one_other_field_is_what_dataclasses_make_of_it(value):
    value = measure([{"role": "user", "content": "hi"}], window=1_000) if value is Budget else value
    assert value.__replace__() == value
    for field in fields(value):
        other = getattr(value, field.name)
        changed = {field.name: () if field.name == "parts" else other if other is None else type(other)()}
        assert value.__replace__(**changed) == replace(value, **changed)
    with pytest.raises(TypeError):
        value.__replace__(unknown=1)


def test_a_value_with_another_field_is_checked_as_a_new_one_and_frozen():
    made = Message("user", "hi").__replace__(parts="ho")
    assert made.parts == (Text("ho"),)
    with pytest.raises(FrozenInstanceError):
        made.role = "assistant"
