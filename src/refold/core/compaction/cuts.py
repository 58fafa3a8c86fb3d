"""The places where a history may be cut. Knows the rules of providers and nothing of budgets.

Each rule of a provider names ranges of messages that must stay together; a cut is legal where it splits no
range. Positions are cuts: cutting at i puts message i into the tail.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Final

from refold.core.messages.message import Message, Opaque, Thinking, ToolResult
from refold.core.messages.tool_pairs import REFERENCE, Links, last_unit, link, open_calls
from refold.core.messages.unread import is_compaction

Range = tuple[int, int]
"""First and last index of messages that stay together."""
Rule = Callable[[Sequence[Message]], Iterator[Range]]


def pairs_together(messages: Sequence[Message], links: Links | None = None) -> Iterator[Range]:
    """Yield each message with calls together with the results that answer it, by id; so with approvals."""
    links = links or link(messages)
    for (result, _), (call, _) in links.answers.items():
        if result != call:
            yield min(call, result), max(call, result)
    for index, others in links.bonds.items():
        yield index, max(index, *others)


def results_never_first(messages: Sequence[Message]) -> Iterator[Range]:
    """Yield each tool result with the message before it: a tail never starts on a result."""
    for index in range(1, len(messages)):
        for part in messages[index].parts:
            # what a provider's own tool put out may name no call
            if type(part) is ToolResult or (type(part) is Opaque and part.kind.endswith("_output")):
                yield index - 1, index
                break


def reasoning_with_its_item(messages: Sequence[Message]) -> Iterator[Range]:
    """Yield each message that is nothing but thinking together with what it led to in the same answer."""
    for index in range(len(messages) - 1):
        last = index + 1
        if is_only_thinking(messages[index]):
            while last + 1 < len(messages) and goes_on(messages[last], messages[last + 1]):
                last += 1
            yield index, last
        elif messages[last].role in ("assistant", "tool") and is_reference(messages[index]):
            # it may stand for reasoning, for what that led to, or for the call of any output behind it
            while last + 1 < len(messages) and messages[last].role == messages[last + 1].role == "tool":
                last += 1
            yield index, last


def find_neighbours(messages: Sequence[Message]) -> dict[int, set[int]]:
    """Return which messages stay with each one in an answer with thinking, or behind a reference."""
    found: dict[int, set[int]] = {}
    for first, last in reasoning_with_its_item(messages):
        for index in range(first, last):
            found.setdefault(index, set()).add(index + 1)
            if not is_only_thinking(messages[index + 1]):  # else it begins an answer of its own
                found.setdefault(index + 1, set()).add(index)
    return found


def goes_on(message: Message, following: Message) -> bool:
    """True if what follows implies the thinking of an answer: by an id, or behind the provider's own call."""
    if message.role != "assistant" or following.role != "assistant" or is_compaction(message):
        return False
    kinds = {type(part) for part in message.parts}
    is_named = following.id is not None and not is_only_thinking(following)
    return kinds == {Opaque} or (is_named and Thinking not in kinds)


def is_reference(message: Message) -> bool:
    """True if a message stands for an item that the provider keeps."""
    return REFERENCE in [part.kind for part in message.parts if type(part) is Opaque]


def is_only_thinking(message: Message) -> bool:
    """True if a message is nothing but thinking."""
    parts = message.parts
    return bool(parts) and type(parts[0]) is Thinking and all(type(part) is Thinking for part in parts)


def acknowledgement_with_summary(messages: Sequence[Message]) -> Iterator[Range]:
    """Yield each summary with the assistant turn that accepts it."""
    for index in range(1, len(messages)):
        if messages[index].is_summary and messages[index].meta.get("kind") == "ack":
            yield index - 1, index


RULES: Final[tuple[Rule, ...]] = (
    pairs_together,
    results_never_first,
    reasoning_with_its_item,
    acknowledgement_with_summary,
)


@dataclass(frozen=True, slots=True)
class Cuts:
    """The legal cuts of a history, in order; 0 and the length are always legal."""

    legal: tuple[int, ...]

    def allows(self, position: int) -> bool:
        """True if a cut here is legal."""
        at = bisect_left(self.legal, position)
        return at < len(self.legal) and self.legal[at] == position

    def after(self, position: int) -> int:
        """Return the first legal cut at or after a position."""
        return self.legal[min(bisect_left(self.legal, position), len(self.legal) - 1)]

    def before(self, position: int) -> int:
        """Return the last legal cut at or before a position."""
        at = bisect_left(self.legal, position)
        if at < len(self.legal) and self.legal[at] == position:
            return position
        return self.legal[max(at - 1, 0)]


def find_cuts(messages: Sequence[Message], rules: Sequence[Rule] = RULES) -> Cuts:
    """Return the cuts that all rules allow; linear in the number of messages."""
    # Each range opens at its second message and closes behind its last: where none is open, one may cut.
    opened = [0] * (len(messages) + 2)
    for rule in rules:
        for first, last in rule(messages):
            opened[first + 1] += 1
            opened[last + 1] -= 1
    depth = list(accumulate(opened))
    return Cuts(tuple(index for index in range(len(messages) + 1) if not depth[index]))


class HistoryIndex:
    """The tool links and legal cuts of one history, each computed at its first use.

    A task owns the index of its history. It lives as long as the task, so no history is kept alive after a
    compaction, and compactions that run at the same time share nothing.
    """

    __slots__ = ("_cuts", "_links", "messages")

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        self._links: Links | None = None
        self._cuts: Cuts | None = None

    @property
    def links(self) -> Links:
        """The links between tool results and the calls that they answer."""
        if self._links is None:
            self._links = link(self.messages)
        return self._links

    @property
    def cuts(self) -> Cuts:
        """The cuts that the rules of all providers allow."""
        if self._cuts is None:
            linked = partial(pairs_together, links=self.links)
            rules = [linked if rule is pairs_together else rule for rule in RULES]
            self._cuts = find_cuts(self.messages, rules)
        return self._cuts

    def open_calls(self) -> set[int]:
        """Return the indices of the messages whose calls wait for a result."""
        # The links are computed only if the end of the history leaves a question that they answer.
        return open_calls(self.messages, self.links) if last_unit(self.messages) else set()
