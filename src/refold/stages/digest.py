"""Digest: what leaves, told without a model: the ledger of facts, what was done, last words, handles.

The ledger of earlier folds is patched with what leaves now and shown in sections, each with a share of the
digest; what one does not need the next may use. An earlier digest is taken up as facts, so that digests do
not nest; any other summary is kept as it is, from its top.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from refold.core.compaction.task import Task
from refold.core.facts.collector import OUTPUT_CHARS
from refold.core.facts.extraction import find_facts
from refold.core.facts.injections import is_instruction
from refold.core.facts.ledger import STORED_TOKENS, USER_KINDS, Ledger, report_kept
from refold.core.facts.lists import fill_lists
from refold.core.facts.page import (
    DECIDED,
    DONE,
    FAILED,
    OPEN,
    OUTPUTS,
    QUOTED,
    SAID,
    TITLES,
    VALUES,
    Page,
    fill_names,
    fill_section,
    words_and_names,
)
from refold.core.facts.read_page import facts_of_summaries
from refold.core.facts.sentences import split_sentences
from refold.core.facts.user_statements import fill_statements
from refold.core.messages.message import Message
from refold.core.messages.speakers import find_speaker, is_observation
from refold.core.messages.text_cutting import fit_text, middle_out
from refold.core.messages.transcript import neutralise
from refold.core.summaries.work_state import state_of
from refold.core.summaries.wrappers import Covered, WordedSummary, unwrap_summary, wrap_summary

MOST_TOKENS: Final = 10_000
"""What a digest may have at most; where no model can be asked more of the window is better spent on it."""
LEAST_TOKENS: Final = 200
"""What it may have in any case; the pipeline turns it down where that is more than what leaves."""
SHARE: Final = 0.25
"""And never more than this share of what it stands for: more would be a copy, less loses more."""

MEMORY, LAST = "Earlier memory", "Last words"
ANSWERED: Final = "What was answered, by its first words"
_WORK: Final = (
    (SAID, 0.25),
    (OPEN, 0.08),
    (DECIDED, 0.03),
    (DONE, 0.07),
    (FAILED, 0.03),
    (QUOTED, 0.02),
    (VALUES, 1.0),
)
"""Shares where tools did the work: names and values are what it goes on with."""
LISTED_SHARE: Final = 0.2
"""What lists in answers may have there; of a small digest less."""
ROOMY_LISTS: Final = 8_000
RULED: Final = 0.5
"""What rules may have of it there: whoever goes on without a file's name looks for it, but not for a rule."""
_TALK: Final = ((SAID, 0.85), (OPEN, 0.08), (DECIDED, 0.03), (FAILED, 0.03), (VALUES, 0.03))
"""Shares where people talk: their own words are what matters."""
ANSWER_CHARS: Final = 240
"""Characters of an answer among which its first sentence is looked for."""
LEAST_SECTION: Final = 24
"""Tokens that a section may have in any case; a share of a small digest would hold nothing."""
_OURS: Final = frozenset({*TITLES, LAST, OUTPUTS})
_LOOKED_AT: Final = 2_000
"""Messages, the newest, whose output is shown; bounds the work on a huge history."""


@dataclass(frozen=True, slots=True)
class Staying:
    """What stays in the view beside the digest and need not be told in it."""

    names: frozenset[str]
    said: str
    """What people say there."""
    answered: bool
    """Whether the model speaks there behind what leaves."""


