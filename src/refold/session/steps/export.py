"""Sessions as files and back: Ripple's folder and NeuroLink's tagged list, without loss."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from refold import formats
from refold.core.log.entries import ROOT, Entry, Kind, make_entry
from refold.core.log.view import Change, ViewItem, Replacement, MessageRange, changes_to_json, project
from refold.errors import RefoldError, StoreError
from refold.formats.shared import canonical
from refold.formats.shared.exported import Exported, ExportedFold
from refold.formats.systems.neurolink_list import from_tagged, to_tagged
from refold.formats.systems.ripple_archive import MANIFEST, MESSAGES, part_name, read_archive, write_archive
from refold.session import operations
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.loaded_view import LoadedView
from refold.session.state.session_state import SessionState, commit, mark_entry, message_entries
from refold.session.steps.load import load, put_messages, system_in

TAGGED: Final = "tagged.json"
FORMS: Final = ("ripple", "neurolink")


def export(state: SessionState, directory: str, form: str) -> SessionFlow[list[str]]:
    """Write the session into a folder; gives the names of the files."""
    if form not in FORMS:
        raise RefoldError(f"there is no form {form!r} to export: {' or '.join(FORMS)}")
    exported = yield from exported_of(state)
    if form == "ripple":
        files = write_archive(exported)
    else:
        files = {TAGGED: json.dumps(to_tagged(exported), ensure_ascii=True, indent=1) + "\n"}
    yield StoreCall(partial(_write, Path(directory), files))
    return sorted(files)


def exported_of(state: SessionState) -> SessionFlow[Exported]:
    """This branch as one value; redacted where the session redacts."""
    entries = yield from operations.log(state)
    clean = state.redact or _same
    view = state.view
    return Exported(
        session=state.name,
        format=state.wire.name,
        said=tuple(clean(one.value) for one in entries if one.kind == "said"),
        folds=tuple(_exported_fold(state, one) for one in entries if one.kind == "fold"),
        checkpoints={str(clean(name)): place for name, place in view.checkpoints.items()},
        pins=tuple(sorted(view.pins)),
        system=next((tuple(clean(i) for i in one.value) for one in entries if one.name == view.system), ()),
    )


def _exported_fold(state: SessionState, one: Entry) -> ExportedFold:
    value, clean = one.value, state.redact or _same
    known = state.view.fold(one.name)
    beside = [{key: put[key] for key in put if key not in _ITEM} for put in value["messages"]]
    facts = {key: value[key] for key in value if key not in ("changes", "messages", "stages")}
    return ExportedFold(
        name=one.name,
        changes=() if known is None else known.changes,
        put=tuple(clean(next(put[key] for key in _ITEM if key in put)) for put in value["messages"]),
        said=one.said,
        standing=known is not None and known.standing,
        stages=tuple(value.get("stages", ())),
        at=one.at,
        facts={**facts, **({"beside": clean(beside)} if any(beside) else {})},
    )


_ITEM: Final = ("wire", "message")
"""Where a fold's own message stands: as the wire has it, or as a value of ours."""


def _same(value: Any) -> Any:
    return value


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write each file whole or not at all; a folder that holds anything but an export is left alone."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_others(folder)
        for name, text in files.items():
            target = folder / name
            target.parent.mkdir(mode=0o700, exist_ok=True)
            part = target.with_name(f".{target.name}.{os.getpid()}")
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
        for old in _left(folder, files):
            old.unlink(missing_ok=True)
    except (OSError, ValueError) as error:  # a name with a hole in it is no name of a file
        why = getattr(error, "strerror", None) or error
        raise StoreError(f"{folder} cannot be written: {why}") from error


def _refuse_others(folder: Path) -> None:
    if any(folder.iterdir()) and not any((folder / name).exists() for name in (MANIFEST, TAGGED)):
        raise StoreError(f"{folder} holds other files: export into a new folder")


def _left(folder: Path, files: Mapping[str, str]) -> Iterator[Path]:
    """Files of an earlier export into this folder that this one does not have."""
    names = (TAGGED, MESSAGES, MANIFEST, *(part_name(int(n[1])) for n in _parts(folder)))
    return (folder / name for name in names if name not in files)


def _parts(folder: Path) -> Iterator[re.Match[str]]:
    found = (re.fullmatch(r"part-([1-9][0-9]{0,8})\.jsonl", path.name) for path in folder.glob("history/*"))
    return (match for match in found if match)


