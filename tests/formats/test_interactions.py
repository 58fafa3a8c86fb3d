"""Steps of Gemini's Interactions API: what is read, how touched steps are written, what would be refused."""

from dataclasses import replace

import pytest
from format_functions import open_format
from wire_cases import INTERACTIONS

import refold
from refold import Document, File, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult, formats
from refold.errors import FormatError

FORMAT, parse, render, one, touched, rules = open_format("interactions")
CALL = {"type": "function_call", "id": "f1", "name": "read", "arguments": {}}
RESULT = {"type": "function_result", "call_id": "f1", "result": "x"}
SEARCH = {"type": "google_search_call", "id": "g1", "arguments": {}}
FOUND = {"type": "google_search_result", "call_id": "g1", "result": [{"search_suggestions": "y"}]}


def said(words="hi", kind="user_input"):
    return {"type": kind, "content": [{"type": "text", "text": words}]}


class TestReading:
    def test_roles_and_parts(self):
        messages = parse(INTERACTIONS)
        assert [message.role for message in messages[:8]] == [
            *("user", "user", "user", "assistant", "assistant", "assistant", "tool", "assistant")
        ]
        assert messages[2].parts[1:6] == (
            Image(data="iVBORw0K", media_type="image/png"),
            Image(url="https://example.org/a.png", extra={"resolution": "low"}),
            Document(data="JVBERi0=", media_type="application/pdf"),
            File(data="UklGRg==", media_type="audio/wav"),
            File(url="gs://b/a.mp4", media_type="video/*"),
        )
        assert messages[3].parts[0].text == "hm"
        assert messages[6].parts == (ToolResult("f1", (Text("text of a"),), name="read"),)
        assert messages[8].results[0].is_error
        assert messages[10].results[0].content == (Opaque("result", {"rows": [1, 2]}, ""),)

    def test_calls_of_googles_own_tools_are_paired(self):
        search, found = parse([SEARCH, FOUND])
        assert search.calls == (ToolCall("g1", "google_search", {}, {"type": "google_search_call"}),)
        assert found.results[0].call_id == "g1"
        assert one({"type": "new_call"}).parts == (Opaque("new_call", {"type": "new_call"}),)
        assert one({"type": "new_result"}).parts == (Opaque("new_result", {"type": "new_result"}),)

    @pytest.mark.parametrize(
        ("item", "words"),
        [
            ({"content": []}, "messages[0].type: is missing"),
            ({"type": "user_input", "content": "x"}, "messages[0].content: expected a list, found a string"),
            ({"type": "user_input", "content": [{}]}, "messages[0].content[0].type: is missing"),
            ({**CALL, "arguments": 3}, "messages[0].arguments: expected an object, found a number"),
            ({"type": "function_call", "name": "f"}, "messages[0].id: is missing"),
            ({"type": "function_result"}, "messages[0].call_id: is missing"),
        ],
    )
    def test_what_does_not_fit_is_refused_with_its_place(self, item, words):
        with pytest.raises(FormatError) as caught:
            parse([item])
        assert words in str(caught.value)

    def test_recognition_beside_responses(self):
        assert formats.detect([CALL]).name == "interactions"
        assert formats.detect([{**CALL, "call_id": "c", "arguments": "{}"}]).name == "responses"
        assert formats.detect([{"type": "file_search_call", "id": "a", "queries": []}]).name == "responses"
        assert formats.detect([{"type": "file_search_call", "id": "a"}]).name == "interactions"
        assert FORMAT.recognise({"type": 5}) == ""
        assert FORMAT.recognise({"type": "thought", "role": "x"}) == ""


