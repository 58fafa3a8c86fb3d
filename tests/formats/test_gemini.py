"""Gemini contents: what is read, how touched contents are written, what would be refused."""

from dataclasses import replace

import pytest
from format_functions import open_format
from hypothesis import given
from hypothesis import strategies as st
from wire_cases import GEMINI

import refold
from refold import Document, File, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult, formats
from refold.errors import FormatError
from refold.formats import get

FORMAT, parse, render, one, touched, rules = open_format("gemini")


def user(*parts):
    return {"role": "user", "parts": list(parts)}


def model(*parts):
    return {"role": "model", "parts": list(parts)}


def text(words="hi"):
    return {"text": words}


def call(name="f", **fields):
    return {"functionCall": {"name": name, "args": {}, **fields}}


def answer(name="f", **fields):
    return {"functionResponse": {"name": name, "response": {"output": "ok"}, **fields}}


def test_the_shape_says_what_gemini_takes():
    shape = FORMAT.shape
    assert (shape.name, shape.results_in_user, shape.system_inside, shape.starts_with_user) == (
        "gemini",
        True,
        False,
        True,
    )
    assert (shape.allows_empty, shape.alternates) == (False, False)


class TestReading:
    def test_roles(self):
        items = [{"role": word, "parts": []} for word in ("user", "model", "function", "system")]
        assert [message.role for message in parse([*items, {"parts": []}])] == [
            "user",
            "assistant",
            "tool",
            "system",
            "user",
        ]
        assert one(GEMINI[14]).parts == (Opaque("role:spirit", GEMINI[14]),)

    def test_texts_and_thoughts(self):
        assert one(GEMINI[2]).parts == (
            Thinking("hm", signature="c2ln"),
            Text("ok", {"thoughtSignature": "x"}),
        )
        assert one(model({"text": "a", "thought": True, "thought_signature": "s", "x": 1})).parts == (
            Thinking("a", signature="s", extra={"x": 1}),
        )
        assert one(model({"text": "a", "thought": False})).parts == (Text("a", {"thought": False}),)
        assert one(model({"text": "a", "thought": True, "thoughtSignature": 5})).parts == (Thinking("a"),)

    def test_media_in_both_spellings(self):
        assert one(GEMINI[3]).parts == (
            Image(data="iVBORw0K", media_type="image/png"),
            File(data="UklGRg==", media_type="audio/wav", extra={"video_metadata": {"fps": 1}}),
            Document(url="gs://b/a.pdf", media_type="application/pdf"),
            File(url="gs://b/a.mp4", media_type="video/mp4"),
            Opaque("somethingNew", {"somethingNew": {"a": 1}}),
            Opaque("part", {}),
        )
        assert one(user({"fileData": {"fileUri": "u"}})).parts == (File(url="u"),)

    def test_calls_without_ids_are_named_by_position(self):
        assert one(GEMINI[4]).parts == (
            ToolCall("read#0", "read", {"path": "a"}, {"thoughtSignature": "y"}),
            ToolCall("read#1", "read", {"path": "b"}),
            ToolCall("f9", "list", {}),
            ToolCall("old_spelling#2", "old_spelling", {}, {"functionCall": {"will_continue": False}}),
        )

    def test_responses_answer_in_order_and_every_field_is_a_part(self):
        results = parse(GEMINI[4:6])[1].parts
        assert results == (
            ToolResult("read#0", (Text("text a", {"key": "output"}),), name="read"),
            ToolResult(
                "read#1",
                (Text("text b", {"key": "content"}), Opaque("lines", 3, ""), Opaque("more", {"x": []}, "")),
                name="read",
            ),
            ToolResult(
                "f9",
                (
                    Text("none", {"key": "error"}),
                    Image(data="aQ==", media_type="image/png"),
                    Opaque("part", {"odd": 1}),
                ),
                name="list",
                is_error=True,
            ),
            ToolResult("old_spelling#2", (), name="old_spelling"),
        )

    def test_a_response_answers_the_latest_calls_first(self):
        """An unanswered call of long ago does not take the answer of a new one."""
        messages = parse(
            [model(call()), user(text()), model(call("g")), user(answer("g")), model(call()), user(answer())]
        )
        assert messages[-1].results[0].call_id == "f#2"
        assert messages[0].calls[0].id == "f#0"

    def test_a_response_without_id_answers_a_call_with_one(self):
        messages = parse([model(call(id="x"), call(id="y")), user(answer(), answer())])
        assert [result.call_id for result in messages[1].results] == ["x", "y"]

    def test_a_response_with_an_id_takes_its_call_away(self):
        messages = parse([model(call(id="x"), call()), user(answer(id="x"), answer())])
        assert [result.call_id for result in messages[1].results] == ["x", "f#0"]

    def test_a_late_response_still_finds_its_call(self):
        messages = parse(
            [model(call("a")), user(answer("b")), model(call("c")), user(answer("c")), user(answer("a"))]
        )
        assert [result.call_id for message in messages for result in message.results] == [
            "b#none-0",
            "c#1",
            "a#0",
        ]

    def test_strays_have_ids_of_their_own(self):
        results = one(user(answer(), answer())).results
        assert [result.call_id for result in results] == ["f#none-0", "f#none-1"]

    def test_empty_ids_are_none(self):
        assert one(model(call(id=""))).calls[0].id == "f#0"

    def test_a_longer_history_gives_the_same_ids(self):
        items = [model(call()), user(answer()), model(call(), call("g")), user(answer(), answer("g"))]
        assert parse(items)[:2] == parse(items[:2])

    @pytest.mark.parametrize("item", [{"role": "model"}, {"role": "model", "parts": None}, {"parts": []}])
    def test_no_parts(self, item):
        assert one(item).parts == ()

    def test_fields_that_are_null_say_nothing(self):
        """Dumps of an SDK hold every field, most of them null."""
        assert one(GEMINI[11]).parts == (
            Document(data="aQ==", media_type="text/plain", extra={"text": None, "function_call": None}),
        )
        assert one(user({"text": None})).parts == (Opaque("text", {"text": None}),)

    def test_a_part_that_says_two_things_is_not_understood(self):
        value = {"text": "x", "functionCall": {"name": "f"}}
        assert one(model(value)).parts == (Opaque("text", value),)
        both = {"inlineData": {}, "fileData": 5}
        assert one(model(both)).parts == (Opaque("inlineData", both),)

    @pytest.mark.parametrize(
        ("item", "path"),
        [
            ({"role": 5, "parts": []}, ".role"),
            ({"role": "user", "parts": 5}, ".parts"),
            ({"role": "user", "parts": {"text": "x"}}, ".parts"),
            (user("x"), ".parts[0]"),
            (user(text(), {"text": 5}), ".parts[1].text"),
            (user({"functionCall": 5}), ".parts[0].functionCall"),
            (user({"functionCall": {}}), ".parts[0].functionCall.name"),
            (user(call(args=5)), ".parts[0].functionCall.args"),
            (user(call(id=5)), ".parts[0].functionCall.id"),
            (user({"function_response": {}}), ".parts[0].function_response.name"),
            (user(answer(response=[])), ".parts[0].functionResponse.response"),
            (user(answer(parts={})), ".parts[0].functionResponse.parts"),
            (user(answer(parts=[5])), ".parts[0].functionResponse.parts[0]"),
            (
                user(answer(parts=[{"inlineData": {"data": 5}}])),
                ".parts[0].functionResponse.parts[0].inlineData.data",
            ),
            (user({"inlineData": "x"}), ".parts[0].inlineData"),
            (user({"inline_data": {"mime_type": 5}}), ".parts[0].inline_data.mime_type"),
            (user({"inlineData": {"mimeType": 5}}), ".parts[0].inlineData.mimeType"),
            (user({"fileData": {"fileUri": 5}}), ".parts[0].fileData.fileUri"),
            (user({"file_data": {"file_uri": 5}}), ".parts[0].file_data.file_uri"),
        ],
    )
    def test_wrong_types_are_refused_with_the_exact_path(self, item, path):
        with pytest.raises(FormatError) as caught:
            parse([item])
        assert caught.value.path == f"messages[0]{path}"


