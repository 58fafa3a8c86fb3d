"""The changes of a compaction as values that are applied, shown, stored and undone.

An `Edit` says: the messages [start, end) of this list leave, and these stand in their place. A stage returns
edits of the list it was given; `compose_edits` turns the edits of several stages into edits of the first
list, so that the result of a whole pipeline is again a list of edits.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from refold.core.messages.message import Message
from refold.core.messages.quick_init import quick_init
from refold.core.messages.short_repr import short_repr

UNBOUND: Final = "bound thinking"
"""The stage of edits that do nothing but drop thinking which stands behind a changed prefix."""


@quick_init
@dataclass(frozen=True, slots=True)
class Edit:
    """Messages [start, end) leave; `put` stands in their place."""

    start: int
    end: int
    put: tuple[Message, ...]
    stage: str
    why: str = ""
    took: tuple[Message, ...] = ()
    """The messages that left, word for word."""

    __repr__ = short_repr


def replace_message(
    messages: Sequence[Message], index: int, message: Message, stage: str, why: str = ""
) -> Edit:
    """Make an edit that replaces one message by another."""
    return Edit(index, index + 1, (message,), stage, why, (messages[index],))


def apply_edits(messages: Sequence[Message], edits: Iterable[Edit]) -> list[Message]:
    """Return the list after these edits; they must not overlap."""
    result: list[Message] = []
    at = 0
    for edit in _sort_edits(edits, len(messages)):
        result += messages[at : edit.start]
        result += edit.put
        at = edit.end
    result += messages[at:]
    return result


def _sort_edits(edits: Iterable[Edit], length: int) -> list[Edit]:
    """Sort edits by place; refuse edits that overlap or leave a list of this length."""
    result = sorted(edits, key=lambda edit: (edit.start, edit.end))
    at = 0
    for edit in result:
        if not at <= edit.start <= edit.end <= length:
            raise ValueError(f"edit [{edit.start}, {edit.end}) overlaps another or leaves the list")
        at = edit.end
    return result


class Slot(NamedTuple):
    """A place of the list that a pipeline works on: a message, and its old place or the edit that put it."""

    message: Message
    size: int
    origin: int | None
    """Its place in the first list, or None where an edit put it."""
    guarded: bool = False
    """True if it must stay; a message that replaces one guarded message is guarded too."""
    edit: Edit | None = None
    pinned: bool = False
    """True if it must stay word for word."""
    original: Message | None = None
    """The message before edits rewrote it."""
    original_place: int | None = None
    """The place of that message in the first list."""
    number: tuple[int, int] | None = None
    """The numbers by which handles name it: the first and last of the messages it stands for."""

    @property
    def first_place(self) -> int | None:
        """The place in the first list of the message, or of the one it rewrites."""
        return self.original_place if self.origin is None else self.origin


def apply_to_slots(
    slots: Sequence[Slot], edits: Iterable[Edit], size: Callable[[Message], int], removed_by: dict[int, Edit]
) -> list[Slot]:
    """Return the slots after these edits; note in `removed_by` which edit last touched each first message."""
    result: list[Slot] = []
    at = 0
    for edit in _sort_edits(edits, len(slots)):
        result += slots[at : edit.start]
        taken = slots[edit.start : edit.end]
        removed_by.update((place, edit) for slot in taken if (place := slot.first_place) is not None)
        rewritten = taken[0] if len(taken) == len(edit.put) == 1 else None
        numbers = [slot.number for slot in taken if slot.number is not None]
        span = (min(first for first, _ in numbers), max(last for _, last in numbers)) if numbers else None
        result += [
            Slot(
                message,
                size(message),
                None,
                guarded=rewritten is not None and rewritten.guarded,
                edit=edit,
                original=None if rewritten is None else rewritten.original or rewritten.message,
                original_place=None if rewritten is None else rewritten.first_place,
                number=span,
            )
            for message in edit.put
        ]
        at = edit.end
    result += slots[at:]
    return result


def match_slots(
    slots: Sequence[Slot], messages: Sequence[Message], size: Callable[[Message], int], by: Edit
) -> list[Slot]:
    """Find the slots of a list that was made from their messages; new messages are put by the edit `by`.

    A message keeps its slot where it is the same object in the same order. One message object may stand in a
    list several times.
    """
    known: dict[int, list[int]] = {}
    for place in range(len(slots) - 1, -1, -1):
        known.setdefault(id(slots[place].message), []).append(place)
    result: list[Slot] = []
    at = 0
    for message in messages:
        places = known.get(id(message), [])
        while places and places[-1] < at:
            places.pop()
        if places:
            at = places.pop() + 1
            result.append(slots[at - 1])
        else:
            result.append(Slot(message, size(message), None, False, by))
    return result


def compose_edits(
    first: Sequence[Message], slots: Sequence[Slot], removed_by: Mapping[int, Edit]
) -> tuple[Edit, ...]:
    """Make the edits that lead from the first list to these slots.

    A message that was rewritten has an edit of its own, so that it stays known which message it stands for.
    All else that changed has one edit for each range.
    """
    edits: list[Edit] = []
    at = 0
    put: list[Slot] = []
    for slot in [*slots, Slot(Message("user"), 0, len(first))]:  # a last slot closes the last range
        place = slot.first_place
        if place is None or place < at:
            put.append(slot)
            continue
        if put or place > at:
            edits.append(_join_changes(first, at, place, put, removed_by))
        if slot.origin is None:
            edits.append(_join_changes(first, place, place + 1, [slot], removed_by))
        at = place + 1
        put = []
    return tuple(edits)


def _join_changes(
    first: Sequence[Message], start: int, end: int, put: Sequence[Slot], removed_by: Mapping[int, Edit]
) -> Edit:
    """Make one edit of a range, by all stages that touched it."""
    by = [removed_by[index] for index in range(start, end) if index in removed_by]
    by += [placed.edit for placed in put if placed.edit is not None]
    stages = "+".join(dict.fromkeys(edit.stage for edit in by))
    reasons = "; ".join(dict.fromkeys(edit.why for edit in by if edit.why))
    messages = tuple(placed.message for placed in put)
    return Edit(start, end, messages, stages, reasons, tuple(first[start:end]))
