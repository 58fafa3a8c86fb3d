"""Chooses the user's words that a page shows: all of them, else rules first, then the rest in brief.

A rule is ranked by how surely it is one and by how rare its words are in the talk, never by its age: newer
talk cannot crowd it out. Any other sentence is worth the content words that no shown sentence has, for the
tokens it takes. The reasons and the measurements stand in docs/decisions/0012-facts.md.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import Final, NamedTuple

from refold.core.facts.ledger import RULE_KINDS, USER_KINDS, Fact, Ledger
from refold.core.facts.page import HANDLE_TOKENS, IN_BRIEF, SAID, Page, format_fact
from refold.core.facts.words import (
    capitalised_words,
    common_words,
    content_words,
    shorten_sentence,
    split_words,
    word_lists,
)
from refold.core.messages.quick_init import quick_replace
from refold.core.tokens.findings import Findings
from refold.patterns import read_pattern

# Every number below was set while looking at the answer words that are kept of LongMemEval and LoCoMo and
# at the planted rules of `refold eval retention` (docs/decisions/0012-facts.md); elsewhere they may err.
_SHOWN_WORD: Final = 0.7
"""Value that a content word still has after it was shown; lower spreads over more subjects."""
_OVERHEAD_TOKENS: Final = 4
"""Tokens counted against each sentence beside its own: of two short ones the longer says more."""
_SAME_RULE: Final = 0.75
"""Share of a rule's content words in a rule shown before it that makes both the same rule."""
_COMMON_WORD: Final = 0.4
"""Value of a word that half of all talk has."""
_OWN_WORDS: Final = 16
"""Words of a sentence that somebody may have written for us; what is pasted is longer."""
JOINT_TOKENS: Final = 3
"""Tokens of a mark and a number inside a line."""
RULES_SHARE: Final = 0.8
"""Share of the user's words that rules may take."""
RULES_SHARE_AMONG_PEOPLE: Final = 0.05
"""The same where several people talk to each other: what seems to hold is mostly kindness there."""
STANDING_TOKENS: Final = 1_000
"""Tokens for sentences that seem to hold and have no words of a rule; they are guesses."""
_SHORTENED_KINDS: Final = frozenset({"statement", "request"})
"""Kinds that may lose their little words; rules stand word for word, so that they are recognised again."""
_FIRM_KINDS: Final = frozenset({"constraint", "correction"})
"""Kinds that have a share of their own where people talk to each other."""
_DIGIT: Final = re.compile(r"\d")
_UNASKED: Final = read_pattern(__package__, "unasked", re.IGNORECASE)
"""Statements that people make unasked are about themselves more often than their requests are."""
_UNASKED_WORDS: Final = frozenset({"way", "btw", "speaking", "reminds", "fait", "cierto"})
"""Words of which such a statement in ASCII has one; few have, which is found out faster."""


class Wording(NamedTuple):
    """What the choice needs to know of a sentence; it follows from its text alone."""

    words: Sequence[str]
    """Content words, each once."""
    names: Sequence[str]
    """Words with a capital inside the sentence, in small letters."""
    is_own: bool
    """True if its speaker speaks of themselves."""
    is_addressed: bool
    """True if it speaks to somebody."""
    is_short_number: bool
    """True if it is short and has a number."""
    is_unasked: bool


def read_wording(text: str) -> Wording:
    """Read what the choice needs to know of a sentence."""
    words = split_words(text)
    return Wording(
        words=content_words(text, words),
        names=[name.lower() for name in capitalised_words(text)],
        is_own=not word_lists()["speaker"].isdisjoint(words),
        is_addressed="you" in words or "your" in words,
        is_short_number=len(words) <= _OWN_WORDS and _DIGIT.search(text) is not None,
        is_unasked=(not text.isascii() or not _UNASKED_WORDS.isdisjoint(words))
        and _UNASKED.search(text[:60]) is not None,
    )