class TestTouched:
    def test_other_parts_are_the_same_objects(self):
        message = one(GEMINI[3])
        out = touched(message, Text("[image]"), *message.parts[1:])
        assert out["parts"][0] == {"text": "[image]"}
        assert all(
            left is right for left, right in zip(out["parts"][1:], GEMINI[3]["parts"][1:], strict=True)
        )

    def test_ids_from_a_position_are_not_written_and_real_ones_are(self):
        message = one(GEMINI[4])
        first, second, third, fourth = message.parts
        changed = (
            replace(first, arguments={"path": "…"}),
            second,
            replace(third, arguments='{"x": 1}'),
            replace(fourth, arguments={}),
        )
        assert touched(replace(message), *changed)["parts"] == [
            {"function_call": {"name": "read", "args": {"path": "…"}}, "thoughtSignature": "y"},
            GEMINI[4]["parts"][1],
            {"function_call": {"id": "f9", "name": "list", "args": {"x": 1}}},
            {"function_call": {"name": "old_spelling", "args": {}, "will_continue": False}},
        ]

    def test_a_real_id_that_looks_like_a_position_is_written(self):
        message = one(model(call(id="f#3")))
        assert touched(message, replace(message.parts[0], arguments={"x": 1})) == model(
            {"functionCall": {"id": "f#3", "name": "f", "args": {"x": 1}}}
        )

    def test_a_cleared_response(self):
        message = one(user(answer(x=1)))
        (part,) = message.parts
        assert touched(message, replace(part, content=(Text("[cleared]"),))) == user(
            answer(response={"output": "[cleared]"}, x=1)
        )
        assert touched(message, replace(part, content=(Text("[gone]"),), is_error=True)) == user(
            answer(response={"error": "[gone]"}, x=1)
        )
        assert touched(message, replace(part, content=())) == user(answer(response={}, x=1))
        assert touched(message, replace(part, content=(Text("a"), Text("b")))) == user(
            answer(response={"output": "a\nb"}, x=1)
        )

    def test_a_shortened_field_stays_where_it_was(self):
        message = parse(GEMINI[4:6])[1]
        second, third = message.parts[1:3]
        long, *rest = second.content
        out = touched(
            message,
            replace(second, content=(replace(long, text="short"), *rest)),
            replace(third, content=third.content[1:]),
        )
        assert out["parts"] == [
            {
                "function_response": {
                    "name": "read",
                    "response": {"content": "short", "lines": 3, "more": {"x": []}},
                }
            },
            {
                "function_response": {
                    "id": "f9",
                    "name": "list",
                    "response": {},
                    "parts": [{"inlineData": {"mimeType": "image/png", "data": "aQ=="}}, {"odd": 1}],
                }
            },
        ]

    def test_media_put_into_a_response(self):
        message = one(user(answer()))
        (part,) = message.parts
        pieces = (Image(data="aQ=="), Document(text="words"), File(name="lost"), Opaque("n", 1))
        assert touched(message, replace(part, content=pieces))["parts"][0]["functionResponse"] == {
            "name": "f",
            "response": {"output": "words\n[file lost]", "n": 1},
            "parts": [{"inlineData": {"data": "aQ=="}}],
        }

    def test_thoughts(self):
        message = one(GEMINI[2])
        assert touched(message, message.parts[1]) == {"role": "model", "parts": [GEMINI[2]["parts"][1]]}
        assert touched(
            message, Thinking("x", signature="s"), Thinking("y"), Text("z", {"thoughtSignature": "t"})
        ) == model(
            {"text": "x", "thought": True, "thoughtSignature": "s"},
            {"text": "y", "thought": True},
            {"text": "z", "thoughtSignature": "t"},
        )

    def test_nothing_left_is_said(self):
        message = one(user(text()))
        assert touched(message) == user(text("[no content]"))
        assert touched(message, Text("")) == user(text("[no content]"))
        assert touched(message, Text("", {"thoughtSignature": "s"})) == user(
            {"text": "", "thoughtSignature": "s"}
        )

    def test_roles_may_change(self):
        message = one({"parts": [text()], "x": 1})
        assert touched(message, Text("a")) == {"parts": [text("a")], "x": 1}
        assert touched(message, Text("a"), role="assistant") == {
            "parts": [text("a")],
            "x": 1,
            "role": "model",
        }
        assert render([replace(one(user(text())), role="system")]) == [user(text())]

    def test_a_content_of_an_unknown_role_is_not_taken_apart(self):
        message = one(GEMINI[14])
        assert touched(message, *message.parts, Text("x")) == user(text("[spirit left out]"), text("x"))


