"""Lists that no agent wrote: requests, ShareGPT, LangChain, telemetry, and lists under other names."""

import json

import pytest
from agent_records import read_values

from refold.errors import FormatError
from refold.transcripts.agents import plain


def test_a_request_brings_system_tools_and_model():
    body = {
        "model": "m",
        "system": "be good",
        "tools": [{"name": "t"}],
        "messages": [{"role": "user", "content": "hi"}],
    }
    recording = plain.read(body)
    assert (recording.format, recording.system, recording.model, recording.title) == (
        "anthropic",
        "be good",
        "m",
        "hi",
    )
    assert recording.tools == [{"name": "t"}]


def test_reported_usage_in_messages_is_found():
    answer = {
        "role": "assistant",
        "content": "ho",
        "extra": {"response": {"model": "g", "usage": {"prompt_tokens": 7, "completion_tokens": 2}}},
    }
    recording = plain.read(
        {
            "messages": [
                {"role": "user", "content": "hi"},
                answer,
                {"role": "assistant", "content": "x", "usage": {"input_tokens": 3}},
            ]
        }
    )
    assert [(index, usage.context) for index, usage in recording.usages] == [(1, 7), (2, 3)]
    assert recording.model == "g"


def test_gemini_contents_have_a_title_too():
    assert plain.read({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}).title == "hi"
    assert plain.read([{"role": "assistant", "content": "hi"}]).title is None


def test_sharegpt():
    turns = [
        {"from": "system", "value": "s"},
        {"from": "human", "value": "q"},
        {"from": "gpt", "value": "a"},
        {"from": "martian", "value": "?"},
    ]
    for value in ({"conversations": turns}, turns):
        recording = plain.read(value)
        assert [one["role"] for one in recording.messages] == ["system", "user", "assistant", "user"]
        assert (recording.format, recording.title) == ("openai", "q")


def test_langchain_in_both_of_its_forms():
    usage = {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6}
    ai = {
        "content": [{"type": "text", "text": "a"}],
        "tool_calls": [{"id": "c", "name": "run", "args": {"x": 1}}],
        "usage_metadata": usage,
        "response_metadata": {"model_name": "m"},
        "additional_kwargs": {"reasoning_content": "hm"},
    }
    picture = [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]
    dicts = [
        {"type": "system", "data": {"content": "s"}},
        {"type": "human", "data": {"content": "q"}},
        {"type": "human", "data": {"content": picture}},
        {"type": "ai", "data": ai},
        {"type": "tool", "data": {"content": "r", "tool_call_id": "c"}},
    ]
    names = ["SystemMessage", "HumanMessage", "HumanMessage", "AIMessage", "ToolMessage"]
    objects = [
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", name], "kwargs": one["data"]}
        for name, one in zip(names, dicts, strict=True)
    ]
    first, second = plain.read(dicts), plain.read(objects)
    assert first.messages == second.messages
    assert [one["role"] for one in first.messages] == ["system", "user", "user", "assistant", "tool"]
    assert first.messages[2]["content"] == picture
    assert json.loads(first.messages[3]["tool_calls"][0]["function"]["arguments"]) == {"x": 1}
    assert first.messages[3]["reasoning_content"] == "hm"
    assert (first.usages[0][1].context, first.model, first.title) == (5, "m", "q")


def test_telemetry():
    messages = [
        {"role": "system", "parts": [{"type": "text", "content": "s"}]},
        {"role": "user", "parts": [{"type": "text", "content": "q"}]},
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "hm"},
                {"type": "tool_call", "id": "c", "name": "run", "arguments": {"x": 1}},
            ],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": {"ok": True}}]},
    ]
    out = [{"role": "assistant", "parts": [{"type": "text", "content": "a"}]}]
    span = {"attributes": {"gen_ai.input.messages": json.dumps(messages), "gen_ai.output.messages": out}}
    recording = plain.read(span)
    assert [one["role"] for one in recording.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert recording.messages[3]["content"] == '{"ok": true}'
    assert recording.messages[2]["reasoning_content"] == "hm"
    assert recording.title == "q"
    assert plain.unwrap_list({"gen_ai.input.messages": "{torn"}) == {"gen_ai.input.messages": "{torn"}


def test_parts_of_gemini_are_not_telemetrys():
    assert plain.detect_shape([{"role": "user", "parts": [{"text": "hi"}]}]) == ""
    assert plain.detect_shape([{"role": "user", "parts": []}]) == ""
    assert plain.detect_shape([{"role": 3}]) == ""
    assert plain.detect_shape([]) == ""
    assert plain.detect_shape("text") == ""


def test_lists_under_other_names():
    assert plain.read({"traj": [{"role": "user", "content": "hi"}], "reward": 1.0}).messages == (
        {"role": "user", "content": "hi"},
    )
    assert plain.unwrap_list({"traj": [], "x": 1}) == {"traj": [], "x": 1}


def test_a_shape_that_is_named_counts():
    turns = [{"from": "human", "value": "q"}]
    assert plain.read(turns, format="openai").messages == tuple(turns)


def test_what_is_no_conversation_is_refused():
    with pytest.raises(FormatError):
        plain.read("text")
    with pytest.raises(FormatError):
        plain.read([1, 2])


def test_messages_that_cannot_be_read_are_left_out():
    recording = read_values(
        [{"role": "user", "content": "hi"}, {"content": "nobody"}, {"role": "assistant", "content": "ho"}]
    )
    assert len(recording.messages) == 2
    assert [problem.rule for problem in recording.problems] == ["shape"]
