"""OpenAI Responses items: what is read, how touched items are written, what would be refused."""

import base64
import json
from dataclasses import replace

import pytest
from format_functions import open_format
from wire_cases import RESPONSES

import refold
from refold import Document, File, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from refold.errors import FormatError
from sample_sizes import sample

FORMAT, parse, render, one, touched, rules = open_format("responses")
BY_TYPE = {item.get("type", "easy"): item for item in RESPONSES}


def call(call_id="c", arguments="{}"):
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": arguments}


def output(call_id="c", text="ok"):
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def reasoning(name="rs_1"):
    return {"type": "reasoning", "id": name, "summary": []}


USER = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": "done"}


class TestReading:
    def test_messages_with_and_without_a_type(self):
        assert one(RESPONSES[0]).parts == (Text("easy message"),)
        assert one(RESPONSES[1]).role == "system"
        assert one(RESPONSES[2]).parts == (Text("hi"),)
        last = one(RESPONSES[-2])
        assert (last.role, last.id) == ("assistant", "msg_1")
        assert last.parts == (
            Text("hi", {"annotations": [], "logprobs": []}),
            Text("no", {"type": "refusal"}),
        )
        assert one(RESPONSES[-1]).parts == ()
        assert one({"role": "user", "content": ""}).parts == ()
        assert one({"role": "user", "content": [{"type": "text", "text": "x"}]}).parts == (Text("x"),)

    def test_media(self):
        assert one(RESPONSES[3]).parts == (
            Image(data="/9j/4A==", media_type="image/jpeg", detail="high"),
            Image(file_id="file-9"),
            Document(title="a.pdf", data="JVBERi0=", media_type="application/pdf"),
            Document(url="https://example.org/a.pdf"),
            File(file_id="file-1"),
            Opaque("input_audio", RESPONSES[3]["content"][5]),
        )
        plain = {"type": "input_file", "filename": "n", "file_data": "bare"}
        assert one({"role": "user", "content": [plain]}).parts == (Document(title="n", data="bare"),)

    def test_reasoning(self):
        message = one(BY_TYPE["reasoning"])
        assert (message.role, message.id) == ("assistant", "rs_1")
        extra = {"id": "rs_1", "summary": [{"type": "summary_text", "text": "thinking"}]}
        assert message.parts == (Thinking("thinking", redacted="gAAA", extra=extra),)
        both = {"type": "reasoning", "summary": [{"text": "a"}, 5, {"text": 5}], "content": [{"text": "b"}]}
        assert one(both).parts[0].text == "a\nb"
        assert one({"type": "reasoning", "summary": None}).parts == (Thinking("", extra={"summary": None}),)

    @pytest.mark.parametrize(
        ("what", "part"),
        [
            ("custom_tool_call", ToolCall("c3", "sh", "ls -l", {"type": "custom_tool_call", "id": "ctc_1"})),
            (
                "local_shell_call",
                ToolCall(
                    "c4",
                    "local_shell",
                    {"type": "exec", "command": ["ls"]},
                    {"type": "local_shell_call", "id": "lsc_1", "status": "completed"},
                ),
            ),
            ("shell_call", ToolCall("c5", "shell", {"commands": ["ls"]}, {"type": "shell_call"})),
            (
                "apply_patch_call",
                ToolCall(
                    "c6",
                    "apply_patch",
                    {"type": "delete_file", "path": "a"},
                    {"type": "apply_patch_call", "status": "completed"},
                ),
            ),
            (
                "computer_call",
                ToolCall(
                    "c7",
                    "computer",
                    {"type": "click", "x": 1, "y": 2},
                    {"type": "computer_call", "id": "cu_1", "pending_safety_checks": []},
                ),
            ),
            ("custom_tool_call_output", ToolResult("c3", (), extra={"type": "custom_tool_call_output"})),
            (
                "local_shell_call_output",
                ToolResult("c4", (Text("a.py"),), extra={"type": "local_shell_call_output", "id": "c4"}),
            ),
            ("shell_call_output", ToolResult("c5", (Text("a\nb"),), extra={"type": "shell_call_output"})),
            (
                "apply_patch_call_output",
                ToolResult(
                    "c6", (Text("ok"),), extra={"type": "apply_patch_call_output", "status": "completed"}
                ),
            ),
            (
                "computer_call_output",
                ToolResult(
                    "c7",
                    (Image(data="iVBORw0K", media_type="image/png"),),
                    extra={"type": "computer_call_output"},
                ),
            ),
        ],
    )
    def test_calls_and_outputs_of_every_tool(self, what, part):
        message = one(BY_TYPE[what])
        assert message.parts == (part,)
        assert message.role == ("tool" if what.endswith("output") else "assistant")

    def test_functions(self):
        first, second = parse(RESPONSES[5:7])
        assert first.parts == (
            ToolCall("c1", "read", '{"path": "a"}', {"id": "fc_1", "status": "completed"}),
        )
        assert second.parts == (ToolResult("c1", (Text("text"),)),)
        assert one(RESPONSES[7]).calls == (ToolCall("c2", "see", ""),)
        assert one(RESPONSES[8]).results == (ToolResult("c2", (Text("x"), Image(url="u"))),)
        assert one({**call(), "arguments": None}).calls[0].arguments == ""

    def test_tools_of_the_future_pair_by_their_call_id(self):
        assert one({"type": "dig_call", "call_id": "c", "arguments": "{}", "x": 1}).parts == (
            ToolCall("c", "dig", "{}", {"type": "dig_call", "x": 1}),
        )
        assert one({"type": "dig_call_output", "call_id": "c", "output": {"type": "gem"}}).results == (
            ToolResult("c", (Opaque("gem", {"type": "gem"}),), extra={"type": "dig_call_output"}),
        )

    @pytest.mark.parametrize(
        ("what", "role", "path"),
        [
            ("web_search_call", "assistant", None),
            ("mcp_list_tools", "assistant", "tools.*.description"),
            ("mcp_approval_request", "assistant", None),
            ("mcp_approval_response", "tool", None),
            ("mcp_call", "assistant", "output"),
            ("image_generation_call", "assistant", None),
            ("code_interpreter_call", "assistant", "outputs.*.logs"),
            ("item_reference", "assistant", None),
            ("compaction", "assistant", None),
            ("from_the_future", "assistant", None),
        ],
    )
    def test_what_has_no_partner_is_carried_whole(self, what, role, path):
        item = BY_TYPE[what]
        message = one(item)
        assert (message.role, message.parts) == (role, (Opaque(what, item, path),))
        assert render([replace(message, role="user")]) == [item]
        assert one({"type": "x_output", "output": 5}).role == "tool"

    def test_a_bare_id_is_a_reference(self):
        assert one({"id": "msg_10"}).parts == (Opaque("item_reference", {"id": "msg_10"}),)
        assert one({"id": "msg_10", "type": None}).parts[0].kind == "item_reference"

    @pytest.mark.parametrize(
        ("item", "path"),
        [
            ({}, ".role"),
            ({"id": 5}, ".role"),
            ({"id": "x", "y": 1}, ".role"),
            ({"type": "message"}, ".role"),
            ({"role": "user", "content": 5}, ".content"),
            ({"role": "user", "content": [5]}, ".content[0]"),
            ({"role": "user", "content": [{"type": "input_text"}]}, ".content[0].text"),
            ({"role": "user", "content": [{"type": "refusal", "refusal": 5}]}, ".content[0].refusal"),
            (
                {"role": "user", "content": [{"type": "input_image", "image_url": {}}]},
                ".content[0].image_url",
            ),
            ({"role": "user", "content": [{"type": "input_file", "file_data": 5}]}, ".content[0].file_data"),
            ({"type": "function_call", "name": "f"}, ".call_id"),
            ({"type": "function_call", "call_id": "c"}, ".name"),
            ({**call(), "arguments": 5}, ".arguments"),
            ({"type": "custom_tool_call_output"}, ".call_id"),
            ({"type": "custom_tool_call", "call_id": "c", "name": "n", "input": []}, ".input"),
            ({"type": "shell_call", "call_id": 5}, ".call_id"),
            ({"type": "shell_call", "call_id": "c", "action": 5}, ".action"),
            ({"type": "local_shell_call_output", "id": 5}, ".id"),
            ({**output(), "output": 5}, ".output"),
            ({**output(), "output": [5]}, ".output[0]"),
            ({**output(), "output": {"type": "input_text"}}, ".output[0].text"),
            ({"type": "reasoning", "summary": 5}, ".summary"),
            ({"type": "reasoning", "summary": [], "encrypted_content": 5}, ".encrypted_content"),
        ],
    )
    def test_wrong_types_are_refused_with_the_exact_path(self, item, path):
        with pytest.raises(FormatError) as caught:
            parse([USER, item])
        assert caught.value.path == f"messages[1]{path}"


