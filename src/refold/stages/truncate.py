"""Truncate: a segment of the history leaves and a few words written without a model stand in its place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from refold.core.compaction.keep_rules import Keep
from refold.core.compaction.task import Step, Task, replace_runs
from refold.core.messages import file_operations
from refold.core.messages.file_operations import Vocabulary
from refold.core.messages.message import SUMMARY, Message, Role, Text
from refold.core.summaries.wrappers import Covered, WordedSummary, cover, summary_meta
from refold.core.tokens.units import format_count

Words = Callable[[Sequence[Message], Covered, Task], str | WordedSummary]


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """Replace what leaves by a text that a function writes."""

    tells: ClassVar[bool] = True

    keep: Keep
    words: Words
    """Writes the text, from what leaves."""
    role: Role = "user"
    name: str = "truncate"
    vocabulary: Vocabulary = file_operations.COMMON_TOOLS

    def __call__(self, task: Task) -> Step:
        """Propose a text in place of what leaves."""
        segment = self.keep.segment(task.measured)
        if segment is None:
            return Step(note="nothing may leave yet")
        leaving = task.leaving(segment)
        messages = [task.as_said(index) for index in leaving]
        if all(message.is_summary for message in messages):
            return Step(note="nothing new would leave")
        covered = cover(
            task.messages,
            leaving,
            vocabulary=self.vocabulary,
            span=task.span(leaving),
            request=task.request(segment),
        )
        words = self.words(messages, covered, task)
        summary = WordedSummary(words) if isinstance(words, str) else words
        meta = {**summary_meta(covered, "notice"), **summary.meta}
        put = Message(self.role, (Text(summary.text),), source=SUMMARY, meta=meta)
        why = f"{format_count(len(leaving), 'message')} told in a few words"
        return Step(replace_runs(task, leaving, (put,), self.name, why), why, facts=summary.facts)
