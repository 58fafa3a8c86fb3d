"""Puts the facts that a summary lacks behind it, within a budget; knows no stage."""

import re
from dataclasses import dataclass
from typing import Final

from refold.core.fact_names import fill_names
from refold.core.fact_page import Count, Page, fill, stands
from refold.core.fact_said import fill_said
from refold.core.fact_sections import DECIDED, DONE, FAILED, OPEN, QUOTED, SAID, VALUES
from refold.core.facts import Kept, Ledger, kept_in

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


WORTH_REPAIR: Final = 2.0
"""Lighter facts (small talk, names that were only seen) are not worth room behind a summary."""


def mend(text: str, ledger: Ledger, tokens: int, count: Count) -> Mended:
    """Put the facts that a summary lacks behind it, the most important ones, within so many tokens."""
    report = kept_in(text, ledger, 0)
    missing = Ledger(tuple(fact for fact in report.reachable if fact.weight >= WORTH_REPAIR))
    page = Page(count, tokens - count(f"\n\n{BEGIN}\n{END}"), seen=set(stands(text)))
    for title, share in (*_ORDER, (SAID, 1.0)):
        if title == VALUES:
            fill_names(page, missing, int(page.left * share))
        elif title == SAID:
            fill_said(page, missing, int(tokens * share))
        else:
            fill(page, missing, title, int(tokens * share))
    block = _OWN_END.sub("&lt;", page.text)
    if not block or count(f"\n\n{BEGIN}\n{block}\n{END}") > tokens:
        return Mended(text, report)
    there = [fact for fact in report.reachable if id(fact) in page.told]
    lost = [fact for fact in report.reachable if id(fact) not in page.told]
    mended = Kept(kept=report.kept, repaired=tuple(there), reachable=tuple(lost))
    return Mended(f"{text}\n\n{BEGIN}\n{block}\n{END}", mended)
