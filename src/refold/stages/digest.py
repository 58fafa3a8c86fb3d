"""Digest: what leaves, written down without a model: facts, outcomes, latest outputs, last words.

The ledger of earlier folds is merged with the facts that leave now and shown in sections, each with a share
of the digest; a section may use what the one before it left. An earlier digest is read back as facts, so that
digests do not nest; any other summary is kept as it is, from its top.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from refold.core.compaction.task import Task
from refold.core.facts.collector import OUTPUT_CHARS
from refold.core.facts.extraction import find_facts, find_todos
from refold.core.facts.ledger import STORED_TOKENS, USER_KINDS, Fact, Ledger, report_kept
from refold.core.facts.lists import fill_lists
from refold.core.facts.page import (
    ANSWERED,
    DECIDED,
    DONE,
    FAILED,
    FILE_RULES,
    OPEN,
    OUTPUTS,
    QUOTED,
    SAID,
    TITLES,
    VALUES,
    Count,
    Page,
    fill_changed,
    fill_names,
    fill_section,
    words_and_names,
)
from refold.core.facts.read_page import facts_of_summaries
from refold.core.facts.sentences import join_wrapped_lines
from refold.core.facts.user_statements import fill_statements
from refold.core.messages.file_operations import FILES, FileOps, format_file_tags, read_listed_files
from refold.core.messages.message import Message
from refold.core.messages.speakers import find_speaker
from refold.core.messages.summary_headers import TRUNCATION_MARKER
from refold.core.messages.text_cutting import fit_text, middle_out
from refold.core.messages.transcript import neutralise
from refold.core.summaries.work_state import find_state
from refold.core.summaries.wrappers import (
    FILES_SHARE,
    Covered,
    WordedSummary,
    drop_listed,
    limit_files,
    unwrap_summary,
    wrap_summary,
)

# The shares and limits below were set on `refold eval retention`: re-used names of agent runs, answer words
# of LongMemEval and LoCoMo, planted rules over ten folds (docs/decisions/0012-facts.md). On other data they
# may err in both directions.
MOST_TOKENS: Final = 10_000
"""Tokens of a digest at most. A summary has less: where no model can be asked, more of the window is better
spent on facts."""
LEAST_TOKENS: Final = 200
"""Tokens that a digest may always have; the pipeline rejects it if the messages that leave have fewer."""
LEAST_BESIDE: Final = 64
"""The same if a goal is set: the clamp stage would cut off more."""
SHARE: Final = 0.25
"""Size of a digest as a share of the text it stands for; more would be a copy, less loses more. Earlier
digests among it count whole: they are short already."""
_WORK_SHARES: Final = (
    (SAID, 0.25),
    (FILE_RULES, 0.6),
    (OPEN, 0.08),
    (FILES, 0.35),
    (DECIDED, 0.05),
    (ANSWERED, 0.05),
    (DONE, 0.6),
    (FAILED, 0.1),
    (QUOTED, 0.02),
    (FILES, 1.0),
    (DONE, 0.1),
    (VALUES, 1.0),
)
"""Shares of the sections where tools did the work: what was said and what was done; names use the rest. Rules
in files have one only where such a file was read. Files and actions come twice: first the newest changes, and
actions that tell more than a list of files."""
CHANGED_SHARE: Final = 0.1
"""Share that the newest actions have in any case where no files are worked on, changes before lookups: an
order of the user looks open without its outcome, and rules and answers may use all the rest."""
_CALL_SHARES: Final = (
    (DONE, CHANGED_SHARE),
    (SAID, 0.25),
    (OPEN, 0.08),
    (DECIDED, 0.1),
    (ANSWERED, 0.35),
    (DONE, 0.6),
    (FAILED, 0.1),
    (QUOTED, 0.02),
    (DONE, 1.0),
    (VALUES, 1.0),
)
"""The same where no file was touched. What the model answered says which requests are settled; calls of an
interface tell more than the ids in its answers."""
_SAID_SHARE: Final = 0.85
_TALK_SHARES: Final = ((FILE_RULES, 0.1), (OPEN, 0.08), (DECIDED, 0.03), (FAILED, 0.03), (VALUES, 0.03))
"""Shares where people talk: their own words matter."""
ANSWERED_SHARE: Final = 0.25
"""Share of what the model answered them, taken from that of their words without their rules. Filled before
the rules it would push out some: after ten folds 93 % of the fresh set stood, behind them 97 %."""
TALK_RULES_SHARE: Final = 0.75
"""Share that sure rules of people may have in any case beside answers."""
RULES_SHARE: Final = 0.8
"""Share of rules where tools work: a model that lacks a name looks it up, one that lacks a rule breaks it."""
LISTS_SHARE: Final = 0.2
"""Share of names from lists in answers where people talk; proportionally less below `ROOMY_LISTS` tokens."""
ROOMY_LISTS: Final = 8_000
MEMORY_SHARE: Final = 0.35
"""Share of earlier summaries that are no digests."""
LAST_SHARE, LAST_SHARE_ANSWERED = 0.06, 0.02
"""Share of the model's last words; less where newer words stay behind the digest."""
READ_SHARE: Final = 0.1
"""Share of a digest for the names of files that were only read: they can be read again."""
LEAST_SECTION: Final = 24
"""Tokens that a section may have in any case; a share of a small digest would hold nothing."""
ROOMY: Final = 1_500
"""Tokens of a digest from which there is room for last words that newer messages follow."""
TIGHT: Final = 4_000
"""Tokens of a digest below which the rest that sections leave over is distributed once more."""
# The limits below bound the work on a huge history.
LOOK_BACK: Final = 200
"""Messages at the end from which the state of the work is read."""
_STAYING_LAST, _STAYING_FIRST = 60, 3
"""Messages at the end, and at the beginning where the request stands, that are searched for what stays."""

