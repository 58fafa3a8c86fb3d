"""The text of a reply while it streams: whole characters, reasoning apart from text, all of it kept."""

from collections.abc import Callable

from refold.clients.chat import Delta
from refold.clients.http.reasoning_tags import ReasoningParser
from refold.clients.http.wire import join_surrogates


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
    """The text, and half of a surrogate pair at its end."""
    cut = len(text) - (text[-1:] >= "\ud800" and text[-1:] <= "\udbff")
    return join_surrogates(text[:cut]), text[cut:]