def import_into(state: SessionState, directory: str) -> SessionFlow[int]:
    """Read an exported folder into a session in which nothing was said yet; gives the number of messages."""
    exported: Exported = yield StoreCall(partial(_read, Path(directory)))
    return (yield from import_exported(state, exported, directory))


def import_exported(state: SessionState, exported: Exported, name: str) -> SessionFlow[int]:
    """Begin a session with what another one said and folded; `name` is for messages."""
    yield from load(state)
    if state.head is not None:
        raise RefoldError(f"session {state.name!r} is there already: import into a new one")
    own = exported.format == canonical.FORMAT.name
    items = [canonical.from_json(item) for item in exported.said] if own else list(exported.said)
    wire = formats.get(exported.format) if exported.format else formats.detect(items)
    state.shelf = LoadedView(wire, state.shelf.counter)
    try:
        entries = _entries(state, exported, items)
    except RefoldError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RefoldError(f"{name} cannot be imported: {error}") from error
    if entries:
        yield from commit(state, entries)
    yield from load(state)
    return len(items)


def _entries(state: SessionState, exported: Exported, items: Sequence[Any]) -> list[Entry]:
    """All of it as entries, for one step of the store; what could not be read back is refused before."""
    done: list[Entry] = []
    if exported.system:
        system = [state.stored(item) for item in exported.system]
        done.append(mark_entry(state, "system", system, {"format": state.wire.name}))
        state.wire.parse(system_in(done[0]))
    words = message_entries(state, items, state.wire.parse(items))
    names: dict[str, str] = {}
    number = 0
    for said, kind, given in _marks(exported):
        done += words[number:said]
        number = max(number, said)
        behind = {"parent": done[-1].name if done else ROOT, "said": number, "at": state.now()}
        done.append(_mark(exported, kind, given, names, behind))
        if kind == "fold":
            put_messages(done[-1])
    done += words[number:]
    project(done)
    return done


def _read(folder: Path) -> Exported:
    try:
        if (folder / TAGGED).exists():
            return from_tagged(json.loads((folder / TAGGED).read_text(encoding="utf-8")))
        files = {
            path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.suffix in (".jsonl", ".json")
        }
        return read_archive(files)
    except (OSError, ValueError, RecursionError) as error:
        raise RefoldError(f"{folder} is no exported session: {error}") from error


def _marks(exported: Exported) -> list[tuple[int, Kind, Any]]:
    """Folds and checkpoints, each behind the messages that had been said; then pins and what was undone."""
    last = len(exported.said)
    placed: list[tuple[int, Kind, Any]] = [
        (min(max(place, 0), last), "checkpoint", {"name": name, "said": place})
        for name, place in exported.checkpoints.items()
    ]
    said = 0
    for fold in exported.folds:
        taken = [piece.last for c in fold.changes for piece in c.took if isinstance(piece, MessageRange)]
        said = min(last, max([said, fold.said, *taken]))
        placed.append((said, "fold", fold))
    placed.sort(key=lambda one: one[0])
    placed += [(last, "unfold", fold.name) for fold in exported.folds if not fold.standing]
    return placed + [(last, "pin", {"said": pin, "pinned": True}) for pin in exported.pins]


def _mark(exported: Exported, kind: Kind, given: Any, names: dict[str, str], behind: dict[str, Any]) -> Entry:
    """One of them as an entry; folds follow the new names of those they name."""
    if kind == "unfold":
        given = {"fold": names[given]}
    if kind != "fold":
        return make_entry(kind, given, **behind)
    fold: ExportedFold = given
    beside = fold.facts.get("beside", [{}] * len(fold.put))
    key = "message" if exported.format == canonical.FORMAT.name else "wire"
    value = {
        **{name: found for name, found in fold.facts.items() if name != "beside"},
        "stages": list(fold.stages),
        "changes": changes_to_json([_renamed(change, fold.name, names) for change in fold.changes]),
        "messages": [{key: put, **facts} for put, facts in zip(fold.put, beside, strict=True)],
    }
    behind = {**behind, "at": fold.at or behind["at"], "about": {"format": exported.format}}
    found = make_entry("fold", value, **behind)
    names[fold.name] = found.name
    return found


def _renamed(change: Change, own: str, names: Mapping[str, str]) -> Change:
    def piece(one: ViewItem) -> ViewItem:
        if not isinstance(one, Replacement):
            return one
        return Replacement("", one.place) if one.fold == own else Replacement(names[one.fold], one.place)

    return Change(tuple(piece(one) for one in change.took), tuple(piece(one) for one in change.put))
