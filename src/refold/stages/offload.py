"""Offload: pictures and files leave, and a marker stands for each."""

from dataclasses import dataclass, replace
from typing import ClassVar

from refold.core.compaction.task import Step, Task, rewrite_messages
from refold.core.messages.message import Document, File, Image, Part, Text, ToolResult
from refold.core.tokens.units import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    """Replace media by markers."""

    drops: ClassVar[bool] = True

    name: str = "offload"

    def __call__(self, task: Task) -> Step:
        """Propose markers."""
        places = [
            index
            for index, message in enumerate(task.messages)
            if index not in task.pinned and has_media(message.parts)
        ]
        edits = rewrite_messages(task, places, make_marker, self.name, "media")
        return Step(edits, f"media of {format_count(len(edits), 'message')} offloaded" if edits else "")


def has_media(parts: tuple[Part, ...]) -> bool:
    """True if there may be something to offload; most messages are words alone."""
    return any(
        has_media(part.content) if type(part) is ToolResult else type(part) in (Image, Document, File)
        for part in parts
    )


def make_marker(part: Part) -> Part:
    """Make a line of text that stands for a picture, a document or a file; other parts stay."""
    if isinstance(part, Image):
        return Text(f"[image {part.media_type or ''} was here; left out to make room]".replace("  ", " "))
    if isinstance(part, Document | File) and (part.data or part.url):
        name = part.title if isinstance(part, Document) else part.name
        return Text(f"[file {name or part.media_type or 'without a name'} was here; left out to make room]")
    if isinstance(part, ToolResult):
        content = tuple(make_marker(inner) for inner in part.content)
        changed = any(new is not old for new, old in zip(content, part.content, strict=True))
        return replace(part, content=content) if changed else part
    return part
