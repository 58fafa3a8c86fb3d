"""Anthropic messages: what is read, how touched messages are written, what would be refused."""

from dataclasses import replace

import pytest
from format_functions import open_format
from wire_cases import ANTHROPIC

import refold
from refold import Document, File, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from refold.errors import FormatError
from sample_sizes import sample

FORMAT, parse, render, one, touched, rules = open_format("anthropic")


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def use(call_id, given=None):
    return {"type": "tool_use", "id": call_id, "name": "read", "input": {} if given is None else given}


def result(call_id, content="ok"):
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def text(words="hi"):
    return {"type": "text", "text": words}


def test_the_shape_says_what_anthropic_takes():
    shape = FORMAT.shape
    assert (shape.name, shape.results_in_user, shape.system_inside, shape.starts_with_user) == (
        "anthropic",
        True,
        False,
        True,
    )
    assert (shape.allows_empty, shape.alternates) == (False, True)


class TestReading:
    def test_string_and_block_content(self):
        assert one(ANTHROPIC[0]).parts == (Text("hi"),)
        assert one(ANTHROPIC[1]).parts == (Text("ok", {"citations": None}),)
        assert one({"role": "user", "content": ""}).parts == ()
        assert one({"role": "user", "content": None}).parts == ()

    def test_media(self):
        assert one(ANTHROPIC[2]).parts == (
            Text("cached", {"cache_control": {"type": "ephemeral", "ttl": "1h"}}),
            Image(data="iVBORw0K", media_type="image/png"),
            Image(url="https://example.org/a.png"),
            Image(file_id="file_1"),
            Document(text="words", media_type="text/plain", title="A", extra={"context": "c"}),
            Document(data="JVBERi0=", media_type="application/pdf"),
            Document(url="https://example.org/a.pdf"),
            File(file_id="file_2"),
            Opaque("document", ANTHROPIC[2]["content"][8], "source.content.*.text"),
            Opaque("search_result", ANTHROPIC[2]["content"][9], "content.*.text"),
            Opaque("container_upload", ANTHROPIC[2]["content"][10]),
        )

    def test_a_turn_of_the_assistant(self):
        message = one(ANTHROPIC[3])
        assert message.id == "msg_1"
        assert message.parts == (
            Thinking("hm", signature="c2ln"),
            Thinking("", redacted="b3BhcXVl"),
            Text("reading"),
            Opaque("server_tool_use", ANTHROPIC[3]["content"][3]),
            Opaque("web_search_tool_result", ANTHROPIC[3]["content"][4]),
            Opaque("compaction", ANTHROPIC[3]["content"][5]),
            ToolCall("t1", "read", {"path": "a.py"}),
            ToolCall("t2", "list", {}, {"cache_control": None}),
            ToolCall("t3", "bare", {}),
        )

    def test_results(self):
        message = one(ANTHROPIC[4])
        assert message.role == "user"
        assert not message.is_user_turn
        assert message.parts == (
            ToolResult("t1", (Text("text"),)),
            ToolResult(
                "t2",
                (
                    Text("x"),
                    Image(url="u"),
                    Opaque("tool_reference", ANTHROPIC[4]["content"][1]["content"][2]),
                ),
                is_error=True,
                extra={"cache_control": {"type": "ephemeral"}},
            ),
            ToolResult("t3", ()),
            Text("go on"),
        )
        assert one(user(result("t", ""))).results == (ToolResult("t", ()),)
        assert one(user({**result("t"), "is_error": None})).results == (ToolResult("t", (Text("ok"),)),)

    def test_text_as_input_is_what_a_stream_left_behind(self):
        assert one(assistant(use("t", "{broken"))).calls == (ToolCall("t", "read", "{broken"),)

    def test_a_misplaced_system_message_and_an_unknown_role(self):
        assert one(ANTHROPIC[8]).role == "system"
        assert one(ANTHROPIC[9]).parts == (Opaque("role:oracle", ANTHROPIC[9]),)

    def test_ids_that_are_no_text_are_not_taken(self):
        assert one({"role": "user", "content": "x", "id": 5}).id is None
        assert one({"role": "user", "id": "m"}).id == "m"

    @pytest.mark.parametrize(
        ("item", "path"),
        [
            ({"content": "x"}, ".role"),
            ({"role": None, "content": "x"}, ".role"),
            ({"role": "user", "content": 5}, ".content"),
            (user("x"), ".content[0]"),
            (user(text(), {"type": "text"}), ".content[1].text"),
            (user({"type": "image"}), ".content[0].source"),
            (user({"type": "image", "source": {"data": 5}}), ".content[0].source.data"),
            (user({"type": "document", "source": "x"}), ".content[0].source"),
            (user({"type": "document", "source": {"file_id": 5}}), ".content[0].source.file_id"),
            (user({"type": "document", "source": {"data": 5}}), ".content[0].source.data"),
            (user({"type": "document", "source": {"url": 5}}), ".content[0].source.url"),
            (user({"type": "document", "source": {}, "title": 5}), ".content[0].title"),
            (
                user({"type": "document", "source": {"type": "text", "data": "x", "media_type": 5}}),
                ".content[0].source.media_type",
            ),
            (user({"type": "tool_result"}), ".content[0].tool_use_id"),
            (user(result("t", 5)), ".content[0].content"),
            (user(result("t", [5])), ".content[0].content[0]"),
            (user(result("t", [text(), {"type": "text", "text": 5}])), ".content[0].content[1].text"),
            (assistant({"type": "tool_use", "name": "x"}), ".content[0].id"),
            (assistant({"type": "tool_use", "id": "x"}), ".content[0].name"),
            (assistant(use("t", 5)), ".content[0].input"),
            (assistant(use("t", [])), ".content[0].input"),
            (assistant({"type": "thinking"}), ".content[0].thinking"),
            (assistant({"type": "thinking", "thinking": "x", "signature": 5}), ".content[0].signature"),
            (assistant({"type": "redacted_thinking"}), ".content[0].data"),
        ],
    )
    def test_wrong_types_are_refused_with_the_exact_path(self, item, path):
        with pytest.raises(FormatError) as caught:
            parse([item])
        assert caught.value.path == f"messages[0]{path}"


