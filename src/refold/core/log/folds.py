"""Turn the edits of a compaction into a fold: positions in a list become items of a view."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from refold.core.compaction.edits import UNBOUND, Edit
from refold.core.log.view import OWN, Change, Folded, MessageRange, Replacement, ViewItem, append_item
from refold.core.messages.message import Message


@dataclass(frozen=True, slots=True)
class FoldDraft:
    """A fold before it has a name."""

    changes: tuple[Change, ...]
    inserted: tuple[Message, ...]
    """The fold's own messages, in order."""


@dataclass(slots=True)
class _Stretch:
    """An edit in progress: positions [start, end) leave; kept positions and new messages stand there."""

    start: int
    end: int
    inserted: list[int | Message] = field(default_factory=list)


def draft_fold(items: Sequence[ViewItem | None], edits: Sequence[Edit]) -> FoldDraft | None:
    """Return the fold for these edits of a view; `items` is the item of each message, None if it is fixed.

    A fold removes items, so an edit that only inserts also removes a neighbour and puts it back. None if the
    edits touch a fixed message, or if there is no neighbour. Bound thinking is no matter of a fold: a view
    decides by itself what it shows of it, and shows it again when the fold is undone.
    """
    stretches: list[_Stretch] = []
    edits = [edit for edit in edits if edit.stage != UNBOUND]
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        inserted = _find_kept(edit, items)
        if edit.start < edit.end:
            stretches.append(_Stretch(edit.start, edit.end, inserted))
        elif not inserted:
            continue
        elif stretches and stretches[-1].end == edit.start:
            stretches[-1].inserted += inserted
        elif edit.start > 0 and items[edit.start - 1] is not None:
            stretches.append(_Stretch(edit.start - 1, edit.start, [edit.start - 1, *inserted]))
        elif edit.start < len(items):
            stretches.append(_Stretch(edit.start, edit.start + 1, [*inserted, edit.start]))
        else:
            return None
    merged: list[_Stretch] = []
    for stretch in stretches:
        if merged and stretch.start < merged[-1].end:
            # Both took the same neighbour: it is put back once, by the later stretch.
            last = merged[-1]
            shared = last.inserted and last.inserted[-1] == stretch.start
            before = last.inserted[:-1] if shared else last.inserted
            merged[-1] = _Stretch(last.start, max(last.end, stretch.end), [*before, *stretch.inserted])
        else:
            merged.append(stretch)
    if any(item is None for stretch in merged for item in items[stretch.start : stretch.end]):
        return None
    return _write_draft(merged, items)


def _find_kept(edit: Edit, items: Sequence[ViewItem | None]) -> list[int | Message]:
    """Return what an edit inserts, with the position of each message that stays as it was said.

    Positions only rise: a message that is moved, or inserted a second time, is a message of the fold's own.
    """
    positions: dict[int, list[int]] = {id(message): [] for message in edit.put}
    for position in range(edit.start + len(edit.took) - 1, edit.start - 1, -1):
        known = positions.get(id(edit.took[position - edit.start]))
        if known is not None and isinstance(items[position], MessageRange):
            known.append(position)
    inserted: list[int | Message] = []
    at = edit.start
    for message in edit.put:
        known = positions[id(message)]
        while known and known[-1] < at:
            known.pop()
        if known:
            at = known.pop() + 1
            inserted.append(at - 1)
        else:
            inserted.append(message)
    return inserted


def _write_draft(stretches: Sequence[_Stretch], items: Sequence[ViewItem | None]) -> FoldDraft:
    own: list[Message] = []
    changes: list[Change] = []
    for stretch in stretches:
        inserted: list[ViewItem | None] = []
        for piece in stretch.inserted:
            if isinstance(piece, Message):
                inserted.append(Replacement(OWN, len(own)))
                own.append(piece)
            else:
                inserted.append(items[piece])
        changes.append(Change(_join_ranges(items[stretch.start : stretch.end]), _join_ranges(inserted)))
    return FoldDraft(tuple(changes), tuple(own))


def _join_ranges(items: Iterable[ViewItem | None]) -> tuple[ViewItem, ...]:
    """Return the items that are not None; ranges that meet become one."""
    joined: list[ViewItem] = []
    for item in (item for item in items if item is not None):
        append_item(joined, item)
    return tuple(joined)


def name_as_own(fold: Folded) -> tuple[Change, ...]:
    """Return the changes of a fold as they were before it had a name."""
    return tuple(
        Change(
            change.removed,
            tuple(
                Replacement(OWN, item.place)
                if isinstance(item, Replacement) and item.fold == fold.name
                else item
                for item in change.inserted
            ),
        )
        for change in fold.changes
    )
