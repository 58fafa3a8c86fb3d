"""Find out whether the provider has the conversation in its cache: then a summary is asked behind it."""

from typing import Final

from refold.core.compaction.cached_prefix import CachedPrefix, is_neutral_tool, same_model
from refold.core.messages.message import Text
from refold.core.models.model_names import provider_of
from refold.core.models.prices import choose_price, find_client_price, sends_bill
from refold.core.models.windows import Price, Window
from refold.session.state.session_state import SessionState

CACHE_SECONDS: Final = 300.0
"""Seconds for which every provider keeps a prefix: five minutes at Anthropic, five to ten at OpenAI. Later it
is read again at the full price. If a provider keeps it longer, a cheap question is missed."""
LEAST_HIT: Final = 0.5
"""Share of the expected tokens that must come out of the cache; with less it was another prefix. Providers
cache in blocks, so a hit is seldom exact, and a much higher share would take hits for misses."""


def conversation_price(state: SessionState, answered: str = "", window: Window | None = None) -> Price | None:
    """Return the price of the conversation's model; the user's own price table comes first.

    An own server at the endpoint has none but that.

    answered   the model that the provider named, for sessions without a model
    window     the window of the session's model, if that was just found
    """
    settings = state.settings
    model, find = settings.model or answered, settings.policy.window
    if not settings.endpoint or sends_bill(settings.endpoint):
        known = window.price if window is not None and settings.model else None
        return known or choose_price(find, model)
    return find_client_price(settings.endpoint.partition("#")[0], model.rpartition("#")[2], find)


def find_cached_prefix(state: SessionState, used: int) -> CachedPrefix | None:
    """Return the view and all that is sent before it, if a question can be asked behind it; else None.

    used   tokens of all of it

    It can if the summariser is the conversation's own model, the provider has lately reported that it caches,
    and nothing has moved since.
    """
    summariser, model, request = state.summariser, state.settings.model or "", state.request
    report = state.accounting.report
    if report is None or not report.holds or state.accounting.spending.missed:
        return None
    cached = report.usage.cache_read + report.usage.cache_write
    if not cached or abs(state.now() - report.at) >= CACHE_SECONDS:
        return None
    if not model or not same_model("", model, summariser.provider, summariser.model):
        return None
    if not _can_be_continued(state, summariser.format):
        return None
    price = conversation_price(state)
    if price is None or price.cache_read is None:
        return None
    if price.cache_write is None:  # such providers cache the whole request, without marks
        cached = report.usage.input
    return CachedPrefix(
        format=summariser.format,
        provider=provider_of(model) or "",
        model=summariser.model,
        system=request.system,
        tools=tuple(request.tools or ()),
        messages=tuple(state.loaded.items),
        tokens=used,
        cached=min(used, cached),
        price=price,
    )


def _can_be_continued(state: SessionState, name: str) -> bool:
    """True if everything sent is known, unredacted, in this format, and a message may follow it."""
    messages, request = state.loaded.messages, state.request
    if name != state.wire.name:  # plain text is the same at OpenAI and Anthropic
        plain = all(isinstance(part, Text) for message in messages for part in message.parts)
        if {name, state.wire.name} != {"openai", "anthropic"} or not plain or state.loaded.fixed:
            return False
    if state.redact is not None or request.more or not messages or messages[-1].calls:
        return False
    tools = list(request.tools or ())
    if not tools and any(message.calls for message in messages):
        return False
    if state.wire.name == "gemini" and any(is_neutral_tool(tool) for tool in tools):
        return False
    return not state.wire.check(messages)
