"""Prune: all but the newest tool results are replaced by placeholders, in one batch or not at all."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from refold.core.compaction.edits import replace_message
from refold.core.compaction.placeholders import CLEARED, format_cleared, is_cleared
from refold.core.compaction.task import Step, Task
from refold.core.messages.message import Message, Text, ToolCall, ToolResult
from refold.core.messages.rewrite import replace_result_text


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
    """Name the handle by which a cleared result can be recalled, where it can."""
    name: str = "prune"
    thins: ClassVar[bool] = True

    def __call__(self, task: Task) -> Step:
        """Propose to clear old tool results."""
        old, saved = self._find_old(task)
        least = _limit_to_share(self.least_savings, self.least_fraction, task.room)
        if not old or saved < least:
            return Step(note=f"clearing would save {saved:,} tokens, {least:,} are demanded")
        edits = []
        for index, places in sorted(old.items()):
            with_handle = self.handles and task.recallable
            placeholder = format_cleared(task.number(index)) if with_handle else CLEARED
            parts = tuple(
                replace_result_text(part, placeholder)
                if place in places and isinstance(part, ToolResult)
                else part
                for place, part in enumerate(task.messages[index].parts)
            )
            message = replace(task.messages[index], parts=parts)
            edits.append(replace_message(task.messages, index, message, self.name, "old tool results"))
        return Step(tuple(edits), f"{sum(map(len, old.values()))} tool results cleared")

    def _find_old(self, task: Task) -> tuple[dict[int, set[int]], int]:
        """Find the results to clear, by message and part, and the tokens that this saves."""
        tools = {
            result: part.name
            for result, (index, place) in task.index.links.answers.items()
            if isinstance(part := task.messages[index].parts[place], ToolCall)
        }
        units = task.counter.divisor
        protect = _limit_to_share(self.protect_tokens, self.protect_fraction, task.room) * units
        empty = task.counter.text(CLEARED)
        seen = saved = 0
        old: dict[int, set[int]] = {}
        for index in range(len(task.messages) - 1, -1, -1):
            for place, part in reversed(list(enumerate(task.messages[index].parts))):
                if not isinstance(part, ToolResult) or is_cleared(part.text):
                    continue
                if tools.get((index, place), part.name) in self.protected_tools:
                    continue
                size = _measure_result(part, task, index)
                if seen < protect or index in task.protected:
                    seen += size
                elif size > empty:
                    old.setdefault(index, set()).add(place)
                    saved += size - empty
        return old, saved // units


def _measure_result(result: ToolResult, task: Task, index: int) -> int:
    """Measure what a result shows, pictures included, in units of the counter."""
    if all(isinstance(part, Text) for part in result.content):
        message, text = task.messages[index], result.text
        if len(message.parts) == 1 and task.counter.visible(message) == text:  # it was counted already
            return task.sizes[index] - task.counter.per_message
        return task.counter.text(text)
    return task.counter.message(Message("tool", (result,))) - task.counter.per_message


def _limit_to_share(tokens: int, fraction: float | None, room: int) -> int:
    return tokens if fraction is None else min(tokens, math.floor(room * fraction))