class TestBuilt:
    def test_text_of_each_role(self):
        ours = [
            Message("system", "s"),
            Message("user", "u"),
            Message("assistant", "a"),
            Message("tool", "t"),
            Message("user", ()),
        ]
        assert render(ours) == [
            user(text("s")),
            user(text("u")),
            model(text("a")),
            user(text("t")),
            user(text("[no content]")),
        ]

    def test_results_of_one_group_stand_in_one_content_with_the_names_of_their_calls(self):
        ours = [
            Message("user", "u"),
            Message("assistant", (ToolCall("a", "f", "{}"), ToolCall("b", "g", '{"x": 1}'))),
            Message("tool", (ToolResult("b", (Text("2"),)),)),
            Message("tool", (ToolResult("a", (Text("1"),), is_error=True),)),
        ]
        assert render(ours) == [
            user(text("u")),
            model(
                {"functionCall": {"id": "a", "name": "f", "args": {}}},
                {"functionCall": {"id": "b", "name": "g", "args": {"x": 1}}},
            ),
            user(
                {"functionResponse": {"id": "b", "name": "g", "response": {"output": "2"}}},
                {"functionResponse": {"id": "a", "name": "f", "response": {"error": "1"}}},
            ),
        ]

    def test_a_result_of_ours_joins_its_group_and_bears_no_made_up_id(self):
        read = parse([user(text()), model(call(), call("g")), user(answer("g"), text("and"))])
        ours = Message("tool", (ToolResult("f#0", (Text("gone"),), name="f"),))
        assert render([*read, ours])[2] == user(answer("g"), answer(response={"output": "gone"}), text("and"))
        assert render([*read[:2], ours, read[2]])[2] == user(
            answer(response={"output": "gone"}), answer("g"), text("and")
        )

    def test_reasoning_of_others_is_not_a_message(self):
        other = get("anthropic").parse(
            [{"role": "assistant", "content": [{"type": "thinking", "thinking": "x", "signature": "s"}]}]
        )
        assert render([*other, Message("assistant", (Thinking("own"),))]) == [
            model({"text": "own", "thought": True})
        ]

    def test_a_result_nobody_called_has_some_name(self):
        assert render([Message("tool", (ToolResult("x", ()),))]) == [
            user({"functionResponse": {"id": "x", "name": "tool", "response": {}}})
        ]

    def test_calls_of_ours_join_the_model_content_before_them(self):
        """Wire: a function call stands directly behind the user or a function response."""
        said = model(text("so"))
        ours = Message("assistant", (ToolCall("a", "f"),))
        joined = model(text("so"), call(id="a"), call(id="b"))
        assert render([one(said), ours, Message("assistant", (ToolCall("b", "f"),))]) == [
            {
                "role": "model",
                "parts": [
                    {**part}
                    if "text" in part
                    else {"functionCall": {"id": part["functionCall"]["id"], "name": "f", "args": {}}}
                    for part in joined["parts"]
                ],
            }
        ]
        assert said == model(text("so"))
        assert len(render([one({"role": "model"}), ours])) == 2
        assert len(render([one(user(text())), ours])) == 2

    def test_media(self):
        parts = (
            Image(data="aQ==", media_type="image/gif"),
            Image(url="u", media_type="image/png", extra={"x": 1}),
            Image(file_id="f"),
            Document(text="words"),
            Document(url="d", title="t"),
            File(data="UQ", media_type="audio/mp3"),
            Opaque("new", {"new": 1}),
            Opaque("odd", 5),
        )
        assert render([Message("user", parts)]) == [
            user(
                {"inlineData": {"mimeType": "image/gif", "data": "aQ=="}},
                {"fileData": {"mimeType": "image/png", "fileUri": "u"}, "x": 1},
                text("[image f]"),
                text("words"),
                {"fileData": {"fileUri": "d"}},
                {"inlineData": {"mimeType": "audio/mp3", "data": "UQ"}},
                {"new": 1},
                text("[odd left out]"),
            )
        ]


