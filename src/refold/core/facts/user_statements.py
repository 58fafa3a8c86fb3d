"""Fills a page with the user's words: all of them, else rules word for word, then what adds most in brief."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from refold.core.facts.headings import SAID, TOLD
from refold.core.facts.ledger import USER_KINDS, Fact, Ledger
from refold.core.facts.page import HANDLE_TOKENS, Page, line
from refold.core.facts.statement_choice import adding, heard, rules
from refold.core.facts.words import brief

JOINT_TOKENS: Final = 3
"""The same inside a line."""
_IN_BRIEF: Final = frozenset({"statement", "request"})
"""What may lose its little words; what holds stands word for word, so that it is known again."""
RESERVED: Final = 0.8
"""The share of the user's words that rules may take; where several people talk to each other, less."""
RESERVED_AMONG_PEOPLE: Final = 0.05
_RULED: Final = frozenset({"constraint", "correction"})
"""What has that share where people talk to each other: what seems to hold is mostly kindness there."""
STANDING_TOKENS: Final = 1_000
"""What may be taken by what seems to hold and is no rule by its words."""


def fill_said(page: Page, ledger: Ledger, budget: int, *, ruled: int = 0) -> None:
    """Fill the sections of the user's words: all of them, else rules first, then what adds most.

    What rules do not need of their share the others may use; `ruled` is what they may have in any case.
    """
    budget, ruled = min(budget, page.left), min(ruled, page.left)
    facts = [
        fact
        for fact in ledger.facts
        if fact.kind in USER_KINDS and id(fact) not in page.told and fact.text not in page.beside
    ]
    costs = {id(fact): page.count(line(fact)) + HANDLE_TOKENS for fact in facts}
    empty = [title for title in (SAID, TOLD) if not page.facts.get(title)]
    titles = sum(page.count(f"## {title}\n\n") for title in empty)
    if sum(costs.values()) + titles <= budget:
        for fact in facts:
            _say(page, fact, costs[id(fact)])
        _charge(page, empty)
        return
    said = heard(facts)
    budget -= titles
    kept: list[Fact] = []
    people = any(fact.about for fact in facts)
    room = int(budget * (RESERVED_AMONG_PEOPLE if people else RESERVED))
    budget -= room
    room, more = max(room, ruled - titles), max(0, ruled - titles - room)
    standing = min(room, STANDING_TOKENS)
    for fact in rules(said):
        if people and fact.kind not in _RULED:
            continue
        cost = costs[id(fact)]
        if cost <= (standing if fact.kind == "standing" else room):
            room -= cost
            standing = min(room, standing - cost * (fact.kind == "standing"))
            kept.append(fact)
            _say(page, fact, cost)
    budget += max(0, room - more)
    short = {
        id(fact): brief(fact.text)
        for fact in facts
        if fact.kind in _IN_BRIEF or (people and fact.kind not in _RULED and id(fact) not in page.told)
    }
    prices = costs | {
        id(fact): page.count(short[id(fact)]) + JOINT_TOKENS for fact in facts if id(fact) in short
    }
    for fact in adding(said, kept, lambda fact: prices[id(fact)], budget):
        if id(fact) in short:
            page.facts.setdefault(TOLD, []).append(replace(fact, text=short[id(fact)]))
            page.tell(fact, short[id(fact)], prices[id(fact)])
        else:
            _say(page, fact, prices[id(fact)])
    _charge(page, empty)


def _charge(page: Page, empty: Sequence[str]) -> None:
    """Take the headings off what is left that were not there before."""
    page.left -= sum(page.count(f"## {title}\n\n") for title in empty if page.facts.get(title))


def _say(page: Page, fact: Fact, cost: int) -> None:
    page.facts.setdefault(SAID, []).append(fact)
    page.tell(fact, fact.text, cost)
