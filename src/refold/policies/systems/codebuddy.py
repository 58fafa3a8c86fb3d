"""CodeBuddy: at 90 % of the window four tiers, the cheapest first, until the history fits.

All that is known of this system: its knobs, how it counts, how it shows a conversation to its summariser, and
the words that stand for what left. Sources: its document, and docs/systems/codebuddy.md for its program.
"""

import math
import re
from collections import Counter as Tally
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, takewhile
from typing import Annotated, ClassVar, Final

from refold.arguments import Range, check_arguments
from refold.core.compaction.budget import Levels, Target, Trigger
from refold.core.compaction.flow import Flow
from refold.core.compaction.keep_rules import Segment
from refold.core.compaction.policy import Policy
from refold.core.compaction.task import Step, Task, replace_runs
from refold.core.messages.message import Message, Text
from refold.core.messages.message_text import arguments_text, visible_text_and_large_calls
from refold.core.messages.summary_headers import HEADERS
from refold.core.messages.text_cutting import first_line
from refold.core.messages.transcript import neutralise, role_label, text_and_markers
from refold.core.models.windows import Window, lookup
from refold.core.summaries.wrappers import (
    Covered,
    count_messages,
    cover,
    earlier_summaries,
    quote_request,
    summary_meta,
)
from refold.core.tokens.counting import Counter, chars_per_token_counter
from refold.core.tokens.units import format_count
from refold.policies.knobs import Count, PositiveTokens, Tokens
from refold.policies.systems.keep_rules import LastMessages
from refold.policies.systems.window_tables import codebuddy_table
from refold.stages.strip import Strip
from refold.stages.summarize import Summarize
from refold.stages.truncate import Truncate

MOST_TOPICS: Final = 10
"""Topics that the plain notice lists at most."""
MESSAGE_CHARS: Final = 10_000
"""Characters of a message that its summariser reads ("individual messages are capped"); lower loses more."""

CODEBUDDY_COUNTER: Final = Counter(
    name="codebuddy", text=chars_per_token_counter(4), visible=visible_text_and_large_calls
)
"""Four characters a token."""


