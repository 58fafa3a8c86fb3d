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
from refold.core.facts.sentences import sentences
from refold.core.facts.words import capitals, telling
from refold.evals.cues import ASKS, DECIDES, DEFERS, FORBIDS, OPEN
from refold.evals.roles import clauses, roles
from refold.evals.states import DROPPED, state_of, taken_back

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
class Said:
    """A sentence of an artifact, and of which kinds it is."""

    text: str
    kinds: frozenset[str]
    past: bool = False


def reply(prompt: str, *, as_json: bool = False) -> str:
    """What a model might answer to one of CompactBench's prompts, or to another one."""
    told = prompt.partition("prior conversation:")[2]
    if "QUESTION:" in told:
        artifact, _, question = told.rpartition("QUESTION:")
        return answer(artifact.rpartition("Based only on")[0], question.rpartition("ANSWER:")[0].strip())
    if "The user now says:" in told:
        artifact, _, asked = told.rpartition("The user now says:")
        return answer(artifact, asked.partition("USER:")[2].partition("\n")[0].strip())
    turns = [(role.lower(), text.strip()) for role, text in _TURN.findall(prompt)]
    if as_json:
        return json.dumps(state_of([{"role": role, "content": text} for role, text in turns]))
    if turns:
        return "\n".join(text for role, text in turns if role == "user")
    lines = _PARTIAL.sub("", prompt.partition("\n\n")[2] or prompt).split("\n")
    return "\n".join([line for line in lines if line.strip() and not line.isupper()][-LAST:])


def answer(artifact: str, question: str) -> str:
    """The answer that an artifact gives to a question."""
    said = [one for one in read(artifact) if not one.past]
    if _YES_OR_NO.match(question):
        return _yes_or_no([one for one in said if "forbidden" not in one.kinds], question)
    asked = {kind for kind, words in _ASKED.items() if words.search(question)}
    if _PROPOSE.match(question):
        asked = {"decided", "open"}
        said = [one for one in said if "forbidden" not in one.kinds]
    wanted = _stems(question)
    scores = [_score(one, asked, wanted) for one in said]
    best = max([1, *scores])
    fitting = [one.text for one, score in zip(said, scores, strict=True) if score == best]
    return "\n".join(list(dict.fromkeys(fitting))[-MOST:]) or UNKNOWN


def read(artifact: str) -> Iterator[Said]:
    """The sentences of an artifact, each with what its heading and its words make it."""
    heading = ""
    prose: list[Fact] = []
    found: list[tuple[str, Fact]] = []
    for place, line in enumerate(artifact.split("\n")):
        if line.startswith(("#", "<")) or line.endswith(":"):
            heading = line.lower()
            continue
        for text in sentences(_SPEAKER.sub("", line)):
            fact = Fact("statement", text, at=place)
            found.append((heading, fact))
            if not line.startswith(("- ", "ASSISTANT: ")):
                prose.append(fact)
    past = {fact.text for fact in taken_back(prose)}
    past |= {fact.text.removeprefix(DROPPED) for _, fact in found if fact.text.startswith(DROPPED)}
    for above, fact in found:
        yield Said(fact.text, _kinds(above, fact.text), fact.text.removeprefix(DROPPED) in past)


def _kinds(heading: str, text: str) -> frozenset[str]:
    tests = {
        "forbidden": "never" in heading or FORBIDS.search(text),
        "decided": "decision" in heading or DECIDES.search(text),
        "open": any(word in heading for word in ("unresolved", "deferred"))
        or any(words.search(text) for words in (OPEN, DEFERS))
        or ASKS.match(text),
        "named": roles([text]) or "entity" in heading,
        "number": re.search(r"\d", text),
        "question": text.endswith("?"),
    }
    return frozenset(kind for kind, holds in tests.items() if holds)


def _score(said: Said, asked: set[str], wanted: set[str]) -> int:
    """How well a sentence answers: two for each kind that is asked for, one for each word."""
    unasked = {"forbidden", "question"} & said.kinds - asked - ({"question"} if "open" in asked else set())
    return 2 * len(asked & said.kinds) + len(wanted & _stems(said.text)) - 2 * len(unasked)


def _yes_or_no(said: Sequence[Said], question: str) -> str:
    """Yes, with the sentence that says so; no where no clause has the names and most of the words."""
    wanted = _stems(question)
    names = _stems(" ".join(capitals(question)))
    for one in reversed(said):
        for clause in clauses(one.text):
            has = _stems(clause)
            if names <= has and len(wanted & has) >= ENOUGH * len(wanted):
                return f"Yes: {one.text}"
    return "No."


def _stems(text: str) -> set[str]:
    return {word[:STEM] for word in telling(text.replace("'s ", " "))}
