"""What the writers of all formats share."""

import json

import pytest
from wire_cases import deep

from refold import Document, File, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from refold.formats.shared import checks, reading, writing


class TestText:
    def test_markers_are_short(self):
        assert writing.placeholder(Image()) == "[image]"
        assert writing.placeholder(Image(url="u" * 1000)) == f"[image {'u' * 200}]"
        assert writing.placeholder(Document(title="t", url="u")) == "[document t]"
        assert writing.placeholder(Document(text="all of it")) == "all of it"
        assert writing.placeholder(File(url="u", file_id="i")) == "[file u]"
        assert writing.placeholder(File(file_id="i")) == "[file i]"
        assert writing.placeholder(Opaque("k" * 1000, 5)) == f"[{'k' * 80} left out]"
        assert writing.placeholder(Thinking("secret")) == "[reasoning left out]"

    def test_results_as_text(self):
        parts = (
            Text("a"),
            Opaque("code", 0),
            Opaque("block", {"type": "block"}),
            Image(),
            Opaque("odd", object()),
        )
        assert (
            writing.to_plain_text(parts)
            == 'a\ncode: 0\n[block left out]\n[image]\nodd: {"_raw": "[object that is not JSON]"}'
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

    def test_pairs_are_checked_in_linear_time(self):
        """A hundred thousand calls, answered in reverse."""
        ids = [str(number) for number in range(100_000)]
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
