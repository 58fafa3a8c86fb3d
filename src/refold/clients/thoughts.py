"""Reasoning between tags at the beginning of an answer, parted from its words while it streams.

Servers without a parser of their own send what a model thought as text: `<think>easy</think> Four.`
"""

import re
from typing import Final, Literal, TypeAlias

State: TypeAlias = Literal["undecided", "thinking", "speaking"]
_OPENS: Final = re.compile(r"\s*<(think|thinking)>")
_TAGS: Final = ("<think>", "<thinking>")


class Thoughts:
    """An answer that streams.

    >>> thoughts = Thoughts()
    >>> [thoughts.apart(piece) for piece in ("<thi", "nk>ea", "sy</thi", "nk> Fo", "ur.")]
    [('', ''), ('', 'ea'), ('', 'sy'), ('Fo', ''), ('ur.', '')]
    """

    def __init__(self) -> None:
        self._state: State = "undecided"
        self._held = ""
        self._closes = ""
        self._spaced = False
        """Whether the space between thoughts and words is still to come; it belongs to neither."""

    def apart(self, piece: str) -> tuple[str, str]:
        """The words and the thoughts that a piece completes."""
        if self._state == "speaking" and not self._spaced:
            return piece, ""
        self._held += piece
        words, thoughts = "", ""
        if self._state == "undecided":
            self._decide()
        if self._state == "thinking":
            thoughts = self._thought()
        if self._state == "speaking":
            words, self._held = self._spoken(), ""
        return words, thoughts

    def rest(self) -> tuple[str, str]:
        """What was held back, at the end of the answer."""
        held, self._held = self._held, ""
        return ("", held) if self._state == "thinking" else (held, "")

    def _decide(self) -> None:
        found = _OPENS.match(self._held)
        if found is not None:
            self._state, self._held = "thinking", self._held[found.end() :]
            self._closes = f"</{found[1]}>"
        elif not any(tag.startswith(self._held.lstrip()) for tag in _TAGS):
            self._state = "speaking"

    def _thought(self) -> str:
        before, closed, after = self._held.partition(self._closes)
        if closed:
            self._state, self._held, self._spaced = "speaking", after, True
            return before
        # the end of what came may be the beginning of the tag
        keep = next(
            (size for size in range(len(self._closes) - 1, 0, -1) if before.endswith(self._closes[:size])), 0
        )
        cut = len(before) - keep
        self._held = before[cut:]
        return before[:cut]

    def _spoken(self) -> str:
        if not self._spaced:
            return self._held
        words = self._held.lstrip()
        self._spaced = not words
        return words
