"""How the edits of a compaction become a fold: places in a list become pieces of a view."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from refold.core.compaction.edits import Edit
from refold.core.log.view import OWN, Change, Piece, Put, Run
from refold.core.messages.message import Message


@dataclass(frozen=True, slots=True)
class Draft:
    """A fold before it has a name."""

    changes: tuple[Change, ...]
    put: tuple[Message, ...]
    """The fold's own messages, in order."""


@dataclass(slots=True)
class _Stretch:
    """One edit on the way: places [start, end) leave, and these stand there: places kept, or messages."""

    start: int
    end: int
    put: list[int | Message] = field(default_factory=list)


def draft(atoms: Sequence[Piece | None], edits: Sequence[Edit]) -> Draft | None:
    """The fold that these edits of a view are; `atoms` is the piece of each message, None where it is fixed.

    A fold takes pieces, so something that is only put in is put beside a neighbour that is taken and put
    back. None where the edits touch what is fixed, or there is no neighbour.
    """
    stretches: list[_Stretch] = []
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        put = _with_places(edit, atoms)
        if edit.start < edit.end:
            stretches.append(_Stretch(edit.start, edit.end, put))
        elif not put:
            continue
        elif stretches and stretches[-1].end == edit.start:
            stretches[-1].put += put
        elif edit.start > 0 and atoms[edit.start - 1] is not None:
            stretches.append(_Stretch(edit.start - 1, edit.start, [edit.start - 1, *put]))
        elif edit.start < len(atoms):
            stretches.append(_Stretch(edit.start, edit.start + 1, [*put, edit.start]))
        else:
            return None
    merged = _merged(stretches)
    if any(atom is None for one in merged for atom in atoms[one.start : one.end]):
        return None
    return _drafted(merged, atoms)


def _with_places(edit: Edit, atoms: Sequence[Piece | None]) -> list[int | Message]:
    """What an edit puts, with the place of each message that stays as it was said.

    Places only rise: a message that is put elsewhere, or a second time, is a message of the fold's own.
    """
    places: dict[int, list[int]] = {id(message): [] for message in edit.put}
    for place in range(edit.start + len(edit.took) - 1, edit.start - 1, -1):
        where = places.get(id(edit.took[place - edit.start]))
        if where is not None and isinstance(atoms[place], Run):
            where.append(place)
    done: list[int | Message] = []
    at = edit.start
    for message in edit.put:
        where = places[id(message)]
        while where and where[-1] < at:
            where.pop()
        if where:
            at = where.pop() + 1
            done.append(at - 1)
        else:
            done.append(message)
    return done


def _merged(stretches: Sequence[_Stretch]) -> list[_Stretch]:
    """Stretches of which none overlaps another: what was put beside a taken neighbour joins its stretch."""
    done: list[_Stretch] = []
    for one in stretches:
        if done and one.start < done[-1].end:
            before = done[-1].put[:-1] if done[-1].put and done[-1].put[-1] == one.start else done[-1].put
            done[-1] = _Stretch(done[-1].start, max(done[-1].end, one.end), [*before, *one.put])
        else:
            done.append(one)
    return done


def _drafted(stretches: Sequence[_Stretch], atoms: Sequence[Piece | None]) -> Draft:
    own: list[Message] = []
    changes: list[Change] = []
    for one in stretches:
        put: list[Piece | None] = []
        for item in one.put:
            if isinstance(item, Message):
                put.append(Put(OWN, len(own)))
                own.append(item)
            else:
                put.append(atoms[item])
        took = (atom for atom in atoms[one.start : one.end] if atom is not None)
        changes.append(Change(_joined(took), _joined(piece for piece in put if piece is not None)))
    return Draft(tuple(changes), tuple(own))


def _joined(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """The pieces; runs that meet are one."""
    done: list[Piece] = []
    first = last = 0  # of the run that is being joined; messages are counted from 1
    for piece in pieces:
        if isinstance(piece, Run) and first and last + 1 == piece.first:
            last = piece.last
            continue
        if first:
            done.append(Run(first, last))
            first = 0
        if isinstance(piece, Run):
            first, last = piece.first, piece.last
        else:
            done.append(piece)
    if first:
        done.append(Run(first, last))
    return tuple(done)
