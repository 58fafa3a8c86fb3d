"""The ledger of a talk in the six sections that CompactBench asks for; knows nothing else of CompactBench.

What was said goes whole and in its own words into the section that tells how it holds: what must never be
done, what was decided, what waits, what is open, the rest as facts. A question that got its answer is nothing
of these. What somebody took back is no decision any more: it stands among what must not be done, marked so.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from refold import formats
from refold.core.facts.extraction import find
from refold.core.facts.ledger import RULE_KINDS, USER_KINDS, Fact, Ledger
from refold.core.facts.words import telling
from refold.evals.cues import ASKS, DECIDES, DEFERS, FORBIDS, OPEN, TAKES_BACK
from refold.evals.roles import roles
from refold.evals.ways import Wire

LONGEST: Final = 500
"""Characters that CompactBench takes of an item."""
MOST: Final = 60
DROPPED: Final = "No longer: "
"""Before what was taken back."""
BRIEF: Final = 5
"""Words of a sentence that says by itself too little, right behind a rule, and joins it."""
_OF_USERS: Final = USER_KINDS | {"decision", "value", "todo"}


def state_of(messages: Wire, budget: int | None = None) -> dict[str, Any]:
    """What must not be lost of a talk, section by section, within so many tokens."""
    ledger = Ledger().patched(find(formats.detect(messages).parse(messages)))
    fitted = ledger if budget is None else ledger.fitted(budget)
    kept = set(fitted.facts)
    said = _joined(fact for fact in ledger.facts if fact in kept)  # in the order of the talk
    back = taken_back(said)
    answered = max((at for at, one in enumerate(messages) if one.get("role") == "assistant"), default=-1)
    parts: dict[str, list[str]] = {
        name: [] for name in ("facts", "decided", "deferred", "forbidden", "open", "")
    }
    for fact in said:
        text = f"{fact.about} = {fact.text}" if fact.kind == "value" else fact.text
        part = "forbidden" if fact in back else _part(fact, said, answered)
        parts[part].append((DROPPED + text if fact in back else text)[:LONGEST])
    gone = {*parts[""], *(fact.text for fact in back)}
    named = _named([fact.text for fact in said], gone)
    return {
        "immutable_facts": parts["facts"][-MOST:],
        "locked_decisions": parts["decided"][-MOST:],
        "deferred_items": parts["deferred"][-MOST:],
        "forbidden_behaviors": parts["forbidden"][-MOST:],
        "entity_map": named,
        "unresolved_items": parts["open"][-MOST:],
    }


def _named(said: Sequence[str], gone: Collection[str]) -> dict[str, str]:
    """Who and what is named; what no longer holds says nothing of anybody's part, except in passing."""
    found = roles(said)
    wrong = {text.rstrip(".!? ") for text in gone}
    return dict([(name, role) for name, role in found.items() if role not in wrong][-MOST:])


def _joined(facts: Iterable[Fact]) -> list[Fact]:
    """The facts; a few words right behind a rule, as "No exceptions.", are part of it."""
    joined: list[Fact] = []
    told = [fact for fact in facts if fact.kind in _OF_USERS]
    for fact in told:
        if fact.kind == "value" and any(fact.text in one.text for one in told if one.kind != "value"):
            continue  # the sentence says it
        last = joined[-1] if joined else None
        if last and last.at == fact.at and FORBIDS.search(last.text) and _adds_nothing(fact.text):
            joined[-1] = replace(last, text=f"{last.text} {fact.text}")
        else:
            joined.append(fact)
    return joined


def _adds_nothing(text: str) -> bool:
    return len(text.split()) <= BRIEF and not any(letter.isdigit() for letter in text) and not roles([text])


def _part(fact: Fact, said: Sequence[Fact], answered: int) -> str:
    """The section of a fact; "" where it is nothing that holds."""
    text = fact.text
    if fact.kind == "todo":
        return "" if fact.about in {"completed", "done", "cancelled"} else "open"
    if _turns(fact):
        return "decided" if _tells(fact) else ""
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
    return "decided" if DECIDES.search(text) or _after_turn(fact, said) else "facts"


def _turns(fact: Fact) -> bool:
    """Whether a sentence takes back what was said before."""
    return fact.kind != "value" and bool(TAKES_BACK.search(fact.text))


def _tells(fact: Fact) -> bool:
    """Whether it says anything besides that."""
    rest = TAKES_BACK.sub(" ", fact.text)
    return len(telling(rest)) > 1


def _after_turn(fact: Fact, said: Sequence[Fact]) -> bool:
    """Whether it stands in one message with words that take something back: then it is what holds now."""
    return any(one.at == fact.at and one is not fact and _turns(one) for one in said)


def taken_back(said: Sequence[Fact]) -> list[Fact]:
    """What was taken back: of the message before the one that does so, what shares most words with it."""
    gone: list[Fact] = []
    for turn in sorted({fact.at for fact in said if _turns(fact)}):
        before = [fact for fact in said if fact.at < turn and not fact.text.endswith("?")]
        last = max((fact.at for fact in before), default=-1)
        near = [fact for fact in before if fact.at == last and not FORBIDS.search(fact.text)]
        words = set(telling(" ".join(fact.text for fact in said if fact.at == turn)))
        gone += sorted(near, key=lambda fact: -len(words & set(telling(fact.text))))[:1]
    return gone
