"""Questions about long talks, answered by a real model from a folded view.

    python -m bench.questions DATA --model qwen.gguf --questions 120 --json bench/results/questions.json

The questions of LoCoMo and LongMemEval are answered by the same small model from

    whole talk             the talk, or its newest part where the reader takes no more
    whole talk and recall  the best hits of a search for the question, then the newest part that fits
    tail                   the newest messages
    summary and tail       a summary by the same model of what is older, then the newest messages
    refold                 the folded view
    refold and recall      a smaller folded view, then the best hits of `session.recall(question)`

All but the first two have the same tokens: a share of the talk, counted by the reader's own tokenizer, and at
most what the reader takes. Each message begins with its day, where the data tell it. Answers are short and
greedy. *F1* is the overlap of words with the right answer, as LoCoMo scores it: in small letters, without
articles and punctuation. *Answered* counts answers with an F1 of at least 0.5, and those that contain the
right answer. Intervals are bootstrapped over talks.
"""

import argparse
import os
import random
import re
import string
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from bench.surprise import show_progress
from bench.surprise_cases import Wire, count_messages, message_text
from bench.surprise_model import ChatPrompt, Reader, ReaderModel, TokenCounter
from bench.surprise_summaries import FoldAsk, keep_summary_and_tail, write_in_rounds
from bench.surprise_table import format_markdown, measure_share, print_rows, write_json, write_markdown
from bench.surprise_views import fold_to_target, keep_tail

import refold
from refold.evals.datasets import Dataset, Question, Talk, read_dataset

