"""Disks that record what a store does to them: a VFS for SQLite, calls of `os` for the store of files."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import apsw
from bench.torture.disks import Event, Recording

VFS: Final = "refold-recording"


class RecordingFile(apsw.VFSFile):
    """A file of SQLite's that notes what is done to it."""

    def __init__(self, vfs: "RecordingVFS", name: Any, flags: list[int]) -> None:
        path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name)
        known = path.exists()
        super().__init__("", name, flags)
        self._recording = vfs.recording
        self._unsynced = False
        if path.name not in vfs.files:
            file = vfs.files[path.name] = self._recording.new_file()
            self._recording.add(Event("name", file, path.name))
            self._unsynced = not known
            if known:
                self._recording.add(Event("sync names"))
        self._file = vfs.files[path.name]

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  # SQLite's name
        """Write."""
        super().xWrite(data, offset)
        self._recording.add(Event("write", self._file, at=offset, data=bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802  # SQLite's name
        """Cut off."""
        super().xTruncate(newsize)
        self._recording.add(Event("cut", self._file, at=newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802  # SQLite's name
        """Sync; with a new file SQLite syncs its folder, too."""
        super().xSync(flags)
        self._recording.add(Event("sync", self._file))
        if self._unsynced:
            self._recording.add(Event("sync names"))
            self._unsynced = False


class RecordingVFS(apsw.VFS):
    """SQLite's way to the disk, recorded."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(VFS, "")
        self.recording = recording
        self.files: dict[str, int] = {}

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802  # SQLite's name
        """Open a file; those without a name are nobody's business."""
        return RecordingFile(self, name, flags) if name is not None else super().xOpen(name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802, FBT001  # SQLite's name and way
        """Delete a file."""
        super().xDelete(filename, syncdir)
        name = Path(filename).name
        self.files.pop(name, None)
        self.recording.add(Event("unname", name=name))
        if syncdir:
            self.recording.add(Event("sync names"))


@contextmanager
def recorded_calls(folder: Path, recording: Recording) -> Iterator[None]:
    """Record what this process does to the files of a folder through `os`."""
    calls = _Calls(folder, recording)
    watched = ("open", "close", "write", "ftruncate", "fsync", "fdatasync", "link", "replace", "unlink")
    from refold.stores import disk  # the default of its `create` was bound before anything is recorded

    with patch.multiple(os, **{name: getattr(calls, name) for name in watched}):
        defaults = disk.create_file.__kwdefaults__
        with patch.dict(defaults, {"put": calls.replace}):
            yield


class _Calls:
    """The calls of `os` that change files, each done and noted."""

    def __init__(self, folder: Path, recording: Recording) -> None:
        self._folder = folder
        self._recording = recording
        self._names: dict[str, int] = {}
        self._open: dict[int, int] = {}
        """The number of the content behind each open file; 0 for the folder itself."""
        self._os = {name: getattr(os, name) for name in dir(os) if callable(getattr(os, name))}

    def _name(self, path: Any) -> str | None:
        inside = isinstance(path, str | Path) and Path(path).parent == self._folder
        return Path(path).name if inside else None

    def open(self, path: Any, flags: int, *args: Any, **options: Any) -> int:
        file: int = self._os["open"](path, flags, *args, **options)
        if (name := self._name(path)) is not None:
            if name not in self._names:
                self._names[name] = self._recording.new_file()
                self._recording.add(Event("name", self._names[name], name))
            self._open[file] = self._names[name]
        elif isinstance(path, str | Path) and Path(path) == self._folder:
            self._open[file] = 0
        return file

    def close(self, file: int) -> None:
        self._open.pop(file, None)
        self._os["close"](file)

    def write(self, file: int, data: Any) -> int:
        at = os.fstat(file).st_size if file in self._open else 0  # all of them are opened to append
        count: int = self._os["write"](file, data)
        if file in self._open:
            self._recording.add(Event("write", self._open[file], at=at, data=bytes(data[:count])))
        return count

    def ftruncate(self, file: int, length: int) -> None:
        self._os["ftruncate"](file, length)
        if file in self._open:
            self._recording.add(Event("cut", self._open[file], at=length))

    def fsync(self, file: int) -> None:
        self._os["fsync"](file)
        if file in self._open:
            number = self._open[file]
            self._recording.add(Event("sync", number) if number else Event("sync names"))

    fdatasync = fsync

    def link(self, old: Any, new: Any) -> None:
        self._os["link"](old, new)
        if (name := self._name(new)) is not None:
            self._names[name] = self._names[Path(old).name]
            self._recording.add(Event("name", self._names[name], name))

    def replace(self, old: Any, new: Any) -> None:
        self._os["replace"](old, new)
        if (name := self._name(new)) is not None:
            self._names[name] = self._names.pop(Path(old).name)
            self._recording.add(Event("rename", self._names[name], name, old=Path(old).name))

    def unlink(self, path: Any) -> None:
        self._os["unlink"](path)
        if (name := self._name(path)) is not None:
            self._names.pop(name, None)
            self._recording.add(Event("unname", name=name))
