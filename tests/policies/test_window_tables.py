"""The window tables of the documents, as the presets have them; numbers are typed from the documents."""

import pytest
from printed_tables import NEUROLINK_MODELS

import refold
from refold import presets
from refold.core.models.model_names import parse_model_name
from refold.core.models.windows import builtin_table
from refold.errors import RefoldWarning
from refold.policies.systems.window_tables import codebuddy_table, neurolink_table, ripple_table


def window(policy, model, **knobs):
    """The window that a preset finds for a model."""
    return presets.get(policy, **knobs).window(model)


@pytest.mark.parametrize(("provider", "model", "printed"), NEUROLINK_MODELS)
def test_every_model_of_neurolinks_document_has_a_row_and_the_printed_number_where_it_is_true(
    provider, model, printed
):
    """NeuroLink, Context Window Registry: five of its numbers are not true today, the house has the true ones."""
    window = refold.window(model, provider=provider)
    true = {
        "gpt-5": 400_000,
        "mistral-large-latest": 262_144,
        "mistral-medium-latest": 262_144,
        "mistral-small-latest": 256_000,
        "codestral-latest": 128_000,
    }
    assert window.source == "table"
    assert window.tokens == true.get(model, printed)


def test_neurolinks_table_takes_the_longest_prefix_then_the_provider_then_128000():
    """NeuroLink, getContextWindowSize and its known faults: o1-mini with a date is not o1."""
    assert window("neurolink", "o1-mini-2024-09-12", provider="openai").tokens == 128_000
    assert window("neurolink", "gpt-4o-2024-08-06", provider="openai").tokens == 128_000
    assert window("neurolink", "claude-99", provider="anthropic").tokens == 200_000
    assert window("neurolink", "gpt-4o", provider="huggingface").tokens == 32_000
    with pytest.warns(RefoldWarning, match="whatever"):
        assert window("neurolink", "whatever", provider="nobody").tokens == 128_000


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("gpt-4o", 128_000),
        ("gpt-4o-mini", 128_000),
        ("gpt-4o-2024-08-06", 128_000),
        ("claude-sonnet-4-20250514", 200_000),
        ("claude-opus-4-5", 200_000),
        ("claude-3-5-sonnet-20241022", 200_000),
        ("anthropic/claude-3.5-haiku", 200_000),
        ("o1", 200_000),
        ("o1-2024-12-17", 200_000),
        ("gemini-2.0-flash", 1_048_576),
        ("Gemini 2.0", 1_048_576),
        ("gemini-1.5-pro", 2_097_152),
        ("llama-3.3-70b-versatile", 128_000),
        ("Llama 3.3 70B", 128_000),
        ("llama3.3:70b", 128_000),
        ("deepseek-chat", 64_000),
        ("DeepSeek Chat", 64_000),
        ("qwen-plus", 131_072),
        ("glm-4-plus", 128_000),
    ],
)
def test_codebuddys_families_have_the_printed_windows(model, size):
    """CodeBuddy, built-in windows by model family, and case 2."""
    assert window("codebuddy", model).tokens == size


def test_codebuddy_takes_16000_for_an_unknown_model_and_warns_once():
    """CodeBuddy case 2: unknown is 16000 with one warning that names it."""
    with pytest.warns(RefoldWarning, match="unheard-of") as caught:
        assert window("codebuddy", "unheard-of").tokens == 16_000
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("policy", "model", "size"),
    [
        ("codebuddy", "gpt-5", 400_000),
        ("codebuddy", "o1-mini", 128_000),
        ("codebuddy", "gpt-4", 8_192),
        ("codebuddy", "my-model[1m]", 1_000_000),
        ("ripple", "gemini-2.5-pro", 1_048_576),
        ("neurolink", "deepseek-r1-distill-qwen-7b", 32_768),
        ("neurolink", "gpt-4.1", 1_047_576),
        ("neurolink", "openai/gpt-4.1", 1_047_576),
        ("neurolink", "huggingface/gpt-4.1", 32_000),  # its own default for that provider
        ("neurolink", "gpt-99-ultra", 128_000),
    ],
)
def test_what_a_document_does_not_list_comes_from_the_houses_table(policy, model, size, recwarn):
    """In silence: the house knows the model, or the document the provider."""
    assert refold.measure([], policy=policy, model=model).window == size
    assert not recwarn.list


@pytest.mark.few_values(2)
@pytest.mark.parametrize("policy", ["codebuddy", "neurolink", "opal", "ripple", "umwelten"])
@pytest.mark.slow
def test_every_model_of_the_house_has_the_window_of_the_document_or_of_the_house(policy, recwarn):
    own = {"codebuddy": codebuddy_table, "neurolink": neurolink_table, "ripple": ripple_table}.get(policy)
    find, table = presets.get(policy).window, own() if own else None
    for row in builtin_table().rows():
        # Only names that say so reach a row of Fireworks.
        bare = [] if row.provider == "fireworks" else [row.model]
        for name in (*bare, f"{row.provider}/{row.model}"):
            listed = table.find(parse_model_name(name)) if table else None
            is_row = listed is not None and listed.source != "provider default"
            assert find(name).tokens == (listed if is_row else refold.window(name)).tokens, name
    assert not recwarn.list


def test_codebuddy_takes_16000_in_silence_where_no_model_is_given():
    """CodeBuddy case 2: none given is 16000 without a warning."""
    assert window("codebuddy", None).tokens == 16_000


@pytest.mark.parametrize(
    ("model", "size"),
    [
        ("claude-sonnet-4-5", 200_000),
        ("claude-sonnet-4-5[1m]", 1_000_000),
        ("claude-sonnet-4-1m", 1_000_000),
        ("claude-opus-11mx", 200_000),
        ("us.anthropic.claude-3-5-sonnet-20241022-v2:0", 200_000),
        ("gpt-4o", 128_000),
        ("gpt-4.1", 128_000),
        ("gpt-4-turbo", 128_000),
        ("o1", 200_000),
        ("o3-mini", 200_000),
        ("o4-mini", 200_000),
        ("gpt-3.5-turbo", 16_385),
        ("gpt-4", 8_192),
        ("gpt-4-0613", 8_192),
        ("gpt-5", 128_000),
        ("azure/my-deployment", 128_000),
        ("LFM2-1.2B", 32_768),
        ("lfm2-2.6b", 131_072),
        ("Qwen3-4B", 40_960),
        ("gemma-3-4b", 40_960),
        ("deepseek-r1-distill-qwen-7b", 32_768),  # clamped: never more than it has
        ("google/gemma-2-27b-it", 8_192),
        ("qwen-that-nobody-knows", 40_960),
    ],
)
def test_ripple_infers_the_window_from_the_name(model, size):
    """Ripple, window inference (its page, "Other")."""
    assert window("ripple", model).tokens == size


def test_ripple_falls_back_to_32768():
    """Ripple, SummarizationConfig knobs: fallbackContextWindow."""
    assert window("ripple", None).tokens == 32_768
    with pytest.warns(RefoldWarning):
        assert window("ripple", "unheard-of").tokens == 32_768
