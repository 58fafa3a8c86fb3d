"""Splits text into sentences and classifies them: rules, corrections, statements, decisions. Asks no model.

Two questions are asked of a user's sentence. Does it *hold* beyond the moment: is it general, negated,
habitual, a demand or a condition, and not a question, a plan, a feeling or an episode? And is it *specific*:
numbers, names, times, somebody speaking of himself? The function words of several languages are known; a
sentence in another language is judged by its shape. The words stand in `data/`.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

from refold.core.facts.words import (
    assigned_name,
    capitalised_words,
    compile_patterns,
    has_pattern,
    read_patterns,
    split_words,
    word_lists,
)
from refold.patterns import read_pattern

LONGEST: Final = 400
"""Characters of a sentence that are kept; people state a rule in less."""
MOST_SMALL_TALK: Final = 60
"""Characters of such a sentence; a longer one has more to say."""
# It begins with a set of letters: such a pattern is found several times as fast as one that looks back.
_SENTENCE_END: Final = re.compile(
    r"([\n.!?।॥؟۔。！？])(?:(?<=\n)\s*|(?<=[.!?।॥؟۔])[\"')\]]?[^\S\n]+|(?<=[。！？]))"
)
"""The end of a sentence or of a line."""
_QUESTION_ENDS, STATEMENT_ENDS = ("?", "？", "؟"), (".", "!", "。", "।", "۔")
NARROWEST, WIDEST = 56, 140
"""Characters at which editors and terminals wrap lines."""
_ABBREVIATIONS: Final = (
    *("Dr.", "Mr.", "Mrs.", "Ms.", "Prof.", "St.", "vs.", "e.g.", "i.e.", "etc.", "No.", "approx."),
)
"""Words that end in a dot and end no sentence."""
_INITIALS: Final = read_pattern(__package__, "initials")
"""Letters that stand for words, as in U.S. and J. R. Smith, or for a name behind another: Brian K. Jones."""
_ORDINAL: Final = re.compile(r"\w \d{1,2}\.$")
_EMPHASIS: Final = re.compile(r"\b(?:NOT|NEVER|NO|MUST|ONLY|ALWAYS|EXACTLY|IMPORTANT|CRITICAL)\b")
_POLITE_ENDS: Final = (", please.", ", please", ", bitte.", ", por favor.", ", per favore.", " pls")
"""Ends of a demand."""
_CODE: Final = read_pattern(__package__, "code")
"""Beginning or shape of a line that was pasted, not said: code, or a piece of a sentence."""
_CJK: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_CJK_GENERAL: Final = re.compile(r"[不没別别勿只必都每总總仅请請須须]|ない|ください|だけ|いつも")
_ID_OR_ADDRESS: Final = re.compile(r"[A-Z\d_@](?:(?<=[A-Z])\d|(?<=\d)[A-Z]|(?<=\w[_@])\w)")
"""Ids and mail addresses: they answer a question of the moment."""
_HOLDS: Final = 1.0
"""From this score on a sentence holds beyond the moment; lower keeps more small talk as rules."""
_PLAIN_RULE_CHARS: Final = 160
"""A longer sentence without a word that rules are made of is hardly a rule."""
_IN_SENTENCE: Final = re.compile(r"[^\W\d_]|[\"'(`](?!``)")
"""The beginning of a word, a quote or a name in code; a fence is none."""
# The order is what matters: a correction and a rule must outrank any statement however specific it is. The
# steps between them were set on the planted rules of `refold eval retention` (docs/decisions/0012-facts.md).
_WEIGHTS: Final = {
    "correction": 4.5,
    "constraint": 4.5,
    "preference": 3.6,
    "standing": 3.3,
    "statement": 2.6,
    "request": 1.5,
}


def join_wrapped_lines(text: str) -> str:
    r"""Join the lines of a text that was wrapped at a width: the next word would not have fitted.

    >>> join_wrapped_lines("A line of a text that was wrapped by an editor at seventy-two\ncharacters.")
    'A line of a text that was wrapped by an editor at seventy-two characters.'
    """
    if "\n" not in text:
        return text
    lines = text.split("\n")
    width = max(map(len, lines))
    if not NARROWEST <= width <= WIDEST:
        return text
    joined = [lines[0]]
    for before, line in pairwise(lines):
        words = line.split(None, 1)
        ends_inside = before[-1:].isalnum() or before[-1:] in {",", ")", '"', "'", "`", "-"}
        would_fit = bool(words) and len(before) + 1 + len(words[0]) <= width
        goes_on = bool(words) and _IN_SENTENCE.match(words[0]) is not None
        if goes_on and ends_inside and not would_fit and not words[0].endswith(":"):
            joined[-1] += f" {line.strip()}"
        else:
            joined.append(line)
    return "\n".join(joined)


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences and lines, without the list marks around them.

    >>> split_sentences("- Ask Dr. Who. Then go.")
    ['Ask Dr. Who.', 'Then go.']
    """
    return _split_lines(join_wrapped_lines(text))


