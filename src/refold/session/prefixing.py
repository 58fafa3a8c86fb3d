"""The conversation as its provider has it in the cache: when a summary may be asked for behind it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from refold.core.compaction.cached_prefix import Prefix, neutral, same_model
from refold.core.compaction.model_calls import Call
from refold.core.messages.message import Text
from refold.core.models.model_names import provider_of
from refold.core.models.prices import price_of
from refold.core.models.windows import Price
from refold.session.budgets import Around
from refold.session.keeper import Keeper, Reported

FRESH: Final = 300.0
"""Seconds for which providers keep what they have read, at least; later it is read anew at the full price."""
LEAST_HIT: Final = 0.5
"""The share of what should be in the cache that must be read out of it; less, and it was another prefix."""


def price_of_talk(keeper: Keeper, answered: str = "") -> Price | None:
    """The price of the conversation's own model; the user's own table wins over the house's."""
    settings = keeper.settings
    if settings.model and settings.window is None and (own := settings.policy.window(settings.model).price):
        return own
    return price_of(settings.model or answered)


def prefix_of(keeper: Keeper, used: int, around: Around) -> Prefix | None:
    """The view behind which a question can be asked, with all that is sent before it; None where none can.

    used   tokens of all of it

    Only where the summariser is the conversation's own model, the provider has lately reported that it keeps
    what it reads, and nothing has moved since.
    """
    who, model = keeper.summariser, keeper.settings.model or ""
    report = keeper.report
    if report is None or not _warm(keeper, report) or not _speaks(keeper, who.format):
        return None
    if not model or not same_model("", model, who.provider, who.model) or not _whole(keeper, around):
        return None
    price = price_of_talk(keeper)
    if price is None or price.cache_read is None:
        return None
    return Prefix(
        format=who.format,
        provider=provider_of(model) or "",
        model=who.model,
        system=around.system,
        tools=tuple(around.tools or ()),
        messages=tuple(keeper.shelf.items),
        tokens=used,
        cached=min(used, _cached(report, price)),
        price=price,
    )


def noted(keeper: Keeper, prefix: Prefix | None, calls: Sequence[Call]) -> None:
    """Remember where a provider did not have in its cache what it was expected to have."""
    for call in calls:
        if prefix is not None and call.prefixed and not call.estimated:
            missed = call.cache_read < prefix.cached * LEAST_HIT
            keeper.purse = replace(keeper.purse, missed=missed)


def _speaks(keeper: Keeper, shape: str) -> bool:
    """Whether the messages are in this shape; plain words are alike at OpenAI and at Anthropic."""
    if shape == keeper.wire.name:
        return True
    plain = all(isinstance(part, Text) for message in keeper.shelf.messages for part in message.parts)
    return {shape, keeper.wire.name} == {"openai", "anthropic"} and plain and not keeper.shelf.fixed


def _warm(keeper: Keeper, report: Reported) -> bool:
    """Whether the provider has the conversation in its cache."""
    kept = report.usage.cache_read or report.usage.cache_write
    recent = abs(keeper.now() - report.at) < FRESH
    return bool(kept) and recent and report.holds and not keeper.purse.missed


def _cached(report: Reported, price: Price) -> int:
    """Tokens of the last request that are in the cache: what was marked, or all where nothing is marked."""
    usage = report.usage
    return usage.input if price.cache_write is None else usage.cache_read + usage.cache_write


def _whole(keeper: Keeper, around: Around) -> bool:
    """Whether all that is sent is known and can be sent with a message behind it, secrets not withheld."""
    messages = keeper.shelf.messages
    if keeper.redact is not None or around.more or not messages or messages[-1].calls:
        return False
    tools = list(around.tools or ())
    if not tools and any(message.calls for message in messages):
        return False
    if keeper.wire.name == "gemini" and any(neutral(tool) for tool in tools):
        return False
    return not keeper.wire.check(messages)
