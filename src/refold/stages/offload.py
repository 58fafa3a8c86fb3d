"""Offload: pictures and files older than the tail leave, and a marker stands for each."""

from dataclasses import dataclass, replace
from typing import ClassVar

from refold.core.compaction.cuts import Keep
from refold.core.compaction.edits import swap
from refold.core.compaction.task import Step, Task
from refold.core.messages.message import Document, File, Image, Part, Text, ToolResult
from refold.core.messages.rewrite import map_parts
from refold.core.tokens.units import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    """Replace media by markers, before the tail or everywhere."""

    keep: Keep | None = None
    """What is recent; None: nothing is."""
    name: str = "offload"
    thins: ClassVar[bool] = True

    def __call__(self, task: Task) -> Step:
        """Propose markers."""
        end = len(task.messages)
        if self.keep is not None:
            segment = self.keep.segment(task.measured)
            end = 0 if segment is None else segment.end
        edits = []
        for index in range(end):
            message = task.messages[index]
            if index in (task.pinned if self.keep is None else task.protected) or not _shows(message.parts):
                continue
            marked = map_parts(message, marker)
            if marked is not message:
                edits.append(swap(task.messages, index, marked, self.name, "media"))
        return Step(tuple(edits), f"media of {plural(len(edits), 'message')} offloaded" if edits else "")


def _shows(parts: tuple[Part, ...]) -> bool:
    """Whether there may be something to offload; most messages are words alone."""
    return any(
        _shows(part.content) if type(part) is ToolResult else type(part) in (Image, Document, File)
        for part in parts
    )


def marker(part: Part) -> Part:
    """A line of text that stands for a picture, a document or a file."""
    if isinstance(part, Image):
        return Text(f"[image {part.media_type or ''} was here; left out to make room]".replace("  ", " "))
    if isinstance(part, Document | File) and (part.data or part.url):
        name = part.title if isinstance(part, Document) else part.name
        return Text(f"[file {name or part.media_type or 'without a name'} was here; left out to make room]")
    if isinstance(part, ToolResult):
        content = tuple(marker(inner) for inner in part.content)
        changed = any(new is not old for new, old in zip(content, part.content, strict=True))
        return replace(part, content=content) if changed else part
    return part
