"""What the name of a model says: who serves it, who made it, how else it is spelt; knows no window.

People write one model in many ways: `gpt-4o`, `openai:gpt-4o`, `azure/gpt-4o`, `models/gemini-2.5-pro`,
`openrouter/anthropic/claude-3.5-sonnet`, `bedrock:us.anthropic.claude-3-5-sonnet-20241022-v2:0`. `read` turns
each into a provider, a maker and the spellings under which a table may list it, the likeliest first.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_SPELT: Final = {
    "alibaba": "alibaba alibabacn dashscope qwen qwencloud modelstudio",
    "anthropic": "anthropic claude",
    "azure": "azure azureopenai azureai azurecognitiveservices azureopenairesponses azureaifoundry",
    "bedrock": "bedrock amazonbedrock aws awsbedrock bedrockconverse bedrockruntime amazon",
    "cerebras": "cerebras",
    "cohere": "cohere coherechat",
    "deepseek": "deepseek deepseekai",
    "fireworks": "fireworks fireworksai",
    "github-copilot": "githubcopilot copilot",
    "google": "google googleai gemini googlegenai googlegla googleaistudio generativelanguage",
    "groq": "groq",
    "huggingface": "huggingface hf",
    "liquid": "liquid liquidai",
    "litellm": "litellm litellmproxy",
    "llamacpp": "llamacpp llamaserver llamacpppython",
    "lmstudio": "lmstudio",
    "meta": "meta metallama llamaapi",
    "minimax": "minimax minimaxai",
    "mistral": "mistral mistralai codestral",
    "moonshot": "moonshot moonshotai kimi kimiforcoding",
    "ollama": "ollama ollamachat ollamacloud",
    "openai": "openai openaichat openairesponses openaicodex openaicompatible chatgpt",
    "openrouter": "openrouter",
    "perplexity": "perplexity perplexityai",
    "sagemaker": "sagemaker amazonsagemaker sagemakerchat",
    "together": "together togetherai",
    "vercel": "vercel vercelaigateway aigateway",
    "vertex": "vertex vertexai googlevertex googlevertexai googlevertexanthropic vertexaibeta",
    "vllm": "vllm hostedvllm",
    "xai": "xai grok",
    "zai": "zai zhipuai zhipu glm bigmodel zaiorg",
}
_PROVIDERS: Final = {spelling: name for name, spellings in _SPELT.items() for spelling in spellings.split()}

ROUTERS: Final = frozenset({"huggingface", "litellm", "openrouter", "vercel"})
"""They pass a request on: who stands behind them in the name has the window."""

LANDLORDS: Final = frozenset(
    {"cerebras", "fireworks", "github-copilot", "groq", "llamacpp", "lmstudio", "ollama", "together", "vllm"}
)
"""They serve other people's models under limits of their own, of which the maker's window says nothing."""

# Patterns are texts: `re` compiles each when it is first used and keeps it, so that an import costs nothing.

_MAKERS: Final = {
    "anthropic": r"claude",
    "openai": r"(?:chat)?gpt|o[1-9](?:$|[-:@])|codex|computer-use|text-davinci",
    "google": r"gemini|gemma|learnlm|medlm|palm",
    "mistral": r"(?:open-|labs-)?(?:mistral|mixtral|ministral|codestral|devstral|magistral|pixtral|voxtral)",
    "deepseek": r"deepseek",
    "alibaba": r"qwen|qwq|qvq",
    "xai": r"grok",
    "zai": r"(?:chat)?glm",
    "moonshot": r"kimi|moonshot",
    "minimax": r"minimax|abab",
    "cohere": r"command|c4ai|aya-",
    "meta": r"(?:meta-)?llama|muse-",
    "perplexity": r"sonar",
    "liquid": r"lfm",
    "bedrock": r"nova-|titan-",
}

_BEDROCK: Final = (
    r"(?:(?:us|eu|apac|au|jp|ca|global|us-gov)\.)?"
    r"((?:ai21|amazon|anthropic|cohere|deepseek|google|luma|meta|minimax|mistral|moonshotai|nvidia|openai|qwen"
    r"|stability|twelvelabs|writer|xai|zai)\.[a-z0-9].*)"
)
_WRAPPING: Final = r"\A(?:arn:aws[a-z-]*:bedrock:|projects/|publishers/|models/|accounts/)(?:[^/]*/)*"
_VERSION: Final = r"-v[0-9]{1,2}(?::[0-9]{1,2})?$"
_REVERSED: Final = r"claude-([0-9](?:-[0-9])?)-(opus|sonnet|haiku)"
_SIZE: Final = r"\[([0-9]{1,4}[km])\]$"

_INSIDE: Final = r"[0-9]{1,2}(?![0-9]|-[0-9]{4}$)|$"
"""One or two digits behind a hyphen are part of a version (or of a date) unless they begin MM-YYYY."""

_EDITION: Final = (
    r"[-@](?:[0-9]{3,8}|[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{2}-[0-9]{4}|latest)(?:-v[0-9]{1,2})?(?::[0-9]{1,2})?"
)

_LONGEST: Final = 300
"""No model has a longer name; what is longer is text, and is looked up under its first characters only."""


@dataclass(frozen=True, slots=True)
class Name:
    """A model's name, read."""

    provider: str | None
    """Who serves it, where the name or the caller says so."""
    maker: str | None
    """Who made it, as far as the name tells."""
    spellings: tuple[str, ...]
    """The plain lower-case name, then other ways to write it."""
    size: str | None = None
    """A window that stands in the name itself, as in `claude-sonnet-4-5[1m]`."""


