"""Fills a page with files, names and values: names under their file, or under what they are."""

from collections.abc import Iterable
from typing import Final

from refold.core.facts.entities import FILE, PATH, kind_of
from refold.core.facts.headings import FILES, VALUES
from refold.core.facts.ledger import SEEN_ONLY, Fact, Ledger, worth
from refold.core.facts.page import Page

PATHS: Final = frozenset({PATH, FILE})
_TOKEN_WORTH: Final = 0.08
"""What a token must bring: of two names of one worth the shorter one comes first."""


def fill_names(page: Page, ledger: Ledger, budget: int) -> None:
    """Fill the sections of files, names and values with what is most likely used again."""
    facts = [fact for fact in ledger.facts if fact.kind in _KINDS and id(fact) not in page.told]
    newest = max((fact.at for fact in ledger.facts), default=0)
    lines = _heads(facts, ledger)
    budget = min(budget, page.left)
    budget -= sum(page.count(f"## {title}\n\n") for title, heads in page.groups.items() if not heads)
    sizes = {id(fact): page.count(f", {fact.text}") for fact in facts}
    facts.sort(key=lambda fact: (-worth(fact, newest) + _TOKEN_WORTH * sizes[id(fact)], fact.at, fact.text))
    for fact in facts:
        if fact.kind == "name" and fact.text in page.seen:
            page.told.add(id(fact))
            continue
        title, head, item = _placed(fact, lines)
        heads = page.groups[title]
        cost = (sizes[id(fact)] if item else 0) + (0 if head in heads else page.count(f"- {head}:\n"))
        if cost <= budget:
            budget -= cost
            page.tell(fact, item if head in heads else f"{head} {item}", cost)
            heads.setdefault(head, []).extend([item] if item else [])


_KINDS: Final = frozenset({"file", "name", "value"})


def _longest(paths: Iterable[str]) -> dict[str, str]:
    """For each path the longest one among them that ends with it: one line tells both."""
    by_name: dict[str, list[str]] = {}
    for path in dict.fromkeys(paths):
        by_name.setdefault(path.rsplit("/", 1)[-1], []).append(path)
    found: dict[str, str] = {}
    for same in by_name.values():
        same.sort(key=len, reverse=True)
        for path in same:
            found[path] = next((longer for longer in same if longer.endswith(f"/{path}")), path)
    return found


def _placed(fact: Fact, heads: dict[str, str]) -> tuple[str, str, str]:
    """The section, the line and the item in it that tell a fact."""
    if fact.kind == "value":
        return VALUES, f"{fact.about} = {fact.text} (#{fact.at})", ""
    if fact.kind == "file" or fact.about in PATHS:
        return FILES, heads.get(fact.text, fact.text), ""
    if fact.about in heads:
        return FILES, heads[fact.about], fact.text
    return VALUES, kind_of(fact.text) or fact.about, fact.text


def _heads(facts: Iterable[Fact], ledger: Ledger) -> dict[str, str]:
    """For each path that somebody worked with its line: the longest path that ends with it, and its state."""
    files = [fact for fact in ledger.facts if fact.kind == "file"]
    spoken = [fact.text for fact in facts if fact.about in PATHS and fact.weight >= SEEN_ONLY]
    whole = _longest([*(fact.text for fact in files), *spoken])
    state: dict[str, Fact] = {}
    for file in files:
        where = whole[file.text]
        if where not in state or state[where].about != "changed" or file.about == "changed":
            state[where] = file
    return {
        path: f"{where} ({state[where].about} #{state[where].at})" if where in state else where
        for path, where in whole.items()
    }
