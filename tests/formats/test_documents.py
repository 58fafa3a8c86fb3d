"""Conversations read from text: JSON, request bodies, JSON lines; every way a text can be wrong."""

import json
import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_cases import EXAMPLES, JSON, NAMES

from refold.errors import FormatError
from refold.formats.shared import documents
from refold.formats.shared.documents import Document, loads, loads_lines, to_document

USER = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": "hello"}


def read(text, format=None):  # noqa: A002  # the word users know
    return to_document(loads_lines(text), format=format)


def refused(text, reader=loads):
    with pytest.raises(FormatError) as caught:
        reader(text)
    return str(caught.value)


class TestLoads:
    @given(value=JSON)
    def test_reads_what_python_writes(self, value):
        text = json.dumps(value)
        assert json.dumps(loads(text)) == text
        assert json.dumps(loads(text.encode())) == text

    @given(text=st.one_of(st.text(), st.binary(), st.text('[]{}",:0123456789eE+-.tfn \n\\')))
    def test_any_text_is_read_or_refused(self, text):
        for reader in (loads, loads_lines, read):
            try:
                reader(text)
            except FormatError as error:
                assert str(error)  # noqa: PT017  # the alternative is no error at all

    def test_not_a_number_is_carried(self):
        value = loads('{"a": NaN, "b": [Infinity, -Infinity]}')
        assert math.isnan(value["a"])
        assert json.dumps(value) == '{"a": NaN, "b": [Infinity, -Infinity]}'

    def test_lone_surrogates_and_nul_are_carried(self):
        assert loads('"\\ud800 \\u0000"') == "\ud800 \x00"

    @pytest.mark.parametrize(
        "text",
        [
            "\ufeff[1]",
            "\ufeff[1]".encode(),
            "[1]".encode("utf-8-sig"),
            "\ufeff[1]".encode("utf-16-le"),
            "\ufeff[1]".encode("utf-16-be"),
            bytearray(b"[1]"),
        ],
    )
    def test_marks_of_byte_order_are_understood(self, text):
        assert loads(text) == [1]

    def test_text_that_is_not_utf8(self):
        assert refused(b'["\xff"]') == "is not UTF-8: byte 2 cannot be read"
        assert refused(b"\xff\xfe\x00\xd8").startswith("is not UTF-16-LE: byte 0")

    def test_text_that_is_not_json(self):
        assert refused("") == "is not JSON: Expecting value at line 1 column 1"
        assert refused('{"a": 1,\n "b" 2}') == "is not JSON: Expecting ':' delimiter at line 2 column 6"
        assert refused("[1] [2]") == "is not JSON: Extra data at line 1 column 5"
        assert refused('["abc') == "is not JSON: Unterminated string starting at line 1 column 2"

    @pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a b":['])
    def test_nesting_of_any_depth_is_refused_with_its_place(self, opening):
        message = refused(opening * 100_000)
        assert message.startswith("is nested deeper than can be read, at line 1 column ")
        assert refused('["' + '\\"' * 10 + '",' + "[" * 100_000 + "]" * 100_000 + "]").startswith(
            "is nested deeper"
        )

    def test_the_place_of_nesting_is_about_right(self):
        text = '["[[[[", 1]\n'
        assert documents._find_too_deep(text) == 0
        deep = '["' + "[" * 5000 + '"' + ", [[]]" * 5000 + "," + "[" * 2000
        place = documents._find_too_deep(deep)
        assert len(deep) - 2000 < place <= len(deep) - 2000 + sys.getrecursionlimit()

    def test_strings_without_an_end_do_not_cost_the_square_of_their_length(self):
        assert documents._find_too_deep('"' + '\\"' * 300_000) == 0

    def test_numbers_with_too_many_digits(self):
        digits = "9" * 5000
        assert refused(f'["{digits}",\n {digits}]') == "has a number with too many digits, at line 2 column 2"
        assert loads("9" * 4300) == int("9" * 4300)
        assert documents._find_too_long("[1, 2]") == 0

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('{"a": 1, "a": 2}', "the key 'a' occurs twice"),
            (
                '{"messages": [{"role": "user"}, {"content": [1, {"text": "x", "b": 1, "text": "y"}]}]}',
                "messages[1].content[1]: the key 'text' occurs twice",
            ),
            ('[[], {"x": {"k": 1, "k": 1}}]', "[1].x: the key 'k' occurs twice"),
            ('[{"a": {"z": 1, "z": 1}}, {"b": 1, "b": 1}]', "[0].a: the key 'z' occurs twice"),
        ],
    )
    def test_keys_that_occur_twice_are_refused_with_their_path(self, text, message):
        assert refused(text) == message

    def test_long_keys_are_shown_short(self):
        assert len(refused(json.dumps({"k" * 1000: 1})[:-1] + ", " + json.dumps({"k" * 1000: 1})[1:])) < 120


