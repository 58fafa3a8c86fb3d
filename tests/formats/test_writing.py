"""What the writers of all formats share."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_cases import EXAMPLES, ITEMS, NAMES, deep, encoded

from refold import Document, File, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult, formats
from refold.core.messages.message import find_texts, replace_texts
from refold.errors import FormatError
from refold.formats.shared import checks, reading, writing
from sample_sizes import few_or_all


class TestText:
    def test_markers_are_short(self):
        assert writing.placeholder(Image()) == "[image]"
        assert writing.placeholder(Image(url="u" * 1000)) == f"[image {'u' * 200}]"
        assert writing.placeholder(Document(title="t", url="u")) == "[document t]"
        assert writing.placeholder(Document(text="all of it")) == "all of it"
        assert writing.placeholder(File(url="u", file_id="i")) == "[file u]"
        assert writing.placeholder(File(file_id="i")) == "[file i]"
        assert writing.placeholder(Opaque("k" * 1000, 5)) == f"[{'k' * 80} left out]"
        assert writing.placeholder(Opaque("found", {"text": "words"}, "text")) == "[found]\nwords"
        assert writing.placeholder(Opaque("found", {"text": ""}, "text")) == "[found left out]"
        assert writing.placeholder(Thinking("secret")) == "[reasoning left out]"

    def test_results_as_text(self):
        parts = (
            Text("a"),
            Opaque("code", 0),
            Opaque("block", {"type": "block"}),
            Opaque("rows", {"a": 1}, ""),
            Image(),
            Opaque("odd", object()),
        )
        assert (
            writing.to_plain_text(parts)
            == 'a\ncode: 0\n[block left out]\nrows: {"a": 1}\n[image]\nodd: {"_raw": "[object that is not JSON]"}'
        )
        assert writing.to_plain_text(()) == ""

    def test_values_that_are_no_json_are_named(self):
        for value in (deep(), {1, 2}):
            assert json.loads(writing.to_json(value))["_raw"].endswith("that is not JSON]")
        cycle = []
        cycle.append(cycle)
        assert writing.to_json(cycle) == '{"_raw": "[list that is not JSON]"}'
        assert writing.to_json({"é": "\ud800"}) == '{"é": "\ud800"}'

    @pytest.mark.parametrize(
        ("given", "made"),
        [
            ('{"a": 1}', {"a": 1}),
            ("", {}),
            (" \n", {}),
            ("5", {"_raw": "5"}),
            ("{", {"_raw": "{"}),
            ("[" * 100_000, {"_raw": "[" * 100_000}),
        ],
    )
    def test_arguments_as_an_object(self, given, made):
        assert writing.arguments_as_object(given) == made

    def test_arguments_are_copied_not_shared(self):
        given = {"a": 1}
        assert writing.arguments_as_object(given) == given
        assert writing.arguments_as_object(given) is not given


class TestJoined:
    def is_result(self, block):
        return block == "r"

    @pytest.mark.slow
    def test_many_results_of_ours_cost_no_more_each(self):
        """One list takes them all; copying it each time would not end."""
        joined = writing.ItemJoiner("c", self.is_result)
        for _ in range(50_000):
            joined.add_results({"c": ["r"]})
        assert len(joined.items) == 1
        assert len(joined.items[0]["c"]) == 50_000

    def test_results_go_behind_the_last_result(self):
        joined = writing.ItemJoiner("c", self.is_result)
        read = {"c": ["r", "x", "r", "t"]}
        joined.add(read, Message("user"))
        joined.add_results({"c": ["1"]})
        joined.add_results({"c": ["2"]})
        assert joined.items == [{"c": ["r", "x", "r", "1", "2", "t"]}]
        assert read == {"c": ["r", "x", "r", "t"]}

    def test_items_without_results_are_left_alone(self):
        joined = writing.ItemJoiner("c", self.is_result)
        result = Message("user", (ToolResult("a", ()),))
        joined.add({"c": ["r"]}, result)
        joined.add({"c": ["r"]}, result)
        joined.add({"c": "text"}, Message("user", "text"))
        joined.add_results({"c": ["r"]})
        joined.add({"c": ["t"]}, Message("user", "t"))
        joined.add({"c": ["r"]}, result)
        assert [item["c"] for item in joined.items] == [["r"], ["r"], "text", ["r"], ["t"], ["r"]]


class TestChecks:
    def test_values_of_any_size_are_shown_short(self):
        assert checks.shorten("x") == "'x'"
        assert checks.shorten(5) == "5"
        assert len(checks.shorten("\x00" * 10_000)) <= 90
        assert checks.shorten("\x00" * 10_000).endswith("...")

    @pytest.mark.slow
    def test_pairs_are_checked_in_linear_time(self):
        """A hundred thousand calls, or a quarter of them, answered in reverse."""
        ids = [str(number) for number in range(few_or_all(25_000, 100_000))]
        calls = Message("assistant", tuple(ToolCall(name, "f") for name in ids))
        results = Message("tool", tuple(ToolResult(name, ()) for name in reversed(ids)))
        assert checks.pairs([calls, results], lambda message, before: False) == []


class TestReading:
    @pytest.mark.parametrize(
        ("url", "split"),
        [
            ("data:image/png;base64,aQ==", ("image/png", "aQ==")),
            ("data:image/png;charset=x;base64,", ("image/png;charset=x", "")),
            ("data:;base64,x", ("", "x")),
            ("data:text/plain,hello", None),
            ("data:image/png;base64", None),
            ("data:" + "x" * 300 + ";base64,aQ==", None),
            ("https://example.org/;base64,x", None),
        ],
    )
    def test_inline_addresses(self, url, split):
        assert reading.split_data_url(url) == split

    def test_kinds_have_the_words_of_json(self):
        values = (None, True, 5, 1.5, "x", [], {}, (), b"")
        assert [reading.json_type(value) for value in values] == [
            "null",
            "a boolean",
            "a number",
            "a number",
            "a string",
            "a list",
            "an object",
            "tuple",
            "bytes",
        ]


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_other_words_are_written_where_the_old_ones_stood(name, data):
    """As a stage does that shortens them. Data that is no longer data is written as text."""
    item = data.draw(st.one_of(st.sampled_from(EXAMPLES[name]), ITEMS[name]))
    try:
        messages = formats.get(name).parse([item])
    except FormatError:
        return
    changed = [replace(message, parts=tuple(map(put_brief, message.parts))) for message in messages]
    items = formats.get(name).render(changed)
    assert brief_texts(formats.get(name).parse(items)) == brief_texts(changed)
    if not brief_texts(changed):
        assert [encoded(written) for written in items] == [encoded(item)] * len(items)


@pytest.mark.parametrize(
    ("name", "block"),
    [
        (
            "anthropic",
            {"type": "search_result", "source": "s", "content": [{"type": "text", "text": "LONG"}]},
        ),
        ("anthropic", {"type": "document", "title": "t", "source": {"type": "content", "content": "LONG"}}),
        ("anthropic", {"type": "mcp_tool_result", "content": [{"type": "text", "text": "LONG"}]}),
        ("anthropic", {"type": "bash_code_execution_tool_result", "content": {"stdout": "LONG", "code": 0}}),
        (
            "anthropic",
            {"type": "web_fetch_tool_result", "content": {"content": {"source": {"data": "LONG"}}}},
        ),
        ("converse", {"searchResult": {"source": "s", "content": [{"text": "LONG"}]}}),
        ("converse", {"document": {"name": "n", "source": {"content": [{"text": "LONG"}]}}}),
        ("converse", {"guardContent": {"text": {"text": "LONG", "qualifiers": []}}}),
        ("gemini", {"codeExecutionResult": {"outcome": "OK", "output": "LONG"}}),
        ("gemini", {"code_execution_result": {"outcome": "OK", "output": "LONG"}}),
        ("responses", {"type": "mcp_call", "id": "m", "output": "LONG"}),
        (
            "responses",
            {"type": "file_search_call", "queries": [], "results": [{"filename": "a", "text": "LONG"}]},
        ),
        ("responses", {"type": "code_interpreter_call", "outputs": [{"type": "logs", "logs": "LONG"}]}),
        ("responses", {"type": "mcp_list_tools", "tools": [{"name": "a", "description": "LONG"}]}),
    ],
    ids=str,
)
def test_a_carried_block_keeps_everything_but_its_words(name, block):
    key = "parts" if name == "gemini" else "content"
    item = block if name == "responses" else {"role": "user", key: [block]}
    (message,) = formats.get(name).parse([item])
    assert [find_texts(part) for part in message.parts] == [("LONG",)]
    changed = replace(message, parts=tuple(map(put_brief, message.parts)))
    (written,) = formats.get(name).render([changed])
    assert encoded(written) == encoded(item).replace(b"LONG", b"brief")


@pytest.mark.parametrize(
    ("words", "written"),
    [('{"rows": [1]}', {"json": {"rows": [1]}}), ("[1]", {"text": "[1]"}), ("gone", {"text": "gone"})],
)
def test_data_that_is_no_object_any_more_is_written_as_text(words, written):
    result = {"toolResult": {"toolUseId": "t", "content": [{"json": {"rows": [1, 2, 3]}}]}}
    (message,) = formats.get("converse").parse([{"role": "user", "content": [result]}])
    changed = replace(message, parts=(replace_texts(message.parts[0], [words]),))
    (item,) = formats.get("converse").render([changed])
    assert item["content"][0]["toolResult"]["content"] == [written]


def put_brief(part):
    texts = find_texts(part)
    return replace_texts(part, ["brief"] * len(texts)) if any(map(str.strip, texts)) else part


def brief_texts(messages):
    texts = (text for message in messages for part in message.parts for text in find_texts(part))
    return [text.strip() for text in texts if "brief" in text]
