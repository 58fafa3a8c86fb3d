"""What a compaction changes, as one value that is applied, shown, stored and undone alike.

An `Edit` says: the messages [start, end) of this list leave, and these stand in their place. A stage
returns edits for the list it was given; `compose` turns the edits of several rounds into edits of the
first list, so that the result of a whole pipeline is again a list of edits.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from refold.core.messages.message import Message
from refold.core.messages.short_repr import short_repr


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


def replace_message(messages: Sequence[Message], index: int, message: Message, stage: str, why: str = "") -> Edit:
    """Replace one message by another."""
    return Edit(index, index + 1, (message,), stage, why, (messages[index],))


def apply_edits(messages: Sequence[Message], edits: Iterable[Edit]) -> list[Message]:
    """The list after these edits; they must not overlap."""
    result: list[Message] = []
    at = 0
    for edit in _ordered(edits, len(messages)):
        result += messages[at : edit.start]
        result += edit.put
        at = edit.end
    result += messages[at:]
    return result


def _ordered(edits: Iterable[Edit], length: int) -> list[Edit]:
    """The edits by place; refuses those that overlap or leave a list of this length."""
    done = sorted(edits, key=lambda edit: (edit.start, edit.end))
    at = 0
    for edit in done:
        if not at <= edit.start <= edit.end <= length:
            raise ValueError(f"edit [{edit.start}, {edit.end}) overlaps another or leaves the list")
        at = edit.end
    return done


def revert_edits(messages: Sequence[Message], edits: Iterable[Edit]) -> list[Message]:
    """The list before these edits: `revert(apply(x, edits), edits) == x`."""
    result: list[Message] = []
    at = 0
    shift = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        start = edit.start + shift
        result += messages[at:start]
        result += edit.took
        at = start + len(edit.put)
        shift += len(edit.put) - (edit.end - edit.start)
    result += messages[at:]
    return result


class Slot(NamedTuple):
    """One place of the list a pipeline works on: the message, and where it stood or who put it there."""

    message: Message
    size: int
    origin: int | None
    """Its place in the first list, or None where an edit put it."""
    guarded: bool = False
    """Whether it must stay; a message that takes the place of one guarded message is guarded too."""
    edit: Edit | None = None
    pinned: bool = False
    """Whether it must stay word for word."""
    came: Message | None = None
    """The message as it came, where edits have only rewritten it."""
    stood: int | None = None
    """And its place in the first list."""
    number: tuple[int, int] | None = None
    """By which handles name it: the first and last of the messages it stands for."""


def apply_to_slots(
    places: Sequence[Slot], edits: Iterable[Edit], size: Callable[[Message], int], gone: dict[int, Edit]
) -> list[Slot]:
    """The slots after these edits; `gone` learns which edit last touched each message of the first list."""
    result: list[Slot] = []
    at = 0
    for edit in _ordered(edits, len(places)):
        result += places[at : edit.start]
        taken = places[edit.start : edit.end]
        gone.update((place, edit) for slot in taken if (place := _first_place(slot)) is not None)
        rewritten = taken[0] if len(taken) == len(edit.put) == 1 else None
        guarded = rewritten is not None and rewritten.guarded
        came = None if rewritten is None else rewritten.came or rewritten.message
        stood = None if rewritten is None else _first_place(rewritten)
        number = _numbers(taken)
        result += [
            Slot(message, size(message), None, guarded, edit, came=came, stood=stood, number=number)
            for message in edit.put
        ]
        at = edit.end
    result += places[at:]
    return result


def _numbers(taken: Sequence[Slot]) -> tuple[int, int] | None:
    found = [slot.number for slot in taken if slot.number is not None]
    return (min(first for first, _ in found), max(last for _, last in found)) if found else None


def _first_place(slot: Slot) -> int | None:
    return slot.stood if slot.origin is None else slot.origin


def match_slots(
    places: Sequence[Slot], messages: Sequence[Message], size: Callable[[Message], int], by: Edit
) -> list[Slot]:
    """The slots of a list made from these slots' messages: what is the same object, in the same order, stays.

    One message object may stand in a list several times.
    """
    known: dict[int, list[int]] = {}
    for place in range(len(places) - 1, -1, -1):
        known.setdefault(id(places[place].message), []).append(place)
    result: list[Slot] = []
    at = 0
    for message in messages:
        where = known.get(id(message), [])
        while where and where[-1] < at:
            where.pop()
        if where:
            at = where.pop() + 1
            result.append(places[at - 1])
        else:
            result.append(Slot(message, size(message), None, False, by))
    return result


def compose_edits(first: Sequence[Message], places: Sequence[Slot], gone: Mapping[int, Edit]) -> tuple[Edit, ...]:
    """The edits that lead from the first list to these slots, one for each changed stretch."""
    edits: list[Edit] = []
    at = 0
    put: list[Slot] = []
    for slot in [*places, Slot(Message("user"), 0, len(first))]:
        if slot.origin is None:
            put.append(slot)
            continue
        if put or slot.origin > at:
            by = [gone[index] for index in range(at, slot.origin) if index in gone]
            by += [placed.edit for placed in put if placed.edit is not None]
            edits.append(_joined(first, at, slot.origin, put, by))
        at = slot.origin + 1
        put = []
    return tuple(edits)


def _joined(first: Sequence[Message], start: int, end: int, put: Sequence[Slot], by: Sequence[Edit]) -> Edit:
    stages = dict.fromkeys(edit.stage for edit in by)
    reasons = dict.fromkeys(edit.why for edit in by if edit.why)
    messages = tuple(slot.message for slot in put)
    return Edit(start, end, messages, "+".join(stages), "; ".join(reasons), tuple(first[start:end]))
