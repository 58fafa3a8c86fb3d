"""A conversation as its provider has it in the cache, and whether asking behind it is cheaper; asks nobody.

The question stands as one more message behind what was sent before, word for word, so that the provider
reads the conversation out of its cache. Every token is read then, but for a tenth of the price or so; the
transcript of another prompt is shorter and is read at the full price.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from refold.core.models.model_names import canonical, provider_of, read
from refold.core.models.prices import cost
from refold.core.models.window_table import Price
from refold.core.tokens.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """A conversation as it was sent to its own model."""

    format: str
    """The wire shape: `openai`, `responses`, `anthropic` or `gemini`."""
    provider: str
    model: str
    system: Any = field(default=None, repr=False)
    """As the caller sends it; None where it stands in the messages."""
    tools: tuple[Any, ...] = field(default=(), repr=False)
    messages: tuple[Any, ...] = field(default=(), repr=False)
    tokens: int = 0
    """All of it: system prompt, tools and messages."""
    cached: int = 0
    """How much of it the provider is expected to have in its cache."""
    price: Price | None = None

    def is_with(self, provider: str, model: str) -> bool:
        """Whether the conversation is with this model of this provider."""
        return bool(provider) and same_model(self.provider, self.model, provider, model)

    def usage(self, closing: int, output: int = 0) -> Usage:
        """What a question of so many tokens behind it is expected to take."""
        anew = max(0, self.tokens - self.cached)
        return Usage(
            input=self.tokens + closing,
            output=output,
            cache_read=min(self.cached, self.tokens),
            cache_write=0 if self.price is None or self.price.cache_write is None else anew + closing,
        )

    def cheaper(self, *, closing: int, transcript: int) -> bool:
        """Whether a question behind it costs less than one with a transcript of so many tokens.

        >>> price = Price(3, 15, 0.3, 3.75)
        >>> named = {"format": "anthropic", "provider": "anthropic", "model": "m"}
        >>> held = Prefix(**named, tokens=160_000, cached=155_000, price=price)
        >>> held.cheaper(closing=500, transcript=100_000), held.cheaper(closing=500, transcript=10_000)
        (True, False)
        """
        if self.price is None or not self.cached:
            return False
        return cost(self.usage(closing), self.price) < cost(Usage(input=transcript), self.price)


def same_model(provider: str, model: str, other_provider: str, other: str) -> bool:
    """Whether two names mean the same model of the same provider; who is not named is whoever made it.

    >>> same_model("", "claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5")
    True
    """
    served = canonical(provider) or provider_of(model), canonical(other_provider) or provider_of(other)
    return served[0] == served[1] and read(model).spellings[0] == read(other).spellings[0]


def neutral(tool: Any) -> bool:
    """Whether a tool is in no wire's own shape: `{"name", "description", "parameters"}`."""
    return isinstance(tool, Mapping) and "name" in tool and not {"type", "input_schema"} & tool.keys()
