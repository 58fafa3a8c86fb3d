"""Wire formats of providers: the contract they fulfil, the table of them, and how one is detected.

    items = [{"role": "user", "content": "hi"}]
    wire = detect(items)                    # or get("anthropic")
    messages = wire.parse(items)            # one item, one Message
    assert wire.render(messages) == items   # untouched messages are the very same objects

A format carries what it does not understand: unknown fields stay, unknown blocks become `Opaque` parts. The
built-in formats are loaded on first use; others come from the entry-point group `refold.formats` under their
name there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final

from refold.core.messages.message import Message, Text, ToolCall, ToolResult
from refold.core.messages.wire_rules import Problem, Shape
from refold.errors import FormatError

GROUP: Final = "refold.formats"

_BUILT_IN: Final = {
    "openai": "refold.formats.openai_chat",
    "responses": "refold.formats.openai_responses",
    "anthropic": "refold.formats.anthropic",
    "gemini": "refold.formats.gemini",
    "interactions": "refold.formats.interactions",
    "converse": "refold.formats.converse",
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
    "gemini_interactions": "interactions",
    "bedrock": "converse",
    "bedrock_converse": "converse",
    "canonical": "refold",
}
DEFAULT: Final = "openai"
"""The format of a list that shows none: most clients speak it, and plain items read the same in all."""
_PLAIN_ROLES: Final = frozenset({"user", "assistant", "system", "developer"})
_OTHER_FIELDS: Final = frozenset(
    {"role", "name", "id", "reasoning_details", "thinking_blocks", "thinking", "images", "annotations"}
)
_SAYS: Final = {"type", "tool_calls", "function_call", "refusal", "audio", "reasoning", "output_config"}
"""Fields of which a message without `content` has one, unless it is empty."""
_SCHEMES: Final = {"anthropic": "anthropic", "responses": "responses"}
"""What is spoken at the address of a model; a name alone says nothing, since many servers speak OpenAI.
Gemini has no plain messages: its own shape shows it."""
_TOOL_FIELDS: Final = {"input_schema": "anthropic", "functionDeclarations": "gemini", "function": DEFAULT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One provider's wire format.

    Law: `render(parse(items)) == items` to the byte after JSON encoding, and `parse` raises nothing but
    `FormatError`.
    """

    name: str
    shape: Shape
    recognise: Callable[[Any], str]
    """Returns what in an item only this format has, as a path in it (`.tool_calls`); empty if nothing."""
    parse: Callable[[Sequence[Any]], tuple[Message, ...]]
    render: Callable[[Sequence[Message]], list[Any]]
    check: Callable[[Sequence[Message]], list[Problem]]
    """Returns the reasons why the provider would refuse a history, in order of position."""
    positional: bool = False
    """True if an item reads differently behind others: calls without ids are matched by their order."""
    parse_behind: Callable[..., tuple[Message, ...]] | None = None
    """Reads items behind others that were read before, where that is cheaper than to read all of them. Takes
    the others, the items, and `Positions` of what stands before both, in which the others are noted."""


def names() -> tuple[str, ...]:
    """Return the names of all formats, built in and plugged in."""
    return (*_BUILT_IN, *sorted(set(_find_plugins()) - set(_BUILT_IN)))


def get(name: str | Format) -> Format:
    """Return the format of that name or alias.

    >>> get("claude").name
    'anthropic'
    """
    if isinstance(name, Format):
        return name
    plain = name.strip().lower().replace("-", "_") if isinstance(name, str) else ""
    known = _ALIASES.get(plain, plain)
    if known in _BUILT_IN:
        return _load_built_in(known)
    plugins = _find_plugins()
    if not isinstance(name, str) or name not in plugins:
        raise FormatError(f"no format is named {name!r}: use one of {', '.join(names())}")
    try:
        value = plugins[name].load()
    except Exception as error:
        raise FormatError(f"the format {name!r} is installed but could not be loaded: {error}") from error
    if not isinstance(value, Format):
        raise FormatError(f"the plug-in {name!r} gives {type(value).__name__} where a Format was expected")
    return value


def detect(items: Sequence[Any], model: str | None = None, tools: Any = None) -> Format:
    """Return the format of a list by its shape, else by the model's address or the tools, else OpenAI chat.

    >>> detect([{"role": "user", "content": "hi"}], model="anthropic:claude-sonnet-4-5").name
    'anthropic'
    """
    if (detected := detect_or_none(items)) is not None:
        if not _reads_plain(detected.name) and any(map(_is_plain, items)):
            refuse_other(detected, items)
        return detected
    listed = tools if isinstance(tools, list | tuple) else [tools]
    fields = (name for tool in listed if isinstance(tool, dict) for name in _TOOL_FIELDS if name in tool)
    wire = get(_SCHEMES.get((model or "").partition(":")[0]) or _TOOL_FIELDS[next(fields, "function")])
    default, reads_plain = get(DEFAULT), _reads_plain(wire.name)
    if items and items[0].get("role") == "system" and not wire.shape.system_inside:
        return default
    odd = (one for one in items if not (reads_plain and _is_plain(one) and one["role"] != "developer"))
    same = wire is default or all(_find_content(wire, one) == _find_content(default, one) for one in odd)
    return wire if same else default