class TestLines:
    def test_one_value_a_line(self):
        assert loads_lines('{"a": 1}\n\n{"a": 2}\r\n') == [{"a": 1}, {"a": 2}]
        assert loads_lines('{"a": 1}\n') == {"a": 1}

    def test_separators_inside_strings_do_not_end_a_line(self):
        assert loads_lines('{"a": "x\u2028y"}\n{"a": "x\x85y"}') == [{"a": "x\u2028y"}, {"a": "x\x85y"}]

    def test_errors_name_the_line(self):
        assert refused('{"a": 1}\n{"a": }', loads_lines) == "line 2: is not JSON: Expecting value at column 7"
        assert refused('{"a": 1}\n{"a": 1, "a": 2}', loads_lines) == "line 2: the key 'a' occurs twice"
        assert (
            refused('{"a": 1}\n{"b": {"a": 1, "a": 2}}', loads_lines) == "line 2 b: the key 'a' occurs twice"
        )
        assert refused('{"a": }\n{"a": 1}', loads_lines).startswith("line 1: is not JSON")
        assert refused('{"a": 1}\n{"b": ' + "[" * 100_000, loads_lines).startswith("line 2: is nested deeper")

    def test_one_broken_value_over_many_lines_keeps_its_own_error(self):
        assert (
            refused('[\n {"a": 1},\n {"a": }\n]', loads_lines)
            == "is not JSON: Expecting value at line 3 column 8"
        )
        assert refused('{"a": 1,\n"b": }', loads_lines).startswith("is not JSON: Expecting value at line 2")
        assert refused("1\n2", loads_lines).startswith("is not JSON: Extra data")


class TestRead:
    @pytest.mark.parametrize("name", NAMES)
    def test_a_list_of_messages(self, name):
        text = json.dumps(EXAMPLES[name])
        assert read(text) == Document(messages=EXAMPLES[name], format=name)
        assert read(text.encode()).messages == EXAMPLES[name]

    @pytest.mark.parametrize("name", NAMES)
    def test_one_message_a_line(self, name):
        text = "\n".join(json.dumps(item) for item in EXAMPLES[name])
        assert read(text) == Document(messages=EXAMPLES[name], format=name)

    def test_a_single_message(self):
        assert read(json.dumps(USER)).messages == [USER]
        item = {"type": "custom_tool_call", "call_id": "c", "name": "n", "input": "x"}
        assert read(json.dumps(item)) == Document(messages=[item], format="responses")

    def test_a_body_for_openai_chat(self):
        body = {"model": "gpt-4o", "messages": [USER], "tools": [{"type": "function"}], "temperature": 0}
        assert read(json.dumps(body)) == Document(
            messages=[USER], format="openai", model="gpt-4o", tools=[{"type": "function"}]
        )

    def test_a_body_for_anthropic_is_told_by_its_system_field(self):
        body = {
            "model": "claude",
            "system": [{"type": "text", "text": "s"}],
            "messages": [USER],
            "max_tokens": 5,
        }
        assert read(json.dumps(body)) == Document(
            messages=[USER], format="anthropic", model="claude", system=[{"type": "text", "text": "s"}]
        )
        spoken = {"system": "s", "messages": [{"role": "tool", "tool_call_id": "c", "content": "x"}]}
        assert read(json.dumps(spoken)).format == "openai"

    def test_a_body_for_responses(self):
        body = {"model": "gpt-5", "instructions": "s", "input": [USER]}
        assert read(json.dumps(body)) == Document(
            messages=[USER], format="responses", model="gpt-5", system="s"
        )
        assert read('{"input": "hi"}') == Document(messages=[USER], format="responses")

    @pytest.mark.parametrize("key", ["systemInstruction", "system_instruction"])
    def test_a_body_for_gemini(self, key):
        contents = [{"role": "user", "parts": [{"text": "hi"}]}]
        body = {"contents": contents, key: {"parts": [{"text": "s"}]}, "model": 5}
        assert read(json.dumps(body)) == Document(
            messages=contents, format="gemini", system={"parts": [{"text": "s"}]}
        )

    def test_a_body_for_interactions(self):
        steps = [{"type": "user_input", "content": [{"type": "text", "text": "hi"}]}]
        body = {"model": "gemini-3", "system_instruction": "s", "input": steps}
        assert read(json.dumps(body)) == Document(
            messages=steps, format="interactions", model="gemini-3", system="s"
        )

    def test_a_body_for_converse(self):
        messages = [{"role": "user", "content": [{"text": "hi"}]}]
        tools = [{"toolSpec": {"name": "f"}}]
        body = {
            "modelId": "m",
            "messages": messages,
            "system": [{"text": "s"}],
            "toolConfig": {"tools": tools},
        }
        assert read(json.dumps(body)) == Document(
            messages=messages, format="converse", model="m", system=[{"text": "s"}], tools=tools
        )

    def test_the_caller_may_say_the_format(self):
        assert read(json.dumps([USER]), format="claude").format == "anthropic"
        assert read(json.dumps({"messages": [USER]}), format="openai-chat").format == "openai"
        with pytest.raises(FormatError, match="no format is named"):
            read("[]", format="nobody")

    def test_a_body_in_which_the_list_is_none(self):
        with pytest.raises(FormatError) as caught:
            read('{"messages": 5}')
        assert caught.value.path == "messages"

    def test_values_that_are_no_conversation(self):
        assert refused("5", read) == "expected a list of messages, a request body, or one message a line"
        assert refused("[5]", read).startswith("messages[0]: expected an object")

    def test_many_conversations_are_not_one(self):
        line = json.dumps({"messages": [USER, SAID]})
        assert read(line).messages == [USER, SAID]
        assert refused(f"{line}\n{line}", read) == "holds 2 conversations, one a line: give one of them"

    def test_an_object_that_is_no_body_is_taken_for_a_message(self):
        assert read('{"content": "x"}').messages == [{"content": "x"}]
        assert read('{"messages": null, "contents": []}').format == "gemini"