class TestCheck:
    def test_a_valid_history_has_no_problem(self):
        assert (
            rules(
                user(text()),
                model(text(), call(), call("g")),
                user(answer("g"), answer()),
                model(text()),
                user(text()),
            )
            == []
        )

    def test_contents_start_with_the_user(self):
        assert rules(model(text())) == [(0, "first-not-user")]
        assert rules({"role": "system", "parts": [text()]}, user(text())) == [(0, "system-inside")]

    def test_as_many_responses_as_calls(self):
        assert rules(user(text()), model(call(), call()), user(answer()), model(text())) == [
            (1, "call-without-result"),
            (2, "call-response-count"),
        ]
        assert rules(user(text()), model(call()), user(answer(), answer())) == [
            (2, "result-without-call"),
            (2, "call-response-count"),
        ]

    def test_responses_stand_in_the_very_next_content(self):
        assert rules(user(text()), model(call()), user(text()), user(answer())) == [
            (3, "results-not-adjacent")
        ]
        assert rules(user(text()), model(call("a"), call("b")), user(answer("a")), user(answer("b"))) == [
            (2, "call-response-count"),
            (3, "results-not-adjacent"),
        ]

    def test_calls_at_the_very_end_are_open(self):
        assert rules(user(text()), model(call())) == [(1, "open-call")]

    def test_calls_stand_behind_the_user(self):
        assert rules(user(text()), model(text()), model(call()), user(answer())) == [
            (2, "call-not-behind-user")
        ]

    def test_empty_contents_and_texts(self):
        assert rules(user(), model(text("")), user({"text": "", "thoughtSignature": "s"})) == [
            (0, "empty-content"),
            (1, "empty-text"),
        ]

    def test_white_space_is_a_text_and_comes_back(self):
        spaced = [user(text("hi"), text("\n")), model(text(" "))]
        assert rules(*spaced) == []
        assert refold.repair(spaced, "gemini").messages == spaced
        assert refold.open("s", store="memory:", format="gemini").prepare(spaced).messages is spaced

    def test_roles_are_known(self):
        assert rules(user(text()), {"role": "spirit", "parts": []}) == [(1, "unknown-role")]