class TestTouched:
    def test_content(self):
        message = one(RESPONSES[-2])
        assert touched(message, Text("bye")) == {**RESPONSES[-2], "content": "bye"}
        out = touched(message, message.parts[0], Text("more"), Text("No!", {"type": "refusal"}))["content"]
        assert out == [
            RESPONSES[-2]["content"][0],
            {"type": "output_text", "text": "more"},
            {"type": "refusal", "refusal": "No!"},
        ]
        assert touched(message) == {**RESPONSES[-2], "content": ""}
        asked = one(RESPONSES[2])
        assert touched(asked, *asked.parts, Text("x", {"y": 1}))["content"] == [
            {"type": "input_text", "text": "hi"},
            {"type": "input_text", "text": "x", "y": 1},
        ]

    def test_shortened_arguments_keep_everything_else(self):
        message = one(RESPONSES[5])
        assert touched(message, replace(message.parts[0], arguments={"path": "…"})) == {
            **RESPONSES[5],
            "arguments": '{"path": "…"}',
        }
        assert touched(message, replace(message.parts[0], arguments=""))["arguments"] == "{}"
        custom = one(BY_TYPE["custom_tool_call"])
        assert touched(custom, replace(custom.parts[0], arguments="")) == {
            **BY_TYPE["custom_tool_call"],
            "input": "",
        }
        shell = one(BY_TYPE["local_shell_call"])
        assert touched(shell, replace(shell.parts[0], arguments='{"a": 1}')) == {
            **BY_TYPE["local_shell_call"],
            "action": {"a": 1},
        }

    def test_outputs(self):
        message = one(RESPONSES[8])
        (part,) = message.parts
        assert touched(message, replace(part, content=(Text("[cleared]"),))) == output("c2", "[cleared]")
        out = touched(message, replace(part, content=(Text("a"), part.content[1])))
        assert out["output"] == [{"type": "input_text", "text": "a"}, RESPONSES[8]["output"][1]]
        assert out["output"][1] is RESPONSES[8]["output"][1]
        assert touched(message, replace(part, content=(), call_id="d")) == output("d", "")

    def test_outputs_of_a_shell(self):
        item = BY_TYPE["shell_call_output"]
        message = one(item)
        (part,) = message.parts
        ended = {"type": "exit", "exit_code": 1}
        assert touched(message, replace(part, content=(*part.content, Text("x")), is_error=True)) == {
            **item,
            "output": [*item["output"], {"stdout": "x", "stderr": "", "outcome": ended}],
        }

    def test_a_screenshot_that_was_taken_out_is_still_a_picture(self):
        item = BY_TYPE["computer_call_output"]
        message = one(item)
        (part,) = message.parts
        out = touched(message, replace(part, content=(Text("[image]"),)))["output"]
        assert out["type"] == "computer_screenshot"
        head, data = out["image_url"].split(",")
        assert head == "data:image/png;base64"
        assert base64.b64decode(data).startswith(b"\x89PNG\r\n")
        kept = touched(message, replace(part, content=(Image(url="u", detail="low"),)))
        assert kept["output"] == {"type": "computer_screenshot", "image_url": "u", "detail": "low"}

    def test_items_that_became_something_else_are_written_as_that(self):
        message = one(call())
        assert touched(message, Text("said")) == {"type": "message", **SAID, "content": "said"}
        assert render([replace(message, parts=(*message.parts, Text("x")))]) == [
            {"type": "message", "role": "assistant", "content": "x"},
            call(),
        ]
        said = one(SAID)
        assert render([replace(said, parts=(*said.parts, ToolCall("c", "f", "{}")))]) == [
            {"type": "message", **SAID},
            call(),
        ]

    def test_roles_may_change(self):
        message = one(RESPONSES[1])
        assert touched(message, *message.parts, role="user") == {"role": "user", "content": "also easy"}
        assert touched(message, *message.parts, role="tool") == {"role": "user", "content": "also easy"}
        assert touched(message, Text("x")) == {"role": "developer", "content": "x"}

    def test_a_message_of_an_unknown_role_is_not_taken_apart(self):
        message = one({"role": "critic", "content": "x"})
        assert touched(message, *message.parts, Text("y"))["content"] == [
            {"type": "input_text", "text": "[critic left out]"},
            {"type": "input_text", "text": "y"},
        ]