def find_last_sentences(text: str, most: int) -> list[str]:
    """Find the last sentences of a text, as they are split; the lines before them are not read."""
    found: list[str] = []
    for line in reversed(join_wrapped_lines(text).split("\n")):
        found = _split_lines(line) + found
        if len(found) >= most:
            break
    return found[-most:]


def _split_lines(text: str) -> list[str]:
    """Split lines into sentences; none goes on in the next line."""
    pieces: list[str] = []
    last, begins = "", True
    parts = [*_SENTENCE_END.split(text), "\n"]
    for part, end in zip(parts[::2], parts[1::2], strict=True):
        piece = part if end == "\n" else part + end
        if begins or last[-1:] != "." or not _goes_on(last, piece):
            last = piece.strip().lstrip("-*•>#").strip()
            pieces.append(last)
        else:
            last = pieces[-1] = f"{last} {piece.strip()}"
        begins = end == "\n"
    return [piece for piece in pieces if len(piece) > 2]


def _goes_on(text: str, following: str) -> bool:
    """True if the dot at the end of a text ends no sentence: that of an abbreviation, or in `am 7. März`."""
    before = text[-2:-1]
    if before.isdigit() and _ORDINAL.search(text[-12:]):
        word = following.partition(" ")[0].strip(".,:;!?")
        return word[:1].islower() or word.lower() in word_lists()["months_behind_a_day"]
    return text.endswith(_ABBREVIATIONS) or (before.isupper() and _INITIALS.search(text[-26:]) is not None)


# -- sentences of a model -----------------------------------------------------------------------------------


def find_possible_decisions(text: str) -> list[str]:
    """Find the sentences of a text that may be decisions or promises."""
    known = read_patterns("facts")["decision_anchors"]
    anchors = _find_anchors(text, known)
    if not anchors:
        return []
    lines = join_wrapped_lines(text)
    anchors = anchors if lines is text else _find_anchors(lines, known)  # one may stand at the end of a line
    near = [line for line in lines.split("\n") if _find_anchors(line, anchors)]
    return [each for line in near for each in _split_lines(line) if _find_anchors(each, anchors)]


def _find_anchors(text: str, anchors: Sequence[str]) -> list[str]:
    low = text.lower()
    return [anchor for anchor in anchors if anchor in low]


def is_decision(sentence: str) -> bool:
    """True if a sentence of a model tells a decision or a finding."""
    tells = has_pattern(sentence, r"\b(?:{})\b", "decision")
    return tells and not has_pattern(sentence, r"\b(?:{})\s*$", "no_decision")


def is_promise(sentence: str) -> bool:
    """True if a sentence of a model promises something for later."""
    return has_pattern(sentence, "{}", "promise")


def asks_back(sentence: str) -> bool:
    """True if a sentence of a model asks its user for something."""
    is_question = sentence.rstrip().endswith(_QUESTION_ENDS)
    return is_question or has_pattern(sentence, r"^\W{{0,12}}(?:{})\b", "asks_back")


def is_courtesy(sentence: str) -> bool:
    """True if a sentence only greets, thanks, or offers more help.

    >>> is_courtesy("If you have any other questions, feel free to ask!"), is_courtesy("The tests pass now.")
    (True, False)
    """
    polite = has_pattern(
        sentence, r"^\W{{0,12}}(?:(?:{})\b[,.:;!]? {{0,4}}){{0,3}}(?:{})", "lead", "courtesy"
    )
    return polite and not has_pattern(sentence, r"\b(?:{})\b|{}", "says_more", "says_more_other")