class TestTouched:
    def test_a_new_text_for_a_string_is_a_string(self):
        item = {"role": "user", "content": "long", "x": 1}
        assert touched(one(item), Text("short")) == {"role": "user", "content": "short", "x": 1}

    def test_one_result_of_many_is_cleared_and_the_others_are_the_same_objects(self):
        message = one(ANTHROPIC[4])
        first, second, *rest = message.parts
        out = touched(message, first, replace(second, content=(second.content[2], Text("[image]"))), *rest)[
            "content"
        ]
        assert out[1] == {
            "type": "tool_result",
            "tool_use_id": "t2",
            "content": [{"type": "tool_reference", "tool_name": "z"}, {"type": "text", "text": "[image]"}],
            "is_error": True,
            "cache_control": {"type": "ephemeral"},
        }
        assert out[1]["content"][0] is ANTHROPIC[4]["content"][1]["content"][2]
        assert [out[index] is ANTHROPIC[4]["content"][index] for index in (0, 2, 3)] == [True, True, True]

    def test_a_cleared_result_is_a_string_and_an_empty_one_has_no_content(self):
        message = one(user(result("t", [text("long")])))
        (part,) = message.parts
        assert touched(message, replace(part, content=(Text("[cleared]"),))) == user(result("t", "[cleared]"))
        assert touched(message, replace(part, content=())) == user(
            {"type": "tool_result", "tool_use_id": "t"}
        )

    def test_shortened_arguments(self):
        message = one(assistant({**use("t", {"x": "long"}), "y": 1}))
        (part,) = message.parts
        assert touched(message, replace(part, arguments={"x": "…"})) == assistant(
            {**use("t", {"x": "…"}), "y": 1}
        )
        assert touched(message, replace(part, arguments='{"x": 2}')) == assistant(
            {**use("t", {"x": 2}), "y": 1}
        )
        assert touched(message, replace(part, arguments="{broken")) == assistant(
            {**use("t", {"_raw": "{broken"}), "y": 1}
        )
        assert touched(message, replace(part, arguments="[1]")) == assistant(
            {**use("t", {"_raw": "[1]"}), "y": 1}
        )
        assert touched(message, replace(part, arguments=" ")) == assistant({**use("t"), "y": 1})

    def test_thinking_is_written_whole_or_not_at_all(self):
        """House, law 7."""
        message = one(ANTHROPIC[3])
        assert touched(message, *message.parts[2:])["content"] == ANTHROPIC[3]["content"][2:]
        thinking, redacted = message.parts[:2]
        assert touched(message, Thinking("x", signature="s"), redacted)["content"] == [
            {"type": "thinking", "thinking": "x", "signature": "s"},
            ANTHROPIC[3]["content"][1],
        ]
        assert touched(message, Thinking("x", redacted="d"), thinking)["content"][0] == {
            "type": "redacted_thinking",
            "data": "d",
        }
        assert touched(message, Thinking("x"), thinking)["content"] == [ANTHROPIC[3]["content"][0]]

    def test_nothing_left_is_said(self):
        """Wire facts, Anthropic: no empty text."""
        message = one({"role": "user", "content": "x"})
        for parts in ((), (Text(""),), (Text(" \n"),), (Text(""), Text(" "))):
            assert touched(message, *parts) == {"role": "user", "content": "[no content]"}
        assert touched(message, Text(""), Text("y")) == user(text("y"))

    def test_roles_may_change(self):
        message = one({"role": "system", "content": "x"})
        assert touched(message, *message.parts, role="user") == {"role": "user", "content": "x"}
        assert touched(message, *message.parts, role="assistant") == {"role": "assistant", "content": "x"}
        assert touched(message, Text("y")) == {"role": "system", "content": "y"}

    def test_a_message_of_an_unknown_role_is_not_taken_apart(self):
        assert touched(one(ANTHROPIC[9]), *one(ANTHROPIC[9]).parts, Text("x"))["content"] == [
            text("[oracle left out]"),
            text("x"),
        ]


