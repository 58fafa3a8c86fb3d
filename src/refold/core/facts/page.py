"""A page of sections that is filled with facts within a budget of tokens.

Every line says what the thing is: a user's words with the number of their message, a command with its
outcome, a name with the file or the kind it belongs to. `fact_reading` takes such a text up again.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from refold.core.facts.headings import (
    ARROW,
    DECIDED,
    DONE,
    FAILED,
    FILES,
    JOINT,
    LISTED,
    OPEN,
    QUOTED,
    SAID,
    TITLES,
    TOLD,
    VALUES,
)
from refold.core.facts.ledger import USER_KINDS, Fact, Ledger

Count = Callable[[str], int]

HANDLE_TOKENS: Final = 5
"""What the mark of a list and the number of a message take, about."""


@dataclass(slots=True)
class Page:
    """Sections that are being filled within a budget of tokens."""

    count: Count
    left: int
    seen: set[str] = field(default_factory=set)
    """The words and names of what is shown already; a name in it is not told again."""
    beside: str = ""
    """What people say in messages that stay beside the page."""
    facts: dict[str, list[Fact]] = field(default_factory=dict)
    """The facts of each section."""
    groups: dict[str, dict[str, list[str]]] = field(default_factory=lambda: {FILES: {}, VALUES: {}})
    """The names under each line of the two sections that have such lines."""
    told: set[int] = field(default_factory=set)

    @property
    def text(self) -> str:
        """The sections in their order."""
        return "\n\n".join(
            f"## {title}\n" + "\n".join(lines) for title in TITLES if (lines := self._lines(title))
        )

    def _lines(self, title: str) -> list[str]:
        if title in self.groups:
            heads = self.groups[title].items()
            return [f"- {head}: {', '.join(names)}" if names else f"- {head}" for head, names in heads]
        if title == TOLD:
            return _told_lines(self.facts.get(title, ()))
        if title == LISTED:
            return _listed_lines(self.facts.get(title, ()))
        return _lines(self.facts.get(title, ()), title)

    def tell(self, fact: Fact, shown: str, cost: int) -> None:
        """Note that a fact is shown."""
        self.told.add(id(fact))
        self.seen.update(stands(shown))
        self.left -= cost


_TOKEN: Final = re.compile(r"[\w./@~-]{2,240}")
_WORD: Final = re.compile(r"\w{2,240}")


def stands(text: str) -> Iterable[str]:
    """The words of a text, its names and paths, and what its paths end with."""
    found = set(_WORD.findall(text))
    for token in set(_TOKEN.findall(text)) - found:
        name = token.strip(".-")
        found.add(name)
        while "/" in name:
            name = name.partition("/")[2]
            found.add(name)
    return found


def fill(page: Page, ledger: Ledger, title: str, budget: int) -> None:
    """Fill a section with the most important facts that fit and are not told yet."""
    budget = min(budget, page.left)
    kept = page.facts.setdefault(title, [])
    budget -= 0 if kept else page.count(f"## {title}\n\n")
    first = not kept
    of_kind = ledger.of(*_KINDS[title])
    for fact in Ledger(tuple(of_kind)).ranked():
        if id(fact) in page.told:
            continue
        text = line(fact)
        if title == FAILED and any(fact.text in done.about for done in page.facts.get(DONE, ())):
            continue
        cost = page.count(text) + HANDLE_TOKENS
        if cost <= budget:
            budget -= cost
            kept.append(fact)
            page.tell(fact, text, cost + (page.count(f"## {title}\n\n") if first else 0))
            first = False
    order = {id(fact): place for place, fact in enumerate(of_kind)}
    kept.sort(key=lambda fact: order[id(fact)])


_KINDS: Final = {
    DECIDED: frozenset({"decision", "promise"}),
    OPEN: frozenset({"todo", "open call"}),
    DONE: frozenset({"done"}),
    FAILED: frozenset({"error"}),
    QUOTED: frozenset({"quoted"}),
}


def line(fact: Fact) -> str:
    """What a fact says, without its number."""
    if fact.kind in {"todo", "open call"}:
        return f"[{fact.about}] {fact.text}"
    if fact.kind == "done":
        return f"{fact.text}{ARROW}{fact.about}" if fact.about else fact.text
    if fact.kind == "quoted":
        return f'"{fact.text}"'
    return f"{fact.about}: {fact.text}" if fact.kind in USER_KINDS and fact.about else fact.text


def _lines(facts: Sequence[Fact], title: str) -> list[str]:
    """The lines of a section in the order of the messages; sentences of one message in one line."""
    lines: list[str] = []
    last = None
    for fact in sorted(facts, key=lambda fact: fact.at):
        text = line(fact).replace("\n", " ")
        if title == SAID and fact.at == last:
            lines[-1] += JOINT + text
        else:
            lines.append(f"- #{fact.at} {text}")
        last = fact.at
    return lines


def _told_lines(facts: Sequence[Fact]) -> list[str]:
    """Statements in brief, a few messages a line, or one line a person where several speak."""
    lines: dict[str, list[str]] = {}
    last: dict[str, int] = {}
    for place, fact in enumerate(sorted(facts, key=lambda fact: fact.at)):
        head = f"{fact.about}: " if fact.about else "\n" * (place // _IN_A_LINE)
        text = fact.text.replace("\n", " ")
        lines.setdefault(head, []).append(text if last.get(head) == fact.at else f"#{fact.at} {text}")
        last[head] = fact.at
    return [f"- {head.strip(chr(10))}{JOINT.join(pieces)}" for head, pieces in lines.items()]


def _listed_lines(facts: Sequence[Fact]) -> list[str]:
    """A line for each list, with what it was about."""
    lists: dict[tuple[int, str], list[str]] = {}
    for fact in sorted(facts, key=lambda fact: fact.at):
        lists.setdefault((fact.at, fact.about), []).append(fact.text.replace(";", ","))
    return [f"- #{at} {about or LIST}: {'; '.join(names)}" for (at, about), names in lists.items()]


LIST: Final = "a list"
"""What a list is about where nothing tells."""
_IN_A_LINE: Final = 8
