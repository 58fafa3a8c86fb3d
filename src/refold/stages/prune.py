"""Prune: all but the newest tool results are replaced by placeholders, in one batch or not at all."""

from dataclasses import dataclass, replace

from refold.core.compaction.edits import replace_message
from refold.core.compaction.placeholders import CLEARED, is_cleared
from refold.core.compaction.task import Step, Task
from refold.core.messages.message import Message, Text, ToolCall, ToolResult, replace_result_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Prune:
    """Clear old tool results behind the newest `protect_tokens` of them, if that saves enough."""

    protect_tokens: int = 40_000
    least_savings: int = 20_000
    protected_tools: frozenset[str] = frozenset({"skill"})
    name: str = "prune"

    def __call__(self, task: Task) -> Step:
        """Propose to clear old tool results."""
        old, saved = self._find_old(task)
        if not old or saved < self.least_savings:
            return Step(note=f"clearing would save {saved:,} tokens, {self.least_savings:,} are demanded")
        edits = []
        for index, places in sorted(old.items()):
            parts = tuple(
                replace_result_text(part, CLEARED)
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
        protect = self.protect_tokens * units
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