class TestBuilt:
    def test_text_of_each_role(self):
        """Shape: a system message inside the history is written as a user message."""
        ours = [
            Message("system", "s"),
            Message("user", "u"),
            Message("assistant", "a"),
            Message("tool", "t"),
            Message("user", ()),
        ]
        assert render(ours) == [
            {"role": "user", "content": "s"},
            {"role": "user", "content": "u"},
            {"role": "assistant", "content": "a"},
            {"role": "user", "content": "t"},
            {"role": "user", "content": "[no content]"},
        ]

    def test_results_of_one_group_stand_in_one_message(self):
        ours = [Message("tool", (ToolResult(name, (Text(name),)),)) for name in "abc"]
        assert render(ours) == [user(result("a", "a"), result("b", "b"), result("c", "c"))]

    def test_results_come_first(self):
        ours = Message("user", (Text("x"), ToolResult("a", (Text("1"),)), ToolResult("b", (Text("2"),))))
        assert render([ours]) == [user(result("a", "1"), result("b", "2"), text("x"))]

    def test_results_of_ours_join_the_results_before_them(self):
        item = user(result("a"), text())
        before = user(*item["content"])
        out = render(
            [
                one(item),
                Message("tool", (ToolResult("b", (Text("1"),)),)),
                Message("tool", (ToolResult("c", (Text("2"),)),)),
            ]
        )
        assert out == [user(result("a"), result("b", "1"), result("c", "2"), text())]
        assert item == before

    def test_results_of_ours_join_the_results_behind_them(self):
        item = {**user(result("a"), text()), "x": 1}
        out = render([Message("tool", (ToolResult("b", (Text("1"),)),)), one(item), Message("user", "u")])
        assert out == [
            {**user(result("b", "1"), result("a"), text()), "x": 1},
            {"role": "user", "content": "u"},
        ]
        assert item == {**user(result("a"), text()), "x": 1}

    def test_results_of_ours_leave_other_messages_alone(self):
        ours = Message("tool", (ToolResult("b", (Text("1"),)),))
        words = {"role": "user", "content": "u"}
        blocks = user(text())
        assert render([one(words), ours, one(blocks), ours]) == [
            words,
            user(result("b", "1")),
            blocks,
            user(result("b", "1")),
        ]
        assert render([one({"role": "user"}), ours]) == [{"role": "user"}, user(result("b", "1"))]

    def test_calls_have_objects(self):
        ours = Message("assistant", (Text(""), ToolCall("a", "f", '{"x": 1}'), ToolCall("b", "g")))
        assert render([ours]) == [
            assistant(
                {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
                {"type": "tool_use", "id": "b", "name": "g", "input": {}},
            )
        ]

    def test_ids_of_others_are_made_fit_on_both_sides(self):
        ours = [
            Message("assistant", (ToolCall("functions.f:0", "f"), ToolCall("", "f"))),
            Message("tool", (ToolResult("functions.f:0", ()), ToolResult("", ()))),
        ]
        out = render(ours)
        assert [block["id"] for block in out[0]["content"]] == ["functions_f_0", "_"]
        assert [block["tool_use_id"] for block in out[1]["content"]] == ["functions_f_0", "_"]

    def test_ids_that_were_read_here_are_kept(self):
        out = render([one(assistant(use("a.b"))), Message("tool", (ToolResult("a.b", ()),))])
        assert out[1]["content"][0]["tool_use_id"] == "a.b"

    def test_media(self):
        parts = (
            Image(data="aQ==", media_type="image/gif"),
            Image(data="aQ=="),
            Image(url="u", extra={"cache_control": 1}),
            Image(file_id="f"),
            Image(),
            Document(text="words", title="t"),
            Document(text="words", media_type="text/html"),
            Document(data="JV"),
            Document(url="d"),
            Document(title="lost"),
            File(file_id="g"),
            File(name="film", data="x"),
            Opaque("new", {"type": "new"}),
            Opaque("odd", 5),
            Text("t", {"x": 1}),
        )
        assert render([Message("user", parts)])[0]["content"] == [
            {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "aQ=="}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aQ=="}},
            {"type": "image", "source": {"type": "url", "url": "u"}, "cache_control": 1},
            {"type": "image", "source": {"type": "file", "file_id": "f"}},
            text("[image]"),
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "words"},
                "title": "t",
            },
            {"type": "document", "source": {"type": "text", "media_type": "text/html", "data": "words"}},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JV"}},
            {"type": "document", "source": {"type": "url", "url": "d"}},
            text("[document lost]"),
            {"type": "document", "source": {"type": "file", "file_id": "g"}},
            text("[file film]"),
            {"type": "new"},
            text("[odd left out]"),
            {**text("t"), "x": 1},
        ]

    def test_reasoning_that_cannot_be_written_is_not_a_message(self):
        ours = [
            Message("assistant", (Thinking("hm"),)),
            Message("assistant", (Thinking("hm", signature="s", extra={"x": 1}),)),
        ]
        assert render(ours) == [assistant({"type": "thinking", "thinking": "hm", "signature": "s", "x": 1})]


