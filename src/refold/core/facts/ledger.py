"""What must not be lost, as typed values: facts, and the ledger that is patched with them over folds.

A fact says what it is (`kind`, `about`), what it says (`text`) and which message said it (`at`, the number
behind `#`). Facts with the same key are one fact: the newest wins, the older leaves. The ledger lives in a
summary's metadata as plain data and is brought up to date by patches, so that nothing is told a second time
in other words and nothing decays from fold to fold.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from refold.core.facts.words import slot
from refold.core.tokens.estimate import estimate

RULE_KINDS: Final = frozenset({"constraint", "correction", "preference", "standing"})
"""What holds beyond the moment: rules, and facts and habits that nobody has to say again (`standing`)."""
USER_KINDS: Final = RULE_KINDS | {"statement", "request"}
"""What only a user's own words can be."""
KINDS: Final = USER_KINDS | {
    "decision",
    "promise",
    "todo",
    "open call",
    "done",
    "error",
    "file",
    "name",
    "value",
    "listed",
    "quoted",
}
WEIGHTY: Final = 4.0
"""From this weight on a fact counts at the gate: the user's rules, corrections and preferences."""
LEDGER_TOKENS: Final = 1_500
"""What the facts behind a summary may take in a view."""
LEDGER_SHARE: Final = 0.12
"""And never more than this share of what leaves."""
STORED_TOKENS: Final = 12_000
"""What the ledger may have as data, where it costs no window; what is not shown now may be shown later."""
TEXT_CHARS: Final = 2_000
"""A longer text is no fact; one that was read from data is cut here."""

LISTED_WEIGHT: Final = 1.2
"""What a name weighs that a model listed in an answer: less than what somebody did or told of himself."""

_WORD: Final = re.compile(r"\w+")
_SPECIFIC: Final = re.compile(r"\b(?:instead of|rather than|no longer|not) [\"'`]?([\w.:/@-]{2,60})")
_REPLACEABLE: Final = frozenset({"value", "decision", "preference"})
FAILED: Final = "failed: "
"""How the outcome of a command begins that went wrong."""
_HALF_LIFE: Final = 400
"""Messages after which recency counts half; a tie-breaker among facts of one weight, no more."""

