"""Prune: tool results older than the protected ones give way to a placeholder, in one batch or not at all."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from refold.core.compaction.edits import swap
from refold.core.compaction.placeholders import CLEARED, cleared, is_cleared
from refold.core.compaction.task import Step, Task
from refold.core.messages.message import Message, Text, ToolResult
from refold.core.messages.rewrite import with_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Prune:
    """Clear old tool results behind the newest `protect_tokens` of them, if that saves enough."""

    protect_tokens: int = 40_000
    protect_fraction: float | None = None
    """Never protect more than this share of the room; small windows need it."""
    least_savings: int = 20_000
    least_fraction: float | None = None
    """Never demand more savings than this share of the room."""
    protected_tools: frozenset[str] = frozenset({"skill"})
    handles: bool = False
    """Say by which handle a cleared result can be recalled, where it can."""
    name: str = "prune"
    thins: ClassVar[bool] = True

    def __call__(self, task: Task) -> Step:
        """Propose to clear what is old."""
        old, saved = self._old(task)
        least = _at_most(self.least_savings, self.least_fraction, task.room)
        if not old or saved < least:
            return Step(note=f"clearing would save {saved:,} tokens, {least:,} are demanded")
        edits = [
            swap(
                task.messages,
                index,
                _cleared(task.messages[index], places, self._words(task, index)),
                self.name,
                "old tool results",
            )
            for index, places in sorted(old.items())
        ]
        return Step(tuple(edits), f"{sum(map(len, old.values()))} tool results cleared")

    def _words(self, task: Task, index: int) -> str:
        """What stands for a result."""
        return cleared(task.number(index)) if self.handles and task.recallable else CLEARED

    def _old(self, task: Task) -> tuple[dict[int, set[int]], int]:
        """The results to clear, by message and part, and what that saves."""
        names = _tool_names(task)
        units = task.counter.divisor
        protect = _at_most(self.protect_tokens, self.protect_fraction, task.room) * units
        empty = task.counter.text(CLEARED)
        seen = saved = 0
        old: dict[int, set[int]] = {}
        for index in range(len(task.messages) - 1, -1, -1):
            for place, part in reversed(list(enumerate(task.messages[index].parts))):
                if not isinstance(part, ToolResult) or is_cleared(part.text):
                    continue
                if names.get((index, place), part.name) in self.protected_tools:
                    continue
                size = _size(part, task, index)
                if seen < protect or index in task.protected:
                    seen += size
                elif size > empty:
                    old.setdefault(index, set()).add(place)
                    saved += size - empty
        return old, saved // units


def _size(result: ToolResult, task: Task, index: int) -> int:
    """Units of what a result shows, pictures included."""
    if all(isinstance(part, Text) for part in result.content):
        message, text = task.messages[index], result.text
        if len(message.parts) == 1 and task.counter.visible(message) == text:  # it was counted already
            return task.sizes[index] - task.counter.per_message
        return task.counter.text(text)
    return task.counter.message(Message("tool", (result,))) - task.counter.per_message


def _at_most(tokens: int, fraction: float | None, room: int) -> int:
    return tokens if fraction is None else min(tokens, math.floor(room * fraction))


def _tool_names(task: Task) -> dict[tuple[int, int], str]:
    """The tool each result came from, by the call it answers."""
    names: dict[tuple[int, int], str] = {}
    for result, (index, place) in task.index.links.answers.items():
        names[result] = getattr(task.messages[index].parts[place], "name", "")
    return names


def _cleared(message: Message, places: set[int], words: str) -> Message:
    parts = tuple(
        with_text(part, words) if place in places and isinstance(part, ToolResult) else part
        for place, part in enumerate(message.parts)
    )
    return replace(message, parts=parts)