def canonical(provider: str) -> str:
    """Give a provider its house name.

    >>> canonical("Google AI"), canonical("vertex_ai"), canonical("my-host")
    ('google', 'vertex', 'my-host')
    """
    plain = re.sub(r"[^a-z0-9]", "", provider.lower()[:_LONGEST])
    return _PROVIDERS.get(plain, provider.strip().lower()[:_LONGEST])


@lru_cache(maxsize=4096)
def read(model: str, provider: str | None = None) -> Name:
    """Read a model's name, with the provider where the caller knows it."""
    plain = re.sub(r"\s+", "-", model[:_LONGEST].strip().lower())
    size = re.search(_SIZE, plain)
    whole = re.sub(_WRAPPING, "", plain[: size.start()] if size else plain)
    named, plain = _served(whole)
    own = canonical(provider) if provider else named
    plain = re.sub(_WRAPPING, "", plain).removeprefix("ft:")
    if match := re.fullmatch(_BEDROCK, plain):
        own, plain = own or "bedrock", match[1]
    spellings = tuple(dict.fromkeys((plain, whole, *_others(plain))))
    maker = next((found for each in reversed(spellings) if (found := _maker(each))), None)
    return Name(own, maker, spellings, size[1] if size else None)


def provider_of(model: str) -> str | None:
    """Say who serves a model: as its name says, else who made it, else None.

    >>> provider_of("azure/gpt-4o"), provider_of("claude-sonnet-4-5"), provider_of("my-model")
    ('azure', 'anthropic', None)
    """
    name = read(model)
    return name.provider or name.maker


def prefixes(spelling: str) -> Iterator[str]:
    """Give every beginning of a name that ends where a name may end, the longest first.

    A name may end before a date, a revision or a word, never inside a version: `gpt-4o-2024-08-06` begins
    with `gpt-4o`, but `claude-sonnet-4-5` does not begin with `claude-sonnet-4`, nor `gpt-4.1` with `gpt-4`.

    >>> list(prefixes("o1-mini-2024-09-12"))
    ['o1-mini', 'o1']
    """
    for at in range(len(spelling) - 1, 0, -1):
        if spelling[at] in ":@/[" or (spelling[at] == "-" and not re.match(_INSIDE, spelling[at + 1 :])):
            yield spelling[:at]


def is_snapshot(spelling: str, family: str) -> bool:
    """Whether a name is a dated or numbered edition of a family, and nothing else."""
    return spelling.startswith(family) and bool(re.fullmatch(_EDITION, spelling[len(family) :]))


def _served(plain: str) -> tuple[str | None, str]:
    found: str | None = None
    while match := re.match(r"([a-z0-9][a-z0-9_.-]*)[:/](?=.)", plain):
        provider = _PROVIDERS.get(re.sub(r"[^a-z0-9]", "", match[1]))
        if provider is None or (found is not None and found not in ROUTERS):
            break
        found, plain = provider, plain[match.end() :]
    return found, plain


def _others(plain: str) -> Iterator[str]:
    last = plain.rpartition("/")[2]
    yield last
    bare = re.sub(_VERSION, "", last.partition(".")[2]) if re.fullmatch(_BEDROCK, last) else last
    yield bare
    if bare.startswith("claude"):
        dashed = bare.replace(".", "-").replace("@", "-").replace("-v2-", "-")
        yield dashed
        yield re.sub(_REVERSED, r"claude-\2-\1", dashed)
    if bare.startswith(("nova-", "titan-")):
        yield f"amazon.{bare}"
        yield f"amazon.{bare}:0"


def _maker(spelling: str) -> str | None:
    return next((maker for maker, pattern in _MAKERS.items() if re.match(pattern, spelling)), None)
