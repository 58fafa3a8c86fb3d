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
from refold.session.state.session_state import SessionState, UsageReport
from refold.session.steps.context import RequestContext

FRESH: Final = 300.0
"""Seconds for which providers keep what they have read, at least; later it is read anew at the full price."""
LEAST_HIT: Final = 0.5
"""The share of what should be in the cache that must be read out of it; less, and it was another prefix."""


def conversation_price(state: SessionState, answered: str = "") -> Price | None:
    """The price of the conversation's own model; the user's own table wins over the house's."""
    settings = state.settings
    if settings.model and settings.window is None and (own := settings.policy.window(settings.model).price):
        return own
    return price_of(settings.model or answered)


def find_cached_prefix(state: SessionState, used: int, around: RequestContext) -> Prefix | None:
    """The view behind which a question can be asked, with all that is sent before it; None where none can.

    used   tokens of all of it

    Only where the summariser is the conversation's own model, the provider has lately reported that it keeps
    what it reads, and nothing has moved since.
    """
    who, model = state.summariser, state.settings.model or ""
    report = state.report
    if report is None or not _warm(state, report) or not _speaks(state, who.format):
        return None
    if not model or not same_model("", model, who.provider, who.model) or not _whole(state, around):
        return None
    price = conversation_price(state)
    if price is None or price.cache_read is None:
        return None
    return Prefix(
        format=who.format,
        provider=provider_of(model) or "",
        model=who.model,
        system=around.system,
        tools=tuple(around.tools or ()),
        messages=tuple(state.shelf.items),
        tokens=used,
        cached=min(used, _cached(report, price)),
        price=price,
    )


def note_cache_misses(state: SessionState, prefix: Prefix | None, calls: Sequence[Call]) -> None:
    """Remember where a provider did not have in its cache what it was expected to have."""
    for call in calls:
        if prefix is not None and call.prefixed and not call.estimated:
            missed = call.cache_read < prefix.cached * LEAST_HIT
            state.purse = replace(state.purse, missed=missed)


def _speaks(state: SessionState, shape: str) -> bool:
    """Whether the messages are in this shape; plain words are alike at OpenAI and at Anthropic."""
    if shape == state.wire.name:
        return True
    plain = all(isinstance(part, Text) for message in state.shelf.messages for part in message.parts)
    return {shape, state.wire.name} == {"openai", "anthropic"} and plain and not state.shelf.fixed


def _warm(state: SessionState, report: UsageReport) -> bool:
    """Whether the provider has the conversation in its cache."""
    kept = report.usage.cache_read or report.usage.cache_write
    recent = abs(state.now() - report.at) < FRESH
    return bool(kept) and recent and report.holds and not state.purse.missed


def _cached(report: UsageReport, price: Price) -> int:
    """Tokens of the last request that are in the cache: what was marked, or all where nothing is marked."""
    usage = report.usage
    return usage.input if price.cache_write is None else usage.cache_read + usage.cache_write


def _whole(state: SessionState, around: RequestContext) -> bool:
    """Whether all that is sent is known and can be sent with a message behind it, secrets not withheld."""
    messages = state.shelf.messages
    if state.redact is not None or around.more or not messages or messages[-1].calls:
        return False
    tools = list(around.tools or ())
    if not tools and any(message.calls for message in messages):
        return False
    if state.wire.name == "gemini" and any(neutral(tool) for tool in tools):
        return False
    return not state.wire.check(messages)
