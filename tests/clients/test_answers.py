"""Every wire, streamed or whole: what a provider says arrives as it was said, also where it is no summary."""

import json

import pytest

from fake_provider import data, finished_but_open, says, sends, slowly, stream, whole
from refold import Answer, Ask
from refold.clients import Client

SPOKEN = {"streamed": says, "whole": whole}


@pytest.fixture(params=SPOKEN)
def spoken(request):
    return SPOKEN[request.param]


def test_an_answer_brings_text_model_and_tokens(provider, wire, opened, ask, spoken):
    provider.script = [spoken("Grüße, 世界 🌍 and more.", usage=(120, 7))]
    client = opened(wire)
    assert isinstance(client, Client)
    who = {"chat": "openai", "responses": "openai", "compatible": f"{provider.url}/v1"}.get(wire, wire)
    assert ask(client) == Answer(
        text="Grüße, 世界 🌍 and more.", model="m-1", provider=who, input_tokens=120, output_tokens=7
    )


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"text": "Half", "finish": "length"}, {"text": "Half", "finish": "length"}),
        ({"calls": 2, "finish": "tool_calls"}, {"text": "", "finish": "tool_calls", "calls": 2}),
        ({"text": "No.", "refusal": True}, {"text": "No.", "finish": "refusal"}),
        ({"reasoning": "Hm."}, {"text": "", "finish": "stop", "reasoning": "Hm."}),
        ({}, {"text": "", "finish": "stop"}),
    ],
    ids=["cut off", "tool calls", "refusal", "only reasoning", "empty"],
)
def test_what_is_no_summary_is_told_truthfully(provider, wire, opened, spoken, how, expected):
    provider.script = [spoken(**how)]
    answer = opened(wire).ask(Ask("What was said?"))
    assert {name: getattr(answer, name) for name in expected} == expected


def test_the_request_says_what_was_asked(provider, wire, opened, ask):
    ask(opened(wire), Ask("What was said?", system="Be short.", max_tokens=50))
    (seen,) = provider.seen
    body = json.dumps(seen.json)
    assert "What was said?" in body
    assert "Be short." in body
    assert seen.headers["accept-encoding"] == "identity"
    limits = {
        "chat": {"max_completion_tokens": 50, "temperature": 0, "stream": True},
        "compatible": {"max_tokens": 50, "temperature": 0, "stream": True},
        "anthropic": {"max_tokens": 50, "temperature": 0, "stream": True},
        "responses": {"max_output_tokens": 50, "temperature": 0, "stream": True, "store": False},
        "gemini": {"generationConfig": {"temperature": 0, "maxOutputTokens": 50}},
    }[wire]
    assert {name: seen.json[name] for name in limits} == limits


def test_a_question_without_system_and_limit_sends_none(provider, wire, opened):
    opened(wire).ask(Ask("What?"))
    body = provider.seen[0].json
    assert not {"system", "instructions", "systemInstruction"} & set(body)
    assert not {"max_completion_tokens", "max_output_tokens"} & set(body)
    assert body.get("max_tokens") == (4096 if wire == "anthropic" else None)


def test_the_key_travels_in_a_header_and_not_in_the_address(provider, wire, opened):
    opened(wire).ask(Ask("What?"))
    seen = provider.seen[0]
    name = {"anthropic": "x-api-key", "gemini": "x-goog-api-key"}.get(wire, "authorization")
    expected = "test-key-0123456789" if wire in ("anthropic", "gemini") else "Bearer test-key-0123456789"
    assert seen.headers.get(name) == (None if wire == "compatible" else expected)
    assert "test-key" not in seen.path


@pytest.mark.parametrize(
    ("wire", "model", "expected"),
    [
        ("chat", "gpt-5-mini", {"max_completion_tokens": 4146, "reasoning_effort": "low"}),
        ("responses", "o3", {"max_output_tokens": 4146, "reasoning": {"effort": "low"}}),
        ("gemini", "gemini-2.5-flash", {"thinkingConfig": {"thinkingBudget": 0}, "maxOutputTokens": 50}),
        ("gemini", "gemini-3-pro", {"maxOutputTokens": 4146}),
    ],
)
def test_models_that_think_first_get_room_for_it(provider, opened, wire, model, expected):
    opened(wire, model).ask(Ask("What?", max_tokens=50))
    body = provider.seen[0].json
    body = body.get("generationConfig", body)
    assert {name: body.get(name) for name in expected} == expected
    assert wire == "gemini" or "temperature" not in body


def test_bytes_may_come_one_at_a_time(provider, wire, opened):
    provider.script = [slowly("Grüße 🌍", 0.0)]
    assert opened(wire, total_seconds=30).ask(Ask("?")).text == "Grüße 🌍"


def test_an_answer_that_is_complete_is_given_although_the_connection_stays_open(provider, wire, opened, ask):
    provider.script = [finished_but_open]
    assert ask(opened(wire, idle_seconds=0.4)).text == "All of it."


