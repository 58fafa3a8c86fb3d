"""Classify a sentence (forbidden, decided, deferred, open, requested), and find who does what in it.

English cue words only. The ledger (`core.facts`) knows other languages.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from refold.core.facts.words import word_lists
from refold.patterns import read_pattern

FORBIDS: Final = read_pattern(__package__, "forbids", re.IGNORECASE)
TAKES_BACK: Final = read_pattern(__package__, "takes_back", re.IGNORECASE)
"""Words that take back the statement just before; `instead` alone concerns the same sentence."""
DECIDES: Final = read_pattern(__package__, "decides", re.IGNORECASE)
DEFERS: Final = read_pattern(__package__, "defers", re.IGNORECASE)
OPEN: Final = read_pattern(__package__, "open", re.IGNORECASE)
ASKS: Final = read_pattern(__package__, "asks", re.IGNORECASE)
"""The beginning of a sentence that asks for work."""


LONGEST: Final = 200
"""Characters of a role."""
_NAME: Final = r"(?:(?:Dr|Mr|Mrs|Ms|Prof)\.? )?[A-Z][\w-]*[a-z](?: (?:(?:and|of|the) )?[A-Z][\w-]*[a-z]\b)*"
_INSIDE: Final = re.compile(rf"(?<=[\w,;:'’\"(–—-] ){_NAME}")
_ACTS: Final = r"will|would|is|was|has|had|can|must|should|may"
_DOES: Final = r"[a-z]+s (?:the|an?|it|our|my|us|up|in|on|to|for|after|about)"
"""The word behind a name at the beginning of a sentence; `Log lines stay` begins with no name."""
_SUBJECT: Final = re.compile(rf"{_NAME}(?=['’]s | (?:{_ACTS}|{_DOES})\b)")
_ENGLISH: Final = re.compile(r"\b(?:the|is|will|with|for|and|of|to|on|by|from|after|has|it)\b", re.IGNORECASE)
"""Elsewhere capitals say less: in German every noun has one."""
_FIRST: Final = re.compile(_NAME)
_CLAUSE: Final = re.compile(r"[,;:–—] (?:(?:and|but|while|so) )?| (?:and|but|while) (?=[A-Z])")
_NO_NAMES: Final = frozenset(
    "Somebody "  # noqa: SIM905  # what COMMON does not have
    "Someone Everybody Everyone Everything Nobody Nothing Something Anything One Each Both Another "
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday Mondays Tuesdays Wednesdays Thursdays Fridays "
    "Saturdays Sundays January February March April May June July August September October November "
    "December English Note Starting After Before Between During Without".split()
)


def find_roles(sentences: Iterable[str]) -> dict[str, str]:
    """Return each name of people, places and organisations with the clause that says most of it.

    >>> find_roles(["On the tour, Ines will book the hotel, and Paulo drives the van."])
    {'Ines': 'Ines will book the hotel', 'Paulo': 'Paulo drives the van'}
    """
    roles: dict[str, str] = {}
    for sentence in filter(_ENGLISH.search, sentences):
        for clause in split_clauses(sentence):
            for name, acts in _find_names(clause, starts=sentence.startswith(clause)):
                # Up to the name; all of the clause if it is in the genitive, as in "Ines's".
                end = clause.index(name) + len(name)
                said = clause if acts or clause[end : end + 2] in {"'s", "’s"} else clause[:end]
                if name not in roles or (acts and not roles[name].startswith(name)):
                    roles[name] = said.strip()[:LONGEST]
    return roles


def split_clauses(sentence: str) -> list[str]:
    """Return the parts of a sentence that each say something of their own, without the marks between them."""
    return _CLAUSE.split(sentence.rstrip(".!? "))


def _find_names(clause: str, *, starts: bool) -> Iterator[tuple[str, bool]]:
    """Yield the names of a clause, and whether the words behind them are about them."""
    subject = (_SUBJECT if starts else _FIRST).match(clause)
    first = subject[0] if subject and _is_name(subject[0]) else ""
    if first:
        yield first, True
    for name in _INSIDE.findall(clause):
        if _is_name(name) and name not in first:
            yield name, False


def _is_name(text: str) -> bool:
    first = text.split(maxsplit=1)[0]
    return first not in _NO_NAMES and first.lower() not in word_lists()["stop"]
