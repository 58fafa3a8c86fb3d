"""Answers: how many of the words that answer a question are in the view, and whether a model finds them.

Without a model: words of an answer that its evidence holds; plainly, kept where they stand anywhere in the
view, and strictly, where they still stand beside a neighbour from the evidence. With recall: the strict one,
with the view and the first ten hits of a search for the question's words. With a model: it gets the view and
the question, and its answer is judged by the words it shares with the right one.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from refold.core.compaction.flow import Answer, Ask
from refold.errors import RefoldError
from refold.evals.layouts import Question, Talk
from refold.evals.recalls import Recalled
from refold.evals.reuse import shown
from refold.evals.tallies import Tally, row
from refold.evals.ways import Asker, Contest, tokens

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


def measured(
    name: str,
    talks: Sequence[Talk],
    contest: Contest,
    shares: Sequence[float],
    kinds: Sequence[str] = (ANYWHERE, WORDS, RECALL, ANSWERED),
) -> Iterator[dict[str, Any]]:
    """The rows of each way at each share of the tokens; nobody is asked where there is no model."""
    kinds = [kind for kind in kinds if kind != ANSWERED or contest.ask]
    nothing = Recalled((), ())
    recalled = [Recalled.of(talk, contest.told) if RECALL in kinds else nothing for talk in talks]
    for share in shares:
        contest.begin()
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
    budget = int(size * share)
    for way in contest.ways:
        mine = {kind: tally for (kind, name), tally in tallies.items() if name == way.name}
        trial = contest.trial(way, talk.messages, budget)
        for tally in mine.values():
            tally.tried(trial.asks, trial.why)
        if trial.view is None:
            continue
        for kind in {ANYWHERE, WORDS} & set(mine):
            mine[kind].add(0, 0, tokens=tokens(trial.view), of=size)
            mine[kind].spent(tokens(trial.view), budget)
        _judge(talk, hits, shown(trial.view), contest.ask, mine)


def _judge(talk: Talk, hits: Recalled, text: str, ask: Asker, tallies: dict[str, Tally]) -> None:
    """Every question of a talk against one view."""
    said = spelt(text)
    there = set(said.split())
    for number, question in enumerate(talk.questions):
        wanted = in_context(question, talk)
        for kind, tally in tallies.items():
            if kind == ANSWERED and ask is not None:
                tally.add(judged(replied(ask, text, question.text), question.answer), 1)
            elif kind == ANYWHERE:
                tally.add(sum(word in there for word in wanted), len(wanted))
            elif kind in {WORDS, RECALL}:
                more = said if kind == WORDS else said + spelt("\n".join(hits.texts[number]))
                tally.add(sum(_stands(pairs, more) for pairs in wanted.values()), len(wanted))


def spelt(text: str) -> str:
    """The words of a text, in small letters, a blank around each."""
    return " " + " ".join(word.lower() for word in WORD.findall(text)) + " "


def in_context(question: Question, talk: Talk) -> dict[str, list[str]]:
    """For each word of an answer that the evidence holds: the pairs of words it stands in there."""
    wanted = telling(question.answer)
    pairs: dict[str, list[str]] = {}
    for place in question.evidence:
        words = [word.lower() for word in WORD.findall(str(talk.messages[place]["content"]))]
        for at, word in enumerate(words):
            if word in wanted:
                around = words[max(0, at - 1) : at + 1], words[at : at + 2]
                pairs.setdefault(word, []).extend(" ".join(two) for two in around if len(two) == 2)
    return pairs


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