class TestWriting:
    def test_touched_steps_keep_what_was_not_touched(self):
        read = parse([CALL, RESULT, SEARCH, FOUND, INTERACTIONS[2], {"type": "user_input"}])
        longer = replace(read[0], parts=(replace(read[0].calls[0], arguments={"a": 1}),))
        cleared = replace(read[1], parts=(replace(read[1].results[0], content=(Text("[cleared]"),)),))
        found = replace(read[3], parts=(replace(read[3].results[0], content=(Text("[cleared]"),)),))
        kept = replace(read[4], parts=(*read[4].parts, Text("more")))
        empty = replace(read[5], parts=())
        assert render([longer, cleared, found, kept, empty]) == [
            {**CALL, "arguments": {"a": 1}},
            {**RESULT, "result": "[cleared]"},
            {**FOUND, "result": []},
            {**INTERACTIONS[2], "content": [*INTERACTIONS[2]["content"], {"type": "text", "text": "more"}]},
            {"type": "user_input"},
        ]
        assert render([replace(read[5], role="assistant")]) == [{"type": "model_output"}]

    def test_a_result_that_is_an_object_stays_one(self):
        read = one(INTERACTIONS[10])
        failed = replace(read, parts=(replace(read.results[0], is_error=True),))
        assert render([failed]) == [INTERACTIONS[10]]

    def test_parts_in_lists_keep_their_values(self):
        read = one(INTERACTIONS[8])
        result = read.results[0]
        again = replace(read, parts=(replace(result, content=(*result.content, Text("y"))),))
        assert render([again])[0]["result"] == [*INTERACTIONS[8]["result"], {"type": "text", "text": "y"}]
        assert render([replace(read, parts=(*read.parts,))]) == [INTERACTIONS[8]]

    def test_new_messages(self):
        messages = [
            Message("user", (Text("a"), Image(data="aQ==", media_type="image/png"), Image(url="u"))),
            Message(
                "assistant",
                (Thinking("t", signature="s"), Thinking("u"), Text("b"), ToolCall("1", "f", "{}")),
            ),
            Message("tool", (ToolResult("1", (), is_error=True),)),
            Message("system", "rule"),
            Message("assistant", (Thinking("u"),)),
            Message("user", (Opaque("thought", INTERACTIONS[4]), Opaque("x", {"type": "x"}), Opaque("y", 1))),
            Message("user", (File(data="aQ==", media_type="audio/wav"), File(data="aQ==", media_type="x/y"))),
            Message("user", (Document(text="words"),)),
            Message("user"),
        ]
        assert render(messages) == [
            {
                "type": "user_input",
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "image", "data": "aQ==", "mime_type": "image/png"},
                    {"type": "image", "uri": "u"},
                ],
            },
            {"type": "thought", "signature": "s"},
            said("b", "model_output"),
            {"type": "function_call", "id": "1", "name": "f", "arguments": {}},
            {"type": "function_result", "call_id": "1", "result": "[no content]", "is_error": True},
            said("rule"),
            INTERACTIONS[4],
            {"type": "user_input", "content": [{"type": "x"}, {"type": "text", "text": "y: 1"}]},
            {
                "type": "user_input",
                "content": [
                    {"type": "audio", "data": "aQ==", "mime_type": "audio/wav"},
                    {"type": "text", "text": "[file]"},
                ],
            },
            said("words"),
            said("[no content]"),
        ]

    def test_a_new_partner_has_the_type_of_its_tool(self):
        search, found = parse([SEARCH, FOUND])
        assert render([search, Message("tool", (ToolResult("g1", (Text("x"),)),))]) == [
            SEARCH,
            {"type": "google_search_result", "call_id": "g1", "result": []},
        ]
        call = Message("assistant", (ToolCall("g1", "google_search", {"note": "x"}),))
        assert render([call, found])[0] == {
            "type": "google_search_call",
            "id": "g1",
            "arguments": {"note": "x"},
        }

    def test_a_dead_call_of_googles_own_tools_gets_a_result_of_its_kind(self):
        calls = [
            {"type": "file_search_call", "id": "a"},
            {"type": "url_context_call", "id": "b", "arguments": {}},
        ]
        mended = refold.repair([*calls, said()], "interactions").messages
        assert mended[2:4] == [
            {"type": "file_search_result", "call_id": "a"},
            {"type": "url_context_result", "call_id": "b", "result": []},
        ]

    def test_a_step_that_became_something_else_is_written_anew(self):
        read = one(CALL)
        assert render([replace(read, parts=(Text("x"),))]) == [said("x", "model_output")]
        mixed = replace(one(said()), parts=(Text("x"), ToolCall("1", "f", {})), role="assistant")
        assert render([mixed]) == [
            said("x", "model_output"),
            {"type": "function_call", "id": "1", "name": "f", "arguments": {}},
        ]
        listed = Message("tool", (ToolResult("1", (Opaque("result", [1]),)),))
        assert render([listed])[0]["result"] == [{"type": "text", "text": "result: [1]"}]


def test_rules():
    assert rules(said(), CALL, RESULT, SEARCH, FOUND, said("ok", "model_output")) == []
    assert rules(said(), RESULT) == [(1, "result-without-call")]
    assert rules(said(), CALL, said()) == [(1, "call-without-result")]
    assert rules(said(), CALL, CALL) == [(2, "duplicate-call-id"), (2, "open-call")]


@pytest.mark.slow
def test_a_long_history_is_counted_and_folded():
    steps = [said("hi " * 500), said("out " * 500, "model_output")] * 8
    outcome = refold.compact(steps, window=2_000)
    assert outcome.tokens_before > 5_000
    assert outcome.fits
    assert refold.validate(outcome.messages) == []
    session = refold.open("i", store="memory:", window=2_000)
    ready = session.prepare(steps)
    assert ready.fold
    assert session.recall_tool()["type"] == "function"
    session.unfold(ready.fold)
    assert session.view() == steps
