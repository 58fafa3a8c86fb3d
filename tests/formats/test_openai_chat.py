"""OpenAI chat: what is read, how touched messages are written, what would be refused."""

import json
from dataclasses import replace

import pytest
from format_functions import open_format
from wire_cases import CHAT

from refold import Document, File, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult, formats
from refold.errors import FormatError

FORMAT, parse, render, one, touched, rules = open_format("openai")


def call(call_id, name="read", arguments="{}"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def asks(*calls, content=None):
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def answers(call_id, content="ok"):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


USER = {"role": "user", "content": "hi"}


class TestReading:
    @pytest.mark.parametrize(
        ("word", "role"),
        [
            ("system", "system"),
            ("developer", "system"),
            ("user", "user"),
            ("assistant", "assistant"),
            ("tool", "tool"),
            ("function", "tool"),
        ],
    )
    def test_roles(self, word, role):
        assert one({"role": word, "content": "x", "name": "n"}).role == role

    def test_string_content_is_one_text(self):
        message = one({"role": "user", "content": "hi"})
        assert message.parts == (Text("hi"),)
        assert message.wire.raws == ()

    @pytest.mark.parametrize(
        "item",
        [
            {"role": "user", "content": None},
            {"role": "user", "content": []},
            {"role": "user"},
        ],
    )
    def test_absent_content_is_no_part(self, item):
        assert one(item).parts == ()

    def test_empty_text_is_a_text(self):
        """The provider takes it, so there is nothing to mend."""
        assert one({"role": "user", "content": ""}).parts == (Text(""),)

    def test_blocks(self):
        parts = one(CHAT[7]).parts
        assert parts == (
            Text("order of keys"),
            Image(url="https://example.org/a.png", detail="low"),
            Image(data="iVBORw0K", media_type="image/png"),
            Image(url="https://example.org/plain.png"),
            File(data="UklGRg==", media_type="audio/wav"),
            File(file_id="file-1"),
            Document(title="a.pdf", data="JVBERi0=", media_type="application/pdf"),
            Document(title="b.txt", data="bare"),
            Opaque("hologram", {"type": "hologram", "payload": [1, 2, 3]}),
        )

    def test_unknown_fields_of_a_block_are_its_extra(self):
        assert one(CHAT[1]).parts == (Text("Be brief.", {"cache_control": {"type": "ephemeral"}}),)
        image = {"type": "image_url", "image_url": {"url": "u"}, "x": 1}
        assert one({"role": "user", "content": [image]}).parts == (Image(url="u", extra={"x": 1}),)

    def test_calls(self):
        assert one(CHAT[8]).parts == (
            ToolCall("c1", "read", '{"path": "a.py"}'),
            ToolCall("c2", "list", "{}", {"index": 1, "function": {"strict": True}}),
            ToolCall("c3", "sql", "SELECT 1", {"type": "custom"}),
            Opaque("telepathy", {"id": "c4", "type": "telepathy", "telepathy": {}}),
        )

    def test_a_call_without_arguments_has_empty_text(self):
        assert one(asks({"id": "c", "function": {"name": "f"}})).calls == (ToolCall("c", "f", ""),)

    def test_arguments_may_be_an_object(self):
        """Some local servers send the object instead of its text."""
        assert one(asks(call("c", arguments={"a": 1}))).calls[0].arguments == {"a": 1}

    def test_a_tool_message_is_one_result(self):
        first, second, third = parse(CHAT[9:12])
        assert first.parts == (ToolResult("c1", (Text("text of a.py"),)),)
        assert second.parts == (ToolResult("c2", (Text("a.py"),), name="list"),)
        assert second.name == "list"
        assert third.parts == (ToolResult("c3", (Text(""),)),)

    def test_the_old_form_is_paired_by_name_and_order(self):
        old = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
        result = {"role": "function", "name": "f", "content": "x"}
        messages = parse([old, result, old, result])
        assert [part.id for message in messages for part in message.calls] == ["f#0", "f#1"]
        assert [part.call_id for message in messages for part in message.results] == ["f#0", "f#1"]

    def test_calls_without_ids_are_named_by_position(self):
        """Ollama's shape: no ids, objects as arguments, `tool_name` beside the result."""
        items = [
            asks({"function": {"name": "a", "arguments": {}}}, {"function": {"name": "b", "arguments": {}}}),
            {"role": "tool", "tool_name": "b", "content": "2"},
            {"role": "tool", "content": "1"},
        ]
        messages = parse(items)
        assert [part.id for part in messages[0].calls] == ["a#0", "b#1"]
        assert [message.results[0].call_id for message in messages[1:]] == ["b#1", "a#0"]
        assert render([replace(message, parts=(*message.parts,)) for message in messages]) == items

    def test_reasoning_is_thinking_before_the_content(self):
        assert one(CHAT[16]).parts == (
            Thinking("hm", extra={"reasoning_details": [{"type": "x"}]}),
            Text("thought"),
        )
        assert one({"role": "assistant", "content": "x", "reasoning": "r"}).parts[0] == Thinking("r")
        assert one({"role": "assistant", "content": "x", "reasoning_details": [1]}).parts[0] == Thinking(
            "", extra={"reasoning_details": [1]}
        )
        assert one({"role": "assistant", "content": "x", "reasoning": {"effort": "low"}}).parts == (
            Text("x"),
        )
        assert one({"role": "user", "content": "x", "reasoning_content": "r", "tool_calls": 5}).parts == (
            Text("x"),
        )

    def test_refusals_are_text(self):
        assert one(CHAT[14]).text == "I cannot."
        assert one(CHAT[15]).text == "No.\nbut"

    def test_names_and_ids(self):
        message = one({"role": "user", "content": "x", "name": "ada", "id": "m1"})
        assert (message.name, message.id) == ("ada", "m1")
        assert one({"role": "user", "content": "x", "id": 5}).id is None

    @pytest.mark.parametrize(
        ("role", "nearest"),
        [("critic", "user"), ("model", "assistant"), ("AI", "assistant"), ("human", "user")],
    )
    def test_an_unknown_role_is_carried_whole_as_the_nearest(self, role, nearest):
        item = {"role": role, "content": "x", "name": 5}
        message = one(item)
        assert message.role == nearest
        assert message.parts == (Opaque(f"role:{role}", item),)
        assert render([message, replace(message, role="user")]) == [item, item]

    @pytest.mark.parametrize(
        ("item", "path"),
        [
            ({}, ".role"),
            ({"role": 5}, ".role"),
            ({"role": []}, ".role"),
            ({"role": "user", "content": 5}, ".content"),
            ({"role": "user", "content": {"type": "text"}}, ".content"),
            ({"role": "user", "content": ["x"]}, ".content[0]"),
            (
                {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "text"}]},
                ".content[1].text",
            ),
            ({"role": "user", "content": [{"type": "text", "text": None}]}, ".content[0].text"),
            ({"role": "user", "content": [{"type": "refusal"}]}, ".content[0].refusal"),
            ({"role": "user", "content": [{"type": "image_url"}]}, ".content[0].image_url"),
            (
                {"role": "user", "content": [{"type": "image_url", "image_url": {}}]},
                ".content[0].image_url.url",
            ),
            (
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u", "detail": 1}}]},
                ".content[0].image_url.detail",
            ),
            (
                {"role": "user", "content": [{"type": "input_audio", "input_audio": 1}]},
                ".content[0].input_audio",
            ),
            (
                {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": 1}}]},
                ".content[0].input_audio.data",
            ),
            (
                {"role": "user", "content": [{"type": "input_audio", "input_audio": {"format": 1}}]},
                ".content[0].input_audio.format",
            ),
            ({"role": "user", "content": [{"type": "file", "file": "x"}]}, ".content[0].file"),
            (
                {"role": "user", "content": [{"type": "file", "file": {"file_id": 1}}]},
                ".content[0].file.file_id",
            ),
            ({"role": "user", "content": "x", "name": 5}, ".name"),
            ({"role": "user", "name": 5}, ".name"),
            ({"role": "assistant", "content": 5}, ".content"),
            ({"role": "assistant", "content": [3]}, ".content[0]"),
            ({"role": "assistant", "refusal": 5}, ".refusal"),
            ({"role": "assistant", "tool_calls": "x"}, ".tool_calls"),
            ({"role": "assistant", "tool_calls": [5]}, ".tool_calls[0]"),
            ({"role": "assistant", "tool_calls": [{}]}, ".tool_calls[0].function"),
            ({"role": "assistant", "tool_calls": [{"function": {}}]}, ".tool_calls[0].function.name"),
            (
                {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 5}}]},
                ".tool_calls[0].function.arguments",
            ),
            (
                {"role": "assistant", "tool_calls": [{"id": 5, "function": {"name": "f"}}]},
                ".tool_calls[0].id",
            ),
            (
                {"role": "assistant", "tool_calls": [{"type": "custom", "custom": {"name": "f"}}]},
                ".tool_calls[0].custom.input",
            ),
            (
                {"role": "assistant", "tool_calls": [{"type": "custom", "custom": {}}]},
                ".tool_calls[0].custom.name",
            ),
            ({"role": "assistant", "tool_calls": [{"type": "custom"}]}, ".tool_calls[0].custom"),
            ({"role": "assistant", "function_call": "f"}, ".function_call"),
            ({"role": "assistant", "function_call": {"arguments": "{}"}}, ".function_call.name"),
            (
                {"role": "assistant", "function_call": {"name": "f", "arguments": []}},
                ".function_call.arguments",
            ),
            ({"role": "tool", "content": "x", "tool_call_id": 5}, ".tool_call_id"),
            ({"role": "tool", "content": 5, "tool_call_id": "c"}, ".content"),
            ({"role": "tool", "content": [5], "tool_call_id": "c"}, ".content[0]"),
            ({"role": "tool", "content": "x", "name": []}, ".name"),
        ],
    )
    def test_wrong_types_are_refused_with_the_exact_path(self, item, path):
        with pytest.raises(FormatError) as caught:
            parse([USER, item])
        assert caught.value.path == f"messages[1]{path}"
        assert "expected" in str(caught.value)

    def test_the_error_says_what_was_found(self):
        with pytest.raises(FormatError, match=r"^messages\[0\]\.content: expected a list, found a number$"):
            parse([{"role": "user", "content": 5}])
        with pytest.raises(FormatError, match=r"^messages\[0\]\.role: is missing; expected a string$"):
            parse([{"content": "x"}])


