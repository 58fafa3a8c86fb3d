"""How large a message is: one `Counter` value per way of counting; knows no tokenizer by itself.

A counter turns text into *units* and says what of a message is text, what a message and a conversation
cost on top, and what a picture costs. For most counters a unit is a token. Umwelten adds up characters and
divides once at the end; its unit is a character and its `divisor` is 4.

The counters of the five systems ignore the arguments of tool calls (or all of tool traffic), which makes a
39,000-character file write look like 28 tokens. Here a small call (arguments up to `CALL_ALLOWANCE`
characters) is covered by the allowance for the message, as in their documents, and a larger one counts in
full, so that what fills a window is seen.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from refold.core.messages.message import (
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
from refold.core.messages.message_text import (
    everything,
)
from refold.core.tokens.estimate import estimate
from refold.core.tokens.images import document_tokens, image_tokens

UNSERIALISABLE_TOOL: Final = 200
"""Tokens of a tool definition that is not JSON (NeuroLink's document); may be low for a large tool."""

TextCount = Callable[[str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """One way of counting."""

    name: str
    text: TextCount
    """Text to units."""
    visible: Callable[[Message], str]
    """What of a message is counted as text."""
    media: Callable[[Message], int] | None = None
    """Units of pictures and other media in a message."""
    per_message: int = 0
    per_conversation: int = 0
    divisor: int = 1
    """Units in a token."""
    tool: Callable[[Mapping[str, Any]], str] | None = None
    """A tool definition as text; None: its JSON."""
    joined: bool = False
    """Whether system prompt and tools are counted as one text (Ripple)."""

    def message(self, message: Message) -> int:
        """Units of one message."""
        return self.sized(message, self.visible(message))

    def sized(self, message: Message, visible: str) -> int:
        """Units of one message whose visible text is at hand."""
        units = self.text(visible) + self.per_message
        return units if self.media is None else units + self.media(message)

    def sizes(self, messages: Iterable[Message]) -> list[int]:
        """Units of each message."""
        return [self.message(message) for message in messages]

    def tokens(self, units: int) -> int:
        """Units as tokens, rounded up."""
        return -(-units // self.divisor)

    def total(self, sizes: Sequence[int]) -> int:
        """Tokens of a conversation whose messages have these sizes."""
        return self.tokens(sum(sizes) + self.per_conversation) if sizes else 0

    def conversation(self, messages: Sequence[Message]) -> int:
        """Tokens of a conversation."""
        return self.total(self.sizes(messages))

    def plain(self, text: str) -> int:
        """Tokens of a text that stands for itself: a prompt, a system prompt, a file."""
        return self.tokens(self.text(text)) if text else 0

    def tools(self, tools: Sequence[Any], system: str = "") -> int:
        """Tokens that tool definitions add to a system prompt."""
        if self.joined and self.tool is not None:
            lines = [self.tool(tool) if isinstance(tool, Mapping) else str(tool) for tool in tools]
            return self.plain("\n".join([system, *lines] if system else lines)) - self.plain(system)
        return sum(self._tool(tool) for tool in tools)

    def counting(self, text: TextCount, *, name: str = "given") -> "Counter":
        """The same way of counting with another measure of text."""
        return replace(self, text=text, divisor=1, name=name)

    def _tool(self, tool: Any) -> int:
        try:
            return self.plain(json.dumps(tool, ensure_ascii=False) if self.tool is None else self.tool(tool))
        except (TypeError, ValueError, RecursionError):
            return UNSERIALISABLE_TOOL


def media_by_size(message: Message, provider: str | None = None) -> int:
    """Tokens of pictures, documents and files, by their size and the provider's rule, results included."""
    return sum(_media(part, provider) for part in message.parts if type(part) not in _WITHOUT_MEDIA)


_WITHOUT_MEDIA: Final = frozenset({Text, Thinking, ToolCall, Opaque})


def _media(part: Part, provider: str | None) -> int:
    if isinstance(part, Image):
        return image_tokens(part, provider)
    if isinstance(part, ToolResult):
        return sum(_media(inner, provider) for inner in part.content)
    if isinstance(part, File) or (isinstance(part, Document) and part.text is None):
        return document_tokens(part)
    return 0


def images(message: Message) -> int:
    """How many pictures a message holds, tool results included."""
    return sum(_images(part) for part in message.parts)


def _images(part: Part) -> int:
    if isinstance(part, ToolResult):
        return sum(_images(inner) for inner in part.content)
    return 1 if isinstance(part, Image) else 0


def rounded_up(chars_per_token: int) -> TextCount:
    """Count a token for each so many characters, rounded up; fewer than one character counts as one.

    >>> rounded_up(4)("abcde")
    2
    """
    per_token = max(1, chars_per_token)
    return lambda text: -(-len(text) // per_token)


def multiplied(factor: float, *, chars_per_token: int = 4, margin: float = 1.0) -> TextCount:
    """Count characters by fours (or so), times a provider's factor, times a margin, rounded up."""
    return lambda text: math.ceil(-(-len(text) // chars_per_token) * factor * margin)


class Memo:
    """Remembers the size of texts it has counted, up to a bound on the text it keeps alive."""

    __slots__ = ("_count", "_kept", "_limit", "_sizes")

    def __init__(self, count: TextCount, limit: int = 32_000_000) -> None:
        self._count = count
        self._limit = limit
        """Characters; a bound on memory, not on correctness."""
        self._kept = 0
        self._sizes: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """Count a text once."""
        size = self._sizes.get(text)
        if size is None:
            size = self._count(text)
            self._kept += len(text)
            if self._kept > self._limit:
                self._sizes.clear()
                self._kept = len(text)
            self._sizes[text] = size
        return size


HOUSE: Final = Counter(
    name="estimate",
    text=Memo(estimate),
    visible=everything,
    media=media_by_size,
    per_message=4,
    per_conversation=3,
)
"""The default: a calibrated estimate of everything a model reads. Framing as OpenAI documents it for chat
models (about 4 a message, 3 a conversation); other providers are within a token or two of it."""
