"""Clip: a single tool output that is larger than a tool output should be is cut, and says so."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from refold.core.compaction.task import Step, Task, rewrite_messages
from refold.core.messages.message import Message, Part, ToolResult, replace_texts
from refold.core.messages.text_cutting import clip
from refold.core.tokens.units import format_count

LONGEST_CHARACTER: Final = 4
"""Bytes that a character has at most in UTF-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """Limit each tool output to a number of bytes and lines."""

    max_bytes: int = 51_200
    max_lines: int = 2_000
    keep: Literal["head", "tail", "both"] = "tail"
    save_to: Callable[[str], str] | None = None
    """Stores the full text and returns where."""
    on_arrival: bool = False
    """True to limit each output when it arrives, whether or not it is time to compact."""
    name: str = "clip"

    def __call__(self, task: Task) -> Step:
        """Propose shorter outputs."""
        places = [
            index
            for index, message in enumerate(task.messages)
            if index not in task.protected and any(map(self._may_be_huge, message.parts))
        ]
        edits = rewrite_messages(task, places, self._clip_part, self.name, "huge tool output")
        return Step(edits, f"{format_count(len(edits), 'output')} clipped" if edits else "")

    def limits(self, message: Message) -> bool:
        """True if an output of this message is over the limits."""
        results = (part for part in message.parts if isinstance(part, ToolResult) and self._may_be_huge(part))
        return any(self._is_over(part.text) for part in results)

    def _is_over(self, text: str) -> bool:
        return clip(text, max_bytes=self.max_bytes, max_lines=self.max_lines).clipped

    def _may_be_huge(self, part: Part) -> bool:
        """True if a part is worth a closer look: no text has more lines than characters."""
        if type(part) is not ToolResult:
            return False
        length = len(part.text)
        return length >= self.max_lines or length * LONGEST_CHARACTER > self.max_bytes

    def _clip_part(self, part: Part) -> Part:
        if not isinstance(part, ToolResult) or not self._is_over(part.text):
            return part
        lines = max(0, self.max_lines - 1)  # the notice is a line, too
        limits = {"max_bytes": self.max_bytes, "max_lines": lines}
        clipped = clip(part.text, **limits, keep=self.keep, save_to=self.save_to)
        return replace_texts(part, (clipped.text,))