@check_arguments
def codebuddy(
    *,
    context_window: str | PositiveTokens | None = None,
    chunk_tokens: PositiveTokens | None = None,
    keep_recent_messages: Count = 4,
    tool_result_limit: Count = 200,
    reserved_tokens: Tokens = 4_096,
    safety_margin: Annotated[float, Range(1, 10)] = 1.2,
) -> Policy:
    """CodeBuddy: at 90 % four tiers: strip tool traffic, summarise in chunks, the older half, plain words."""
    recent = LastMessages(messages=keep_recent_messages)
    older = LastMessages(messages=keep_recent_messages, least=6, least_older=2)
    half = LastMessages(messages=keep_recent_messages, least=6, least_older=2, oldest_half=True)
    chunked = partial(
        Summarize,
        prompt="refold.policies.systems:prompts/codebuddy.md",
        style=codebuddy_layout,
        role="system",
        updates=False,
        output_fraction=0.1,
        chunk_tokens=partial(chunk_size, chunk_tokens),
        oversize=lambda task: max(1, (task.goal or task.window) // 2),
    )
    return Policy(
        name="codebuddy",
        counter=CODEBUDDY_COUNTER,
        window=partial(_find_window, context_window),
        trigger=Trigger(fraction=0.9),
        levels=Levels(notice=None, warning=0.8, critical=0.9),
        target=Target(of_window=True, spare=reserved_tokens, margin=safety_margin, least=1 / 8),
        stages=(
            Strip(keep_messages=keep_recent_messages, limit=tool_result_limit),
            chunked(keep=older, frame=wrap_for_codebuddy, name="chunks"),
            TrimToFit(
                stage=chunked(keep=half, frame=wrap_half_for_codebuddy, name="partial"),
                keep_messages=keep_recent_messages,
            ),
            Truncate(keep=recent, words=codebuddy_notice, role="system", name="plain"),
        ),
        orphans="drop",
        tokens_of_all=False,
    )


def chunk_size(setting: int | None, task: Task) -> int:
    """Return how many tokens of messages one request has: 0.4 of the window, at most 12,000.

    The ratio falls to 0.15 for very large windows ("The compaction service calculates chunk sizes").
    """
    if setting is not None:
        return setting
    ratio = max(0.15, min(0.4, 12_000 / task.window))
    return min(math.floor(task.window * ratio), 12_000)


def _find_window(setting: str | int | None, model: str | None) -> Window:
    """Return the window that a setting names, else the one of the document's table."""
    if setting is not None:
        return Window(parse_window_setting(str(setting)), None, "setting")
    return lookup(model, table=codebuddy_table())


def parse_window_setting(setting: str) -> int:
    """Read the setting `codebuddy.contextWindow`: `4k` is 4000, else the leading integer, else 16000.

    >>> parse_window_setting("16K"), parse_window_setting("32768"), parse_window_setting("banana")
    (16000, 32768, 16000)
    """
    fallback = codebuddy_table().fallback
    if match := re.fullmatch(r"([0-9]{1,15})[kK]", setting):
        return int(match[1]) * 1_000 or fallback
    match = re.match(r"\s*\+?([0-9]{1,15})", setting)
    return (int(match[1]) if match else 0) or fallback


def codebuddy_layout(_index: int, message: Message) -> str:
    """Lay out role and text between message tags, at most 10,000 characters."""
    text = text_and_markers(message)
    if len(text) > MESSAGE_CHARS:
        text = f"{text[:MESSAGE_CHARS]}[... {len(text) - MESSAGE_CHARS} chars truncated]"
    calls = "".join(f"\n[Called {call.name}: {arguments_text(call)[:200]}]" for call in message.calls)
    role = role_label(message).removesuffix(" result")
    return f'<message role="{role}">{neutralise(text + calls)}</message>'


def wrap_for_codebuddy(text: str, covered: Covered) -> str:
    """Say how many messages were compacted."""
    header = f"{HEADERS['codebuddy'].text}{covered.messages} earlier messages compacted]"
    return f"{header}\n\n{quote_request(text, covered)}"


def wrap_half_for_codebuddy(text: str, covered: Covered) -> str:
    """Say how many messages were compacted, of more that stay."""
    header = f"{HEADERS['codebuddy_partial'].text}{covered.messages} messages compacted]"
    return f"{header}\n\n{quote_request(text, covered)}"


_COUNTS: Final = re.compile(
    r"\nUser messages: (\d{1,9}), Assistant responses: (\d{1,9}), Tool calls: (\d{1,9})"
    r"(?:, summarised before: (\d{1,9}))?"
)
"""The second line of a notice."""


def codebuddy_notice(messages: Sequence[Message], covered: Covered, _task: Task) -> str:
    """Say how many messages of each kind left, and the first line of what the user asked."""
    fresh = [message for message in messages if not message.is_summary]
    asked = [message for message in fresh if message.is_user_turn]
    kinds, unknown = _count_earlier_kinds(messages)
    users = kinds["user"] + len(asked)
    answers = kinds["assistant"] + sum(message.role == "assistant" for message in fresh)
    results = kinds["tool_result"] + sum(len(message.results) for message in fresh)
    header = HEADERS["codebuddy_plain"].text
    counts = f"User messages: {users}, Assistant responses: {answers}, Tool calls: {results}"
    lines = [
        f"{header}{covered.messages} earlier messages removed to fit context window]",
        f"{counts}, summarised before: {unknown}" if unknown else counts,
    ]
    topics = [topic for topic in (first_line(message.text) for message in asked) if topic]
    notices = [_read_notice(message) for message in messages]
    topics = [*chain.from_iterable(earlier for earlier, _ in notices), *topics]
    if topics:
        lines += ["Topics discussed:", *(f"- {topic}" for topic in topics[:MOST_TOPICS])]
    lines += chain.from_iterable(rest for _, rest in notices)
    return "\n".join(lines + earlier_summaries(messages))


def _count_earlier_kinds(messages: Sequence[Message]) -> tuple[Tally[str], int]:
    """Count the messages of each kind that earlier summaries stand for, and those of unknown kind."""
    kinds: Tally[str] = Tally()
    unknown = 0
    for message in messages:
        if not message.is_summary or message.meta.get("kind") == "ack":
            continue
        if isinstance(known := message.meta.get("kinds"), Mapping):
            kinds.update(known)
        elif line := _COUNTS.search(message.text):  # a notice in a list that a caller kept
            kinds.update(user=int(line[1]), assistant=int(line[2]), tool_result=int(line[3]))
            unknown += int(line[4] or 0)
        else:
            unknown += count_messages([message])
    return kinds, unknown


def _read_notice(message: Message) -> tuple[list[str], list[str]]:
    """Read the topics of an earlier notice, and the summaries that it repeats."""
    if not message.is_summary or message.meta.get("kind") != "notice":
        return [], []
    lines = message.text.split("\n")[2:]
    topics: list[str] = []
    if lines[:1] == ["Topics discussed:"]:
        topics = list(takewhile(lambda line: line.startswith("- "), lines[1 : 1 + MOST_TOPICS]))
        lines = lines[1 + len(topics) :]
    return [topic.removeprefix("- ") for topic in topics], lines


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimToFit:
    """Summarise; where the result is over the goal, drop messages behind the summary, the oldest first.

    Its program calls this trimToFit (docs/systems/codebuddy.md, tier 3).
    """

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
