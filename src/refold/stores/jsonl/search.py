"""Full-text search over the files of a folder: reads each row once and continues where it stopped."""

import os
from array import array
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from refold.stores import Place, SearchHit
from refold.stores.disk import map_errors, open_file
from refold.stores.jsonl.rows import Row, has_known_kind, parse_row, read_rows, refuse_newer, to_entry
from refold.stores.word_index import TextHit, WordIndex


@dataclass(slots=True)
class _Progress:
    """How far a file has been read."""

    number: int
    session: str = ""
    at: int = 0
    rows: int = 0


class FileSearch:
    """Word index over the rows of many files. Remembers offsets, not texts, so that it stays small."""

    def __init__(self) -> None:
        self._words = WordIndex()
        self._files: dict[Path, _Progress] = {}
        self._paths: list[Path] = []
        self._file = array("L")
        self._at = array("Q")
        self._size = array("Q")
        """For each text of the word index its file, and its row there."""

    def search(
        self, query: str, paths: Sequence[Path], *, only: Path | None, limit: int, some: bool = False
    ) -> list[SearchHit]:
        """Return the best hits, best first."""
        for path in paths:
            if only is None or path == only:
                self._index_new_rows(path)
        among = None
        if only is not None:
            wanted = self._files[only].number if only in self._files else -1

            def among(text: int) -> bool:
                return self._file[text] == wanted

        hits = self._words.search(query, limit=limit, among=among, some=some)
        return [hit for text_hit in hits if (hit := self._read_hit(text_hit))]

    def _index_new_rows(self, path: Path) -> None:
        progress = self._files.get(path)
        if progress is None:
            progress = self._files[path] = _Progress(len(self._paths))
            self._paths.append(path)
        with map_errors(path), suppress(FileNotFoundError), open_file(path) as file:
            waiting: list[tuple[Row, str]] = []  # entries count once the head behind them is there
            for row in read_rows(file, progress.at, progress.rows + 1):
                value = row.value if row.terminated else None
                if value and "place" in value:
                    if value["text"] and has_known_kind(value):
                        waiting.append((row._replace(value=None), value["text"]))
                elif value:
                    refuse_newer(value, path)
                    progress.session = value.get("session", progress.session)
                    for entry, text in waiting:
                        self._words.add(text)
                        self._file.append(progress.number)
                        self._at.append(entry.at)
                        self._size.append(entry.size)
                    waiting = []
                    progress.at, progress.rows = row.end, row.number

    def _read_hit(self, hit: TextHit) -> SearchHit | None:
        path = self._paths[self._file[hit.text]]
        with map_errors(path), open_file(path) as file:
            value = parse_row(os.pread(file, self._size[hit.text], self._at[hit.text]))
        if value is None:
            return None  # damaged since it was indexed: `check` reports it
        return SearchHit(
            session=self._files[path].session,
            entry=to_entry(value),
            place=Place(*value["place"]),
            score=hit.score,
        )
