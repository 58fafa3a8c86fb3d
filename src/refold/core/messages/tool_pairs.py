"""Match tool calls with their results and find the calls that still wait; changes nothing.

A result belongs to the nearest call before it with its id. Ids may be used again later, and calls of one
message that share an id are answered in order. A result with no call before it belongs to a later call that
has no other result. Calls of one message are one unit. A call without a result is *open* if only results of
its unit stand behind it (the agent is about to run it), else it is *dead*.

Items that are carried whole may name each other as well: an approval names the request that it answers, and
so does the call that was approved. A call may name the program that made it, which waits for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from refold.core.messages.message import Message, Opaque, Thinking, ToolCall, ToolResult

Place: TypeAlias = tuple[int, int]
"""Index of a message, and of a part in it."""
_IN_UNIT: Final = frozenset({ToolCall, Thinking})
"""What stands before the last results of a unit: calls, and thoughts."""
_APPROVED: Final = "approval_request_id"
_NAMING: Final = (_APPROVED, "tool_use_id", "tool_id", "caller_id")
"""Fields with which an item names the `id` of another: in Responses, of Anthropic's own tools, and in the
`caller` of both, the program that made a call."""
OWN_CALL: Final = "tool_use"
"""The end of the kind of a call that the provider runs by itself: `server_tool_use`, `mcp_tool_use`."""
REFERENCE: Final = "item_reference"
"""Kind of an item that stands for one at the provider."""


@dataclass(slots=True)
class Links:
    """The calls and results of one history, matched."""

    answers: dict[Place, Place] = field(default_factory=dict)
    """Result to call."""
    answered: dict[Place, Place] = field(default_factory=dict)
    """Call to its first result."""
    orphans: dict[Place, ToolResult] = field(default_factory=dict)
    """Results without a call, and second results of one call."""
    unanswered: dict[Place, ToolCall] = field(default_factory=dict)
    """Calls without a result."""
    bonds: dict[int, set[int]] = field(default_factory=dict)
    """Messages that name each other's carried items, so that they stay or go together; both ways."""
    strays: set[int] = field(default_factory=set)
    """Approvals of a request that is not there."""
    lone: set[Place] = field(default_factory=set)
    """Blocks of the provider's own tools: results without a call, and calls that will get no result."""

    def join(self, result: Place, call: Place) -> None:
        """Record that a result answers a call."""
        self.answers[result] = call
        self.answered[call] = result
        del self.unanswered[call]

    def bind(self, messages: Sequence[Message], carried: Sequence[tuple[Place, Opaque]]) -> None:
        """Record which carried items name each other; takes those that are objects, with their places."""
        places: dict[str, int] = {}
        waiting: dict[str, Place] = {}
        for (index, part), item in carried:
            caller = item.value.get("caller")
            value = {**item.value, **caller} if isinstance(caller, dict) else item.value
            named = [name for key in _NAMING if isinstance(name := value.get(key), str)]
            for name in named:
                waiting.pop(name, None)
            if item.kind.endswith(OWN_CALL) and isinstance(value.get("id"), str):
                waiting[value["id"]] = index, part
            elif "tool_use_id" in item.value and str(item.value["tool_use_id"]) not in places:
                self.lone.add((index, part))
            for other in {places[name] for name in named if name in places} - {index}:
                self.bonds.setdefault(other, set()).add(index)
                self.bonds.setdefault(index, set()).add(other)
            is_answer = _APPROVED in item.value and messages[index].role == "tool"
            if is_answer and places.keys().isdisjoint(named):
                self.strays.add(index)
            if isinstance(name := item.value.get("id"), str):
                places[name] = index
        if waiting:  # behind the user's words the provider goes on with none of them
            turns = (at for at, one in enumerate(messages) if one.role == "user")
            last = max((at for at in turns if len(messages[at].results) < len(messages[at].parts)), default=0)
            self.lone.update(place for place in waiting.values() if place[0] < last)
        if any(item.kind == REFERENCE for _, item in carried):  # the request or call may be at the provider
            self.strays.clear()
            called = {call.id for message in messages for call in message.calls}
            self.orphans = {at: result for at, result in self.orphans.items() if result.call_id in called}


def link(messages: Sequence[Message]) -> Links:
    """Match results with calls by id in one pass; linear in the number of parts."""
    links = Links()
    calls: dict[str, list[Place]] = {}
    early: list[Place] = []
    carried: list[tuple[Place, Opaque]] = []
    for index, message in enumerate(messages):
        for place, part in enumerate(message.parts):
            if type(part) is ToolCall:
                waiting = calls.get(part.id)
                if waiting and waiting[0][0] == index:
                    waiting.append((index, place))
                else:
                    calls[part.id] = [(index, place)]
                links.unanswered[index, place] = part
                is_of_program = "caller" in part.extra or part.name == "program"
                program = Opaque("", {**part.extra, "id": part.id}) if is_of_program else None
                carried += [((index, place), program)] if program else []
            elif type(part) is ToolResult:
                waiting = calls.get(part.call_id)
                if waiting:
                    links.join((index, place), waiting.pop(0))
                else:
                    links.orphans[index, place] = part
                    # An empty list means that the calls of this id are answered: a second result stays
                    # an orphan and never takes a later call's place.
                    early += [(index, place)] if waiting is None else []
            elif type(part) is Opaque and isinstance(part.value, dict):
                carried.append(((index, place), part))
    first_unanswered = {call.id: place for place, call in reversed(links.unanswered.items())}
    for orphan in early:
        if (call := first_unanswered.pop(links.orphans[orphan].call_id, None)) is not None:
            del links.orphans[orphan]
            links.join(orphan, call)
    links.bind(messages, carried)
    return links


def open_calls(
    messages: Sequence[Message], links: Links | None = None, *, across_messages: bool = True
) -> set[int]:
    """Return the indices of the messages whose calls are open.

    `across_messages`: whether the calls of one unit may stand in several messages.
    """
    unit = last_unit(messages, across_messages=across_messages)
    if not unit:
        return set()
    links = link(messages) if links is None else links
    # a program waits for the calls that it makes, one after another
    waiting = {*unit, *(other for index in unit for other in links.bonds.get(index, ()))}
    return {index for index, _ in links.unanswered if index in waiting}


def last_unit(messages: Sequence[Message], *, across_messages: bool = True) -> range:
    """Return the messages of the last unit of calls; empty if more than its results stands behind it."""
    last = len(messages) - 1
    trailing: set[str] = set()
    # Text beside results means that the user has spoken and nobody waits, so only plain results are skipped.
    while last >= 0 and 0 < len(messages[last].results) == len(messages[last].parts):
        trailing.update(result.call_id for result in messages[last].results)
        last -= 1
    if last < 0 or not messages[last].calls:
        return range(0)
    first = last
    if across_messages and may_continue_unit(messages[last]):
        while first > 0 and may_continue_unit(messages[first - 1]):
            first -= 1
    if not trailing <= {call.id for message in messages[first : last + 1] for call in message.calls}:
        return range(0)
    return range(first, last + 1)


def may_continue_unit(message: Message) -> bool:
    """True if the next message may belong to the same unit: this one only calls tools or thinks."""
    return bool(message.parts) and _IN_UNIT.issuperset(map(type, message.parts))
