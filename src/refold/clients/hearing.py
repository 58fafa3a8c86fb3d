"""The words of an answer while it comes: whole characters, thoughts apart, and all of it kept for the end."""

from collections.abc import Callable

from refold.clients.talking import Piece
from refold.clients.thoughts import Thoughts


class Heard:
    """The words of an answer so far."""

    def __init__(self, give: Callable[[Piece], None], *, tagged: bool = False) -> None:
        self._give = give
        self._half = Piece()
        self._thoughts = Thoughts() if tagged else None
        """Parts thoughts between tags, where a wire has no other place for them."""
        self.text: list[str] = []
        self.reasoning: list[str] = []

    def hear(self, piece: Piece) -> None:
        """Hand words over; half of a character waits for its other half."""
        text, half = _apart(self._half.text + piece.text)
        reasoning, other = _apart(self._half.reasoning + piece.reasoning)
        self._half = Piece(half, other)
        if self._thoughts is not None:
            text, thought = self._thoughts.apart(text)
            reasoning += thought
        self._told(text, reasoning)

    def end(self) -> None:
        """Hand over what was held back."""
        if self._thoughts is not None:
            self._told(*self._thoughts.rest())

    def _told(self, text: str, reasoning: str) -> None:
        if text or reasoning:
            self.text.append(text)
            self.reasoning.append(reasoning)
            self._give(Piece(text, reasoning))


def _apart(text: str) -> tuple[str, str]:
    """The text and, apart, half of a pair at its end."""
    if text.isascii():
        return text, ""
    cut = len(text) - ("\ud800" <= text[-1] <= "\udbff")
    return text[:cut].encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"), text[cut:]
