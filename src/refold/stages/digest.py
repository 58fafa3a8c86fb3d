"""Digest: what leaves, told without a model: the ledger of facts, what was done, last words, handles.

The ledger of earlier folds is patched with what leaves now and shown in sections, each with a share of the
digest; what one does not need the next may use. An earlier digest is taken up as facts, so that digests do
not nest; any other summary is kept as it is, from its top.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from refold.core.fact_finding import find
from refold.core.fact_text import (
    DECIDED,
    DONE,
    FAILED,
    OPEN,
    QUOTED,
    SAID,
    TITLES,
    VALUES,
    Page,
    fill,
    fill_names,
    remembered,
)
from refold.core.facts import STORED_TOKENS, kept_in
from refold.core.frames import Covered, Worded, bare, house
from refold.core.messages import Message
from refold.core.sentences import commands_model
from refold.core.state import state_of
from refold.core.task import Task
from refold.core.texts import fit_text, middle_out
from refold.core.transcript import neutral
from refold.core.voices import speaker

MOST_TOKENS: Final = 10_000
"""What a digest may have at most; where no model can be asked more of the window is better spent on it."""
LEAST_TOKENS: Final = 200
"""What it may have in any case; the pipeline turns it down where that is more than what leaves."""
SHARE: Final = 0.25
"""And never more than this share of what it stands for: more would be a copy, less loses more."""

MEMORY, LAST, OUTPUTS = "Earlier memory", "Last words", "Latest outputs"
_WORK: Final = (
    (SAID, 0.25),
    (OPEN, 0.08),
    (DECIDED, 0.05),
    (DONE, 0.15),
    (FAILED, 0.05),
    (QUOTED, 0.05),
    (VALUES, 1.0),
)
"""Shares where tools did the work: names and values are what it goes on with."""
_TALK: Final = ((SAID, 0.85), (OPEN, 0.08), (DECIDED, 0.03), (FAILED, 0.03), (VALUES, 0.03))
"""Shares where people talk: their own words are what matters."""
LEAST_SECTION: Final = 32
"""Tokens that a section may have in any case; a share of a small digest would hold nothing."""
_OURS: Final = frozenset({*TITLES, LAST, OUTPUTS})
_LOOKED_AT: Final = 2_000
"""Messages, the newest, whose output is shown; bounds the work on a huge history."""


def words(messages: Sequence[Message], covered: Covered, task: Task) -> Worded:
    """The digest of what leaves, framed as a summary, and the ledger behind it."""
    covered = replace(covered, state=state_of(messages))
    numbers = [task.number(index) for index in covered.places]
    lasts = [task.span((index,))[1] for index in covered.places]
    ledger = remembered(messages, lasts).patched(find(messages, numbers))
    count = task.counter.plain
    most = _allowed(covered, task)
    page = Page(count, most, seen=house("", covered))
    last = _section(LAST, _last(messages), max(int(most * 0.07), min(64, most // 5)), task)
    page.left -= count(last)
    first = _section(MEMORY, _memory(messages), int(most * 0.35), task)
    page.left -= count(first)
    work = bool(ledger.of("done", "file"))
    for title, share in _WORK if work else _TALK:
        budget = max(int(most * share), LEAST_SECTION)
        if title == VALUES:
            fill_names(page, ledger, budget)
        else:
            fill(page, ledger, title, budget)
    page.left = most - count("\n\n".join(part for part in (first, page.text, last) if part)) - 4
    fill(page, ledger, SAID, page.left)
    if work:
        fill_names(page, ledger, page.left)
    outputs = _section(OUTPUTS, _outputs(messages), page.left, task)
    text = "\n\n".join(part for part in (first, page.text, outputs, last) if part)
    text = fit_text(neutral(text), most, count=count).text
    report = kept_in(text, ledger, 0)
    meta = {"facts": ledger.fitted(STORED_TOKENS).to_json(), "state": covered.state}
    return Worded(house(text, covered), meta, report.counts)


def _allowed(covered: Covered, task: Task) -> int:
    """Tokens a digest may have: a share of what leaves, and no more than the goal leaves room for.

    Where one huge message that stays takes that room, half of what is left beside it is used: it can be
    clamped, and what a digest leaves out is gone from the view.
    """
    gone = task.counter.tokens(sum(task.sizes[index] for index in covered.places))
    most = min(MOST_TOKENS, int(gone * SHARE))
    if task.goal is not None:
        frame = task.counter.plain(house("", covered)) + 8
        room = task.goal - (task.tokens - gone) - frame
        behind = sum(task.sizes[covered.places[-1] + 1 :])
        beside = room + task.counter.tokens(behind)
        most = min(most, max(int(room * 0.98), int(beside * 0.6)))
    return max(LEAST_TOKENS, most)


def _memory(messages: Sequence[Message]) -> Iterator[str]:
    """The lines of earlier summaries that stand under no heading of ours."""
    for message in messages:
        if message.is_summary and message.meta.get("kind") != "ack":
            ours = False
            for line in bare(message).split("\n"):
                if line.startswith("## "):
                    ours = line[3:].strip() in _OURS
                if line.strip() and not ours and line != f"## {MEMORY}":
                    yield line


def _section(title: str, lines: Iterable[str], budget: int, task: Task) -> str:
    """A section of free lines within a budget, its heading included; "" where nothing fits."""
    count = task.counter.plain
    left = budget - count(f"## {title}\n\n")
    kept: list[str] = []
    for line in lines:
        cost = count(line) + 1
        if cost > left:
            if not kept and left > 16:
                kept.append(fit_text(line, left, count=count).text)
            break
        kept.append(line)
        left -= cost
    return f"## {title}\n" + "\n".join(kept) if kept else ""


def _last(messages: Sequence[Message]) -> list[str]:
    """What the model said last."""
    for message in reversed(messages):
        if speaker(message) == "assistant" and message.text.strip():
            return [_quoted(message.text, head=600, tail=300)]
        if message.is_summary and (earlier := bare(message).partition(f"## {LAST}\n")[2]):
            return [earlier.partition("\n\n")[0].strip()]
    return []


def _outputs(messages: Sequence[Message]) -> Iterator[str]:
    """What tools showed, head and tail, the newest first; what fits in one line is told already."""
    for at in islice(range(len(messages) - 1, -1, -1), _LOOKED_AT):
        for result in messages[at].results:
            if "\n" in result.text.strip() or len(result.text) > 100:
                yield _quoted(_calmed(result.text), head=1_200, tail=800)


def _calmed(text: str) -> str:
    """A tool's output without lines that give the model instructions; those are quoted elsewhere."""
    lines = (
        text[:4_000].split("\n")
        if len(text) <= 4_000
        else [*text[:2_400].split("\n"), *text[-1_600:].split("\n")]
    )
    return "\n".join("[a line that gives instructions]" if commands_model(line) else line for line in lines)


def _quoted(text: str, *, head: int, tail: int) -> str:
    """What somebody said, as an item of a list; its lines are set in, so that none looks like a heading."""
    return "- " + middle_out(text.strip(), head=head, tail=tail).replace("\n", "\n  ")
