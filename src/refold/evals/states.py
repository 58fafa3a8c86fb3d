"""The ledger of a talk in the six sections that CompactBench asks for; knows nothing else of CompactBench."""

import re
from typing import Any, Final

from refold import formats
from refold.core.fact_finding import find
from refold.core.facts import Ledger
from refold.evals.ways import Wire

LONGEST: Final = 500
"""Characters that CompactBench takes of an item."""
MOST: Final = 60
_FORBIDS: Final = re.compile(
    r"\b(?:never|don['’]?t|do not|must not|avoid|no longer|under no circumstances|without)\b", re.IGNORECASE
)


def state_of(messages: Wire) -> dict[str, Any]:
    """What must not be lost of a talk, section by section."""
    ledger = Ledger().patched(find(formats.detect(messages).parse(messages)))
    forbidden: list[str] = []
    decided: list[str] = []
    facts: list[str] = []
    open_: list[str] = []
    for fact in ledger.facts:
        text = f"{fact.about} = {fact.text}" if fact.kind == "value" else fact.text
        if fact.kind in {"constraint", "standing"} and _FORBIDS.search(text):
            forbidden.append(text[:LONGEST])
        elif fact.kind in {"constraint", "correction", "decision"} or text.lower().startswith("instead"):
            decided.append(text[:LONGEST])
        elif fact.kind in {"preference", "standing", "statement", "value"}:
            facts.append(text[:LONGEST])
        elif fact.kind in {"request", "todo"}:
            open_.append(text[:LONGEST])
    return {
        "immutable_facts": facts[-MOST:],
        "locked_decisions": decided[-MOST:],
        "deferred_items": [],
        "forbidden_behaviors": forbidden[-MOST:],
        "entity_map": {},
        "unresolved_items": open_[-MOST:],
    }
