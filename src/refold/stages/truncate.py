"""Truncate: a stretch of the history leaves and a few words made without a model stand in its place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from refold.core.compaction.cuts import Keep
from refold.core.compaction.task import Step, Task, replace_runs
from refold.core.messages import file_operations
from refold.core.messages.file_operations import Vocabulary
from refold.core.messages.message import SUMMARY, Message, Role, Text
from refold.core.summaries.wrappers import Covered, Worded, cover, facts
from refold.core.tokens.units import plural

Words = Callable[[Sequence[Message], Covered, Task], str | Worded]


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """Say in words of our own what leaves."""

    keep: Keep
    words: Words
    role: Role = "user"
    name: str = "truncate"
    vocabulary: Vocabulary = file_operations.HOUSE

    def __call__(self, task: Task) -> Step:
        """Propose a notice in place of what leaves."""
        segment = self.keep.segment(task.measured)
        if segment is None:
            return Step(note="nothing may leave yet")
        leaving = task.leaving(segment)
        messages = [task.original(index) for index in leaving]
        if all(message.is_summary for message in messages):
            return Step(note="nothing new would leave")
        request = task.request(segment)
        covered = cover(
            task.messages,
            leaving,
            vocabulary=self.vocabulary,
            span=task.span(leaving),
            request=request,
        )
        told = self.words(messages, covered, task)
        worded = Worded(told) if isinstance(told, str) else told
        meta = {**facts(covered, "notice"), **worded.meta}
        put = Message(self.role, (Text(worded.text),), source=SUMMARY, meta=meta)
        why = f"{plural(len(leaving), 'message')} told in a few words"
        return Step(replace_runs(task, leaving, (put,), self.name, why), why, facts=worded.facts)
