"""Puts the facts that a summary lacks behind it, within a budget; knows no stage."""

import re
from dataclasses import dataclass
from typing import Final

from refold.core.facts.headings import DECIDED, DONE, FAILED, OPEN, QUOTED, SAID, VALUES
from refold.core.facts.ledger import USER_KINDS, Kept, Ledger, kept_in
from refold.core.facts.name_section import fill_names
from refold.core.facts.page import Count, Page, fill, stands
from refold.core.facts.user_statements import fill_said

BEGIN, END = "<facts>", "</facts>"
"""Around the facts behind a summary; `frames.bare` takes them off again."""
_OWN_END: Final = re.compile(r"<(?=/?facts>)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Mended:
    """A summary's text with the facts that it lacked behind it, and what became of each."""

    text: str
    report: Kept
    """Kept by the text itself, repaired behind it, reachable by handle."""


_ORDER: Final = (
    (OPEN, 0.2),
    (SAID, 0.5),
    (DECIDED, 0.1),
    (FAILED, 0.1),
    (DONE, 0.1),
    (VALUES, 1.0),
    (QUOTED, 0.1),
)
"""What is repaired first, each within a share; what is left goes to the user's words."""
_TALKED: Final = ((SAID, 0.85), (OPEN, 0.1), (DECIDED, 0.05), (FAILED, 0.03), (VALUES, 1.0))
"""The same where people talk and hardly anything is done: their own words are what matters."""
RULED: Final = 0.5
"""What rules may have in any case: whoever goes on without a name looks for it, but not for a rule."""


WORTH_REPAIR: Final = 2.0
"""Lighter facts (small talk, names that were only seen) are not worth room behind a summary."""


def mend(text: str, ledger: Ledger, tokens: int, count: Count, *, light: bool = False) -> Mended:
    """Put the facts that a summary lacks behind it, the most important ones, within so many tokens.

    `light`: the lighter ones too, where the room is there for the taking.
    """
    report = kept_in(text, ledger, 0)
    worth = 0.0 if light else WORTH_REPAIR
    missing = Ledger(tuple(fact for fact in report.reachable if fact.weight >= worth))
    page = Page(count, tokens - count(f"\n\n{BEGIN}\n{END}"), seen=set(stands(text)))
    work = len(ledger.of("done")) * 3 > len(ledger.of(*USER_KINDS))
    for title, share in (*(_ORDER if work else _TALKED), (SAID, 1.0)):
        if title == VALUES:
            fill_names(page, missing, int(page.left * share))
        elif title == SAID:
            fill_said(page, missing, int(tokens * share), ruled=int(tokens * RULED))
        else:
            fill(page, missing, title, int(tokens * share))
    block = _OWN_END.sub("&lt;", page.text)
    if not block or count(f"\n\n{BEGIN}\n{block}\n{END}") > tokens:
        return Mended(text, report)
    there = [fact for fact in report.reachable if id(fact) in page.told]
    lost = [fact for fact in report.reachable if id(fact) not in page.told]
    mended = Kept(kept=report.kept, repaired=tuple(there), reachable=tuple(lost))
    return Mended(f"{text}\n\n{BEGIN}\n{block}\n{END}", mended)
