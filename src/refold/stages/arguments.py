"""Arguments: long arguments of answered tool calls are replaced by a valid object that says how long."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from refold.core.compaction.task import Step, Task, rewrite_messages
from refold.core.messages.message import Part, ToolCall, is_signed_call, json_text
from refold.core.messages.message_text import arguments_text
from refold.core.messages.text_boundaries import boundary_before, well_formed
from refold.core.messages.transcript import parse_arguments
from refold.core.tokens.units import format_count

KEPT_CHARS: Final = 200
"""Shorter arguments stay: paths and names are what later turns refer to."""
SHOWN_CHARS: Final = 80
"""Characters of a long value that stay, so that a reader can tell which it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimArguments:
    """Shorten each long value in the arguments of calls that are not open."""

    drops: ClassVar[bool] = True

    limit: int = 2_000
    name: str = "arguments"

    def __call__(self, task: Task) -> Step:
        """Propose shorter arguments."""
        waiting = task.index.open_calls()
        places = [
            index
            for index, message in enumerate(task.messages)
            if index not in task.protected and index not in waiting and message.calls
        ]
        edits = rewrite_messages(task, places, self._trim_part, self.name, "old arguments")
        return Step(edits, f"arguments of {format_count(len(edits), 'message')} trimmed" if edits else "")

    def _trim_part(self, part: Part) -> Part:
        if not isinstance(part, ToolCall) or is_signed_call(part):
            return part
        text = arguments_text(part)
        if len(text) <= max(self.limit, KEPT_CHARS):
            return part
        arguments: Any = part.arguments
        if not isinstance(arguments, Mapping):
            arguments = parse_arguments(arguments)
        # Long arguments that are no object, or that stay long value by value, are cut as one text.
        short = {"arguments": _shorten_value(text)}
        if isinstance(arguments, Mapping):
            by_value = {str(key): _shorten_value(item) for key, item in arguments.items()}
            short = by_value if len(json_text(by_value)) <= self.limit else short
        return replace(part, arguments=json_text(short) if isinstance(part.arguments, str) else short)


def _shorten_value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json_text(value)
    if len(text) <= KEPT_CHARS:
        return value
    end = boundary_before(text, SHOWN_CHARS)
    return f"{well_formed(text[:end])} [... {len(text) - end} characters left out]"
