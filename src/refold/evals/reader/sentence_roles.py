"""Classify a sentence (forbidden, decided, deferred, open, requested), and find who does what in it.

English cue words only. The ledger (`core.facts`) knows other languages.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from refold.core.facts.words import word_lists


def _any_phrase(words: str) -> re.Pattern[str]:
    """One pattern for a list of wordings; a line may end behind a bar."""
    listed = re.sub(r"\|\s+", "|", words)
    return re.compile(rf"\b(?:{listed})\b", re.IGNORECASE)


FORBIDS: Final = _any_phrase(
    r"""never|(?:do|must|should|may|shall)(?:n['’]?t| not)|avoid|forbidden|banned|prohibited|
    off[- ]limits|not allowed|under no circumstances|nobody|no one|no \w+ing|without exception"""
)
TAKES_BACK: Final = _any_phrase(
    r"""scratch (?:that|this)|forget (?:the|that|about|what)|never ?mind|on second thoughts?|hold on|
    changed? (?:my|our) minds?|ignore (?:the|that|what|my)(?: \w+){0,2}|actually,? (?:no|wait)|
    instead,? (?:let['’]?s|we['’]?ll|we|use|do|take)"""
)
"""Words that take back the statement just before; `instead` alone concerns the same sentence."""
DECIDES: Final = _any_phrase(
    r"""let['’]?s|we['’]?ll|we will|decided|agreed|settled on|go(?:ing)? with|the plan is|instead|
    we (?:use|take|choose|chose|keep)"""
)
DEFERS: Final = _any_phrase(
    r"""(?:can|must|should|may|will|has to) wait|postponed?|put off|hold(?:ing)? off|not (?:now|today)|
    deferred?|later on|for another (?:day|time)|until (?:next|after)"""
)
OPEN: Final = _any_phrase(
    r"""still (?:have|has|need|needs|must|missing|open|unclear|looking|waiting)|not (?:\w+ ){0,3}yet|
    n['’]t (?:\w+ ){0,3}yet|nobody has|to be (?:decided|found|done|settled)|tb[ad]|open question|
    waiting for|remains to"""
)
ASKS: Final = re.compile(
    r"(?:(?:ok|okay|so|now|then|and|please|next)\b,? )*(?:(?:can|could|would|will) you\b|please\b"
    r"|(?:remind|tell|give|show|write|send|draw|find|make|draft|list|help|explain|book|check|prepare)\b)",
    re.IGNORECASE,
)
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