class TestRecognise:
    def test_evidence(self):
        assert FORMAT.recognise({"parts": None}) == ".parts"
        assert FORMAT.recognise({"role": "function", "parts": []}) == ".parts"
        assert FORMAT.recognise({"role": "model"}) == ".role"

    @pytest.mark.parametrize(
        "item", [5, {}, {"role": "user"}, {"role": "model", "content": "x"}, {"role": []}]
    )
    def test_no_evidence(self, item):
        assert FORMAT.recognise(item) == ""


GEMINI_PARTS = st.one_of(
    st.builds(lambda text: {"text": text}, st.text(max_size=3)),
    st.builds(
        lambda field, name, more: {field: {"name": name, **more}},
        st.sampled_from(["functionCall", "function_call", "functionResponse", "function_response"]),
        st.sampled_from(["a", "b"]),
        st.sampled_from([{}, {"id": ""}, {"id": "x"}, {"id": "y"}, {"id": None}]),
    ),
    st.just({"text": "t", "functionCall": {"name": "a"}}),
    st.just({"functionCall": None, "text": "t"}),
    st.just({"videoMetadata": {}, "thoughtSignature": "c2ln"}),
)
GEMINI_CONTENTS = st.lists(
    st.builds(
        lambda role, parts: {"role": role, "parts": parts},
        st.sampled_from(["user", "model", "function", "other"]),
        st.lists(GEMINI_PARTS, max_size=3),
    ),
    max_size=8,
)