class TestCheck:
    def test_a_valid_history_has_no_problem(self):
        assert (
            rules(
                user(text()),
                assistant(use("a"), use("b")),
                user(result("b"), result("a"), text()),
                assistant(text()),
            )
            == []
        )

    def test_the_first_message_is_from_the_user(self):
        assert rules(assistant(text())) == [(0, "first-not-user")]
        assert rules({"role": "system", "content": "s"}, assistant(text())) == [
            (0, "system-inside"),
            (1, "first-not-user"),
        ]
        ours = [Message("system", "s"), Message("assistant", "a")]
        assert FORMAT.check(ours) == []
        assert [problem.rule for problem in FORMAT.check(ours[1:])] == ["first-not-user"]

    def test_neighbours_of_one_role_are_one_message(self):
        """Wire facts, Anthropic: neighbours of one role are merged, so they are no problem."""
        assert (
            rules(
                user(text()),
                user(text()),
                assistant(text()),
                assistant(use("a")),
                user(result("a")),
                user(text()),
            )
            == []
        )
        assert rules(user(text()), assistant(use("a"), use("b")), user(result("a")), user(result("b"))) == []

    def test_results_come_first(self):
        assert rules(user(text()), assistant(use("a")), user(text(), result("a"))) == [
            (2, "results-not-first")
        ]
        assert rules(user(text()), assistant(use("a")), user(text()), user(result("a"))) == [
            (3, "results-not-first")
        ]
        assert rules(user(text()), assistant(use("a"), use("b")), user(result("a"), text(), result("b"))) == [
            (2, "results-not-first")
        ]

    def test_results_stand_right_behind(self):
        late = (user(text()), assistant(use("a")), user(text()), assistant(text()), user(result("a")))
        assert rules(*late) == [(4, "results-not-adjacent")]

    def test_pairs(self):
        assert rules(user(result("a"))) == [(0, "result-without-call")]
        assert rules(user(text()), assistant(use("a")), user(text()), assistant(text())) == [
            (1, "call-without-result")
        ]
        assert rules(user(text()), assistant(use("a")), user(result("a"), result("a"))) == [
            (2, "duplicate-result")
        ]
        assert rules(user(text()), assistant(use("a"))) == [(1, "open-call")]

    def test_ids_are_unique_in_the_whole_history_and_of_allowed_characters(self):
        again = (user(text()), assistant(use("a")), user(result("a")), assistant(use("a")), user(result("a")))
        assert rules(*again) == [(3, "duplicate-call-id")]
        assert rules(user(text()), assistant(use("a.b")), user(result("a.b"))) == [(1, "invalid-call-id")]
        assert rules(user(text()), assistant(use("a\n")), user(result("a\n"))) == [(1, "invalid-call-id")]

    def test_empty_contents(self):
        assert rules({"role": "user", "content": ""}, assistant(), user(text())) == [
            (0, "empty-content"),
            (1, "empty-content"),
        ]
        assert rules(user(text()), {"role": "assistant", "content": ""}) == []
        assert rules({"role": "user", "content": []}) == [(0, "empty-content")]

    def test_empty_texts(self):
        assert rules(user(text("")), assistant(text(" \n")), user(text("x"))) == [
            (0, "empty-text"),
            (1, "empty-text"),
        ]

    def test_thinking_has_its_signature(self):
        thinking = {"type": "thinking", "thinking": "hm"}
        assert rules(user(text()), assistant(thinking, text())) == [(1, "thinking-without-signature")]
        signed = assistant({**thinking, "signature": "s"}, {"type": "redacted_thinking", "data": "d"}, text())
        assert rules(user(text()), signed) == []

    def test_blocks_stand_in_the_right_role(self):
        assert rules(user(use("a")), user(result("a"))) == [(0, "wrong-role"), (1, "results-not-first")]
        assert rules(user(text()), assistant(use("a")), assistant(result("a"))) == [(2, "wrong-role")]

    def test_input_is_an_object(self):
        assert rules(user(text()), assistant(use("a", "text")), user(result("a"))) == [
            (1, "invalid-arguments")
        ]

    def test_roles_are_known(self):
        assert rules(user(text()), {"role": "oracle"}) == [(1, "unknown-role")]