def test_halves_of_a_character_in_two_events_are_joined(provider, opened):
    """A server that streams UTF-16 units escapes each half for itself."""
    halves = b'data: {"choices":[{"delta":{"content":"a\\ud83c"}}]}\n\ndata: {"choices":[{"delta":{"content":"\\udf0d"},"finish_reason":"stop"}]}\n\n'
    provider.script = [sends(halves)]
    assert opened("compatible").ask(Ask("?")).text == "a🌍"


def test_a_lone_half_in_a_question_does_not_stop_it(provider, opened):
    opened("compatible").ask(Ask("a\ud83cb"))
    assert provider.seen[0].json["messages"][0]["content"] == "a?b"


def test_thoughts_between_tags_are_not_the_answer(provider, opened):
    provider.script = [says("<think>\nhm\n</think>\nFour.")]
    answer = opened("compatible").ask(Ask("?"))
    assert (answer.text, answer.reasoning.strip()) == ("Four.", "hm")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            data({"choices": [{"message": {"content": "Whole."}, "finish_reason": "stop"}]}),
            {"text": "Whole."},
        ),
        (
            data({"choices": [{"delta": {"content": "No finish."}}]}) + b"data: [DONE]\n\n",
            {"text": "No finish."},
        ),
        (
            data(
                {"choices": [{"delta": {"function_call": {"name": "f"}}, "finish_reason": "function_call"}]}
            ),
            {"calls": 1},
        ),
        (
            data(
                {
                    "choices": [
                        {
                            "delta": {
                                "content": [
                                    {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                                    {"type": "text", "text": "Parts."},
                                ]
                            },
                            "finish_reason": "stop",
                        }
                    ]
                }
            ),
            {"text": "Parts.", "reasoning": "hm"},
        ),
        (
            data({"choices": [{"index": 1, "delta": {"content": "other"}}]})
            + data({"choices": [{"index": 0, "delta": {"content": "ours"}, "finish_reason": "stop"}]}),
            {"text": "ours"},
        ),
        (
            data({"choices": [{"delta": {"content": "Full"}, "finish_reason": "model_length"}]}),
            {"finish": "length"},
        ),
        (data({"choices": [{"delta": {"content": "Odd"}, "finish_reason": "abort"}]}), {"finish": "abort"}),
        (
            data({"choices": [{"delta": {"content": 7, "tool_calls": "x"}, "finish_reason": "stop"}]}),
            {"text": "", "calls": 0},
        ),
        (
            b'\xef\xbb\xbf: hello\r\n\r\nid: 1\r\nretry: 5\r\ndata: {"choices":\r\ndata: [{"delta":{"content":"Lines."},"finish_reason":"stop"}]}\r\n\r\n',
            {"text": "Lines."},
        ),
    ],
    ids=["message", "no finish", "function", "parts", "two", "window", "own word", "hostile", "framing"],
)
def test_servers_with_manners_of_their_own_are_understood(provider, opened, raw, expected):
    provider.script = [sends(raw)]
    answer = opened("compatible").ask(Ask("?"))
    assert {name: getattr(answer, name) for name in expected} == expected


def test_a_last_event_without_its_output_is_filled_from_the_words_before(provider, opened):
    done = {
        "type": "response.completed",
        "response": {"object": "response", "status": "completed", "output": []},
    }
    words = {"type": "response.output_text.delta", "delta": "Words."}
    provider.script = [sends(data(words, done))]
    assert opened("responses").ask(Ask("?")).text == "Words."


def test_text_is_kept_where_only_the_reasoning_before_it_was_ended(provider, opened):
    reasoning = {"type": "response.output_item.done", "item": {"type": "reasoning", "summary": []}}
    words = {"type": "response.output_text.delta", "delta": "Words."}
    done = {"type": "response.completed", "response": {"status": "completed", "output": []}}
    provider.script = [sends(data(reasoning, words, done))]
    assert opened("responses").ask(Ask("?")).text == "Words."


def test_a_prompt_that_gemini_blocks_is_a_refusal(provider, opened):
    provider.script = [sends(data({"promptFeedback": {"blockReason": "SAFETY"}}))]
    assert opened("gemini").ask(Ask("?")).finish == "refusal"


def test_events_that_gemini_sends_as_one_list_are_read(provider, opened):
    events = [json.loads(line[6:]) for line in stream("gemini", "A list.").decode().split("\n\n") if line]
    provider.script = [sends(json.dumps(events).encode(), "application/json")]
    assert opened("gemini").ask(Ask("?")).text == "A list."


def test_a_delta_without_a_block_begins_one(provider, opened):
    raw = data(
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Bare."}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    )
    provider.script = [sends(raw)]
    assert opened("anthropic").ask(Ask("?")).text == "Bare."
