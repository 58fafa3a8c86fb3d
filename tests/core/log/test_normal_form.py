"""The normal form: one message in different JSON is one message, and nothing else is."""

import pytest

from refold.core.log.normal_form import (
    put_cache_mark,
    remove_cached_fields,
    split_cache_marks,
    write_normal_form,
)

CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "ls", "arguments": '{"path": "a", "deep": null}'},
}
USE = {"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "a"}}
MARK = {"type": "ephemeral"}

SAME = {
    "a string and one text": (
        {"role": "user", "content": "hi"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    ),
    "a string in a list": ({"role": "user", "content": "hi"}, {"role": "user", "content": ["hi"]}),
    "the types of a text": (
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {
            "role": "user",
            "content": [{"type": "output_text", "text": "hi", "annotations": [], "logprobs": []}],
        },
    ),
    "Gemini's text": ({"role": "user", "parts": [{"text": "hi"}]}, {"role": "user", "content": "hi"}),
    "blanks at the end": ({"role": "user", "content": "hi \n"}, {"role": "user", "content": "hi"}),
    "a moved cache mark": (
        {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": MARK}]},
        {"role": "user", "content": "hi"},
    ),
    "a cache mark inside an unknown part": (
        {"role": "user", "content": [{"type": "later", "inner": {"a": 1, "cache_control": MARK}}]},
        {"role": "user", "content": [{"type": "later", "inner": {"a": 1}}]},
    ),
    "a mark of Converse": (
        {"role": "user", "content": [{"text": "hi"}, {"cachePoint": {"type": "default"}}]},
        {"role": "user", "content": [{"text": "hi"}]},
    ),
    "nothing but null": ({"role": "assistant", "content": None}, {"role": "assistant"}),
    "nulls and empty lists": (
        {"role": "assistant", "content": "x", "refusal": None, "tool_calls": [], "audio": None},
        {"role": "assistant", "content": "x"},
    ),
    "no tool calls": (
        {"role": "assistant", "content": "x", "tool_calls": None},
        {"role": "assistant", "content": "x"},
    ),
    "no content": (
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
    ),
    "arguments written anew": (
        {"role": "assistant", "tool_calls": [CALL]},
        {
            "role": "assistant",
            "tool_calls": [
                {"index": 0, "id": "c1", "function": {"name": "ls", "arguments": '{"deep":null,"path":"a"}'}}
            ],
        },
    ),
    "a message with its type": (
        {"type": "message", "id": "msg_1", "status": "completed", "role": "user", "content": "hi"},
        {"role": "user", "content": "hi"},
    ),
    "an item's id": (
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "ls", "arguments": '{"a":1}'},
        {"type": "function_call", "id": "fc_2", "call_id": "c1", "name": "ls", "arguments": '{"a": 1}'},
    ),
    "thinking beside a text": (
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, USE]},
        {"role": "assistant", "content": [USE]},
    ),
    "Gemini's thought": (
        {
            "role": "model",
            "parts": [{"text": "hm", "thought": True}, {"text": "hi", "thoughtSignature": "s"}],
        },
        {"role": "model", "parts": [{"text": "hi", "thought": False}]},
    ),
    "a result without an error": (
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok", "is_error": False}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "ok"}]}
            ],
        },
    ),
    "the order of keys": (
        {"role": "user", "content": "a", "name": "b"},
        {"name": "b", "content": "a", "role": "user"},
    ),
    "an encrypted reasoning with a summary": (
        {"type": "reasoning", "summary": [{"text": "hm"}], "content": None, "encrypted_content": "x"},
        {"type": "reasoning", "summary": [{"text": "hm"}]},
    ),
    "thinking beside the content": (
        {
            "role": "assistant",
            "content": "x",
            "reasoning_content": "hm",
            "reasoning_details": [{"text": "hm"}],
        },
        {"role": "assistant", "content": "x"},
    ),
    "what is no object": ("hi", "hi"),
}