SEEN_ONLY: Final = 2.0
"""A name that weighs less was only seen in a tool's output; of those the newest are used again (measured)."""
_SEEN_LIFE: Final = 12


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that must not be lost."""

    kind: str
    text: str
    about: str = ""
    """What it is: the name of a value, the state of a todo, the outcome of a command, where a name stands."""
    at: int = 0
    """The number of the message that said it."""
    weight: float = 1.0
    uses: int = 1
    """How many times it was said."""

    @property
    def key(self) -> tuple[str, str]:
        """What makes it the same fact as another."""
        if self.kind == "value":
            return "value", self.about.lower()
        if self.kind in USER_KINDS:
            name = slot(self.text)
            return ("slot", f"{self.about} {name}") if name else ("said", _plain(f"{self.about} {self.text}"))
        if self.kind in {"name", "file", "done"}:
            return self.kind, self.text
        return self.kind, _plain(self.text)


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(text.lower())) or text


@dataclass(frozen=True, slots=True)
class Ledger:
    """Facts, each once, in the order of the messages that said them last."""

    facts: tuple[Fact, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.facts)

    def __len__(self) -> int:
        return len(self.facts)

    def patched(self, new: Iterable[Fact]) -> "Ledger":
        """The ledger with newer facts: the newest wins, superseded ones leave, equal ones join."""
        known = {fact.key: fact for fact in self.facts if fact.kind != "open call"}
        for fact in new:
            old = known.pop(fact.key, None)
            known[fact.key] = fact if old is None else _joined(old, fact)
        stale = _stale(known.values())
        left = [fact for fact in known.values() if not stale.names(fact)]
        return Ledger(tuple(sorted(left, key=lambda fact: fact.at)))

    def of(self, *kinds: str) -> list[Fact]:
        """The facts of some kinds, in order."""
        return [fact for fact in self.facts if fact.kind in kinds]

    def ranked(self) -> list[Fact]:
        """The facts, the most important first."""
        newest = max((fact.at for fact in self.facts), default=0)
        return sorted(self.facts, key=lambda fact: (-worth(fact, newest), fact.at, fact.text))

    def fitted(self, tokens: int) -> "Ledger":
        """The most important facts within so many tokens."""
        kept: list[Fact] = []
        if sum(len(fact.text) + len(fact.about) for fact in self.facts) * 2 + 8 * len(self.facts) <= tokens:
            return self
        for fact in self.ranked() if tokens > 0 else ():
            cost = estimate(f"{fact.text} {fact.about}") + 4
            if cost <= tokens:
                kept.append(fact)
                tokens -= cost
        return Ledger(tuple(sorted(kept, key=lambda fact: fact.at)))

    def to_json(self) -> list[list[Any]]:
        """The ledger as plain data."""
        return [
            [fact.kind, fact.text, fact.about, fact.at, round(fact.weight, 2), fact.uses]
            for fact in self.facts
        ]

    @classmethod
    def from_json(cls, data: Any) -> "Ledger":
        """The ledger in plain data; what is no fact in it is passed over."""
        rows = data if isinstance(data, list | tuple) else ()
        found = [fact for row in rows if (fact := _fact(row)) is not None]
        return Ledger().patched(found)


def worth(fact: Fact, newest: int) -> float:
    """How much a fact is worth to whoever goes on: its weight, how often it was said, how new it is."""
    age = max(0, newest - fact.at)
    if fact.kind == "name" and fact.weight < SEEN_ONLY:
        return fact.weight + 0.05 * math.log2(max(1, fact.uses)) + 0.9 * _SEEN_LIFE / (_SEEN_LIFE + age)
    if fact.kind in USER_KINDS:
        return fact.weight + 0.1 * _HALF_LIFE / (_HALF_LIFE + age)
    return fact.weight + 0.25 * math.log2(max(1, fact.uses)) + 0.5 * _HALF_LIFE / (_HALF_LIFE + age)


def _joined(old: Fact, new: Fact) -> Fact:
    """The newer of two equal facts, with the weight and the uses of both."""
    about = new.about or old.about
    if new.kind == "file" and "changed" in old.about:
        about = old.about
    if new.kind == "name" and old.about != new.about:
        about = old.about or new.about
    return replace(new, about=about, weight=max(old.weight, new.weight), uses=old.uses + new.uses)


@dataclass(frozen=True, slots=True)
class _Stale:
    """What newer facts have made untrue: words that were corrected, and commands that have gone well."""

    words: dict[str, int]
    commands: dict[str, int]

    def names(self, fact: Fact) -> bool:
        """Whether a fact is one of those."""
        if fact.kind == "error":
            return self.commands.get(fact.about, -1) > fact.at
        if not self.words or fact.kind not in _REPLACEABLE:
            return False
        said = f"{fact.text} {fact.about}".lower().replace(",", " ").replace("`", " ").split()
        return any(self.words.get(word.strip(".:"), -1) > fact.at for word in said)


def _stale(facts: Iterable[Fact]) -> _Stale:
    words: dict[str, int] = {}
    commands: dict[str, int] = {}
    for fact in facts:
        if fact.kind == "correction":
            for word in _SPECIFIC.findall(fact.text.lower()):
                words[word.strip(".:")] = max(fact.at, words.get(word.strip(".:"), 0))
        elif fact.kind == "done" and not fact.about.startswith(FAILED):
            commands[fact.text] = fact.at
    return _Stale(words, commands)


def _fact(row: Any) -> Fact | None:
    """One fact from plain data, or None."""
    if not isinstance(row, list | tuple) or len(row) != 6:
        return None
    kind, text, about, at, weight, uses = row
    words = all(isinstance(one, str) for one in (kind, text, about))
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (at, weight, uses))
    if not words or not numbers or kind not in KINDS or not text.strip() or not math.isfinite(weight):
        return None
    return Fact(
        kind, text[:TEXT_CHARS], about[:TEXT_CHARS], int(at), min(9.0, max(0.0, weight)), max(1, int(uses))
    )


# -- kept, repaired, reachable ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What became of each fact of a ledger."""

    kept: tuple[Fact, ...] = ()
    """Those that a text has."""
    repaired: tuple[Fact, ...] = ()
    """Those that were put behind it."""
    reachable: tuple[Fact, ...] = ()
    """Those that only the number of their message leads to."""

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many were kept, repaired, and are reachable by handle."""
        return len(self.kept), len(self.repaired), len(self.reachable)

    @property
    def weighty_share(self) -> float:
        """The share of weighty facts that are in the view; 1 where there are none."""
        there = sum(fact.weight >= WEIGHTY for fact in (*self.kept, *self.repaired))
        lost = sum(fact.weight >= WEIGHTY for fact in self.reachable)
        return there / (there + lost) if there + lost else 1.0


_ENOUGH: Final = 0.8
"""The share of a sentence's telling words that a summary must have to count as having it."""
_EXACT: Final = frozenset({"name", "file", "value"})
"""What must stand there to the letter."""


def kept_in(text: str, ledger: Ledger, tokens: int = LEDGER_TOKENS) -> Kept:
    """Tell for each fact whether a text has it, else whether it is repaired within so many tokens."""
    low = text.lower()
    words = set(_WORD.findall(low))
    kept = [fact for fact in ledger.facts if _has(fact, text, low, words)]
    there = {id(fact) for fact in kept}
    missing = Ledger(tuple(fact for fact in ledger.facts if id(fact) not in there))
    repaired = missing.fitted(tokens)
    mended = {id(fact) for fact in repaired.facts}
    lost = tuple(fact for fact in missing.facts if id(fact) not in mended)
    return Kept(kept=tuple(kept), repaired=repaired.facts, reachable=lost)


def _has(fact: Fact, text: str, low: str, words: set[str]) -> bool:
    if fact.kind in _EXACT:
        return fact.text in text
    if fact.text.lower() in low:
        return True
    telling = [word for word in _WORD.findall(fact.text.lower()) if len(word) > 3 or word.isdigit()]
    return bool(telling) and sum(word in words for word in telling) >= _ENOUGH * len(telling)
