"""Names at the head of the items of a model's lists, with the subject of each list.

Answers are long and hardly ever asked for again, but for one thing: which shop, book or page was it that you
named? So only names are kept: heads whose words are capitalised and that nobody writes in small letters in
these answers.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from refold.core.facts.injections import is_instruction, may_instruct
from refold.core.facts.ledger import LISTED_WEIGHT, Fact, Ledger
from refold.core.facts.page import HANDLE_TOKENS, LISTED, Page
from refold.core.facts.sentences import find_last_sentences
from refold.core.facts.words import common_words, content_words, make_letters
from refold.core.tokens.findings import Findings
from refold.patterns import read_pattern

LEAST_ITEMS: Final = 3
"""Least items of a list; two are only a remark."""
ALL_NAMES_BONUS: Final = 0.6
"""Extra weight in proportion to the share of names in the list: in a list of names they are surely names."""
_SUBJECT_WORDS: Final = 4
"""Words that say what a list is about; more cost more than they tell."""
_ITEM: Final = re.compile(r"^[ \t]{0,6}(?:[-*•]|\d{1,3}[.)])[ \t]{1,4}(\S.{1,400})$", re.MULTILINE)
_ITEM_START: Final = re.compile(r"\n(?:[-*•]|2[.)]|   -) ")
_HEAD: Final = re.compile(r"\*\*([^*\n]{2,60})\*\*|([^:\n*]{2,60}?)(?::| [-–—] | \(|$)")
_PLACE: Final = read_pattern(__package__, "place")
_WORD: Final = re.compile(r"[^\W_][\w'’.&-]{0,60}")
_SMALL_WORD: Final = re.compile(r"[a-z](?<![\w'’.].)[\w'’]{0,60}")
"""A word that somebody writes in small letters. It begins with a set of letters: so it is found faster."""
_LETTERS: Final = make_letters("_'.")
"""What belongs to such a word in a text of ASCII; none begins behind an apostrophe or a dot."""
_JOINING_WORDS: Final = frozenset(
    {"a", "an", "the", "and", "of", "at", "in", "on", "for", "with", "to", "by", "from", "or"}
)


@dataclass(frozen=True, slots=True)
class ListAnswer:
    """A message of the model that holds a list."""

    at: int
    text: str


def may_hold_list(text: str) -> bool:
    """True if a text may hold a list; a fast check."""
    return _ITEM_START.search(text) is not None


class _Head(NamedTuple):
    """The head of an item that may be a name."""

    text: str
    item: str
    words: frozenset[str]
    """Its words in small letters."""


class _List(NamedTuple):
    """What was listed in an answer."""

    lead: str
    """The text before the list."""
    items: int
    heads: Sequence[_Head]


def find_listed_names(answers: Sequence[ListAnswer], found: Findings) -> Iterator[Fact]:
    """Find the names that were listed in these answers."""
    lists = [(answer.at, found.find(_read_list, answer.text)) for answer in answers]
    named = frozenset(chain.from_iterable(head.words for _, listed in lists for head in listed.heads))
    small = _find_small(named, [answer.text for answer in answers])
    for at, listed in lists:
        heads = [head for head in listed.heads if not head.words <= small]  # no ordinary words
        if found.find(may_instruct, "\n".join([head.text for head in heads])):
            heads = [head for head in heads if not found.find(is_instruction, head.text)]
        if heads:
            about = found.find(_find_subject, listed.lead)
            weight = LISTED_WEIGHT + ALL_NAMES_BONUS * len(heads) / listed.items
            yield from (Fact("listed", _add_place(head), about, at, weight) for head in heads)


def _find_small(words: frozenset[str], texts: Sequence[str]) -> frozenset[str]:
    """Find which of these words somebody writes in small letters."""
    # To cut letters of ASCII apart by a table takes a third of the time of `re`.
    plain = " ".join(filter(str.isascii, texts)).encode().translate(_LETTERS).replace(b".", b" .")
    others = " ".join(text for text in texts if not text.isascii())
    odd = _SMALL_WORD.findall(" ".join(set(others.split())))  # words are mostly said again
    return words.intersection(plain.decode().split() + odd)


def _read_list(text: str) -> _List:
    """Read the items of an answer; nothing else of it where there are few."""
    items = list(_ITEM.finditer(text))
    if len(items) < LEAST_ITEMS:
        return _List("", len(items), ())
    heads = [head for item in items if (head := _read_head(item[1]))]
    return _List(text[: items[0].start()], len(items), heads)


def _find_subject(lead: str) -> str:
    """Find the words that say what a list is about; the sentence that leads to it says it best."""
    words: dict[str, None] = {}
    for sentence in reversed(find_last_sentences(lead, 3)):
        words |= dict.fromkeys(word for word in content_words(sentence) if word not in common_words())
    return " ".join(list(words)[:_SUBJECT_WORDS])


def _read_head(item: str) -> _Head | None:
    """Read the head of an item; None if it cannot be a name."""
    match = _HEAD.match(item)
    head = (match[1] or match[2]).strip(' :.,;"“”') if match else ""
    words = [word for word in _WORD.findall(head) if word not in _JOINING_WORDS]
    for word in words:
        if not (word[0].isupper() or word[0].isdigit()):
            return None
    return _Head(head, item, frozenset([word.lower() for word in words if not word[0].isdigit()]))


def _add_place(head: _Head) -> str:
    """Return a name with the place behind it, if the item tells one."""
    place = _PLACE.search(head.item, len(head.text))
    return f"{head.text} ({place[1]})" if place and place[1] not in head.text else head.text


def fill_lists(page: Page, ledger: Ledger, budget: int) -> None:
    """Fill the section of listed names within a budget, lists of nothing but names first."""
    heading = page.title_cost(LISTED)
    budget = min(budget, page.left) - heading
    lists: set[tuple[int, str]] = set()
    kept: list[Fact] = []
    facts = [fact for fact in ledger.of("listed") if fact.text not in page.seen]
    for fact in sorted(facts, key=lambda fact: (-round(fact.weight, 1), -fact.at)):
        of_list = (fact.at, fact.about)
        cost = page.count(f"; {fact.text}")
        cost += 0 if of_list in lists else page.count(fact.about) + HANDLE_TOKENS
        if cost <= budget:
            budget -= cost
            lists.add(of_list)
            kept.append(fact)
            page.add(fact, fact.text, cost)
    if kept:
        page.left -= heading
        page.facts[LISTED] = kept
