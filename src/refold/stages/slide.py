"""Slide: the oldest messages behind the first exchange leave and a marker says so; no model.

Summaries stay, because they stand for what left before, and so does the newest exchange, because somebody
is about to answer it; old markers give way to the new one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from refold.core.compaction.task import Step, Task, replace_runs
from refold.core.messages.message import SUMMARY, Message, Role, Text
from refold.core.messages.summary_headers import TRUNCATION_MARKER
from refold.core.tokens.units import format_count

STEPS: Final = 6
"""How often NeuroLink takes a tenth more before it takes nearly everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slide:
    """Take out a share of the messages behind the first exchange, and more until the goal holds."""

    fraction: float | None = 0.5
    """The share to begin with; None: no more than the goal demands."""
    keep_first: int = 2
    least: int = 4
    """Histories of so few messages are left alone."""
    marker: str = TRUNCATION_MARKER
    role: Role = "system"
    name: str = "slide"

    def __call__(self, task: Task) -> Step:
        """Propose the smallest removal that reaches the goal, or the largest there is."""
        head = task.measured.head
        if len(task.messages) - head <= self.least:
            return Step(note="too few messages")
        put = Message(self.role, (Text(self.marker),), source=SUMMARY, meta={"kind": "notice"})
        leaving = self._leaving(task, head, task.counter.message(put))
        if all(task.messages[index].is_summary for index in leaving):
            return Step(note="nothing may leave")
        edits = replace_runs(task, leaving, (put,), self.name, "oldest messages")
        return Step(edits, f"{format_count(len(leaving), 'message')} removed")

    def _leaving(self, task: Task, head: int, cost: int) -> list[int]:
        """The messages up to the first cut that reaches the goal, else up to the last cut."""
        legal = task.index.cuts
        count = len(task.messages)
        first = legal.after(head + self.keep_first)
        may = [
            index not in task.protected and self._may_leave(task.messages[index]) for index in range(count)
        ]
        gone = list(
            accumulate((size if free else 0 for size, free in zip(task.sizes, may, strict=True)), initial=0)
        )
        total = sum(task.sizes) + task.counter.per_conversation + cost
        end = first
        for cut in self._cuts(count, first):
            end = max(first, legal.before(min(cut, count - 1)))
            saved = gone[end] - gone[first]
            left = task.counter.tokens(total - saved)
            if saved > 0 and (task.goal is None or left <= task.goal):
                break
        return [index for index in range(first, end) if may[index]]

    def _may_leave(self, message: Message) -> bool:
        return not message.is_summary or message.text == self.marker

    def _cuts(self, count: int, first: int) -> Iterator[int]:
        """Where to cut, from the least to the most."""
        if self.fraction is None:
            yield from range(first + 1, count + 1)
            return
        shares = [min(0.95, self.fraction + 0.1 * step) for step in range(STEPS)]
        for share in [*shares, 0.95]:
            removed = int((count - first) * share + 1e-9)
            yield first + removed - removed % 2
        yield count