MEMORY, LAST = "Earlier memory", "Last words"
_OWN_TITLES: Final = frozenset(
    {*TITLES, LAST, OUTPUTS, "What was done", "What was answered, by its first words"}
)
"""Headings of digests; stored ones may have those that are no longer written."""
_SAYS_NOTHING: Final = frozenset({f"## {MEMORY}", TRUNCATION_MARKER})
"""Lines of earlier memory that are not carried on."""


@dataclass(frozen=True, slots=True)
class Staying:
    """Names and words that stay in the view beside the digest and need not be shown in it."""

    names: frozenset[str]
    said: str
    """Words of people in the messages that stay."""
    answered: bool
    """True if a message of the model stays behind the messages that leave."""
    todos: Sequence[Fact]
    """Todo items and plans in the messages that stay."""


def write_digest(messages: Sequence[Message], covered: Covered, task: Task) -> WordedSummary:
    """Write the digest of the messages that leave, wrapped as a summary, with the ledger as metadata."""
    covered = replace(covered, state=find_state(messages[-LOOK_BACK:]))
    ledger = _join_facts(messages, covered, task)
    staying = _read_staying(task, covered)
    shown = _update_todos(ledger, staying.todos)
    files, covered = covered.files, replace(covered, files=FileOps())
    most = _choose_size(covered, task)
    text = _write_text(messages, shown, most, staying, task)
    covered = replace(covered, files=_choose_unlisted(files, text, most, task.counter.plain))
    if covered.files != FileOps():  # they take some of its room, so that it tells of fewer
        text = _write_text(messages, shown, _choose_size(covered, task), staying, task)
        room = task.counter.plain(format_file_tags(covered.files))
        unlisted = drop_listed(files, read_listed_files(text))
        covered = replace(covered, files=limit_files(unlisted, room, task.counter.plain))
    # Where a view is planned again, its ledger is the same.
    meta = {"facts": task.found.find_in(_write_stored, ledger), "state": covered.state}
    wrapped = wrap_summary(text, covered, lists_files=read_listed_files(text) != FileOps())
    return WordedSummary(wrapped, meta, report_kept(text, ledger, 0).counts)


def _write_text(messages: Sequence[Message], ledger: Ledger, most: int, staying: Staying, task: Task) -> str:
    """Write the text of a digest in so many tokens."""
    count = task.counter.plain
    text = neutralise(_format_sections(messages, ledger, most, staying, task))
    if (over := count(text) - most) > 0:  # joined sections may have a little more than their pieces
        text = neutralise(_format_sections(messages, ledger, most - over - 4, staying, task))
    return fit_text(text, most, count=count).text