def detect_or_none(items: Sequence[Any]) -> Format | None:
    """Return the format of a list; None if nothing in it belongs to one format only."""
    if isinstance(items, (str, bytes, bytearray)) or not isinstance(items, (list, Sequence)):
        raise FormatError(f"expected a list of messages, found {type(items).__name__}", path="messages")
    detected: Format | None = None
    evidence = ""
    for index, item in enumerate(items):
        if _is_plain(item) or (detected is not None and detected.recognise(item)):
            continue
        where = f"messages[{index}]"
        if not isinstance(item, (dict, Message)):
            text = f"expected an object or a Message, found {type(item).__name__} (of an SDK? pass its dict)"
            raise FormatError(text, path=where)
        known_formats = map(_load_built_in, _BUILT_IN)  # only as far as one of them is asked
        match = next(((known, path) for known in known_formats if (path := known.recognise(item))), None)
        if match is None:
            fields = item.keys() if isinstance(item, dict) else _OTHER_FIELDS
            is_known = "content" in fields or fields & _SAYS or fields <= _OTHER_FIELDS
            if "parts" in fields or not is_known:
                text = "no format knows its fields: expected `role` and `content`; for others pass format="
                raise FormatError(text, path=where)
            continue
        matched, path = match
        if detected is not None:
            text = f"is {matched.name}, but {evidence} is {detected.name}: pass format= to decide"
            raise FormatError(text, path=f"{where}{path}")
        detected, evidence = matched, f"{where}{path}"
    return detected


def refuse_other(wire: Format, items: Sequence[Any], first: int = 0) -> None:
    """Raise `FormatError` if a message is in another format, so that the named one would lose its content.

    Frameworks put blocks of one format into messages of another, such as thinking. That is carried: only a
    message whose texts, calls or results would not be read is refused. A format of one's own reads what it
    likes.

    first   index of the first item in the caller's list

    >>> refuse_other(get("openai"), [{"role": "user", "parts": [{"text": "hi"}]}])
    Traceback (most recent call last):
        ...
    refold.errors.FormatError: messages[0].parts: looks like gemini, not openai: pass format='gemini'
    """
    if wire.name not in _BUILT_IN:
        return
    reads_plain = _reads_plain(wire.name)
    for index, item in enumerate(items, first):
        is_plain = _is_plain(item)
        if (reads_plain and is_plain) or wire.recognise(item):
            continue
        others = [_load_built_in(name) for name in _BUILT_IN if name != wire.name]
        looked_at = items if is_plain else [item]  # later messages may tell what a plain one is
        other = next((each for one in looked_at for each in others if each.recognise(one)), None)
        other = get(DEFAULT) if other is None and is_plain else other
        content = None if other is None else _find_content(other, item)
        if other is not None and content is not None and content != _find_content(wire, item):
            at, path = index, other.recognise(item) or ".content"
            problem = f"looks like {other.name}, not {wire.name}: pass format={other.name!r}"
            places = ((place, wire.recognise(one), wire.name) for place, one in enumerate(items, first))
            if own := next((each for each in places if each[1]), None):
                # A mixed list: the later of the two differs from what stands before it.
                (before, mark, known), (at, path, name) = sorted([own, (index, path, other.name)])
                problem = f"is {name}, but messages[{before}]{mark} is {known}: pass format= to decide"
            raise FormatError(problem, path=f"messages[{at}]{path}")


def write_text(wire: Format, item: Any, stored: str = DEFAULT) -> Any:
    """Return a message of text alone as a format writes it that cannot read it; any other as it is.

    stored   the name of the format that the message is in

    >>> write_text(get("gemini"), {"role": "user", "content": "hi"})
    {'role': 'user', 'parts': [{'text': 'hi'}]}
    """
    is_plain = _is_plain(item)
    if wire.name not in _BUILT_IN or (_reads_plain(wire.name) if is_plain else stored == wire.name):
        return item
    (message,) = get(DEFAULT if is_plain else stored).parse([item])
    return wire.render([message])[0] if all(type(part) is Text for part in message.parts) else item


def write_readable(wire: Format, item: Any) -> Any:
    """Return a message as it is if a format reads it; else its text as that format writes it."""
    try:
        refuse_other(wire, [item])
    except FormatError:
        return write_text(wire, item, detect([item]).name)
    return item


def may_read(wire: Format, items: Sequence[Any]) -> bool:
    """False if a format does not read plain messages and cannot read these.

    Plain messages have no mark of a format, so `detect_or_none` does not tell such lists apart.

    >>> may_read(get("gemini"), [{"role": "user", "content": "hi"}])
    False
    """
    reads_plain = wire.name not in _BUILT_IN or _reads_plain(wire.name)
    return reads_plain or all(
        _find_content(wire, item) is not None
        and (isinstance(item, Message) or item.get("role") != "developer")  # which is carried unread
        for item in items
    )


@cache
def _reads_plain(name: str) -> bool:
    """True if a built-in format reads an item with a role and a string."""
    return _find_content(_load_built_in(name), {"role": "user", "content": "hi"}) is not None


def _find_content(wire: Format, item: Any) -> list[str] | None:
    """Return the texts, calls and results that a format reads in a message; None if it cannot read it."""
    try:
        (message,) = wire.parse([item])
    except FormatError:
        return None
    read = (part for part in message.parts if isinstance(part, Text | ToolCall | ToolResult))
    return [part.text if isinstance(part, Text) else type(part).__name__ for part in read]


def _is_plain(item: Any) -> bool:
    """True if an item has a role and a string only, as most have; every format can read it."""
    return (
        type(item) is dict
        and len(item) == 2
        and type(item.get("content")) is str
        and type(item.get("role")) is str
        and item["role"] in _PLAIN_ROLES
    )


@cache
def _load_built_in(name: str) -> Format:
    value = import_module(_BUILT_IN[name]).FORMAT
    assert isinstance(value, Format)  # noqa: S101  # our own table
    return value


def _find_plugins() -> dict[str, Any]:
    """Return entry points by name; finding them is slow, so only unknown names do it."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}
