"""The builders and checks that are offered to people who test."""

import asyncio

import pytest

from refold import (
    Answer,
    Ask,
    Document,
    File,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.errors import AnswerFailed
from refold.testing import (
    PIXEL,
    Scripted,
    assistant,
    call,
    call_part,
    calls,
    image,
    loose_ends,
    result,
    result_part,
    shape,
    summary,
    system,
    thinking,
    user,
    waiting_calls,
)

# -- builders ----------------------------------------------------------------------------------------------


def test_words_of_each_role():
    assert user("hi") == Message("user", (Text("hi"),))
    assert assistant("hi") == Message("assistant", (Text("hi"),))
    assert system("hi") == Message("system", (Text("hi"),))
    assert user() == Message("user")
    assert user("a", image(), "b").parts == (Text("a"), image(), Text("b"))
    assert user("hi", id="m1", pinned=True) == Message("user", "hi", id="m1", pinned=True)


def test_a_summary_is_marked_as_one():
    made = summary("was", generation=3)
    assert (made.role, made.text, made.is_summary) == ("user", "was", True)
    assert made.meta == {"kind": "summary", "generation": 3}
    assert summary("ok", role="assistant", kind="ack").meta == {"kind": "ack"}


def test_a_call_has_arguments_by_name_and_an_id():
    assert call("read", path="a.py") == Message("assistant", (ToolCall("c1", "read", {"path": "a.py"}),))
    assert call("read", id="x").calls[0].id == "x"
    assert call("read", tool="t", name="n").calls[0].arguments == {"tool": "t", "name": "n"}


def test_several_calls_are_numbered_by_their_place():
    made = calls("ok", call_part("f"), call_part("g", id="x"), call_part("h"), pinned=True)
    assert [part.id for part in made.calls] == ["c1", "x", "c3"]
    assert (made.role, made.text, made.pinned) == ("assistant", "ok", True)


def test_results_stand_in_messages_of_either_role():
    assert result("c1", "out") == Message("tool", (ToolResult("c1", (Text("out"),)),))
    assert result("c1", "out", image(), role="user", name="read") == Message(
        "user", (ToolResult("c1", (Text("out"), image()), name="read"),)
    )
    assert result_part("c1", is_error=True) == ToolResult("c1", (), is_error=True)


def test_thinking_is_signed_unless_told():
    assert thinking("hm") == Thinking("hm", signature="signed")
    assert thinking("hm", signature=None) == Thinking("hm")


def test_a_picture_is_inline_or_by_address():
    assert image() == Image(data=PIXEL, media_type="image/png")
    assert image(url="https://example.org/a.png") == Image(url="https://example.org/a.png")


# -- the shape of a conversation ---------------------------------------------------------------------------


def test_one_line_a_message():
    history = [
        system("You help."),
        user("what is\nin a.py?"),
        calls("let me see", call_part("read", path="a.py", lines=3), call_part("ls", id="x")),
        result("c1", "x = 1"),
        user(result_part("x", "a", image(), is_error=True), "and?", pinned=True),
        assistant(thinking("easy"), "One line."),
        summary("was"),
        user(),
        Message("assistant", "S", source="summarization"),
    ]
    assert shape(history).split("\n") == [
        "system: You help.",
        "user: what is\\nin a.py?",
        "assistant: let me see | -> read(path=a.py, lines=3) #c1 | -> ls() #x",
        "tool #c1: x = 1",
        "user (pinned) #x failed: a + [image image/png] | and?",
        "assistant: (thinks easy) | One line.",
        "user (summary): was",
        "user:",
        "assistant (summarization): S",
    ]


def test_every_kind_of_part_is_shown():
    message = user(
        Document(title="paper"),
        Document(media_type="application/pdf"),
        File(name="a.wav"),
        File(media_type="audio/wav"),
        Opaque("server_tool", {}),
        image(url="https://example.org/a.png"),
        Image(file_id="f1"),
    )
    assert shape([message]) == (
        "user: [document paper] | [document application/pdf] | [file a.wav] | [file audio/wav]"
        " | [server_tool] | [image https://example.org/a.png] | [image f1]"
    )


def test_arguments_are_shown_as_text_or_by_name():
    assert shape([assistant(ToolCall("1", "f", '{"a": 1}'))]) == 'assistant: -> f({"a": 1}) #1'
    assert shape([call("f", a={"b": None})]) == 'assistant: -> f(a={"b": null}) #c1'


def test_long_texts_are_cut_to_a_limit():
    assert shape([user("x" * 80)]) == "user: " + "x" * 80
    assert shape([user("x" * 81)]) == "user: " + "x" * 77 + "..."
    assert shape([user("x" * 20)], limit=10) == "user: xxxxxxx..."


# -- loose ends --------------------------------------------------------------------------------------------


def test_loose_ends_are_named_in_order_and_open_calls_are_none():
    history = [result("a", "x"), call("f", id="b"), user("hm"), call("g", id="c")]
    assert loose_ends(history) == ["0: result #a without its call", "1: call #b without its result"]
    assert loose_ends([call("f"), result("c1", "x")]) == []


# -- the scripted model ------------------------------------------------------------------------------------


def test_a_script_is_said_line_by_line_and_the_last_line_for_ever():
    model = Scripted(["a", "b"])
    assert [model(Ask("1")), model(Ask("2")), model(Ask("3"))] == ["a", "b", "b"]
    assert model.asked == ["1", "2", "3"]


def test_one_line_is_a_script():
    answer = Answer(text="a", finish="length")
    assert Scripted("a")(Ask("1")) == "a"
    assert Scripted(answer)(Ask("1")) is answer


def test_a_script_may_tell_it_to_raise():
    model = Scripted([TimeoutError("slow"), "b"])
    with pytest.raises(TimeoutError, match="slow"):
        model(Ask("1"))
    assert model(Ask("2")) == "b"
    assert len(model.asked) == 2


def test_an_empty_script_says_that_nobody_was_to_ask():
    model = Scripted()
    with pytest.raises(AnswerFailed, match="should not have been asked"):
        model(Ask("1"))
    assert model.asked == ["1"]


def test_a_scripted_model_may_tell_its_window():
    assert Scripted("a").window is None
    assert Scripted("a", window=1_000).window == 1_000


def test_a_scripted_model_can_be_awaited():
    model = Scripted("a")
    assert asyncio.run(model.later(Ask("1"))) == "a"
    assert model.asked == ["1"]


def test_calls_wait_while_only_results_of_their_unit_stand_behind_them():
    both = calls(call_part("read", id="a"), call_part("bash", id="b"))
    assert [call.id for call in waiting_calls([user("go"), both, result("a", "x")])] == ["b"]
    assert waiting_calls([both, user("stop")]) == []
