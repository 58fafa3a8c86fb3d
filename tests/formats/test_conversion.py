"""A history read in one format and written in another: what is kept, what becomes a marker."""

import pytest
from wire_cases import ANTHROPIC, CHAT, GEMINI, RESPONSES

from refold import Message, Text, Thinking, ToolResult
from refold.formats import get

OPENAI, ANSWERS, CLAUDE, GOOGLE = (get(name) for name in ("openai", "responses", "anthropic", "gemini"))


def test_a_tool_round_of_anthropic_for_openai():
    out = OPENAI.render(CLAUDE.parse(ANTHROPIC[3:5]))
    assert out == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "reading"},
                {"type": "text", "text": "[server_tool_use left out]"},
                {"type": "text", "text": "[web_search_tool_result left out]"},
                {"type": "text", "text": "[compaction left out]"},
            ],
            "tool_calls": [
                {
                    "id": "t1",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"path": "a.py"}'},
                },
                {"id": "t2", "type": "function", "function": {"name": "list", "arguments": "{}"}},
                {"id": "t3", "type": "function", "function": {"name": "bare", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "text"},
        {"role": "tool", "tool_call_id": "t2", "content": "x\n[image u]\n[tool_reference left out]"},
        {"role": "tool", "tool_call_id": "t3", "content": ""},
        {"role": "user", "content": "go on"},
    ]


def test_a_tool_round_of_anthropic_for_gemini():
    out = GOOGLE.render(CLAUDE.parse(ANTHROPIC[3:5]))
    assert [part.get("functionCall", {}).get("id") for part in out[0]["parts"]] == [
        None,
        None,
        None,
        None,
        "t1",
        "t2",
        "t3",
    ]
    assert [part.get("functionResponse") for part in out[1]["parts"]] == [
        {"id": "t1", "name": "read", "response": {"output": "text"}},
        {"id": "t2", "name": "list", "response": {"error": "x\n[image u]\n[tool_reference left out]"}},
        {"id": "t3", "name": "bare", "response": {}},
        None,
    ]


def test_fields_of_one_provider_do_not_leak_into_another():
    cached = {
        "role": "user",
        "content": [{"type": "text", "text": "a", "cache_control": {}}, {"type": "text", "text": "b"}],
    }
    signed = {"role": "model", "parts": [{"text": "a", "thoughtSignature": "s"}]}
    assert OPENAI.render(CLAUDE.parse([cached]))[0]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]
    assert CLAUDE.render(GOOGLE.parse([signed])) == [
        {"role": "assistant", "content": [{"type": "text", "text": "a"}]}
    ]
    called = GOOGLE.parse(
        [
            {
                "role": "model",
                "parts": [{"functionCall": {"name": "f", "args": {}, "x": 1}, "thoughtSignature": "s"}],
            }
        ]
    )
    assert ANSWERS.render(called) == [
        {"type": "function_call", "call_id": "f#0", "name": "f", "arguments": "{}"}
    ]


def test_ids_made_from_a_position_pair_elsewhere():
    history = GOOGLE.parse([GEMINI[0], GEMINI[4], GEMINI[5]])
    for wire in (OPENAI, ANSWERS, CLAUDE):
        read = wire.parse(wire.render(history))
        assert wire.check(read) == []
        assert len({call.id for message in read for call in message.calls}) == 4


def test_calls_that_are_items_of_their_own_become_one_group():
    """Responses has one item a call; chat and Gemini want them in one message, before their results."""
    items = [
        {"role": "user", "content": "u"},
        {"type": "reasoning", "id": "rs", "summary": []},
        {"role": "assistant", "content": "so"},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"type": "function_call_output", "call_id": "b", "output": "2"},
    ]
    history = ANSWERS.parse(items)
    assert [item["role"] for item in OPENAI.render(history)] == ["user", "assistant", "tool", "tool"]
    assert [item["role"] for item in GOOGLE.render(history)] == ["user", "model", "user"]
    assert [item["role"] for item in CLAUDE.render(history)] == [
        "user",
        "assistant",
        "assistant",
        "assistant",
        "user",
    ]
    for wire in (OPENAI, GOOGLE, CLAUDE):
        assert wire.check(wire.parse(wire.render(history))) == []


def test_files_by_id_belong_to_their_provider():
    assert "file_1" not in str(OPENAI.render(CLAUDE.parse(ANTHROPIC[2:3]))[0]["content"][3].get("file"))
    assert CLAUDE.render(ANSWERS.parse(RESPONSES[3:4]))[0]["content"][1] == {
        "type": "text",
        "text": "[image file-9]",
    }
    assert ANSWERS.render(CLAUDE.parse(ANTHROPIC[2:3]))[0]["content"][7] == {
        "type": "input_text",
        "text": "[file file_2]",
    }
    assert GOOGLE.render(CLAUDE.parse(ANTHROPIC[2:3]))[0]["parts"][2] == {
        "text": "[image https://example.org/a.png]"
    }


def test_a_message_of_an_unknown_role_is_named():
    assert CLAUDE.render(OPENAI.parse(CHAT[-1:])) == [
        {"role": "user", "content": [{"type": "text", "text": "[critic left out]"}]}
    ]


@pytest.mark.parametrize("wire", [OPENAI, ANSWERS, CLAUDE])
def test_thoughts_of_others_are_left_out_whole(wire):
    """House, law 7: thinking is verbatim or absent; another provider's signature is worth nothing."""
    (item,) = wire.render(
        GOOGLE.parse(
            [
                {
                    "role": "model",
                    "parts": [{"text": "hm", "thought": True, "thoughtSignature": "s"}, {"text": "so"}],
                }
            ]
        )
    )
    assert "hm" not in str(item)
    assert wire.parse([item])[0].text == "so"
    assert wire.render(GOOGLE.parse([{"role": "model", "parts": [{"text": "hm", "thought": True}]}])) == []


@pytest.mark.slow
def test_long_results_are_joined_once():
    """Many pieces in one field of a response: linear, or this would not end."""
    result = ToolResult("c", tuple(Text("x" * 100) for _ in range(100_000)), name="f")
    (item,) = GOOGLE.render([Message("tool", (result,))])
    assert len(item["parts"][0]["functionResponse"]["response"]["output"]) == 101 * 100_000 - 1


def test_reasoning_inside_a_result_is_not_shown():
    (item,) = GOOGLE.render(
        [Message("tool", (ToolResult("c", (Thinking("secret"), Text("t", {"key": "out"}))),))]
    )
    assert item["parts"][0]["functionResponse"]["response"] == {"output": "[reasoning left out]", "out": "t"}
