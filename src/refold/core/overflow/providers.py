"""Who refused: by the address, by the words that only one provider uses, by the library, by the words.

Many servers repeat OpenAI's sentences, and Claude speaks alike at every host; so those words come last.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from refold.core.models.model_names import canonical
from refold.core.overflow.error_text import Evidence
from refold.core.overflow.patterns import Sign

IMITATED: Final = frozenset({"openai", "anthropic"})
"""Whose words others repeat."""

_HOSTS: Final = (
    ("openrouter", r"openrouter"),
    ("azure", r"\.azure\.com|azureexception|azure openai"),
    ("bedrock", r"bedrock|validationexception|amazonaws\.com"),
    ("vertex", r"aiplatform\.googleapis|vertex_?ai"),
    ("google", r"generativelanguage|googleapis\.com|geminiexception|resource_exhausted"),
    ("anthropic", r"api\.anthropic\.com|anthropicexception"),
    ("mistral", r"api\.mistral\.ai|mistralexception"),
    ("groq", r"api\.groq\.com|groqexception"),
    ("cerebras", r"cerebras"),
    ("deepseek", r"api\.deepseek\.com|deepseekexception"),
    ("xai", r"api\.x\.ai|xaiexception"),
    ("together", r"api\.together\.|together_?aiexception"),
    ("fireworks", r"api\.fireworks\.ai|fireworks_?aiexception"),
    ("alibaba", r"dashscope|aliyuncs"),
    ("zai", r"api\.z\.ai|bigmodel\.cn"),
    ("moonshot", r"api\.moonshot"),
    ("minimax", r"api\.minimax"),
    ("cohere", r"api\.cohere|cohereexception"),
    ("github-copilot", r"githubcopilot|github_copilot"),
    ("ollama", r":11434\b|ollamaexception"),
    ("lmstudio", r":1234/|lm ?studio"),
    ("openai", r"api\.openai\.com|openaiexception"),
)
"""Addresses, and the names under which gateways report who answered."""

_LIBRARIES: Final = {
    "anthropic": "anthropic",
    "boto3": "bedrock",
    "botocore": "bedrock",
    "cerebras": "cerebras",
    "cohere": "cohere",
    "google": "google",
    "groq": "groq",
    "mistralai": "mistral",
    "ollama": "ollama",
    "together": "together",
}
"""Client libraries that speak to one provider; OpenAI's speaks to everybody."""


def refuser(told: Iterable[Evidence], signs: Sequence[Sign], texts: Sequence[str]) -> str | None:
    """Say who refused; None where nothing tells."""
    evidence = list(told)
    own = next((sign.provider for sign in signs if sign.provider and sign.provider not in IMITATED), None)
    words = next((sign.provider for sign in signs if sign.provider), None)
    return host(evidence, texts) or own or _library(evidence) or words


def host(told: Iterable[Evidence], texts: Iterable[str] = ()) -> str | None:
    """Say whose address, or which provider's name, stands in what was told."""
    evidence = list(told)
    places = [place for each in evidence for place in each.places]
    spoken = "\n".join([*places, *texts])
    found = next((name for name, pattern in _HOSTS if _compiled(pattern).search(spoken)), None)
    return found or next((canonical(place) for place in places if place.replace("_", "").isalnum()), None)


def _library(told: Iterable[Evidence]) -> str | None:
    modules = (kind.partition(".")[0] for each in told for kind in each.kinds)
    return next((_LIBRARIES[module] for module in modules if module in _LIBRARIES), None)


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
