"""Answers: measure whether the view, or a search, still holds the words that answer a question.

Without a model, each word of an answer counts if the evidence holds it. It is kept *anywhere* if it stands in
the view, and kept *strictly* if it still stands beside a neighbour from the evidence. With recall, the strict
measure also reads the first ten hits of a search for the question. With a model, the model gets the view and
the question, and its answer is compared with the right one word by word.
"""

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from refold import session as sessions
from refold.core.compaction.flow import Answer, Ask
from refold.errors import RefoldError
from refold.evals.datasets import Question, Talk
from refold.evals.methods import AskFunction, Comparison, Progress, count_tokens
from refold.evals.tables import Tally, make_row
from refold.replay.reused_names import join_texts

FIRST: Final = 10
"""Hits that are looked at."""


@dataclass(frozen=True, slots=True)
class SearchHits:
    """The hits of the search for each question of a talk."""

    places: tuple[tuple[int, ...], ...]
    texts: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, talk: Talk, progress: Progress) -> "SearchHits":
        """Say a talk in a session of its own and ask it every question."""
        progress(f"searching {talk.name}", 0, 0)
        places: list[tuple[int, ...]] = []
        texts: list[tuple[str, ...]] = []
        with (
            tempfile.TemporaryDirectory() as folder,
            sessions.open("talk", store=f"sqlite:{Path(folder) / 'log.db'}") as session,
        ):
            session.say(talk.messages)
            for question in talk.questions:
                hits = session.recall(question.text, limit=FIRST)
                places.append(tuple(hit.number - 1 for hit in hits))
                texts.append(tuple(hit.text for hit in hits))
        return cls(tuple(places), tuple(texts))


def measure_recall(name: str, talks: Sequence[Talk], progress: Progress) -> Iterator[dict[str, Any]]:
    """Yield how often a turn of the evidence is among the first ten hits."""
    tally = Tally()
    for talk in talks:
        hits = SearchHits.of(talk, progress)
        for question, places in zip(talk.questions, hits.places, strict=True):
            if question.evidence:
                tally.add(int(not set(question.evidence).isdisjoint(places)), 1)
    yield make_row(f"recall, evidence in the first {FIRST}, {name}", "refold", tally)


WORD: Final = re.compile(r"\w+(?:[.,:'’-]\w+)*")
COMMON: Final = frozenset(
    "the a an and or of to in on at for with by from is are was were be been it its this that i my me "  # noqa: SIM905
    "you your he she they we his her their our as not no yes so than then would could should may "
    "might also like such which who what when where how do does did have has had about more most some "
    "any all will can user prefer responses".split()
)
ANYWHERE, WORDS = "answer words", "answers"
RECALL, ANSWERED = "answers with recall", "answered by the model"
RIGHT: Final = 0.5
"""The share of an answer's telling words that a model's answer must have to count as right."""
ANSWER_TOKENS: Final = 120
_PROMPT: Final = (
    "What follows is all that is remembered of earlier conversations.\n\n<memory>\n{view}\n</memory>\n\n"
    "Answer the question from the memory, in one short sentence. If the memory does not tell, say so.\n\n"
    "Question: {question}\nAnswer:"
)


def measure_answers(
    name: str,
    talks: Sequence[Talk],
    comparison: Comparison,
    shares: Sequence[float],
    kinds: Sequence[str] = (ANYWHERE, WORDS, RECALL, ANSWERED),
) -> Iterator[dict[str, Any]]:
    """Yield the rows of each method at each share of the tokens; nobody is asked if there is no model."""
    kinds = [kind for kind in kinds if kind != ANSWERED or comparison.ask]
    nothing = SearchHits((), ())
    recalled = [SearchHits.of(talk, comparison.progress) if RECALL in kinds else nothing for talk in talks]
    for share in shares:
        comparison.begin()
        tallies = {(kind, method.name): Tally() for kind in kinds for method in comparison.methods}
        for number, (talk, hits) in enumerate(zip(talks, recalled, strict=True)):
            comparison.progress(f"answers, {name}, {share:.0%}", number, len(talks))
            _count_talk(talk, hits, share, comparison, tallies)
        for (kind, way_name), tally in tallies.items():
            yield make_row(f"{kind}, {name}, {share:.0%}", way_name, tally)