class TestTouched:
    def test_a_new_text_for_a_string_is_a_string(self):
        assert touched(one({"role": "user", "content": "long", "x": 1}), Text("short")) == {
            "role": "user",
            "content": "short",
            "x": 1,
        }

    def test_more_than_one_text_is_a_list(self):
        message = one({"role": "user", "content": "a"})
        assert touched(message, *message.parts, Text("b"))["content"] == [
            {"type": "text", "text": "a"},
            {"type": "text", "text": "b"},
        ]

    def test_a_text_with_fields_of_its_own_is_a_block(self):
        message = one(CHAT[1])
        assert touched(message, Text("less", message.parts[0].extra))["content"] == [
            {"type": "text", "text": "less", "cache_control": {"type": "ephemeral"}}
        ]

    def test_parts_that_were_not_touched_are_the_same_objects(self):
        item = CHAT[7]
        message = one(item)
        out = touched(message, Text("[image]"), *message.parts[2:])["content"]
        assert out[0] == {"type": "text", "text": "[image]"}
        assert all(left is right for left, right in zip(out[1:], item["content"][2:], strict=True))

    def test_only_the_result_that_changed_is_written_anew(self):
        item = {
            "role": "tool",
            "tool_call_id": "c",
            "content": [{"type": "text", "text": "a", "x": 1}, {"type": "text", "text": "b"}],
            "y": 2,
        }
        message = one(item)
        (result,) = message.results
        out = touched(message, replace(result, content=(result.content[0], Text("short"))))
        assert out == {
            "role": "tool",
            "tool_call_id": "c",
            "content": [{"type": "text", "text": "a", "x": 1}, {"type": "text", "text": "short"}],
            "y": 2,
        }
        assert out["content"][0] is item["content"][0]

    def test_a_cleared_result_is_a_string(self):
        message = one(answers("c", "long"))
        assert touched(message, replace(message.parts[0], content=(Text("[cleared]"),))) == answers(
            "c", "[cleared]"
        )
        assert touched(message, replace(message.parts[0], content=())) == answers("c", "")

    def test_a_result_may_get_another_id_or_lose_its_name(self):
        message = one({"role": "tool", "name": "f", "tool_call_id": "c", "content": "x"})
        assert touched(message, replace(message.parts[0], call_id="d"), name=None) == answers("d", "x")

    def test_media_in_a_result_become_text(self):
        message = one(answers("c"))
        out = touched(message, replace(message.parts[0], content=(Image(url="u"), Text("t"))))
        assert out["content"] == [{"type": "text", "text": "[image u]"}, {"type": "text", "text": "t"}]

    def test_a_result_that_became_something_else_is_written_as_that(self):
        message = one(answers("c"))
        assert touched(message, Text("said")) == {"role": "user", "content": "said"}
        assert touched(message, *message.parts, role="user") == answers("c")

    def test_calls_that_left_leave_no_empty_list(self):
        message = one(asks(call("c"), content="so"))
        assert touched(message, message.parts[0]) == {"role": "assistant", "content": "so"}
        assert touched(message, message.parts[1]) == {
            "role": "assistant",
            "content": None,
            "tool_calls": [call("c")],
        }
        assert touched(message) == {"role": "assistant", "content": ""}

    def test_null_content_stays_null(self):
        message = one(asks(call("c"), call("d")))
        assert touched(message, message.parts[1]) == asks(call("d"))

    def test_shortened_arguments_keep_everything_else_of_the_call(self):
        message = one(CHAT[8])
        out = touched(
            message,
            message.parts[0],
            replace(message.parts[1], arguments={"path": "…"}),
            replace(message.parts[2], arguments="S"),
        )
        assert out["tool_calls"] == [
            CHAT[8]["tool_calls"][0],
            {
                "id": "c2",
                "type": "function",
                "function": {"name": "list", "arguments": '{"path": "…"}', "strict": True},
                "index": 1,
            },
            {"id": "c3", "type": "custom", "custom": {"name": "sql", "input": "S"}},
        ]
        assert list(out) == list(CHAT[8])

    def test_ids_made_from_a_position_are_not_written(self):
        message = one(asks({"function": {"name": "f", "arguments": "{}"}}))
        assert touched(message, replace(message.parts[0], arguments="{}"))["tool_calls"] == [
            {"type": "function", "function": {"name": "f", "arguments": "{}"}}
        ]

    def test_a_real_id_that_looks_like_one_is_written(self):
        message = one(asks(call("read#0")))
        assert touched(message, replace(message.parts[0], arguments=""))["tool_calls"] == [call("read#0")]

    def test_the_old_form_stays_the_old_form(self):
        message = one(CHAT[18])
        assert touched(message, replace(message.parts[0], arguments='{"a": 1}')) == {
            "role": "assistant",
            "content": None,
            "function_call": {"name": "old", "arguments": '{"a": 1}'},
        }
        assert touched(message) == {"role": "assistant", "content": None}
        assert touched(message, *message.parts, Text("and"))["function_call"] is CHAT[18]["function_call"]

    def test_a_result_of_ours_for_an_old_call_is_a_function_message(self):
        old = one(CHAT[18])
        ours = Message("tool", (ToolResult("old#0", (Text("gone"),), name="old"),))
        assert render([old, ours])[1] == {"role": "function", "name": "old", "content": "gone"}
        nameless = Message("tool", (ToolResult("old#0", (Text("gone"),)),))
        assert render([old, nameless])[1]["name"] == "old"

    def test_dropped_reasoning_leaves_nothing_behind(self):
        message = one(CHAT[16])
        assert touched(message, message.parts[1]) == {"role": "assistant", "content": "thought"}

    def test_reasoning_is_verbatim_or_absent(self):
        """House, law 7: a thinking part that was changed is left out."""
        message = one(CHAT[16])
        assert touched(message, Thinking("shortened"), message.parts[1]) == {
            "role": "assistant",
            "content": "thought",
        }
        assert touched(message, message.parts[0], Text("new")) == {**CHAT[16], "content": "new"}

    def test_a_dropped_refusal_is_null(self):
        message = one(CHAT[14])
        assert touched(message, Text("x")) == {"role": "assistant", "content": "x", "refusal": None}
        assert touched(message, replace(message.parts[0], text="No!")) == {
            "role": "assistant",
            "content": [{"type": "refusal", "refusal": "No!"}],
            "refusal": None,
        }

    def test_fields_of_a_user_message_that_only_mean_something_elsewhere_stay(self):
        item = {
            "role": "user",
            "content": "a",
            "tool_calls": [{"id": "x"}],
            "refusal": "r",
            "reasoning": "s",
            "function_call": {},
        }
        assert touched(one(item), Text("b")) == {**item, "content": "b"}

    def test_roles_and_names_may_change(self):
        message = one({"role": "developer", "content": "x", "name": "n"})
        assert touched(message, *message.parts, role="user") == {"role": "user", "content": "x", "name": "n"}
        assert touched(message, *message.parts, name="m") == {
            "role": "developer",
            "content": "x",
            "name": "m",
        }
        assert touched(message, *message.parts, name=None) == {"role": "developer", "content": "x"}
        assert render([replace(message, role="tool")]) == [{"role": "user", "content": "x", "name": "n"}]

    def test_a_result_put_into_another_message_stands_before_it(self):
        message = one(USER)
        assert render([replace(message, parts=(*message.parts, ToolResult("c", (Text("r"),))))]) == [
            answers("c", "r"),
            USER,
        ]