OTHER = {
    "another compaction by Codex": (
        {"type": "context_compaction", "created_by": "server", "encrypted_content": "AA"},
        {"type": "context_compaction", "created_by": "server", "encrypted_content": "BB"},
    ),
    "another compaction of the same author": (
        {"type": "compaction", "id": "c", "created_by": "server", "encrypted_content": "AA"},
        {"type": "compaction", "id": "c", "created_by": "server", "encrypted_content": "BB"},
    ),
    "another text": ({"role": "user", "content": "hi"}, {"role": "user", "content": "ho"}),
    "another role": ({"role": "user", "content": "hi"}, {"role": "assistant", "content": "hi"}),
    "two texts and one": (
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "user", "content": "ab"},
    ),
    "blanks in front": ({"role": "user", "content": " hi"}, {"role": "user", "content": "hi"}),
    "another call": (
        {"role": "assistant", "content": [USE]},
        {"role": "assistant", "content": [{**USE, "id": "t2"}]},
    ),
    "other arguments": (
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "ls", "arguments": "{}"}}]},
    ),
    "arguments that are no JSON": (
        {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{"},
        {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{ "},
    ),
    "null inside arguments": (
        {"type": "function_call", "call_id": "c1", "arguments": '{"a": null}'},
        {"type": "function_call", "call_id": "c1", "arguments": "{}"},
    ),
    "a failed result": (
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": True}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}]},
    ),
    "another thinking alone": (
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "ha"}]},
    ),
    "another thinking without content": (
        {"role": "assistant", "content": None, "reasoning_content": "hm"},
        {"role": "assistant", "content": None, "reasoning_content": "ha"},
    ),
    "another reference": ({"type": "item_reference", "id": "a"}, {"type": "item_reference", "id": "b"}),
    "another encrypted reasoning": (
        {"type": "reasoning", "summary": [], "encrypted_content": "x"},
        {"type": "reasoning", "summary": [], "encrypted_content": "y"},
    ),
    "an unknown field": ({"role": "user", "content": "hi", "mood": 1}, {"role": "user", "content": "hi"}),
    "an unknown part": (
        {"role": "user", "content": [{"type": "x", "v": [1, 2.5]}]},
        {"role": "user", "content": []},
    ),
    "a custom call": (
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"input": "a"}}]},
        {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"input": "b"}}]},
    ),
    "content that is an object": (
        {"role": "user", "content": {"a": 1}},
        {"role": "user", "content": {"a": 2}},
    ),
    "what is no object": ("hi", ["hi"]),
    "numbers that run together": (
        {"role": "assistant", "content": [{**USE, "input": {"lines": [1, 23]}}]},
        {"role": "assistant", "content": [{**USE, "input": {"lines": [12, 3]}}]},
    ),
    "an input by the name of the cache mark": (
        {"role": "assistant", "content": [{**USE, "input": {"cache_control": "no-cache"}}]},
        {"role": "assistant", "content": [{**USE, "input": {"cache_control": "public"}}]},
    ),
    "a call that its result names by its id": (
        {"type": "function_call", "id": "c1", "name": "ls", "arguments": {}},
        {"type": "function_call", "id": "c2", "name": "ls", "arguments": {}},
    ),
    "a request for approval": (
        {"type": "mcp_approval_request", "id": "a1", "name": "ls", "arguments": "{}"},
        {"type": "mcp_approval_request", "id": "a2", "name": "ls", "arguments": "{}"},
    ),
    "a key that looks like another field": (
        {"role": "user", "content": "x", "a=s1:1f1:b": "2"},
        {"role": "user", "content": "x", "a": "1", "b": "2"},
    ),
    "a key that looks like a field without its length": (
        {"role": "user", "content": "x", "a=s1:1fb": "2"},
        {"role": "user", "content": "x", "a": "1", "b": "2"},
    ),
    "a field that runs into the next": (
        {"role": "user", "content": "x", "a": "1fb=s1:2"},
        {"role": "user", "content": "x", "a": "1", "b": "2"},
    ),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_one_message_in_other_json_is_the_same(one, other):
    assert write_normal_form(one, 5) == write_normal_form(other, 5)


@pytest.mark.parametrize(("one", "other"), OTHER.values(), ids=OTHER)
def test_what_means_something_else_differs(one, other):
    assert write_normal_form(one, 5) != write_normal_form(other, 5)


class TestEnvironment:
    def message(self, day, text="Count"):
        reminder = f"<system-reminder>\nToday is {day}.\n</system-reminder>\n"
        return {
            "role": "user",
            "content": [{"type": "text", "text": reminder}, {"type": "text", "text": text}],
        }

    @pytest.mark.parametrize("number", [1, 2])
    def test_it_does_not_count_in_the_first_messages(self, number):
        assert write_normal_form(self.message("Monday"), number) == write_normal_form(
            self.message("Friday"), number
        )

    @pytest.mark.parametrize("number", [0, 3])
    def test_it_counts_later(self, number):
        assert write_normal_form(self.message("Monday"), number) != write_normal_form(
            self.message("Friday"), number
        )

    def test_the_words_beside_it_count(self):
        assert write_normal_form(self.message("a", "Count"), 1) != write_normal_form(
            self.message("a", "Sum"), 1
        )

    @pytest.mark.parametrize(
        "text",
        [
            "<system-reminder>a</system-reminder> and words",
            "words <system-reminder>a</system-reminder>",
            "<system-reminder>a</system-reminder>words<system-reminder>b</system-reminder>",
            "<system-reminder>a",
            "<other>a</other>",
        ],
    )
    def test_a_text_with_more_than_one_block_counts(self, text):
        assert write_normal_form({"role": "user", "content": text}, 1) != write_normal_form(
            {"role": "user", "content": ""}, 1
        )

    def test_a_whole_message_keeps_its_place_whatever_its_id(self):
        one = {
            "type": "message",
            "id": "msg_1",
            "role": "user",
            "content": "<environment_context>a</environment_context>",
        }
        other = {**one, "id": "msg_2", "content": "<environment_context>b</environment_context>"}
        assert write_normal_form(one, 1) == write_normal_form(other, 1)


