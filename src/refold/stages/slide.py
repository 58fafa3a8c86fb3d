"""Slide: the oldest messages behind the first exchange leave, and a marker says so. Asks no model.

Summaries stay, because they stand for messages that left before. The newest exchange stays, because somebody
is about to answer it. Old markers are replaced by the new one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import ClassVar, Final

from refold.core.compaction.task import Step, Task, replace_runs
from refold.core.messages.message import SUMMARY, Message, Role, Text
from refold.core.messages.summary_headers import TRUNCATION_MARKER
from refold.core.summaries.wrappers import count_messages
from refold.core.tokens.units import format_count

MOST_SHARE: Final = 0.95
"""The largest share to begin with (docs/systems, stage 4); more leaves only where the goal demands it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slide:
    """Take out a share of the messages behind the first exchange, and as many more as the goal demands."""

    drops: ClassVar[bool] = True

    fraction: float | None = 0.5
    """The share to begin with; None: no more than the goal demands. A named share takes an even number of
    messages, so that questions leave with their answers."""
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
        leaving = self._find_leaving(task, head, task.counter.message(put))
        put = replace(
            put, meta={"kind": "notice", "messages": count_messages(task.messages[i] for i in leaving)}
        )
        if all(task.messages[index].is_summary for index in leaving):
            return Step(note="nothing may leave")
        edits = replace_runs(task, leaving, (put,), self.name, "oldest messages")
        return Step(edits, f"{format_count(len(leaving), 'message')} removed")

    def _find_leaving(self, task: Task, head: int, marker_size: int) -> list[int]:
        """Find the messages up to the first cut that reaches the goal, else up to the last cut."""
        legal = task.index.cuts
        count = len(task.messages)
        first = legal.after(head + self.keep_first)
        may_leave = [
            index not in task.protected and (not message.is_summary or message.text == self.marker)
            for index, message in enumerate(task.messages)
        ]
        sizes = (size if free else 0 for size, free in zip(task.sizes, may_leave, strict=True))
        removed = list(accumulate(sizes, initial=0))
        total = sum(task.sizes) + task.counter.per_conversation + marker_size
        end = first
        for cut in self._propose_cuts(count, first):
            end = max(first, legal.before(min(cut, count - 1)))
            saved = removed[end] - removed[first]
            left = task.counter.tokens(total - saved)
            if saved > 0 and (task.goal is None or left <= task.goal):
                break
        return [index for index in range(first, end) if may_leave[index]]

    def _propose_cuts(self, count: int, first: int) -> Iterator[int]:
        """Propose where to cut, from the least to the most."""
        if self.fraction is None:
            yield from range(first + 1, count + 1)
            return
        begin = int((count - first) * min(MOST_SHARE, self.fraction) + 1e-9)  # 0.7 * 10 is less than 7
        yield from range(first + begin - begin % 2, count, 2)
        yield count
