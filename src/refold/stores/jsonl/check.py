"""Examine the file of a session row by row: what is wrong with it, and what can still be read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refold.core.log.entries import Entry
from refold.stores import Defect, Place
from refold.stores.disk import map_errors, open_file
from refold.stores.jsonl.rows import Row, has_known_kind, read_rows, to_entry
from refold.stores.paths import ParentCheck


def find_defects(path: Path) -> Iterator[Defect]:
    """Yield rows that are damaged, and good ones that contradict each other."""
    inspection = _Inspection(path)
    with map_errors(path), open_file(path) as file:
        for row in read_rows(file):
            for what, seq in inspection.examine(row):
                yield Defect(
                    session=inspection.session, what=f"{path.name}, line {row.number}: {what}", seq=seq
                )


def salvage_file(path: Path) -> Iterator[tuple[str, Place, Entry]]:
    """Yield every entry whose row is good; the file's name stands for a session whose name is lost."""
    session = path.stem
    with map_errors(path), open_file(path) as file:
        for row in read_rows(file):
            value = row.value or {}
            if "refold" in value:
                session = value.get("session", session)
            elif "place" in value and has_known_kind(value):
                yield session, Place(*value["place"]), to_entry(value)


class _Inspection:
    """State of an examination: the rows of one file seen so far."""

    def __init__(self, path: Path) -> None:
        self.session = path.stem
        self._parents = ParentCheck()
        self._version = 0
        self._seq = 0
        self._gap = False
        """True after a damaged row: from there on numbers and places cannot be compared any more."""

    def examine(self, row: Row) -> Iterator[tuple[str, int | None]]:
        """Yield what is wrong with the next row, each with the number of its entry."""
        value = row.value
        if value is None:
            if row.terminated:
                self._gap = True
                yield "damaged", None
        elif row.number == 1:
            self.session = value.get("session", self.session) if "refold" in value else self.session
            if "refold" not in value:
                yield "the row that names the session is missing", None
        elif "place" in value:
            yield from self._examine_entry(value)
        elif "head" in value:
            if not self._gap and Place(*value["head"]) not in self._parents:
                yield "the head points to a place without an entry", value["head"][1]
            if not self._gap and value["version"] != self._version + 1:
                yield f"head {value['version']} follows head {self._version}", None
            self._version = value["version"]
            if not row.terminated:
                yield "damaged at its end", None
        else:
            yield "not a row of a log", None

    def _examine_entry(self, value: dict[str, Any]) -> Iterator[tuple[str, int | None]]:
        place, behind = Place(*value["place"]), Place(*value["behind"])
        entry = to_entry(value)
        if not entry.sound:
            yield f"entry {entry.name} does not match its name", place.seq
        if not self._gap and (behind not in self._parents or place.seq != self._seq + 1):
            yield f"entry {entry.name} follows an entry that is not there", place.seq
        if wrong := self._parents.add(entry, place, behind):
            yield wrong, place.seq
        self._seq = place.seq