USUAL = {
    "a text": {"type": "text", "text": "hi"},
    "an empty text": {"type": "text", "text": " "},
    "a text that is none": {"type": "text", "text": 5},
    "a result": {"type": "tool_result", "tool_use_id": "t1", "content": "done "},
    "an empty result": {"type": "tool_result", "tool_use_id": "t1", "content": ""},
    "a result in blocks": {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [{"type": "text", "text": "done"}],
    },
    "a result without an id": {"type": "tool_result", "tool_use_id": None, "content": "done"},
    "a call": USE,
    "a call with an odd input": {**USE, "input": "ls"},
    "a call without a name": {**USE, "name": None},
}


@pytest.mark.parametrize("number", [1, 9])
@pytest.mark.parametrize("part", USUAL.values(), ids=USUAL)
def test_usual_parts_are_written_as_all_others(part, number):
    """A field that says nothing sends a part the long way; both ways lead to one name."""
    before, behind = {"type": "text", "text": "one"}, {"type": "text", "text": "two"}
    short = {"role": "user", "content": [before, part, behind]}
    long = {"role": "user", "content": [before, {**part, "later": None}, behind], "refusal": None}
    assert write_normal_form(short, number) == write_normal_form(long, number)


@pytest.mark.parametrize("more", [{}, {"index": 0}, {"later": None}, {"id": None}, {"id": 5}])
def test_names_of_calls_stay_what_they_are(more):
    """Fields of a call that say nothing count nothing, and others count in their order."""
    written = write_normal_form({"role": "assistant", "tool_calls": [{**CALL, **more}]}, 1)
    start = {None: "", 5: "f2:id=5"}.get(more.get("id", "c1"), "f2:id=s2:c1")
    assert written == f"assistant|None|c{start}d2:f4:deep=nullf4:path=s1:af4:name=s2:ls"


def test_names_of_older_logs_know_no_field_of_that_name():
    assert remove_cached_fields([{"a": [{"cache_control": MARK, "b": 1}], "cache_control": MARK}]) == [
        {"a": [{"b": 1}]}
    ]


POINT = {"cachePoint": {"type": "default"}}
GIVEN = {"type": "tool_use", "id": "t", "name": "post", "input": {"cache_control": MARK, **POINT}}
MARKED = {
    "in blocks": (
        {"role": "user", "content": [{"type": "text", "text": "a"}, {**GIVEN, "cache_control": MARK}]},
        {"role": "user", "content": [{"type": "text", "text": "a"}, GIVEN]},
        [{"cache_control": MARK}],
    ),
    "in a result": (
        {
            "content": [
                {"type": "tool_result", "content": [{"type": "text", "text": "a", "cache_control": MARK}]}
            ]
        },
        {"content": [{"type": "tool_result", "content": [{"type": "text", "text": "a"}]}]},
        [{"cache_control": MARK}],
    ),
    "of the message": (
        {"role": "user", "content": "a", "cache_control": MARK},
        {"role": "user", "content": "a"},
        [{"cache_control": MARK}],
    ),
    "of Converse": (
        {"role": "user", "content": [{"text": "a"}, POINT, {"text": "b"}, POINT]},
        {"role": "user", "content": [{"text": "a"}, {"text": "b"}]},
        [POINT, POINT],
    ),
}


@pytest.mark.parametrize(("message", "bare", "marks"), MARKED.values(), ids=MARKED)
def test_cache_marks_are_taken_from_a_message_and_nothing_else(message, bare, marks):
    assert split_cache_marks(message) == (bare, marks)


@pytest.mark.parametrize(
    "message",
    [
        "text",
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": None, "cache_control": None},
        {"role": "assistant", "content": [GIVEN]},
    ],
    ids=["no object", "plain", "null", "what a tool is given"],
)
def test_a_message_without_marks_stays_the_same_object(message):
    bare, marks = split_cache_marks(message)
    assert bare is message
    assert marks == []


@pytest.mark.parametrize(
    ("content", "mark", "after"),
    [
        ("a", {"cache_control": MARK}, [{"type": "text", "text": "a", "cache_control": MARK}]),
        ([GIVEN], {"cache_control": MARK}, [{**GIVEN, "cache_control": MARK}]),
        ([{"text": "a"}], POINT, [{"text": "a"}, POINT]),
        ("", {"cache_control": MARK}, ""),
        (None, {"cache_control": MARK}, None),
        (["a"], {"cache_control": MARK}, ["a"]),
        ({"a": 1}, {"cache_control": MARK}, {"a": 1}),
        (
            [{"type": "thinking", "thinking": "a"}],
            {"cache_control": MARK},
            [{"type": "thinking", "thinking": "a"}],
        ),
    ],
    ids=["words", "block", "converse", "empty", "null", "bare texts", "object", "thinking"],
)
def test_a_cache_mark_is_put_where_a_provider_takes_it(content, mark, after):
    message = {"role": "user", "content": content}
    before = repr(message)
    assert put_cache_mark(message, mark) == {"role": "user", "content": after}
    assert repr(message) == before
