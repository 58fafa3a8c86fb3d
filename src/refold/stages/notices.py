"""The few words that stand for a stretch of history where no model is asked, as each system writes them."""

from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass

from refold.core.compaction.task import Task
from refold.core.messages import summary_headers
from refold.core.messages.message import Message
from refold.core.messages.text_cutting import first_line
from refold.core.summaries.wrappers import Covered, bare
from refold.core.summaries.wrappers import opal as opal_frame

TOPICS = 10
"""How many topics CodeBuddy lists at most."""


def codebuddy(messages: Sequence[Message], covered: Covered, _task: Task) -> str:
    """How many messages of each kind, and the first line of what the user asked; an earlier summary stays."""
    fresh = [message for message in messages if not message.is_summary]
    asked = [message for message in fresh if message.is_user_turn]
    answers = sum(message.role == "assistant" for message in fresh)
    results = sum(len(message.results) for message in fresh)
    lines = [
        summary_headers.codebuddy_plain_line(covered.messages),
        f"User messages: {len(asked)}, Assistant responses: {answers}, Tool calls: {results}",
    ]
    topics = [topic for topic in (first_line(message.text) for message in asked) if topic]
    if topics:
        lines += ["Topics discussed:", *(f"- {topic}" for topic in topics[:TOPICS])]
    return "\n".join(lines + _earlier(messages))


def opal(messages: Sequence[Message], covered: Covered, _task: Task) -> str:
    """How many messages of each role, and the files."""
    roles = Tally("tool_result" if message.results else message.role for message in messages)
    counts = ", ".join(f"{count} {role}" for role, count in sorted(roles.items()))
    said = "\n".join([f"[Compacted {len(messages)} messages: {counts}]", *_earlier(messages)])
    return opal_frame(said, covered)


@dataclass(frozen=True, slots=True)
class Umwelten:
    """Say that a stretch was left out, and how many turns stay, if any."""

    keep_turns: int = 0

    def __call__(self, messages: Sequence[Message], _covered: Covered, _task: Task) -> str:
        """One line, true in every word."""
        stay = f"; last {self.keep_turns} turns retained" if self.keep_turns > 0 else ""
        return "\n".join([f"{summary_headers.UMWELTEN_TRUNCATED}{stay}.)", *_earlier(messages)])


def _earlier(messages: Sequence[Message]) -> list[str]:
    """Earlier summaries that leave with the rest, so that what they kept is kept."""
    return [
        bare(message) for message in messages if message.is_summary and message.meta.get("kind") == "summary"
    ]