class TestRecognise:
    @pytest.mark.parametrize(
        ("item", "path"),
        [
            (assistant(text(), use("a")), ".content[1]"),
            (user(result("a")), ".content[0]"),
            (assistant({"type": "thinking", "thinking": "x"}), ".content[0]"),
            (assistant({"type": "redacted_thinking"}), ".content[0]"),
            (user({"type": "image", "source": {}}), ".content[0]"),
            (user({"type": "document", "source": {}}), ".content[0]"),
            (assistant({"type": "server_tool_use"}), ".content[0]"),
            (assistant({"type": "web_search_tool_result"}), ".content[0]"),
            (assistant({"type": "compaction"}), ".content[0]"),
            (ANTHROPIC[10], ".content[0]"),
        ],
    )
    def test_evidence(self, item, path):
        assert FORMAT.recognise(item) == path

    @pytest.mark.parametrize(
        "item",
        [
            "x",
            user(
                text(),
                5,
                {"type": 5},
                {"type": "image"},
                {"type": "image", "source": "s"},
                {"type": "thinking", "thinking": []},
            ),
            {"role": "user", "content": "x"},
            {"role": "user", "content": [use("a")], "parts": []},
        ],
    )
    def test_no_evidence(self, item):
        assert FORMAT.recognise(item) == ""


def compaction(content="what was said", **fields):
    return {"type": "compaction", "content": content, **fields}


