"""Messages and their parts, as values that never change; knows no provider's wire format.

A message has a role and parts. One wire item (an OpenAI message, a Responses item, an Anthropic message, a
Gemini content) is one `Message`, so counts and positions mean the same on both sides (docs/decisions/0001).
A tool result is a *part*: it stands in a `tool` message or, if a provider wants it so, in a `user` message.

`Message.wire` holds the JSON value that the message was read from. It is not part of equality. A message
whose parts are the same tuple that was read is untouched and is written back byte for byte;
`dataclasses.replace(message, parts=...)` therefore marks it as touched without a flag.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from refold.core.messages.quick_init import quick_init, quick_replace
from refold.core.messages.short_repr import short_repr

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
SIGNATURE_KEYS: Final = ("thoughtSignature", "thought_signature")
"""Fields in which Gemini signs a part, by the spelling of its interfaces."""
SIGNED_ID: Final = "__thought__"
"""Stands in the id of a call before Gemini's signature, where LiteLLM hands it out."""


class EmptyMapping(Mapping[str, Any]):
    """The mapping without entries: immutable and hashable, so it can be a default."""

    __slots__ = ()

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __contains__(self, key: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "{}"


EMPTY: Final[Mapping[str, Any]] = EmptyMapping()
SUMMARY: Final = "summarization"
"""The `source` of every message that replaces others."""


@quick_init
@dataclass(frozen=True, slots=True)
class Text:
    """Visible text."""

    text: str
    extra: Mapping[str, Any] = EMPTY
    """Fields of the wire value that refold does not know; written back unchanged."""

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Image:
    """A picture: by address, by inline base64 data, or by a provider's file id."""

    _: KW_ONLY
    url: str | None = None
    data: str | None = None
    media_type: str | None = None
    file_id: str | None = None
    detail: str | None = None
    """OpenAI's "low", "high" or "auto"."""
    extra: Mapping[str, Any] = EMPTY

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Document:
    """A document: its text, its inline data, or its address."""

    _: KW_ONLY
    text: str | None = None
    data: str | None = None
    url: str | None = None
    media_type: str | None = None
    title: str | None = None
    extra: Mapping[str, Any] = EMPTY

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class File:
    """A file by id, address or name; also used for audio and video."""

    _: KW_ONLY
    name: str | None = None
    file_id: str | None = None
    url: str | None = None
    data: str | None = None
    media_type: str | None = None
    extra: Mapping[str, Any] = EMPTY

    __repr__ = short_repr


@quick_init
@dataclass(frozen=True, slots=True)
class Thinking:
    """A model's reasoning. It is kept verbatim with its signature, or removed as a whole."""

    text: str
    _: KW_ONLY
    signature: str | None = None
    redacted: str | None = None
    """Encrypted reasoning that only the provider can read."""
    extra: Mapping[str, Any] = EMPTY

    __repr__ = short_repr


@quick_init
@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's request to run a tool."""

    id: str
    name: str
    arguments: str | Mapping[str, Any] = ""
    """The arguments in the form of the wire: JSON text (OpenAI) or an object (Anthropic, Gemini)."""
    extra: Mapping[str, Any] = EMPTY

    __repr__ = short_repr


@quick_init
@dataclass(frozen=True, slots=True)
class ToolResult:
    """The output of a tool."""

    call_id: str
    content: tuple["Part", ...]
    _: KW_ONLY
    name: str | None = None
    is_error: bool = False
    extra: Mapping[str, Any] = EMPTY

    __repr__ = short_repr

    @property
    def text(self) -> str:
        """The visible text of the result: text, the text of documents, and data as JSON."""
        if len(self.content) == 1 and type(self.content[0]) is Text:
            return self.content[0].text
        return "\n".join([text for part in self.content for text in find_texts(part)])


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that refold does not understand: kept whole or removed whole, but for the words in it."""

    kind: str
    value: Any
    path: str | None = None
    """Where words stand that may be shortened: `results.*.text`, "" for the value itself; None: nowhere."""

    __repr__ = short_repr


Part: TypeAlias = Text | Image | Document | File | Thinking | ToolCall | ToolResult | Opaque
_SIGNATURES: Final = frozenset({"thoughtSignature", "thought_signature"})


@quick_init
@dataclass(frozen=True, slots=True)
class Wire:
    """The origin of a message: the format, the JSON value, and the value of each part."""

    format: str
    value: Any
    parts: tuple[Part, ...] = ()
    """The parts as read, in order."""
    raws: Sequence[Any] = ()
    """The JSON value of each part; empty if the message is one string, or if its format finds them in it."""


def _to_parts(value: str | Part | Iterable[Part | str]) -> tuple[Part, ...]:
    if isinstance(value, str):
        return (Text(value),)
    if isinstance(value, Part):
        return (value,)
    return tuple(Text(item) if isinstance(item, str) else item for item in value)


@quick_init
@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    >>> Message("user", "hi").text
    'hi'
    """

    role: Role
    parts: tuple[Part, ...] = field(default=(), metadata={"to_tuple": _to_parts})
    _: KW_ONLY
    id: str | None = None
    name: str | None = None
    source: str | None = None
    """`"summarization"` if a fold put the message there, else None."""
    meta: Mapping[str, Any] = EMPTY
    """Facts about a summary: generation, files, the messages it covers."""
    pinned: bool = False
    """A pinned message is in every view."""
    wire: Wire | None = field(default=None, compare=False, repr=False)

    __repr__ = short_repr

    @property
    def text(self) -> str:
        """The visible text: text parts only, joined by newlines."""
        if len(self.parts) == 1 and type(self.parts[0]) is Text:
            return self.parts[0].text
        return "\n".join([part.text for part in self.parts if type(part) is Text])

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls this message makes."""
        return tuple([part for part in self.parts if type(part) is ToolCall])

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results in this message."""
        return tuple([part for part in self.parts if type(part) is ToolResult])

    @property
    def is_summary(self) -> bool:
        """True if a fold put this message here."""
        return self.source == SUMMARY

    @property
    def is_user_turn(self) -> bool:
        """True for a user message without a tool result; for words beside one see `find_own_words`."""
        return self.role == "user" and ToolResult not in map(type, self.parts)


def map_parts(message: Message, change: Callable[[Part], Part | None]) -> Message:
    """Return the message with each part changed by a function; None removes the part."""
    parts = tuple(new for new in map(change, message.parts) if new is not None)
    same = len(parts) == len(message.parts) and all(
        new is old for new, old in zip(parts, message.parts, strict=True)
    )
    return message if same else quick_replace(message, parts=parts)


def replace_parts(message: Message, parts: tuple[Part, ...]) -> Message:
    """Return a message with other parts; several times as fast as `dataclasses.replace`."""
    return Message(
        message.role,
        parts,
        id=message.id,
        name=message.name,
        source=message.source,
        meta=message.meta,
        pinned=message.pinned,
        wire=message.wire,
    )


def find_texts(part: Part) -> tuple[str, ...]:
    """Return the texts of a part that may be shortened; those of a tool result as one, data as JSON."""
    if isinstance(part, Text | ToolResult | Document):
        return () if part.text is None else (part.text,)
    texts: list[Any] = []
    if isinstance(part, Opaque):
        map_words(part, texts.append)
    return tuple(text if isinstance(text, str) else json_text(text) for text in texts)


def map_words(part: Opaque, change: Callable[[Any], Any]) -> Opaque:
    """Return a copy of an opaque part with its words changed, which are texts or data."""
    keys = None if part.path is None else [*filter(None, part.path.split("."))]
    return part if keys is None else replace(part, value=_change_words(part.value, keys, change))


def _change_words(value: Any, keys: Sequence[str], change: Callable[[Any], Any]) -> Any:
    if isinstance(value, str) or not keys:  # where a list of blocks may stand, a text may, too
        return change(value) if isinstance(value, str | dict | list) else value
    if keys[0] == "*" and isinstance(value, list):
        return [_change_words(item, keys[1:], change) for item in value]
    # Where some blocks have words, others have a file.
    if isinstance(value, dict) and keys[0] in value and value.get("type") != "base64":
        return {**value, keys[0]: _change_words(value[keys[0]], keys[1:], change)}
    return value


def is_signed_call(part: Part) -> bool:
    """True if a provider has signed a call: it takes it back as it was, or not at all."""
    if isinstance(part, ToolCall) and SIGNED_ID in part.id:
        return True
    found = [part.extra] if isinstance(part, ToolCall) and part.extra else []
    for value in found:
        if any(isinstance(value.get(key), str) for key in SIGNATURE_KEYS):
            return True
        # Chat formats of Gemini have it under `extra_content` or `provider_specific_fields`.
        found += [inner for inner in value.values() if isinstance(inner, Mapping)]
    return False


def read_json(text: str | bytes, otherwise: Any = None) -> Any:
    """Return the value of a text that is JSON; `otherwise` if it is none or nested too deep."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return otherwise


_WRITE: Final = json.JSONEncoder(  # `json.dumps` makes an encoder in each call
    ensure_ascii=False, default=lambda inner: dict(inner) if isinstance(inner, Mapping) else str(inner)
).encode


def json_text(value: Any) -> str:
    """Return any value as JSON text; values inside that are not JSON appear as Python prints them."""
    try:
        return _WRITE(value)
    except (TypeError, ValueError, RecursionError):
        return "[nested too deeply to show, or no JSON at all]"


def replace_result_text(result: ToolResult, text: str, media: Iterable[Part] = ()) -> ToolResult:
    """Return a tool result with another text and these media; its only text keeps what stood beside it."""
    texts = [inner for inner in result.content if find_texts(inner)]
    first = replace_texts(texts[0], (text,)) if len(texts) == 1 else Text(text)
    return quick_replace(result, content=(first, *media))


def is_blank(part: Part, spaces: str | None = None) -> bool:
    """True for a text of nothing but `spaces` without a signature of Gemini, which must come back.

    spaces   the characters that say nothing; all white space by default
    """
    return type(part) is Text and not part.text.strip(spaces) and _SIGNATURES.isdisjoint(part.extra)


def replace_texts(part: Part, texts: Sequence[str]) -> Part:
    """Return a part with other texts, or a text where it cannot hold them; pictures in a tool result stay."""
    if isinstance(part, ToolResult):
        media = [own for own in part.content if not find_texts(own)]
        return replace_result_text(part, "\n".join(texts), media)
    if isinstance(part, Text | Document):
        text = "\n".join(texts)
        # A signature is that of the whole text; without it a text is taken too.
        stale = SIGNATURE_KEYS if text != part.text and part.extra else ()
        extra = {key: part.extra[key] for key in part.extra if key not in stale} if stale else part.extra
        return Text(text, extra) if type(part) is Text else replace(part, text=text, extra=extra)
    left = iter(texts)

    def read_words(old: Any) -> Any:
        words = next(left) if isinstance(old, str) else json.loads(next(left))
        if isinstance(words, dict | list | str) and isinstance(old, type(words)):
            return words
        raise ValueError  # it is no longer data, or other data than the provider takes there

    try:
        return map_words(part, read_words) if isinstance(part, Opaque) else part
    except (ValueError, RecursionError, StopIteration):
        return Text("\n".join(texts))
