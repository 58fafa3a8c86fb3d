"""What an assistant listed in its answers: the names at the head of the items, with what the list was about.

Answers are long and hardly ever asked for again, but for one thing: which shop, book or page was it that you
named? So only names are kept: heads whose words are written large and that nobody writes small in this talk.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from refold.core.facts.common_words import PLAIN
from refold.core.facts.headings import LISTED
from refold.core.facts.injections import commands_model
from refold.core.facts.ledger import LISTED_WEIGHT, Fact, Ledger
from refold.core.facts.page import HANDLE_TOKENS, Page
from refold.core.facts.sentences import sentences
from refold.core.facts.words import telling

LEAST_ITEMS: Final = 3
"""Items that make a list."""
NAMED: Final = 0.6
"""What it weighs more where the whole list is one of names: there it is sure to be one."""
_ABOUT: Final = 4
"""Words that say what a list is about."""
_ITEM: Final = re.compile(r"^[ \t]{0,6}(?:[-*•]|\d{1,3}[.)])[ \t]{1,4}(\S.{1,400})$", re.MULTILINE)
_HEAD: Final = re.compile(r"\*\*([^*\n]{2,60})\*\*|([^:\n*]{2,60}?)(?::| [-–—] | \(|$)")
_PLACE: Final = re.compile(
    r"\b(?:in|at|on|near|by|from) (?:the )?([A-Z][\w'’-]{1,30}(?: [A-Z][\w'’-]{1,30}){0,3})"
)
_WORD: Final = re.compile(r"[^\W_][\w'’.&-]{0,60}")
_SMALL: Final = re.compile(r"(?<![\w'’.])[a-z][\w'’]{0,60}")
_JOINS: Final = frozenset(
    {"a", "an", "the", "and", "of", "at", "in", "on", "for", "with", "to", "by", "from", "or"}
)


_MARKS: Final = ("\n- ", "\n* ", "\n• ", "\n2. ", "\n2) ", "\n   - ")


@dataclass(frozen=True, slots=True)
class Answer:
    """A message of the model that holds a list."""

    at: int
    text: str


def has_list(text: str) -> bool:
    """Whether a text may hold a list; quick."""
    return any(mark in text for mark in _MARKS)


def listed(answers: Sequence[Answer]) -> Iterator[Fact]:
    """The names that were listed in these answers."""
    small = {word for answer in answers for word in _SMALL.findall(answer.text)}
    for answer in answers:
        items = list(_ITEM.finditer(answer.text))
        if len(items) >= LEAST_ITEMS:
            about = " ".join(_about(answer.text[: items[0].start()]))
            names = [name for item in items if (name := _named(item[1], small))]
            weight = LISTED_WEIGHT + NAMED * len(names) / len(items)
            yield from (Fact("listed", name, about, answer.at, weight) for name in names)


def _about(lead: str) -> list[str]:
    """The telling words of what stands before a list, those of the sentence that leads to it first."""
    words = [word for sentence in reversed(sentences(lead)[-3:]) for word in telling(sentence)]
    return [word for word in dict.fromkeys(words) if word not in PLAIN][:_ABOUT]


def _named(item: str, small: set[str]) -> str:
    """The name at the head of an item, with the place behind it; "" where there is none."""
    found = _HEAD.match(item)
    head = (found[1] or found[2]).strip(' :.,;"“”') if found else ""
    words = [word for word in _WORD.findall(head) if word not in _JOINS]
    large = all(word[0].isupper() or word[0].isdigit() for word in words)
    known = all(word[0].isdigit() or word.lower() in small for word in words)
    if known or not large or commands_model(head):
        return ""
    place = _PLACE.search(item, len(head))
    return f"{head} ({place[1]})" if place and place[1] not in head else head


def fill_listed(page: Page, ledger: Ledger, budget: int) -> None:
    """Fill the section of what was listed, lists of nothing but names first, within a budget."""
    budget = min(budget, page.left) - page.count(f"## {LISTED}\n\n")
    heads: set[tuple[int, str]] = set()
    kept: list[Fact] = []
    facts = [fact for fact in ledger.of("listed") if fact.text not in page.seen]
    for fact in sorted(facts, key=lambda fact: (-round(fact.weight, 1), -fact.at)):
        group = (fact.at, fact.about)
        cost = page.count(f"; {fact.text}")
        cost += 0 if group in heads else page.count(fact.about) + HANDLE_TOKENS
        if cost <= budget:
            budget -= cost
            heads.add(group)
            kept.append(fact)
            page.tell(fact, fact.text, cost)
    if kept:
        page.left -= page.count(f"## {LISTED}\n\n")
        page.facts[LISTED] = kept