class TestProvidersOwnCompaction:
    def test_it_may_be_first(self):
        first = [assistant(compaction(signature="s")), user(text())]
        assert rules(*first) == []
        assert refold.repair(first, "anthropic").messages == first
        ready = refold.open("n", store="memory:", window="100k", format="anthropic").prepare(first)
        assert ready.messages == first

    def test_a_failed_one_is_no_beginning_and_no_second_one(self):
        assert rules(assistant(compaction(None)), user(text())) == [(0, "first-not-user")]
        blocks = [assistant(compaction(signature="s")), user(text()), assistant(compaction(None), text())]
        assert rules(*blocks) == []

    def test_by_threshold_it_stands_anywhere_and_more_than_once(self):
        assert (
            rules(user(text()), assistant(compaction(), text()), user(text()), assistant(compaction())) == []
        )
        assert rules(user(compaction())) == [(0, "compaction-misplaced")]

    def test_repair_starts_at_the_last_signed_one(self):
        late = [user(text()), assistant(compaction("old", signature="s")), user(text())]
        late += [assistant(compaction("new", signature="s")), user(text("now?"))]
        assert rules(*late) == [(1, "compaction-ambiguous"), (3, "compaction-misplaced")]
        assert refold.repair(late, "anthropic").messages == late[3:]


class TestSystemMessagesInside:
    CHANGES = (
        {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "f"}},
        {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "g"}},
    )

    def test_behind_a_users_turn_and_before_a_reply_or_last(self):
        rule = {"role": "system", "content": "Be brief.", "clear_at": "next_user_message"}
        history = [user(text()), rule, assistant(text()), user(text()), rule]
        assert rules(*history) == []
        ready = refold.open("s", store="memory:", window="100k", format="anthropic").prepare(history)
        assert ready.messages == history
        for wrong in ([rule, user(text())], [user(text()), rule, user(text())], [user(text()), rule, rule]):
            assert "system-inside" in {rule for _, rule in rules(*wrong)}
        assert rules(user(text()), assistant(text()), rule) == [(2, "system-inside")]

    def test_changes_of_tools_and_settings(self):
        assert rules(user(text()), {"role": "system", "content": list(self.CHANGES)}) == []
        settings = {"role": "system", "output_config": {"effort": "low"}}
        assert rules(user(text()), settings, assistant(text())) == []
        assert rules(user(text()), {"role": "system"}) == [(1, "empty-content")]
        (message,) = parse([settings])
        assert render([message]) == [settings]
        assert render([replace(message, parts=(*message.parts, Text("and")))]) == [
            {**settings, "content": "and"}
        ]

    @pytest.mark.slow
    def test_after_a_fold_they_are_still_the_operators(self):
        session = refold.open("f", store="memory:", window=3_000, format="anthropic")
        history = []
        for turn in range(30):
            history.append(user(text(f"step {turn} " + "look here. " * 60)))
            if turn in (2, 9):
                history.append({"role": "system", "content": f"rule {turn}", "clear_at": "never"})
            if turn in (5, 10):
                history.append({"role": "system", "content": "once", "clear_at": "next_user_message"})
            ready = session.prepare(history)
            assert refold.validate(ready.messages, "anthropic") == []
            history.append(assistant(text(f"answer {turn} " + "done. " * 60)))
        assert len(session.folds()) >= 3
        (kept,) = [message for message in ready.messages if message["role"] == "system"]
        assert kept["clear_at"] == "never"
        assert [block["text"] for block in kept["content"]] == ["rule 2", "rule 9"]

    def test_in_the_wrong_place_they_move_or_become_the_users(self):
        rule = {"role": "system", "content": "Be brief."}
        once = {**rule, "clear_at": "next_user_message"}
        first, reply = user(text()), assistant(text())

        def repaired(*items):
            return list(refold.repair(items, "anthropic").messages)

        assert repaired(first, rule, first, reply) == [first, first, rule, reply]
        assert repaired(first, once, first, reply) == [first, first, reply]
        for late in (rule, once):
            assert repaired(first, reply, late) == [first, reply, {**rule, "role": "user"}]
        assert repaired(rule, first) == [{**rule, "role": "user"}, first]
        assert repaired(first, reply, rule, reply, first) == [first, reply, reply, first, rule]
        both = {"role": "system", "content": [text("Be brief."), text("Be brief.")]}
        assert repaired(first, rule, rule, reply) == [first, both, reply]
        assert repaired(first, rule, once, reply, first) == [first, rule, reply, first]
        assert repaired(first, once, once, reply, first) == [first, {**once, **both}, reply, first]
        assert repaired(first, rule, once, reply) == [first, both, reply]
        assert repaired(first, once, rule) == [first, both]

    def test_an_order_for_one_turn_is_there_while_its_turn_is_open(self):
        """What is sent does not depend on when the messages came."""

        def rule(words, **fields):
            return {"role": "system", "content": words, **fields}

        def sent(session, *items):
            return session.prepare([user(text()), *items]).messages[1:]

        first, blocks, settings = rule("a"), rule([text("b")], clear_at="never"), {"output_config": {"x": 1}}
        once, effort = rule("now", clear_at="next_user_message"), {"role": "system", **settings}
        effort_once = {**effort, "clear_at": "next_user_message"}
        for given, open_turn, later in [
            ([once, first], rule([text("now"), text("a")]), first),
            ([blocks, once], {**blocks, "content": [text("b"), text("now")]}, blocks),
            ([once, once], {**once, "content": [text("now")] * 2}, {**once, "content": [text("now")] * 2}),
            ([first, effort_once], rule("a", **settings), first),
            ([effort, once], {**effort, "content": "now"}, effort),
            ([effort, effort_once], effort, effort),
            ([first, first], rule([text("a")] * 2), rule([text("a")] * 2)),
            (
                [first, once, blocks],
                {**blocks, "content": [text("a"), text("now"), text("b")]},
                {**blocks, "content": [text("a"), text("b")]},
            ),
        ]:
            next_turn = [*given, assistant(text()), user(text())]
            by_turn, at_once = (refold.open(n, store="memory:", format="anthropic") for n in "ab")
            assert sent(by_turn, *given) == [open_turn]
            for session in (by_turn, at_once):
                assert sent(session, *next_turn) == [later, *next_turn[-2:]]
                assert not session.folds()
        grown = refold.open("c", store="memory:", format="anthropic")
        sent(grown, first, once)
        assert sent(grown, first, once, blocks) == [
            {**blocks, "content": [text("a"), text("now"), text("b")]}
        ]
        assert sent(grown, first, once, blocks, assistant(text()), user(text()))[0] == {
            **blocks,
            "content": [text("a"), text("b")],
        }