class TestBuilt:
    def test_text_of_each_role(self):
        ours = [
            Message("system", "s"),
            Message("user", "u", name="ada"),
            Message("assistant", "a"),
            Message("user", ()),
        ]
        assert render(ours) == [
            {"role": "system", "content": "s"},
            {"role": "user", "name": "ada", "content": "u"},
            {"role": "assistant", "content": "a"},
            {"role": "user", "content": ""},
        ]

    def test_one_tool_message_for_each_result(self):
        ours = Message("tool", (ToolResult("a", (Text("1"),)), ToolResult("b", (Text("2"), Text("3")))))
        assert render([ours]) == [answers("a", "1"), answers("b", "2\n3")]

    def test_calls_of_ours_have_json_text(self):
        ours = Message("assistant", (ToolCall("c", "f", {"é": 1}), ToolCall("d", "g")))
        assert render([ours]) == [asks(call("c", "f", '{"é": 1}'), call("d", "g", "{}"))]

    def test_arguments_that_are_no_json_are_named(self):
        (item,) = render([Message("assistant", (ToolCall("c", "f", {"x": object()}),))])
        assert json.loads(item["tool_calls"][0]["function"]["arguments"]) == {
            "_raw": "[dict that is not JSON]"
        }

    def test_calls_of_ours_behind_each_other_are_one_group(self):
        ours = [
            Message("assistant", "so"),
            Message("assistant", (ToolCall("c", "f"),)),
            Message("assistant", (ToolCall("d", "f"),)),
        ]
        assert render(ours) == [asks(call("c", "f"), call("d", "f"), content="so")]
        apart = [
            Message("assistant", (ToolCall("c", "f"),)),
            Message("assistant", (Text("x"), ToolCall("d", "f"))),
        ]
        assert render(apart) == [asks(call("c", "f")), asks(call("d", "f"), content="x")]
        assert len(render([one({"role": "assistant", "content": "read"}), ours[1]])) == 2
        assert len(render([one(USER), Message("assistant", "x"), one(USER), ours[1]])) == 4
        assert render([Message("user", "u"), ours[1]]) == [
            {"role": "user", "content": "u"},
            asks(call("c", "f")),
        ]

    def test_only_users_send_media(self):
        media = (
            Image(data="aQ==", media_type="image/gif"),
            Image(data="aQ=="),
            Image(url="u", detail="low", extra={"x": 1}),
            Image(file_id="f"),
            Document(data="JV", media_type="application/pdf", title="t"),
            Document(data="raw"),
            Document(text="words"),
            Document(url="d"),
            File(data="UQ", media_type="audio/mp3"),
            File(data="UQ", media_type="video/mp4", name="film"),
            File(file_id="file-2"),
            Opaque("new", {"type": "new"}),
            Opaque("odd", 5),
        )
        blocks = [
            {"type": "image_url", "image_url": {"url": "data:image/gif;base64,aQ=="}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aQ=="}},
            {"type": "image_url", "image_url": {"url": "u", "detail": "low"}, "x": 1},
            {"type": "text", "text": "[image f]"},
            {"type": "file", "file": {"filename": "t", "file_data": "data:application/pdf;base64,JV"}},
            {"type": "file", "file": {"filename": "document", "file_data": "raw"}},
            {"type": "text", "text": "words"},
            {"type": "text", "text": "[document d]"},
            {"type": "input_audio", "input_audio": {"data": "UQ", "format": "mp3"}},
            {"type": "text", "text": "[file film]"},
            {"type": "file", "file": {"file_id": "file-2"}},
            {"type": "new"},
            {"type": "text", "text": "odd: 5"},
        ]
        assert render([Message("user", media)])[0]["content"] == blocks
        said = render([Message("assistant", media[:5])])[0]["content"]
        assert said == [
            {"type": "text", "text": text}
            for text in ("[image]", "[image]", "[image u]", "[image f]", "[document t]")
        ]

    def test_reasoning_alone_is_not_a_message(self):
        assert render(
            [Message("assistant", (Thinking("hm"),)), Message("assistant", (Thinking("hm"), Text("so")))]
        ) == [{"role": "assistant", "content": "so"}]

    def test_a_tool_message_without_a_result_is_said_by_the_user(self):
        assert render([Message("tool", "odd")]) == [{"role": "user", "content": "odd"}]


class TestCheck:
    def test_a_valid_history_has_no_problem(self):
        assert (
            rules(
                USER,
                asks(call("a"), call("b")),
                answers("b"),
                answers("a"),
                {"role": "assistant", "content": "done"},
            )
            == []
        )

    def test_results_stand_behind_their_call(self):
        assert rules(asks(call("a")), USER, answers("a")) == [(2, "results-not-adjacent")]
        assert rules(answers("a"), asks(call("a")), answers("a")) == [(0, "result-without-call")]
        assert rules(USER, answers("x")) == [(1, "result-without-call")]

    def test_every_call_is_answered_once(self):
        assert rules(asks(call("a")), USER) == [(0, "call-without-result")]
        assert rules(asks(call("a")), answers("a"), answers("a")) == [(2, "duplicate-result")]
        assert rules(asks(call("a")), asks(call("b")), answers("b")) == [(0, "call-without-result")]

    def test_calls_at_the_very_end_are_open(self):
        assert rules(USER, asks(call("a"), call("b"))) == [(1, "open-call"), (1, "open-call")]
        assert rules(USER, asks(call("a"), call("b")), answers("a")) == [(1, "open-call")]

    def test_an_id_may_be_used_again_but_not_twice_at_once(self):
        assert rules(asks(call("a")), answers("a"), asks(call("a")), answers("a")) == []
        assert (0, "duplicate-call-id") in rules(asks(call("a"), call("a")), answers("a"))
        assert rules(asks(call("a")), USER, asks(call("a")), answers("a")) == [(0, "call-without-result")]
        assert rules(asks(call("a")), USER, asks(call("a")), USER) == [
            (0, "call-without-result"),
            (2, "call-without-result"),
        ]

    @pytest.mark.parametrize("arguments", ["{", "nope", '{"a": 1', "[" * 100_000])
    def test_arguments_are_json(self, arguments):
        assert rules(asks(call("a", arguments=arguments)), answers("a")) == [(0, "invalid-arguments")]

    @pytest.mark.parametrize("arguments", ["", " ", "{}", '{"a": "\\ud800"}', "[]"])
    def test_arguments_that_are_json_or_absent_pass(self, arguments):
        assert rules(asks(call("a", arguments=arguments)), answers("a")) == []

    def test_arguments_as_an_object_are_not_what_openai_takes(self):
        assert rules(asks(call("a", arguments={})), answers("a")) == [(0, "invalid-arguments")]

    def test_free_text_of_custom_tools_is_no_json(self):
        custom = {"id": "a", "type": "custom", "custom": {"name": "sh", "input": "ls"}}
        assert rules(asks(custom), answers("a")) == []
        extra = {**call("b", arguments="{"), "index": 1}
        assert rules(asks(custom, extra), answers("a"), answers("b")) == [(0, "invalid-arguments")]

    def test_content_is_null_only_beside_calls(self):
        assert rules({"role": "assistant", "content": None}) == [(0, "content-null-without-calls")]
        assert rules({"role": "assistant"}) == [(0, "content-null-without-calls")]
        assert rules({"role": "assistant", "content": []}) == [(0, "content-null-without-calls")]
        fine = [{"content": ""}, {"content": None, "refusal": "no"}, {"content": None, "audio": {"id": "a"}}]
        assert rules(*[{"role": "assistant", **item} for item in fine]) == []

    def test_others_need_content(self):
        assert rules(
            {"role": "user"}, {"role": "system", "content": None}, {"role": "user", "content": []}
        ) == [
            (0, "empty-content"),
            (1, "empty-content"),
            (2, "empty-content"),
        ]
        assert rules({"role": "user", "content": ""}) == []

    def test_roles_are_known(self):
        assert rules({"role": "critic"}, {"role": "system", "content": "s"}) == [(0, "unknown-role")]

    def test_messages_of_ours_are_checked_by_their_parts(self):
        ours = [Message("assistant", (ToolCall("a", "f", {}),)), Message("user", ())]
        assert [problem.rule for problem in FORMAT.check(ours)] == [
            "call-without-result",
            "invalid-arguments",
        ]

    def test_problems_say_what_is_wrong_in_few_words(self):
        (problem,) = FORMAT.check(parse([USER, answers("x" * 10_000)]))
        assert problem.message.startswith("no call before this result has the id 'xxx")
        assert len(problem.message) < 150


class TestRecognise:
    @pytest.mark.parametrize(
        ("item", "path"),
        [
            (asks(call("a")), ".tool_calls"),
            ({"role": "assistant", "tool_calls": []}, ".tool_calls"),
            (answers("a"), ".tool_call_id"),
            ({"role": "tool", "content": "x"}, ".role"),
            ({"role": "function", "name": "f", "content": "x"}, ".role"),
            (CHAT[18], ".function_call"),
            (CHAT[16], ".reasoning_content"),
            (CHAT[7], ".content[1]"),
            ({"role": "user", "content": [{"type": "file", "file": {}}]}, ".content[0]"),
        ],
    )
    def test_evidence(self, item, path):
        assert FORMAT.recognise(item) == path

    @pytest.mark.parametrize(
        "item",
        [
            5,
            USER,
            {"role": "assistant", "content": "x", "tool_calls": None, "function_call": None},
            {"role": "function", "parts": []},
            {"type": "message", "tool_calls": []},
            {"role": [], "content": 5},
            {
                "role": "user",
                "content": [5, {"type": []}, {"type": "text", "text": "x"}, {"type": "input_audio"}],
            },
        ],
    )
    def test_no_evidence(self, item):
        assert FORMAT.recognise(item) == ""


def test_parts_of_another_providers_shape_are_refused():
    """A history in Anthropic's shape is not one OpenAI takes, whoever says it is."""
    items = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "x", "input": {}}]},
    ]
    assert [(problem.index, problem.rule) for problem in FORMAT.check(FORMAT.parse(items))] == [
        (1, "foreign-part")
    ]


