"""A session as a value that can be written down and read back: every message, every fold, nothing else.

The archive and the tagged form are two ways to write this value; both are read back to an equal one. It names
the messages by number, from 1, and never holds a view: what the model sees is computed from the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from refold.core.log.entries import Entry, to_text
from refold.core.log.view import Change, Piece, Put, Run, View, changes_of, changes_to_json, step
from refold.core.messages.message import EMPTY
from refold.errors import FormatError, LogCorrupt

VERSION: Final = 1
"""Of the JSON form; a reader refuses what is newer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFold:
    """A fold, whether it stands or was unfolded."""

    name: str
    changes: tuple[Change, ...]
    """What left and what stands there; `Put(name, place)` means `put[place]` of the fold of that name."""
    put: tuple[Any, ...] = ()
    """The fold's own messages, as wire values."""
    said: int = 0
    """How many messages had been said when it was made."""
    standing: bool = True
    stages: tuple[str, ...] = ()
    at: float = 0.0
    """Seconds since the epoch."""
    facts: Mapping[str, Any] = EMPTY
    """Anything else that is known of it, as JSON."""

    @property
    def took(self) -> tuple[Run, ...]:
        """The messages it took itself, by number, without those it put back."""
        runs: list[Run] = []
        for change in self.changes:
            kept = sorted(change.kept, key=lambda run: run.first)
            for piece in change.took:
                if isinstance(piece, Run):
                    runs += without(piece, kept)
        return tuple(runs)

    @property
    def covers(self) -> tuple[str, ...]:
        """The names of the folds whose messages it took."""
        taken = (piece for change in self.changes for piece in change.took)
        return tuple(dict.fromkeys(piece.fold for piece in taken if isinstance(piece, Put)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One branch of a session."""

    session: str = ""
    format: str = ""
    """Name of the wire format of the messages."""
    said: tuple[Any, ...] = ()
    """Every message ever said, in order, as wire values."""
    folds: tuple[ExportedFold, ...] = ()
    """Oldest first."""
    checkpoints: Mapping[str, int] = EMPTY
    """How many messages stand before each."""
    pins: tuple[int, ...] = ()
    system: tuple[Any, ...] = ()
    """The system messages, where they do not stand among the others."""

    @property
    def view(self) -> tuple[Any, ...]:
        """The messages the model sees."""
        return tuple(message for piece in pieces(self) for message in self.messages(piece))

    def messages(self, piece: Piece) -> tuple[Any, ...]:
        """The messages of one piece of a view."""
        if isinstance(piece, Run):
            return self.said[piece.first - 1 : piece.last]
        return (next(fold for fold in self.folds if fold.name == piece.fold).put[piece.place],)


def pieces(exported: Exported) -> tuple[Piece, ...]:
    """The view as pieces: runs of messages, and what folds put in the place of others."""
    names = _by_number([fold.name for fold in exported.folds])
    view = _start(exported)
    for entry in _entries(exported):
        view = step(view, entry)
    return tuple(_named(piece, names) for piece in view.pieces)


def parts(exported: Exported) -> dict[int, tuple[Run, ...]]:
    """The messages that left the view with each standing fold, by the fold's number, from 1."""
    view = _start(exported)
    skipped = [entry for entry in _entries(exported) if entry.kind == "unfold"]
    gone: dict[int, tuple[Run, ...]] = {}
    for entry in _entries(exported):
        if entry.kind != "fold":
            break
        number = int(entry.name)
        if not exported.folds[number - 1].standing:
            view = _skip(step(view, entry), skipped, entry.name)
            continue
        before = _shown(view)
        view = step(view, entry)
        after = sorted(_shown(view), key=lambda run: run.first)
        gone[number] = tuple(part for run in before for part in without(run, after))
    return gone


def check(exported: Exported) -> None:
    """Refuse a value whose folds, pins or checkpoints speak of what is not there."""
    known: dict[str, int] = {}
    length = len(exported.said)
    for number, fold in enumerate(exported.folds, start=1):
        where = f"fold {number}"
        if fold.name in known:
            raise FormatError(f"has the name of another fold, {fold.name!r}", path=where)
        own = {**known, fold.name: len(fold.put)}
        for change in fold.changes:
            _check_pieces(change.took, known, length, where)
            _check_pieces(change.put, own, length, where)
        known = own
    for name, said in exported.checkpoints.items():
        if not 0 <= said <= length:
            raise FormatError(f"stands behind message #{said} of {length}", path=f"checkpoint {name!r}")
    for pin in exported.pins:
        if not 1 <= pin <= length:
            raise FormatError(f"there is no message #{pin}", path="pins")


def to_json(exported: Exported) -> dict[str, Any]:
    """Everything but the messages that were said, as JSON; folds are spoken of by number."""
    return {
        "refold": VERSION,
        "session": exported.session,
        "format": exported.format,
        "said": len(exported.said),
        "system": list(exported.system),
        "checkpoints": dict(exported.checkpoints),
        "pins": list(exported.pins),
        "folds": [
            {
                "name": fold.name,
                "changes": changes_to_json(changes),
                "put": list(fold.put),
                "said": fold.said,
                "standing": fold.standing,
                "stages": list(fold.stages),
                "at": fold.at,
                "facts": dict(fold.facts),
            }
            for fold, changes in zip(exported.folds, _numbered(exported), strict=True)
        ],
    }


def from_json(value: Any, said: Sequence[Any], *, where: str) -> Exported:
    """Read it back with the messages; raises `FormatError` for anything that does not fit."""
    try:
        if (version := _typed(value["refold"], int)) > VERSION:
            raise FormatError(f"was written by a newer version (form {version}): upgrade refold", path=where)
        exported = Exported(
            session=_typed(value["session"], str),
            format=_typed(value["format"], str),
            said=tuple(said),
            folds=_folds(_typed(value["folds"], list)),
            checkpoints={name: _typed(at, int) for name, at in _typed(value["checkpoints"], dict).items()},
            pins=tuple(_typed(pin, int) for pin in _typed(value["pins"], list)),
            system=tuple(_typed(value["system"], list)),
        )
    except KeyError as error:
        raise FormatError(f"the field {error} is missing", path=where) from None
    except (TypeError, LogCorrupt) as error:
        raise FormatError(f"cannot be read: {error}", path=where) from None
    check(exported)
    return exported


def _folds(values: list[Any]) -> tuple[ExportedFold, ...]:
    names = _by_number([_typed(_typed(value, dict)["name"], str) for value in values])
    return tuple(
        ExportedFold(
            name=names[str(number)],
            changes=tuple(_renamed(change, names) for change in changes_of(str(number), value)),
            put=tuple(_typed(value["put"], list)),
            said=_typed(value["said"], int),
            standing=_typed(value["standing"], bool),
            stages=tuple(_typed(stage, str) for stage in _typed(value["stages"], list)),
            at=float(_typed(value["at"], (int, float))),
            facts=_typed(value["facts"], dict),
        )
        for number, value in enumerate(values, start=1)
    )


def _typed(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"found {type(value).__name__} where it does not belong")
    return value


def _check_pieces(found: Sequence[Piece], puts: Mapping[str, int], length: int, where: str) -> None:
    for piece in found:
        if isinstance(piece, Run):
            if not 1 <= piece.first <= piece.last <= length:
                raise FormatError(f"speaks of messages #{piece.first}-#{piece.last} of {length}", path=where)
        elif not 0 <= piece.place < puts.get(piece.fold, 0):
            raise FormatError(
                f"speaks of message {piece.place} of {piece.fold!r}, which is not there", path=where
            )


def _start(exported: Exported) -> View:
    said = len(exported.said)
    return View(said=said, pieces=(Run(1, said),) if said else ())


def _entries(exported: Exported) -> list[Entry]:
    """The folds as entries of a log, named by number: foreign names need not fit into a log."""
    said = len(exported.said)
    folds = [
        Entry(
            name=str(number),
            parent="",
            kind="fold",
            body=to_text({"changes": changes_to_json(changes)}),
            said=said,
        )
        for number, changes in enumerate(_numbered(exported), start=1)
    ]
    undone = [fold.name for fold, value in zip(folds, exported.folds, strict=True) if not value.standing]
    return folds + [
        Entry(name=f"-{name}", parent="", kind="unfold", body=to_text({"fold": name}), said=said)
        for name in undone
    ]


def _skip(view: View, skipped: Sequence[Entry], name: str) -> View:
    return step(view, next(entry for entry in skipped if entry.value["fold"] == name))


def _shown(view: View) -> list[Run]:
    return [piece for piece in view.pieces if isinstance(piece, Run)]


def _numbered(exported: Exported) -> list[tuple[Change, ...]]:
    numbers = {fold.name: str(number) for number, fold in enumerate(exported.folds, start=1)}

    def numbered(piece: Piece, own: str) -> Piece:
        if isinstance(piece, Run):
            return piece
        return Put("", piece.place) if piece.fold == own else Put(numbers[piece.fold], piece.place)

    return [
        tuple(
            Change(
                tuple(numbered(piece, fold.name) for piece in change.took),
                tuple(numbered(piece, fold.name) for piece in change.put),
            )
            for change in fold.changes
        )
        for fold in exported.folds
    ]


def _renamed(change: Change, names: Mapping[str, str]) -> Change:
    return Change(
        tuple(_named(piece, names) for piece in change.took),
        tuple(_named(piece, names) for piece in change.put),
    )


def _named(piece: Piece, names: Mapping[str, str]) -> Piece:
    if isinstance(piece, Run):
        return piece
    if piece.fold not in names:
        raise TypeError(f"there is no fold {piece.fold[:20]!r}")
    return replace(piece, fold=names[piece.fold])


def _by_number(names: Sequence[str]) -> dict[str, str]:
    """Names by number, from 1, as text."""
    return {str(number): name for number, name in enumerate(names, start=1)}


def without(run: Run, taken: Sequence[Run]) -> list[Run]:
    """What is left of a run without others, which are in order."""
    inside = [other for other in taken if other.last >= run.first and other.first <= run.last]
    edges = [Run(0, run.first - 1), *inside, Run(run.last + 1, 0)]
    return [Run(one.last + 1, two.first - 1) for one, two in pairwise(edges) if one.last + 1 < two.first]
