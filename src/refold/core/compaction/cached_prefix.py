"""A conversation that its provider has cached, and what a question behind it costs. Asks no model.

A summary can be asked for as one more turn of the cached conversation, so that the prefix is billed as
cached. Every token is read then, for about a tenth of the price; the transcript of a separate prompt is
shorter and is read at the full price (docs/decisions/0014-money.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from refold.core.models.model_names import canonical_provider, parse_model_name, provider_of
from refold.core.models.prices import request_cost
from refold.core.models.window_table import Price
from refold.core.tokens.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPrefix:
    """A conversation as it was last sent to its own model."""

    format: str
    """The wire shape: `openai`, `responses`, `anthropic` or `gemini`."""
    provider: str
    model: str
    system: Any = field(default=None, repr=False)
    """The system prompt as the caller sends it; None where it stands in the messages."""
    tools: tuple[Any, ...] = field(default=(), repr=False)
    messages: tuple[Any, ...] = field(default=(), repr=False)
    tokens: int = 0
    """Tokens of system prompt, tools and messages."""
    cached: int = 0
    """Tokens of it that the provider is expected to have in its cache."""
    price: Price | None = None

    def is_with(self, provider: str, model: str) -> bool:
        """True if the conversation is with this model of this provider."""
        return bool(provider) and same_model(self.provider, self.model, provider, model)

    def usage(self, closing: int, output: int = 0) -> Usage:
        """Estimate the usage of a question with this many tokens behind the conversation."""
        uncached = max(0, self.tokens - self.cached)
        return Usage(
            input=self.tokens + closing,
            output=output,
            cache_read=min(self.cached, self.tokens),
            cache_write=0 if self.price is None or self.price.cache_write is None else uncached + closing,
        )

    def cheaper(self, *, closing: int, transcript: int) -> bool:
        """True if a question behind the conversation costs less than one with a transcript of this size.

        >>> price = Price(3, 15, 0.3, 3.75)
        >>> named = {"format": "anthropic", "provider": "anthropic", "model": "m"}
        >>> prefix = CachedPrefix(**named, tokens=160_000, cached=155_000, price=price)
        >>> prefix.cheaper(closing=500, transcript=100_000), prefix.cheaper(closing=500, transcript=10_000)
        (True, False)
        """
        if self.price is None or not self.cached:
            return False
        return request_cost(self.usage(closing), self.price) < request_cost(
            Usage(input=transcript), self.price
        )


def same_model(provider: str, model: str, other_provider: str, other: str) -> bool:
    """True if two names mean the same model of the same provider; a missing provider is the model's maker.

    >>> same_model("", "claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5")
    True
    """
    served = (
        canonical_provider(provider) or provider_of(model),
        canonical_provider(other_provider) or provider_of(other),
    )
    return (
        served[0] == served[1]
        and parse_model_name(model).spellings[0] == parse_model_name(other).spellings[0]
    )


def is_neutral_tool(tool: Any) -> bool:
    """True if a tool is in no wire format's own shape: `{"name", "description", "parameters"}`."""
    return isinstance(tool, Mapping) and "name" in tool and not {"type", "input_schema"} & tool.keys()