BARE = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}


class TestResultsOfCallsWithoutIds:
    """A result that is made for a call without an id gets none: it would be another call's in a longer list."""

    @pytest.mark.parametrize(("name", "head"), [("f", {"name": "f"}), (None, {})])
    def test_it_is_written_without_one(self, name, head):
        made = Message("tool", (ToolResult("f#0", (Text("none"),), name=name),))
        items = render([*parse([BARE]), made])
        assert items == [BARE, {"role": "tool", **head, "content": "none"}]
        assert rules(*items) == []

    def test_a_call_of_another_format_has_its_id(self):
        contents = [{"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}]
        made = Message("tool", (ToolResult("f#0", (Text("none"),), name="f"),))
        call, result = render([*formats.get("gemini").parse(contents), made])
        assert call["tool_calls"][0]["id"] == result["tool_call_id"] == "f#0"


@pytest.mark.parametrize("with_ids", [False, True])
def test_what_stands_behind_others_is_read_as_with_them(with_ids):
    def call(number):
        function = {"name": "f", "arguments": {"n": number}}
        return {"function": function, **({"id": f"c{number}", "type": "function"} if with_ids else {})}

    items = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "", "tool_calls": [call(1), call(2)]},
        {"role": "tool", "name": "f", "content": "1", **({"tool_call_id": "c1"} if with_ids else {})},
        {"role": "narrator", "tool_calls": [call(9)]},
        {"role": "tool", "name": "f", "content": "2", **({"tool_call_id": "c2"} if with_ids else {})},
        {"role": "assistant", "content": None, "function_call": {"name": "g", "arguments": "{}"}},
        {"role": "function", "name": "g", "content": "3"},
        {"role": "assistant", "content": "done"},
    ]
    chat = formats.get("openai")
    for cut in range(len(items) + 1):
        assert chat.parse_behind(items[:cut], items[cut:]) == chat.parse(items)[cut:]
