"""A session as a value that can be written and read back: every message, fold and report, nothing else.

The archive and the tagged list are two ways to write this value; both are read back to an equal one. Messages
are named by number, from 1. The value never holds a view: what the model sees is computed from the rest.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Final

from refold.core.log.entries import Entry, to_json_text
from refold.core.log.view import Change, MessageRange, View, ViewItem, changes_to_json, read_changes, step
from refold.core.messages.message import EMPTY
from refold.errors import FormatError, LogCorrupt

VERSION: Final = 1
"""Version of the JSON form; a reader refuses what is newer."""
NUMBER_LIMIT: Final = 253_402_300_800
"""No number is as large: seconds from the epoch to the year 10000, which Python's calendar does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFold:
    """A fold, unfolded or not."""

    name: str
    changes: tuple[Change, ...]
    """The removed and inserted items; `Replacement(name, place)` is `put[place]` of the fold of that name."""
    put: tuple[Any, ...] = ()
    """The fold's own messages, as wire values."""
    said: int = 0
    """Number of messages that had been said when it was made."""
    standing: bool = True
    """False if it was unfolded."""
    stages: tuple[str, ...] = ()
    at: float = 0.0
    """Seconds since the epoch."""
    facts: Mapping[str, Any] = EMPTY
    """Anything else that is known of it, as JSON."""
    about: Mapping[str, Any] = EMPTY
    """What making it cost, as the log has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedReport:
    """What a provider reported for a request, or what else was spent."""

    said: int
    folds: int
    """Numbers of messages and of folds that were there before it."""
    at: float
    value: Mapping[str, Any]
    about: Mapping[str, Any]
    """The report, and the sums by then, as the log has them."""


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
    """Number of messages before each."""
    pins: tuple[int, ...] = ()
    system: tuple[Any, ...] = ()
    """The system messages, if they are not among the others."""
    reports: tuple[ExportedReport, ...] = ()
    """Oldest first."""

    @property
    def view(self) -> tuple[Any, ...]:
        """The messages the model sees."""
        return tuple(message for item in view_items(self) for message in self.messages(item))

    def messages(self, item: ViewItem) -> tuple[Any, ...]:
        """Return the messages of one item of a view."""
        if isinstance(item, MessageRange):
            return self.said[item.first - 1 : item.last]
        return (next(fold for fold in self.folds if fold.name == item.fold).put[item.place],)


def view_items(exported: Exported) -> tuple[ViewItem, ...]:
    """Return the view as ranges of messages and replacements."""
    names = _names_by_number([fold.name for fold in exported.folds])
    view = _start_view(exported)
    for entry in _to_entries(exported):
        view = step(view, entry)
    return tuple(_rename_item(item, names) for item in view.items)


def removed_by_fold(exported: Exported) -> dict[int, tuple[MessageRange, ...]]:
    """Return the messages that left the view with each standing fold, by the fold's number, from 1."""

    def visible_ranges(view: View) -> list[MessageRange]:
        return [item for item in view.items if isinstance(item, MessageRange)]

    view = _start_view(exported)
    entries = _to_entries(exported)
    unfolds = {entry.value["fold"]: entry for entry in entries if entry.kind == "unfold"}
    removed: dict[int, tuple[MessageRange, ...]] = {}
    for number, entry in enumerate(entries[: len(exported.folds)], start=1):
        before = visible_ranges(view)
        view = step(view, entry)
        if entry.name in unfolds:
            view = step(view, unfolds[entry.name])
        else:
            after = visible_ranges(view)
            removed[number] = tuple(part for item in before for part in subtract_ranges(item, after))
    return removed


def check(exported: Exported) -> None:
    """Raise `FormatError` if folds, pins or checkpoints name a message that does not exist."""
    known: dict[str, int] = {}
    length = len(exported.said)
    for number, fold in enumerate(exported.folds, start=1):
        where = f"fold {number}"
        if fold.name in known:
            raise FormatError(f"has the name of another fold, {fold.name!r}", path=where)
        own = {**known, fold.name: len(fold.put)}
        for change in fold.changes:
            _check_items(change.removed, known, length, where)
            _check_items(change.inserted, own, length, where)
        known = own
    for name, said in exported.checkpoints.items():
        if not 0 <= said <= length:
            raise FormatError(f"stands behind message #{said} of {length}", path=f"checkpoint {name!r}")
    for report in exported.reports:
        if not (0 <= report.said <= length and 0 <= report.folds <= len(exported.folds)):
            raise FormatError(f"stands behind message #{report.said} of {length}", path="reports")
    for pin in exported.pins:
        if not 1 <= pin <= length:
            raise FormatError(f"there is no message #{pin}", path="pins")


def _check_items(items: Sequence[ViewItem], puts: Mapping[str, int], length: int, where: str) -> None:
    for item in items:
        if isinstance(item, MessageRange):
            if not 1 <= item.first <= item.last <= length:
                raise FormatError(f"speaks of messages #{item.first}-#{item.last} of {length}", path=where)
        elif not 0 <= item.place < puts.get(item.fold, 0):
            raise FormatError(
                f"speaks of message {item.place} of {item.fold!r}, which is not there", path=where
            )


def to_json(exported: Exported) -> dict[str, Any]:
    """Return everything but the messages that were said, as JSON; folds are named by number."""
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
                **({"about": dict(fold.about)} if fold.about else {}),
            }
            for fold, changes in zip(exported.folds, _number_changes(exported), strict=True)
        ],
        "reports": [asdict(report) for report in exported.reports],
    }


