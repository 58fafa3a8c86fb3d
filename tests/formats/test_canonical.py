"""Our own form: lists of messages, and the JSON form for logs."""

import json
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_cases import EXAMPLES, JSON, NAMES, TEXT, deep, valid_histories

from refold import Document, File, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult, formats
from refold.errors import FormatError
from refold.formats.shared.canonical import FORMAT, from_json, to_json

EVERYTHING = Message(
    "assistant",
    (
        Text("t", {"x": 1}),
        Image(url="u", data="d", media_type="m", file_id="f", detail="low", extra={"y": [1]}),
        Document(text="t", data="d", url="u", media_type="m", title="n", extra={}),
        File(name="n", file_id="f", url="u", data="d", media_type="m"),
        Thinking("hm", signature="s", redacted="r"),
        ToolCall("c", "f", {"a": 1}, {"z": None}),
        ToolCall("d", "g", "{}"),
        ToolResult(
            "c", (Text("r"), Image(url="i"), Opaque("k", [1])), name="f", is_error=True, extra={"q": 1}
        ),
        Opaque("kind", {"type": "kind", "value": 1}),
        Opaque("found", {"type": "found", "text": "words"}, "text"),
    ),
    id="m1",
    name="ada",
    source="summarization",
    meta={"kind": "summary", "read_files": ("a.py",), "nested": {"files": ("b", ("c",))}, "generation": 2},
    pinned=True,
)


class TestLists:
    def test_messages_are_taken_and_given_as_they_are(self):
        messages = [EVERYTHING, Message("user", "hi")]
        assert FORMAT.parse(messages) == tuple(messages)
        out = FORMAT.render(tuple(messages))
        assert type(out) is list
        assert all(left is right for left, right in zip(out, messages, strict=True))

    @pytest.mark.parametrize("items", ["text", b"x", None, 5, {}])
    def test_what_is_no_list_is_refused(self, items):
        with pytest.raises(FormatError) as caught:
            FORMAT.parse(items)
        assert caught.value.path == "messages"

    def test_pairs_are_checked(self):
        call, result = Message("assistant", (ToolCall("c", "f"),)), Message("tool", (ToolResult("c", ()),))
        assert FORMAT.check([call, result]) == []
        assert [problem.rule for problem in FORMAT.check([result, call])] == [
            "result-without-call",
            "open-call",
        ]
        assert [problem.rule for problem in FORMAT.check([call, Message("user", "x"), result])] == [
            "results-not-adjacent"
        ]

    @given(history=valid_histories())
    def test_valid_histories_are_valid(self, history):
        assert FORMAT.check(history) == []