class TestBuilt:
    def test_every_item_of_a_view_has_its_type(self):
        """A caller may read the type of each item; and a view of made items alone is known by its shape."""
        said = [
            {"type": "message", **item, "content": f"{n} " * 30} for n in range(60) for item in (USER, SAID)
        ]
        view = refold.compact(said, window="2k").messages
        assert any(item not in said for item in view)
        assert {item["type"] for item in view} == {"message"}
        assert refold.validate(view) == []

    def test_text_of_each_role(self):
        ours = [
            Message("system", "s"),
            Message("user", "u"),
            Message("assistant", "a"),
            Message("tool", "t"),
            Message("user", ()),
        ]
        assert render(ours) == [
            {"type": "message", "role": role, "content": text}
            for role, text in (
                ("system", "s"),
                ("user", "u"),
                ("assistant", "a"),
                ("user", "t"),
                ("user", ""),
            )
        ]
        assert render([Message("assistant", (Text("a"), Text("b")))]) == [
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}],
            }
        ]

    def test_calls_and_results_are_items_of_their_own(self):
        ours = [
            Message("assistant", (Text("so"), ToolCall("a", "f", {"x": 1}), ToolCall("b", "g"))),
            Message("tool", (ToolResult("b", (Text("2"),)),)),
        ]
        assert render(ours) == [
            {"type": "message", "role": "assistant", "content": "so"},
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"x": 1}'},
            {"type": "function_call", "call_id": "b", "name": "g", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "b", "output": "2"},
        ]

    @pytest.mark.parametrize(
        ("what", "answer"),
        [
            ("custom_tool_call", {"type": "custom_tool_call_output", "call_id": "c3", "output": "gone"}),
            ("local_shell_call", {"type": "local_shell_call_output", "call_id": "c4", "output": "gone"}),
            (
                "shell_call",
                {
                    "type": "shell_call_output",
                    "call_id": "c5",
                    "output": [{"stdout": "gone", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}],
                },
            ),
            (
                "apply_patch_call",
                {"type": "apply_patch_call_output", "call_id": "c6", "status": "failed", "output": "gone"},
            ),
        ],
    )
    def test_a_result_of_ours_has_the_type_that_fits_its_call(self, what, answer):
        read = one(BY_TYPE[what])
        ours = Message("tool", (ToolResult(read.calls[0].id, (Text("gone"),), is_error=True),))
        assert render([read, ours])[1] == answer
        assert FORMAT.check(parse(render([read, ours]))) == []

    def test_a_result_of_ours_is_written_as_its_type_wants(self):
        patched = ToolResult("x", (Text("ok"),), extra={"type": "apply_patch_call_output"})
        assert render([Message("tool", (patched,))]) == [
            {"type": "apply_patch_call_output", "call_id": "x", "status": "completed", "output": "ok"}
        ]

    def test_reasoning_by_its_id_or_encrypted(self):
        parts = (
            Thinking("a", redacted="s"),
            Thinking("b", extra={"id": "rs", "summary": [{"text": "b"}]}),
            Thinking("c"),
        )
        assert render([Message("assistant", parts)]) == [
            {"type": "reasoning", "summary": [], "encrypted_content": "s"},
            {"type": "reasoning", "summary": [{"text": "b"}], "id": "rs"},
        ]
        assert render([Message("assistant", (Thinking("c"),))]) == []

    @pytest.mark.parametrize(
        "item",
        [
            *RESPONSES[4:7],
            *(
                BY_TYPE[what]
                for what in ("custom_tool_call", "custom_tool_call_output", "local_shell_call", "shell_call")
            ),
            *(
                BY_TYPE[what]
                for what in ("apply_patch_call", "apply_patch_call_output", "computer_call", "mcp_call")
            ),
            *(
                BY_TYPE[what]
                for what in ("web_search_call", "mcp_approval_response", "compaction", "item_reference")
            ),
        ],
    )
    def test_items_without_their_wire_come_back(self, item):
        """What a log without wire values gives back is the same item, whatever the order of its keys."""
        assert render([replace(one(item), wire=None)]) == [item]

    def test_media(self):
        parts = (
            Image(data="aQ==", media_type="image/gif", detail="low"),
            Image(data="aQ=="),
            Image(url="u"),
            Image(file_id="f", detail="high"),
            Image(),
            Document(data="JV", media_type="application/pdf", title="t"),
            Document(data="raw"),
            Document(url="d"),
            Document(text="words"),
            File(file_id="g"),
            File(name="film"),
            Opaque("new", {"type": "new"}),
        )
        assert render([Message("user", parts)])[0]["content"] == [
            {"type": "input_image", "image_url": "data:image/gif;base64,aQ==", "detail": "low"},
            {"type": "input_image", "image_url": "data:image/png;base64,aQ=="},
            {"type": "input_image", "image_url": "u"},
            {"type": "input_image", "file_id": "f", "detail": "high"},
            {"type": "input_text", "text": "[image]"},
            {"type": "input_file", "filename": "t", "file_data": "data:application/pdf;base64,JV"},
            {"type": "input_file", "filename": "document", "file_data": "raw"},
            {"type": "input_file", "file_url": "d"},
            {"type": "input_text", "text": "words"},
            {"type": "input_file", "file_id": "g"},
            {"type": "input_text", "text": "[file film]"},
            {"type": "new"},
        ]
        assert render([Message("assistant", (Image(url="u"), Text("x")))])[0]["content"][0] == {
            "type": "output_text",
            "text": "[image u]",
        }


