"""Write a session as files and read it back without loss; the forms of the files are in `formats.systems`."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from refold import formats
from refold.core.log.entries import ROOT, Entry, Kind, make_entry
from refold.core.log.view import Change, MessageRange, Replacement, ViewItem, changes_to_json, project
from refold.core.messages.message import Message
from refold.core.tokens.counting import Counter
from refold.errors import RefoldError, warn_caller
from refold.formats.shared import canonical
from refold.formats.shared.exported import NUMBER_LIMIT, Exported, ExportedFold, ExportedReport
from refold.formats.systems.file_forms import (
    DEFAULT_FORM,
    TAGGED,
    read_files,
    refuse_unknown_form,
    write_files,
)
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.export_folder import write_export
from refold.session.state.session_state import SessionState
from refold.session.steps.append import commit, mark_entry, message_entries
from refold.session.steps.context import context_state, warn_listeners
from refold.session.steps.fill_view import fill_view
from refold.session.steps.load import load, read_log
from refold.session.steps.read_entries import BEGAN, fold_messages, system_items, usage_report, usage_totals

_COSTS: Final = ("receipt", "spent", "summaries", BEGAN)
"""What is recorded beside a fold and does not depend on the log that it is in."""
_SUMS: Final = frozenset({"own", "spent", "summaries"})
"""What was spent by then; an attempt has such sums beside it too."""
_SPENT: Final = {"trigger": "export", "reason": "spent before", "counted": False}
"""The attempt beside which such sums stand after an import."""
_ITEM: Final = ("wire", "message")
"""Keys under which a fold keeps a message of its own: in a wire format, or as a value of ours."""


def export(state: SessionState, directory: str | os.PathLike[str], form: str) -> SessionFlow[list[str]]:
    """Write the session into a folder, new or with its earlier export, and return the names of the files."""
    refuse_unknown_form(form)
    if not os.fspath(directory):  # `Path` takes it for the folder in which the program runs
        raise RefoldError("the folder of an export has no name: write one, or . for this one")
    files = write_files((yield from _to_exported(state)), form)
    yield StoreCall(partial(write_export, Path(directory), files, state.name))
    return sorted(files)


def keep_archive(state: SessionState) -> SessionFlow[None]:
    """Write the archive of the session if folds were made or undone since the last time.

    The archive follows from the log, so the next time also writes what a crash or a full disk left out.
    """
    settings = state.settings
    if state.log.failure is not None or not state.position.note_archived():
        return
    try:
        files = write_files((yield from _to_exported(state)), DEFAULT_FORM, history=settings.history)
        yield StoreCall(partial(write_export, Path(settings.archive), files, state.name))
    except RefoldError as error:
        why = f"the archive was not written: {error}"
        warn_listeners(state, (yield from context_state(state)).budget, why)
        warn_caller(why)


def _to_exported(state: SessionState) -> SessionFlow[Exported]:
    """Return this branch as one value, redacted if the session redacts."""
    entries = yield from read_log(state)
    view, redact = state.view, state.redact or (lambda value: value)
    return Exported(
        session=state.name,
        format=state.wire.name,
        said=tuple(redact(entry.value) for entry in entries if entry.kind == "said"),
        folds=tuple(_to_exported_fold(state, entry) for entry in entries if entry.kind == "fold"),
        checkpoints={str(redact(name)): place for name, place in view.checkpoints.items()},
        pins=tuple(sorted(view.pins)),
        system=next((tuple(map(redact, entry.value)) for entry in entries if entry.name == view.system), ()),
        reports=_to_exported_reports(state, entries),
    )


def _to_exported_reports(state: SessionState, entries: Sequence[Entry]) -> tuple[ExportedReport, ...]:
    report = state.accounting.report
    folds = accumulate((entry.kind == "fold" for entry in entries), initial=0)
    # An import writes unfolds and system messages at other places: it could not see what has changed since.
    stands = {} if report is None or report.holds else {"stands": False}
    reports = []
    for entry, before in zip(entries, folds, strict=False):
        value, about = entry.value, {**entry.beside, **stands}
        if entry.kind == "attempt":  # its sums are what other branches and lost summaries cost
            value, about = _SPENT, {name: about[name] for name in about if name in _SUMS}
        if about and entry.kind in ("usage", "attempt"):
            made = ExportedReport(said=entry.said, folds=before, at=entry.at, value=value, about=about)
            reports.append(made)
    return tuple(reports)


def _to_exported_fold(state: SessionState, entry: Entry) -> ExportedFold:
    value, redact = entry.value, state.redact or (lambda value: value)
    fold = state.view.fold(entry.name)
    beside = [{key: message[key] for key in message if key not in _ITEM} for message in value["messages"]]
    facts: dict[str, Any] = {key: value[key] for key in value if key not in ("changes", "messages", "stages")}
    if any(beside):
        facts["beside"] = beside
    items = (next(message[key] for key in _ITEM if key in message) for message in value["messages"])
    return ExportedFold(
        name=entry.name,
        changes=() if fold is None else fold.changes,
        put=tuple(map(redact, items)),
        said=entry.said,
        standing=fold is not None and fold.standing,
        stages=tuple(value.get("stages", ())),
        at=entry.at,
        facts=redact(facts),
        about=redact({name: fact for name, fact in entry.beside.items() if name in _COSTS}),
    )


# -- and back ----------------------------------------------------------------------------------------------


def import_from(state: SessionState, directory: str | os.PathLike[str]) -> SessionFlow[int]:
    """Read an exported folder, or a file with a tagged list, into a session that is empty.

    Returns the number of messages.
    """
    exported: Exported = yield StoreCall(partial(_read_folder, Path(directory)))
    return (yield from import_exported(state, exported, os.fspath(directory)))


def import_exported(state: SessionState, exported: Exported, name: str) -> SessionFlow[int]:
    """Begin a session with the messages and folds of another one; `name` is for error messages."""
    yield from load(state)
    if state.head is not None:
        raise RefoldError(f"session {state.name!r} is there already: import into a new one")
    own = exported.format == canonical.FORMAT.name
    items = [canonical.from_json(item) for item in exported.said] if own else list(exported.said)
    wire = formats.get(exported.format) if exported.format else formats.detect(items)
    exported = replace(exported, format=wire.name)
    yield from fill_view(state, (), wire)
    try:
        entries = _to_entries(state, exported, items)
    except RefoldError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise RefoldError(f"{name} cannot be imported: {error}") from error
    if entries:
        yield from commit(state, entries)
    yield from load(state)
    return len(items)


def _read_folder(folder: Path) -> Exported:
    try:
        if folder.is_file():
            return read_files({TAGGED: folder.read_text(encoding="utf-8")})
        if (folder / TAGGED).exists():
            paths = [folder / TAGGED]
        else:
            files = filter(Path.is_file, sorted(folder.rglob("*")))
            paths = [path for path in files if path.suffix in (".jsonl", ".json")]
        return read_files({p.relative_to(folder).as_posix(): p.read_text(encoding="utf-8") for p in paths})
    except (OSError, ValueError, RecursionError) as error:
        raise RefoldError(f"{folder} is no exported session: {error}") from error


def _to_entries(state: SessionState, exported: Exported, items: Sequence[Any]) -> list[Entry]:
    """Return everything as entries; what could not be read back is refused before it is written."""
    entries: list[Entry] = []
    if exported.system:
        system = [state.to_stored(item) for item in exported.system]
        entries.append(mark_entry(state, "system", system, {"format": state.wire.name}))
        state.wire.parse(system_items(entries[0]))
    parsed = state.wire.parse(items)
    messages = message_entries(state, items, parsed)
    meter = _Meter(state.counter(), parsed)
    names: dict[str, str] = {}
    number = 0
    for said, kind, value in _order_marks(exported):
        entries += messages[number:said]
        number = max(number, said)
        parent, at = entries[-1].name if entries else ROOT, state.now()
        make = partial(make_entry, kind, parent=parent, said=number)
        if kind == "fold":
            body, about = _to_fold_body(exported, value, names), {"format": exported.format, **value.about}
            if not isinstance(value.about.get("receipt", {}), dict):
                raise ValueError("the receipt of a fold is no object")
            make = partial(make, about=about, at=value.at or at)
            sizes = meter.add_fold(value, number, fold_messages(make(body)))
            tells = body.get("before") or body.get("after") or body.get("trigger") == "repair"
            entry = make(body if tells else body | sizes)
            names[value.name] = entry.name
        elif isinstance(value, ExportedReport):
            entry = make(value.value, about=value.about, at=value.at or at)
            read, sums = usage_report(entry), usage_totals(entry).as_dict()
            counts = (read.estimate, *(getattr(read.usage, name, 0) for name in sums), *sums.values())
            if not all(type(count) is int and 0 <= count < NUMBER_LIMIT for count in counts):
                raise ValueError("the tokens of a report must be whole numbers from 0 on")
        else:
            body = {"fold": names[value]} if kind == "unfold" else value
            entry = make(body, at=at)
        entries.append(entry)
    entries += messages[number:]
    project(entries)
    return entries


class _Meter:
    """Measures the history before and after each fold, for folds that do not tell their sizes."""

    def __init__(self, counter: Counter, said: Sequence[Message]) -> None:
        self.counter = counter
        self.units = list(accumulate(counter.sizes(said), initial=0))
        """Units of the messages before each place."""
        self.put: dict[ViewItem, int] = {}
        self.shown = self.counted = 0
        """Units of the view, and how many messages that were said are counted in it."""

    def add_fold(self, fold: ExportedFold, said: int, put: Sequence[Message]) -> dict[str, int]:
        """Return the tokens of the history before and after a fold that was made behind `said` messages."""
        self.put |= {Replacement(fold.name, n): size for n, size in enumerate(self.counter.sizes(put))}
        before = self.shown + self.units[said] - self.units[self.counted]
        removed = sum(self._size(item) for change in fold.changes for item in change.removed)
        inserted = sum(self._size(item) for change in fold.changes for item in change.inserted)
        self.shown, self.counted = before - removed + inserted, said
        sizes = {"before": before, "after": self.shown}
        return {name: self.counter.tokens(n + self.counter.per_conversation) for name, n in sizes.items()}

    def _size(self, item: ViewItem) -> int:
        if isinstance(item, MessageRange):
            return self.units[item.last] - self.units[item.first - 1]
        return self.put[item]


def _order_marks(exported: Exported) -> list[tuple[int, Kind, Any]]:
    """Return folds, reports and checkpoints, each with the messages before it; then unfolds and pins.

    A checkpoint stands before the folds at the same place, and behind a fold that moved it.
    """
    last = len(exported.said)
    places = {name: (min(max(place, 0), last), 0) for name, place in exported.checkpoints.items()}
    folds: list[tuple[tuple[int, int], Kind, Any]] = []
    said = 0
    for number, fold in enumerate(exported.folds, 1):
        removed = [item.last for c in fold.changes for item in c.removed if isinstance(item, MessageRange)]
        said = min(last, max([said, fold.said, *removed]))
        folds.append(((said, number), "fold", fold))
        moved = fold.facts.get("checkpoint")
        if removed and isinstance(moved, str) and exported.checkpoints.get(moved) == max(removed):
            places[moved] = said, number
    bodies = {name: {"name": name, "said": place} for name, place in exported.checkpoints.items()}
    found = folds + [(place, "checkpoint", bodies[name]) for name, place in places.items()]
    ends = [0, *(place[0] for place, _, _ in folds)]
    for report in exported.reports:
        place = max(report.said, ends[report.folds]), report.folds
        found.append((place, "attempt" if report.value == _SPENT else "usage", report))
    marks = [(place[0], kind, value) for place, kind, value in sorted(found, key=lambda mark: mark[0])]
    marks += [(last, "unfold", fold.name) for fold in exported.folds if not fold.standing]
    return marks + [(last, "pin", {"said": pin, "pinned": True}) for pin in exported.pins]


def _to_fold_body(exported: Exported, fold: ExportedFold, names: dict[str, str]) -> dict[str, Any]:
    """Return the body of a fold's entry, under the new names of the folds it mentions."""

    def rename(items: tuple[ViewItem, ...]) -> tuple[ViewItem, ...]:
        return tuple(
            Replacement("" if item.fold == fold.name else names[item.fold], item.place)
            if isinstance(item, Replacement)
            else item
            for item in items
        )

    beside = fold.facts.get("beside", [{}] * len(fold.put))
    key = "message" if exported.format == canonical.FORMAT.name else "wire"
    return {
        **{name: fact for name, fact in fold.facts.items() if name != "beside"},
        "stages": list(fold.stages),
        "changes": changes_to_json(
            [Change(rename(change.removed), rename(change.inserted)) for change in fold.changes]
        ),
        "messages": [{key: item, **facts} for item, facts in zip(fold.put, beside, strict=True)],
    }
