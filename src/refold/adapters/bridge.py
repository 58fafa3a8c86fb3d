"""The way from a framework's messages to wire items and back.

An adapter brings two functions. `to_wire` gives the wire items of one message of the framework; one message
may be several items, such as a request with three tool results. `from_wire` makes messages of the framework
from items that a fold made or changed. Everything else comes back as the very object that went in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Generic, TypeAlias, TypeVar

from refold.session.turns import View

N = TypeVar("N")
Wire: TypeAlias = dict[str, Any]
ITEM_ID: Final = "item_id"
"""Field of a call: the id under which its provider keeps it, beside the id that its result names."""
REASONING: Final = "reasoning"
"""The type of thinking that stays in the content of its answer, where no stage takes it out."""
_REASONING_ID: Final = "rs_"
"""How OpenAI's Responses names reasoning items; it refuses one whose id begins otherwise."""
_PLACE: Final = "place"
"""Field of a block of thinking: how many blocks of content stood before it, and how many there were."""
TEXTS: Final = frozenset({"text", "output_text", "refusal"})
"""Blocks of content that may have the id of the message that they are, and are taken without it, too."""


@dataclass(frozen=True, slots=True)
class Bridge(Generic[N]):
    """The way from a framework's messages to wire items and back."""

    to_wire: Callable[[N], Sequence[Wire]]
    """Depends on the message alone: ids by chance or the time would make each turn a branch."""
    from_wire: Callable[[Sequence[Wire]], Sequence[N]]

    def translate(self, natives: Sequence[N]) -> "Translated[N]":
        """Return the wire items of a list of messages."""
        parts = list(map(self.to_wire, natives))
        return Translated(self, natives, list(chain.from_iterable(parts)), parts)


@dataclass(frozen=True, slots=True)
class Translated(Generic[N]):
    """A list of messages, its wire items, and which items belong to which message."""

    bridge: Bridge[N]
    natives: Sequence[N]
    items: list[Wire]
    parts: list[Sequence[Wire]]
    """The items of each message."""

    def restore(self, view: View) -> list[N]:
        """Return a view in the framework's own messages.

        A message whose items all stand side by side comes back as the object that it was.
        """
        messages, origins = view.messages or [], view.origins
        if origins == list(range(len(self.items))):  # nothing is folded: the owners need not be found
            return list(self.natives)
        owners = [(index, len(part)) for index, part in enumerate(self.parts) for _ in part]
        restored: list[N] = []
        made: list[Wire] = []
        at = 0
        while at < len(messages):
            index, size = _find_owner(owners, origins, at)
            if size:
                restored += self.bridge.from_wire(made) if made else ()
                restored.append(self.natives[index])
                made, at = [], at + size
            else:
                made.append(messages[at])
                at += 1
        return restored + list(self.bridge.from_wire(made) if made else ())


def _find_owner(owners: Sequence[tuple[int, int]], origins: Sequence[int | None], at: int) -> tuple[int, int]:
    """Return the message whose items begin here and are all there, and their number; else 0 items.

    owners   for each item the index of its message, and how many items that message has
    """
    origin = origins[at]
    if origin is None:
        return 0, 0
    index, size = owners[origin]
    if origin and owners[origin - 1][0] == index:
        return 0, 0  # in the middle of a message
    whole = list(origins[at : at + size]) == list(range(origin, origin + size))
    return (index, size) if whole else (0, 0)


def mark_places(thinking: Sequence[Wire], kinds: Sequence[str]) -> list[Wire]:
    """Return the thinking of an answer; a block behind others has its place among them.

    kinds   of all blocks in their order: "thinking", "call", and any other name for content
    """
    if "thinking" not in kinds[len(thinking) :]:  # it stands in front, as nearly always
        return list(thinking)
    found = [at for at, kind in enumerate(kinds) if kind == "thinking"]
    size = len(kinds) - len(found) - kinds.count("call")
    marked = []
    for number, (at, block) in enumerate(zip(found, thinking, strict=True)):
        # chat has calls behind the content, so nothing can be put back behind a call
        place = [at - number, -1 if "call" in kinds[:at] else size]
        marked.append({**block, _PLACE: place} if at > number else block)
    return marked


def is_reasoning_item(name: Any) -> bool:
    """True for the id of a reasoning item of Responses, which refuses what such an item led to without it.

    Texts and calls may be sent without their ids instead. Calls that the provider ran itself may not, so
    their reasoning stays in the content.
    """
    return isinstance(name, str) and name.startswith(_REASONING_ID)


def read_answer(item: Wire) -> tuple[list[Wire], list[Wire]]:
    """Return the content of an answer as blocks, with its thinking where it stood, and its calls.

    Where the thinking is gone, texts and calls lose the ids that their provider gave them with it.
    """
    content, calls = item.get("content") or (), list(item.get("tool_calls") or ())
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    placed = place_thinking(item.get("thinking_blocks") or (), blocks)
    if len(placed) > len(blocks) or any(block["type"] == REASONING for block in blocks):
        return placed, calls
    plain = [_drop_key(block, "id") if block["type"] in TEXTS else block for block in blocks]
    return plain, [_drop_key(call, ITEM_ID) for call in calls]


def _drop_key(value: Wire, key: str) -> Wire:
    return {name: value[name] for name in value if name != key}


def place_thinking(thinking: Sequence[Wire], content: Sequence[Wire]) -> list[Wire]:
    """Return content with the thinking where it stood; without all of it where the place is not known.

    A provider refuses signed thinking that was moved.
    """
    placed = list(content)
    for number, block in enumerate(thinking):
        before, size = block.get(_PLACE, (0, len(content)))
        if size != len(content):
            return list(content)
        placed.insert(before + number, _drop_key(block, _PLACE))
    return placed