def words(messages: Sequence[Message], covered: Covered, task: Task) -> WordedSummary:
    """The digest of what leaves, framed as a summary, and the ledger behind it."""
    covered = replace(covered, state=state_of(messages[-LOOK_BACK:]))
    numbers = [task.number(index) for index in covered.places]
    earlier = [place for place, message in enumerate(messages) if message.is_summary]
    lasts = [task.span((covered.places[place],))[1] for place in earlier]
    known = facts_of_summaries([messages[place] for place in earlier], lasts)
    ledger = known.merge(find_facts(messages, numbers))
    count = task.counter.plain
    most = _allowed(covered, task)
    huge = _huge(covered, task)
    staying = _staying(task, covered, huge)
    behind = range(huge[0] - 1, len(task.messages)) if huge else range(0)  # with the call of what is huge
    shown = ledger.merge(
        find_facts([task.messages[index] for index in behind], [task.number(index) for index in behind])
    )
    text = neutralise(_told(messages, shown, most, staying, task))
    if (over := count(text) - most) > 0:  # joined sections may have a little more than their pieces
        text = neutralise(_told(messages, shown, most - over - 4, staying, task))
    text = fit_text(text, most, count=count).text
    report = report_kept(text, ledger, 0)
    meta = {"facts": ledger.fit_to(STORED_TOKENS).to_json(), "state": covered.state}
    return WordedSummary(wrap_summary(text, covered), meta, report.counts)


ROOMY: Final = 1_500
"""From so many tokens on there is room for last words behind which newer ones stay."""
TIGHT: Final = 4_000
"""Below so many tokens what the sections leave over is looked at once more."""
LOOK_BACK: Final = 200
"""Messages at the end that tell who has the next word."""


