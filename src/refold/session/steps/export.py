"""Write a session as files, without loss; the forms of the files are in `formats.systems`."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from refold.core.log.entries import Entry
from refold.errors import StoreError
from refold.formats.shared.exported import Exported, ExportedFold
from refold.formats.systems.file_forms import MARKERS, is_export_file, refuse_unknown_form, write_files
from refold.session.drivers import SessionFlow, StoreCall
from refold.session.state.session_state import SessionState
from refold.session.steps.load import read_log

_ITEM: Final = ("wire", "message")
"""Keys under which a fold keeps a message of its own: in a wire format, or as a value of ours."""


def export(state: SessionState, directory: str, form: str) -> SessionFlow[list[str]]:
    """Write the session into a folder, and return the names of the files."""
    refuse_unknown_form(form)
    files = write_files((yield from _to_exported(state)), form)
    yield StoreCall(partial(_write, Path(directory), files))
    return sorted(files)


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
    )


def _to_exported_fold(state: SessionState, entry: Entry) -> ExportedFold:
    value, redact = entry.value, state.redact or (lambda value: value)
    fold = state.view.fold(entry.name)
    beside = [{key: message[key] for key in message if key not in _ITEM} for message in value["messages"]]
    facts: dict[str, Any] = {key: value[key] for key in value if key not in ("changes", "messages", "stages")}
    if any(beside):
        facts["beside"] = redact(beside)
    items = (next(message[key] for key in _ITEM if key in message) for message in value["messages"])
    return ExportedFold(
        name=entry.name,
        changes=() if fold is None else fold.changes,
        put=tuple(map(redact, items)),
        said=entry.said,
        standing=fold is not None and fold.standing,
        stages=tuple(value.get("stages", ())),
        at=entry.at,
        facts=facts,
    )


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write each file whole or not at all; a folder that holds anything but an export is refused."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()) and not any((folder / name).exists() for name in MARKERS):
            raise StoreError(f"{folder} holds other files: export into a new folder")
        for name, text in files.items():
            target = folder / name
            target.parent.mkdir(mode=0o700, exist_ok=True)
            part = target.with_name(f".{target.name}.{os.getpid()}")
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
        for path in (*folder.glob("*"), *folder.glob("history/*")):  # files of an earlier export
            name = path.relative_to(folder).as_posix()
            if name not in files and is_export_file(name):
                path.unlink(missing_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        why = getattr(error, "strerror", None) or error
        raise StoreError(f"{folder} cannot be written: {why}") from error
