"""Answers of providers, in all their shapes."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.tokens.calibration import Calibration, Counted, clamp_ratio, confirms, is_absurd
from refold.core.tokens.responses import Response, read_response
from refold.core.tokens.usage import (
    MAX_REPORTED_TOKENS,
    Usage,
    find_impossible,
    read_block_size,
    read_cost,
    read_usage,
)

pytestmark = pytest.mark.traced

CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
TEXT = {"type": "text", "text": "Hello."}
USED = {"prompt_tokens": 900, "completion_tokens": 40}


def chat(finish="stop", **message):
    return {
        "object": "chat.completion",
        "model": "gpt-4o",
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}],
        "usage": USED,
    }


def anthropic(*content, stop="end_turn"):
    return {
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": list(content),
        "stop_reason": stop,
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 890, "output_tokens": 40},
    }


def gemini(*parts, finish="STOP", **more):
    return {
        "candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": finish}],
        "modelVersion": "gemini-2.5-pro",
        "usageMetadata": {"promptTokenCount": 900, "candidatesTokenCount": 40},
        **more,
    }


def answer(*output, status="completed", **more):
    return {
        "object": "response",
        "model": "gpt-5",
        "status": status,
        "output": list(output),
        "usage": {"input_tokens": 900, "output_tokens": 40},
        **more,
    }


def said(text="Hello."):
    return {
        "type": "message",
        "id": "m",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }


THINKING = {"type": "thinking", "thinking": "hm", "signature": "s"}
REASONING = {"type": "reasoning", "id": "r", "summary": []}
FUNCTION = {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}
GEMINI_CALL = {"functionCall": {"name": "read", "args": {}}}

SHAPES = {
    "chat": (chat(content="Hello."), "stop", "gpt-4o", {"role": "assistant", "content": "Hello."}),
    "chat with calls": (
        chat("tool_calls", content=None, tool_calls=[CALL]),
        "tool_calls",
        "gpt-4o",
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
    ),
    "anthropic": (anthropic(TEXT), "stop", "claude-sonnet-4-5", {"role": "assistant", "content": [TEXT]}),
    "anthropic with calls": (
        anthropic(THINKING, {"type": "tool_use", "id": "t", "name": "read", "input": {}}, stop="tool_use"),
        "tool_calls",
        "claude-sonnet-4-5",
        {
            "role": "assistant",
            "content": [THINKING, {"type": "tool_use", "id": "t", "name": "read", "input": {}}],
        },
    ),
    "gemini": (
        gemini({"text": "Hello."}),
        "stop",
        "gemini-2.5-pro",
        {"role": "model", "parts": [{"text": "Hello."}]},
    ),
    "gemini with calls": (
        gemini(GEMINI_CALL),
        "tool_calls",
        "gemini-2.5-pro",
        {"role": "model", "parts": [GEMINI_CALL]},
    ),
    "responses": (answer(REASONING, said()), "stop", "gpt-5", (REASONING, said())),
    "responses with calls": (answer(REASONING, FUNCTION), "tool_calls", "gpt-5", (REASONING, FUNCTION)),
}


def as_object(value):
    if isinstance(value, dict):
        return SimpleNamespace(**{key: as_object(item) for key, item in value.items()}, _private=1)
    return [as_object(item) for item in value] if isinstance(value, list) else value


class Model:
    """Stands in for a pydantic model."""

    def __init__(self, value):
        self.value = value

    def model_dump(self, *, mode="python", by_alias=False, exclude_unset=False):
        assert (mode, by_alias, exclude_unset) == ("json", True, True)
        return self.value


class OldModel(Model):
    def model_dump(self):
        return self.value


MADE = {"dict": lambda value: value, "attributes": as_object, "pydantic": Model, "older pydantic": OldModel}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
@pytest.mark.parametrize(("value", "finish", "model", "message"), SHAPES.values(), ids=SHAPES)
def test_each_shape_is_read_however_it_comes(make, value, finish, model, message):
    found = read_response(make(value))
    assert (found.finish, found.model, found.message) == (finish, model, message)
    assert found.usage.context == 900
    assert found.usage.output == 40
    assert not found.empty
    assert found.completed


FINISHES = {
    "chat, length": (chat("length", content="Once"), "length"),
    "chat, filtered": (chat("content_filter", content=""), "refusal"),
    "chat, refused in words": (chat("stop", content=None, refusal="I cannot."), "refusal"),
    "chat, the old calls": (chat("function_call", content=None, function_call={"name": "f"}), "tool_calls"),
    "chat, stops although it calls": (chat("stop", content="", tool_calls=[CALL]), "tool_calls"),
    "chat, cut in a call": (chat("length", content="", tool_calls=[CALL]), "length"),
    "chat, no reason": (chat(None, content="Hello."), "unknown"),
    "chat, a reason of its own": (chat("banana", content="Hello."), "unknown"),
    "mistral": (chat("model_length", content="Once"), "overflow"),
    "anthropic, max_tokens": (anthropic(TEXT, stop="max_tokens"), "length"),
    "anthropic, stop sequence": (anthropic(TEXT, stop="stop_sequence"), "stop"),
    "anthropic, pause": (anthropic(TEXT, stop="pause_turn"), "stop"),
    "anthropic, refusal": (anthropic(TEXT, stop="refusal"), "refusal"),
    "anthropic, overflow": (anthropic(TEXT, stop="model_context_window_exceeded"), "overflow"),
    "gemini, MAX_TOKENS": (gemini({"text": "Once"}, finish="MAX_TOKENS"), "length"),
    "gemini, SAFETY": (gemini(finish="SAFETY"), "refusal"),
    "gemini, MALFORMED_FUNCTION_CALL": (gemini(finish="MALFORMED_FUNCTION_CALL"), "unknown"),
    "gemini, blocked": ({"candidates": [], "promptFeedback": {"blockReason": "OTHER"}}, "refusal"),
    "gemini, blocked and no candidates": ({"promptFeedback": {"blockReason": "SAFETY"}}, "refusal"),
    "responses, cut": (
        answer(said("Once"), status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        "length",
    ),
    "responses, filtered": (
        answer(status="incomplete", incomplete_details={"reason": "content_filter"}),
        "refusal",
    ),
    "responses, refused": (
        answer({"type": "message", "content": [{"type": "refusal", "refusal": "I cannot."}]}),
        "refusal",
    ),
    "responses, overflow": (
        answer(status="failed", error={"code": "context_length_exceeded", "message": "..."}),
        "overflow",
    ),
    "responses, failed": (answer(status="failed", error={"code": "server_error"}), "unknown"),
    "ollama": ({"message": {"role": "assistant", "content": "x"}, "done_reason": "length"}, "length"),
}


@pytest.mark.parametrize(("value", "finish"), FINISHES.values(), ids=FINISHES)
def test_each_way_to_end_is_known(value, finish):
    assert read_response(value).finish == finish


def test_the_providers_own_word_is_kept():
    assert read_response(anthropic(TEXT, stop="pause_turn")).raw_finish == "pause_turn"
    assert read_response(chat("x" * 500, content="a")).raw_finish == "x" * 100


def test_reasons_may_be_enums():
    class Word(StrEnum):
        MAX_TOKENS = "MAX_TOKENS"

    class Number(IntEnum):
        MAX_TOKENS = 2

    for reason in (Word.MAX_TOKENS, Number.MAX_TOKENS):
        found = read_response(gemini({"text": "Once"}, finish=reason))
        assert (found.finish, found.raw_finish) == ("length", "MAX_TOKENS")


EMPTY = {
    "chat, null": (chat(content=None), None),
    "chat, blank": (chat(content=" \n"), None),
    "chat, only reasoning": (
        chat(content="", reasoning_content="hm"),
        {"role": "assistant", "content": "", "reasoning_content": "hm"},
    ),
    "chat, empty parts": (chat(content=[{"type": "text", "text": ""}]), None),
    "chat, no message": ({"choices": [{"finish_reason": "stop"}]}, None),
    "anthropic, nothing": (anthropic(), None),
    "anthropic, no text": (anthropic({"type": "text", "text": ""}), None),
    "anthropic, only thinking": (anthropic(THINKING), {"role": "assistant", "content": [THINKING]}),
    "gemini, no parts": (gemini(), None),
    "gemini, no candidate": ({"candidates": []}, None),
    "gemini, only thoughts": (
        gemini({"text": "hm", "thought": True}),
        {"role": "model", "parts": [{"text": "hm", "thought": True}]},
    ),
    "gemini, only a signature": (
        gemini({"text": "", "thoughtSignature": "s"}),
        {"role": "model", "parts": [{"text": "", "thoughtSignature": "s"}]},
    ),
    "responses, nothing": (answer(), None),
    "responses, only reasoning": (answer(REASONING), (REASONING,)),
    "responses, blank": (answer(said(" ")), (said(" "),)),
}


@pytest.mark.parametrize(("value", "message"), EMPTY.values(), ids=EMPTY)
def test_an_answer_without_words_and_calls_is_empty(value, message):
    found = read_response(value)
    assert found.empty
    assert not found.completed
    assert found.message == message


FULL = {
    "chat, parts": chat(content=[{"type": "text", "text": "a"}]),
    "chat, a text among parts": chat(content=["a"]),
    "chat, audio": chat(content=None, audio={"id": "a"}),
    "anthropic, plain text": {"type": "message", "content": "Hello."},
    "gemini, an image": gemini({"inlineData": {"mimeType": "image/png", "data": "AA=="}}),
    "responses, a search of the provider's": answer({"type": "web_search_call", "id": "w", "action": {}}),
}


@pytest.mark.parametrize("value", FULL.values(), ids=FULL)
def test_an_answer_with_anything_to_see_is_not_empty(value):
    found = read_response(value)
    assert not found.empty
    assert found.message is not None


def test_a_refusal_and_an_overflow_are_no_completed_turn():
    assert not read_response(anthropic(TEXT, stop="refusal")).completed
    assert not read_response(anthropic(TEXT, stop="model_context_window_exceeded")).completed
    assert read_response(anthropic(TEXT, stop="max_tokens")).completed


def test_a_missing_role_is_put_in():
    assert read_response({"choices": [{"message": {"content": "a"}}]}).message["role"] == "assistant"
    assert (
        read_response({"choices": [{"message": {"role": None, "content": "a"}}]}).message["role"]
        == "assistant"
    )
    assert read_response({"candidates": [{"content": {"parts": [{"text": "a"}]}}]}).message["role"] == "model"


@pytest.mark.parametrize(
    "report", [900, Usage(input=900), {"prompt_tokens": 900}, {"usage": {"input_tokens": 900}}], ids=repr
)
def test_a_report_alone_tells_nothing_but_usage(report):
    assert read_response(report) == Response(usage=Usage(input=900), empty=False)


def test_a_report_may_be_an_object_with_slots():
    @dataclass(slots=True)
    class Report:
        input_tokens: int

    assert read_response({"usage": Report(900), "model": "m"}) == Response(
        usage=Usage(input=900), model="m", empty=False
    )


def test_numbers_that_cannot_be_are_no_usage():
    """Faults, C29."""
    assert read_response({**chat(content="a"), "usage": {"prompt_tokens": -5}}).usage is None


def test_a_text_of_another_class_is_kept():
    class Words(str):
        __slots__ = ()

    message = read_response(chat(content=Words("Hello."))).message
    assert message == {"role": "assistant", "content": "Hello."}


def test_a_message_is_plain_json():
    part = SimpleNamespace(text="a", thought_signature=b"\x00\x01", kind=Enum("Kind", "ONE").ONE, tags=("x",))
    found = read_response({"candidates": [SimpleNamespace(content=SimpleNamespace(parts=[part]))]})
    assert found.message == {
        "role": "model",
        "parts": [{"text": "a", "thought_signature": "AAE=", "kind": "ONE", "tags": ["x"]}],
    }


# ---------------------------------------------------------------------------------------------- hostile


class Raising(Mapping):
    def __getitem__(self, key):
        raise RuntimeError(key)

    def __iter__(self):
        raise RuntimeError

    def __len__(self):
        raise RuntimeError


class Dumps:
    def __init__(self, *dumped):
        self.dumped = dumped

    def model_dump(self, **options):
        if not self.dumped:
            raise TypeError("no")
        return self.dumped[0]


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -1, 9.5, "text", b"bytes", [], [1], (), object(), object, Raising(), Dumps(), Dumps("x"),
        {}, {"choices": []}, {"choices": 3}, {"output": []}, {"content": []}, {"usage": "x"}, {"model": 3},
        {"promptFeedback": 3}, lambda: 1,
    ],
    ids=lambda value: repr(value).partition(" at ")[0],
)  # fmt: skip
def test_what_is_no_answer_is_an_empty_response(value):
    assert read_response(value) == Response()


def test_a_message_that_cannot_be_copied_is_left_out_and_the_rest_is_read():
    circle = {}
    circle["circle"] = circle
    crowd = ["x"]
    for _ in range(40):
        crowd = [crowd, crowd]
    for odd in (circle, crowd, {1, 2}, Raising()):
        found = read_response(chat(content="a", odd=odd))
        assert (found.message, found.finish, found.usage.context) == (None, "stop", 900)
        assert not found.empty


WORDS = """choices message content finish_reason tool_calls candidates parts output status object error code type
    text usage model incomplete_details reason stop_reason role promptFeedback blockReason done_reason thought"""
KEYS = st.sampled_from(WORDS.split())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


@given(st.dictionaries(KEYS, JSON, max_size=8))
def test_nothing_raises(value):
    found = read_response(value)
    assert isinstance(found, Response)
    assert found.message is None or read_response(as_object(value)).message is not None


# -- usage ---------------------------------------------------------------------------------------------------

REPORTS = {
    "openai chat": (
        {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940},
        Usage(input=900, output=40),
    ),
    "openai chat, cached within": (
        {"prompt_tokens": 900, "completion_tokens": 40, "prompt_tokens_details": {"cached_tokens": 512}},
        Usage(input=900, output=40, cache_read=512),
    ),
    "openai chat, nothing cached": (
        {"prompt_tokens": 900, "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0}},
        Usage(input=900),
    ),
    "openai chat, details are null": (
        {"prompt_tokens": 900, "completion_tokens": 40, "prompt_tokens_details": None},
        Usage(input=900, output=40),
    ),
    "openai chat, a whole response": (
        {"id": "x", "choices": [], "usage": {"prompt_tokens": 900, "completion_tokens": 40}},
        Usage(input=900, output=40),
    ),
    "openai responses": (
        {"input_tokens": 900, "output_tokens": 40, "input_tokens_details": {"cached_tokens": 512}},
        Usage(input=900, output=40, cache_read=512),
    ),
    "openai agents, several requests": (
        {"input_tokens": 5_000, "request_usage_entries": [{"input_tokens": 400}, {"input_tokens": 900}]},
        Usage(input=900),
    ),
    "anthropic": ({"input_tokens": 900, "output_tokens": 40}, Usage(input=900, output=40)),
    "anthropic, cached beside": (
        {
            "input_tokens": 10,
            "cache_read_input_tokens": 800,
            "cache_creation_input_tokens": 90,
            "output_tokens": 40,
        },
        Usage(input=900, output=40, cache_read=800, cache_write=90),
    ),
    "anthropic, all from the cache": (
        {"input_tokens": 0, "cache_read_input_tokens": 900, "output_tokens": 1},
        Usage(input=900, output=1, cache_read=900),
    ),
    "anthropic, caches are null": (
        {"input_tokens": 900, "cache_read_input_tokens": None, "cache_creation_input_tokens": None},
        Usage(input=900),
    ),
    "anthropic, several passes": (
        {
            "input_tokens": 5_000,
            "output_tokens": 300,
            "iterations": [
                {"input_tokens": 4_100, "output_tokens": 260},
                {"input_tokens": 100, "cache_read_input_tokens": 800, "output_tokens": 40},
            ],
        },
        Usage(input=900, output=40, cache_read=800),
    ),
    "gemini": (
        {"promptTokenCount": 900, "candidatesTokenCount": 40, "totalTokenCount": 940},
        Usage(input=900, output=40),
    ),
    "gemini, cached within": (
        {"promptTokenCount": 900, "cachedContentTokenCount": 512},
        Usage(input=900, cache_read=512),
    ),
    "gemini, a whole response": (
        {"candidates": [], "usageMetadata": {"promptTokenCount": 900, "candidatesTokenCount": 40}},
        Usage(input=900, output=40),
    ),
    "gemini, python names": (
        {
            "usage_metadata": {
                "prompt_token_count": 900,
                "candidates_token_count": 40,
                "cached_content_token_count": 5,
            }
        },
        Usage(input=900, output=40, cache_read=5),
    ),
    "bedrock": (
        {"inputTokens": 10, "outputTokens": 40, "cacheReadInputTokens": 800, "cacheWriteInputTokens": 90},
        Usage(input=900, output=40, cache_read=800, cache_write=90),
    ),
    "litellm, cached within and told twice": (
        {
            "prompt_tokens": 900,
            "completion_tokens": 40,
            "cache_read_input_tokens": 512,
            "cache_creation_input_tokens": 7,
        },
        Usage(input=900, output=40, cache_read=512, cache_write=7),
    ),
    "langchain": (
        {"input_tokens": 900, "output_tokens": 40, "input_token_details": {"cache_read": 512}},
        Usage(input=900, output=40, cache_read=512),
    ),
    "deepseek": (
        {"prompt_tokens": 900, "prompt_cache_hit_tokens": 512, "prompt_cache_miss_tokens": 388},
        Usage(input=900, cache_read=512),
    ),
    "vercel": ({"promptTokens": 900, "completionTokens": 40}, Usage(input=900, output=40)),
    "vercel 5": ({"inputTokens": 900, "cachedInputTokens": 512}, Usage(input=900, cache_read=512)),
    "pydantic-ai": ({"input_tokens": 900, "cache_read_tokens": 512}, Usage(input=900, cache_read=512)),
    "ollama": ({"prompt_eval_count": 900, "eval_count": 40}, Usage(input=900, output=40)),
    "cohere": (
        {
            "usage": {
                "billed_units": {"input_tokens": 1},
                "tokens": {"input_tokens": 900, "output_tokens": 40},
            }
        },
        Usage(input=900, output=40),
    ),
    "agent framework, openai": (
        {
            "type": "chat_response",
            "messages": [{"type": "message", "role": "assistant", "contents": []}],
            "usage_details": {
                "input_token_count": 900,
                "output_token_count": 40,
                "total_token_count": 940,
                "cache_read_input_token_count": 512,
                "reasoning_output_token_count": 10,
            },
        },
        Usage(input=900, output=40, cache_read=512),
    ),
    "agent framework, anthropic": (
        {
            "output_token_count": 40,
            "input_token_count": 100,
            "anthropic.cache_creation_input_tokens": 300,
            "cache_creation_input_token_count": 300,
            "anthropic.cache_read_input_tokens": 500,
            "cache_read_input_token_count": 500,
        },
        Usage(input=900, output=40, cache_read=500, cache_write=300),
    ),
    "agent framework, bedrock": (
        {
            "input_token_count": 800,
            "output_token_count": 40,
            "total_token_count": 940,
            "cache_read_input_token_count": 100,
        },
        Usage(input=900, output=40, cache_read=100),
    ),
    "agent framework, more cached than read": (
        {"input_token_count": 100, "cache_read_input_token_count": 800},
        Usage(input=900, cache_read=800),
    ),
    "openai, more cached than read": (
        {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 800}},
        Usage(input=900, cache_read=800),
    ),
    "anthropic, cached for an hour": (
        {
            "input_tokens": 100,
            "cache_read_input_tokens": 500,
            "cache_creation_input_tokens": 300,
            "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
        },
        Usage(input=900, cache_read=500, cache_write=300, written_for_hour=200),
    ),
    "gemini, with what its own tools gave it": (
        {"promptTokenCount": 900, "candidatesTokenCount": 40, "toolUsePromptTokenCount": 50},
        Usage(input=900, output=40),
    ),
    "llm": ({"input": 900, "output": 40, "details": None}, Usage(input=900, output=40)),
    "llm, openai": (
        {"input": 900, "output": 40, "details": {"prompt_tokens_details": {"cached_tokens": 512}}},
        Usage(input=900, output=40, cache_read=512),
    ),
    "llm, a response of anthropic": (
        {
            "input_tokens": 100,
            "output_tokens": 40,
            "token_details": {"cache_read_input_tokens": 500, "cache_creation_input_tokens": 300},
        },
        Usage(input=900, output=40, cache_read=500, cache_write=300),
    ),
    "smolagents": (
        {
            "role": "assistant",
            "content": "hi",
            "tool_calls": None,
            "raw": None,
            "token_usage": {"input_tokens": 900, "output_tokens": 40, "total_tokens": 940},
        },
        Usage(input=900, output=40),
    ),
    "llama-index": (
        {
            "message": {"role": "assistant", "blocks": [{"block_type": "text", "text": "hi"}]},
            "raw": {
                "object": "chat.completion",
                "usage": {
                    "prompt_tokens": 900,
                    "completion_tokens": 40,
                    "prompt_tokens_details": {"cached_tokens": 512},
                },
            },
            "delta": None,
            "additional_kwargs": {},
        },
        Usage(input=900, output=40, cache_read=512),
    ),
    "inspect": (
        {
            "model": "m",
            "completion": "hi",
            "usage": {
                "input_tokens": 400,
                "output_tokens": 40,
                "total_tokens": 940,
                "input_tokens_cache_write": 0,
                "input_tokens_cache_read": 500,
                "reasoning_tokens": 10,
            },
        },
        Usage(input=900, output=40, cache_read=500),
    ),
    "anthropic, a compaction and advice of another model": (
        {
            "input_tokens": 900,
            "output_tokens": 40,
            "iterations": [
                {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
                {"type": "message", "model": "m", "input_tokens": 900, "output_tokens": 40},
                {"type": "advisor_message", "model": "n", "input_tokens": 50, "output_tokens": 7},
            ],
        },
        Usage(input=900, output=40),
    ),
    "anthropic, a compaction alone": (
        {"usage": {"input_tokens": 0, "iterations": [{"type": "compaction", "input_tokens": 900}]}},
        Usage(input=900),
    ),
    "a number": (900, Usage(input=900)),
    "a number and how many messages it is about": (
        {"input_tokens": 900, "messages": 7},
        Usage(input=900, messages=7),
    ),
}


@pytest.mark.parametrize(("report", "usage"), REPORTS.values(), ids=REPORTS)
def test_each_shape_is_read(report, usage):
    """Faults, C28: the context is input with cache reads and cache writes, of the last single pass."""
    assert read_usage(report) == usage


@pytest.mark.parametrize(("report", "usage"), REPORTS.values(), ids=REPORTS)
def test_objects_of_an_sdk_are_read_like_the_data_they_hold(report, usage):
    def as_object(value):
        if isinstance(value, dict):
            return SimpleNamespace(**{key: as_object(item) for key, item in value.items()})
        return [as_object(item) for item in value] if isinstance(value, list) else value

    assert read_usage(as_object(report)) == usage


def test_a_usage_value_is_taken_as_it_is():
    usage = Usage(input=900, messages=3)
    assert read_usage(usage) is usage
    assert usage.context == 900


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        -900,
        float("nan"),
        float("inf"),
        float("-inf"),
        "900",
        None,
        True,
        MAX_REPORTED_TOKENS + 1,
        10**30,
        [],
        {},
    ],
    ids=repr,
)
@pytest.mark.parametrize("name", ["input_tokens", "prompt_tokens", "promptTokenCount"])
def test_a_number_that_cannot_be_is_no_report(name, value):
    """Faults, C29: missing, zero, negative, NaN and text are ignored."""
    assert read_usage({name: value, "output_tokens": 40}) is None


@pytest.mark.parametrize(
    "report",
    [None, 0, -5, True, False, 9.5, "900", [], {}, {"usage": None}, object(), MAX_REPORTED_TOKENS + 1],
)
def test_what_is_no_report_is_none(report):
    assert read_usage(report) is None


def test_the_largest_number_that_can_be_is_a_report():
    assert read_usage(MAX_REPORTED_TOKENS) == Usage(input=MAX_REPORTED_TOKENS)
    assert read_usage({"input_tokens": MAX_REPORTED_TOKENS}) == Usage(input=MAX_REPORTED_TOKENS)
    assert read_usage({"input_tokens": MAX_REPORTED_TOKENS, "cache_read_input_tokens": 1}) is None


def test_other_numbers_that_cannot_be_are_left_out():
    report = {
        "input_tokens": 900,
        "output_tokens": -3,
        "cache_read_input_tokens": float("nan"),
        "messages": "x",
    }
    assert read_usage(report) == Usage(input=900)


def test_a_fraction_of_a_token_is_left_out():
    assert read_usage({"input_tokens": 900.9}) == Usage(input=900)


def test_an_empty_list_of_passes_is_no_pass():
    assert read_usage({"input_tokens": 900, "iterations": []}) == Usage(input=900)
    assert read_usage({"input_tokens": 900, "iterations": [None]}) == Usage(input=900)
    assert read_usage({"input_tokens": 900, "iterations": 3}) == Usage(input=900)


@pytest.mark.parametrize(
    "passes",
    [
        [{"type": "compaction", "input_tokens": 10**12, "output_tokens": -4}, {"input_tokens": "x"}],
        ["a", None, 5],
        {"type": "message"},
    ],
)
def test_passes_that_tell_nothing_leave_the_report_as_it_is(passes):
    report = {"usage": {"input_tokens": 100, "output_tokens": 5, "iterations": passes}}
    assert read_usage(report) == read_cost(report) == Usage(input=100, output=5)


def test_a_compaction_alone_is_not_the_size_of_the_context():
    passes = [{"type": "compaction", "input_tokens": 900, "output_tokens": 40}]
    report = {"input_tokens": 100, "output_tokens": 5, "iterations": passes}
    assert read_usage({"usage": report}).context == 100
    assert read_usage({"usage": {**report, "input_tokens": 0}}).context == 900


def test_a_block_has_the_size_of_the_last_compaction():
    passes = [
        {"type": kind, "output_tokens": written}
        for kind, written in (("compaction", 9), ("compaction", 40), ("message", 3_000))
    ]
    assert read_block_size({"usage": {"iterations": passes}}) == 40
    assert read_block_size({"usage": {"iterations": [{"type": "compaction"}]}}) is None
    assert read_block_size({"usage": {"output_tokens": 3_000}}) is None


def test_the_cost_of_a_number_is_that_number():
    assert read_cost(900) == read_usage(900) == Usage(input=900)
    assert read_cost({"usage": {"iterations": [{"type": "message"}], "input_tokens": 9}}) == Usage(input=9)
    assert read_cost({"usage": {"input_tokens": 0}}) is None
    gemini = {"usageMetadata": {"promptTokenCount": 900, "toolUsePromptTokenCount": 50}}
    assert (read_response(gemini).usage.input, read_response(gemini).cost.input) == (900, 950)


def test_a_report_nested_without_end_is_none():
    value = {"input_tokens": 900}
    for _ in range(100_000):
        value = {"usage": value}
    assert read_usage(value) is None


def test_a_report_inside_a_response_inside_an_event_is_read():
    event = {"usage": {"usage": {"usage": {"input_tokens": 900}}}}
    assert read_usage(event) == Usage(input=900)


@pytest.mark.parametrize(
    ("usage", "said"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 50}, None),
        ({"prompt_tokens": 9, "completion_tokens": 50, "completion_tokens_details": None}, None),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 50,
                "completion_tokens_details": {"reasoning_tokens": 30},
            },
            20,
        ),
        (
            {"input_tokens": 9, "output_tokens": 50, "output_tokens_details": {"reasoning_tokens": 90}},
            0,
        ),
        ({"promptTokenCount": 9, "candidatesTokenCount": 50, "thoughtsTokenCount": 30}, 50),
    ],
)
def test_what_of_the_output_goes_on_is_told_where_reasoning_is_told_apart(usage, said):
    assert read_usage(usage).said == said


def test_geminis_thoughts_are_output():
    """They stand beside the answer in the report, and are billed like it."""
    usage = read_usage({"promptTokenCount": 9, "candidatesTokenCount": 50, "thoughtsTokenCount": 30})
    assert (usage.output, usage.said) == (80, 50)


# -- which reports are believed, and what they teach ----------------------------------------------------------

EVEN = Calibration(last=Counted(1_000, 1_000))


def test_before_the_first_report_sizes_are_as_we_count_them():
    assert [Calibration().tokens(size) for size in (0, 1, 500)] == [0, 1, 500]


@pytest.mark.parametrize(
    ("calibration", "tokens"),
    [
        (Calibration(ratio=1.5, scale=1.5, last=Counted(2_000, 3_000)), 1_500),
        (Calibration(ratio=1.5, scale=1.0, last=Counted(2_000, 3_000)), 2_000),
        (Calibration(ratio=0.5, scale=1.0, last=Counted(2_000, 1_000)), 500),
        (Calibration(ratio=4.0, scale=4.0, last=Counted(100, 6_000)), 9_600),
    ],
    ids=["all alike", "a part that stays", "less than we count", "the first request was small"],
)
def test_the_larger_reading_is_taken(calibration, tokens):
    assert calibration.tokens(1_000) == tokens


@pytest.mark.parametrize(
    ("calibration", "counted", "extends", "believed"),
    [
        (Calibration(), Counted(1_000, 600), False, True),
        (Calibration(), Counted(1_000, 599), False, False),
        (Calibration(ratio=2.0, last=Counted(900, 1_800)), Counted(1_000, 1_199), False, False),
        (Calibration(ratio=2.0, last=Counted(90, 180)), Counted(1_000, 600), False, True),
        (Calibration(ratio=0.5, last=Counted(900, 450)), Counted(1_000, 300), False, True),
        (EVEN, Counted(900, 540), True, True),
        (EVEN, Counted(900, 539), True, False),
        (EVEN, Counted(1_500, 1_300), True, True),
        (EVEN, Counted(1_500, 1_299), True, False),
        (EVEN, Counted(1_000, 1_000), True, True),
        (EVEN, Counted(1_500, 500), True, False),
        (EVEN, Counted(11_000, 10_000), True, False),
        (EVEN, Counted(11_000, 10_500), True, True),
        (EVEN, Counted(11_000, 8_000), True, True),
    ],
)
def test_which_reports_are_believed(calibration, counted, extends, believed):
    """Behind a known request the report has to grow with what is new, and be more than that alone."""
    assert calibration.believes(counted, extends=extends) is believed


@pytest.mark.parametrize(
    ("second", "confirmed"),
    [
        (Counted(22_000, 11_000), True),
        (Counted(22_000, 10_300), False),
        (Counted(22_000, 10_000), False),
        (Counted(22_000, 12_000), False),
        (Counted(20_000, 10_000), False),
        (Counted(30_000, 14_000), False),
        (Counted(80_000, 15_000), False),
    ],
)
def test_a_low_report_is_confirmed_by_one_that_grew_as_a_count_of_all_does(second, confirmed):
    assert confirms(Counted(20_000, 10_000), second) is confirmed


def test_a_ratio_that_no_text_has_is_not_confirmed():
    assert not confirms(Counted(20_000, 4_000), Counted(21_000, 4_200))


def test_a_report_is_absurd_if_it_is_many_windows_and_many_times_what_was_sent():
    assert is_absurd(80_001, expected=500, window=8_000)
    assert not is_absurd(80_000, expected=500, window=8_000)
    assert not is_absurd(80_001, expected=8_001, window=500)


def test_a_ratio_has_bounds():
    assert [clamp_ratio(ratio) for ratio in (0.1, 1.2, 90.0)] == [0.25, 1.2, 4.0]


CONVERSE = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Once"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 10, "outputTokens": 2, "totalTokens": 12, "cacheReadInputTokens": 90},
}
INTERACTION = {
    "id": "i",
    "status": "completed",
    "steps": [
        {"type": "user_input", "content": [{"type": "text", "text": "hi"}]},
        {"type": "thought", "signature": "s"},
        {"type": "model_output", "content": [{"type": "text", "text": "Once"}]},
    ],
    "usage": {"total_input_tokens": 100, "total_output_tokens": 2, "total_cached_tokens": 90},
}


def test_an_answer_of_bedrock_converse():
    response = read_response(CONVERSE)
    assert (response.finish, response.message) == ("stop", CONVERSE["output"]["message"])
    assert response.usage == Usage(input=100, output=2, cache_read=90)
    call = {"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}
    message = {"role": "assistant", "content": [call]}
    asked = read_response({**CONVERSE, "output": {"message": message}, "stopReason": "tool_use"})
    assert (asked.finish, asked.empty, asked.message) == ("tool_calls", False, message)
    thought = {"reasoningContent": {"reasoningText": {"text": "hm"}}}
    assert read_response({**CONVERSE, "output": {"message": {"content": [thought]}}}).empty
    assert read_response({"stopReason": "guardrail_intervened"}).message is None
    full = read_response({**CONVERSE, "stopReason": "model_context_window_exceeded"})
    assert full.finish == "overflow"


def test_an_answer_of_the_interactions_api():
    response = read_response(INTERACTION)
    assert (response.finish, response.message) == ("stop", tuple(INTERACTION["steps"][1:]))
    assert response.usage == Usage(input=100, output=2, cache_read=90)
    call = {"type": "function_call", "id": "1", "name": "f", "arguments": {}}
    asked = read_response({**INTERACTION, "steps": [call]})
    assert (asked.finish, asked.message) == ("tool_calls", (call,))
    assert read_response({**INTERACTION, "steps": []}).message is None


@pytest.mark.parametrize(
    "usage", [{"prompt_tokens": 90}, SimpleNamespace(prompt_tokens=90), {"usage": {"prompt_tokens": 90}}]
)
@pytest.mark.parametrize("beside", [{}, {"model": "m"}, {"other": 1}])
def test_a_report_is_the_same_alone_and_in_an_answer(usage, beside):
    assert read_response({"usage": usage, **beside}).usage == Usage(input=90)


def test_an_answer_of_plain_text_is_no_compaction():
    assert not Response(message={"role": "assistant", "content": "hi"}).compacted


def test_content_that_is_no_content_is_no_compaction():
    """An answer that calls a tool is taken in whatever stands beside the call."""
    assert not any(Response(message={"content": content}).compacted for content in (1.5, True, {"a": 1}))


def test_an_interaction_that_waits_for_a_tool_ends_with_calls_and_its_thoughts_are_output():
    usage = {"total_input_tokens": 66, "total_output_tokens": 16, "total_thought_tokens": 51}
    call = {"type": "function_call", "id": "c", "name": "f", "arguments": {}}
    response = read_response({"status": "requires_action", "steps": [call], "usage": usage})
    assert (response.finish, response.usage.output, response.usage.said) == ("tool_calls", 67, 16)


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ({"output_tokens": -1, "prompt_tokens": -5}, "prompt_tokens is -5"),  # the input is told first
        ({"completion_tokens": float("nan"), "prompt_tokens": True}, "completion_tokens is nan"),
        ({"prompt_tokens": 10**12, "other": -1}, "prompt_tokens is 1e+12"),
        ({"prompt_tokens": 10**5_000}, "prompt_tokens is 1e+15"),
        ({"other": -1, "prompt_tokens": "-5", "input_tokens": None}, ""),
    ],
)
def test_the_first_impossible_number_of_a_report_is_told(report, words):
    assert find_impossible({"usage": report}) == find_impossible(report) == words