def from_json(value: Any, said: Sequence[Any], *, where: str) -> Exported:
    """Read the result of `to_json` with the messages; raises `FormatError` for anything that does not fit."""
    try:
        if (version := _expect(value["refold"], int)) > VERSION:
            raise FormatError(f"was written by a newer version (form {version}): upgrade refold", path=where)
        checkpoints = _expect(value["checkpoints"], dict)
        exported = Exported(
            session=_expect(value["session"], str),
            format=_expect(value["format"], str),
            said=tuple(said),
            folds=_read_folds(_expect(value["folds"], list)),
            checkpoints={name: _expect(count, int) for name, count in checkpoints.items()},
            pins=tuple(_expect(pin, int) for pin in _expect(value["pins"], list)),
            system=tuple(_expect(value["system"], list)),
            reports=tuple(map(_read_report, _expect(value.get("reports", []), list))),  # older ones have none
        )
    except KeyError as error:
        raise FormatError(f"the field {error} is missing", path=where) from None
    except (TypeError, LogCorrupt) as error:
        raise FormatError(f"cannot be read: {error}", path=where) from None
    check(exported)
    return exported


def _read_folds(values: list[Any]) -> tuple[ExportedFold, ...]:
    names = _names_by_number([_expect(_expect(value, dict)["name"], str) for value in values])
    return tuple(
        ExportedFold(
            name=names[str(number)],
            changes=_map_items(read_changes(str(number), value), partial(_rename_item, names=names)),
            put=tuple(_expect(value["put"], list)),
            said=_expect(value["said"], int),
            standing=_expect(value["standing"], bool),
            stages=tuple(_expect(stage, str) for stage in _expect(value["stages"], list)),
            at=float(_expect(value["at"], (int, float))),
            facts=_expect(value["facts"], dict),
            about=_expect(value.get("about", {}), dict),
        )
        for number, value in enumerate(values, start=1)
    )


def _read_report(value: Any) -> ExportedReport:
    return ExportedReport(
        said=_expect(_expect(value, dict)["said"], int),
        folds=_expect(value["folds"], int),
        at=float(_expect(value["at"], (int, float))),
        value=_expect(value["value"], dict),
        about=_expect(value["about"], dict),
    )


def _expect(value: Any, expected: Any) -> Any:
    if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
        raise TypeError(f"found {type(value).__name__} where it does not belong")
    if isinstance(value, int | float) and not abs(value) < NUMBER_LIMIT:
        raise TypeError("found a number that is too large")
    return value


def _start_view(exported: Exported) -> View:
    said = len(exported.said)
    return View(said=said, items=(MessageRange(1, said),) if said else ())


def _to_entries(exported: Exported) -> list[Entry]:
    """Return the folds as entries of a log, then the unfolds.

    Folds are named by number, because names of other systems need not fit into a log.
    """
    said = len(exported.said)
    bodies = [{"changes": changes_to_json(changes)} for changes in _number_changes(exported)]
    folds = [
        Entry(name=str(number), parent="", kind="fold", body=to_json_text(body), said=said)
        for number, body in enumerate(bodies, start=1)
    ]
    return folds + [
        Entry(
            name=f"-{entry.name}",
            parent="",
            kind="unfold",
            body=to_json_text({"fold": entry.name}),
            said=said,
        )
        for entry, fold in zip(folds, exported.folds, strict=True)
        if not fold.standing
    ]


def _number_changes(exported: Exported) -> list[tuple[Change, ...]]:
    """Return the changes of each fold, with folds named by number and the fold itself by the empty name."""
    numbers = {fold.name: str(number) for number, fold in enumerate(exported.folds, start=1)}

    def number_item(item: ViewItem, own: str) -> ViewItem:
        if isinstance(item, MessageRange):
            return item
        return replace(item, fold="" if item.fold == own else numbers[item.fold])

    return [_map_items(fold.changes, partial(number_item, own=fold.name)) for fold in exported.folds]


def _map_items(changes: Sequence[Change], convert: Callable[[ViewItem], ViewItem]) -> tuple[Change, ...]:
    return tuple(
        Change(tuple(map(convert, change.removed)), tuple(map(convert, change.inserted)))
        for change in changes
    )


def _rename_item(item: ViewItem, names: Mapping[str, str]) -> ViewItem:
    if isinstance(item, MessageRange):
        return item
    if item.fold not in names:
        raise TypeError(f"there is no fold {item.fold[:20]!r}")
    return replace(item, fold=names[item.fold])


def _names_by_number(names: Sequence[str]) -> dict[str, str]:
    return {str(number): name for number, name in enumerate(names, start=1)}


def subtract_ranges(item: MessageRange, others: Sequence[MessageRange]) -> list[MessageRange]:
    """Return the parts of a range that no other range covers.

    >>> subtract_ranges(MessageRange(1, 9), [MessageRange(3, 4)])
    [MessageRange(first=1, last=2), MessageRange(first=5, last=9)]
    """
    inside = sorted(
        (other for other in others if other.last >= item.first and other.first <= item.last),
        key=lambda other: other.first,
    )
    edges = [MessageRange(0, item.first - 1), *inside, MessageRange(item.last + 1, 0)]
    return [
        MessageRange(left.last + 1, right.first - 1)
        for left, right in pairwise(edges)
        if left.last + 1 < right.first
    ]
