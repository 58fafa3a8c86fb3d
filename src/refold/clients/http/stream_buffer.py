"""The text of a reply while it streams: whole characters, reasoning apart from text, all of it kept.

Servers without a parser of their own send the reasoning of a model as text between tags at the beginning:
`<think>easy</think> Four.`
"""

import re
from collections.abc import Callable
from typing import Final, Literal

from refold.clients.chat import Delta
from refold.clients.http.wire import join_surrogates

_OPENING: Final = re.compile(r"\s*<(think|thinking)>")
_TAGS: Final = ("<think>", "<thinking>")


class StreamBuffer:
    """The text of a reply so far; `emit` gets each new piece."""

    def __init__(self, emit: Callable[[Delta], None], *, has_reasoning_tags: bool = False) -> None:
        self._emit = emit
        self._half = Delta()
        self._parser = ReasoningParser() if has_reasoning_tags else None
        self.text: list[str] = []
        self.reasoning: list[str] = []

    def add(self, delta: Delta) -> None:
        """Pass text on; half of a character waits for its other half."""
        text, half = _split_half(self._half.text + delta.text)
        reasoning, other = _split_half(self._half.reasoning + delta.reasoning)
        self._half = Delta(half, other)
        if self._parser is not None:
            text, thought = self._parser.feed(text)
            reasoning += thought
        self._pass_on(text, reasoning)

    def add_whole(self, text: str, reasoning: str) -> None:
        """Pass on a reply that came in one piece."""
        if text or reasoning:
            self.add(Delta(text, reasoning))
            self.flush()

    def flush(self) -> None:
        """Pass on what the parser of tags holds back."""
        if self._parser is not None:
            self._pass_on(*self._parser.close())

    def _pass_on(self, text: str, reasoning: str) -> None:
        if text or reasoning:
            self.text.append(text)
            self.reasoning.append(reasoning)
            self._emit(Delta(text, reasoning))


def _split_half(text: str) -> tuple[str, str]:
    """Return the text, and half of a surrogate pair at its end."""
    cut = len(text) - (text[-1:] >= "\ud800" and text[-1:] <= "\udbff")
    return join_surrogates(text[:cut]), text[cut:]


class ReasoningParser:
    """Parts the reasoning of one reply from its text.

    >>> parser = ReasoningParser()
    >>> [parser.feed(piece) for piece in ("<thi", "nk>ea", "sy</thi", "nk> Fo", "ur.")]
    [('', ''), ('', 'ea'), ('', 'sy'), ('Fo', ''), ('ur.', '')]
    """

    def __init__(self) -> None:
        self._state: Literal["undecided", "reasoning", "text"] = "undecided"
        self._pending = ""
        self._closing = ""
        self._skips_space = False
        """True while the space between reasoning and text may still come; it belongs to neither."""

    def feed(self, piece: str) -> tuple[str, str]:
        """Return the text and the reasoning that a piece completes."""
        if self._state == "text" and not self._skips_space:
            return piece, ""
        self._pending += piece
        text, reasoning = "", ""
        if self._state == "undecided":
            opening = _OPENING.match(self._pending)
            if opening is not None:
                self._state, self._pending = "reasoning", self._pending[opening.end() :]
                self._closing = f"</{opening[1]}>"
            elif not any(tag.startswith(self._pending.lstrip()) for tag in _TAGS):
                self._state = "text"
        if self._state == "reasoning":
            reasoning = self._take_reasoning()
        if self._state == "text":
            text = self._pending.lstrip() if self._skips_space else self._pending
            self._skips_space = self._skips_space and not text
            self._pending = ""
        return text, reasoning

    def close(self) -> tuple[str, str]:
        """Return the text and the reasoning that were held back, at the end of the reply."""
        pending, self._pending = self._pending, ""
        return ("", pending) if self._state == "reasoning" else (pending, "")

    def _take_reasoning(self) -> str:
        before, closing, after = self._pending.partition(self._closing)
        if closing:
            self._state, self._pending, self._skips_space = "text", after, True
            return before
        # The end of what came may be the beginning of the closing tag.
        sizes = range(len(self._closing) - 1, 0, -1)
        keep = next((size for size in sizes if before.endswith(self._closing[:size])), 0)
        cut = len(before) - keep
        self._pending = before[cut:]
        return before[:cut]