class TestCheck:
    def test_a_valid_history_has_no_problem(self):
        assert (
            rules(
                USER,
                reasoning(),
                call("a"),
                reasoning("rs_2"),
                call("b"),
                output("b"),
                output("a"),
                reasoning("rs_3"),
                SAID,
            )
            == []
        )

    def test_pairs_need_not_stand_together(self):
        assert rules(USER, call("a"), SAID, USER, output("a")) == []

    def test_pairs(self):
        assert rules(USER, output("a")) == [(1, "result-without-call")]
        assert rules(call("a"), USER) == [(0, "call-without-result")]
        assert rules(call("a"), output("a"), output("a")) == [(2, "duplicate-result")]
        assert rules(call("a"), output("a"), call("a"), output("a")) == [(2, "duplicate-call-id")]
        assert rules(USER, call("a"), call("b"), output("a")) == [(2, "open-call")]

    def test_an_approval_stands_behind_its_request(self):
        request, response = BY_TYPE["mcp_approval_request"], BY_TYPE["mcp_approval_response"]
        response = {**response, "approval_request_id": request["id"]}
        assert rules(USER, request, response) == []
        assert rules(USER, response) == [(1, "result-without-call")]
        assert rules(USER, response, request) == [(1, "result-without-call")]
        assert rules({"type": "item_reference", "id": "x"}, response) == []

    def test_calls_may_live_on_the_server(self):
        assert rules({"type": "item_reference", "id": "fc_1"}, output("a")) == []

    def test_reasoning_is_followed_by_its_item(self):
        assert rules(USER, reasoning()) == [(1, "reasoning-without-item")]
        assert rules(USER, reasoning(), USER) == [(1, "reasoning-without-item")]
        assert rules(call("a"), reasoning(), output("a")) == [(1, "reasoning-without-item")]
        assert rules(USER, reasoning("a"), reasoning("b"), {"type": "web_search_call", "id": "ws"}) == []

    def test_arguments_are_json(self):
        assert rules(call("a", "{"), output("a")) == [(0, "invalid-arguments")]
        free = {"type": "custom_tool_call", "call_id": "a", "name": "sh", "input": "ls"}
        assert rules(free, {"type": "custom_tool_call_output", "call_id": "a", "output": "x"}) == []

    def test_contents(self):
        assert rules({"role": "user"}, {"role": "user", "content": []}, {"role": "user", "content": ""}) == [
            (0, "empty-content"),
            (1, "empty-content"),
        ]
        assert FORMAT.check([Message("user", ())]) == []

    def test_items_occur_once(self):
        said = {"type": "message", "id": "m", "role": "assistant", "content": "x"}
        assert rules(said, said, USER, USER) == [(1, "duplicate-item-id")]

    def test_roles_are_known(self):
        assert rules(USER, {"role": "critic"}) == [(1, "unknown-role")]