def is_small_talk(sentence: str) -> bool:
    """True if a whole sentence of a person says nothing but thanks, a wish or a farewell.

    >>> is_small_talk("No worries, Mel!"), is_small_talk("No changes, please!")
    (True, False)
    """
    whole = r"^\W{{0,12}}(?:(?:{})\b[,.:;!]? {{0,4}}){{0,3}}(?:{})(?:,? \w{{2,20}})?\W{{0,6}}$"
    return len(sentence) <= MOST_SMALL_TALK and has_pattern(sentence, whole, "lead", "small_talk")


# -- sentences of a request ---------------------------------------------------------------------------------


def is_task_statement(sentence: str) -> bool:
    """True if a sentence says what the task is, in so many words.

    >>> is_task_statement("Your task is to change non-test files.")
    True
    """
    return has_pattern(sentence, r"^\W*(?:{})\b", "task_statement")


def is_prohibition(sentence: str) -> bool:
    """True if a sentence has a word that forbids or limits."""
    return has_pattern(sentence, r"\b(?:{})\b(?!-)|{}", "forbids", "forbids_other")


def is_emphasised(sentence: str) -> bool:
    """True if its author wrote a word that rules are made of in capitals."""
    return _EMPHASIS.search(sentence) is not None


# -- sentences of a user ------------------------------------------------------------------------------------


# The same sentence is classified when it is found and again when a page is read back.
@lru_cache(maxsize=4_096)
def classify_sentence(sentence: str) -> tuple[str, float]:
    """Return the kind and the weight of a user's sentence; lasting and specific sentences weigh more.

    >>> classify_sentence("Never deploy on a Friday.")[0]
    'constraint'
    """
    lead = compile_patterns(r"(?:(?:{})\b[,.:;!]? *){{1,6}}", "lead")
    body = lead.sub("", sentence[:LONGEST], count=1) if lead.match(sentence) else sentence[:LONGEST]
    if not body:
        return "request", 0.5
    words = split_words(body)
    holds = _score_holding(body, words)
    kind = _classify(sentence, body, words, holds)
    # A longer sentence is weaker: rules are short, and each costs its tokens.
    weight = _WEIGHTS[kind] - len(sentence) / 1_000
    if kind in {"statement", "request"}:
        return kind, weight + min(0.6, 0.25 * _score_specific(body, words))
    if kind == "standing":
        return kind, weight + min(0.65, 0.2 * (holds - _HOLDS) + 0.1 * _score_specific(body, words))
    firm = kind == "preference" and has_pattern(body, "{}", "firm_preference")
    return kind, weight + 0.9 * firm + max(-0.45, min(0.5, 0.2 * (holds - _HOLDS)))


def may_be_rule(sentence: str) -> bool:
    """False for a long sentence without any of the words that rules are made of."""
    return len(sentence) <= _PLAIN_RULE_CHARS or has_rule_words(sentence)


def has_rule_words(sentence: str) -> bool:
    """True if a sentence has a word that sure rules are made of, or may be in another language."""
    return not sentence.isascii() or not word_lists()["triggers"].isdisjoint(split_words(sentence))


def _classify(sentence: str, body: str, words: list[str], holds: float) -> str:
    """Return the kind of a sentence; `body` is the sentence without its lead-in."""
    lists = word_lists()
    asks = sentence.endswith(_QUESTION_ENDS)
    may_match = not sentence.isascii() or not lists["triggers"].isdisjoint(words)
    if may_match and has_pattern(body, "{}", "correction"):
        return "correction"
    is_lead_in = body.endswith((":", "："))  # what it demands stands below it
    if may_match and not asks and not is_lead_in:
        rule = r"\b(?:{})\b|^(?:{})\b|{}", "rule_words", "rule_beginnings", "rule_other"
        if holds > 0 and has_pattern(body, *rule):
            return "constraint"
        if words[:1] != ["i'll"] and has_pattern(body, "{}", "preference"):
            return "preference"
    if not asks and holds >= _HOLDS:
        return "standing"
    asks = asks or not lists["questions"].isdisjoint(words[:1])
    speaks = not lists["speaker"].isdisjoint(words) or "我" in body
    early = words[1:6]
    tells = _is_past(words) or not (lists["past"].isdisjoint(early) and lists["present"].isdisjoint(early))
    return "statement" if (speaks or tells) and not asks else "request"