WHOLE, WHOLE_RECALL, TAIL = "whole talk", "whole talk and recall", "tail"
SUMMARY, REFOLD, REFOLD_RECALL = "summary and tail", "refold", "refold and recall"
METHODS: Final = (WHOLE, WHOLE_RECALL, TAIL, SUMMARY, REFOLD, REFOLD_RECALL)
WHOLE_METHODS: Final = (WHOLE, WHOLE_RECALL)
SHARES: Final = (0.1, 0.25)
MOST_TOKENS: Final = 30_000
"""Of a context: a small reader's window of 32k, less the instructions, the question and the answer."""
ANSWER_TOKENS: Final = 48
RECALL_SHARE: Final = 0.4
"""Share of the tokens that the hits of a search get; the view has the rest."""
HITS: Final = 20
ANSWERED_F1: Final = 0.5
SYSTEM: Final = "You answer questions about earlier conversations. You answer in a few words."
PROMPT: Final = (
    "What follows is what is remembered of earlier conversations.\n\n<memory>\n{memory}\n</memory>\n\n"
    "Answer the question from the memory with a short phrase, not a sentence; use its exact words, and dates "
    "where it has them.\n\nQuestion: {question}\nShort answer:"
)
_ARTICLES: Final = re.compile(r"\b(?:a|an|the|and)\b")
_MARKS: Final = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about a talk."""

    kind: str
    talk: Talk
    question: Question


@dataclass(slots=True)
class Answered:
    """What the reader answered from one view."""

    kind: str
    talk: str
    question: str
    right: str
    method: str
    size: str
    said: str
    f1: float
    is_right: bool
    tokens: int
    talk_tokens: int


def normalize_answer(text: str) -> list[str]:
    """Return the words of an answer as LoCoMo compares them.

    >>> normalize_answer("The 7 May, 2023")
    ['7', 'may', '2023']
    """
    return _ARTICLES.sub(" ", text.lower().translate(_MARKS)).split()


def score_f1(said: str, right: str) -> float:
    """Return the overlap of words between an answer and the right one.

    >>> score_f1("on 7 May", "7 May 2023")
    0.6666666666666666
    """
    mine, wanted = normalize_answer(said), normalize_answer(right)
    shared = sum((Counter(mine) & Counter(wanted)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(mine), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


def contains_answer(said: str, right: str) -> bool:
    """True if the words of the right answer stand in an answer, in order.

    >>> contains_answer("It was 7 May 2023, I think", "7 May 2023")
    True
    """
    wanted = " ".join(normalize_answer(right))
    return bool(wanted) and f" {wanted} " in f" {' '.join(normalize_answer(said))} "


def date_talk(talk: Talk) -> Talk:
    """Write its day before each message: a hit of a search stands alone."""
    if len(talk.dates) != len(talk.messages):
        return talk
    messages = [
        {**message, "content": f"[{date}] {message['content']}"}
        for message, date in zip(talk.messages, talk.dates, strict=True)
    ]
    return replace(talk, messages=messages)


def choose_questions(dataset: Dataset, most: int, seed: int, kinds: Sequence[str]) -> list[Asked]:
    """Choose questions by the seed, as many from each collection."""
    chosen: list[Asked] = []
    chance = random.Random(seed)  # noqa: S311  # the same questions for everybody
    for kind, talks in dataset.asked():
        dated = [date_talk(talk) for talk in talks]
        found = [Asked(kind, talk, question) for talk in dated for question in talk.questions]
        chosen += chance.sample(found, min(most, len(found))) if kind in kinds else []
    return chosen


class TalkViews:
    """The views of one talk; those without recall serve every question about it."""

    def __init__(self, counter: TokenCounter, talk: Talk, most_tokens: int) -> None:
        self.counter, self.talk, self.most_tokens = counter, talk, most_tokens
        self.tokens = count_messages(counter, talk.messages)
        self._folded: dict[int, Wire] = {}
        self._hits: dict[str, list[str]] = {}

    def budget(self, share: float) -> int:
        """Return the tokens of a view."""
        return min(int(self.tokens * share), self.most_tokens)

    def fold(self, budget: int) -> Wire:
        """Return the folded view; the same one for every question."""
        if budget not in self._folded:
            self._folded[budget] = fold_to_target(self.counter, self.talk.messages, budget)
        return self._folded[budget]

    def search(self, question: str) -> list[str]:
        """Return the texts that a session finds for a question, the best first."""
        if not self._hits:
            self._hits = search_talk(self.talk)
        return self._hits[question]

    def make_memory(self, method: str, budget: int, question: str) -> str:
        """Return the text that the reader gets, for the methods that need no model."""
        if method in {REFOLD_RECALL, WHOLE_RECALL}:
            room = int(budget * (1 - RECALL_SHARE))
            view = join_messages(self.fold(room) if method == REFOLD_RECALL else self.keep_newest(room))
            found = self.take_hits(question, budget - self.counter.count(view))
            return f"{view}\n\nFound for this question:\n{found}"
        return join_messages(self.fold(budget) if method == REFOLD else self.keep_newest(budget))

    def keep_newest(self, budget: int) -> Wire:
        """Return the newest part that fits."""
        return keep_tail(self.counter, self.talk.messages, budget, [])

    def take_hits(self, question: str, most: int) -> str:
        """Return the best hits within so many tokens; the last one is cut."""
        taken: list[str] = []
        for hit in self.search(question):
            left = most - self.counter.count("\n".join(taken))
            if left <= 20:
                break
            # four characters a token: talks are prose
            taken.append(hit[: left * 4])
        return "\n".join(taken)


def search_talk(talk: Talk) -> dict[str, list[str]]:
    """Say a talk in a session and search for each question."""
    with (
        tempfile.TemporaryDirectory() as folder,
        refold.open("talk", store=f"sqlite:{Path(folder) / 'log.db'}") as session,
    ):
        session.say(talk.messages)
        return {
            question.text: [hit.text for hit in session.recall(question.text, limit=HITS)]
            for question in talk.questions
        }


def join_messages(messages: Wire) -> str:
    """Return a view as text; speakers of a talk between people stand in the text itself."""
    return "\n".join(message_text(message) for message in messages)


def dated_question(question: Question) -> str:
    """Return a question with the day on which it is asked."""
    return f"{question.text} (asked on {question.date})" if question.date else question.text


def list_sizes(method: str, shares: Sequence[float]) -> Sequence[float]:
    """Return the sizes of a method: the whole talk has one."""
    return (1.0,) if method in WHOLE_METHODS else shares


def make_memories(
    reader: Reader, asked: Sequence[Asked], options: argparse.Namespace, progress: Callable[[str], None]
) -> Iterator[tuple[Asked, str, str, str, int]]:
    """Yield question, method, size, memory and the tokens of the talk."""
    views: dict[int, TalkViews] = {}
    for each in asked:
        views.setdefault(id(each.talk), TalkViews(reader, each.talk, options.most_tokens))
    summaries = write_summaries(reader, list(views.values()), options, progress)
    for number, each in enumerate(asked):
        made = views[id(each.talk)]
        for method in options.methods:
            for share in list_sizes(method, options.share):
                if method == SUMMARY:
                    memory = join_messages(summaries[id(each.talk), share])
                else:
                    memory = made.make_memory(method, made.budget(share), each.question.text)
                yield each, method, f"{share:.0%}", memory, made.tokens
        progress(f"views for {number + 1} of {len(asked)} questions")


def write_summaries(
    reader: Reader, views: Sequence[TalkViews], options: argparse.Namespace, progress: Callable[[str], None]
) -> dict[tuple[int, float], Wire]:
    """Return the views with a plain summary by the reader, by talk and share."""
    if SUMMARY not in options.methods:
        return {}

    def make(table: Any) -> dict[Any, Wire]:
        return {
            (id(each.talk), share): keep_summary_and_tail(
                reader,
                each.talk.messages,
                each.budget(share),
                FoldAsk(table, options.most_tokens),
            )
            for each in views
            for share in options.share
        }

    return write_in_rounds(reader, make, progress)


def answer_questions(
    reader: Reader, asked: Sequence[Asked], options: argparse.Namespace, progress: Callable[[str], None]
) -> list[Answered]:
    """Let the reader answer every question from every view."""
    memories = list(make_memories(reader, asked, options, progress))
    prompts = [
        ChatPrompt(SYSTEM, PROMPT.format(memory=memory, question=dated_question(each.question)))
        for each, _, _, memory, _ in memories
    ]
    progress(f"answering {len(prompts)} prompts")
    answers: list[Answered] = []
    for begin in range(0, len(prompts), GROUP):
        said = reader.write(prompts[begin : begin + GROUP], ANSWER_TOKENS)
        answers += [
            judge(memory, text, reader)
            for memory, text in zip(memories[begin : begin + GROUP], said, strict=True)
        ]
        progress(f"{len(answers)} of {len(prompts)} answers")
    return answers


GROUP: Final = 200
"""Prompts between two lines of progress; they are sorted by size and answered in batches."""


def judge(made: tuple[Asked, str, str, str, int], said: str, counter: TokenCounter) -> Answered:
    """Compare an answer with the right one."""
    asked, method, size, memory, talk_tokens = made
    said = said.splitlines()[0] if said else ""
    right = asked.question.answer
    f1 = score_f1(said, right)
    is_right = f1 >= ANSWERED_F1 or contains_answer(said, right)
    tokens = counter.count(memory)
    name, question = asked.talk.name, asked.question.text
    return Answered(asked.kind, name, question, right, method, size, said, f1, is_right, tokens, talk_tokens)


def make_rows(answers: Sequence[Answered]) -> list[dict[str, Any]]:
    """Return the table: one row for each collection, method and size."""
    rows = []
    for kind, method, size in dict.fromkeys((each.kind, each.method, each.size) for each in answers):
        here = [each for each in answers if (each.kind, each.method, each.size) == (kind, method, size)]
        tokens = sum(each.tokens for each in here) / sum(each.talk_tokens for each in here)
        rows.append(
            {
                "kind": kind,
                "method": method,
                "size": size,
                "F1": measure_share((each.talk, (each.f1, 1.0)) for each in here),
                "answered": measure_share((each.talk, (float(each.is_right), 1.0)) for each in here),
                "tokens": round(tokens, 4),
                "questions": len(here),
                "talks": len({each.talk for each in here}),
            }
        )
    order = {"100%": 0.0}
    return sorted(rows, key=lambda row: (row["kind"], order.get(row["size"], float(row["size"].rstrip("%")))))


def parse_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("data", type=Path, help="a folder with LoCoMo or LongMemEval")
    add("--model", type=Path, action="append", required=True, help="a GGUF file or a Hugging Face folder")
    add("--cache", type=Path, help="keep unpacked weights here")
    add("--questions", type=int, default=120, help="questions of each collection at most")
    add("--kind", choices=("locomo", "longmemeval"), action="append", help="both by default")
    add("--methods", help=f"names with commas between them; all by default: {', '.join(METHODS)}")
    add("--share", type=float, action="append", help="tokens of a view; 0.1 and 0.25 by default")
    add("--most-tokens", type=int, default=MOST_TOKENS, help="of a context that the reader takes")
    add("--seed", type=int, default=3)
    add("--json", type=Path, help="write the tables and every answer to this file")
    add("--markdown", type=Path, help="write the tables for the documentation to this file")
    options = parser.parse_args()
    options.methods = [name.strip() for name in options.methods.split(",")] if options.methods else METHODS
    options.share, options.kind = options.share or SHARES, options.kind or ("locomo", "longmemeval")
    return options


def main() -> None:
    """Measure, print the tables, write them."""
    options = parse_options()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    asked = choose_questions(read_dataset(options.data), options.questions, options.seed, options.kind)
    command, shares = "python -m bench.questions DATA --model FILE", ("F1", "answered")
    results, tables = [], []
    for model in options.model:
        began, reader = time.monotonic(), ReaderModel(model, options.cache)
        answers = answer_questions(reader, asked, options, show_progress)
        rows = make_rows(answers)
        print_rows(rows, shares, "kind")
        result = {"model": reader.name, "device": reader.device, "seconds": round(time.monotonic() - began)}
        results.append({**result, "rows": rows, "answers": [asdict(each) for each in answers]})
        write_json(options.json, {"command": command, "seed": options.seed, "readers": results})
        for kind in options.kind:
            mine = [row for row in rows if row["kind"] == kind]
            title = f"{kind}, read by {reader.name}"
            tables.append(format_markdown(title, mine, shares, ("questions", "talks")))
    write_markdown(options.markdown, command, tables)


if __name__ == "__main__":
    main()
