"""The state of the work where a history is cut: whether the user, the model or a tool acts next.

It is computed from roles and from the last words of the last message.

A model that continues from a summary must neither stop nor run on. The state is data in the summary's
metadata and one sentence in its text.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from refold.core.messages.message import Message
from refold.core.messages.speakers import find_speaker
from refold.core.messages.tool_pairs import open_calls

WorkState: TypeAlias = Literal["working", "awaiting user", "awaiting tool", "awaiting approval", "finished"]

STATE_SENTENCES: Final[dict[WorkState, str]] = {
    "working": "State: the assistant was at work and goes on.",
    "awaiting user": "State: the assistant waits for the user's answer.",
    "awaiting tool": "State: a tool call waits for its result.",
    "awaiting approval": "State: the assistant asked for approval and must not go on without it.",
    "finished": "State: finished; the user speaks next.",
}
"""Short, because one of them stands in every view."""

_TAIL: Final = 600
"""Characters at the end of the last message in which a question is looked for."""


def find_state(messages: Sequence[Message]) -> WorkState:
    """Return the state at the end of these messages: whether the user, the model or a tool acts next."""
    if open_calls(messages):
        return "awaiting tool"
    for message in reversed(messages):
        voice = find_speaker(message)
        if voice in {"tool", "user"}:
            return "working"
        if voice == "assistant":
            return "working" if message.calls else _state_after(message.text)
    return "working"


def _state_after(text: str) -> WorkState:
    """Find the state behind the last message of a model that calls no tool."""
    from refold.core.facts.words import compile_patterns  # slow to import, and only folds ask

    end = text.rstrip()[-_TAIL:]
    # Above the last paragraph a request without a question mark may be part of a letter or of a report.
    last = end.rsplit("\n\n", 1)[-1]
    question = compile_patterns(r"\b(?:{})\b[^?？]{{0,200}}[?？]", "approval_questions", room="summaries")
    if question.search(end) or _asks(last, "approval"):
        return "awaiting approval"
    if not {"?", "？"}.isdisjoint(end.rsplit("\n", 1)[-1]) or _asks(last, "answer"):
        return "awaiting user"
    return "working" if end.endswith(("```", ":", "：", "...", "…")) else "finished"


def _asks(text: str, what: str) -> bool:
    """True if a sentence asks for an approval or an answer; behind a quote or a colon others are asked."""
    from refold.core.facts.sentences import split_sentences  # slow to import, and only folds ask
    from refold.core.facts.words import compile_patterns

    lists = (f"{what}_requests", f"{what}_requests_without_blanks")
    request = compile_patterns(r"(?<![\"'“‘„«`「『])(?<!: )(?:\b(?:{})|{})", *lists, room="summaries")
    return any(request.search(sentence) for sentence in split_sentences(text))
