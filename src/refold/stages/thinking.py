"""Thinking: reasoning of turns that are over leaves, each block whole; that of the latest turn stays."""

from dataclasses import dataclass

from refold.core.compaction.bound_thinking import is_bound
from refold.core.compaction.keep_rules import find_turn_starts
from refold.core.compaction.task import Step, Task, rewrite_messages
from refold.core.messages.message import Part, Thinking
from refold.core.tokens.units import format_count


@dataclass(frozen=True, slots=True, kw_only=True)
class DropThinking:
    """Take thinking out of messages before the user's last turn that hold something else as well.

    Reasoning in plain text stays beside a call: Kimi and DeepSeek refuse a call of any turn without it.
    """

    name: str = "thinking"

    def __call__(self, task: Task) -> Step:
        """Propose messages without their thinking."""
        turns = find_turn_starts(task.messages)
        # A message that is nothing but thinking stays: without it the message it led to may be refused.
        places = [
            index
            for index in range(turns[-1] if turns else 0)
            if index not in task.protected
            and not all(isinstance(part, Thinking) for part in task.messages[index].parts)
        ]
        calling = [index for index in places if task.messages[index].calls]
        others = [index for index in places if not task.messages[index].calls]
        edits = (
            *rewrite_messages(task, calling, _drop_bound, self.name, "old thinking"),
            *rewrite_messages(task, others, _drop_thinking, self.name, "old thinking"),
        )
        return Step(edits, f"thinking of {format_count(len(edits), 'message')} dropped" if edits else "")


def _drop_thinking(part: Part) -> Part | None:
    return None if isinstance(part, Thinking) else part


def _drop_bound(part: Part) -> Part | None:
    return None if isinstance(part, Thinking) and is_bound(part) else part
