"""A stand-in for the model that CompactBench asks: the same for every method, and nothing but reading.

It is asked for three things. A *summary* is what the user said, line by line. A *state* as JSON is what our
own ledger finds (`states`), so that a method that asks for one gets no less than ours has. A *question* is
answered with the sentence of the artifact that shares most words with it and is of the kind that is asked
for: a rule, a decision, something open, a name, a number. Yes or no is said where yes or no is asked, and
what is forbidden or was taken back is not proposed.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from refold.core.facts.ledger import Fact
from refold.core.facts.sentences import split_sentences
from refold.core.facts.words import capitalised_words, content_words
from refold.evals.reader.sentence_roles import ASKS, DECIDES, DEFERS, FORBIDS, OPEN, find_roles, split_clauses
from refold.evals.reader.states import DROPPED, find_taken_back, make_state

UNKNOWN: Final = "The summary does not say."
MOST: Final = 3
"""Sentences of an answer, where several fit equally well."""
LAST: Final = 12
"""Lines of a summary, where the prompt is no talk that is known here."""
STEM: Final = 5
"""Letters by which words are compared, so that `insured` and `insurance` are one."""
ENOUGH: Final = 0.6
"""The share of a question's words that one clause must have for a yes."""
_TURN: Final = re.compile(r"^(USER|ASSISTANT|SYSTEM): (.*(?:\n(?!\n).*)*)", re.MULTILINE)
_SPEAKER: Final = re.compile(r"(?:USER|ASSISTANT|SYSTEM): ")
_PARTIAL: Final = re.compile(r"^PARTIAL \d+: ", re.MULTILINE)
_YES_OR_NO: Final = re.compile(
    r"(?:is|are|was|were|does|do|did|has|have|can|may|will|would|should)\b(?! there (?:any|some))",
    re.IGNORECASE,
)
_PROPOSE: Final = re.compile(
    r"(?:propose|suggest|recommend|outline|walk me|what should|what could)\b", re.IGNORECASE
)
_KINDS: Final = {
    "forbidden": r"never|must n(?:ot|obody)|rules?|constraints?|conditions?|forbid\w*|left out|avoid",
    "decided": r"plans?|decided|decisions?|agreed|current|currently|now|chosen",
    "open": r"open|unresolved|pending|yet|remains|put off|postponed|asked for|still to|deferred",
    "named": r"who|whom|whose",
    "number": r"how (?:many|much)|when|which (?:day|date)|what date|cost|price",
}
_ASKED: Final = {kind: re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for kind, words in _KINDS.items()}


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of an artifact, and of which kinds it is."""

    text: str
    kinds: frozenset[str]
    past: bool = False


def reply(prompt: str, *, as_json: bool = False) -> str:
    """Return what a model might answer to one of CompactBench's prompts, or to another one."""
    request = prompt.partition("prior conversation:")[2]
    if "QUESTION:" in request:
        artifact, _, question = request.rpartition("QUESTION:")
        return answer_question(
            artifact.rpartition("Based only on")[0], question.rpartition("ANSWER:")[0].strip()
        )
    if "The user now says:" in request:
        artifact, _, asked = request.rpartition("The user now says:")
        return answer_question(artifact, asked.partition("USER:")[2].partition("\n")[0].strip())
    turns = [(role.lower(), text.strip()) for role, text in _TURN.findall(prompt)]
    if as_json:
        return json.dumps(make_state([{"role": role, "content": text} for role, text in turns]))
    if turns:
        return "\n".join(text for role, text in turns if role == "user")
    lines = _PARTIAL.sub("", prompt.partition("\n\n")[2] or prompt).split("\n")
    return "\n".join([line for line in lines if line.strip() and not line.isupper()][-LAST:])


def answer_question(artifact: str, question: str) -> str:
    """Return the answer that an artifact gives to a question."""
    said = [statement for statement in read_artifact(artifact) if not statement.past]
    if _YES_OR_NO.match(question):
        return _answer_yes_or_no(
            [statement for statement in said if "forbidden" not in statement.kinds], question
        )
    asked = {kind for kind, words in _ASKED.items() if words.search(question)}
    if _PROPOSE.match(question):
        asked = {"decided", "open"}
        said = [statement for statement in said if "forbidden" not in statement.kinds]
    wanted = _word_stems(question)
    unasked = {"forbidden", "question"} - asked - ({"question"} if "open" in asked else set())
    # Two for each kind that is asked for, one for each word.
    scores = [
        2 * len(asked & one.kinds) + len(wanted & _word_stems(one.text)) - 2 * len(unasked & one.kinds)
        for one in said
    ]
    best = max([1, *scores])
    fitting = [statement.text for statement, score in zip(said, scores, strict=True) if score == best]
    return "\n".join(list(dict.fromkeys(fitting))[-MOST:]) or UNKNOWN


def read_artifact(artifact: str) -> Iterator[Statement]:
    """Yield the sentences of an artifact, each with the kinds that its heading and its words give it."""
    heading = ""
    prose: list[Fact] = []
    statements: list[tuple[str, Fact]] = []
    for place, line in enumerate(artifact.split("\n")):
        if line.startswith(("#", "<")) or line.endswith(":"):
            heading = line.lower()
            continue
        for text in split_sentences(_SPEAKER.sub("", line)):
            fact = Fact("statement", text, at=place)
            statements.append((heading, fact))
            if not line.startswith(("- ", "ASSISTANT: ")):
                prose.append(fact)
    past = {fact.text for fact in find_taken_back(prose)}
    past |= {fact.text.removeprefix(DROPPED) for _, fact in statements if fact.text.startswith(DROPPED)}
    for above, fact in statements:
        yield Statement(
            fact.text, _statement_kinds(above, fact.text), fact.text.removeprefix(DROPPED) in past
        )


def _statement_kinds(heading: str, text: str) -> frozenset[str]:
    tests = {
        "forbidden": "never" in heading or FORBIDS.search(text),
        "decided": "decision" in heading or DECIDES.search(text),
        "open": any(word in heading for word in ("unresolved", "deferred"))
        or any(words.search(text) for words in (OPEN, DEFERS))
        or ASKS.match(text),
        "named": find_roles([text]) or "entity" in heading,
        "number": re.search(r"\d", text),
        "question": text.endswith("?"),
    }
    return frozenset(kind for kind, holds in tests.items() if holds)


def _answer_yes_or_no(said: Sequence[Statement], question: str) -> str:
    """Answer yes with the sentence that says so; no if no clause has the names and most of the words."""
    wanted = _word_stems(question)
    names = _word_stems(" ".join(capitalised_words(question)))
    for statement in reversed(said):
        for clause in split_clauses(statement.text):
            has = _word_stems(clause)
            if names <= has and len(wanted & has) >= ENOUGH * len(wanted):
                return f"Yes: {statement.text}"
    return "No."


def _word_stems(text: str) -> set[str]:
    return {word[:STEM] for word in content_words(text.replace("'s ", " "))}
