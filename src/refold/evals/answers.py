"""Answers: how many of the words that answer a question are in the view, and whether a model finds them.

Without a model: words of an answer that its evidence holds, kept where they still stand beside a neighbour
from the evidence. With recall: the same, with the view and the first ten hits of a search for the question's
words. With a model: it gets the view and the question, and its answer is judged by the words it shares with
the right one.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from refold.core.flow import Answer, Ask
from refold.errors import RefoldError
from refold.evals.layouts import Question, Talk
from refold.evals.recalls import Recalled
from refold.evals.reuse import shown
from refold.evals.tallies import Tally, row
from refold.evals.ways import Contest, tokens

WORD: Final = re.compile(r"\w+(?:[.,:'’-]\w+)*")
COMMON: Final = frozenset(
    "the a an and or of to in on at for with by from is are was were be been it its this that i my me "  # noqa: SIM905
    "you your he she they we his her their our as not no yes so than then would could should may "
    "might also like such which who what when where how do does did have has had about more most some "
    "any all will can user prefer responses".split()
)
WORDS, RECALL, ANSWERED = "answers", "answers with recall", "answered by the model"
RIGHT: Final = 0.5
"""The share of an answer's telling words that a model's answer must have to count as right."""
ANSWER_TOKENS: Final = 120
_PROMPT: Final = (
    "What follows is all that is remembered of earlier conversations.\n\n<memory>\n{view}\n</memory>\n\n"
    "Answer the question from the memory, in one short sentence. If the memory does not tell, say so.\n\n"
    "Question: {question}\nAnswer:"
)


def measured(
    name: str, talks: Sequence[Talk], contest: Contest, shares: Sequence[float]
) -> Iterator[dict[str, Any]]:
    """The rows of each way at each share of the tokens."""
    recalled = [Recalled.of(talk, contest.told) for talk in talks]
    kinds = (WORDS, RECALL, *((ANSWERED,) if contest.ask else ()))
    for share in shares:
        tallies = {(kind, way.name): Tally() for kind in kinds for way in contest.ways}
        for number, (talk, hits) in enumerate(zip(talks, recalled, strict=True)):
            contest.told(f"answers, {name}, {share:.0%}", number, len(talks))
            _count(talk, hits, share, contest, tallies)
        for (kind, way_name), tally in tallies.items():
            yield row(f"{kind}, {name}, {share:.0%}", way_name, tally)


def _count(
    talk: Talk, hits: Recalled, share: float, contest: Contest, tallies: dict[tuple[str, str], Tally]
) -> None:
    """One talk with all its questions, under every way."""
    size = tokens(talk.messages)
    for way in contest.ways:
        view = way.fold(talk.messages, int(size * share), contest.ask)
        tallies[WORDS, way.name].add(0, 0, tokens=tokens(view), of=size)
        text = shown(view)
        said = spelt(text)
        for question, found in zip(talk.questions, hits.texts, strict=True):
            wanted = in_context(question, talk)
            tallies[WORDS, way.name].add(sum(_stands(pairs, said) for pairs in wanted), len(wanted))
            more = said + spelt("\n".join(found))
            tallies[RECALL, way.name].add(sum(_stands(pairs, more) for pairs in wanted), len(wanted))
            if contest.ask:
                right = judged(replied(contest.ask, text, question.text), question.answer)
                tallies[ANSWERED, way.name].add(right, 1)


def spelt(text: str) -> str:
    """The words of a text, in small letters, a blank around each."""
    return " " + " ".join(word.lower() for word in WORD.findall(text)) + " "


def in_context(question: Question, talk: Talk) -> list[list[str]]:
    """For each word of an answer that the evidence holds: the pairs of words it stands in there."""
    wanted = telling(question.answer)
    pairs: dict[str, list[str]] = {}
    for place in question.evidence:
        words = [word.lower() for word in WORD.findall(str(talk.messages[place]["content"]))]
        for at, word in enumerate(words):
            if word in wanted:
                around = words[max(0, at - 1) : at + 1], words[at : at + 2]
                pairs.setdefault(word, []).extend(" ".join(two) for two in around if len(two) == 2)
    return list(pairs.values())


def telling(text: str) -> set[str]:
    """The words of an answer that tell something."""
    return {word.lower() for word in WORD.findall(text)} - COMMON


def judged(said: str, answer: str) -> bool:
    """Whether an answer has enough of the telling words of the right one; no model judges.

    >>> judged("It was on 7 May 2023, I believe.", "7 May 2023")
    True
    """
    wanted = telling(answer) or {word.lower() for word in WORD.findall(answer)}
    found = {word.lower() for word in WORD.findall(said)}
    return bool(wanted) and len(wanted & found) >= RIGHT * len(wanted)


def _stands(pairs: Sequence[str], said: str) -> bool:
    return any(f" {pair} " in said for pair in pairs)


def replied(ask: Callable[[Any], Any], view: str, question: str) -> str:
    """What a model answers to a question when it has a view and nothing else; "" where it fails."""
    prompt = _PROMPT.format(view=view.replace("</memory", "&lt;/memory"), question=question)
    try:
        said = ask(Ask(prompt, max_tokens=ANSWER_TOKENS, purpose="question"))
    except RefoldError:
        return ""
    return said.text if isinstance(said, Answer) else str(said)
