"""Is an answer a summary of what leaves? The checks of `core.summaries` with what one fold knows."""

from collections.abc import Iterable
from dataclasses import dataclass

from refold.core.compaction.flow import Reply
from refold.core.messages.message_text import full_text
from refold.core.messages.speakers import find_speaker
from refold.core.summaries.acceptance import (
    GOES_ON,
    continues_conversation,
    is_stand_in,
    reject_copy,
    reject_reply,
    reject_text,
    reject_thin,
)
from refold.core.summaries.tidy import tidy_summary
from refold.stages.prompts import load
from refold.stages.requests import Leaving, Rejected, answer_text


@dataclass(frozen=True, slots=True)
class SummaryJudge:
    """Turns down answers that are no summary; each reason is in words, "" is none."""

    prompt: str
    """Name of the prompt file."""
    output_tokens: int
    least_gain: float
    """Share of what leaves that must be saved."""
    compares: bool
    """True if texts are compared with the conversation."""

    def reject(self, leaving: Leaving, text: str | Rejected) -> str:
        """Return why a text is no summary, if asking again may help."""
        if isinstance(text, Rejected):
            return text.why if text.worth_retry else ""
        if not text or is_stand_in(text):
            return ""
        speakers = [(find_speaker(message), message.text[:2_000]) for message in leaving.messages]
        conversation = "\n".join(said for speaker, said in speakers if speaker in {"user", "assistant"})
        answers = [said for speaker, said in speakers if speaker == "assistant"]
        sources = map(full_text, leaving.originals)
        replaced = leaving.task.counter.tokens(leaving.units)
        why = self._judge(leaving, text, conversation, sources=sources, replaced=replaced)
        return why or reject_copy(text, conversation, answers)

    def reject_answer(self, leaving: Leaving, about: str, text: str) -> str:
        """Return why one of several answers is no summary of what it was asked about."""
        replaced = leaving.task.counter.plain(about)
        return self._judge(leaving, text, about, sources=(about,), replaced=replaced)

    def tidy(self, text: str) -> str:
        """Return a text without what tells nothing."""
        return tidy_summary(text, self._asked)

    @property
    def _asked(self) -> str:
        return "\n".join(load(self.prompt).values())

    def reject_reply(self, reply: Reply) -> str:
        """Return why a reply to a question is no summary; a merged text would hide how its parts begin."""
        why = reject_reply(reply)
        goes_on = not why and self.compares and continues_conversation(answer_text(reply))
        return GOES_ON if goes_on else why

    def _judge(
        self, leaving: Leaving, text: str, conversation: str, *, sources: Iterable[str], replaced: int
    ) -> str:
        tokens = leaving.task.counter.plain(text)
        # A text that saves too little is rejected for that; only a shorter one can be too long for its limit.
        gains = tokens < replaced * (1 - self.least_gain)
        most = self.output_tokens * 2 if gains else None
        return reject_text(
            text, conversation, tokens=tokens, most=most, nonce=leaving.nonce, asked=self._asked
        ) or reject_thin(self.tidy(text), sources, replaced=replaced)
