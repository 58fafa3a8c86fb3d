"""Which sessions of a folder have a message: an index of names over all files, kept in one more file.

Appends do not write it. A search for a name looks at the sizes of the files, reads what was added to them,
and writes the names into `names.jsonl`, so that the next process need not read the logs. Whoever finds a name
asks the session's file for its place. The file may be deleted: it is made again.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from refold.errors import StoreError
from refold.stores.disk import create_file, identify, lock, map_errors, open_file, write_at_end
from refold.stores.jsonl.rows import FORMAT, format_row, parse_outline, read_rows

_FIRST: Final = format_row({"refold": FORMAT})


class NameFile:
    """Names of messages and the files of the sessions that have them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._forget()

    def _forget(self) -> None:
        self._identity = (0, 0, b"")
        self._good = 0
        self._rows = 0
        self._read: dict[str, int] = {}
        """For each session's file how many bytes of it were read."""
        self._files: dict[str, list[str]] = {}
        """For each name the files that have it, in the order in which they were read."""

    def find(self, name: str) -> Iterator[str]:
        """Iterate over the files that may have a message, the last one first."""
        return reversed(self._files.get(name, []))

    def follow(self, paths: Sequence[Path]) -> None:
        """Read what was added to the files of sessions since this was done last, here or elsewhere."""
        self.drop_missing(paths)
        rows = [row for path in paths if (row := self._read_names(path)) is not None]
        rows.sort(key=lambda row: float(row["at"]))
        try:
            if rows:
                self._write(b"".join(map(format_row, rows)))
        except StoreError:  # in memory it is as good, and a folder may be read-only
            for row in rows:
                self._take_row(row)

    def drop_missing(self, paths: Sequence[Path]) -> None:
        """Follow the index itself; if it has other files than these, write it anew without them."""
        with map_errors(self.path):
            try:
                with open_file(self.path) as file:
                    self._follow_rows(file)
            except FileNotFoundError:
                self._forget()
        if self._read.keys() - (stems := {path.stem for path in paths}):
            # in a read-only folder they stay: whoever finds a name asks the session's file, and is told
            with suppress(StoreError, OSError):
                with open_file(self.path, write=True) as file:
                    lock(file, self.path)
                    rows = (row for row in read_rows(file) if row.value and row.value.get("file") in stems)
                    kept = [os.pread(file, row.size, row.at) + b"\n" for row in rows]
                    create_file(self.path, b"".join([_FIRST, *kept]))
                with open_file(self.path) as file:
                    self._follow_rows(file)

    def _follow_rows(self, file: int) -> None:
        if identify(file, self._good) != self._identity:
            self._forget()
        for row in read_rows(file, self._good, self._rows + 1):
            if row.value is None or not row.terminated:  # the next writer cuts it off
                break
            self._take_row(row.value)
            self._good, self._rows = row.end, row.number
        self._identity = identify(file, self._good)

    def _take_row(self, row: dict[str, Any]) -> None:
        if "file" not in row:
            return
        self._read[row["file"]] = row["size"]
        for name in row["names"]:
            files = self._files.setdefault(name, [])
            if row["file"] not in files[-1:]:
                files.append(row["file"])

    def _read_names(self, path: Path) -> dict[str, Any] | None:
        """Read the names of the messages that were appended to a session's file; None if there are none."""
        known = self._read.get(path.stem, 0)
        try:
            size = path.stat().st_size
            if size == known:
                return None
            with open_file(path) as file:
                return self._read_appends(path, file, known if known < size else 0)
        except OSError:  # deleted meanwhile, or not readable: whoever asks for the session is told
            return None

    def _read_appends(self, path: Path, file: int, start: int) -> dict[str, Any] | None:
        names: list[str] = []
        waiting: list[str] = []
        end, at = start, 0.0
        for row in read_rows(file, start, parse=parse_outline):
            value = row.value or {}
            if value.get("kind") == "said":
                waiting.append(value["name"])
            if row.terminated and ("head" in value or "refold" in value):  # only complete appends count
                names += waiting
                waiting, end, at = [], row.end, value.get("at", at)
        return {"file": path.stem, "size": end, "at": at, "names": names} if end > start else None

    def _write(self, rows: bytes) -> None:
        if not self.path.exists():
            create_file(self.path, _FIRST, put=os.link)
        with map_errors(self.path), open_file(self.path, write=True) as file:
            lock(file, self.path)
            self._follow_rows(file)
            write_at_end(file, self.path, self._good, rows, sync=False)
            self._follow_rows(file)