class TestRecognise:
    @pytest.mark.parametrize(
        "item",
        [item for item in RESPONSES if item.get("type", "message") not in ("message", "from_the_future")],
    )
    def test_items(self, item):
        assert FORMAT.recognise(item) == ".type"

    def test_messages(self):
        assert FORMAT.recognise(RESPONSES[2]) == ".content[0]"
        assert FORMAT.recognise(RESPONSES[3]) == ".content[0]"
        assert FORMAT.recognise(RESPONSES[-2]) == ".content[0]"
        assert FORMAT.recognise({"type": "message", "role": "user", "content": "x"}) == ".type"

    @pytest.mark.parametrize(
        "item",
        [
            5,
            USER,
            {"type": []},
            {"type": "text"},
            {"parts": [], "type": "reasoning"},
            {"role": "user", "content": [5, {"type": "text"}, {"type": 5}]},
            {"type": "message", "content": [{"type": "text"}]},
        ],
    )
    def test_no_evidence(self, item):
        assert FORMAT.recognise(item) == ""


PROGRAM = {"type": "program", "id": "p1", "call_id": "c1", "code": "run()", "fingerprint": "f"}
DONE = {"type": "program_output", "id": "o1", "call_id": "c1", "result": "out", "status": "completed"}
SEARCH = {"type": "tool_search_call", "call_id": "s1", "arguments": {}}
TOOLS = {"type": "tool_search_output", "call_id": "s1", "tools": [{"type": "function", "name": "f"}]}


