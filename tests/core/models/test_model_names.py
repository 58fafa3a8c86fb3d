"""What the name of a model says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.core.models.model_names import (
    ModelName,
    canonical_provider,
    is_snapshot,
    name_prefixes,
    parse_model_name,
    provider_of,
)


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
