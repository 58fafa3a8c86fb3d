"""Reads session files from end to end, beside their indexes: full-text search, check and salvage."""

import os
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refold.core.log.entries import Entry
from refold.errors import LogTooNew
from refold.stores import Defect, Place, SearchHit
from refold.stores.disk import identify, map_errors, open_file
from refold.stores.jsonl.end_file import describe_cut
from refold.stores.jsonl.rows import Row, has_known_kind, parse_row, read_rows, refuse_newer, to_entry
from refold.stores.paths import ParentCheck
from refold.stores.word_index import TextHit, WordIndex, rank_texts


def find_defects(path: Path) -> Iterator[Defect]:
    """Yield rows that are damaged, and good ones that contradict each other."""
    inspection = _Inspection(path)
    with map_errors(path), suppress(FileNotFoundError), open_file(path) as file:
        for row in read_rows(file):
            try:
                refuse_newer(value := row.value or {}, path)
            except LogTooNew as error:  # nobody here can tell whether its rows are sound
                yield Defect(session=value.get("session", path.stem), what=str(error))
                return
            for what, seq in inspection.examine(row):
                yield Defect(
                    session=inspection.session, what=f"{path.name}, line {row.number}: {what}", seq=seq
                )
    if cut := inspection.describe_cut(path):
        yield Defect(session=inspection.session, what=cut)


def salvage_file(path: Path) -> Iterator[tuple[str, Place, Entry]]:
    """Yield every entry whose row is good; the file's name stands for a session whose name is lost."""
    session = path.stem
    with map_errors(path), suppress(FileNotFoundError), open_file(path) as file:
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

    def describe_cut(self, path: Path) -> str:
        """Describe what is missing at the end of the file; "" for nothing, and where damage explains it."""
        return "" if self._gap else describe_cut(path, self._version)

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


@dataclass(slots=True)
class _File:
    """The part of a file that has been read."""

    number: int
    session: str
    end: int = 0
    rows: int = 0
    identity: tuple[int, int, bytes] = (0, 0, b"")


class FileSearch:
    """Word index over the rows of many files. Remembers offsets, not texts, so that it stays small."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._words = WordIndex()
        self._files: dict[Path, _File] = {}
        self._file = array("L")
        self._at = array("Q")
        self._size = array("Q")
        """For each text of the word index the number of its file, and its row there."""

    def search(
        self, query: str, paths: Sequence[Path], *, only: Path | None, limit: int, some: bool = False
    ) -> list[SearchHit]:
        """Return the best hits, best first."""
        wanted = [path for path in paths if only in (None, path)]
        if self._files.keys() - set(paths) or not all(map(self._index_new_rows, wanted)):
            self._forget()  # a session was deleted: texts never leave an index
            all(map(self._index_new_rows, wanted))
        if not wanted:
            return []
        session = self._files[wanted[-1]].session
        texts = self._words.select(session if only else None)
        places = list(self._files)
        hits = rank_texts(texts, query, limit=limit, some=some)
        return [found for hit in hits if (found := self._read_hit(hit, places[self._file[hit.text[1]]]))]

    def _index_new_rows(self, path: Path) -> bool:
        """Index the words of the rows that were written since; False if this is another file now."""
        progress = self._files.setdefault(path, _File(len(self._files), path.stem))
        with map_errors(path), suppress(FileNotFoundError), open_file(path) as file:
            if progress.end and identify(file, progress.end) != progress.identity:
                return False
            waiting: list[tuple[Row, str]] = []  # entries count once the head behind them is there
            for row in read_rows(file, progress.end, progress.rows + 1):
                value = row.value if row.terminated else None
                if value and "place" in value:
                    if value["text"] and has_known_kind(value):
                        waiting.append((row._replace(value=None), value["text"]))
                elif value:
                    refuse_newer(value, path)
                    progress.session = value.get("session", progress.session)
                    for entry, text in waiting:
                        self._words.add(text, progress.session)
                        self._file.append(progress.number)
                        self._at.append(entry.at)
                        self._size.append(entry.size)
                    waiting = []
                    progress.end, progress.rows = row.end, row.number
            progress.identity = identify(file, progress.end)
        return True

    def _read_hit(self, hit: TextHit, path: Path) -> SearchHit | None:
        """Read the row of a text; None if it was damaged since it was indexed, which `check` reports."""
        session, text = hit.text
        value = None
        with map_errors(path), suppress(FileNotFoundError), open_file(path) as file:
            value = parse_row(os.pread(file, self._size[text], self._at[text]))
        if value is None:
            return None
        return SearchHit(
            session=session, entry=to_entry(value), place=Place(*value["place"]), score=hit.score
        )
