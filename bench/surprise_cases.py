"""Cuts of recorded conversations: the prefix, and what the agent really did next."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.surprise_model import Piece, TokenCounter

from refold.evals.datasets import Run

Wire = list[dict[str, Any]]
AGENT_RUNS, TRANSCRIPTS, TALKS, LONG = "agent runs", "transcripts", "talks", "long transcripts"
KINDS: Final = (AGENT_RUNS, TRANSCRIPTS, TALKS, LONG)
MOST_ACTIONS: Final = 10
MOST_NEXT_TOKENS: Final = 5_500
"""Tokens of the recorded continuation; more would push the context out of the reader's window."""
MOST_RESULT_TOKENS: Final = 900
"""A longer tool result between two actions is shown by its ends."""
LEAST_TOKENS, MOST_TOKENS = 7_000, 26_000
"""Sizes of a prefix: below, there is nothing to fold; above, a small reader's window of 32k is too small."""
CUTS: Final = {
    AGENT_RUNS: (0.5, 0.75),
    TRANSCRIPTS: tuple(part / 20 for part in range(2, 19)),
    TALKS: (0.35, 0.5, 0.7, 0.9),
}
"""Where conversations are cut, as shares of their messages; transcripts are long and are cut more often."""
STRETCHES: Final = {TRANSCRIPTS: MOST_TOKENS, TALKS: 16_000}
"""Kinds of which the stretch before a cut is read, and its tokens at most: a tenth of a talk is as small as a
small model's window."""


@dataclass(frozen=True, slots=True)
class Case:
    """One cut: the prefix, its size, and the recorded continuation."""

    kind: str
    run: str
    prefix: Wire
    tokens: int
    following: tuple[Piece, ...]


def speaker(message: Mapping[str, Any]) -> str:
    """Return the role that the reader's chat template has for a message."""
    role = str(message["role"])
    return {"tool": "user", "developer": "system"}.get(role, role)


def message_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message, with its tool calls as JSON."""
    content = message.get("content")
    if not isinstance(content, str):
        content = "\n".join(part.get("text", "") for part in content or () if isinstance(part, dict))
    calls = [json.dumps(call["function"], ensure_ascii=False) for call in message.get("tool_calls") or ()]
    return "\n".join([content, *(f"<tool_call>{call}</tool_call>" for call in calls)])


def template_text(message: Mapping[str, Any]) -> str:
    """Return a message in the reader's chat template."""
    return f"<|im_start|>{speaker(message)}\n{message_text(message)}<|im_end|>\n"


def template_texts(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return messages in the reader's chat template."""
    return [template_text(message) for message in messages]


def count_messages(counter: TokenCounter, messages: Sequence[Mapping[str, Any]]) -> int:
    """Count the tokens of messages in the reader's chat template."""
    return sum(counter.count(text) for text in template_texts(messages))


def has_system(messages: Wire) -> bool:
    """True if the first message is the system prompt."""
    return bool(messages) and messages[0]["role"] in {"system", "developer"}


def find_system(messages: Wire) -> Wire:
    """Return the system prompt, if there is one."""
    return messages[:1] if has_system(messages) else []


def find_head(messages: Wire) -> Wire:
    """Return the system prompt and the task."""
    return messages[: 2 if has_system(messages) else 1]


def make_cases(
    counter: TokenCounter, kind: str, runs: Sequence[Run], most_tokens: int = MOST_TOKENS
) -> Iterator[Case]:
    """Yield the cuts of some runs that have a prefix of the right size and something behind it."""
    for run in runs:
        messages = run.messages
        sizes = [counter.count(text) for text in template_texts(messages)]
        for cut in sorted({find_action(messages, int(len(messages) * share)) for share in CUTS[kind]}):
            most = min(most_tokens, STRETCHES.get(kind, 0))
            start = find_start(messages, sizes, cut, most) if most else 0
            total = sum(sizes[start:cut])
            if LEAST_TOKENS <= total <= most_tokens and cut + 1 < len(messages):
                yield make_case(counter, kind, run, slice(start, cut), total)


def find_action(messages: Wire, at: int) -> int:
    """Find the next action."""
    while at < len(messages) and messages[at]["role"] != "assistant":
        at += 1
    return at


def make_case(counter: TokenCounter, kind: str, run: Run, prefix: slice, tokens: int) -> Case:
    """Return a case whose prefix is this stretch of a run."""
    following = tuple(continue_from(counter, run.messages[prefix.stop :]))
    return Case(kind, run.name, run.messages[prefix], tokens, following)


def find_start(messages: Wire, sizes: Sequence[int], cut: int, most_tokens: int) -> int:
    """Find where a stretch begins that ends at the cut, fits the reader, and starts with the user."""
    start, total = cut, 0
    while start > 0 and total + sizes[start - 1] < most_tokens:
        start -= 1
        total += sizes[start]
    while start < cut and messages[start]["role"] != "user":
        start += 1
    return start


def continue_from(counter: TokenCounter, messages: Wire) -> Iterator[Piece]:
    """Yield the recorded continuation up to its limits; actions are scored."""
    tokens = actions = 0
    for message in messages:
        text, is_action = template_text(message), message["role"] == "assistant"
        size = counter.count(text)
        if not is_action and size > MOST_RESULT_TOKENS:
            text = f"{text[:1500]}\n…\n{text[-1500:]}"
        yield Piece(text, is_action)
        tokens += min(size, MOST_RESULT_TOKENS)
        actions += is_action
        if tokens > MOST_NEXT_TOKENS or actions >= MOST_ACTIONS:
            return
