"""The contract of a wire of the provider for tests, and the answer that it is given to write."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from refold.testing.replies import Mark, Reply
from refold.testing.requests import Usage

CREATED: Final = 1_700_000_000
"""The time of every answer: a fixed one, so that two runs give the same bytes."""


@dataclass(frozen=True, slots=True)
class Written:
    """An answer that is to be written: what it says, where it stands, what it cost."""

    mark: Mark
    reply: Reply
    usage: Usage
    model: str
    reasoning: bool
    """True if signed or encrypted reasoning comes with it."""
    reports_usage: bool = True
    """False for a chat stream whose caller did not ask for usage."""

    def name_call(self, index: int) -> str:
        """Return the id of a call: it carries the mark, by which the next request is understood."""
        return f"call_{self.mark}_{index}"

    def split(self, text: str) -> list[str]:
        """Return a text in two pieces, as a stream brings it; none if it is empty."""
        half = (len(text) + 1) // 2
        return [piece for piece in (text[:half], text[half:]) if piece]


@dataclass(frozen=True, slots=True, kw_only=True)
class WireWriter:
    """One wire."""

    write: Callable[[Written], dict[str, Any]]
    stream: Callable[[Written], Iterator[dict[str, Any]]]
    refuse: Callable[[int, int], dict[str, Any]]
    """The body that refuses so many tokens under such a limit."""
    fail: Callable[[int, str], dict[str, Any]]
    """The body of any other error."""
    refuse_in_stream: Callable[[dict[str, Any]], list[dict[str, Any]]] = lambda body: [body]
    """The same refusal as events behind a status of 200."""
    find_changes: Callable[[Any], list[str]] = lambda _item: []
    """What an item holds that is signed and no longer what was signed."""
    names_events: bool = False
    """True if each event of a stream has a line with its name."""
    ends_with_done: bool = False
