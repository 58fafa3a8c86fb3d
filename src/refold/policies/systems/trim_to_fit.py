"""CodeBuddy's trimming: where a summary is not enough, the oldest messages behind it are dropped."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from refold.core.compaction.flow import Flow
from refold.core.compaction.keep_rules import Segment
from refold.core.compaction.task import Step, Task, replace_runs
from refold.core.messages.message import Message, Text
from refold.core.summaries.wrappers import cover, summary_meta
from refold.core.tokens.units import format_count
from refold.stages.summarize import Summarize


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimToFit:
    """Summarise; where the result is over the goal, drop messages behind the summary, the oldest first."""

    asks: ClassVar[bool] = True
    tells: ClassVar[bool] = True

    stage: Summarize
    keep_messages: int
    """Messages at the end that are never dropped."""

    @property
    def name(self) -> str:
        """The name of the stage that summarises."""
        return self.stage.name

    def __call__(self, task: Task) -> Step | Flow[Step]:
        """Propose a summary, and which messages behind it are dropped."""
        proposal = self.stage(task)
        return proposal if isinstance(proposal, Step) else self._trim(task, proposal)

    def _trim(self, task: Task, summarise: Flow[Step]) -> Flow[Step]:
        step = yield from summarise
        if not step.edits:
            return step
        taken = [index for edit in step.edits for index in range(edit.start, edit.end)]
        summary = step.edits[-1].put[0]
        dropped = self._find_dropped(task, taken, summary)
        if not dropped:
            return step
        put = self._tell(task, [*taken, *dropped], summary, len(dropped))
        why = f"{step.note}, {format_count(len(dropped), 'message')} behind them dropped"
        edits = replace_runs(task, [*taken, *dropped], (put,), self.name, why)
        return replace(step, edits=edits, note=why)

    def _find_dropped(self, task: Task, taken: Sequence[int], summary: Message) -> list[int]:
        """Find the fewest messages whose removal reaches the goal; none where no removal does."""
        legal = task.index.cuts
        end = legal.before(max(0, len(task.messages) - self.keep_messages))
        free = [
            index
            for index in range(taken[-1] + 1, end)
            if index not in task.protected and not task.messages[index].is_summary
        ]
        left = sum(task.sizes) + task.counter.per_conversation - sum(task.sizes[index] for index in taken)
        if task.goal is None or task.counter.tokens(left + task.counter.message(summary)) <= task.goal:
            return []
        left += task.counter.message(self._tell(task, [*taken, *free], summary, len(free)))
        for number, index in enumerate(free, 1):
            left -= task.sizes[index]
            if task.counter.tokens(left) <= task.goal and legal.allows(index + 1):
                return free[:number]
        return []

    def _tell(self, task: Task, leaving: Sequence[int], summary: Message, dropped: int) -> Message:
        """Write the summary again so that it says how many messages are missing in it."""
        covered = cover(
            task.messages,
            leaving,
            vocabulary=self.stage.vocabulary,
            span=task.span(leaving),
            request=task.request(Segment(leaving[0], leaving[-1] + 1)),
        )
        note = f"[{format_count(dropped, 'message')} behind it dropped to fit context window]"
        text = f"{summary.meta['text']}\n\n{note}"
        meta = dict(summary.meta) | summary_meta(covered, "summary") | {"text": text}
        return replace(summary, parts=(Text(self.stage.frame(text, covered)),), meta=meta)
