"""What providers report, in all their shapes."""

from types import SimpleNamespace

import pytest

from refold.core.tokens.usage import MAX_REPORTED_TOKENS, Usage, read_usage

SHAPES = {
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
    "a number": (900, Usage(input=900)),
    "a number and how many messages it is about": (
        {"input_tokens": 900, "messages": 7},
        Usage(input=900, messages=7),
    ),
}


@pytest.mark.parametrize(("report", "usage"), SHAPES.values(), ids=SHAPES)
def test_each_shape_is_read(report, usage):
    """Faults, C28: the context is input with cache reads and cache writes, of the last single pass."""
    assert read_usage(report) == usage


@pytest.mark.parametrize(("report", "usage"), SHAPES.values(), ids=SHAPES)
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
