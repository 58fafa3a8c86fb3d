"""Dedupe: of several reads of one file only the latest stays; earlier ones point to it.

The pointer is true: the latest read is below, shows the file, and covers what the earlier one showed (the
same piece of the file, or all of it). A read that was cut stands in only for reads that were cut as well. If
a later stage cuts or drops the latest read, the pipeline rewrites the pointers to it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from refold.core.compaction.edits import replace_message
from refold.core.compaction.placeholders import (
    format_pointer,
    is_placeholder,
    is_whole,
    normalize_path,
    replace_answer,
    result_text,
)
from refold.core.compaction.task import Step, Task
from refold.core.messages.file_operations import FileRead, find_file_reads
from refold.core.messages.message import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Dedupe:
    """Point from earlier reads of a file to the latest one."""

    least_saving: float = 0.30
    """Share of the superseded text that must be saved (docs/systems); less is not worth the broken cache."""
    name: str = "dedupe"

    def __call__(self, task: Task) -> Step:
        """Propose pointers for superseded reads."""
        pointers: dict[int, dict[int, str]] = {}
        for read in _find_superseded(task.messages):
            if read.message not in task.protected:
                pointers.setdefault(read.message, {})[read.part] = format_pointer(read.path)
        before = after = 0
        for index, by_place in pointers.items():
            for place, pointer in by_place.items():
                before += task.counter.text(result_text(task.messages[index].parts[place]))
                after += task.counter.text(pointer)
        if not pointers or before - after < before * self.least_saving:
            return Step(note="no read of a file is superseded" if not pointers else "the reads are small")
        edits = []
        for index, by_place in sorted(pointers.items()):
            parts = list(task.messages[index].parts)
            for place, pointer in by_place.items():
                parts[place] = replace_answer(parts[place], pointer)
            message = replace(task.messages[index], parts=tuple(parts))
            edits.append(replace_message(task.messages, index, message, self.name, "read again"))
        return Step(tuple(edits), f"{sum(map(len, pointers.values()))} superseded reads")


def _find_superseded(messages: Sequence[Message]) -> Iterator[FileRead]:
    """Find reads that a later read covers."""
    by_path: dict[str, list[FileRead]] = {}
    for read in find_file_reads(messages):
        by_path.setdefault(normalize_path(read.path), []).append(read)
    for reads in by_path.values():
        whole: set[str] = set()
        cut: set[str] = set()
        for read in reversed(reads):
            text = result_text(messages[read.message].parts[read.part])
            if is_placeholder(text):
                continue
            later = whole if is_whole(text) else whole | cut
            if read.extent in later or "" in later:  # "" is a read of the whole file
                yield read
            else:
                (whole if is_whole(text) else cut).add(read.extent)