def _count_talk(
    talk: Talk, hits: SearchHits, share: float, comparison: Comparison, tallies: dict[tuple[str, str], Tally]
) -> None:
    """One talk with all its questions, under every way."""
    size = count_tokens(talk.messages)
    budget = int(size * share)
    for method in comparison.methods:
        mine = {kind: tally for (kind, name), tally in tallies.items() if name == method.name}
        trial = comparison.trial(method, talk.messages, budget)
        for tally in mine.values():
            tally.count_fold(trial.asks, trial.why)
        if trial.view is None:
            continue
        for kind in {ANYWHERE, WORDS} & set(mine):
            mine[kind].add(0, 0, tokens=count_tokens(trial.view), of=size)
            mine[kind].count_tokens(count_tokens(trial.view), budget)
        _judge_questions(talk, hits, join_texts(trial.view), comparison.ask, mine)


def _judge_questions(
    talk: Talk, hits: SearchHits, text: str, ask: AskFunction, tallies: dict[str, Tally]
) -> None:
    """Judge every question of a talk against one view."""
    said = join_words(text)
    there = set(said.split())
    for number, question in enumerate(talk.questions):
        wanted = find_answer_pairs(question, talk)
        for kind, tally in tallies.items():
            if kind == ANSWERED and ask is not None:
                tally.add(is_right_answer(ask_question(ask, text, question.text), question.answer), 1)
            elif kind == ANYWHERE:
                tally.add(sum(word in there for word in wanted), len(wanted))
            elif kind in {WORDS, RECALL}:
                more = said if kind == WORDS else said + join_words("\n".join(hits.texts[number]))
                found = (any(f" {pair} " in more for pair in pairs) for pairs in wanted.values())
                tally.add(sum(found), len(wanted))


def join_words(text: str) -> str:
    """Return the words of a text, in small letters, a blank around each."""
    return " " + " ".join(word.lower() for word in WORD.findall(text)) + " "


def find_answer_pairs(question: Question, talk: Talk) -> dict[str, list[str]]:
    """For each word of an answer that the evidence holds: the pairs of words it stands in there."""
    wanted = content_words(question.answer)
    pairs: dict[str, list[str]] = {}
    for place in question.evidence:
        words = [word.lower() for word in WORD.findall(str(talk.messages[place]["content"]))]
        for at, word in enumerate(words):
            if word in wanted:
                around = words[max(0, at - 1) : at + 1], words[at : at + 2]
                pairs.setdefault(word, []).extend(" ".join(two) for two in around if len(two) == 2)
    return pairs


def content_words(text: str) -> set[str]:
    """Return the words of an answer that tell something."""
    return {word.lower() for word in WORD.findall(text)} - COMMON


def is_right_answer(said: str, answer: str) -> bool:
    """True if an answer has enough of the distinctive words of the right one; no model judges.

    >>> is_right_answer("It was on 7 May 2023, I believe.", "7 May 2023")
    True
    """
    wanted = content_words(answer) or {word.lower() for word in WORD.findall(answer)}
    words = {word.lower() for word in WORD.findall(said)}
    return bool(wanted) and len(wanted & words) >= RIGHT * len(wanted)


def ask_question(ask: Callable[[Any], Any], view: str, question: str) -> str:
    """Return a model's answer to a question when it has a view and nothing else; "" if it fails."""
    prompt = _PROMPT.format(view=view.replace("</memory", "&lt;/memory"), question=question)
    try:
        said = ask(Ask(prompt, max_tokens=ANSWER_TOKENS, purpose="question"))
    except RefoldError:
        return ""
    return said.text if isinstance(said, Answer) else str(said)