def _score_specific(body: str, words: list[str]) -> float:
    """Score how much of a sentence cannot be guessed."""
    lists = word_lists()
    number = not lists["numbers"].isdisjoint(words) or any(map(str.isdigit, [word[0] for word in words]))
    names = min(3, len(capitalised_words(body)))
    return number + 0.5 * (
        names + (not lists["times"].isdisjoint(words)) + (not lists["speaker"].isdisjoint(words))
    )


def _score_holding(body: str, words: list[str]) -> float:
    """Score how likely a sentence holds beyond the moment; below zero for questions, plans and feelings."""
    if body.endswith(_QUESTION_ENDS):
        return -3.0
    if not body.isascii() and _CJK.search(body):
        return 1.0 + 0.5 * len(_CJK_GENERAL.findall(body)[:3])
    if len(words) < 2:
        return -2.0
    lists = word_lists()
    if words[0] in lists["first_person"] and not lists["agreed"].isdisjoint(words[1:3]):
        return 1.2
    present = frozenset(words)
    # Each step is a feature of a rule (plus) or of a passing remark (minus). The sizes were set on the
    # planted rules of `refold eval retention`; a rule has about two features (docs/decisions/0012-facts.md).
    score = 0.5 * min(2, len(present & lists["general"])) + 0.5 * (not present.isdisjoint(lists["negations"]))
    score += 0.4 * (not present.isdisjoint(lists["modals"])) + 0.5 * (not present.isdisjoint(lists["habits"]))
    score += (
        0.6 * body.endswith(_POLITE_ENDS)
        + _score_subject(body, words)
        - 0.3 * (body[0].islower() or not body.endswith(STATEMENT_ENDS))
    )
    score -= 1.2 * (not present.isdisjoint(lists["past"]) or _is_past(words)) + 0.5 * body.endswith("!")
    points_back = not present.isdisjoint(lists["pointers"]) or not lists["owners"].isdisjoint(words[:3])
    score -= 0.5 * points_back + 0.8 * (not present.isdisjoint(lists["plans"]))
    score -= (
        0.5 * (not present.isdisjoint(lists["hedges"]))
        + 2.0 * (_CODE.match(body) is not None)
        + 0.8 * (words[0] == "here's")
    )
    # A plan or a feeling may also stand behind a few words of another kind.
    for at, word in enumerate(words[1:6], start=2):
        feels = word in lists["first_person_be"] and not lists["feelings"].isdisjoint(words[at : at + 3])
        if feels or (word in lists["first_person"] and not lists["wants"].isdisjoint(words[at : at + 2])):
            score -= 1.0
            break
    is_lookup = _ID_OR_ADDRESS.search(body) is not None and not assigned_name(body)
    return score - (0.7 * is_lookup + 0.5 * (len(body) > _PLAIN_RULE_CHARS))


def _is_past(words: list[str]) -> bool:
    """True if an early verb looks like the past and is no passive; a later one only right behind a person."""
    lists = word_lists()
    for place, word in enumerate(words[1:10]):
        if word.endswith("ed") and len(word) > 4:
            before = words[place]
            if before not in lists["passive_before"] if place < 3 else before in lists["doers"]:
                return True
    return False


def _score_subject(body: str, words: list[str]) -> float:
    """Score the beginning of a sentence: a person's plan or feeling, a pointer back, or a new topic."""
    lists = word_lists()
    first = words[0]
    plans = first in lists["plans"] or (
        first in lists["first_person_be"] and not lists["feelings"].isdisjoint(words[1:3])
    )
    wants = first in lists["first_person"] and not (
        lists["wants"].isdisjoint(words[1:3]) and lists["feelings"].isdisjoint(words[1:4])
    )
    if plans or wants:
        return -1.5
    if first in {"you", "it's", "it"}:
        return 1.0 if not lists["modals"].isdisjoint(words[1:2]) else -0.5
    if (first in {"when", "where"} and "," in body) or words[:2] == ["do", "not"]:
        return 1.0
    if first in lists["manners"]:
        return 1.3
    if first in lists["pointers"] or first in lists["questions"] or first in {"your", "you're"}:
        return -0.5
    return 0.7 if first in lists["first_person"] or first in lists["first_person_be"] else 1.0
