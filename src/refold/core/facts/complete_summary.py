"""Appends the facts that a summary lacks, within a budget of tokens. Knows no stage and no model."""

import re
from dataclasses import dataclass
from typing import Final

from refold.core.facts.ledger import RULE_KINDS, USER_KINDS, FactReport, Ledger, report_kept
from refold.core.facts.page import (
    ANSWERED,
    DECIDED,
    DONE,
    FAILED,
    FILE_RULES,
    HANDLE_TOKENS,
    OPEN,
    QUOTED,
    SAID,
    VALUES,
    Count,
    Page,
    fill_changed,
    fill_names,
    fill_section,
    words_and_names,
)
from refold.core.facts.read_page import read_page
from refold.core.facts.user_statements import fill_statements
from refold.core.messages.file_operations import FILES

BEGIN, END = "<facts>", "</facts>"
"""Tags around the facts behind a summary; `wrappers` takes them off again."""
_OWN_TAG: Final = re.compile(r"<(?=/?facts>)", re.IGNORECASE)
# The shares below were set on `refold eval retention` (docs/decisions/0012-facts.md). Tokens that a section
# does not use go to the next one, and at last to the user's words.
_WORK_SHARES: Final = (
    (OPEN, 0.2),
    (SAID, 0.5),
    (FILE_RULES, 0.5),
    (FILES, 0.25),
    (DECIDED, 0.1),
    (DONE, 0.5),
    (FAILED, 0.1),
    (VALUES, 1.0),
    (QUOTED, 0.1),
)
"""Sections in the order of repair, each with its share, where tools did the work."""
_TALK_SHARES: Final = (
    (SAID, 0.85),
    (FILE_RULES, 0.1),
    (OPEN, 0.1),
    (DECIDED, 0.05),
    (FAILED, 0.03),
    (VALUES, 1.0),
)
"""The same where people talk and hardly anything is done: their own words matter."""
RULES_SHARE: Final = 0.5
"""Share that rules may have in any case: who misses a name looks it up, who misses a rule breaks it."""
FACTS_SHARE: Final = 0.25
"""Share of the room of a summary that a long one leaves for the facts it lacks."""
MOST_RULES_SHARE: Final = 0.6
"""The same where the user's rules need more. After ten folds with a weak summariser 29 of 30 fresh rules
stand (`python -m bench.retention DATASET --measure planted`)."""
LEAST_FACTS, LEAST_FACTS_SHARE = 300, 0.5
"""Tokens that facts have beside a summary where tools did the work, and their most share of a small room. Of
agent runs at a tenth of their tokens, views with a small model's summary keep 45.0 / 18.2 % with them and
44.6 / 16.2 without; no summary keeps 46.6 / 18.3 (docs/decisions/0023-age-graded-views.md)."""
DENSE_SHARE: Final = 0.5
"""A text that keeps this share of what facts in its place would keep is cut for rules and `FACTS_SHARE`
alone. Texts of a small model that are too long keep 0.16 to 0.37, one by a person keeps 0.55
(docs/decisions/0023-age-graded-views.md)."""
WORTH_REPAIR: Final = 2.0
"""Lighter facts (small talk, names that were only seen) are not worth room behind a summary."""


@dataclass(frozen=True, slots=True)
class CompletedSummary:
    """A summary's text with the facts that it lacked behind it, and what became of each fact."""

    text: str
    report: FactReport
    """Kept by the text itself, repaired behind it, reachable by handle."""


def reserve_facts(ledger: Ledger, room: int) -> int:
    """Return tokens of a room that a model is not asked to fill: the facts of work are known without it."""
    return min(LEAST_FACTS, int(room * LEAST_FACTS_SHARE)) if _is_work(ledger) else 0


def share_room(text: str, ledger: Ledger, room: int, count: Count) -> int:
    """Return how many tokens of a room a summary may have beside the facts that it lacks.

    The user's rules count that no later fold would read back from the summary. A summary that is too long has
    less, unless it tells nearly as much as facts would.
    """
    noted = {fact.key for fact in read_page(text).facts}
    missing = (fact for fact in ledger.of(*RULE_KINDS) if fact.key not in noted)
    rules = sum(count(fact.text) + HANDLE_TOKENS for fact in missing)
    share = room - max(room * FACTS_SHARE, min(rules, room * MOST_RULES_SHARE))
    least = min(share, room - reserve_facts(ledger, room))
    return int(share if least < count(text) and _is_dense(text, ledger, room, count) else least)


def _is_dense(text: str, ledger: Ledger, room: int, count: Count) -> bool:
    """True if a summary keeps much for its tokens, beside what facts would keep in the same room."""
    alone = append_missing_facts("", ledger, room, count)
    kept = sum(fact.weight for fact in report_kept(text, ledger, 0).kept)
    listed = sum(fact.weight for fact in alone.report.repaired)
    return kept * count(alone.text) >= DENSE_SHARE * listed * count(text)


def _is_work(ledger: Ledger) -> bool:
    """True if tools did the work; else people talk and hardly anything is done."""
    return len(ledger.of("done")) * 3 > len(ledger.of(*USER_KINDS))


def append_missing_facts(
    text: str, ledger: Ledger, tokens: int, count: Count, *, light: bool = False, repeats: bool = False
) -> CompletedSummary:
    """Append the most important facts that a summary lacks, within a budget of tokens.

    `light`: the lighter facts too, where there is room to spare. `repeats`: also rules that the summary tells
    where no later fold reads them back, because nothing but the view is left of them.
    """
    text = _OWN_TAG.sub("&lt;", text)
    report = report_kept(text, ledger, 0)
    least = 0.0 if light else WORTH_REPAIR
    missing = Ledger(tuple(fact for fact in report.reachable if fact.weight >= least))
    if repeats:
        noted = {fact.key for fact in read_page(text).facts}
        again = (fact for fact in report.kept if fact.kind in RULE_KINDS and fact.key not in noted)
        # All are of one ledger: merged anew, it would lose its open calls.
        missing = Ledger(tuple(sorted((*missing.facts, *again), key=lambda fact: fact.at)))
    page = Page(count, tokens - count(f"\n\n{BEGIN}\n{END}"), seen=set(words_and_names(text)))
    for title, share in (*(_WORK_SHARES if _is_work(ledger) else _TALK_SHARES), (SAID, 1.0)):
        if title == VALUES:
            fill_names(page, missing, int(page.left * share))
        elif title == SAID:
            fill_statements(page, missing, int(tokens * share), rules_budget=int(tokens * RULES_SHARE))
        elif title == FILES:
            fill_changed(page, missing, int(tokens * share))
        else:
            fill_section(page, missing, title, int(tokens * share), brief=True)
    if light:
        fill_section(page, missing, ANSWERED, page.left)
    block = _OWN_TAG.sub("&lt;", page.text)
    # Joined sections may have a few tokens more than their pieces; then the summary stays as it is.
    if not block or count(f"\n\n{BEGIN}\n{block}\n{END}") > tokens:
        return CompletedSummary(text, report)
    repaired = tuple(fact for fact in report.reachable if id(fact) in page.shown)
    lost = tuple(fact for fact in report.reachable if id(fact) not in page.shown)
    completed = FactReport(kept=report.kept, repaired=repaired, reachable=lost)
    return CompletedSummary(f"{text}\n\n{BEGIN}\n{block}\n{END}", completed)