@given(GEMINI_CONTENTS, st.integers(0, 8))
def test_contents_behind_others_read_as_they_do_in_the_whole_list(contents, cut):
    assert FORMAT.parse_behind(contents[:cut], contents[cut:]) == parse(contents)[cut:]


def test_behind_others_only_calls_and_results_are_noted():
    """An unknown role and other parts give no place to a result that has no id."""
    other = {"role": "critic", "parts": [{"functionCall": {"name": "b", "args": {}}}]}
    data = {"inlineData": {"mimeType": "image/png", "data": "AA=="}}
    asked = {"role": "model", "parts": [data, {"functionCall": {"name": "a", "args": {}}}]}
    answered = {"role": "user", "parts": [{"functionResponse": {"name": "a", "response": {}}}]}
    (message,) = formats.get("gemini").parse_behind([other, asked], [answered])
    assert message.results[0].call_id == formats.get("gemini").parse([asked])[0].calls[0].id


def test_a_signature_on_an_empty_text_comes_back():
    history = [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"text": "hello"}, {"text": "", "thoughtSignature": "c2ln"}]},
        {"role": "model", "parts": [{"text": "", "thoughtSignature": "c2ln"}]},
        {"role": "user", "parts": [{"text": "go"}]},
    ]
    with refold.open("signed", store="memory:", window=100_000, format="gemini") as session:
        assert session.prepare(history).messages == history


@pytest.mark.parametrize("field", ["result", "output", "error"])
def test_a_shortened_response_keeps_its_field(field):
    history = [{"role": "user", "parts": [{"text": "List the berths."}]}]
    for number in range(6):
        call = {"functionCall": {"name": "berths", "args": {"page": number}}}
        text = "\n".join(f"berth {k}: ship {k * number}" for k in range(200))
        answer = {"functionResponse": {"name": "berths", "response": {field: text}}}
        history += [{"role": "model", "parts": [call]}, {"role": "user", "parts": [answer]}]
    done = refold.compact(history, window=8_000, target=2_500, format="gemini").messages
    parts = [
        part["functionResponse"] for item in done for part in item["parts"] if "functionResponse" in part
    ]
    assert any("left out" in part["response"][field] for part in parts)
    assert all(list(part["response"]) == [field] for part in parts)


def test_a_result_without_an_id_behind_any_items_answers_their_call():
    before = [
        {"role": "visitor", "parts": [{"text": "hi"}]},
        {"role": "user", "parts": [{"text": "Where is it?"}]},
        {"role": "model", "parts": [{"text": "I look."}, {"functionCall": {"name": "look", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"output": "no"}}}]},
        {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"again": True}}}]},
    ]
    new = [
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"output": "here"}}}]}
    ]
    gemini = get("gemini")
    (message,) = gemini.parse_behind(before, new)
    assert message == gemini.parse([*before, *new])[-1]
    assert [result.call_id for result in message.results] == ["look#1"]
