"""Read the name of a model: its provider, its maker, its other spellings; knows no window.

People write one model in many ways: `gpt-4o`, `openai:gpt-4o`, `azure/gpt-4o`, `models/gemini-2.5-pro`,
`openrouter/anthropic/claude-3.5-sonnet`, `bedrock:us.anthropic.claude-3-5-sonnet-20241022-v2:0`,
`http://host/v1#gpt-4o`. Each is read as a provider, a maker and the spellings under which a table may list
it, the likeliest first.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pkgutil import get_data
from typing import Final

_ROWS: Final = json.loads(get_data(__package__, "data/providers.json") or b"")["providers"]
_PROVIDERS: Final[dict[str, str]] = {
    spelling: name for name, row in _ROWS.items() for spelling in row["spellings"].split()
}
ROUTERS: Final = frozenset(name for name, row in _ROWS.items() if row.get("router"))
"""Providers that pass a request on; the provider behind them in the name has the window."""
HOSTS: Final = frozenset(name for name, row in _ROWS.items() if row.get("host"))
"""Providers that serve other makers' models under limits of their own, whatever the maker's window is."""
NAMED: Final = frozenset(name for name, row in _ROWS.items() if row.get("named"))
"""Providers whose rows count only where the name says that they serve the model."""

# Patterns are texts: `re` compiles each when it is first used and keeps it, so that an import costs nothing.
_MAKERS: Final[dict[str, str]] = {name: row["models"] for name, row in _ROWS.items() if "models" in row}

_BEDROCK: Final = (
    r"(?:(?:us|eu|apac|au|jp|ca|global|us-gov)\.)?"
    r"((?:ai21|amazon|anthropic|cohere|deepseek|google|luma|meta|minimax|mistral|moonshotai|nvidia|openai|qwen"
    r"|stability|twelvelabs|writer|xai|zai)\.[a-z0-9].*)"
)
_ADDRESS: Final = r"(https?://[^#]+?)/?#(?=.)"
"""The address of a server; the model stands behind it."""
_WRAPPING: Final = r"\A(?:arn:aws[a-z-]*:bedrock:|projects/|publishers/|models/|accounts/)(?:[^/]*/)*"
_BEDROCK_CALL: Final = r"\A(?:converse|converse_like|invoke)/"
"""How a request is made, which some programs write before the model."""
_OLLAMA_TAG: Final = r"[a-z0-9._-]+:(?:latest|(?:e|[0-9]{1,2}x)?[0-9]{1,4}(?:\.[0-9])?[bm](?:-[a-z0-9._-]+)?)"
"""A name with a tag, and no provider: `llama3.2:3b`. Only Ollama's programs write one."""
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
class ModelName:
    """The parts of a model's name."""

    provider: str | None
    """The provider that serves the model, if the name or the caller says so."""
    maker: str | None
    """The maker of the model, if the name shows it."""
    spellings: tuple[str, ...]
    """The plain lower-case name, then other ways to write it."""
    size: str | None = None
    """A window that stands in the name itself, as in `claude-sonnet-4-5[1m]`."""
    address: str = ""
    """The address of the server that stands before the model, as in `http://host/v1#gpt-4o`."""


def canonical_provider(provider: str) -> str:
    """Return the name under which our tables list a provider.

    >>> [canonical_provider(name) for name in ("Google AI", "vertex_ai", "my-host")]
    ['google', 'vertex', 'my-host']
    """
    plain = re.sub(r"[^a-z0-9]", "", provider.lower()[:_LONGEST])
    return _PROVIDERS.get(plain, provider.strip().lower()[:_LONGEST])


@lru_cache(maxsize=4096)
def parse_model_name(model: str, provider: str | None = None) -> ModelName:
    """Read a model's name, with the provider if the caller knows it."""
    plain = re.sub(r"\s+", "-", model[:_LONGEST].strip().lower())
    server = re.match(_ADDRESS, plain)
    plain = plain[server.end() :] if server else plain
    size = re.search(_SIZE, plain)
    unwrapped = re.sub(_WRAPPING, "", plain[: size.start()] if size else plain)
    named, plain = _split_provider(unwrapped)
    own = canonical_provider(provider) if provider else named
    if own is None and re.fullmatch(_OLLAMA_TAG, plain):
        own = "ollama"
    if not provider and "accounts/fireworks/" in model.lower():
        own = "fireworks"
    if own == "bedrock":
        plain = re.sub(_BEDROCK_CALL, "", plain)
    plain = re.sub(_WRAPPING, "", plain).removeprefix("ft:")
    if match := re.fullmatch(_BEDROCK, plain):
        own, plain = own or "bedrock", match[1]
    spellings = tuple(dict.fromkeys((plain, unwrapped, *_other_spellings(plain))))
    # The plainest spelling comes last and says best who made the model.
    makers = (
        maker
        for spelling in reversed(spellings)
        for maker, pattern in _MAKERS.items()
        if re.match(pattern, spelling)
    )
    address = server[1] if server else ""
    return ModelName(own, next(makers, None), spellings, size[1] if size else None, address)


def provider_of(model: str) -> str | None:
    """Return the provider of a model: the one in its name, else its maker, else None.

    >>> provider_of("azure/gpt-4o"), provider_of("claude-sonnet-4-5"), provider_of("my-model")
    ('azure', 'anthropic', None)
    """
    name = parse_model_name(model)
    return name.provider or name.maker


def name_prefixes(spelling: str) -> Iterator[str]:
    """Yield every beginning of a name that ends where a name may end, the longest first.

    A name may end before a date, a revision or a word, never inside a version: `gpt-4o-2024-08-06` begins
    with `gpt-4o`, but `claude-sonnet-4-5` does not begin with `claude-sonnet-4`, nor `gpt-4.1` with `gpt-4`.

    >>> list(name_prefixes("o1-mini-2024-09-12"))
    ['o1-mini', 'o1']
    """
    for at in range(len(spelling) - 1, 0, -1):
        if spelling[at] in ":@/[" or (spelling[at] == "-" and not re.match(_INSIDE, spelling[at + 1 :])):
            yield spelling[:at]


def is_snapshot(spelling: str, family: str) -> bool:
    """Return True for a dated or numbered edition of a family."""
    return spelling.startswith(family) and bool(re.fullmatch(_EDITION, spelling[len(family) :]))


def _split_provider(plain: str) -> tuple[str | None, str]:
    """Split providers off the front; behind a router another provider may follow."""
    served: str | None = None
    while match := re.match(r"([a-z0-9][a-z0-9_.-]*)[:/](?=.)", plain):
        provider = _PROVIDERS.get(re.sub(r"[^a-z0-9]", "", match[1]))
        if provider is None or (served is not None and served not in ROUTERS):
            break
        served, plain = provider, plain[match.end() :]
    return served, plain


def _other_spellings(plain: str) -> Iterator[str]:
    """Yield how else a table may list a model, the plainest spelling last."""
    last = plain.rpartition("/")[2]
    yield last
    bare = re.sub(_VERSION, "", last.partition(".")[2]) if re.fullmatch(_BEDROCK, last) else last
    yield bare
    if bare.startswith("claude"):  # 3.5 and 3-5, @date and -date, and the family before or behind the version
        dashed = bare.replace(".", "-").replace("@", "-").replace("-v2-", "-")
        yield dashed
        yield re.sub(_REVERSED, r"claude-\2-\1", dashed)
    if bare.startswith(("nova-", "titan-")):
        yield f"amazon.{bare}"
        yield f"amazon.{bare}:0"
