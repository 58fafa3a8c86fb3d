"""Wire shapes of providers: the contract they serve, the table they stand in, and how one is recognised.

    items = [{"role": "user", "content": "hi"}]
    wire = detect(items)                    # or get("anthropic")
    messages = wire.parse(items)            # one item, one Message
    assert wire.render(messages) == items   # untouched messages are the very same objects

What a format does not understand it carries: unknown fields stay, unknown blocks become `Opaque` parts.
The built-in formats are loaded when first asked for; others come from the entry-point group
`refold.formats` under the name given there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final

from refold.core.messages.message import Message
from refold.core.messages.wire_rules import Problem, Shape
from refold.errors import FormatError

GROUP: Final = "refold.formats"

_BUILT_IN: Final = {
    "openai": "refold.formats.openai_chat",
    "responses": "refold.formats.openai_responses",
    "anthropic": "refold.formats.anthropic",
    "gemini": "refold.formats.gemini",
    "refold": "refold.formats.shared.canonical",
}
_ALIASES: Final = {
    "openai_chat": "openai",
    "chat": "openai",
    "chat_completions": "openai",
    "openai_responses": "responses",
    "anthropic_messages": "anthropic",
    "claude": "anthropic",
    "google": "gemini",
    "canonical": "refold",
}
DEFAULT: Final = "openai"
"""The shape of a list that shows none: most clients speak it, and plain items read the same in all."""

_PLAIN_ROLES: Final = frozenset({"user", "assistant", "system", "developer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One provider's wire shape.

    Law: `render(parse(items)) == items` to the byte after JSON encoding, and `parse` raises nothing but
    `FormatError`.
    """

    name: str
    shape: Shape
    recognise: Callable[[Any], str]
    """What in an item can only be this format, as a path in it (`.tool_calls`); empty if nothing."""
    parse: Callable[[Sequence[Any]], tuple[Message, ...]]
    render: Callable[[Sequence[Message]], list[Any]]
    check: Callable[[Sequence[Message]], list[Problem]]
    """Would the provider take it? Reasons why not, in order of position."""
    positional: bool = False
    """Whether an item is read differently behind others: calls without ids are matched by their order."""


def names() -> tuple[str, ...]:
    """The names of all formats, built in and plugged in."""
    return (*_BUILT_IN, *sorted(set(_plugged()) - set(_BUILT_IN)))


def get(name: str | Format) -> Format:
    """Give the format of that name or alias.

    >>> get("claude").name
    'anthropic'
    """
    if isinstance(name, Format):
        return name
    plain = name.strip().lower().replace("-", "_") if isinstance(name, str) else ""
    known = _ALIASES.get(plain, plain)
    if known in _BUILT_IN:
        return _built_in(known)
    plugged = _plugged()
    if isinstance(name, str) and name in plugged:
        return _load(name, plugged[name])
    raise FormatError(f"no format is named {name!r}: use one of {', '.join(names())}")


def detect(items: Sequence[Any]) -> Format:
    """Recognise the format of a list by its shape; a list that shows none is read as OpenAI chat.

    >>> detect([{"role": "model", "parts": [{"text": "hi"}]}]).name
    'gemini'
    """
    return decide(items) or get(DEFAULT)


def decide(items: Sequence[Any]) -> Format | None:
    """Recognise the format of a list, or give None where nothing in it can only be one format."""
    if isinstance(items, (str, bytes, bytearray)) or not isinstance(items, Sequence):
        raise FormatError(f"expected a list of messages, found {type(items).__name__}", path="messages")
    formats = [_built_in(name) for name in _BUILT_IN]
    found: Format | None = None
    where = ""
    for index, item in enumerate(items):
        if _says_nothing(item) or (found is not None and found.recognise(item)):
            continue
        _expect_item(item, index)
        told = next(((each, path) for each in formats if (path := each.recognise(item))), None)
        if told is None:
            continue
        here = f"messages[{index}]{told[1]}"
        if found is not None:
            text = f"is {told[0].name}, but {where} is {found.name}: pass format= to decide"
            raise FormatError(text, path=here)
        found, where = told[0], here
    return found


def _says_nothing(item: Any) -> bool:
    """Whether an item has a role and a string only, as most have; every format can read it."""
    return (
        type(item) is dict
        and len(item) == 2
        and type(item.get("content")) is str
        and type(item.get("role")) is str
        and item["role"] in _PLAIN_ROLES
    )


def _expect_item(item: Any, index: int) -> None:
    if not isinstance(item, (dict, Message)):
        raise FormatError(
            f"expected an object or a Message, found {type(item).__name__} (of an SDK? pass its dict)",
            path=f"messages[{index}]",
        )


@cache
def _built_in(name: str) -> Format:
    value = import_module(_BUILT_IN[name]).FORMAT
    assert isinstance(value, Format)  # noqa: S101  # our own table
    return value


def _plugged() -> dict[str, Any]:
    """Entry points by name; reading them is slow, so only unknown names ask for them."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


def _load(name: str, point: Any) -> Format:
    try:
        value = point.load()
    except Exception as error:
        raise FormatError(f"the format {name!r} is installed but could not be loaded: {error}") from error
    if not isinstance(value, Format):
        raise FormatError(f"the plug-in {name!r} gives {type(value).__name__} where a Format was expected")
    return value