@pytest.mark.slow
def test_a_call_stays_with_the_program_that_made_it():
    """Code that the provider runs calls tools of the caller, one after another; each call names the code."""
    text = "the parser reads config.toml and fails with error 503, then it tries again. "
    items = [{"role": "user", "content": f"hi {text}"}]
    for turn in range(6):
        caller = {"type": "code_execution_20250825", "tool_id": f"s{turn}"}
        code = [
            {"type": "server_tool_use", "id": f"s{turn}", "name": "code_execution", "input": {"code": "f()"}}
        ]
        for number in range(3):
            call = {"type": "tool_use", "id": f"t{turn}-{number}", "name": "f", "input": {}, "caller": caller}
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": text * 8}
            items += [{"role": "assistant", "content": [*code, call]}, {"role": "user", "content": [result]}]
            code = []
        done = {
            "type": "code_execution_result",
            "stdout": text,
            "stderr": "",
            "return_code": 0,
            "content": [],
        }
        block = {"type": "code_execution_tool_result", "tool_use_id": f"s{turn}", "content": done}
        items += [
            {"role": "assistant", "content": [block]},
            {"role": "user", "content": f"Turn {turn}: {text}"},
        ]
    for end in (len(items), len(items) - 2, len(items) - 4):
        for target in sample(range(300, 3_000, 100), 6):
            view = refold.compact(items[:end], target=target, window=100_000).messages
            blocks = [
                block for item in view if isinstance(item["content"], list) for block in item["content"]
            ]
            made = {block["id"] for block in blocks if block["type"] == "server_tool_use"}
            assert {block["caller"]["tool_id"] for block in blocks if "caller" in block} <= made


