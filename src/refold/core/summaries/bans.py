"""What people forbade: the orders that forbid something, and what contradicts them.

A summary that says that the user wants or allowed it is wrong, unless a person said so elsewhere. On doubt
nothing is forbidden: a false listing is worse than a missed one.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache, partial
from typing import Final, NamedTuple
from unicodedata import normalize

from refold.core.facts.sentences import split_sentences
from refold.core.facts.words import compile_patterns, read_patterns, word_lists
from refold.core.summaries.tidy import mark_code

_STEM: Final = 5
"""Letters by which two words without endings are taken for one; with four `weekend` is `weekday`."""
_WORD: Final = re.compile(r"[^\W_]{3,}|[^\W_]?\d")
_NAME: Final = re.compile(r"\d|[a-z][A-Z]|^(?:off|out|down)$")
"""What a name or a number has, and what turns a verb round: who forbids one does not forbid another."""
_RUN: Final = re.compile(r"[\u30a0-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
"""Letters of a language without blanks that tell something; the endings of Japanese do not."""
_PREFIX, _TWICE = re.compile(r"^ge(?=\w{4,40}t$)"), re.compile(r"(\w)\1$")
"""A German participle, and a letter that is doubled before an ending: "running"."""
_STATEMENT_END: Final = re.compile(r"[;；]\s{0,3}|\s[–—-]\s")
_compile = partial(compile_patterns, room="summaries")


@cache
def _silent_words() -> frozenset[str]:
    """Return the words that tell nothing of what is forbidden or claimed."""
    patterns = read_patterns("summaries")
    lists = (patterns["words"]["common"], patterns["words"]["forbidding"], *patterns["stop_words"].values())
    verbs = "|".join(patterns["claim_verbs"]).split("|")
    silent = word_lists()["stop"].union(verbs, *(words.split() for words in lists))
    return frozenset(word for word in silent if not _NAME.search(word))


@lru_cache(maxsize=8_192)  # a vocabulary
def _find_stem(word: str) -> str:
    """Find what the forms of a word have in common; a name has no forms."""
    if _NAME.search(word):
        return word
    word = read_patterns("summaries")["forms"].get(word.lower(), word.lower())
    if word < "\u0370":  # the accents of Latin letters come and go: "borra" and "bórrala"
        word = "".join(letter for letter in normalize("NFD", word) if letter.isalpha())
    word = _compile("(?:{})$", "endings").sub("", _PREFIX.sub("", word))
    return _TWICE.sub(r"\1", _compile("(?:{})$", "other_endings").sub("", word))[:_STEM]


def find_stems(text: str) -> frozenset[str]:
    """Find the stems of the words that tell something, or pairs of letters in a language without blanks."""
    words = [word for word in _WORD.findall(text) if word < "\u3040" and word.lower() not in _silent_words()]
    if text.isascii():
        return frozenset(map(_find_stem, words))
    runs = _RUN.findall(_compile("{}", "claim_verbs_without_blanks").sub(" ", text))
    pairs = [run[at : at + 2] for run in runs for at in range(max(1, len(run) - 1))]
    return frozenset([*map(_find_stem, words), *pairs])


@cache
def find_acts() -> list[re.Pattern[str]]:
    """Return a pattern for each kind of act that is worst if it was never allowed."""
    return [re.compile(one, re.IGNORECASE) for one in read_patterns("summaries")["acts"]]


class Ban(NamedTuple):
    """Something that people forbade."""

    text: str
    content: frozenset[str]
    is_order: bool
    """False if it forbids no wish: it has no verb, or somebody has to be asked."""

    def contradicts(self, claim: str, content: frozenset[str], *, permits: bool) -> bool:
        """True if a claim with this content says that it is permitted or wanted."""
        extra = content - self.content
        if not self.content <= content or any(map(_NAME.search, extra)) or _is_limited(claim):
            return False
        denials = _compile(r"\b(?:{})\b|{}", "denies", "denies_without_blanks").finditer(claim)
        if any(self.content.isdisjoint(find_stems(word[0])) for word in denials):
            return False
        # With more beside the ban the claim is about something else; a permission is worse if it is false.
        most = len(self.content) * (2.0 if permits else 0.5)
        return len(extra) <= most and (permits or self.is_order)

    def is_lifted(self, clause: str, content: frozenset[str]) -> bool:
        """True if a clause of a person says what a claim with this content says."""
        acts = [act for act in find_acts() if act.search(self.text)]
        own, is_act = find_stems(clause), any(act.search(clause) for act in acts)
        # The same act may have another name where it is allowed, or its object none: "Delete it now."
        rest = {stem for stem in own if not any(act.search(stem) for act in acts)}
        # One word in common is the verb alone: "no writes" and "Write a report".
        is_whole = len(content & own) + is_act >= max(2, len(self.content))
        is_same = is_whole or rest <= content or not rest.isdisjoint(content - self.content)
        agrees = own and _compile(r"\b(?:{})\b", "consents").search(clause)
        is_same = is_same and bool(is_act or agrees or own & self.content)
        return is_same or _compile("{}", "lifts").search(clause) is not None


def contradicts_bans(claim: str, bans: list[Ban], texts: list[str], *, permits: bool) -> bool:
    """True if a claim says that something banned is permitted or wanted, and none of the texts says it."""
    claim = _compile(r"\b(?:{})", "leave").sub(" ", claim)
    content = find_stems(claim)
    broken = [ban for ban in bans if ban.contradicts(claim, content, permits=permits)]
    said = {one for text in texts for _, clauses in _split_text(text) for one in clauses} if broken else set()
    allowed = said.difference(ban.text for ban in bans)
    return any(not any(ban.is_lifted(clause, content) for clause in allowed) for ban in broken)


def find_bans(text: str) -> list[Ban]:
    """Find what a text forbids; a line that begins with a mark is quoted, or code."""
    lines = (line for line, is_code in mark_code(text.split("\n")) if not is_code)
    prose = "\n".join(line for line in lines if not line.lstrip().startswith((">", "#", "//")))
    return [ban for statement, clauses in _split_text(prose) for ban in _read_bans(statement, clauses)]


def _split_text(text: str) -> list[tuple[str, list[str]]]:
    """Split a text into statements, each with its clauses."""
    parts = [one for sentence in split_sentences(text) for one in _STATEMENT_END.split(sentence) if one]
    return [(one, [*filter(None, _compile("{}", "clause_ends").split(one))]) for one in parts]


def _is_limited(text: str) -> bool:
    """True if a text tells a condition, a limit or a question."""
    names = ("conditions", "limits", "conditions_without_blanks", "limits_without_blanks")
    return _compile(r"\b(?:{}|{})\b|{}|{}", *names).search(text) is not None


def _read_bans(statement: str, clauses: list[str]) -> Iterator[Ban]:
    """Yield what the clauses of a statement forbid."""
    if statement[-1] in "?？؟" or not _compile("{}", "may_forbid", flags=0).search(statement.lower()):
        return
    leave = _compile(r"\b(?:{})", "leave")  # to ask somebody is no condition
    plain = leave.sub(" ", statement)
    is_bound = _compile(r"\b(?:{})\b|{}", "conditions", "conditions_without_blanks").search(plain)
    reports = _compile("{}", "reports").match(statement)
    for place, text in enumerate(() if is_bound else clauses):
        clause = leave.sub(" ", text)
        is_report = place > 0 and reports and not _compile("{}", "ordered").match(clause)
        forbidden, is_order = _find_forbidden(clause, statement)
        for stems in () if is_report or _is_limited(clause) else map(find_stems, forbidden):
            if stems:
                yield Ban(text, stems, is_order and plain == statement)


def _find_forbidden(clause: str, statement: str) -> tuple[list[str], bool]:
    """Return what a clause forbids, and whether it is an order: a fragment without a verb is none."""
    lead = "(?:(?:{}) ){{0,3}}(?:{})"
    if ahead := _compile(lead, "ban_leads", "bans_ahead").match(clause):
        return [clause[ahead.end() :]], True
    if behind := _compile("{}", "bans_behind").search(clause):
        return [clause[: behind.start()]], True
    if _compile("{}", "bans_around", flags=0).search(clause):
        return [clause], True
    if _compile("{}", "read_only").search(clause):
        return read_patterns("summaries")["forbidden"]["writing"].split(), False
    if noun := _compile(lead, "ban_leads", "bans_of_nouns").match(clause):
        return [clause[noun.end() :]], False
    # Its verb stands in another clause: "Deploy on Thursday, not on Monday."
    is_place = _compile(lead, "ban_leads", "bans_of_places").match(clause) and find_stems(clause)
    verb = next((word for word in _WORD.findall(statement) if find_stems(word)), "")
    return [f"{verb} {clause}"] if is_place else [], False