def _told(messages: Sequence[Message], ledger: Ledger, most: int, staying: Staying, task: Task) -> str:
    """The sections of a digest of at most about so many tokens."""
    count = task.counter.plain
    page = Page(count, most, seen=set(staying.names), beside=staying.said)
    share = 0.02 if staying.answered else 0.06
    words = () if staying.answered and most < ROOMY else _last(messages)
    last = _section(LAST, words, max(int(most * share), min(64, most // 5)), task)
    first = _section(MEMORY, _memory(messages), int(most * 0.35), task)
    page.left -= count(last) + count(first)
    work = len(ledger.of("done")) * 3 > len(ledger.of(*USER_KINDS))
    left = page.left
    if not work:
        fill_lists(page, ledger, int(most * LISTED_SHARE * min(1.0, most / ROOMY_LISTS)))
    listed = left - page.left
    for title, share in _WORK if work else _TALK:
        budget = max(int(most * share) - listed * (title == SAID), LEAST_SECTION)
        if title == VALUES:
            fill_names(page, ledger, budget)
        elif title == SAID:
            fill_statements(page, ledger, budget, rules_budget=int(most * RULED) if work else 0)
        else:
            fill_section(page, ledger, title, budget)
    for _ in range(2 if work and most < TIGHT else 1):  # what was charged too much is used as well
        page.left = most - count("\n\n".join(part for part in (first, page.text, last) if part)) - 4
        fill_statements(page, ledger, page.left)
        if work:
            fill_names(page, ledger, page.left)
            fill_section(page, ledger, DONE, min(page.left, most // 4))
    outputs = _section(OUTPUTS, _outputs(messages), page.left, task)
    page.left -= count(outputs)
    answered = "" if work else _section(ANSWERED, _answers(messages), page.left, task)
    return "\n\n".join(part for part in (first, page.text, outputs, answered, last) if part)


def _huge(covered: Covered, task: Task) -> list[int]:
    """What stays behind and is so large that it will be clamped: what is in it is told as well."""
    if task.goal is None:
        return []
    behind = range(max(covered.places[-1] + 1, len(task.messages) - _STAYING), len(task.messages))
    return [index for index in behind if task.counter.tokens(task.sizes[index]) > task.goal * HUGE]


HUGE: Final = 0.3
"""The share of a goal from which on one message is not likely to stay whole."""


def _staying(task: Task, covered: Covered, huge: Sequence[int]) -> Staying:
    """Look at what stays, the newest, and at the files that are listed anyway."""
    gone = set(covered.places)
    names = set(words_and_names("\n".join((*covered.files.read, *covered.files.modified))))
    said: list[str] = []
    answered = False
    newest = range(max(_FIRST, len(task.messages) - _STAYING), len(task.messages))
    for index in (*range(min(_FIRST, len(task.messages))), *newest):
        if index not in gone and index not in huge:
            message = task.messages[index]
            names.update(words_and_names(task.counter.visible(message)[:OUTPUT_CHARS]))
            voice = find_speaker(message)
            said += [message.text] if voice == "user" else []
            answered = answered or (voice == "assistant" and index > covered.places[-1])
    return Staying(frozenset(names), "\n".join(said), answered)


_STAYING: Final = 60
"""Messages at the end that are looked at for what need not be told."""
_FIRST: Final = 3
"""And at the beginning, where the request stands."""


def _allowed(covered: Covered, task: Task) -> int:
    """Tokens a digest may have: a share of what leaves, and no more than the goal leaves room for.

    Where one huge message that stays takes that room, half of what is left beside it is used: it can be
    clamped, and what a digest leaves out is gone from the view.
    """
    gone = task.counter.tokens(sum(task.sizes[index] for index in covered.places))
    most = min(MOST_TOKENS, int(gone * SHARE))
    if task.goal is not None:
        frame = task.counter.plain(wrap_summary("", covered)) + 8
        room = task.goal - (task.tokens - gone) - frame
        behind = sum(task.sizes[covered.places[-1] + 1 :])
        beside = room + task.counter.tokens(behind)
        most = min(most, max(int(room * 0.99) - 2, int(beside * 0.6)))
        return max(LEAST_BESIDE, most)
    return max(LEAST_TOKENS, most)


LEAST_BESIDE: Final = 64
"""The same where a goal is set: more would only be clamped away behind it."""


def _memory(messages: Sequence[Message]) -> Iterator[str]:
    """The lines of earlier summaries that stand under no heading of ours."""
    for message in messages:
        if message.is_summary and message.meta.get("kind") != "ack":
            ours = False
            for line in unwrap_summary(message).split("\n"):
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
        if find_speaker(message) == "assistant" and message.text.strip():
            return [_quoted(message.text, head=600, tail=300)]
        if message.is_summary and (earlier := unwrap_summary(message).partition(f"## {LAST}\n")[2]):
            return [earlier.partition("\n\n")[0].strip()]
    return []


def _outputs(messages: Sequence[Message]) -> Iterator[str]:
    """What tools showed, head and tail, the newest first; what fits in one line is told already."""
    for at in islice(range(len(messages) - 1, -1, -1), _LOOKED_AT):
        message = messages[at]
        texts = [result.text for result in message.results]
        if not texts and is_observation(message):
            texts = [message.text]
        for text in texts:
            if "\n" in text.strip() or len(text) > 100:
                yield _quoted(_calmed(text), head=1_200, tail=800)


def _answers(messages: Sequence[Message]) -> Iterator[str]:
    """The first sentence of what the model answered, the newest first, each once."""
    seen: set[str] = set()
    for message in islice(reversed(messages), _LOOKED_AT):
        if find_speaker(message) != "assistant" or not message.text.strip():
            continue
        begun = next(iter(split_sentences(message.text[:ANSWER_CHARS])), "")[:ANSWER_CHARS]
        if begun and begun not in seen and not is_instruction(begun):
            seen.add(begun)
            yield f"- {begun}"


def _calmed(text: str) -> str:
    """A tool's output without lines that give the model instructions; those are quoted elsewhere."""
    lines = (
        text[:4_000].split("\n")
        if len(text) <= 4_000
        else [*text[:2_400].split("\n"), *text[-1_600:].split("\n")]
    )
    return "\n".join(_calm_lines(lines))


def _calm_lines(lines: Sequence[str]) -> Iterator[str]:
    """The lines without instructions, and without what is made to look like a section of a record of ours."""
    aping = False
    for line in lines:
        words = line.strip()
        heads = words.startswith("## ") and words[3:].strip() in _OURS
        aping = heads or (aping and words.startswith(("-", "*")))
        yield "[a line that gives instructions]" if aping or is_instruction(line) else line


def _quoted(text: str, *, head: int, tail: int) -> str:
    """What somebody said, as an item of a list; its lines are set in, so that none looks like a heading."""
    return "- " + middle_out(text.strip(), head=head, tail=tail).replace("\n", "\n  ")