@dataclass(frozen=True, slots=True)
class Statements:
    """Sentences of the user, the wording of each, and in how many sentences each word occurs."""

    facts: tuple[Fact, ...]
    wordings: dict[int, Wording]
    sentences_with: Counter[str]

    def words(self, fact: Fact) -> Sequence[str]:
        """Return the content words of a sentence."""
        return self.wordings[id(fact)].words

    def value_words(self) -> dict[str, float]:
        """Value each word: numbers, names and times most, frequent words less, names of speakers nothing."""
        lists = word_lists()
        people = {name for subject in {fact.about for fact in self.facts} for name in split_words(subject)}
        names = {name for wording in self.wordings.values() for name in wording.names}
        # Most words occur once. A later kind of word overrules the ones before it.
        values = dict.fromkeys(self.sentences_with, 1.0)
        least = max(8, len(self.facts))
        for word, times in self.sentences_with.items():
            if times > 1:
                values[word] = 1.0 / (1.0 + (times - 1) / least)
        rare = dict(values)
        others = [word for word in values if not word.isalpha()]
        numbers = (values.keys() & lists["numbers"]).union(
            word for word in others if any(map(str.isdigit, word))
        )
        kinds = ((common_words(), _COMMON_WORD), (names | lists["times"], 1.4), (numbers, 1.8), (people, 0.0))
        for words, value in kinds:
            values.update((word, value * rare[word]) for word in values.keys() & words)
        return values


def weigh_statements(facts: Sequence[Fact], found: Findings | None = None) -> Statements:
    """Read the wording of sentences and count in how many of them each word occurs."""
    found = Findings() if found is None else found
    wordings = {id(fact): found.find(read_wording, fact.text) for fact in facts}
    words = chain.from_iterable(wording.words for wording in wordings.values())
    return Statements(tuple(facts), wordings, Counter(words))


def choose_rules(said: Statements) -> list[Fact]:
    """Return the rules and other lasting statements, the surest and rarest first, each once."""

    def rank(fact: Fact) -> tuple[float, int, str]:
        words = said.words(fact)
        rarity = sum(1 / said.sentences_with[word] for word in words) / len(words) if words else 0.0
        return -(fact.weight + rarity), fact.at, fact.text

    kept: list[Fact] = []
    known: dict[str, list[frozenset[str]]] = {}
    for fact in sorted((fact for fact in said.facts if fact.kind in RULE_KINDS), key=rank):
        words = frozenset(said.words(fact))
        rarest = min(words, key=lambda word: (said.sentences_with[word], word), default="")
        if any(len(words & other) >= _SAME_RULE * len(words) for other in known.get(rarest, ())):
            continue
        for word in words:
            known.setdefault(word, []).append(words)
        kept.append(fact)
    return kept


def choose_statements(
    said: Statements, shown: Sequence[Fact], cost: Callable[[Fact], int], budget: int
) -> list[Fact]:
    """Return the sentences that add most to the page for their tokens, within a budget."""
    shown_ids = {id(fact) for fact in shown}
    left = [fact for fact in said.facts if id(fact) not in shown_ids]
    costs = list(map(cost, left))
    if not left or budget < min(costs):
        return []
    wordings = [said.wordings[id(fact)] for fact in left]
    words = [wording.words for wording in wordings]
    factors = list(map(_speaker_factor, left, wordings))
    known: set[str] = set()
    values = said.value_words()
    weigh = values.__getitem__

    def note_words(shown_words: Iterable[str]) -> None:
        for word in shown_words:
            if word not in known:
                known.add(word)
                values[word] *= _SHOWN_WORD

    def density(place: int) -> float:
        return sum(map(weigh, words[place])) * factors[place] / (costs[place] + _OVERHEAD_TOKENS)

    for fact in shown:
        note_words(said.words(fact))
    # A lazy greedy choice: values only fall while words become known, so the top of the heap is weighed again
    # only when it comes up.
    heap = [(-density(place), place) for place in range(len(left))]
    heapify(heap)
    kept: list[Fact] = []
    while heap and budget > 0:
        before, place = heappop(heap)
        if costs[place] > budget:
            continue
        now = -density(place)
        if heap and now > heap[0][0] and now > before:
            heappush(heap, (now, place))
            continue
        kept.append(left[place])
        budget -= costs[place]
        note_words(words[place])
    return kept


