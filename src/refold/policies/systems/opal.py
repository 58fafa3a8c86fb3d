"""Opal: at 80 % of the window a structured summary that is updated each time.

All that is known of this system: its knobs, how it counts, how it shows a conversation to its summariser,
which tools it tracks, and the words that stand for what left. Sources: its document and docs/systems/opal.md.
"""

import re
from collections import Counter as Tally
from collections.abc import Sequence
from functools import partial
from typing import Final, Literal

from refold.arguments import check_arguments
from refold.core.compaction.budget import Trigger
from refold.core.compaction.policy import Policy
from refold.core.compaction.task import Task
from refold.core.messages.file_operations import Vocabulary
from refold.core.messages.message import Message
from refold.core.messages.message_text import arguments_text, visible_text_and_large_calls
from refold.core.messages.repair import MissingTexts
from refold.core.messages.summary_headers import HEADERS
from refold.core.messages.transcript import media_markers, neutralise
from refold.core.models.windows import lookup
from refold.core.summaries.wrappers import (
    Covered,
    append_file_lists,
    count_kinds,
    quote_request,
    strip_file_lists,
    unwrap_summary,
)
from refold.core.tokens.counting import Counter
from refold.policies.knobs import Count, PositiveTokens, Share, Tokens
from refold.policies.systems.keep_rules import RecentBytes
from refold.stages.summarize import Summarize
from refold.stages.truncate import Truncate

OPAL_TOOLS: Final = Vocabulary(
    tools={"read_file": "read", "write_file": "modified", "edit_file": "modified"},
    paths=frozenset({"path"}),
    exact=True,
)
"""Its document, "File operations": three tools, one argument."""


OPAL_COUNTER: Final = Counter(
    name="opal",
    text=lambda text: len(text.encode("utf-8", "surrogatepass")) // 4,
    visible=visible_text_and_large_calls,
    per_message=10,
)
"""Four bytes a token, rounded down, and ten a message."""


@check_arguments
def opal(
    *,
    threshold: Share = 0.80,
    keep_recent_tokens: Tokens | None = None,
    keep_recent: Tokens | None = None,
    strategy: Literal["summarize", "truncate"] = "summarize",
    fallback_context_window: PositiveTokens = 128_000,
    split_turn_minimum: Count = 5,
    instructions: str = "",
) -> Policy:
    """Opal: at 80 % of the window a structured summary that is updated each time, split turns told in two."""
    tokens = keep_recent_tokens if keep_recent_tokens is not None else keep_recent
    keep = RecentBytes(tokens=tokens, split_least=split_turn_minimum)
    summarize = Summarize(
        keep=keep,
        prompt="refold.policies.systems:prompts/opal.md",
        style=opal_layout,
        frame=wrap_for_opal,
        vocabulary=OPAL_TOOLS,
        focus=instructions,
    )
    truncate = Truncate(keep=keep, words=opal_notice, vocabulary=OPAL_TOOLS)
    return Policy(
        name="opal",
        counter=OPAL_COUNTER,
        window=partial(lookup, fallback=fallback_context_window),
        trigger=Trigger(fraction=threshold),
        refused_asks=True,
        stages=(summarize, truncate) if strategy == "summarize" else (truncate,),
        guards=frozenset({"system", "pins", "open calls"}),
        orphans="drop",
        missing=MissingTexts("[Aborted by user]"),
        learns=False,
    )


def opal_layout(_index: int, message: Message) -> str:
    """Lay out labels in brackets; arguments up to 200 characters, results up to 500."""
    lines = [f"[Tool result ({part.name or part.call_id})]: {part.text[:500]}" for part in message.results]
    if message.text or not (message.results or message.calls):
        lines.append(f"[{message.role.capitalize()}]: {message.text}")
    if message.calls:
        calls = "; ".join(f"{call.name}({arguments_text(call)[:200]})" for call in message.calls)
        lines.append(f"[Assistant tool calls]: {calls}")
    return neutralise("\n".join([*lines, *media_markers(message)]))


def wrap_for_opal(text: str, covered: Covered) -> str:
    """Add the header and the true file lists, whatever files the model listed."""
    header = f"{HEADERS['opal'].text} — older messages were compacted]"
    return f"{header}\n\n{append_file_lists(quote_request(strip_file_lists(text), covered), covered)}"


_COUNTS: Final = re.compile(r"\[Compacted \d{1,9} messages: ([^\]\n]{0,200})\]")
_ROLE_COUNT: Final = re.compile(r"(\d{1,9}) (\w{1,20})")
"""The counts of a notice, and one role in it."""


def opal_notice(messages: Sequence[Message], covered: Covered, _task: Task) -> str:
    """Say how many messages of each role left, and list the files."""
    roles = Tally(count_kinds(messages))
    earlier = [message for message in messages if message.is_summary and message.meta.get("kind") != "ack"]
    for message in earlier:  # a list that a caller kept: a notice tells its counts, a summary counts as one
        if "kinds" not in message.meta:
            line = _COUNTS.search(message.text)
            counts = _ROLE_COUNT.findall(line[1]) if line else [("1", message.role)]
            roles.update({role: int(count) for count, role in counts})
    listed = ", ".join(f"{count} {role}" for role, count in sorted(roles.items()))
    repeated = (_COUNTS.sub("", unwrap_summary(message)).strip() for message in earlier)
    lines = [f"[Compacted {roles.total()} messages: {listed}]", *filter(None, repeated)]
    return wrap_for_opal("\n".join(lines), covered)
