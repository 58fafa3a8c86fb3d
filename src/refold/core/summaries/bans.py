"""What people forbade: the clauses that forbid something, and what contradicts them.

A summary that says that the user wants or allowed it is wrong, unless a person said so elsewhere.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Final, NamedTuple

from refold.core.facts.sentences import split_sentences
from refold.core.facts.words import compile_patterns, read_patterns
from refold.core.summaries.acceptance import find_content

_COVERED: Final = 0.75
"""Share of what somebody is said to want that the sentence with the ban must have; lower takes a new thing
for the one that was forbidden."""
_HALF, _LONG = 0.5, 4
"""The same where all of a ban is repeated, and that is at least so long: pairs of letters have many forms."""
_MOST: Final = 0.6
"""The same for a permission, which is worse if it is false."""
_NAME: Final = re.compile(r"\b\w{0,40}?(?:\d|[a-z][A-Z]|[^\W_]_[^\W_])\w{0,40}")
"""A name or a number: what is forbidden of one is not forbidden of another."""
_BREAKS: Final = re.compile(r"\W+")
_compile = partial(compile_patterns, room="summaries")


@cache
def _claim_verbs() -> frozenset[str]:
    return frozenset("|".join(read_patterns("summaries")["claim_verbs"]).split("|"))


def find_claimed(sentence: str) -> set[str]:
    """Find the content of a sentence besides the words that claim, allow or forbid."""
    words = [word for word in _BREAKS.split(sentence.lower()) if word not in _claim_verbs()]
    text = " ".join(words)
    if text.isascii():
        return find_content(text)
    # A language without blanks has pairs of letters; a longer piece only says where a line begins.
    content = find_content(_compile("{}", "claim_verbs_without_blanks").sub(" ", text))
    return {own for own in content if len(own) == 2 or own < "\u3040"}


def split_condition(text: str) -> tuple[str, bool]:
    """Return what stands before a condition, and whether there is one; to be asked before is none."""
    limit = _compile(r"\b(?:{})\b|{}", "conditions", "conditions_without_blanks").search(text)
    if limit is None:
        return text, False
    return text[: limit.start()], not _compile("{}", "leave").match(text, limit.start())


class Ban(NamedTuple):
    """Something that people forbade."""

    text: str
    head: set[str]
    """The content of its verb, or all of it where that is not known."""
    content: set[str]
    within: set[str]
    """The content of its sentence, if it has no verb itself: "Deploy on Thursday, not on Monday"."""
    depends: bool
    """True if it may be wanted all the same: under a condition, or because somebody lacks it."""

    def contradicts(self, claim: str, content: set[str], *, permits: bool) -> bool:
        """True if a claim with this content says that it is permitted or wanted."""
        both = content & self.content
        is_whole = both == self.content
        if not (is_whole or len(both) > 1) or not {*_NAME.findall(claim)} <= {*_NAME.findall(self.text)}:
            return False
        denials = _compile(r"\b(?:{})\b|{}", "denies", "denies_without_blanks").finditer(claim)
        if any(find_claimed(word[0]).isdisjoint(self.content) for word in denials):
            return False
        is_bound = split_condition(claim)[1]
        if permits:
            return (is_whole or len(both) >= _MOST * len(content)) and not (self.depends and is_bound)
        least = _COVERED if len(self.content) < _LONG or not is_whole else _HALF
        covers = len(content & self.within) >= least * len(content)
        return covers and (is_whole or self.head <= both) and not (self.depends or is_bound)


@cache
def find_acts() -> list[re.Pattern[str]]:
    """Return a pattern for each kind of act that is worst if it was never allowed."""
    return [re.compile(one, re.IGNORECASE) for one in read_patterns("summaries")["acts"]]


def says_again(text: str, content: set[str], bans: Sequence[Ban], forbidden: set[str]) -> bool:
    """True if a text says this content, which was banned, in a clause that is not `forbidden`."""
    acts = [act for act in find_acts() if any(act.search(ban.text) for ban in bans)]
    # One word in common is the verb alone: "no writes" and "Write a report".
    most = min(len(content), max(2, *(len(content & ban.content) for ban in bans)))
    for clause in (one for sentence in split_sentences(text) for one in _split_clauses(sentence)):
        own = set() if clause in forbidden else find_content(clause)
        # The same act may have another name where it is allowed, or its object none: "Delete it now."
        is_act = any(act.search(clause) for act in acts)
        names_verb = any(ban.head <= own or own <= ban.head for ban in bans)
        if own and (is_act or names_verb) and (len(content & own) >= most - is_act or own <= content):
            return True
    return False


def _split_clauses(sentence: str) -> list[str]:
    """Split a sentence where what is forbidden or allowed ends."""
    return [clause for clause in _compile("{}", "clause_ends").split(sentence) if clause]


def find_bans(text: str) -> list[Ban]:
    """Find what a text forbids."""
    # The patterns are in small letters: to ignore case takes `re` twice as long.
    may_forbid = _compile("{}", "may_forbid", flags=0)
    stated = [one for one in split_sentences(text) if one[-1] not in "?？؟"]
    sentences = [one for one in stated if may_forbid.search(one.lower())]
    return [ban for one in sentences for clause in _split_clauses(one) for ban in _read_bans(clause, one)]


def _read_bans(clause: str, sentence: str) -> Iterator[Ban]:
    """Yield what a clause of a sentence forbids."""
    low = clause.lower()
    if not _compile("{}", "may_forbid", flags=0).search(low):
        return
    if _compile("{}", "read_only", flags=0).search(low):
        for stem in read_patterns("summaries")["forbidden"]["writing"].split():
            yield Ban(clause, {stem}, {stem}, {stem}, depends=False)
    first = "(?:(?:{}) ){{0,3}}(?:{})"
    verb = _compile(first, "ban_leads", "bans_ahead", flags=0).match(low)
    noun = None if verb else _compile(first, "ban_leads", "bans_of_nouns", flags=0).match(low)
    around = None if verb or noun else _compile("{}", "bans_around", flags=0).search(low)
    behind = None if low.isascii() else _compile("{}", "bans_behind", flags=0).search(low)
    if ahead := verb or noun:
        words, depends = split_condition(low[ahead.end() :])
    elif around or behind:
        words, depends = split_condition(low[: behind.start()] if behind else low)
    else:
        return
    if content := find_claimed(words):
        # Where the verb stands is not known if nothing follows the word that forbids.
        after = words[around.end() :] if around else words if ahead else ""
        head = next((own for word in after.split() if (own := find_claimed(word))), content)
        is_missed = noun is not None and not _compile(r"\b(?:{})\b", "limits").search(sentence)
        inherits = verb is not None and clause != sentence
        within = find_claimed(sentence) if inherits else content
        yield Ban(clause, head, content, within, depends or is_missed)
