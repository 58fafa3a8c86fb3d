"""Dedupe: of several reads of one file only the latest stays; earlier ones point to it.

The pointer is true: the latest read is below, shows the file, and covers what the earlier one showed (the
same piece of the file, or all of it). A read that was cut stands in only for reads that were cut as well.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from refold.core.compaction.edits import swap
from refold.core.compaction.placeholders import is_placeholder, is_whole, plain, pointer, shown
from refold.core.compaction.task import Step, Task
from refold.core.messages.file_operations import FileRead, reads
from refold.core.messages.message import Message, Part, Text, ToolResult
from refold.core.messages.rewrite import with_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Dedupe:
    """Point from earlier reads of a file to the latest one."""

    least_saving: float = 0.30
    """The share of the superseded text that must be saved."""
    name: str = "dedupe"
    thins: ClassVar[bool] = True

    def __call__(self, task: Task) -> Step:
        """Propose pointers for superseded reads."""
        pointers = {
            (read.message, read.part): pointer(read.path)
            for read in _superseded(task.messages)
            if read.message not in task.protected
        }
        before = after = 0
        for (index, place), text in pointers.items():
            before += task.counter.text(shown(task.messages[index].parts[place]))
            after += task.counter.text(text)
        if not pointers or before - after < before * self.least_saving:
            return Step(note="no read of a file is superseded" if not pointers else "the reads are small")
        edits = []
        for index in sorted({index for index, _ in pointers}):
            places = {place: text for (at, place), text in pointers.items() if at == index}
            pointing = _pointing(task.messages[index], places)
            edits.append(swap(task.messages, index, pointing, self.name, "read again"))
        return Step(tuple(edits), f"{len(pointers)} superseded reads")


def _superseded(messages: Sequence[Message]) -> Iterator[FileRead]:
    """Reads that a later read covers."""
    by_path: dict[str, list[FileRead]] = {}
    for read in reads(messages):
        by_path.setdefault(plain(read.path), []).append(read)
    for group in by_path.values():
        whole: set[str] = set()
        cut: set[str] = set()
        for read in reversed(group):
            text = shown(messages[read.message].parts[read.part])
            if is_placeholder(text):
                continue
            later = whole if is_whole(text) else whole | cut
            if read.extent in later or "" in later:
                yield read
            else:
                (whole if is_whole(text) else cut).add(read.extent)


def _pointing(message: Message, places: Mapping[int, str]) -> Message:
    return replace(
        message,
        parts=tuple(
            _saying(part, places[place]) if place in places else part
            for place, part in enumerate(message.parts)
        ),
    )


def _saying(part: Part, text: str) -> Part:
    return with_text(part, text) if isinstance(part, ToolResult) else Text(text)
