"""Count the tokens of messages: one `Counter` value per way of counting; knows no tokenizer itself.

A counter turns text into *units*. It says which text of a message counts, what a message and a conversation
cost on top, and what a picture costs. For most counters a unit is a token. A counter that adds up characters
and divides once at the end has characters as units, and `divisor` characters in a token.

The counters of the compared systems ignore the arguments of tool calls, which makes a file write of 39,000
characters look like 28 tokens. Here the allowance for the message covers a small call (arguments up to
`CALL_ALLOWANCE` characters), as in their documents, and a larger call counts in full.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from refold.core.messages.message import (
    EMPTY,
    Document,
    File,
    Image,
    Message,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from refold.core.messages.message_text import ENCRYPTED, find_data, full_text
from refold.core.messages.unread import find_reported_tokens
from refold.core.tokens.estimate import estimate
from refold.core.tokens.images import document_tokens, image_tokens, measure_document
from refold.errors import RefoldError

UNSERIALISABLE_TOOL: Final = 200
"""Tokens of a tool definition that is not JSON, from the documents of the compared systems; low for a
large tool."""

ENCRYPTED_BYTES: Final = 4
"""Bytes of an encrypted text in a token, as of English."""

TextCount = Callable[[str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """A way of counting tokens: of texts, messages, tools and whole conversations."""

    name: str
    text: TextCount
    """Returns the units of a text."""
    visible: Callable[[Message], str]
    """Returns the text of a message that counts."""
    media: Callable[[Message], int] | None = None
    """Returns the units of pictures and other media in a message."""
    per_message: int = 0
    per_conversation: int = 0
    divisor: int = 1
    """Units in a token."""
    code: TextCount | None = None
    """Returns the units of source code, where code counts differently from other text."""
    tool: Callable[[Mapping[str, Any]], str] | None = None
    """Returns a tool definition as text; None means its JSON."""
    joins_tools: bool = False
    """True if system prompt and tools are counted as one text."""
    guess: float = 1.0
    """Share that is counted of sizes that are guesses: documents known by name, or that nobody can read."""

    def message(self, message: Message) -> int:
        """Return the units of one message."""
        return self.count_with_text(message, self.visible(message))

    def count_with_text(self, message: Message, visible: str) -> int:
        """Return the units of one message whose visible text is known."""
        units = self.text(visible) + self.per_message
        if message.meta is not EMPTY and (reported := find_reported_tokens(message)) is not None:
            return reported * self.divisor + self.per_message
        media = 0 if self.media is None else self.media(message)
        if media and self.guess != 1.0:
            media -= round(count_guessed(message) * (1 - self.guess))
        return units + media

    def sizes(self, messages: Iterable[Message]) -> list[int]:
        """Return the units of each message."""
        return [self.message(message) for message in messages]

    def tokens(self, units: int) -> int:
        """Convert units to tokens, rounded up."""
        return -(-units // self.divisor)

    def total(self, sizes: Sequence[int]) -> int:
        """Return the tokens of a conversation whose messages have these sizes."""
        return self.tokens(sum(sizes) + self.per_conversation) if sizes else 0

    def conversation(self, messages: Sequence[Message]) -> int:
        """Return the tokens of a conversation."""
        return self.total(self.sizes(messages))

    def plain(self, text: str) -> int:
        """Return the tokens of a text outside the conversation: a prompt, a system prompt, a file."""
        return self.tokens(self.text(text)) if text else 0

    def tools(self, tools: Sequence[Any], system: str = "") -> int:
        """Return the tokens that tool definitions add to a system prompt."""
        if self.joins_tools and self.tool is not None:
            lines = [self.tool(tool) if isinstance(tool, Mapping) else str(tool) for tool in tools]
            return self.plain("\n".join([system, *lines] if system else lines)) - self.plain(system)
        total = 0
        for tool in tools:
            try:
                text = json.dumps(tool, ensure_ascii=False) if self.tool is None else self.tool(tool)
                total += self.plain(text)
            except (TypeError, ValueError, RecursionError):
                total += UNSERIALISABLE_TOOL
        return total

    def with_text_count(self, text: TextCount, *, name: str = "given") -> "Counter":
        """Return the same way of counting with another count of text."""
        return replace(self, text=text, code=None, divisor=1, name=name)

    def bound_guesses(self, guessed: int, room: int) -> "Counter":
        """Return the same way of counting with so many guessed tokens within half of the room.

        A guess is no reason to leave out all the rest.
        """
        return replace(self, guess=room / (2 * guessed)) if 2 * guessed > room else self

    def for_code(self) -> "Counter":
        """Return the same way of counting for source code; raises `RefoldError` if it makes no difference."""
        if self.code is None:
            raise RefoldError(f"code=True: the counter {self.name!r} counts code like any other text")
        return replace(self, text=self.code)


def count_media_tokens(message: Message, provider: str | None = None) -> int:
    """Return the tokens of pictures, documents and files, by size and provider; tool results included."""
    # Most messages have nothing but text and calls.
    return 0 if _WITHOUT_MEDIA.issuperset(map(type, message.parts)) else _count_parts(message.parts, provider)


_WITHOUT_MEDIA: Final = frozenset({Text, Thinking, ToolCall})


def _count_parts(parts: Iterable[Part], provider: str | None) -> int:
    tokens = 0
    for part in parts:
        if type(part) is ToolResult:
            tokens += _count_parts(part.content, provider)
        elif type(part) not in _WITHOUT_MEDIA:
            tokens += _part_tokens(part, provider)
    return tokens


def _part_tokens(part: Part, provider: str | None) -> int:
    if isinstance(part, Image):
        return image_tokens(part, provider)
    if isinstance(part, Opaque):
        return sum(_data_tokens(kind, data, provider) for kind, data in find_data(part))
    if isinstance(part, File) or (isinstance(part, Document) and part.text is None):
        return document_tokens(part)
    return 0


def _data_tokens(kind: str, data: str, provider: str | None) -> int:
    """Return the tokens of data in base64; what is encrypted is text, three quarters as long."""
    if kind == ENCRYPTED:
        return len(data) * 3 // (4 * ENCRYPTED_BYTES)
    url, inline = (data, None) if data.startswith("data:") else (None, data)
    if kind.startswith("image/"):
        return image_tokens(Image(url=url, data=inline), provider)
    return document_tokens(File(url=url, data=inline, media_type=kind))


def count_guessed(message: Message) -> int:
    """Return the tokens of documents in a message of which nothing can be read, tool results included."""
    guessed = 0
    for part in message.parts:
        for each in part.content if type(part) is ToolResult else (part,):
            if type(each) not in _WITHOUT_MEDIA and isinstance(each, File | Document):
                tokens, is_guess = measure_document(each)
                guessed += tokens if is_guess else 0
    return guessed


def count_images(message: Message) -> int:
    """Return how many pictures a message holds, tool results included."""
    parts, images = list(message.parts), 0
    while parts:
        part = parts.pop()
        images += isinstance(part, Image)
        parts += part.content if isinstance(part, ToolResult) else ()
    return images


def chars_per_token_counter(chars_per_token: int) -> TextCount:
    """Return a function that counts characters as tokens, rounded up; at least one character a token.

    >>> chars_per_token_counter(4)("abcde")
    2
    """
    per_token = max(1, chars_per_token)
    return lambda text: -(-len(text) // per_token)


def scaled_counter(factor: float, *, chars_per_token: int = 4, margin: float = 1.0) -> TextCount:
    """Return a count of characters per token, times a provider's factor, times a margin, rounded up."""
    return lambda text: math.ceil(-(-len(text) // chars_per_token) * factor * margin)


def remember_sizes(count: TextCount, limit: int = 32_000_000) -> TextCount:
    """Return a count that remembers the size of each text, up to a bound on the text that it keeps alive.

    limit   in characters; 32 million hold several full windows, and fewer would count long sessions again
    """
    sizes: dict[str, int] = {}
    kept = 0

    def find_size(text: str) -> int:
        nonlocal kept
        size = sizes.get(text)
        if size is None:
            size = count(text)
            kept += len(text)
            if kept > limit:
                sizes.clear()
                kept = len(text)
            sizes[text] = size
        return size

    return find_size


ESTIMATE_COUNTER: Final = Counter(
    name="estimate",
    text=remember_sizes(estimate),
    visible=full_text,
    media=count_media_tokens,
    per_message=4,
    per_conversation=3,
)
"""The default: a calibrated estimate of everything a model reads. Framing as OpenAI documents it for chat
models (about 4 a message, 3 a conversation); other providers are within a token or two of it. The sizes it
remembers are shared by the process on purpose: they depend on the text alone, and every call of `measure`
on a grown history would count it anew."""
