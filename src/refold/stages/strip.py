"""Strip: old tool results and old tool arguments that are long give way to a line that says how long."""

from dataclasses import dataclass, replace
from functools import partial

from refold.core.compaction.edits import swap
from refold.core.compaction.task import Step, Task
from refold.core.messages.message import Part, ToolCall, ToolResult
from refold.core.messages.rewrite import map_parts, with_text
from refold.core.tokens.units import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """CodeBuddy's first tier: nothing longer than `limit` characters before the last few messages."""

    keep_messages: int = 4
    limit: int = 200
    name: str = "strip"

    def __call__(self, task: Task) -> Step:
        """Propose a placeholder for each long result and each long argument text."""
        edits = []
        for index in range(len(task.messages) - self.keep_messages):
            message = task.messages[index]
            if index in task.protected or not (message.results or message.calls):
                continue
            stripped = map_parts(message, partial(stripped_part, limit=self.limit))
            if stripped is not message:
                edits.append(swap(task.messages, index, stripped, self.name, "long tool traffic"))
        return Step(tuple(edits), f"{plural(len(edits), 'message')} stripped" if edits else "")


def stripped_part(part: Part, *, limit: int) -> Part:
    """A placeholder where a result or an argument text is over the limit."""
    if isinstance(part, ToolResult) and len(part.text) > limit:
        return with_text(part, f"[Tool result truncated — originally {len(part.text)} chars]")
    if isinstance(part, ToolCall) and isinstance(part.arguments, str) and len(part.arguments) > limit:
        return replace(part, arguments="[args truncated]")
    return part