def _speaker_factor(fact: Fact, wording: Wording) -> float:
    """Return a factor: statements of people about themselves weigh most, their requests least."""
    person = bool(fact.about)
    asked = fact.kind == "request" and (not person or fact.text.endswith("?"))
    own = wording.is_own or (person and not wording.is_addressed)
    own = own or (fact.kind == "statement" and wording.is_short_number)
    return (1.0 if own else 0.6) * (0.6 if asked else 1.3 if wording.is_unasked else 1.0)


def fill_statements(page: Page, ledger: Ledger, budget: int, *, rules_budget: int = 0) -> None:
    """Fill the sections of the user's words: all of them, else rules first, then what adds most.

    Other sentences may use what rules leave of their share; `rules_budget` is for sure rules in any case.
    """
    budget, rules_budget = min(budget, page.left), min(rules_budget, page.left)
    empty = [title for title in (SAID, IN_BRIEF) if not page.facts.get(title)]
    headings = sum(page.title_cost(title) for title in empty)
    if max(budget, rules_budget) - headings < JOINT_TOKENS:
        return
    if page.said is None:  # a page is filled from one ledger, and mostly twice
        words = set(page.beside.split())  # what stands there has all its inner words there, which is fast
        said = [
            fact
            for fact in ledger.of(*USER_KINDS)
            if not words.issuperset(fact.text.split()[1:-1]) or fact.text not in page.beside
        ]
        page.said = [(fact, page.count(format_fact(fact)) + HANDLE_TOKENS) for fact in said]
    left = [(fact, cost) for fact, cost in page.said if id(fact) not in page.shown]
    facts = [fact for fact, _ in left]
    costs = {id(fact): cost for fact, cost in left}
    if sum(costs.values()) + headings <= budget:
        for fact in facts:
            page.facts.setdefault(SAID, []).append(fact)
            page.add(fact, fact.text, costs[id(fact)])
    else:
        # Where a model works, people talk to it, and what they say may be a rule for it.
        among = any(fact.about for fact in facts) and not ledger.of("done")
        _fill_chosen(page, facts, costs, (budget - headings, rules_budget - headings), people=among)
    page.left -= sum(page.title_cost(title) for title in empty if page.facts.get(title))


def _fill_chosen(
    page: Page, facts: Sequence[Fact], costs: dict[int, int], budgets: tuple[int, int], *, people: bool
) -> None:
    """Fill in the rules within their share, then the sentences that add most, in brief.

    budgets   tokens for all of them, and for sure rules in any case
    people    True where people talk to each other
    """
    budget, rules_budget = budgets
    said = weigh_statements(facts, page.found)
    kept: list[Fact] = []
    room = int(budget * (RULES_SHARE_AMONG_PEOPLE if people else RULES_SHARE))
    budget -= room
    room, extra = max(room, rules_budget), max(0, rules_budget - room)
    standing = min(room - extra, STANDING_TOKENS)
    for fact in choose_rules(said):
        if people and fact.kind not in _FIRM_KINDS:
            continue
        cost = costs[id(fact)]
        if cost <= (standing if fact.kind == "standing" else room):
            room -= cost
            standing = min(room, standing - cost * (fact.kind == "standing"))
            kept.append(fact)
            page.facts.setdefault(SAID, []).append(fact)
            page.add(fact, fact.text, cost)
    budget += max(0, room - extra)
    short = {
        id(fact): page.found.find(shorten_sentence, fact.text)
        for fact in facts
        if fact.kind in _SHORTENED_KINDS
        or (people and fact.kind not in _FIRM_KINDS and id(fact) not in page.shown)
    }
    costs = costs | {place: page.count(text) + JOINT_TOKENS for place, text in short.items()}
    for fact in choose_statements(said, kept, lambda fact: costs[id(fact)], budget):
        text = short.get(id(fact))
        if text is not None and text.isascii() and " " not in text:
            continue  # one word tells nothing
        if text is None:
            page.facts.setdefault(SAID, []).append(fact)
        else:
            page.facts.setdefault(IN_BRIEF, []).append(quick_replace(fact, text=text))
        page.add(fact, fact.text if text is None else text, costs[id(fact)])
