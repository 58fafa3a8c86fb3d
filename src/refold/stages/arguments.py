"""Arguments: long arguments of old, answered tool calls give way to a valid object that says how long."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from refold.core.compaction.cuts import Keep
from refold.core.compaction.edits import swap
from refold.core.compaction.task import Step, Task
from refold.core.messages.message import Part, ToolCall
from refold.core.messages.message_text import arguments_text, json_text
from refold.core.messages.rewrite import map_parts
from refold.core.messages.text_cutting import boundary_before, well_formed
from refold.core.messages.transcript import parse_arguments
from refold.core.tokens.units import plural

KEPT_CHARS: Final = 200
"""Short arguments stay: paths and names are what later turns refer to."""
SHOWN_CHARS: Final = 80
"""The beginning of a long value that stays, so that one can tell which it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimArguments:
    """Shorten each long value in the arguments of calls before the tail."""

    keep: Keep | None = None
    """What is recent; None: only open calls are."""
    limit: int = 2_000
    name: str = "arguments"
    thins: ClassVar[bool] = True

    def __call__(self, task: Task) -> Step:
        """Propose shorter arguments."""
        end = len(task.messages)
        if self.keep is not None:
            segment = self.keep.segment(task.measured)
            end = 0 if segment is None else segment.end
        waiting = task.index.open_calls()
        edits = []
        for index in range(end):
            message = task.messages[index]
            if index in task.protected or index in waiting or not message.calls:
                continue
            trimmed = map_parts(message, self._trimmed)
            if trimmed is not message:
                edits.append(swap(task.messages, index, trimmed, self.name, "old arguments"))
        return Step(tuple(edits), f"arguments of {plural(len(edits), 'message')} trimmed" if edits else "")

    def _trimmed(self, part: Part) -> Part:
        if not isinstance(part, ToolCall):
            return part
        text = arguments_text(part)
        if len(text) <= max(self.limit, KEPT_CHARS):
            return part
        value: Any = part.arguments if isinstance(part.arguments, Mapping) else parse_arguments(part.arguments)
        short = {"arguments": _short(text)}
        if isinstance(value, Mapping):
            short = {str(key): _short(item) for key, item in value.items()}
        if len(json_text(short)) > self.limit:
            short = {"arguments": _short(text)}
        shown = json_text(short) if isinstance(part.arguments, str) else short
        return replace(part, arguments=shown)


def _short(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json_text(value)
    if len(text) <= KEPT_CHARS:
        return value
    kept = boundary_before(text, SHOWN_CHARS)
    return f"{well_formed(text[:kept])} [... {len(text) - kept} characters left out]"