class TestJson:
    def test_a_plain_message_is_short(self):
        assert to_json(Message("user", "hi")) == {"role": "user", "parts": [{"kind": "text", "text": "hi"}]}
        assert to_json(Message("tool")) == {"role": "tool", "parts": []}

    def test_every_kind_of_part(self):
        value = to_json(EVERYTHING)
        assert [part["kind"] for part in value["parts"]] == [
            "text",
            "image",
            "document",
            "file",
            "thinking",
            "call",
            "call",
            "result",
            "opaque",
            "opaque",
        ]
        assert value["parts"][4] == {"kind": "thinking", "text": "hm", "signature": "s", "redacted": "r"}
        assert value["parts"][7]["content"] == [
            {"kind": "text", "text": "r"},
            {"kind": "image", "url": "i"},
            {"kind": "opaque", "value_kind": "k", "value": [1]},
        ]
        assert value["meta"] == {
            "kind": "summary",
            "read_files": ["a.py"],
            "nested": {"files": ["b", ["c"]]},
            "generation": 2,
        }
        assert (value["id"], value["name"], value["source"], value["pinned"]) == (
            "m1",
            "ada",
            "summarization",
            True,
        )

    def test_nothing_is_lost_on_the_way_through_text(self):
        assert from_json(json.loads(json.dumps(to_json(EVERYTHING)))) == EVERYTHING

    @pytest.mark.parametrize("name", NAMES)
    def test_every_message_of_every_format_comes_back(self, name):
        for message in formats.get(name).parse(EXAMPLES[name]):
            assert from_json(json.loads(json.dumps(to_json(message)))) == message

    def test_views_of_mappings_are_written_as_objects(self):
        call = ToolCall("c", "f", MappingProxyType({"a": 1}), MappingProxyType({"b": 2}))
        assert to_json(Message("assistant", (call,)))["parts"] == [
            {"kind": "call", "id": "c", "name": "f", "arguments": {"a": 1}, "extra": {"b": 2}}
        ]

    def test_values_of_any_depth_are_carried_by_reference(self):
        value = deep()
        written = to_json(Message("user", (Opaque("deep", value),)))
        assert written["parts"][0]["value"] is value
        assert from_json(written).parts[0].value is value

    @given(
        value=st.one_of(
            JSON,
            st.fixed_dictionaries(
                {"role": st.sampled_from(["user", "x", 5])},
                optional={
                    "parts": st.lists(
                        st.one_of(
                            JSON,
                            st.fixed_dictionaries(
                                {"kind": st.sampled_from(["text", "image", "call", "result", "opaque", 5])},
                                optional={
                                    "text": JSON,
                                    "id": TEXT,
                                    "name": TEXT,
                                    "call_id": JSON,
                                    "content": JSON,
                                    "value": JSON,
                                    "value_kind": TEXT,
                                    "extra": JSON,
                                },
                            ),
                        ),
                        max_size=2,
                    ),
                    "meta": JSON,
                    "pinned": JSON,
                    "id": JSON,
                },
            ),
        )
    )
    def test_any_value_is_read_or_refused_with_a_path(self, value):
        try:
            message = from_json(value)
        except FormatError as error:
            assert error.path.startswith("message")  # noqa: PT017  # the alternative is no error at all
        else:
            assert repr(from_json(to_json(message))) == repr(message)

    @pytest.mark.parametrize(
        ("value", "path"),
        [
            (5, "message"),
            ({}, "message.role"),
            ({"role": "model"}, "message.role"),
            ({"role": []}, "message.role"),
            ({"role": "user", "parts": 5}, "message.parts"),
            ({"role": "user", "parts": [5]}, "message.parts[0]"),
            ({"role": "user", "parts": [{}]}, "message.parts[0].kind"),
            ({"role": "user", "parts": [{"kind": "joke"}]}, "message.parts[0].kind"),
            ({"role": "user", "parts": [{"kind": []}]}, "message.parts[0].kind"),
            ({"role": "user", "parts": [{"kind": "text"}]}, "message.parts[0].text"),
            (
                {"role": "user", "parts": [{"kind": "text", "text": "x", "extra": 5}]},
                "message.parts[0].extra",
            ),
            ({"role": "user", "parts": [{"kind": "image", "url": 5}]}, "message.parts[0].url"),
            (
                {"role": "user", "parts": [{"kind": "call", "id": "c", "name": "f", "arguments": []}]},
                "message.parts[0].arguments",
            ),
            (
                {"role": "user", "parts": [{"kind": "result", "call_id": "c", "is_error": 1}]},
                "message.parts[0].is_error",
            ),
            (
                {"role": "user", "parts": [{"kind": "result", "call_id": "c", "content": [5]}]},
                "message.parts[0].content[0]",
            ),
            ({"role": "user", "parts": [{"kind": "opaque"}]}, "message.parts[0].value_kind"),
            ({"role": "user", "meta": []}, "message.meta"),
            ({"role": "user", "pinned": 1}, "message.pinned"),
            ({"role": "user", "id": 5}, "message.id"),
            ({"role": "user", "source": 5}, "message.source"),
            ({"role": "user", "meta": {"x": deep(5000)}}, "message"),
        ],
    )
    def test_wrong_values_are_refused_with_the_exact_path(self, value, path):
        with pytest.raises(FormatError) as caught:
            from_json(value)
        assert caught.value.path == path