class TestNewerItems:
    def test_a_program_and_its_output_are_a_pair(self):
        program, done = FORMAT.parse([PROGRAM, DONE])
        assert (program.calls[0].name, program.calls[0].arguments) == ("program", "run()")
        assert done.results[0].text == "out"
        assert FORMAT.check([program, done]) == []
        assert [problem.rule for problem in FORMAT.check([done])] == ["result-without-call"]

    def test_the_code_of_a_program_is_never_changed(self):
        (program,) = FORMAT.parse([PROGRAM])
        short = replace(program, parts=(replace(program.calls[0], arguments="[...]"),))
        assert FORMAT.render([short]) == [PROGRAM]

    def test_results_are_written_in_their_own_field(self):
        cleared = [
            replace(message, parts=(replace(message.parts[0], content=(Text("[cleared]"),)),))
            for message in FORMAT.parse([DONE, TOOLS])
        ]
        assert FORMAT.render(cleared) == [{**DONE, "result": "[cleared]"}, {**TOOLS, "tools": []}]
        (tools,) = FORMAT.parse([TOOLS])
        again = replace(tools, parts=(replace(tools.parts[0], is_error=True),))
        assert FORMAT.render([again]) == [TOOLS]

    def test_a_dead_call_gets_an_output_of_its_kind(self):
        user = {"role": "user", "content": "go on"}
        assert refold.repair([PROGRAM, SEARCH, user], "responses").messages == [
            PROGRAM,
            SEARCH,
            {
                "type": "program_output",
                "call_id": "c1",
                "id": "c1_output",
                "status": "incomplete",
                "result": "[Tool result unavailable - conversation was compacted]",
            },
            {"type": "tool_search_output", "call_id": "s1", "tools": []},
            user,
        ]
        (fine,) = FORMAT.parse([{**PROGRAM, "call_id": "c9"}])
        answer = Message("tool", (ToolResult("c9", (Text("x"),)),))
        assert FORMAT.render([fine, answer])[1]["status"] == "completed"

    @pytest.mark.parametrize(
        ("output", "call"),
        [
            (
                {"type": "custom_tool_call_output", "output": "ok"},
                {"type": "custom_tool_call", "name": "tool"},
            ),
            ({"type": "tool_search_output", "tools": []}, {"type": "tool_search_call"}),
        ],
    )
    def test_a_stray_output_gets_a_call_of_its_kind(self, output, call):
        user, stray = {"role": "user", "content": "go on"}, {**output, "call_id": "c1"}
        mended = refold.repair([user, stray], "responses").messages
        note = {"note": "[Tool call for tool - conversation was compacted]"}
        asked = {"input": json.dumps(note)} if "name" in call else {"arguments": note}
        assert mended == [user, {**call, "call_id": "c1", **asked}, stray]
        session = refold.open("stray", store="memory:", window="100k", format="responses")
        assert [item.get("type") for item in session.prepare([user, stray]).messages[1:]] == [
            call["type"],
            output["type"],
        ]

    @pytest.mark.parametrize(
        ("output", "words"),
        [
            ({"type": "program_output", "id": "o", "result": "out", "status": "completed"}, "out"),
            ({"type": "local_shell_call_output", "id": "o", "output": "out"}, "out"),
            (
                {
                    "type": "shell_call_output",
                    "output": [{"stdout": "out", "stderr": "err", "outcome": {"type": "timeout"}}],
                },
                "out\nerr",
            ),
            (
                {"type": "apply_patch_call_output", "status": "failed", "output": "no such file"},
                "no such file",
            ),
            (
                {
                    "type": "multi_agent_call_output",
                    "action": "wait_agent",
                    "output": [{"type": "output_text", "text": "out"}],
                },
                "out",
            ),
            ({"type": "crystal_call_output", "output": [{"type": "facet", "note": "out"}]}, ""),
        ],
    )
    def test_a_stray_output_whose_call_nobody_can_make_up_becomes_a_plain_one(self, output, words):
        """A screenshot without its click is refused, and so is a made-up click."""
        user, stray = {"role": "user", "content": "go on"}, {**output, "call_id": "c1"}
        plain = {"type": "function_call_output", "call_id": "c1", "output": words}
        mended = refold.repair([user, stray, user], "responses").messages
        assert [mended[1]["type"], mended[2], mended[3]] == ["function_call", plain, user]
        session = refold.open("stray", store="memory:", window="100k", format="responses")
        sent = session.prepare([user, stray, user]).messages
        assert [sent[1]["type"], sent[2], sent[3]] == ["function_call", plain, user]
        assert session.original("#2") == [stray]

    def test_the_image_of_a_stray_screenshot_stays(self):
        image = "data:image/png;base64,aGk="
        stray = {
            "type": "computer_call_output",
            "call_id": "c1",
            "output": {"type": "computer_screenshot", "image_url": image},
        }
        mended = refold.repair([{"role": "user", "content": "go on"}, stray], "responses").messages
        assert mended[2] == {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [{"type": "input_image", "image_url": image}],
        }

    def test_what_agents_say_to_each_other_is_counted_and_shortened_in_its_form(self):
        words = "The parser fails on empty lines, see src/parse.py. " * 200
        agent = {"agent": {"agent_name": "scout"}}
        call = {
            "type": "multi_agent_call",
            "action": "wait_agent",
            "call_id": "c1",
            "arguments": "{}",
            **agent,
        }
        output = {
            "type": "multi_agent_call_output",
            "action": "wait_agent",
            "call_id": "c1",
            "output": [{"type": "output_text", "text": words}],
        }
        said = {
            "type": "agent_message",
            "author": "scout",
            "recipient": "root",
            "content": [
                {"type": "input_text", "text": words},
                {"type": "encrypted_content", "encrypted_content": "x"},
            ],
        }
        user = {"role": "user", "content": "go on"}
        history = [user, call, output, said, user]
        assert refold.validate(history, "responses") == []
        assert refold.measure(history, format="responses", window="100k").used > 4_000
        view = refold.compact(history, format="responses", window="100k", target=2_500).messages
        assert refold.validate(view, "responses") == []
        assert [{**item, "output": 0, "content": 0} for item in view] == [
            {**item, "output": 0, "content": 0} for item in history
        ]
        (text,) = view[2]["output"]
        assert text["type"] == "output_text"
        assert len(text["text"]) < len(words)
        assert view[3]["content"][1] == said["content"][1]
        assert len(view[3]["content"][0]["text"]) < len(words)
        (mended,) = refold.repair([user, call, user], "responses").messages[2:3]
        assert mended == {**output, "output": [{"type": "output_text", "text": mended["output"][0]["text"]}]}

    def test_a_call_of_agents_that_lacks_its_action_gets_an_output_all_the_same(self):
        user, call = {"role": "user", "content": "go on"}, {"type": "multi_agent_call", "call_id": "c1"}
        (mended,) = refold.repair([user, call, user], "responses").messages[2:3]
        assert (mended["type"], [*mended]) == ("multi_agent_call_output", ["type", "call_id", "output"])

    def test_an_output_of_a_kind_that_came_later_keeps_its_form(self):
        words = "line after line of an answer. " * 400
        call = {"type": "crystal_call", "call_id": "c1", "arguments": "{}"}
        output = {"type": "crystal_call_output", "call_id": "c1", "output": [{"type": "text", "text": words}]}
        user = {"role": "user", "content": "go on"}
        history = [user, call, output, user]
        view = refold.compact(history, format="responses", window="100k", target=800).messages
        (text,) = view[2]["output"]
        assert view[:2] == history[:2]
        assert text["type"] == "text"
        assert len(text["text"]) < len(words)

    @pytest.mark.parametrize("end", [{"type": "timeout"}, {"type": "exit", "exit_code": 2}])
    def test_how_a_command_ended_stays_when_its_output_is_shortened(self, end):
        words = "error: the parser fails on empty lines. " * 300
        call = {"type": "shell_call", "call_id": "c1", "action": {"commands": ["make"]}}
        first = {"stdout": "ok", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
        output = {
            "type": "shell_call_output",
            "call_id": "c1",
            "output": [first, {"stdout": words, "stderr": "", "outcome": end}],
        }
        user = {"role": "user", "content": "go on"}
        history = [user, call, output, user]
        (result,) = parse([output])[0].results
        assert result.is_error
        short = refold.compact(history, format="responses", window="100k", target=1_000).messages[2]
        (piece,) = short["output"]
        assert piece["outcome"] == end
        assert 0 < len(piece["stdout"]) < len(words)
        cleared = replace(result, content=(Text("[cleared]"),))
        (item,) = render([replace(parse([output])[0], parts=(cleared,))])
        assert item["output"] == [{"stdout": "[cleared]", "stderr": "", "outcome": end}]

    def test_what_steers_the_model_stays_in_every_view(self):
        update = {"type": "configuration_update", "reasoning": {"effort": "low"}}
        tools = {"type": "additional_tools", "role": "developer", "tools": []}
        trigger = {"type": "compaction_trigger"}
        talk = [
            {"role": role, "content": f"{turn} " + "words " * 150}
            for turn in range(20)
            for role in ("user", "assistant")
        ]
        history = [*talk[:6], update, tools, *talk[6:], talk[0], trigger]
        assert refold.validate(history, "responses") == []
        outcome = refold.compact(history, format="responses", window=3_000)
        assert outcome.compacted
        assert [
            item for item in outcome.messages if item.get("type") != "message" and "role" not in item
        ] == [
            update,
            trigger,
        ]
        assert tools in outcome.messages
        assert outcome.messages[-1] is trigger
        assert refold.validate(outcome.messages, "responses") == []

    def test_an_output_without_a_call_id_is_carried(self):
        (message,) = FORMAT.parse([{"type": "function_call_output", "output": "x"}])
        assert [type(part) for part in message.parts] == [Opaque]


@pytest.mark.parametrize("policy", ["refold", "neurolink"])
def test_no_fold_leaves_an_id_without_the_reasoning_that_it_implies(policy):
    """The model thinks, says what it will do, and calls; OpenAI refuses the call's id without the thought."""
    text = "the parser reads config.toml and fails with error 503, then it tries again. "
    items = []
    for turn in range(8):
        said = [{"type": "output_text", "text": f"I look at part {turn}: {text}", "annotations": []}]
        items += [
            {"role": "user", "content": f"Turn {turn}: {text}"},
            {"type": "reasoning", "id": f"rs_{turn}", "summary": [], "encrypted_content": "g" * 100},
            {"type": "message", "id": f"msg_{turn}", "role": "assistant", "content": said},
            {
                "type": "function_call",
                "id": f"fc_{turn}",
                "call_id": f"c{turn}",
                "name": "f",
                "arguments": "{}",
            },
            {"type": "function_call_output", "call_id": f"c{turn}", "output": text * 9},
        ]
    items.append({"role": "user", "content": "and now?"})
    for target in sample(range(300, 3_000, 50), 12):
        view = refold.compact(items, target=target, window=100_000, policy=policy).messages
        ids = {item.get("id", "") for item in view}
        led = [name.partition("_")[2] for name in ids if name.startswith(("msg_", "fc_"))]
        assert not [number for number in led if f"rs_{number}" not in ids], target


@pytest.mark.parametrize("kind", ["compaction", "compaction_summary", "context_compaction"])
def test_a_compaction_is_known_by_each_of_its_names(kind):
    """Codex writes two more; a fold that takes one for any item loses all that stands in it."""
    text = "the parser reads config.toml and fails with error 503, then it tries again. "
    block = {"type": kind, "encrypted_content": "gAAA" * 300}
    turns = [
        item
        for number in range(14)
        for item in (
            {"role": "user", "content": f"Turn {number}: {text}"},
            {"role": "assistant", "content": text * 20},
        )
    ]
    items = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": text * 60}, block, *turns]
    assert refold.measure(items[:3], window=9_000).used < 400
    assert block in refold.compact([*items, items[0]], window=6_000).messages
    with refold.open("t", store="memory:", window=6_000, model="gpt-5") as session:
        assert block in session.prepare([*items, items[0]]).messages
        session.use(model="claude-sonnet-4-5")
        assert block not in session.prepare([*items, items[0]]).messages


@pytest.mark.parametrize("kind", ["compaction", "compaction_summary", "context_compaction"])
def test_a_compaction_in_an_answer_is_known_by_each_of_its_names(kind):
    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi " * 900}]}
    said = [asked, {"type": "message", "id": "m0", "role": "assistant", "content": "yes " * 900}, asked]
    block = {"type": kind, "id": "cmp_1", "encrypted_content": "gAAA" * 30}
    words = {"type": "message", "id": "m1", "role": "assistant", "content": "done"}
    answer = {"object": "response", "status": "completed", "output": [block, words]}
    with refold.open("t", store="memory:", window=60_000, model="gpt-5") as session:
        session.prepare(said)
        session.observe(answer, say=True)
        assert session.view() == [block, words]
        assert len(session.folds()) == 1


def test_a_request_for_a_compaction_is_the_last_item():
    """So Codex asks for one: the item has no content yet."""
    asked = {"type": "context_compaction"}
    items = [{"role": "user", "content": "hi"}, asked]
    assert refold.validate(items, "responses") == []
    problems = refold.validate([*items, items[0]], "responses")
    assert [problem.rule for problem in problems] == ["trigger-not-last"]
    empty = [items[0], {"type": "compaction_summary", "encrypted_content": None}]
    assert [problem.rule for problem in refold.validate(empty, "responses")] == ["compaction-empty"]


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_running_program_waits_for_the_calls_that_it_makes(rounds):
    """Each round comes in an answer of its own; the program has no output before the last one."""
    text = "the parser reads config.toml and fails with error 503, then it tries again. "

    def run(number, rounds):
        caller = {"type": "program", "caller_id": f"p{number}"}
        yield {"role": "user", "content": f"Turn {number}: {text}"}
        yield {
            "type": "program",
            "id": f"g{number}",
            "call_id": f"p{number}",
            "code": "f()",
            "fingerprint": "f",
        }
        for each in range(rounds):
            call = {"call_id": f"c{number}-{each}", "caller": caller}
            yield {"type": "function_call", **call, "name": "f", "arguments": "{}"}
            yield {"type": "function_call_output", **call, "output": text * 8}

    def end(number):
        yield {"type": "program_output", "id": f"o{number}", "call_id": f"p{number}", "result": text}
        yield {"role": "assistant", "content": text}

    items = [item for number in range(6) for part in (run(number, 2), end(number)) for item in part]
    items += run(6, rounds)
    assert refold.repair(items).messages == items
    for target in sample(range(300, 3_000, 100), 7):
        view = refold.compact(items, target=target, window=100_000).messages
        made = {item["call_id"] for item in view if item.get("type") == "program"}
        assert {item["caller"]["caller_id"] for item in view if "caller" in item} <= made
        assert "p6" in made
        assert not [item for item in view if item.get("type") == "program_output" and item["call_id"] == "p6"]


@pytest.mark.parametrize("policy", ["refold", "opal", "neurolink"])
def test_references_stay_with_the_outputs_of_their_calls(policy):
    """Clients of a provider that stores answers send references to reasoning and calls, and whole outputs."""
    text = "the parser reads config.toml and fails with error 503, then it tries again. "
    items = []
    for number in range(9):
        items += [
            {"role": "user", "content": f"Turn {number}: {text}"},
            *({"type": "item_reference", "id": f"{kind}_{number}"} for kind in ("rs", "fc")),
            {"type": "function_call_output", "call_id": f"c_{number}", "output": text * 9},
            {"type": "item_reference", "id": f"msg_{number}"},
        ]
    assert refold.repair(items).messages == items
    for target in sample(range(200, 2_000, 50), 10):
        view = refold.compact([*items, items[0]], target=target, window=100_000, policy=policy).messages
        assert not [item for item in view if item.get("type") == "function_call"]
        kept = {name.partition("_")[::2] for item in view if (name := item.get("id") or item.get("call_id"))}
        assert {number for kind, number in kept if kind == "c"} == {n for kind, n in kept if kind == "fc"}
        assert {number for kind, number in kept if kind == "fc"} == {n for kind, n in kept if kind == "rs"}


@pytest.mark.parametrize("pin", range(9, 15))
def test_a_pin_keeps_the_references_and_outputs_of_its_answer(pin):
    """No output names its reference, so an answer with two calls stays whole."""
    text = "the parser reads config.toml and fails with error 503, then it tries again. "
    items = []
    for number in range(9):
        items += [
            {"role": "user", "content": f"Turn {number}: {text}"},
            *({"type": "item_reference", "id": f"{kind}_{number}"} for kind in ("rs", "msg", "fc", "fc2")),
            *(
                {"type": "function_call_output", "call_id": f"{kind}_{number}", "output": text * 9}
                for kind in ("c", "c2")
            ),
            {"role": "assistant", "content": f"Done with {number}."},
        ]
    view = refold.compact(items, target=900, window=100_000, pins=[pin], policy="thrifty").messages
    assert items[9:15] == [
        item for item in view if (item.get("id") or item.get("call_id") or "").endswith("_1")
    ]
