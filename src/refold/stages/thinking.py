"""Thinking: reasoning of turns that are over leaves, each block whole; that of the latest turn stays."""

from dataclasses import dataclass
from typing import ClassVar

from refold.core.compaction.cuts import turn_starts
from refold.core.compaction.edits import swap
from refold.core.compaction.task import Step, Task
from refold.core.messages.message import Part, Thinking
from refold.core.messages.rewrite import map_parts
from refold.core.tokens.units import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class DropThinking:
    """Take thinking out of messages before the user's last turn that hold something else as well."""

    name: str = "thinking"
    thins: ClassVar[bool] = True

    def __call__(self, task: Task) -> Step:
        """Propose messages without their thinking."""
        turns = turn_starts(task.messages)
        edits = []
        for index in range(turns[-1] if turns else 0):
            message = task.messages[index]
            if index in task.protected or all(isinstance(part, Thinking) for part in message.parts):
                continue
            bare = map_parts(message, _without)
            if bare is not message:
                edits.append(swap(task.messages, index, bare, self.name, "old thinking"))
        return Step(tuple(edits), f"thinking of {plural(len(edits), 'message')} dropped" if edits else "")


def _without(part: Part) -> Part | None:
    return None if isinstance(part, Thinking) else part