SEARCH = {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"query": "refold"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv1", "content": []}
ANSWER = {"type": "text", "text": "So it is."}
THOUGHT = {"type": "thinking", "thinking": "Where is it?", "signature": "c2ln"}
HELLO = user({"type": "text", "text": "hi"})


class TestOwnTools:
    """Anthropic runs some tools by itself, and refuses a result without its call."""

    @pytest.mark.parametrize(
        "history",
        [
            [HELLO, assistant(SEARCH, FOUND, ANSWER), HELLO],
            [HELLO, assistant(SEARCH)],  # the turn is paused
            [HELLO, assistant(SEARCH), assistant(FOUND, ANSWER), HELLO],
            [
                HELLO,
                assistant(SEARCH, {**use("t1"), "caller": {"type": "code", "tool_id": "srv1"}}),
                user(result("t1")),
            ],
            [
                HELLO,
                assistant(SEARCH, {**use("t1"), "caller": {"type": "code", "tool_id": "srv1"}}),
                user(result("t1")),
                assistant(FOUND, ANSWER),
                HELLO,
            ],
            [
                HELLO,
                assistant(SEARCH, use("t1")),
                user(result("t1"), {"type": "text", "text": "go on"}),
                assistant(FOUND),
            ],
        ],
    )
    def test_calls_with_their_results_and_those_that_wait_stay(self, history):
        assert refold.validate(history, "anthropic") == []
        assert refold.repair(history, "anthropic").messages == history
        session = refold.open("own", store="memory:", window="100k", format="anthropic")
        assert session.prepare(history).messages == history

    @pytest.mark.parametrize(
        ("broken", "left", "rule"),
        [
            (
                [HELLO, assistant(FOUND, ANSWER), HELLO],
                [HELLO, assistant(ANSWER), HELLO],
                "result-without-call",
            ),
            (
                [HELLO, assistant(SEARCH, ANSWER), HELLO],
                [HELLO, assistant(ANSWER), HELLO],
                "call-without-result",
            ),
            ([HELLO, assistant(FOUND), assistant(ANSWER)], [HELLO, assistant(ANSWER)], "result-without-call"),
            (
                [HELLO, assistant(FOUND), assistant(SEARCH, ANSWER)],
                [HELLO, assistant(SEARCH, ANSWER)],
                "result-without-call",
            ),
            ([HELLO, assistant(THOUGHT, SEARCH), HELLO], [HELLO, HELLO], "call-without-result"),
            (
                [HELLO, assistant(THOUGHT, ANSWER, THOUGHT, SEARCH), HELLO],
                [HELLO, assistant(THOUGHT, ANSWER), HELLO],
                "call-without-result",
            ),
            (
                [HELLO, assistant(ANSWER, THOUGHT), assistant(THOUGHT), assistant(SEARCH), HELLO],
                [HELLO, assistant(ANSWER), HELLO],
                "call-without-result",
            ),
            (
                [HELLO, assistant(THOUGHT), assistant(FOUND), assistant(ANSWER), assistant(THOUGHT)],
                [HELLO, assistant(THOUGHT), assistant(ANSWER), assistant(THOUGHT)],  # it may lead to more
                "result-without-call",
            ),
            (
                [HELLO, assistant({"type": "mcp_tool_result", "tool_use_id": "m", "content": []}, ANSWER)],
                [HELLO, assistant(ANSWER)],
                "result-without-call",
            ),
        ],
    )
    def test_a_block_without_its_partner_leaves(self, broken, left, rule):
        assert [problem.rule for problem in refold.validate(broken, "anthropic")] == [rule]
        assert refold.repair(broken, "anthropic").messages == left
        session = refold.open("own", store="memory:", window="100k", format="anthropic")
        assert session.prepare(broken).messages == left
        assert session.original("#2") == [broken[1]]

    @pytest.mark.parametrize("wrong", [None, 1, ["srv1"], {"id": "srv1"}])
    def test_an_id_that_is_no_text_names_nothing(self, wrong):
        for broken, left in (
            (assistant(SEARCH, {**FOUND, "tool_use_id": wrong}, ANSWER), assistant(SEARCH, ANSWER)),
            (assistant({**SEARCH, "id": wrong}, ANSWER), assistant({**SEARCH, "id": wrong}, ANSWER)),
        ):
            assert refold.repair([HELLO, broken], "anthropic").messages == [HELLO, left]
            session = refold.open("own", store="memory:", window="100k", format="anthropic")
            assert session.prepare([HELLO, broken]).messages == [HELLO, left]

    def test_a_turn_that_was_stopped_goes_on_without_its_search(self):
        """The user stops the answer while Anthropic searches, and says something else."""
        session = refold.open("stopped", store="memory:", window="100k", format="anthropic")
        history = [HELLO, assistant(ANSWER, SEARCH)]
        assert session.prepare(history).messages == history
        sent = session.prepare([*history, HELLO]).messages
        assert sent == [HELLO, assistant(ANSWER), HELLO]
        again = session.prepare([*history, HELLO, assistant(ANSWER), HELLO])
        assert again.messages == [*sent, assistant(ANSWER), HELLO]
