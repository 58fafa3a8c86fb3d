"""Reasoning between tags at the beginning of a reply, parted from its text while it streams.

Servers without a parser of their own send the reasoning of a model as text: `<think>easy</think> Four.`
"""

import re
from typing import Final, Literal

_OPENING: Final = re.compile(r"\s*<(think|thinking)>")
_TAGS: Final = ("<think>", "<thinking>")


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
        """The text and the reasoning that a piece completes."""
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
        """The text and the reasoning that were held back, at the end of the reply."""
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
