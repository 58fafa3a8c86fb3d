"""The window tables of the five documents, number by number as printed; the house itself uses none of them.

Some of these numbers were wrong when they were written or have become so (gpt-5, the Mistral aliases,
deepseek-chat: docs/windows.md lists them). A preset keeps its document's table; the house uses true numbers.
"""

import re
from typing import Final

from refold.core.models.model_names import Name, canonical
from refold.core.models.window_table import Table
from refold.core.tokens.units import CODEBUDDY_WINDOW

# NeuroLink, "MODEL_CONTEXT_WINDOWS"

NEUROLINK: Final[dict[str, dict[str, int]]] = {
    "anthropic": {
        "_default": 200_000,
        "claude-opus-4-20250514": 200_000,
        "claude-sonnet-4-20250514": 200_000,
        "claude-3-7-sonnet-20250219": 200_000,
        "claude-3-5-sonnet-20241022": 200_000,
        "claude-3-5-haiku-20241022": 200_000,
        "claude-3-opus-20240229": 200_000,
        "claude-3-sonnet-20240229": 200_000,
        "claude-3-haiku-20240307": 200_000,
    },
    "openai": {
        "_default": 128_000,
        "gpt-4o": 128_000,
        "gpt-4o-mini": 128_000,
        "gpt-4-turbo": 128_000,
        "gpt-4": 8_192,
        "gpt-3.5-turbo": 16_385,
        "o1": 200_000,
        "o1-mini": 128_000,
        "o1-pro": 200_000,
        "o3": 200_000,
        "o3-mini": 200_000,
        "o4-mini": 200_000,
        "gpt-4.1": 1_047_576,
        "gpt-4.1-mini": 1_047_576,
        "gpt-4.1-nano": 1_047_576,
        "gpt-5": 1_047_576,
    },
    "google-ai": {
        "_default": 1_048_576,
        "gemini-2.5-pro": 1_048_576,
        "gemini-2.5-flash": 1_048_576,
        "gemini-2.0-flash": 1_048_576,
        "gemini-1.5-pro": 2_097_152,
        "gemini-1.5-flash": 1_048_576,
        "gemini-3-flash-preview": 1_048_576,
        "gemini-3-pro-preview": 1_048_576,
    },
    "vertex": {
        "_default": 1_048_576,
        "gemini-2.5-pro": 1_048_576,
        "gemini-2.5-flash": 1_048_576,
        "gemini-2.0-flash": 1_048_576,
        "gemini-1.5-pro": 2_097_152,
        "gemini-1.5-flash": 1_048_576,
    },
    "bedrock": {
        "_default": 200_000,
        "anthropic.claude-3-5-sonnet-20241022-v2:0": 200_000,
        "anthropic.claude-3-5-haiku-20241022-v1:0": 200_000,
        "anthropic.claude-3-opus-20240229-v1:0": 200_000,
        "anthropic.claude-3-sonnet-20240229-v1:0": 200_000,
        "anthropic.claude-3-haiku-20240307-v1:0": 200_000,
        "amazon.nova-pro-v1:0": 300_000,
        "amazon.nova-lite-v1:0": 300_000,
    },
    "azure": {
        "_default": 128_000,
        "gpt-4o": 128_000,
        "gpt-4o-mini": 128_000,
        "gpt-4-turbo": 128_000,
        "gpt-4": 8_192,
    },
    "mistral": {
        "_default": 128_000,
        "mistral-large-latest": 128_000,
        "mistral-medium-latest": 32_000,
        "mistral-small-latest": 128_000,
        "codestral-latest": 256_000,
    },
    "ollama": {"_default": 128_000},
    "litellm": {"_default": 128_000},
    "huggingface": {"_default": 32_000},
    "sagemaker": {"_default": 128_000},
}

# CodeBuddy, "built-in context window sizes for popular models": families by the names that belong to them

CODEBUDDY: Final[dict[str, int]] = {
    "Claude 3.5/4": 200_000,
    "GPT-4o / mini": 128_000,
    "o1": 200_000,
    "Gemini 2.0": 1_048_576,
    "Gemini 1.5 Pro": 2_097_152,
    "Llama 3.3 70B": 128_000,
    "DeepSeek Chat": 64_000,
    "Qwen Plus": 131_072,
    "GLM-4 Plus": 128_000,
}
_END: Final = r"(?=$|[-:@])"
_CODEBUDDY_NAMES: Final = {
    "Claude 3.5/4": rf"claude-(?:3[.-]5|(?:(?:opus|sonnet|haiku)-)?4(?:[.-][0-9])?){_END}",
    "GPT-4o / mini": rf"gpt-4o(?:-mini)?{_END}",
    "o1": r"o1(?=$|[:@]|-[0-9]|-pro)",
    "Gemini 2.0": rf"gemini-2\.0{_END}",
    "Gemini 1.5 Pro": rf"gemini-1\.5-pro{_END}",
    "Llama 3.3 70B": rf"llama-?3\.3[-:]70b{_END}",
    "DeepSeek Chat": rf"deepseek-chat{_END}",
    "Qwen Plus": rf"qwen-plus{_END}",
    "GLM-4 Plus": rf"glm-4-plus{_END}",
}


def _codebuddy(name: Name) -> int | None:
    for family, pattern in _CODEBUDDY_NAMES.items():
        if any(re.match(pattern, each) for each in name.spellings):
            return CODEBUDDY[family]
    return None


# Ripple, window inference: what its program does beside the document

_LONG_CLAUDE: Final = r"(?<![a-z0-9])1m(?![a-z0-9])"
_OPENAI: Final = (
    (r"gpt-4o|gpt-4\.1|gpt-4-turbo", 128_000),
    (r"o[134](?=$|[-:@])", 200_000),
    (r"gpt-3\.5|gpt-35", 16_385),
    (r"gpt-4(?=$|[-:@])", 8_192),
)
_SMALL_OPEN: Final = 40_960
"""Ripple clamps Qwen and Gemma to this on a device."""


def _ripple(name: Name) -> int | None:
    served = name.provider or name.maker
    plain = name.spellings[0]
    if "lfm" in plain:
        return 131_072 if re.search(r"2[.-]6b", plain) else 32_768
    if re.search(r"qwen|gemma", plain):
        return _SMALL_OPEN
    if served in {"anthropic", "bedrock"}:
        return 1_000_000 if name.size == "1m" or re.search(_LONG_CLAUDE, plain) else 200_000
    if served in {"openai", "azure"}:
        return next((size for pattern, size in _OPENAI if re.match(pattern, plain)), 128_000)
    return None


TABLES: Final[dict[str, Table]] = {
    "codebuddy": Table("codebuddy", rule=_codebuddy, fallback=CODEBUDDY_WINDOW),
    "neurolink": Table(
        "neurolink",
        models={
            canonical(provider): {model: size for model, size in models.items() if model != "_default"}
            for provider, models in NEUROLINK.items()
        },
        defaults={canonical(provider): models["_default"] for provider, models in NEUROLINK.items()},
        strict=True,
    ),
    "ripple": Table("ripple", rule=_ripple, fallback=32_768),
}
"""By the name of the system; Opal asks a registry (as the house does) and Umwelten knows no window."""
