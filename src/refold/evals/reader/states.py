"""The ledger of a talk in the six sections that CompactBench asks for; knows nothing else of CompactBench.

Each statement goes unchanged into one section: forbidden, decided, deferred, open, else facts. A question
that got its answer goes into none. A decision that somebody took back goes among the forbidden, marked so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from refold import formats
from refold.core.facts.extraction import find_facts
from refold.core.facts.ledger import RULE_KINDS, USER_KINDS, Fact, Ledger
from refold.core.facts.words import content_words
from refold.evals.methods import Wire
from refold.evals.reader.sentence_roles import ASKS, DECIDES, DEFERS, FORBIDS, OPEN, TAKES_BACK, find_roles

LONGEST: Final = 500
"""Characters that CompactBench takes of an item."""
MOST: Final = 60
DROPPED: Final = "No longer: "
"""Prefix of a statement that was taken back."""
BRIEF: Final = 5
"""Words of a short sentence, at most, that joins the rule right before it."""
_OF_USERS: Final = USER_KINDS | {"decision", "value", "todo"}


def make_state(messages: Wire, budget: int | None = None) -> dict[str, Any]:
    """Return the statements of a talk that must not be lost, by section, within a budget of tokens."""
    ledger = Ledger().merge(find_facts(formats.detect(messages).parse(messages)))
    fitted = ledger if budget is None else ledger.fit_to(budget)
    kept = set(fitted.facts)
    said = _join_facts(fact for fact in ledger.facts if fact in kept)  # in the order of the talk
    back = find_taken_back(said)
    answered = max((at for at, one in enumerate(messages) if one.get("role") == "assistant"), default=-1)
    parts: dict[str, list[str]] = {
        name: [] for name in ("facts", "decided", "deferred", "forbidden", "open", "")
    }
    for fact in said:
        text = f"{fact.about} = {fact.text}" if fact.kind == "value" else fact.text
        part = "forbidden" if fact in back else _choose_section(fact, said, answered)
        parts[part].append((DROPPED + text if fact in back else text)[:LONGEST])
    # Roles from statements that no longer hold are left out.
    gone = {text.rstrip(".!? ") for text in (*parts[""], *(fact.text for fact in back))}
    roles = find_roles([fact.text for fact in said])
    named = dict([(name, role) for name, role in roles.items() if role not in gone][-MOST:])
    return {
        "immutable_facts": parts["facts"][-MOST:],
        "locked_decisions": parts["decided"][-MOST:],
        "deferred_items": parts["deferred"][-MOST:],
        "forbidden_behaviors": parts["forbidden"][-MOST:],
        "entity_map": named,
        "unresolved_items": parts["open"][-MOST:],
    }


def _join_facts(facts: Iterable[Fact]) -> list[Fact]:
    """Return the facts; a few words right behind a rule, such as "No exceptions.", become part of it."""
    joined: list[Fact] = []
    user_facts = [fact for fact in facts if fact.kind in _OF_USERS]
    for fact in user_facts:
        if fact.kind == "value" and any(
            fact.text in other.text for other in user_facts if other.kind != "value"
        ):
            continue  # the sentence says it
        last = joined[-1] if joined else None
        if last and last.at == fact.at and FORBIDS.search(last.text) and _adds_nothing(fact.text):
            joined[-1] = replace(last, text=f"{last.text} {fact.text}")
        else:
            joined.append(fact)
    return joined


def _adds_nothing(text: str) -> bool:
    return (
        len(text.split()) <= BRIEF and not any(letter.isdigit() for letter in text) and not find_roles([text])
    )


def _choose_section(fact: Fact, said: Sequence[Fact], answered: int) -> str:
    """Return the section of a fact; "" if it does not hold any more."""
    text = fact.text
    if fact.kind == "todo":
        return "" if fact.about in {"completed", "done", "cancelled"} else "open"
    if _takes_back(fact):
        # What takes something back may say something else beside.
        return "decided" if len(content_words(TAKES_BACK.sub(" ", text))) > 1 else ""
    if OPEN.search(text):
        return "open"
    if text.rstrip("\"')").endswith("?") and fact.kind not in RULE_KINDS:
        return "open" if ASKS.match(text) or fact.at > answered else ""
    if FORBIDS.search(text):
        return "forbidden"
    if DEFERS.search(text):
        return "deferred"
    if fact.kind in {"constraint", "correction", "decision"}:
        return "decided"
    if ASKS.match(text):
        return "open"
    # Where another sentence of the same message takes something back, this one holds now.
    corrects = any(other.at == fact.at and other is not fact and _takes_back(other) for other in said)
    return "decided" if corrects or DECIDES.search(text) else "facts"


def _takes_back(fact: Fact) -> bool:
    """True if a sentence takes back an earlier statement."""
    return fact.kind != "value" and bool(TAKES_BACK.search(fact.text))


def find_taken_back(said: Sequence[Fact]) -> list[Fact]:
    """Return the facts that were taken back: the most similar ones of the message before the correction."""
    gone: list[Fact] = []
    for turn in sorted({fact.at for fact in said if _takes_back(fact)}):
        before = [fact for fact in said if fact.at < turn and not fact.text.endswith("?")]
        last = max((fact.at for fact in before), default=-1)
        near = [fact for fact in before if fact.at == last and not FORBIDS.search(fact.text)]
        words = set(content_words(" ".join(fact.text for fact in said if fact.at == turn)))
        gone += sorted(near, key=lambda fact: -len(words & set(content_words(fact.text))))[:1]
    return gone
