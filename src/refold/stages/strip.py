"""Strip: old tool results and old argument texts that are long are replaced by a line that says how long."""

from dataclasses import dataclass, replace
from functools import partial

from refold.core.compaction.task import Step, Task, rewrite_messages
from refold.core.messages.message import Part, ToolCall, ToolResult, is_signed_call, replace_result_text
from refold.core.tokens.units import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """Leave nothing longer than `limit` characters in tool traffic before the last few messages."""

    keep_messages: int = 4
    limit: int = 200
    name: str = "strip"

    def __call__(self, task: Task) -> Step:
        """Propose a placeholder for each long result and each long argument text."""
        places = [i for i in range(len(task.messages) - self.keep_messages) if i not in task.protected]
        change = partial(strip_part, limit=self.limit)
        edits = rewrite_messages(task, places, change, self.name, "long tool traffic")
        return Step(edits, f"{format_count(len(edits), 'message')} stripped" if edits else "")


def strip_part(part: Part, *, limit: int) -> Part:
    """Replace a result or an argument text over the limit by a placeholder."""
    if isinstance(part, ToolResult) and len(part.text) > limit:
        return replace_result_text(part, f"[Tool result truncated — originally {len(part.text)} chars]")
    is_long = isinstance(part, ToolCall) and isinstance(part.arguments, str) and len(part.arguments) > limit
    if isinstance(part, ToolCall) and is_long and not is_signed_call(part):
        return replace(part, arguments="[args truncated]")
    return part
