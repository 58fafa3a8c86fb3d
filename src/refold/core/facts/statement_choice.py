"""Chooses the sentences of a user that are told where there is no room for all: rules, then what adds most.

A rule is ranked by how surely it is one and by how rare its words are in the talk, never by its age: newer
talk cannot crowd it out. Of all else a sentence is worth the telling words that nobody told before it, for
the tokens it takes.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

from refold.core.facts.common_words import PLAIN
from refold.core.facts.ledger import RULE_KINDS, Fact
from refold.core.facts.words import NUMBERS, SELF, TIMES, capitals, split, spread, telling

_KNOWN: Final = 0.7
"""What a telling word is still worth that was told already."""
_MORE: Final = 4
"""Tokens that count against each sentence beside its own: of two short ones the longer tells more."""
_ALIKE: Final = 0.75
"""The share of a rule's telling words that a rule told before may have; more is the same rule."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a user said, with the telling words of each sentence and in how many of them each word stands."""

    facts: tuple[Fact, ...]
    words: dict[int, list[str]]
    spread: Counter[str]

    def rarity(self, fact: Fact) -> float:
        """How rare the words of a sentence are in this talk: 1 where each is said once."""
        words = self.words[id(fact)]
        return sum(1 / self.spread[word] for word in words) / len(words) if words else 0.0


def heard(facts: Sequence[Fact]) -> Heard:
    """Take the sentences apart."""
    words = {id(fact): telling(fact.text) for fact in facts}
    return Heard(tuple(facts), words, spread(words.values()))


def rules(said: Heard) -> list[Fact]:
    """The rules and what else holds, the surest and rarest first, each once."""
    ranked = sorted(
        (fact for fact in said.facts if fact.kind in RULE_KINDS),
        key=lambda fact: (-(fact.weight + said.rarity(fact)), fact.at, fact.text),
    )
    kept: list[Fact] = []
    known: dict[str, list[frozenset[str]]] = {}
    for fact in ranked:
        words = frozenset(said.words[id(fact)])
        rarest = min(words, key=lambda word: (said.spread[word], word), default="")
        if any(len(words & other) >= _ALIKE * len(words) for other in known.get(rarest, ())):
            continue
        for word in words:
            known.setdefault(word, []).append(words)
        kept.append(fact)
    return kept


def adding(said: Heard, told: Sequence[Fact], cost: Callable[[Fact], int], budget: int) -> list[Fact]:
    """The sentences that add most for their tokens, within a budget, beside what is told."""
    there = {id(fact) for fact in told}
    known = {word for fact in told for word in said.words.get(id(fact), ())}
    prices = {id(fact): cost(fact) for fact in said.facts if id(fact) not in there}
    people = {name for who in {fact.about for fact in said.facts} for name in split(who)}
    names = {name.lower() for fact in said.facts for name in capitals(fact.text)} - people
    values = {
        word: 0.0 if word in people else _value(word, times, len(said.facts), name=word in names)
        for word, times in said.spread.items()
    }
    tilt = {id(fact): _tilt(fact) for fact in said.facts if id(fact) not in there}

    def density(fact: Fact) -> float:
        words = said.words[id(fact)]
        worth = sum(values[word] * (_KNOWN if word in known else 1.0) for word in words)
        return worth * tilt[id(fact)] / (prices[id(fact)] + _MORE)

    heap = [(-density(fact), place) for place, fact in enumerate(said.facts) if id(fact) not in there]
    heapify(heap)
    kept: list[Fact] = []
    while heap and budget > 0:
        before, place = heappop(heap)
        fact = said.facts[place]
        if prices[id(fact)] > budget:
            continue
        now = -density(fact)
        if heap and now > heap[0][0] and now > before:  # worth less since others were told: look again
            heappush(heap, (now, place))
            continue
        kept.append(fact)
        budget -= prices[id(fact)]
        known.update(said.words[id(fact)])
    return kept


def _value(word: str, times: int, of: int, *, name: bool) -> float:
    """What a word is worth: numbers, names and times most, what is said all the time less."""
    rare = 1.0 / (1.0 + (times - 1) / max(8, of))
    if word in NUMBERS or any(letter.isdigit() for letter in word):
        return 1.8 * rare
    if name or word in TIMES:
        return 1.4 * rare
    return _PLAIN_WORD * rare if word in PLAIN else rare


_PLAIN_WORD: Final = 0.4
"""What a word is worth that half of all talk has."""


def _tilt(fact: Fact) -> float:
    """Whose matter it is: what somebody tells of himself most, of others less, what he asks for least."""
    words = split(fact.text)
    own = not SELF.isdisjoint(words)
    person = bool(fact.about)
    asked = fact.kind == "request" and (not person or fact.text.endswith("?"))
    whose = 1.0 if own or (person and "you" not in words and "your" not in words) else 0.6
    if whose < 1.0 and fact.kind == "statement" and len(words) <= _SHORT and _DIGIT.search(fact.text):
        whose = 1.0
    aside = _ASIDE.search(fact.text[:60]) is not None
    return whose * (0.6 if asked else 1.3 if aside else 1.0)


_SHORT: Final = 16
"""Words of a sentence that somebody may have made for us; what is pasted is longer."""
_DIGIT: Final = re.compile(r"\d")
_ASIDE: Final = re.compile(
    r"\b(?:by the way|btw|speaking of|which reminds me|übrigens|au fait|por cierto)\b", re.IGNORECASE
)
"""What people bring up unasked is about themselves more often than what they ask for."""
