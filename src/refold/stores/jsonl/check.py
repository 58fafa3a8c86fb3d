"""A session's file looked at row by row: what is wrong with it, and everything that can still be read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refold.core.log.entries import Entry
from refold.stores import Place, Trouble
from refold.stores.disk import errors_of, opened
from refold.stores.jsonl.rows import Row, entry_of, known_kind, rows
from refold.stores.parents import Parents


def troubles(path: Path) -> Iterator[Trouble]:
    """Rows that are damaged, and good ones that do not fit together."""
    inspection = _Inspection(path)
    with errors_of(path), opened(path) as file:
        for row in rows(file):
            yield from inspection.look(row)


def salvaged(path: Path) -> Iterator[tuple[str, Place, Entry]]:
    """Every entry whose row is good; where the first row is lost, the file's name stands for its session."""
    session = path.stem
    with errors_of(path), opened(path) as file:
        for row in rows(file):
            value = row.value or {}
            if "refold" in value:
                session = value.get("session", session)
            elif "place" in value and known_kind(value):
                yield session, Place(*value["place"]), entry_of(value)


class _Inspection:
    """What was seen of a file so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._session = path.stem
        self._parents = Parents()
        self._version = 0
        self._seq = 0
        self._broken = False
        """Whether a row before was damaged: then what follows has no fixed place to fit to."""

    def look(self, row: Row) -> Iterator[Trouble]:
        """What is wrong with the next row."""
        if row.value is None:
            if row.whole:
                self._broken = True
                yield self._trouble(row, "damaged")
        elif row.number == 1:
            yield from self._first(row, row.value)
        elif "place" in row.value:
            yield from self._entry(row, row.value)
        elif "head" in row.value:
            yield from self._head(row, row.value)
        else:
            yield self._trouble(row, "no row of a log")

    def _first(self, row: Row, value: dict[str, Any]) -> Iterator[Trouble]:
        if "refold" in value:
            self._session = value.get("session", self._session)
        else:
            yield self._trouble(row, "the row that names the session is missing")

    def _entry(self, row: Row, value: dict[str, Any]) -> Iterator[Trouble]:
        place, behind = Place(*value["place"]), Place(*value["behind"])
        entry = entry_of(value)
        if not entry.sound:
            yield self._trouble(row, f"entry {entry.name} is not what its name says", place.seq)
        if not self._broken and (behind not in self._parents or place.seq != self._seq + 1):
            yield self._trouble(row, f"entry {entry.name} stands behind one that is not there", place.seq)
        if wrong := self._parents.wrong(entry, place, behind):
            yield self._trouble(row, wrong, place.seq)
        self._seq = place.seq

    def _head(self, row: Row, value: dict[str, Any]) -> Iterator[Trouble]:
        if not self._broken and Place(*value["head"]) not in self._parents:
            yield self._trouble(row, "the head stands where no entry is", value["head"][1])
        if not self._broken and value["version"] != self._version + 1:
            yield self._trouble(row, f"head {value['version']} follows head {self._version}")
        self._version = value["version"]
        if not row.whole:
            yield self._trouble(row, "damaged at its end")

    def _trouble(self, row: Row, what: str, seq: int | None = None) -> Trouble:
        what = f"{self._path.name}, line {row.number}: {what}"
        return Trouble(session=self._session, what=what, seq=seq)