def _choose_unlisted(files: FileOps, text: str, most: int, count: Count) -> FileOps:
    """Return the newest of the files of which a digest of so many tokens does not tell."""
    unlisted = drop_listed(files, read_listed_files(text))
    changed = limit_files(FileOps(modified=unlisted.modified), int(most * FILES_SHARE), count)
    return replace(changed, read=limit_files(unlisted, int(most * READ_SHARE), count).read)


def _join_facts(messages: Sequence[Message], covered: Covered, task: Task) -> Ledger:
    """Join the facts of earlier summaries and of the messages that leave.

    Where a view is planned again, mostly the same ones leave.
    """
    numbers = [task.number(index) for index in covered.places]
    earlier = [place for place, message in enumerate(messages) if message.is_summary]
    lasts = [task.span((covered.places[place],))[1] for place in earlier]
    key = (_join_facts, *map(id, messages), *numbers, *lasts)
    known = task.found.get(key)
    if known is None:
        stored = facts_of_summaries([messages[place] for place in earlier], lasts, task.found)
        # While the messages are kept, no other one has the identity of one of them.
        known = stored.merge(find_facts(messages, numbers, task.found)), messages
        task.found.put(key, known)
    ledger: Ledger = known[0]
    return ledger


def _write_stored(ledger: Ledger) -> list[list[Any]]:
    """Return the facts as they are stored."""
    return ledger.fit_to(STORED_TOKENS).to_json()


def _choose_size(covered: Covered, task: Task) -> int:
    """Choose the tokens of a digest: a share of what leaves, and no more than the goal leaves room for."""
    leaving = task.counter.tokens(sum(task.sizes[index] for index in covered.places))
    summaries = [index for index in covered.places if task.messages[index].is_summary]
    earlier = task.counter.tokens(sum(task.sizes[index] for index in summaries))
    most = min(MOST_TOKENS, int((leaving - earlier) * SHARE) + earlier)
    if task.goal is None:
        return max(LEAST_TOKENS, most)
    wrapper = task.counter.plain(wrap_summary("", covered, lists_files=True)) + 8
    room = task.goal - (task.tokens - leaving) - wrapper
    return max(LEAST_BESIDE, min(most, int(room * 0.99) - 2))


def _read_staying(task: Task, covered: Covered) -> Staying:
    """Read what stays at both ends of the history."""
    leaving = set(covered.places)
    names: set[str] = set()
    said: list[str] = []
    answered = False
    length = len(task.messages)
    newest = range(max(_STAYING_FIRST, length - _STAYING_LAST), length)
    for index in (*range(min(_STAYING_FIRST, length)), *newest):
        if index not in leaving:
            message = task.messages[index]
            text = task.counter.visible(message)[:OUTPUT_CHARS]
            names.update(task.found.find(words_and_names, text))
            voice = find_speaker(message)
            said += [join_wrapped_lines(message.text)] if voice == "user" else []
            answered = answered or (voice == "assistant" and index > covered.places[-1])
    stays = [index for index in range(length) if index not in leaving]
    todos = find_todos([task.messages[index] for index in stays], [task.number(index) for index in stays])
    return Staying(frozenset(names), "\n".join(said), answered, todos)


def _update_todos(ledger: Ledger, staying: Sequence[Fact]) -> Ledger:
    """Leave out the todo items that staying messages settle, replace, or tell as they are now."""
    if not staying:
        return ledger
    stands = {(fact.text, fact.at) for fact in staying}
    todos = sorted((*ledger.of("plan", "todo"), *staying), key=lambda fact: fact.at)
    kept = [fact for fact in ledger.facts if fact.kind != "todo"]
    kept += [fact for fact in Ledger().merge(todos).of("todo") if (fact.text, fact.at) not in stands]
    return Ledger(tuple(sorted(kept, key=lambda fact: fact.at)))


