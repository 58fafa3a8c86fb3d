"""The counters of the five systems, exactly as documented, and the house's own for each provider."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final

from refold.core.messages.message import Message
from refold.core.messages.message_text import arguments_text, body, body_and_large_calls, json_text
from refold.core.messages.transcript import rendered
from refold.core.models.model_names import canonical
from refold.core.models.windows import provider_of
from refold.core.tokens.counting import HOUSE, Counter, Memo, images, media_by_size, multiplied, rounded_up
from refold.core.tokens.estimate import FAMILY, estimate


def ripple(chars_per_token: int = 4) -> Counter:
    """Ripple: four characters a token, calls with their arguments; thinking and pictures count nothing."""
    return Counter(
        name="ripple", text=rounded_up(chars_per_token), visible=_ripple_text, tool=_ripple_tool, joined=True
    )


CODEBUDDY: Final = Counter(name="codebuddy", text=rounded_up(4), visible=body_and_large_calls)
"""CodeBuddy: four characters a token."""


def _quarter_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass")) // 4


OPAL: Final = Counter(name="opal", text=_quarter_bytes, visible=body_and_large_calls, per_message=10)
"""Opal: four bytes a token, rounded down, and ten a message."""


def _umwelten_text(message: Message) -> str:
    tools = "".join(f"[tool:{call.name}]{arguments_text(call)}" for call in message.calls)
    return f"role:{message.role}\n{body(message)}{tools}"


UMWELTEN: Final = Counter(name="umwelten", text=len, visible=_umwelten_text, divisor=4)
"""Umwelten: characters of role and text of all messages, divided by four once, at the end."""


NEUROLINK_FACTORS: Final[Mapping[str, float]] = {
    "anthropic": 1.23,
    "google": 1.18,
    "vertex": 1.18,
    "mistral": 1.26,
    "bedrock": 1.23,
}
"""NeuroLink's document, "Provider Multipliers", by the house's names of providers; all others are 1.0."""


def neurolink(model: str | None, *, provider: str | None = None, is_code: bool = False) -> Counter:
    """NeuroLink: characters by four (code: three), times the provider's factor and a margin of 1.15."""
    served = canonical(provider) if provider else provider_of(model) if model else None
    factor = NEUROLINK_FACTORS.get(served or "", 1.0)
    return Counter(
        name="neurolink",
        text=multiplied(factor, chars_per_token=3 if is_code else 4, margin=1.15),
        visible=body_and_large_calls,
        media=_flat_images,
        per_message=4,
        per_conversation=24,
        tool=_stringified,
    )


def _stringified(tool: Any) -> str:
    """A tool definition as the document's `JSON.stringify` writes it, without a blank."""
    return json.dumps(tool, ensure_ascii=False, separators=(",", ":"))


def _flat_images(message: Message) -> int:
    return 1_024 * images(message)


def house(model: str | None) -> Counter:
    """The house: the calibrated estimate, times what the provider's tokenizer is known to add."""
    return _house((provider_of(model) if model else None) or "")


@cache
def _house(provider: str) -> Counter:
    if not provider:
        return HOUSE
    factor = FAMILY.get(provider, 1.0)
    text = HOUSE.text if factor == 1.0 else Memo(lambda text: -int(-estimate(text) * factor // 1))
    return replace(HOUSE, text=text, media=partial(media_by_size, provider=provider))


def _ripple_text(message: Message) -> str:
    lines = [body(message)] if body(message) else []
    for call in message.calls:
        lines.append(call.name)
        if shown := rendered(call):
            lines.append(shown)
    return "\n".join(lines)


def _ripple_tool(tool: Mapping[str, Any]) -> str:
    """Name, description, and each parameter with its description; a tool of another shape as its JSON."""
    several = tool.get("functionDeclarations") or tool.get("function_declarations")
    if isinstance(several, list):  # Gemini
        return "\n".join(_ripple_tool(each) for each in several if isinstance(each, Mapping))
    inner = tool.get("function")
    inner = inner if isinstance(inner, Mapping) else tool
    schema = inner.get("parameters") or inner.get("input_schema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    words = [inner.get("name"), inner.get("description")]
    for name, parameter in (properties if isinstance(properties, Mapping) else {}).items():
        words += [name, parameter.get("description") if isinstance(parameter, Mapping) else None]
    return " ".join(str(word) for word in words if word) or json_text(tool)
