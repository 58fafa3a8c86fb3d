"""Texts of Umwelten's strategies: how a thread is shown to the summariser, and the words for what left."""

from collections.abc import Sequence
from dataclasses import dataclass

from refold.core.compaction.task import Task
from refold.core.messages.message import Message
from refold.core.messages.message_text import arguments_text
from refold.core.messages.summary_headers import HEADERS
from refold.core.messages.transcript import media_markers, neutralise
from refold.core.summaries.wrappers import Covered
from refold.policies.systems.earlier_summaries import earlier_summaries


def umwelten_layout(_index: int, message: Message) -> str:
    """Lay out a line with the role, the text, calls with 200 characters of arguments, results of 500."""
    lines = [f"--- {message.role} ---"]
    lines += [_cut(part.text, 500, "… [truncated]") for part in message.results]
    lines += [message.text] if message.text else []
    lines += [f"[Tool call: {call.name}] {_cut(arguments_text(call), 200, '…')}" for call in message.calls]
    return neutralise("\n".join([*lines, *media_markers(message)]))


def _cut(text: str, limit: int, mark: str) -> str:
    return text if len(text) <= limit else text[:limit] + mark


def wrap_for_umwelten(text: str, _covered: Covered) -> str:
    """Say that this is condensed context."""
    return f"{HEADERS['umwelten'].text}\n{text}"


@dataclass(frozen=True, slots=True)
class UmweltenNotice:
    """Says that a stretch was left out, and how many turns stay, if any."""

    keep_turns: int = 0

    def __call__(self, messages: Sequence[Message], _covered: Covered, _task: Task) -> str:
        """Write the notice for messages that leave."""
        stay = f"; last {self.keep_turns} turns retained" if self.keep_turns > 0 else ""
        return "\n".join([f"{HEADERS['umwelten_truncated'].text}{stay}.)", *earlier_summaries(messages)])