def _format_sections(
    messages: Sequence[Message], ledger: Ledger, most: int, staying: Staying, task: Task
) -> str:
    """Format the sections of a digest within a budget of tokens."""
    count = task.counter.plain
    page = Page(count, most, seen=set(staying.names), beside=staying.said, found=task.found)
    words = () if staying.answered and most < ROOMY else _find_last_words(messages)
    share = LAST_SHARE_ANSWERED if staying.answered else LAST_SHARE
    last = _format_section(LAST, words, max(int(most * share), min(64, most // 5)), count)
    memory = _format_section(MEMORY, _find_memory(messages), int(most * MEMORY_SHARE), count)
    page.left -= count(last) + count(memory)
    is_work = len(ledger.of("done")) * 3 > len(ledger.of(*USER_KINDS))
    left = page.left
    if not is_work:
        fill_lists(page, ledger, int(most * LISTS_SHARE * min(1.0, most / ROOMY_LISTS)))
    listed = left - page.left
    shares: tuple[tuple[str, float], ...] = ((DONE, CHANGED_SHARE), (SAID, _SAID_SHARE), *_TALK_SHARES)
    rules_share = 0.0
    if is_work:
        shares, rules_share = _WORK_SHARES if ledger.of("file") else _CALL_SHARES, RULES_SHARE
    elif ledger.of("answer"):
        answered = (SAID, _SAID_SHARE - ANSWERED_SHARE), (ANSWERED, ANSWERED_SHARE)
        shares, rules_share = ((DONE, CHANGED_SHARE), *answered, *_TALK_SHARES), TALK_RULES_SHARE
    for title, share in shares:
        budget = max(int(most * share) - listed * (title == SAID), LEAST_SECTION)
        if title == VALUES:
            fill_names(page, ledger, budget)
        elif title == SAID:
            fill_statements(page, ledger, budget, rules_budget=int(most * rules_share))
        elif title == FILES:
            fill_changed(page, ledger, budget)
        else:
            fill_section(page, ledger, title, budget, brief=title not in page.facts, newest=is_work)
    # Counting the pieces one by one gives a little too much, so the tokens that are really left are used.
    for _ in range(2 if is_work and most < TIGHT else 1):
        page.left = most - count("\n\n".join(part for part in (memory, page.text, last) if part)) - 4
        fill_statements(page, ledger, page.left)
        if is_work:
            fill_changed(page, ledger, page.left)
            fill_section(page, ledger, DONE, page.left)
            fill_names(page, ledger, page.left)
    fill_section(page, ledger, ANSWERED, page.left)
    return "\n\n".join(part for part in (memory, page.text, last) if part)


def _format_section(title: str, lines: Iterable[str], budget: int, count: Count) -> str:
    """Format a section of free lines within a budget, its heading included; "" where nothing fits."""
    left = budget - count(f"## {title}\n\n")
    kept: list[str] = []
    for line in lines:
        cost = count(line) + 1
        if cost > left:
            if not kept and left > 16:  # the beginning of the first line is better than an empty section
                kept.append(fit_text(line, left, count=count).text)
            break
        kept.append(line)
        left -= cost
    return f"## {title}\n" + "\n".join(kept) if kept else ""


# -- free lines ---------------------------------------------------------------------------------------------


def _find_memory(messages: Sequence[Message]) -> Iterator[str]:
    """Find the lines of earlier summaries that stand under no heading of a digest."""
    for message in messages:
        if message.is_summary and message.meta.get("kind") != "ack":
            own, text = False, unwrap_summary(message)
            if message.meta.get("by") == "claude-code":  # its notes stand in front of it
                text = text.partition("\nSummary:\n")[2] or text
            for line in text.split("\n"):
                if line.startswith("## "):
                    own = line[3:].strip() in _OWN_TITLES
                if line.strip() and not own and line not in _SAYS_NOTHING:
                    yield line


def _find_last_words(messages: Sequence[Message]) -> list[str]:
    """Find what the model said last."""
    for message in reversed(messages):
        if find_speaker(message) == "assistant" and message.text.strip():
            # Its lines are indented, so that none looks like a heading.
            return ["- " + middle_out(message.text.strip(), head=600, tail=300).replace("\n", "\n  ")]
        if message.is_summary and (earlier := unwrap_summary(message).partition(f"## {LAST}\n")[2]):
            return [earlier.partition("\n\n")[0].strip()]
    return []
