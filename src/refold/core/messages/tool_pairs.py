"""Tool calls and their results: who answers whom, and which calls wait; changes nothing.

A result belongs to the nearest call before it with its id; ids may be used again later, and calls of one
message that share an id are answered in order. Where there is none before it, it belongs to a call after it
that nobody else answers. Calls of one message are one unit. A call without a result is *open* when nothing
but results of the same unit stands behind it (the agent is about to run it), else it is *dead*.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from refold.core.messages.message import Message, Thinking, ToolCall, ToolResult
from refold.core.messages.recent import Recent

Place: TypeAlias = tuple[int, int]
"""Index of a message and of a part in it."""


@dataclass(slots=True)
class Links:
    """Who answers whom."""

    answers: dict[Place, Place] = field(default_factory=dict)
    """Result to call."""
    answered: dict[Place, Place] = field(default_factory=dict)
    """Call to its first result."""
    orphans: dict[Place, ToolResult] = field(default_factory=dict)
    """Results without a call, and second results of one call."""
    unanswered: dict[Place, ToolCall] = field(default_factory=dict)
    """Calls without a result."""

    def join(self, result: Place, call: Place) -> None:
        """Note that a result answers a call."""
        self.answers[result] = call
        self.answered[call] = result
        del self.unanswered[call]


def link(messages: Sequence[Message]) -> Links:
    """Match results with calls by id, the nearest call before; one pass, once for the same tuple."""
    return _LINKED(messages)


def _linked(messages: Sequence[Message]) -> Links:
    links = Links()
    calls: dict[str, list[Place]] = {}
    early: list[Place] = []
    for index, message in enumerate(messages):
        for place, part in enumerate(message.parts):
            if type(part) is ToolCall:
                waiting = calls.get(part.id)
                if waiting and waiting[0][0] == index:
                    waiting.append((index, place))
                else:
                    calls[part.id] = [(index, place)]
                links.unanswered[index, place] = part
            elif type(part) is ToolResult:
                waiting = calls.get(part.call_id)
                if waiting:
                    links.join((index, place), waiting.pop(0))
                else:
                    links.orphans[index, place] = part
                    early += [(index, place)] if waiting is None else []
    first = {call.id: place for place, call in reversed(links.unanswered.items())}
    for at in early:
        if (call := first.pop(links.orphans[at].call_id, None)) is not None:
            del links.orphans[at]
            links.join(at, call)
    return links


_LINKED: Final = Recent(_linked)


def open_calls(messages: Sequence[Message], links: Links | None = None, *, apart: bool = True) -> set[int]:
    """Indices of the messages whose calls wait for a result: the last unit, if nothing else follows it.

    `apart`: whether the calls of one unit may stand in messages of their own.
    """
    links = link(messages) if links is None else links
    last = len(messages) - 1
    behind: set[str] = set()
    while last >= 0 and _answers(messages[last]):
        behind.update(result.call_id for result in messages[last].results)
        last -= 1
    first = last
    apart = apart and last >= 0 and bool(messages[last].calls) and goes_on(messages[last])
    while apart and first > 0 and goes_on(messages[first - 1]):
        first -= 1
    unit = messages[max(0, first) : last + 1]
    if not behind <= {call.id for message in unit for call in message.calls}:
        return set()
    return {index for index, _ in links.unanswered if first <= index <= last}


def _answers(message: Message) -> bool:
    """Whether a message brings results and nothing else; words beside them mean that nobody waits."""
    return bool(message.parts) and len(message.results) == len(message.parts)


def goes_on(message: Message) -> bool:
    """Whether this message and the next may be of one unit: it only calls or thinks."""
    kinds = {type(part) for part in message.parts}
    return bool(kinds) and kinds <= {ToolCall, Thinking}
