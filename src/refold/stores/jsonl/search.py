"""Search over the files of a folder: reads each row once and goes on where it stopped."""

import os
from array import array
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from refold.stores import Found, Place
from refold.stores.disk import errors_of, opened
from refold.stores.jsonl.rows import Row, entry_of, from_row, known_kind, rows
from refold.stores.jsonl.session_file import refuse_newer
from refold.stores.word_index import Hit, Words


@dataclass(slots=True)
class _Read:
    """How far a file has been read."""

    number: int
    session: str = ""
    at: int = 0
    rows: int = 0


class FileWords:
    """Which rows of which files have which words."""

    def __init__(self) -> None:
        self._words = Words()
        self._files: dict[Path, _Read] = {}
        self._paths: list[Path] = []
        self._file = array("L")
        self._at = array("Q")
        self._size = array("Q")

    def search(
        self, query: str, paths: Sequence[Path], *, only: Path | None, limit: int, some: bool = False
    ) -> list[Found]:
        """The best hits, best first."""
        if only is not None:
            paths = [path for path in paths if path == only]
        for path in paths:
            self._catch_up(path)
        among = None
        if only is not None:
            wanted = self._files[only].number if only in self._files else -1

            def among(text: int) -> bool:
                return self._file[text] == wanted

        hits = self._words.search(query, limit=limit, among=among, some=some)
        return [found for hit in hits if (found := self._found(hit))]

    def _catch_up(self, path: Path) -> None:
        known = self._files.get(path)
        if known is None:
            known = self._files[path] = _Read(len(self._paths))
            self._paths.append(path)
        with errors_of(path), suppress(FileNotFoundError), opened(path) as file:
            waiting: list[tuple[Row, str]] = []
            for row in rows(file, known.at, known.rows + 1):
                value = row.value if row.whole else None
                if value and "place" in value:
                    if value["text"] and known_kind(value):
                        waiting.append((Row(row.number, row.at, row.size, None), value["text"]))
                elif value:
                    refuse_newer(value, path)
                    known.session = value.get("session", known.session)
                    for entry, text in waiting:
                        self._add(known.number, entry, text)
                    waiting = []
                    known.at, known.rows = row.end, row.number

    def _add(self, number: int, row: Row, text: str) -> None:
        self._words.add(text)
        self._file.append(number)
        self._at.append(row.at)
        self._size.append(row.size)

    def _found(self, hit: Hit) -> Found | None:
        path = self._paths[self._file[hit.text]]
        with errors_of(path), opened(path) as file:
            value = from_row(os.pread(file, self._size[hit.text], self._at[hit.text]))
        if value is None:
            return None  # damaged since it was read: a check tells
        return Found(
            session=self._files[path].session,
            entry=entry_of(value),
            place=Place(*value["place"]),
            score=hit.score,
        )
